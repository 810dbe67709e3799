//! What keeps the repository in order. `cargo run -p xtask -- tidy | generate | new KIND NAME`.

mod format;
mod generate;
mod new;
#[path = "../../crates/study/build/rooms.rs"]
mod rooms;
mod rust;
mod score_disks;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo run -p xtask -- COMMAND

Commands:
  tidy            Check the rules of the house (also runs inside `make test`)
  generate        Write the generated parts of the documents
  format          Format every source: `cargo fmt` misses modules that a macro declares
  new KIND NAME   Start a model: file, the line of its slot, docs page, study
  score-disks DIR Score the disk model against measured drives (DiskSim validation files)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["tidy"] => root().and_then(|root| tidy::run(&root)),
        ["generate"] => root().and_then(|root| generate::run(&root)),
        ["format"] => root().and_then(|root| format::run(&root)),
        ["new", kind, name] => root().and_then(|root| new::run(&root, kind, name)),
        ["score-disks", directory] => score_disks::run(Path::new(directory)),
        ["new"] => {
            println!("{}", new::kinds_help());
            Ok(())
        }
        ["new", ..] => Err(format!("usage: xtask new KIND NAME\n{}", new::kinds_help())),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}\n\n{}", new::kinds_help());
            Ok(())
        }
        [other, ..] => Err(format!("unknown command `{other}`\n\n{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository that this is called in, wherever the program was built.
fn root() -> Result<PathBuf, String> {
    let here = std::env::current_dir().map_err(|e| format!("cannot tell the folder: {e}"))?;
    root_above(&here)
}

/// The nearest repository of ours at or above `here`.
fn root_above(here: &Path) -> Result<PathBuf, String> {
    let is_root = |folder: &&Path| folder.join(new::REGISTRY).is_file();
    here.ancestors().find(is_root).map(Path::to_owned).ok_or_else(|| {
        format!(
            "{} is not in a copy of the repository: expected {} there or above; cd into one",
            here.display(),
            new::REGISTRY
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_the_one_that_one_is_called_in() {
        let name = format!("blocklab-root-{}", std::process::id());
        let other = std::env::temp_dir().join(name);
        let inside = other.join("docs/howto");
        std::fs::create_dir_all(&inside).unwrap();
        let lost = root_above(&inside).unwrap_err();
        let registry = other.join(new::REGISTRY);
        std::fs::create_dir_all(registry.parent().unwrap()).unwrap();
        std::fs::write(&registry, "").unwrap();
        let found = root_above(&inside);
        std::fs::remove_dir_all(&other).unwrap();
        assert_eq!(found, Ok(other));
        assert!(lost.contains("cd into one"), "{lost}");
        assert!(root().unwrap().join("xtask").is_dir());
    }
}

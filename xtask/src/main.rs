//! What keeps the repository in order. `cargo run -p xtask -- tidy | generate | new KIND NAME`.

mod generate;
mod new;
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
  new KIND NAME   Start a model: file, registry line, docs page, study
  score-disks DIR Score the disk model against measured drives (DiskSim validation files)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["tidy"] => tidy::run(&root()),
        ["generate"] => generate::run(&root()),
        ["new", kind, name] => new::run(&root(), kind, name),
        ["score-disks", directory] => score_disks::run(Path::new(directory)),
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

/// The root of the repository: the folder above this crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_owned()
}

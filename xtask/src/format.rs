//! Formatting: `cargo fmt` follows `mod` lines, and sees none of those that a macro writes.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::rust::Code;
use crate::tree::{File, Tree};

/// Format every source of the repository.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let cargo = Command::new("cargo").args(["fmt", "--all"]).current_dir(root).status();
    if !cargo.map_err(|why| format!("cannot run cargo: {why}"))?.success() {
        return Err("cargo fmt failed".into());
    }
    let tree = Tree::read(root)?;
    for file in unreached(&tree) {
        let text = formatted(&file.text).map_err(|why| format!("{}: {why}", file.path))?;
        if text != file.text {
            std::fs::write(root.join(&file.path), text)
                .map_err(|why| format!("cannot write {}: {why}", file.path))?;
            println!("wrote {}", file.path);
        }
    }
    Ok(())
}

/// A source as rustfmt writes it, by the `rustfmt.toml` at or above the current folder.
pub(crate) fn formatted(source: &str) -> Result<String, String> {
    let unable = |why: std::io::Error| format!("cannot run rustfmt: {why}");
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024"]).stdin(Stdio::piped());
    let child = rustfmt.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(unable)?;
    // It reads everything before it writes anything.
    child.stdin.take().expect("it was piped").write_all(source.as_bytes()).map_err(unable)?;
    let output = child.wait_with_output().map_err(unable)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    String::from_utf8(output.stdout).map_err(|why| why.to_string())
}

/// The sources of the rooms that no chain of `mod` lines leads to.
pub(crate) fn unreached(tree: &Tree) -> Vec<&File> {
    let sources = || tree.with_extension("rs").filter(|file| file.path.contains("/src/"));
    let is_root = |file: &&File| file.path.ends_with("/lib.rs") || file.path.ends_with("/main.rs");
    let mut next: Vec<&File> = sources().filter(is_root).collect();
    let mut reached = BTreeSet::new();
    while let Some(file) = next.pop() {
        if reached.insert(file.path.as_str()) {
            let named = places_below(file);
            next.extend(sources().filter(|file| named.contains(&file.path)));
        }
    }
    sources().filter(|file| !reached.contains(file.path.as_str())).collect()
}

/// Where the modules may lie that a file declares.
fn places_below(file: &File) -> BTreeSet<String> {
    let (folder, name) = file.path.rsplit_once('/').expect("it lies in a folder");
    let folder = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        name => format!("{folder}/{}", name.trim_end_matches(".rs")),
    };
    let code = Code::scan(&file.text);
    let names = code.text.lines().filter_map(|line| {
        let name = line.trim().strip_suffix(';')?.rsplit_once("mod ")?.1;
        Some([format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")])
    });
    names.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_macro_declares_is_not_reached_nor_what_is_below_it() {
        let tree = Tree::planted(&[
            ("crates/a/src/lib.rs", "pub mod b;\nregistry! { d }\n// mod f;\n"),
            ("crates/a/src/b.rs", "pub(crate) mod c;"),
            ("crates/a/src/b/c/mod.rs", ""),
            ("crates/a/src/d.rs", "mod e;"),
            ("crates/a/src/d/e.rs", ""),
            ("crates/a/src/f.rs", ""),
        ]);
        let paths: Vec<&str> = unreached(&tree).iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/src/d.rs", "crates/a/src/d/e.rs", "crates/a/src/f.rs"]);
    }

    #[test]
    fn sources_are_formatted_by_the_rules_of_the_house() {
        let line = format!("fn f() {{\n    {}(1, 2);\n}}\n", "g".repeat(80));
        assert_eq!(formatted(&line.replace("(1, 2)", "( 1,2 )")).unwrap(), line);
        assert!(formatted("fn f(").unwrap_err().contains("error"));
    }
}

//! Nothing in the code is left for later: it is done, or it is an issue.

use super::Finding;
use crate::rust::has_word;
use crate::tree::{File, Tree};

/// Written in two halves so that this file does not find itself.
const LEFT: [(&str, &str); 8] = [
    ("TO", "DO"),
    ("FIX", "ME"),
    ("X", "XX"),
    ("to", "do!"),
    ("unimple", "mented!"),
    ("db", "g!"),
    // What a merge leaves behind.
    ("<<<<", "<<<"),
    (">>>>", ">>>"),
];

/// What a merge or an editor leaves beside a file.
const BESIDE: [&str; 5] = ["orig", "rej", "bak", "swp", "tmp"];

const EXTENSIONS: [&str; 8] = ["rs", "py", "pyi", "sh", "toml", "yml", "md", "Makefile"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let words = LEFT.map(|(a, b)| format!("{a}{b}"));
    let beside = |file: &&File| BESIDE.contains(&file.extension());
    let left =
        |file: &File| Finding::new(&file.path, 1, "a file that a tool left behind", "git rm it");
    let mut findings: Vec<Finding> = tree.files.iter().filter(beside).map(left).collect();
    for file in tree.files.iter().filter(|f| EXTENSIONS.contains(&f.extension())) {
        for (number, line) in file.lines() {
            for word in words.iter().filter(|word| has_marker(line, word)) {
                let fix = "do it now, or open an issue and delete the note";
                findings.push(Finding::new(&file.path, number, format!("`{word}`"), fix));
            }
        }
    }
    findings
}

fn has_marker(line: &str, marker: &str) -> bool {
    match marker.strip_suffix('!') {
        // The `!` ends the word by itself.
        Some(name) => has_word(line, name) && line.contains(marker),
        None => has_word(line, marker),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_marker_is_found() {
        for (a, b) in LEFT {
            let text = format!("fine\n// {a}{b} later\n");
            let lines: Vec<_> =
                check(&Tree::planted(&[("a.rs", &text)])).iter().map(|f| f.line).collect();
            assert_eq!(lines, [2], "{a}{b}");
        }
        assert!(check(&Tree::planted(&[("a.rs", "let todos = 1;\n")])).is_empty());
        assert_eq!(check(&Tree::planted(&[("a.rs.orig", "let a = 1;\n")])).len(), 1);
    }
}

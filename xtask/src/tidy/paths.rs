//! Nothing names a place on one machine: no absolute path of a home or work folder, no registry
//! other than the public one.

use super::Finding;
use crate::tree::{File, Tree};

/// Top folders that differ from machine to machine. `/dev`, `/sys`, `/proc` and `/usr` do not.
const FOLDERS: [&str; 5] = ["work", "root", "home", "tmp", "Users"];

/// (start of the path of a file, folder, why it may name it).
const ALLOWED: [(&str, &str, &str); 6] = [
    ("traces/", "", "recorded data: the names are part of the recording"),
    ("crates/attach/src/travel/", "tmp", "a folder of the guest's"),
    ("crates/attach/src/travel/inside.rs", "root", "a folder of the guest's"),
    ("docs/travel.md", "tmp", "a folder of the guest's"),
    ("docs/travel.md", "root", "a folder of the guest's"),
    ("scripts/measure-travel.py", "tmp", "a folder of the guest's"),
];

const INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Settings that choose where packages come from, in two halves so that this file is not found.
const REGISTRY_SETTINGS: [(&str, &str); 5] = [
    ("index", "-url"),
    ("replace", "-with"),
    ("artif", "actory"),
    ("registry", "-index"),
    ("PIP_", "INDEX"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.files.iter().flat_map(check_paths).collect();
    findings.extend(tree.files.iter().flat_map(check_registries));
    findings
}

fn check_paths(file: &File) -> Vec<Finding> {
    let allowed = |folder: &str| {
        let mut rows = ALLOWED.iter();
        rows.any(|(start, f, _)| file.path.starts_with(start) && (f.is_empty() || *f == folder))
    };
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for folder in FOLDERS.into_iter().filter(|f| names_folder(line, f) && !allowed(f)) {
            let what = format!("`/{folder}` is a place on one machine");
            let fix = "use a relative path, a temporary folder from the system, or a parameter";
            findings.push(Finding::new(&file.path, number, what, fix));
        }
    }
    findings
}

/// Does `line` hold an absolute path whose first folder is `folder`?
fn names_folder(line: &str, folder: &str) -> bool {
    let path = format!("/{folder}");
    line.match_indices(&path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        // Part of a longer path, an address or a word: `a/tmp`, `~/tmp`, `${X}/tmp`, `/tmpfs`.
        let inside = |c: char| c.is_alphanumeric() || "_-./~}>)]*$".contains(c);
        let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        !before.is_some_and(inside) && !after.is_some_and(goes_on)
    })
}

fn check_registries(file: &File) -> Vec<Finding> {
    let settings = REGISTRY_SETTINGS.map(|(a, b)| format!("{a}{b}"));
    let lock = file.path == "Cargo.lock";
    let wrong = |line: &str| {
        (lock && line.contains("registry+") && !line.contains(INDEX))
            || settings.iter().any(|s| line.contains(s.as_str()))
    };
    let found = file.lines().filter(|(_, line)| wrong(line));
    found
        .map(|(number, _)| {
            let fix = "keep this in the machine's own configuration, outside the repository";
            Finding::new(&file.path, number, "chooses a package registry", fix)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::planted(&[(path, text)])).iter().map(|f| f.line).collect()
    }

    #[test]
    fn places_of_one_machine_are_found() {
        for folder in FOLDERS {
            let text = format!("fine\nopen(\"/{folder}/x\")\nsee /{folder}, or `/{folder}`\n");
            assert_eq!(lines("a.py", &text), [2, 3], "{folder}");
            assert!(lines("traces/a.txt", &text).is_empty());
        }
    }

    #[test]
    fn other_paths_are_fine() {
        let text = "/dev/ram0 ./tmp/x ../work target/tmp ~/work https://example.org/home /tmpfs\n";
        assert!(lines("a.md", text).is_empty());
    }

    #[test]
    fn a_registry_is_found() {
        let lock = "source = \"registry+https://mirror.example/index\"\n";
        assert_eq!(lines("Cargo.lock", lock), [1]);
        assert!(lines("Cargo.lock", &format!("source = \"{INDEX}\"\n")).is_empty());
        for (a, b) in REGISTRY_SETTINGS {
            assert_eq!(lines("x.toml", &format!("{a}{b} = 1\n")), [1]);
        }
    }
}

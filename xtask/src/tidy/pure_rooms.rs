//! `sim` and `models` name no clock, thread, environment, file, socket or unordered map.

use super::Finding;
use crate::rust::{Code, has_word};
use crate::tree::{File, Tree};

/// Rooms of pure code.
const PURE: [&str; 2] = ["crates/sim/src/", "crates/models/src/"];

/// (what is written, the names to look for, why not).
const BANNED: [(&str, &[&str], &str); 8] = [
    ("a clock", &["Instant", "SystemTime", "std::time", "core::time"], "time is an argument"),
    ("a thread", &["std::thread", "thread_local"], "a run is one thread; `study` runs many"),
    ("the environment", &["std::env"], "parameters come in through `Params`"),
    (
        "a file",
        &["std::fs", "fs::File", "OpenOptions"],
        "readers take a `Read`; `study` opens files",
    ),
    ("a socket", &["std::net", "std::os"], "`attach` talks to the world"),
    ("a process", &["std::process"], "`cli` starts programs"),
    ("an unordered map", &["HashMap"], "use a `BTreeMap` or a `Vec`: their order is fixed"),
    ("an unordered set", &["HashSet"], "use a `BTreeSet` or a sorted `Vec`"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let rust = tree.with_extension("rs");
    rust.filter(|file| PURE.iter().any(|room| file.path.starts_with(room)))
        .flat_map(check_file)
        .collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let code = Code::scan(&file.text);
    // Tests may read fixtures; what they find never reaches a result.
    let tests = code.test_lines();
    let source: Vec<&str> = file.text.lines().collect();
    let mut findings = Vec::new();
    for (number, line) in code.lines() {
        if tests.iter().any(|&(from, to)| (from..=to).contains(&number)) {
            continue;
        }
        for (what, names, why) in BANNED {
            let name = names.iter().find(|name| has_word(line, name));
            let Some(name) = name.filter(|name| !allowed(&source, number, name)) else { continue };
            let what = format!("`{name}`: {what} in a pure room");
            let fix = format!("{why} (or, with a reason: `// tidy: allow({name}): reason`)");
            findings.push(Finding::new(&file.path, number, what, fix));
        }
    }
    findings
}

/// Does this line, or the one above, allow `name` and say why?
fn allowed(source: &[&str], number: usize, name: &str) -> bool {
    let marker = format!("// tidy: allow({name}): ");
    let nearby = &source[number.saturating_sub(2)..number];
    nearby.iter().any(|line| {
        let reason = line.split_once(&marker).map(|(_, reason)| reason.trim());
        reason.is_some_and(|reason| !reason.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::planted(&[(path, text)])).iter().map(|f| f.line).collect()
    }

    #[test]
    fn a_banned_name_is_found_where_it_stands() {
        let text = "use std::collections::HashMap;\n\nlet t = std::time::Instant::now();\n";
        assert_eq!(findings("crates/models/src/a.rs", text), [1, 3]);
        assert!(findings("crates/study/src/a.rs", text).is_empty());
    }

    #[test]
    fn comments_strings_and_tests_may_name_it() {
        let text = "// HashMap\nlet s = \"HashMap\";\n#[cfg(test)]\nmod tests {\nuse HashMap;\n}\n";
        assert!(findings("crates/sim/src/a.rs", text).is_empty());
    }

    #[test]
    fn an_exception_needs_a_reason() {
        let with = "// tidy: allow(HashMap): only looked up, never iterated\nuse HashMap;\n";
        let without = "// tidy: allow(HashMap): \nuse HashMap;\n";
        assert!(findings("crates/sim/src/a.rs", with).is_empty());
        assert_eq!(findings("crates/sim/src/a.rs", without), [2]);
    }
}

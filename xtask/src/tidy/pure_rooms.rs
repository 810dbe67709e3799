//! Pure rooms name no clock, thread, environment, file, socket or unordered map.

use super::Finding;
use crate::rooms::{Kind, ROOMS};
use crate::rust::{Code, has_word};
use crate::tree::{File, Tree};

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
    rust.filter(|file| is_pure(&file.path)).flat_map(check_file).collect()
}

/// Does this file belong to the code of a pure room?
fn is_pure(path: &str) -> bool {
    let room = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
    room.is_some_and(|(room, _)| ROOMS.contains(&(room, Kind::Pure)))
}

fn check_file(file: &File) -> Vec<Finding> {
    let code = Code::scan(&file.text);
    // Tests may read fixtures; what they find never reaches a result.
    let tests = code.test_lines();
    let source: Vec<&str> = file.text.lines().collect();
    let paths: Vec<_> = code.paths();
    let paths = paths.iter().map(|(at, names)| (code.line_of(*at), names.join("::")));
    // A path in a group stands nowhere as one piece of text.
    let lines = code.lines().map(|(n, l)| (n, l.to_owned())).chain(paths);
    let mut findings = Vec::new();
    for (number, line) in lines {
        if tests.iter().any(|&(from, to)| (from..=to).contains(&number)) {
            continue;
        }
        for (what, names, why) in BANNED {
            let name = names.iter().find(|name| has_word(&line, name));
            let Some(name) = name.filter(|name| !allowed(&source, number, name)) else { continue };
            let what = format!("`{name}`: {what} in a pure room");
            let fix = format!("{why} (or, with a reason: `// tidy: allow({name}): reason`)");
            findings.push(Finding::new(&file.path, number, what, fix));
        }
    }
    findings.sort_by(|a, b| (a.line, &a.what).cmp(&(b.line, &b.what)));
    findings.dedup();
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
    fn each_kind_of_impurity_is_found_in_each_pure_room() {
        let planted = [
            "fn f() { Instant::now(); }",
            "use std::time;",
            "use core::{mem, time::Duration};",
            "fn f() { std::thread::spawn(|| ()); }",
            "use std::{env, mem};",
            "use std::{\n    mem,\n    fs,\n};",
            "use std::net::TcpStream;",
            "use std::process::Command;",
            "use std::collections::{BTreeMap, HashMap};",
            "use std::collections::HashSet;",
        ];
        for (room, _) in ROOMS.iter().filter(|(_, kind)| *kind == Kind::Pure) {
            for text in planted {
                assert_eq!(findings(&format!("crates/{room}/src/a.rs"), text).len(), 1, "{text}");
            }
            assert!(findings(&format!("crates/{room}/src/a/b.rs"), "use std::mem;").is_empty());
        }
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

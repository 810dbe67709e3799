//! `unsafe` only where the kernel or the machine is spoken to, each with a `SAFETY:` comment above.

use super::Finding;
use crate::rust::{Code, has_word};
use crate::tree::{File, Tree};

const PLACES: [&str; 3] = ["crates/attach/", "crates/guest/", "crates/boot/loader/"];
/// How far above the word its comment may start.
const COMMENT_LINES: usize = 8;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.with_extension("rs").flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let code = Code::scan(&file.text);
    let source: Vec<&str> = file.text.lines().collect();
    let mut findings = Vec::new();
    for (number, _) in code.lines().filter(|(_, line)| has_word(line, "unsafe")) {
        if !PLACES.iter().any(|place| file.path.starts_with(place)) {
            let places = PLACES.join(", ");
            let what = format!("`unsafe` outside {places}");
            let fix = format!("find a safe way, or move it to one of {places}");
            findings.push(Finding::new(&file.path, number, what, fix));
        } else if !explained(&source, number) {
            let fix = "say above it why it is sound: `// SAFETY: ...`";
            findings.push(Finding::new(&file.path, number, "`unsafe` without a reason", fix));
        }
    }
    findings
}

/// Is there a `SAFETY:` in the comment right above line `number`, or on the line?
fn explained(source: &[&str], number: usize) -> bool {
    let above = source[..number - 1].iter().rev().take(COMMENT_LINES);
    let comment = above.take_while(|line| line.trim_start().starts_with("//"));
    comment.chain([&source[number - 1]]).any(|line| line.contains("SAFETY:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::planted(&[(path, text)])).into_iter().map(|f| f.what).collect()
    }

    #[test]
    fn unsafe_needs_its_room_and_its_reason() {
        let bare = "fn f() {\n    unsafe { g() }\n}\n";
        let told = "fn f() {\n    // SAFETY: g has no preconditions\n    unsafe { g() }\n}\n";
        assert_eq!(
            findings("crates/models/src/a.rs", told),
            ["`unsafe` outside crates/attach/, crates/guest/, crates/boot/loader/"]
        );
        assert_eq!(findings("crates/attach/src/a.rs", bare), ["`unsafe` without a reason"]);
        assert!(findings("crates/attach/src/a.rs", told).is_empty());
        assert!(findings("crates/sim/src/a.rs", "// unsafe\n#![forbid(unsafe_code)]\n").is_empty());
    }
}

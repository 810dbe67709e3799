//! Sources are formatted, also those that `cargo fmt --check` does not see.

use super::Finding;
use crate::format::{formatted, unreached};
use crate::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let wrong = unreached(tree).into_iter().filter_map(|file| {
        let what = match formatted(&file.text) {
            Ok(text) if text == file.text => return None,
            Ok(text) => {
                let same = text.lines().zip(file.text.lines()).take_while(|(a, b)| a == b);
                (same.count() + 1, "it is not formatted".to_owned())
            }
            Err(why) => (1, format!("it cannot be formatted: {why}")),
        };
        let fix = "run `cargo run -p xtask -- format`";
        Some(Finding::new(&file.path, what.0, what.1, fix))
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_a_macro_declares_is_looked_at() {
        let lib = ("crates/a/src/lib.rs", "registry! { b }\n");
        let lines = |text| {
            let tree = Tree::planted(&[lib, ("crates/a/src/b.rs", text)]);
            check(&tree).iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert!(lines("fn f() {}\n").is_empty());
        assert_eq!(lines("fn f() {}\nfn  g() {}\n"), [2]);
        assert_eq!(lines("fn f( {\n"), [1]);
    }
}

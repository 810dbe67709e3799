//! The rules of the house, checked. One rule, one file, one line in [`RULES`].

mod circles;
mod doc_form;
mod edges;
mod formatted;
mod generated;
mod headings;
mod leftovers;
mod links;
mod lockfile;
mod modules;
mod orphans;
mod parts;
mod paths;
mod pure_rooms;
mod sizes;
mod unsafe_code;
mod walls;

use std::fmt;
use std::path::Path;

use crate::tree::Tree;

/// One broken rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) file: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) fix: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { file: file.into(), line, what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n    fix: {}", self.file, self.line, self.what, self.fix)
    }
}

type Rule = fn(&Tree) -> Vec<Finding>;

/// Every rule, with what it asks of the repository.
const RULES: [(&str, Rule); 16] = [
    ("sources are formatted, also where a macro declares them", formatted::check),
    ("files, functions and lines are short", sizes::check),
    ("every crate is a room and depends only on rooms to its left", edges::check),
    ("modules name nothing behind a wall of their room", walls::check),
    ("modules of a room do not name each other in circles", circles::check),
    ("pure rooms name no clock, thread, file or unordered map", pure_rooms::check),
    ("unsafe code lives at the edges and says why it is sound", unsafe_code::check),
    ("every model's doc comment has the house's form", doc_form::check),
    ("generated files are current", generated::check),
    ("every value of a part has a source", parts::check),
    ("relative links in documents resolve", links::check),
    ("every document can be reached from the README", orphans::check),
    ("a document has one title", headings::check),
    ("no path or registry of one machine", paths::check),
    ("nothing is left for later", leftovers::check),
    ("the lock file is committed", lockfile::check),
];

/// Check every rule and print what is broken.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let findings = check(&tree);
    findings.iter().for_each(|finding| println!("{finding}"));
    match findings.len() {
        0 => {
            RULES.iter().for_each(|(asks, _)| println!("ok: {asks}"));
            println!("tidy: {} rules, {} files, all in order", RULES.len(), tree.paths.len());
            Ok(())
        }
        n => Err(format!("tidy: {n} finding(s)")),
    }
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|(_, rule)| rule(tree)).collect();
    findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This puts the whole of tidy inside `cargo test`.
    #[test]
    fn this_repository_is_tidy() {
        let tree = Tree::read(&crate::root().unwrap()).unwrap();
        let findings: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "{} finding(s)\n{}", findings.len(), findings.join("\n"));
    }

    #[test]
    fn a_finding_says_where_what_and_how_to_fix() {
        let finding = Finding::new("a.rs", 3, "the line is long", "break it");
        assert_eq!(finding.to_string(), "a.rs:3: the line is long\n    fix: break it");
    }
}

//! A model's doc comment has one form: it is its docs page and its `explain` text.

use super::Finding;
use crate::generate::registered_source;
use crate::tree::Tree;

/// The sections of a model's doc comment, in order.
pub(crate) const SECTIONS: [&str; 6] = [
    "What it models",
    "Equation",
    "Parameters",
    "What it leaves out",
    "Validated against",
    "References",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let slots = models::registry::SLOTS;
    let entries = slots.iter().flat_map(|slot| slot.entries.iter());
    entries
        .filter_map(|(name, source)| {
            let wrong = wrong_form(source)?;
            let path = registered_source(tree, source).unwrap_or("crates/models/src/registry.rs");
            let fix = format!("use these headings, in this order: {}", SECTIONS.join(", "));
            Some(Finding::new(path, 1, format!("the doc comment of `{name}` {wrong}"), fix))
        })
        .collect()
}

/// What is wrong with the doc comment of a module, if anything.
fn wrong_form(source: &str) -> Option<String> {
    let comment: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let Some(first) = comment.first() else { return Some("is missing".into()) };
    if first.trim().is_empty() || first.trim_start().starts_with('#') {
        return Some("does not start with a sentence".into());
    }
    let headings: Vec<&str> = comment.iter().filter_map(|line| line.strip_prefix(" # ")).collect();
    if headings != SECTIONS {
        return Some(format!("has the headings: {}", headings.join(", ")));
    }
    let empty = comment
        .windows(2)
        .find(|w| w[0].starts_with(" # ") && (w[1].trim().is_empty() || w[1].starts_with(" # ")));
    let last = comment.last().filter(|line| line.starts_with(" # "));
    empty.map(|w| w[0]).or(last.copied()).map(|heading| format!("says nothing under `{heading}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(sections: &[&str]) -> String {
        let body: String =
            sections.iter().map(|s| format!("//! # {s}\n//! Text.\n//!\n")).collect();
        format!("//! A model.\n//!\n{body}\nuse x;\n")
    }

    #[test]
    fn the_form_is_fixed() {
        assert_eq!(wrong_form(&comment(&SECTIONS)), None);
        let mut swapped = SECTIONS;
        swapped.swap(1, 2);
        assert!(wrong_form(&comment(&swapped)).unwrap().contains("has the headings"));
        assert_eq!(wrong_form("use x;\n").unwrap(), "is missing");
        let hollow = comment(&SECTIONS).replace("Equation\n//! Text.\n", "Equation\n");
        assert!(wrong_form(&hollow).unwrap().contains("says nothing under ` # Equation`"));
    }
}

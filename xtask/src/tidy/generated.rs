//! What `xtask generate` writes is what is committed, so every registry line has its page.

use super::Finding;
use crate::generate::{self, Outcome};
use crate::tree::Tree;

const REGISTRY: &str = "crates/models/src/registry.rs";
const SLOT: &str = "sim::registry! {";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let fix = "run `cargo run -p xtask -- generate` and commit the result";
    let outputs = generate::outputs(tree);
    let slots = models::registry::SLOTS.len();
    let unlisted = tree.file(REGISTRY).filter(|file| file.text.matches(SLOT).count() != slots);
    let unlisted = unlisted.map(|file| {
        let line = file.lines().find(|(_, line)| line.contains("const SLOTS"));
        let what = "`SLOTS` does not list every registry above it";
        Finding::new(REGISTRY, line.map_or(1, |(n, _)| n), what, "add the missing enum to `slots!`")
    });
    let stale = outputs.into_iter().filter_map(|output| match output.outcome {
        Outcome::Current => None,
        Outcome::Missing => Some(Finding::new(&output.path, 1, "the file is missing", fix)),
        Outcome::Stale { line } => {
            Some(Finding::new(&output.path, line, "the generated part is out of date", fix))
        }
        Outcome::Orphan => Some(Finding::new(
            &output.path,
            1,
            "no registry line stands behind this page",
            "delete the page, or put its model back into the registry",
        )),
    });
    stale.chain(unlisted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_a_stale_and_an_orphaned_page_are_found() {
        assert!(!check(&Tree::default()).is_empty());
        let orphan = Tree::planted(&[("docs/models/device-gone.md", "# Gone\n")]);
        assert!(check(&orphan).iter().any(|f| f.what.contains("no registry line")));
        let page = "# The null device\n\n<!-- generated -->\nold\n<!-- end generated -->\n";
        let stale = Tree::planted(&[("docs/models/device-null.md", page)]);
        assert!(check(&stale).iter().any(|f| f.what.contains("out of date")));
    }

    #[test]
    fn a_slot_that_is_not_listed_is_found() {
        let one_too_many = SLOT.repeat(models::registry::SLOTS.len() + 1);
        let tree = Tree::planted(&[(REGISTRY, &one_too_many)]);
        assert!(check(&tree).iter().any(|f| f.what.contains("does not list every registry")));
    }
}

//! What `xtask generate` writes is what is committed, so every registry line has its page.

use super::Finding;
use crate::generate::{self, Outcome};
use crate::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let fix = "run `cargo run -p xtask -- generate` and commit the result";
    let outputs = generate::outputs(tree);
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
    stale.collect()
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
}

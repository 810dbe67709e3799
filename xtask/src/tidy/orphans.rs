//! Every document can be reached from the README by links.

use std::collections::BTreeSet;

use super::Finding;
use super::links::linked;
use crate::tree::Tree;

const START: &str = "README.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::from([START.to_string()]);
    let mut open = vec![START.to_string()];
    while let Some(path) = open.pop() {
        let Some(file) = tree.file(&path) else { continue };
        for target in linked(file) {
            // A link to a folder shows the folder's own page.
            for page in [format!("{target}/README.md"), target] {
                if tree.file(&page).is_some() && reached.insert(page.clone()) {
                    open.push(page);
                }
            }
        }
    }
    let documents = tree.with_extension("md").filter(|file| !reached.contains(&file.path));
    documents
        .map(|file| {
            let what = "no chain of links leads here from README.md";
            let fix = "link to it from the page whose readers need it, or delete it";
            Finding::new(&file.path, 1, what, fix)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphans(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::planted(files)).into_iter().map(|finding| finding.file).collect()
    }

    #[test]
    fn a_page_that_only_an_orphan_links_to_is_an_orphan_too() {
        let files = [
            ("README.md", "[a](docs/a.md), [models](docs/models)"),
            ("docs/a.md", "[b](b.md#part) `[c](c.md)`"),
            ("docs/b.md", "# Part"),
            ("docs/c.md", "[d](d.md)"),
            ("docs/d.md", ""),
            ("docs/models/README.md", ""),
        ];
        assert_eq!(orphans(&files), ["docs/c.md", "docs/d.md"]);
    }
}

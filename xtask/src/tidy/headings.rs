//! A document has exactly one title.

use super::Finding;
use crate::tree::{File, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.with_extension("md").filter_map(check_file).collect()
}

fn check_file(file: &File) -> Option<Finding> {
    let titles: Vec<usize> =
        prose(&file.text).filter(|(_, line)| line.starts_with("# ")).map(|(n, _)| n).collect();
    match titles[..] {
        [_] => None,
        [] => Some(Finding::new(&file.path, 1, "no title", "start with one `# Title`")),
        [_, second, ..] => {
            Some(Finding::new(&file.path, second, "a second title", "make it a `## Section`"))
        }
    }
}

/// The lines of a Markdown text outside fenced code, numbered from 1.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        check(&Tree::planted(&[("a.md", text)])).into_iter().map(|f| (f.line, f.what)).collect()
    }

    #[test]
    fn one_title_and_no_more() {
        assert!(found("# A\n\n## B\n\n```sh\n# a comment\n```\n").is_empty());
        assert_eq!(found("text\n"), [(1, "no title".into())]);
        assert_eq!(found("# A\n\n# B\n"), [(3, "a second title".into())]);
    }
}

//! Relative links in documents lead somewhere, anchors included.

use super::Finding;
use super::headings::prose;
use crate::tree::{File, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.with_extension("md").flat_map(|file| check_file(tree, file)).collect()
}

fn check_file(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, path, anchor) in links(file) {
        let what = if !tree.has(&path) {
            format!("the link leads to `{path}`, which does not exist")
        } else if !has_anchor(tree, &path, anchor) {
            format!("`{path}` has no heading `#{anchor}`")
        } else {
            continue;
        };
        findings.push(Finding::new(&file.path, number, what, "correct the link"));
    }
    findings
}

/// The paths that a document links to, seen from the root.
pub(super) fn linked(file: &File) -> impl Iterator<Item = String> {
    links(file).into_iter().map(|(_, path, _)| path)
}

/// The line, path from the root and anchor of each link that stays in the repository.
fn links(file: &File) -> Vec<(usize, String, &str)> {
    let mut links = Vec::new();
    for (number, line) in prose(&file.text) {
        for target in targets(line) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match path {
                "" => file.path.clone(),
                _ => resolve(&file.path, path),
            };
            links.push((number, path, anchor));
        }
    }
    links
}

/// The targets of `[text](target)`, `![text](target)` and `src="target"` on a line.
fn targets(line: &str) -> Vec<&str> {
    let line_without_code: Vec<&str> = line.split('`').step_by(2).collect();
    let pieces = line_without_code.into_iter();
    pieces
        .flat_map(|piece| {
            let links = piece.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let images = piece.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
            links.chain(images).collect::<Vec<_>>()
        })
        .collect()
}

/// `target` seen from the folder of `from`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn has_anchor(tree: &Tree, path: &str, anchor: &str) -> bool {
    if anchor.is_empty() || !path.ends_with(".md") {
        return true;
    }
    let headings = tree.file(path).map(|file| prose(&file.text));
    headings.is_some_and(|mut lines| {
        lines.any(|(_, line)| line.starts_with('#') && slug(line) == anchor)
    })
}

/// The anchor that renderers give a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(text: &str) -> Vec<usize> {
        let files = [("docs/a.md", text), ("README.md", "# Top\n\n## How it's built\n")];
        check(&Tree::planted(&files)).iter().map(|f| f.line).collect()
    }

    #[test]
    fn live_links_are_fine() {
        let text = "[a](../README.md) [b](../README.md#how-its-built) [c](https://example.org/x)\n\
                    `[code](nowhere.md)`\n```\n[fenced](nowhere.md)\n```\n[folder](../docs/)\n";
        assert!(dead(text).is_empty());
    }

    #[test]
    fn dead_links_are_found() {
        assert_eq!(dead("ok\n[a](gone.md)\n"), [2]);
        assert_eq!(dead("[a](../README.md#gone)\n"), [1]);
        assert_eq!(dead("![figure](figures/gone.svg)\n"), [1]);
        assert_eq!(dead("<img src=\"gone.svg\">\n"), [1]);
    }
}

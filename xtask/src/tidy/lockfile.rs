//! The lock file is part of the repository: everybody builds the same versions.

use super::Finding;
use crate::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    if tree.paths.contains("Cargo.lock") {
        return Vec::new();
    }
    let fix = "take it out of .gitignore and commit it";
    vec![Finding::new("Cargo.lock", 1, "not in the repository", fix)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_lock_file_is_found() {
        assert!(check(&Tree::planted(&[("Cargo.lock", "")])).is_empty());
        assert_eq!(check(&Tree::planted(&[("Cargo.toml", "")])).len(), 1);
    }
}

//! The files of the repository, read once.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// One text file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Path from the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// The part of the name after the last dot, or the whole name when there is none.
    pub(crate) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.rsplit('.').next().unwrap_or(name)
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// What git knows or would add: tracked and untracked files, ignored ones left out.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tree {
    /// Every path, binary files included.
    pub(crate) paths: BTreeSet<String>,
    /// The text files, sorted by path.
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// Read the tree at `root`.
    pub(crate) fn read(root: &Path) -> Result<Tree, String> {
        let git = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|e| format!("cannot run git, which lists the files to check: {e}"))?;
        if !git.status.success() {
            let why = String::from_utf8_lossy(&git.stderr);
            return Err(format!("git cannot list the files to check: {}", why.trim()));
        }
        let mut tree = Tree::default();
        for path in String::from_utf8_lossy(&git.stdout).split('\0').filter(|p| !p.is_empty()) {
            if root.join(path).is_symlink() {
                tree.paths.insert(path.into());
                continue;
            }
            // A file that was deleted but not yet committed is still listed.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            tree.paths.insert(path.into());
            if let Ok(text) = String::from_utf8(bytes) {
                tree.files.push(File { path: path.into(), text });
            }
        }
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// The text files of one extension.
    pub(crate) fn with_extension<'a>(&'a self, ext: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.extension() == ext)
    }

    /// The text file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Is there a file or a folder at `path`?
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.paths.contains(path) || self.paths.iter().any(|p| p.starts_with(&folder))
    }

    /// A tree for tests.
    #[cfg(test)]
    pub(crate) fn planted(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.paths.insert((*path).into());
            tree.files.push(File { path: (*path).into(), text: (*text).into() });
        }
        tree
    }
}

//! Files and folders that are not done: they go when whoever makes them fails, and when a signal
//! ends the process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All of this process.
static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Something of ours that is in the making.
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// From now on `path`, which is ours alone, goes when this is dropped.
    pub fn new(path: &Path) -> Unfinished {
        // A process may go to another folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        paths().insert(path.clone());
        Unfinished(path)
    }

    /// It stays.
    pub fn finished(self) {
        paths().remove(&self.0);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Held until it is gone: a signal waits for that before it ends the process.
        let mut paths = paths();
        if paths.remove(&self.0) {
            remove(&self.0);
        }
    }
}

/// Remove all that is unfinished: the process ends.
pub fn remove_unfinished() {
    for path in std::mem::take(&mut *paths()) {
        // Whoever works in it finds it no more. By this name a private folder is still one.
        let mut aside = path.clone().into_os_string();
        aside.push("0");
        let aside = PathBuf::from(aside);
        let moved = path.is_dir() && std::fs::rename(&path, &aside).is_ok();
        remove(if moved { &aside } else { &path });
    }
}

fn remove(path: &Path) {
    // Nothing can be done about what does not go.
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}

fn paths() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrivateFolder;

    #[test]
    fn what_is_dropped_goes_and_what_is_finished_stays() {
        let folder = PrivateFolder::new().unwrap();
        let [gone, kept] = ["gone", "kept"].map(|name| folder.path.join(name));
        std::fs::write(&gone, "").unwrap();
        std::fs::write(&kept, "").unwrap();
        drop(Unfinished::new(&gone));
        Unfinished::new(&kept).finished();
        assert!(!gone.exists() && kept.exists());
        drop(Unfinished::new(&folder.path.join("never made")));
    }
}

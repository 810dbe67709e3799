//! Folders of our own for sockets and the like. They go when their session ends; what one that was
//! killed could not delete, the next one does.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, statvfs};
use study::Failure;

use crate::unfinished::Unfinished;

/// In memory, where there is such a place.
const MEMORY: &str = "/dev/shm";
/// What the name of every one begins with; the number of its process follows.
const PREFIX: &str = "blocklab-";

/// A folder of our own; gone when dropped.
#[derive(Debug)]
pub struct PrivateFolder {
    /// Where it is.
    pub path: PathBuf,
    _goes: Unfinished,
    /// Nobody deletes a folder that is locked; the lock goes with the process.
    _lock: File,
}

impl PrivateFolder {
    /// Below the system's folder for temporary files.
    ///
    /// # Errors
    /// When none can be made there.
    pub fn new() -> Result<PrivateFolder, Failure> {
        PrivateFolder::below(&std::env::temp_dir())
    }

    /// In memory, or below the system's folder for temporary files.
    pub(crate) fn in_memory() -> Result<PrivateFolder, Failure> {
        PrivateFolder::below(Path::new(MEMORY)).or_else(|_| PrivateFolder::new())
    }

    /// Where there is room for large files: `TMPDIR`, or `/var/tmp` without it.
    ///
    /// # Errors
    /// When none can be made there.
    pub fn for_large_files() -> Result<PrivateFolder, Failure> {
        PrivateFolder::below(&for_large_files())
    }

    /// Below that folder.
    pub fn below(base: &Path) -> Result<PrivateFolder, Failure> {
        for (path, _lock) in abandoned_below(base) {
            // Nothing can be done about a folder that does not go; doctor names it.
            let _ = std::fs::remove_dir_all(path);
        }
        for number in 0..1000 {
            let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                // Somebody may have found it before it was locked, and have deleted it.
                Ok(()) => match lock(&path) {
                    Some(_lock) => {
                        let _goes = Unfinished::new(&path);
                        return Ok(PrivateFolder { path, _goes, _lock });
                    }
                    None => drop(std::fs::remove_dir(&path)),
                },
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                Err(why) => {
                    let what = format!("cannot make a folder in {}: {why}", base.display());
                    return Err(Failure::machine(what).help("set TMPDIR to a folder of yours"));
                }
            }
        }
        Err(Failure::machine(format!("{} is full of old folders of ours", base.display()))
            .help(format!("rm -r {}/{PREFIX}*", base.display())))
    }
}

/// Where large files without a name are made: the usual folder is often memory, and may be small.
pub(crate) fn for_large_files() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|name| !name.is_empty());
    named.map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// Whether less than a MiB can be written in `folder`.
pub fn has_no_room(folder: &Path) -> bool {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    statvfs(here).is_ok_and(|found| found.f_bavail * found.f_frsize < 1 << 20)
}

/// Folders that sessions left which were killed. The next session deletes them.
pub fn abandoned_folders() -> Vec<PathBuf> {
    let mut bases = vec![std::env::temp_dir(), PathBuf::from(MEMORY), for_large_files()];
    bases.sort();
    bases.dedup();
    bases.iter().flat_map(|base| abandoned_below(base)).map(|(path, _)| path).collect()
}

/// Folders that nobody holds a lock on, each with a lock of ours.
fn abandoned_below(base: &Path) -> Vec<(PathBuf, File)> {
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| is_ours(&entry.file_name().to_string_lossy()));
    ours.map(|entry| entry.path()).filter_map(|path| Some((path.clone(), lock(&path)?))).collect()
}

/// `blocklab-<process>-<number>`.
fn is_ours(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// A lock on a folder of this user's that is there and that nobody else has locked.
fn lock(path: &Path) -> Option<File> {
    let is_own = std::fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw());
    let folder = File::open(path).ok().filter(|_| is_own)?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    // The folder of this name may by now be gone, or another.
    let same = folder.metadata().ok()?.ino() == std::fs::metadata(path).ok()?.ino();
    same.then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_session_left_is_found_and_deleted_and_nothing_else() {
        let base = PrivateFolder::new().unwrap();
        let base = &base.path;
        let lives = PrivateFolder::below(base).unwrap();
        let left = base.join("blocklab-1-0");
        for folder in ["blocklab-1-0/inner", "blocklab-parts", "blocklab-1-x", "other"] {
            std::fs::create_dir_all(base.join(folder)).unwrap();
        }
        std::fs::write(base.join("blocklab-2-0"), "a file").unwrap();
        let found: Vec<PathBuf> = abandoned_below(base).into_iter().map(|(path, _)| path).collect();
        assert_eq!(found, [left]);
        let next = PrivateFolder::below(base).unwrap();
        assert!(abandoned_below(base).is_empty());
        let mut names: Vec<_> = std::fs::read_dir(base).unwrap().flatten().collect();
        names.sort_by_key(|entry| entry.file_name());
        assert_eq!(names.len(), 6, "{names:?}");
        drop((lives, next));
        assert_eq!(std::fs::read_dir(base).unwrap().count(), 4);
    }
}

//! What is mounted, in whichever namespace: a container or a service may have file systems that no
//! other program sees, and the kernel writes to them all the same.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The mounts of each namespace that a thread is in, as `mountinfo` tells them; `proc` is where
/// the kernel tells of processes.
pub(super) fn mounts(proc: &Path) -> Result<Vec<String>, String> {
    let (mut seen, mut tables) = (BTreeSet::new(), Vec::new());
    for process in numbered(proc)? {
        // A thread may be in another one than its process.
        for thread in numbered(&process.join("task"))? {
            let Some(name) = living(&thread.join("ns/mnt"), |path| fs::read_link(path))? else {
                continue;
            };
            if seen.contains(&name) {
                continue;
            }
            let path = thread.join("mountinfo");
            if let Some(table) = living(&path, |path| fs::read_to_string(path))? {
                tables.push(table);
                seen.insert(name);
            }
        }
    }
    if tables.is_empty() {
        return Err(format!("{}: no mounts: expected a mounted procfs", proc.display()));
    }
    Ok(tables)
}

/// The folders in `path` that have a number for a name; none where it is gone.
fn numbered(path: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = living(path, |path| fs::read_dir(path)?.collect::<io::Result<Vec<_>>>())?;
    let paths = entries.into_iter().flatten().map(|entry| entry.path());
    let is_number = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.parse::<u32>().is_ok())
    };
    Ok(paths.filter(is_number).collect())
}

/// What is read of a thread; `None` when that has ended.
fn living<T>(path: &Path, read: impl Fn(&Path) -> io::Result<T>) -> Result<Option<T>, String> {
    match read(path) {
        Ok(read) => Ok(Some(read)),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        // Linux, `fs/proc/`: between its end and its parent's answer to that it has no namespace.
        Err(why) if [libc::ESRCH, libc::EINVAL].map(Some).contains(&why.raw_os_error()) => Ok(None),
        Err(why) => Err(format!(
            "{}: {why}; expected root of a whole machine: what is mounted must be known",
            path.display()
        )),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Tell of threads: process, thread, namespace, and mounts.
    pub(in super::super) fn told(threads: &[(u32, u32, &str, Option<&str>)]) -> Vec<String> {
        let name = format!("blocklab-namespaces-{}-{}", std::process::id(), threads.len());
        let proc = std::env::temp_dir().join(name);
        for (process, thread, namespace, mounts) in threads {
            let folder = proc.join(format!("{process}/task/{thread}"));
            fs::create_dir_all(folder.join("ns")).unwrap();
            symlink(namespace, folder.join("ns/mnt")).unwrap();
            if let Some(mounts) = mounts {
                fs::write(folder.join("mountinfo"), mounts).unwrap();
            }
        }
        // What is no process, and one that has ended.
        fs::create_dir_all(proc.join("sys/task/1")).unwrap();
        fs::create_dir_all(proc.join("9/task/9/ns")).unwrap();
        let mut found = mounts(&proc).unwrap();
        found.sort_unstable();
        fs::remove_dir_all(proc).unwrap();
        found
    }

    #[test]
    fn each_namespace_is_told_once() {
        let found = told(&[
            (1, 1, "mnt:[1]", Some("a")),
            // The first of a namespace may end before it is asked.
            (2, 2, "mnt:[2]", None),
            (3, 3, "mnt:[2]", Some("b")),
            (3, 4, "mnt:[3]", Some("c")),
            (5, 5, "mnt:[1]", Some("a, too")),
        ]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with('a') && found[1..] == ["b", "c"], "{found:?}");
    }

    #[test]
    fn nothing_known_is_not_nothing_mounted() {
        let told = mounts(Path::new("/none")).unwrap_err();
        assert_eq!(told, "/none: no mounts: expected a mounted procfs");
    }
}

//! `read-ahead`: what distributions of 2009 did early in a boot: read a list of files, so that they
//! are there when they are wanted. And how such a list is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Advice, fadvise, major, minor};

/// A file system's times are as coarse as the kernel's tick, and no coarser than this.
const COARSE: Duration = Duration::from_secs(1);

/// The verb: LIST, a file with a path in each line.
pub(super) fn run(arguments: &[String]) -> Result<u8, String> {
    let [list] = arguments else { return Err("expected read-ahead LIST".into()) };
    let text = fs::read_to_string(list).map_err(|why| format!("cannot read {list}: {why}"))?;
    for path in text.lines() {
        // A file that is gone by now is not wanted.
        if let Ok(file) = File::open(path) {
            let _ = fadvise(&file, 0, None, Advice::WillNeed);
        }
    }
    Ok(0)
}

/// A file: (major, minor) of its device, and its inode.
pub(crate) type Inode = ((u32, u32), u64);

/// What is found in a file system.
pub(crate) struct Found {
    /// Files that were read, in the order of their inodes, which is about that of the disk.
    pub(crate) list: Vec<String>,
    /// Paths of those that are asked for.
    pub(crate) names: BTreeMap<Inode, String>,
}

/// Files of the file system below `root` that were read since `began`, and the names of `wanted`;
/// paths begin at `root`. What was read is known by the files' times, so it must be mounted with
/// `strictatime`.
pub(crate) fn read_since(root: &Path, began: SystemTime, wanted: &BTreeSet<Inode>) -> Found {
    let (mut read, mut names) = (Vec::new(), BTreeMap::new());
    let device = |meta: &Metadata| (major(meta.dev()), minor(meta.dev()));
    let inside = |path: &Path| {
        let path = Path::new("/").join(path.strip_prefix(root).ok()?);
        path.to_str().map(String::from)
    };
    let Ok(of_root) = fs::metadata(root) else { return Found { list: Vec::new(), names } };
    let mut folders: Vec<PathBuf> = vec![root.into()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            if meta.is_dir() && meta.dev() == of_root.dev() {
                folders.push(entry.path());
            }
            let Some(path) = inside(&entry.path()).filter(|_| meta.is_file()) else { continue };
            let accessed = meta.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
            // A list has a path in each line.
            if meta.len() > 0 && accessed + COARSE >= began && !path.contains('\n') {
                read.push((meta.ino(), path.clone()));
            }
            let inode = (device(&meta), meta.ino());
            if wanted.contains(&inode) {
                names.entry(inode).or_insert(path);
            }
        }
    }
    read.sort();
    Found { list: read.into_iter().map(|(_, path)| path).collect(), names }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_read_is_in_the_list_and_another_is_not() {
        let root = std::env::temp_dir().join(format!("blocklab-read-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        for (name, age_s) in [("a/b/read", 0), ("a/old", 3600), ("empty", 0)] {
            let content = if name == "empty" { "" } else { "text" };
            fs::write(root.join(name), content).unwrap();
            let accessed = SystemTime::now() - Duration::from_secs(age_s);
            let times = fs::FileTimes::new().set_accessed(accessed);
            File::options().write(true).open(root.join(name)).unwrap().set_times(times).unwrap();
        }
        let old = fs::metadata(root.join("a/old")).unwrap();
        let old = ((major(old.dev()), minor(old.dev())), old.ino());
        let began = SystemTime::now() - Duration::from_secs(60);
        let Found { list, names } = read_since(&root, began, &BTreeSet::from([old]));
        fs::write(root.join("list"), "/no/such/file\n").unwrap();
        let told = run(&[root.join("list").to_str().unwrap().into()]);
        let missing = run(&[root.join("none").to_str().unwrap().into()]);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(list, ["/a/b/read"]);
        assert_eq!(names, BTreeMap::from([(old, "/a/old".to_string())]));
        assert_eq!(told, Ok(0));
        assert!(missing.unwrap_err().contains("none"));
    }
}

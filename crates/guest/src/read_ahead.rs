//! `read-ahead`: what distributions of 2009 did early in a boot: read a list of files, so that they
//! are there when they are wanted. And how such a list is made.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Advice, fadvise};

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

/// Files of the file system below `root` that were read since `began`, in the order of their
/// inodes, which is about that of the disk; paths begin at `root`. They are known by their times,
/// so it must be mounted with `strictatime`.
pub(crate) fn read_since(root: &Path, began: SystemTime) -> Vec<String> {
    let mut all = Vec::new();
    let Ok(of_root) = fs::metadata(root) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = vec![root.into()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            if meta.is_dir() && meta.dev() == of_root.dev() {
                folders.push(entry.path());
            }
            let accessed = meta.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
            if meta.is_file() && meta.len() > 0 && accessed + COARSE >= began {
                all.push((meta.ino(), entry.path()));
            }
        }
    }
    all.sort();
    let inside =
        |path: &PathBuf| path.strip_prefix(root).ok().map(|path| Path::new("/").join(path));
    let paths = all.iter().filter_map(|(_, path)| inside(path)?.to_str().map(String::from));
    // A list has one in each line.
    paths.filter(|path| !path.contains('\n')).collect()
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
        let list = read_since(&root, SystemTime::now() - Duration::from_secs(60));
        fs::write(root.join("list"), "/no/such/file\n").unwrap();
        let told = run(&[root.join("list").to_str().unwrap().into()]);
        let missing = run(&[root.join("none").to_str().unwrap().into()]);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(list, ["/a/b/read"]);
        assert_eq!(told, Ok(0));
        assert!(missing.unwrap_err().contains("none"));
    }
}

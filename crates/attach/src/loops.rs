//! Loop devices, and the files that they are made of.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// What the kernel knows of block devices, partitions among them.
pub(crate) const BLOCKS: &str = "/sys/class/block";

/// The file under a loop device or a partition of one; `None` for anything else, and where that
/// file has no name here.
pub(crate) fn below(device: &Metadata) -> Option<(PathBuf, Metadata)> {
    let told = std::fs::read_to_string(whole(device)?.join("loop/backing_file")).ok()?;
    let path = PathBuf::from(told.trim_end_matches('\n'));
    let found = std::fs::metadata(&path).ok()?;
    Some((path, found))
}

/// The kernel's folder of a block device, of the whole one where it is a partition.
fn whole(device: &Metadata) -> Option<PathBuf> {
    if !device.file_type().is_block_device() {
        return None;
    }
    let number = device.rdev();
    let link = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    let folder = std::fs::canonicalize(link).ok()?;
    let is_part = folder.join("partition").exists();
    if is_part { folder.parent().map(Path::to_path_buf) } else { Some(folder) }
}

/// The name of a block device without its partition, such as `loop3`.
pub(crate) fn name(device: &Metadata) -> Option<String> {
    Some(whole(device)?.file_name()?.to_str()?.to_string())
}

/// The names of the loop devices that are made of a file.
pub(crate) fn above(file: &Path, blocks: &Path) -> Vec<String> {
    let number = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    let own = number(file);
    let entries = std::fs::read_dir(blocks).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let told = std::fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let backing = Path::new(told.trim_end_matches('\n'));
        let same = backing == file || (own.is_some() && number(backing) == own);
        same.then(|| entry.file_name().into_string().ok())?
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_loop_device_is_found_by_any_name_of_its_file() {
        let folder = crate::PrivateFolder::new().unwrap();
        let (blocks, file) = (folder.path.join("block"), folder.path.join("a disk"));
        for name in ["loop7", "loop8", "vda"] {
            fs::create_dir_all(blocks.join(name).join("loop")).unwrap();
        }
        fs::write(&file, "").unwrap();
        fs::hard_link(&file, folder.path.join("other")).unwrap();
        let backed = |name: &str, by: &Path| {
            fs::write(blocks.join(name).join("loop/backing_file"), format!("{}\n", by.display()))
                .unwrap();
        };
        backed("loop7", &file);
        backed("loop8", Path::new("/gone (deleted)"));
        assert_eq!(above(&file, &blocks), ["loop7"]);
        assert_eq!(above(&folder.path.join("other"), &blocks), ["loop7"]);
        assert_eq!(above(Path::new("/gone (deleted)"), &blocks), ["loop8"]);
        assert!(above(Path::new("/gone"), &blocks).is_empty());
        assert!(below(&file.metadata().unwrap()).is_none());
    }
}

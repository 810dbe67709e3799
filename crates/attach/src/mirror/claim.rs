//! A device belongs to one server: by a lock on it, and on the file under a loop device. Two loop
//! devices of one file, or one and the file itself, are the same device.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, major, minor};
use study::Failure;

/// The file under a loop device; `None` for anything else, and where that file has no name here.
pub(super) fn backing(device: &Metadata) -> Option<(PathBuf, Metadata)> {
    if !device.file_type().is_block_device() {
        return None;
    }
    let number = device.rdev();
    let told = format!("/sys/dev/block/{}:{}/loop/backing_file", major(number), minor(number));
    let path = PathBuf::from(std::fs::read_to_string(told).ok()?.trim_end_matches('\n'));
    let found = std::fs::metadata(&path).ok()?;
    Some((path, found))
}

/// Lock an open device for this server alone, with all that is under it. What is returned must
/// stay open as long as the device.
pub(super) fn claim(file: &File, path: &Path) -> Result<Vec<File>, Failure> {
    let shown = path.display();
    let in_use = |by: String| {
        Failure::input(format!("{shown} is in use: another mirror serves {by}"))
            .help("stop that one first")
    };
    lock(file).map_err(|()| in_use("it".into()))?;
    let mut claimed = Vec::new();
    let mut under = file.metadata().ok().as_ref().and_then(backing);
    while let Some((path, found)) = under {
        // Who may use the loop device but not its file cannot lock it.
        let Ok(file) = OpenOptions::new().read(true).open(&path) else { break };
        lock(&file).map_err(|()| in_use(format!("{}, which it is made of", path.display())))?;
        claimed.push(file);
        under = backing(&found);
    }
    Ok(claimed)
}

fn lock(file: &File) -> Result<(), ()> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(drop)
}

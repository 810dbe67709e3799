//! The kernel's own way: an image in swap, which a kernel that boots finds again.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::PAGE_BYTES;
use crate::policy::After;
use crate::suspend::Ended;

/// Go on as what was suspended to `disk`, if something was: then this does not return.
pub(crate) fn resume(disk: &Path) -> Result<(), String> {
    let name = disk.file_name().unwrap_or_default();
    let number = Path::new("/sys/class/block").join(name).join("dev");
    let number =
        fs::read_to_string(&number).map_err(|why| format!("{}: {why}", number.display()))?;
    // It fails when there is nothing.
    let _ = fs::write("/sys/power/resume", number.trim());
    Ok(())
}

/// Suspend to `disk`, which becomes swap; returns when it was resumed.
pub(crate) fn suspend(disk: &Path, bytes_max: Option<u64>) -> Result<Ended, String> {
    make(disk)?;
    on(disk)?;
    let set = |name: &str, value: &str| {
        let path = format!("/sys/power/{name}");
        fs::write(&path, value).map_err(|why| format!("{path}: {why}"))
    };
    // What it reads as a larger number it takes for 0.
    set("image_size", &bytes_max.unwrap_or(1 << 60).to_string())?;
    set("disk", "shutdown")?;
    set("state", "disk")?;
    Ok(Ended::Resumed(After::default()))
}

/// Use a disk as swap.
pub(crate) fn on(disk: &Path) -> Result<(), String> {
    let path = CString::new(disk.as_os_str().as_bytes()).map_err(|why| why.to_string())?;
    // SAFETY: the path is a string that ends with a zero.
    if unsafe { libc::swapon(path.as_ptr(), 0) } != 0 {
        let why = std::io::Error::last_os_error();
        return Err(format!("swapon {}: {why}", disk.display()));
    }
    Ok(())
}

/// How often the disk was read.
pub(crate) fn reads(disk: &Path) -> Result<u64, String> {
    let path = Path::new("/sys/class/block").join(disk.file_name().unwrap_or_default());
    let path = path.join("stat");
    let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| format!("{}: `{text}`", path.display()))
}

/// Make swap of a disk that nobody uses. Linux, `include/linux/swap.h`: `union swap_header`.
pub(crate) fn make(disk: &Path) -> Result<(), String> {
    let wrong = |why: std::io::Error| format!("{}: {why}", disk.display());
    let mut options = fs::File::options();
    let file = options.read(true).write(true).custom_flags(libc::O_EXCL).open(disk);
    let file = file.map_err(wrong)?;
    let bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0));
    let pages = bytes.map_err(|why| wrong(why.into()))? / PAGE_BYTES;
    let mut page = [0; PAGE_BYTES as usize];
    page[1024..1028].copy_from_slice(&1u32.to_le_bytes());
    let last = u32::try_from(pages.saturating_sub(1)).unwrap_or(u32::MAX);
    page[1028..1032].copy_from_slice(&last.to_le_bytes());
    // Its UUID, by which one disk is told from another.
    rustix::rand::getrandom(&mut page[1036..1052], rustix::rand::GetRandomFlags::empty())
        .map_err(|why| format!("random numbers: {why}"))?;
    page[4086..].copy_from_slice(b"SWAPSPACE2");
    file.write_all_at(&page, 0).and_then(|()| file.sync_all()).map_err(wrong)
}

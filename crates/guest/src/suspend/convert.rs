//! A kernel's own image becomes one of ours. What the loader has to know of the machine, the
//! machine tells beforehand: the target is prepared.

use std::fs::File;
use std::path::{Path, PathBuf};

use resume::machine::{Range, map_of_bytes, map_to_bytes};
use resume::{Disk, Header, PAGE_BYTES, SECTOR_BYTES};

use super::swsusp::Hibernated;
use super::target::{HEADER_PAGE, Page, Store, Target, sum_of};
use super::{Report, machine, write};

/// Where the memory map is until there is data.
const MAP_PAGE: u64 = HEADER_PAGE + 1;

/// Tell `target` of this machine; what image it had is gone.
pub(crate) fn prepare(target: &Path) -> Result<(), String> {
    let map = machine::memory_map()?;
    let header = machine::header(&map)?;
    let map = map_to_bytes(&map).ok_or("the memory map has more ranges than a page")?;
    let mut target = Target::open(target)?;
    target.erase_mark()?;
    target.write_bytes(HEADER_PAGE, &header.to_bytes().0)?;
    target.write_bytes(MAP_PAGE, &map)?;
    target.sync()
}

/// Make an image of ours in `target`, which was prepared, of the kernel's in `swap`, which is only
/// swap again afterwards. `disks` are the others of the machine.
///
/// # Errors
/// What does not fit. The kernel's image is there until all of ours is, but for its mark.
pub(crate) fn convert(swap: &Path, target: &Path, disks: &[PathBuf]) -> Result<Report, String> {
    let mut source = Hibernated::open(swap)?;
    let shown = target.display();
    let mut target = Target::open(target)?;
    let unprepared = || format!("{shown}: expected a target after `suspend --prepare` there");
    let (mut page, mut map_page) = (Page::default(), Page::default());
    target.read(HEADER_PAGE * PAGE_BYTES as u64, &mut page)?;
    target.read(MAP_PAGE * PAGE_BYTES as u64, &mut map_page)?;
    let mut header = Header::read_prepared(&page.0).map_err(|_| unprepared())?;
    let map: Vec<Range> = map_of_bytes(&map_page.0).ok_or_else(unprepared)?.collect();
    let count = header.disk_count as usize;
    for disk in &mut header.disks[..count] {
        disk.sum = sum(disk, [swap].into_iter().chain(disks.iter().map(PathBuf::as_path)))?;
    }
    let mut report = write(&mut source, header, &map, &mut target)?;
    report.written_bytes = target.written_bytes;
    Ok(report)
}

/// The state of a disk's file system after the suspend: that of the first that has its size.
fn sum<'a>(disk: &Disk, mut among: impl Iterator<Item = &'a Path>) -> Result<u32, String> {
    let size = |path: &Path| {
        let file = File::open(path).map_err(|why| format!("{}: {why}", path.display()))?;
        let bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0));
        let bytes = bytes.map_err(|why| format!("{}: {why}", path.display()))?;
        Ok((file, bytes / SECTOR_BYTES as u64))
    };
    let found: Result<_, String> = among
        .find_map(|path| match size(path) {
            Ok((file, sectors)) if sectors == disk.sectors => Some(Ok((file, path))),
            Ok(_) => None,
            Err(why) => Some(Err(why)),
        })
        .unwrap_or_else(|| {
            Err(format!("a disk of {} sectors was in use: expected it, too", disk.sectors))
        });
    let (file, path) = found?;
    sum_of(&file, path, disk.superblock_sector)
}

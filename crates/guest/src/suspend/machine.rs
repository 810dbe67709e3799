//! The machine as the loader will look at it again.

use std::fs;
use std::path::{Path, PathBuf};

use resume::machine::{self, Range};
use resume::{Disk, Header, PAGE_BYTES};

use super::target::sectors_sum;

/// What a header says of this machine.
pub(super) fn header(map: &[Range]) -> Result<Header, String> {
    let memory = machine::memory(map.iter().copied());
    let processor = processor();
    let mut header = Header { frames: frames(map), processor, memory, ..Header::empty() };
    for disk in disks()? {
        if !header.add_disk(disk) {
            return Err("more file systems are mounted than an image has room for".into());
        }
    }
    Ok(header)
}

/// Digest of the processor.
fn processor() -> u64 {
    machine::processor(|leaf| {
        let found = core::arch::x86_64::__cpuid_count(leaf, 0);
        [found.eax, found.ebx, found.ecx, found.edx]
    })
}

/// Does the kernel use five levels of page tables?
pub(super) fn five_levels() -> bool {
    // The kernel shows the feature only while it is in use.
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.split_whitespace().any(|word| word == "la57")
}

/// The firmware's memory map, in rising order.
pub(super) fn memory_map() -> Result<Vec<Range>, String> {
    const MAP: &str = "/sys/firmware/memmap";
    let folders = fs::read_dir(MAP).map_err(|why| {
        format!("{MAP}: {why}; expected a mounted sysfs, and a kernel with CONFIG_FIRMWARE_MEMMAP")
    })?;
    let mut map = Vec::new();
    for folder in folders.flatten() {
        let text = |name: &str| {
            let path = folder.path().join(name);
            fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
        };
        let number = |name: &str| {
            let text = text(name)?;
            let digits = text.trim().trim_start_matches("0x");
            u64::from_str_radix(digits, 16).map_err(|why| format!("{MAP}: `{text}`: {why}"))
        };
        let (start, end) = (number("start")?, number("end")?);
        let kind = match text("type")?.trim() {
            "System RAM" => Range::USABLE,
            "ACPI Tables" => 3,
            "ACPI Non-volatile Storage" => 4,
            "Unusable memory" => 5,
            "Persistent Memory" => 7,
            "Soft Reserved" => 0xefff_ffff,
            _ => 2,
        };
        map.push(Range { start, bytes: end - start + 1, kind });
    }
    let count = machine::merge(&mut map);
    map.truncate(count);
    Ok(map)
}

/// One after the last frame of usable memory.
fn frames(map: &[Range]) -> u64 {
    let usable = map.iter().filter(|range| range.kind == Range::USABLE);
    usable.map(|range| (range.start + range.bytes) / PAGE_BYTES as u64).max().unwrap_or(0)
}

/// Pages that were written to swap since the boot.
pub(super) fn swapped_pages() -> Result<u64, String> {
    const PATH: &str = "/proc/vmstat";
    let text = fs::read_to_string(PATH).map_err(|why| format!("{PATH}: {why}"))?;
    let count = text.lines().find_map(|line| line.strip_prefix("pswpout "));
    // A kernel without swap does not count.
    Ok(count.and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// The numbers of the disks that are swap.
fn swaps() -> Vec<String> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let partitions = text.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        let (path, kind) = (words.next()?, words.next()?);
        (kind == "partition").then(|| path.to_string())
    });
    let number = |path: String| {
        let device = rustix::fs::stat(&path).ok()?.st_rdev;
        Some(format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)))
    };
    partitions.filter_map(number).collect()
}

/// The file systems that are mounted from disks and the disks that are swap, as they are now. The
/// superblock of swap is where that of ext2 to ext4 is.
fn disks() -> Result<Vec<Disk>, String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|why| format!("/proc/self/mountinfo: {why}"))?;
    let mut numbers: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    // Major 0 has no device.
    numbers.retain(|number| !number.starts_with("0:"));
    let swaps = swaps();
    let all = numbers.into_iter().chain(swaps.iter().map(String::as_str));
    all.map(disk).collect()
}

fn disk(number: &str) -> Result<Disk, String> {
    let wrong = |path: &Path, why: String| format!("{}: {why}", path.display());
    let part = fs::canonicalize(Path::new("/sys/dev/block").join(number))
        .map_err(|why| format!("block device {number}: {why}"))?;
    let number_in = |path: PathBuf| {
        let text = fs::read_to_string(&path).map_err(|why| wrong(&path, why.to_string()))?;
        text.trim().parse::<u64>().map_err(|why| wrong(&path, why.to_string()))
    };
    let is_part = part.join("partition").exists();
    let whole = if is_part { part.parent().unwrap_or(&part) } else { &part };
    let start = if is_part { number_in(part.join("start"))? } else { 0 };
    let name = whole.file_name().unwrap_or_default();
    // Of ext2 to ext4, whose superblock follows the first 1,024 bytes and names the last mount.
    let superblock_sector = start + 2;
    let sum = sectors_sum(&Path::new("/dev").join(name), superblock_sector)?;
    Ok(Disk { sectors: number_in(whole.join("size"))?, superblock_sector, sum })
}

//! The machine as the loader will look at it again.

use std::fs;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use resume::machine::{self, Range};
use resume::{Disk, Header, PAGE_BYTES};
use rustix::fs::{major, minor};

use super::target::sectors_sum;

/// What a header says of this machine.
pub(super) fn header(map: &[Range]) -> Result<Header, String> {
    let memory = machine::memory(map.iter().copied());
    let processor = processor();
    let paging_levels = if five_levels() { 5 } else { 4 };
    let frames = frames(map);
    let mut header = Header { frames, processor, memory, paging_levels, ..Header::empty() };
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
fn five_levels() -> bool {
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

/// Frames of usable memory that are not free: what an image of now would have, but for what the
/// kernel takes and gives back to make it.
pub(super) fn frames_in_use(map: &[Range]) -> Result<Vec<u64>, String> {
    /// Linux, `Documentation/admin-guide/mm/pagemap.rst`: in the buddy allocator, a hole, given
    /// back to a hypervisor.
    const FREE: u64 = 1 << 10 | 1 << 20 | 1 << 23;
    const PATH: &str = "/proc/kpageflags";
    let wrong = |why: std::io::Error| format!("{PATH}: {why}");
    let file = fs::File::open(PATH).map_err(wrong)?;
    let (mut words, mut used) = (vec![0; 1 << 20], Vec::new());
    for range in map.iter().filter(|range| range.kind == Range::USABLE) {
        let page = PAGE_BYTES as u64;
        let (mut frame, end) = (range.start.div_ceil(page), (range.start + range.bytes) / page);
        while frame < end {
            let bytes = words.len().min((end - frame) as usize * 8);
            // It ends with the last frame that the kernel knows.
            let read = file.read_at(&mut words[..bytes], frame * 8).map_err(wrong)? / 8;
            if read == 0 {
                break;
            }
            let (states, _) = words[..read * 8].as_chunks::<8>();
            let is_used = |state: &[u8; 8]| u64::from_ne_bytes(*state) & FREE == 0;
            let states = (frame..).zip(states);
            used.extend(states.filter(|(_, state)| is_used(state)).map(|(frame, _)| frame));
            frame += read as u64;
        }
    }
    Ok(used)
}

/// Pages that were written to swap since the boot.
pub(super) fn swapped_pages() -> Result<u64, String> {
    const PATH: &str = "/proc/vmstat";
    let text = fs::read_to_string(PATH).map_err(|why| format!("{PATH}: {why}"))?;
    let count = text.lines().find_map(|line| line.strip_prefix("pswpout "));
    // A kernel without swap does not count.
    Ok(count.and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// A file system or swap that lies on a disk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Use {
    /// The device's numbers, as `major:minor`.
    number: String,
    kind: String,
}

impl Use {
    /// Where the two sectors are that tell the state: of ext2 to ext4 and of swap behind the first
    /// 1,024 bytes, of btrfs behind the first 64 KiB; of others, what is there.
    fn superblock_sector(&self) -> u64 {
        match self.kind.as_str() {
            "ext2" | "ext3" | "ext4" | "swap" => 2,
            "btrfs" => 128,
            _ => 0,
        }
    }

    /// Do these change with each mount for writing?
    fn tells_mounts(&self) -> bool {
        ["ext2", "ext3", "ext4", "btrfs"].contains(&self.kind.as_str())
    }
}

/// The file systems of `/proc/self/mountinfo`: the device's numbers, the kind, and the source.
fn mounted(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.lines().filter_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut tail = tail.split(' ');
        Some((head.split(' ').nth(2)?, tail.next()?, tail.next()?))
    })
}

/// The numbers of a block device.
fn number(path: &str) -> Option<String> {
    let device = rustix::fs::stat(path).ok()?.st_rdev;
    Some(format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)))
}

/// What of this machine's disks is in use.
fn uses() -> Result<Vec<Use>, String> {
    const MOUNTS: &str = "/proc/self/mountinfo";
    let mounts = fs::read_to_string(MOUNTS).map_err(|why| format!("{MOUNTS}: {why}"))?;
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mounts = mounted(&mounts).filter_map(|(device, kind, source)| {
        // Some, as btrfs, have a number of their own; others have no device.
        let number = match device.strip_prefix("0:") {
            Some(_) => number(source).filter(|_| source.starts_with("/dev/"))?,
            None => device.to_string(),
        };
        Some(Use { number, kind: kind.into() })
    });
    // Those in files belong to a file system.
    let swaps = swaps.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        let (path, kind) = (words.next()?, words.next()?);
        let number = (kind == "partition").then(|| number(path)).flatten()?;
        Some(Use { number, kind: "swap".into() })
    });
    let mut uses: Vec<Use> = mounts.chain(swaps).collect();
    uses.sort_unstable();
    uses.dedup();
    Ok(uses)
}

/// The file systems that are mounted from disks and the disks that are swap, as they are now: what
/// must be the same when the machine is resumed.
fn disks() -> Result<Vec<Disk>, String> {
    let uses = uses()?;
    let mut disks = Vec::new();
    let mut tells = false;
    for one in &uses {
        if let Some(disk) = disk(one)? {
            disks.push(disk);
            tells |= one.tells_mounts();
        }
    }
    if tells || disks.is_empty() {
        return Ok(disks);
    }
    let kinds: Vec<&str> = uses.iter().map(|one| one.kind.as_str()).collect();
    Err(format!(
        "nothing would tell the loader that a file system was mounted meanwhile: expected one \
         that is ext2 to ext4 or btrfs among those of disks, got {}",
        kinds.join(", ")
    ))
}

/// Where the kernel has a block device: its own folder, and that of the whole disk.
struct Place {
    part: PathBuf,
    whole: PathBuf,
}

impl Place {
    /// Of a device by its numbers, as `major:minor`.
    fn of(number: &str) -> Result<Place, String> {
        let part = fs::canonicalize(Path::new("/sys/dev/block").join(number))
            .map_err(|why| format!("block device {number}: {why}"))?;
        let above = part.parent().filter(|_| part.join("partition").exists());
        let whole = above.unwrap_or(&part).to_path_buf();
        Ok(Place { part, whole })
    }

    fn is_part(&self) -> bool {
        self.part != self.whole
    }

    fn name(&self) -> String {
        self.whole.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// It is no disk, but made of disks, a file or memory.
    fn is_virtual(&self) -> bool {
        self.whole.components().any(|part| part.as_os_str() == "virtual")
    }
}

/// Refuse a target that no loader finds: it reads disks and, by UEFI, their partitions.
pub(super) fn check_target(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let found = fs::metadata(path).map_err(|why| format!("{shown}: {why}"))?;
    let refused = |what: String| Err(format!("{shown}: {what}; expected a disk or a partition"));
    if !found.file_type().is_block_device() {
        return refused("it is no block device, and no loader would find it".into());
    }
    let place = Place::of(&format!("{}:{}", major(found.rdev()), minor(found.rdev())))?;
    if place.is_virtual() {
        return refused(format!("{} is made of something else: no loader finds it", place.name()));
    }
    if place.is_part() && !Path::new("/sys/firmware/efi").exists() {
        return Err(format!(
            "{shown}: a partition: the loader of a machine without UEFI reads whole disks only; \
             expected a disk"
        ));
    }
    Ok(())
}

/// `None` for what lies in memory, or in a file of another file system.
fn disk(of: &Use) -> Result<Option<Disk>, String> {
    let wrong = |path: &Path, why: String| format!("{}: {why}", path.display());
    let place = Place::of(&of.number)?;
    let number_in = |path: PathBuf| {
        let text = fs::read_to_string(&path).map_err(|why| wrong(&path, why.to_string()))?;
        text.trim().parse::<u64>().map_err(|why| wrong(&path, why.to_string()))
    };
    let name = place.name();
    if place.is_virtual() {
        return if ["loop", "zram", "ram"].iter().any(|kind| name.starts_with(kind)) {
            Ok(None)
        } else {
            Err(format!(
                "{} is on {name}, which is made of other disks: the loader would not find it; \
                 expected file systems and swap on disks or partitions",
                of.kind
            ))
        };
    }
    let start = if place.is_part() { number_in(place.part.join("start"))? } else { 0 };
    let superblock_sector = start + of.superblock_sector();
    let sum = sectors_sum(&Path::new("/dev").join(&name), superblock_sector).map_err(|why| {
        format!(
            "{why}: the {} there must be the same at the resume; expected root of a whole \
             machine, not of a container",
            of.kind
        )
    })?;
    Ok(Some(Disk { sectors: number_in(place.whole.join("size"))?, superblock_sector, sum }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_told_with_their_kind_and_source() {
        let text = "26 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
                    30 26 0:25 / /data rw,relatime shared:5 master:2 - btrfs /dev/sdb rw,space\n\
                    31 26 0:6 / /dev rw - devtmpfs devtmpfs rw\nno line\n";
        let found: Vec<_> = mounted(text).collect();
        assert_eq!(found[0], ("254:1", "ext4", "/dev/vda1"));
        assert_eq!(found[1], ("0:25", "btrfs", "/dev/sdb"));
        assert_eq!(found[2..], [("0:6", "devtmpfs", "devtmpfs")]);
    }

    #[test]
    fn state_is_told_where_each_kind_has_it() {
        let of = |kind: &str| Use { number: "8:1".into(), kind: kind.into() };
        let found = ["ext3", "btrfs", "swap", "xfs"].map(|kind| {
            let one = of(kind);
            (one.superblock_sector(), one.tells_mounts())
        });
        assert_eq!(found, [(2, true), (128, true), (2, false), (0, false)]);
    }

    #[test]
    fn what_is_on_this_machine_is_found() {
        // Whatever it is, it has a number that the kernel knows.
        for one in uses().unwrap() {
            assert!(Path::new("/sys/dev/block").join(&one.number).exists(), "{one:?}");
        }
    }
}

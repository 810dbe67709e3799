//! The machine as the loader will look at it again.

use std::fs;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use resume::machine::{self, Range};
use resume::{Disk, FRAMES_MAX, Header, PAGE_BYTES, superblock_sum};
use rustix::fs::{FileType, major, minor};

use super::target::{open_disk, superblock};
use super::{mounts, namespaces};

/// What a header says of this machine.
pub(super) fn header(map: &[Range]) -> Result<Header, String> {
    let memory = machine::memory(map.iter().copied());
    let processor = processor();
    let paging_levels = if five_levels() { 5 } else { 4 };
    let frames = frames(map)?;
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
fn frames(map: &[Range]) -> Result<u64, String> {
    let usable = map.iter().filter(|range| range.kind == Range::USABLE);
    let ends = usable.map(|range| (range.start + range.bytes) / PAGE_BYTES as u64);
    match ends.max().unwrap_or(0) {
        frames if frames <= FRAMES_MAX => Ok(frames),
        frames => Err(format!(
            "memory reaches up to {} GiB: expected at most {} GiB, which is what the loader maps",
            frames.div_ceil(1 << 18),
            FRAMES_MAX >> 18,
        )),
    }
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
    /// 1,024 bytes, of bcachefs behind the first 4 KiB, of btrfs behind the first 64 KiB; of
    /// others, what is there.
    fn superblock_sector(&self) -> u64 {
        match self.kind.as_str() {
            "ext2" | "ext3" | "ext4" | "swap" => 2,
            "bcachefs" => 8,
            "btrfs" => 128,
            _ => 0,
        }
    }

    /// Do these change with each mount for writing?
    fn tells_mounts(&self) -> bool {
        ["ext2", "ext3", "ext4", "btrfs"].contains(&self.kind.as_str())
    }
}

/// The file systems of `/proc/PID/mountinfo`: the device's numbers, the kind, and the source.
fn mounted(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.lines().filter_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut tail = tail.split(' ');
        Some((head.split(' ').nth(2)?, tail.next()?, tail.next()?))
    })
}

/// The numbers of a block device.
fn number(path: &str) -> Option<String> {
    let found = rustix::fs::stat(path).ok()?;
    let is_device = FileType::from_raw_mode(found.st_mode).is_block_device();
    is_device.then(|| format!("{}:{}", major(found.st_rdev), minor(found.st_rdev)))
}

/// Where the kernel tells the devices of each btrfs that is mounted.
const BTRFS: &str = "/sys/fs/btrfs";

/// The numbers of all devices of the btrfs that one of them, with the number `one`, belongs to;
/// `None` where `folder`, which is [`BTRFS`], does not tell them.
fn btrfs_devices(folder: &Path, one: &str) -> Option<Vec<String>> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let numbers = |system: fs::DirEntry| {
        let devices = entries(&system.path().join("devices"));
        let number = |path: PathBuf| Some(fs::read_to_string(path).ok()?.trim().to_string());
        devices.map(|device| number(device.path().join("dev"))).collect::<Option<Vec<_>>>()
    };
    let mut systems = entries(folder).filter_map(numbers);
    systems.find(|numbers| numbers.iter().any(|number| number == one))
}

/// The numbers of the devices that a mount lies on, none where it lies on none; `number` tells that
/// of a path, and `btrfs` is [`BTRFS`].
fn devices(
    (device, kind, source): (&str, &str, &str),
    number: impl Fn(&str) -> Option<String>,
    btrfs: &Path,
) -> Result<Vec<String>, String> {
    if !device.starts_with("0:") {
        return Ok(vec![device.into()]);
    }
    // Some of disks have a number of their own, too.
    match kind {
        "zfs" => Err(format!(
            "{source} is mounted, of ZFS, and the loader could not tell that it was imported \
             elsewhere meanwhile; expected none: zpool export {}",
            source.split('/').next().unwrap_or_default()
        )),
        "btrfs" | "bcachefs" => {
            // Of several devices bcachefs names all, side by side, and in a name of one may be a
            // colon; btrfs names one of them.
            let all = || source.split(':').map(&number).collect();
            let named = number(source).map(|one| vec![one]).or_else(all).ok_or_else(|| {
                format!(
                    "a {kind} is mounted from {source}, which is no device of this system, and the \
                     loader could not tell that it was written meanwhile; expected the name of a \
                     device there, as an initramfs mounts the root by"
                )
            })?;
            let ([one], "btrfs") = (&named[..], kind) else { return Ok(named) };
            btrfs_devices(btrfs, one).ok_or_else(|| {
                format!(
                    "a btrfs is mounted from {source}, and {} does not tell which devices it has, \
                     so the loader could not tell that they were written meanwhile; expected a \
                     mounted sysfs with that file system in it",
                    btrfs.display()
                )
            })
        }
        _ => Ok(number(source).filter(|_| source.starts_with("/dev/")).into_iter().collect()),
    }
}

/// What of this machine's disks is in use, in whichever namespace.
fn uses() -> Result<Vec<Use>, String> {
    uses_of(&namespaces::mounts(Path::new("/proc"))?, number, Path::new(BTRFS))
}

/// The same of these namespaces' mounts; `number` tells the numbers of a device by its path, and
/// `btrfs` is [`BTRFS`].
fn uses_of(
    namespaces: &[String],
    number: impl Fn(&str) -> Option<String>,
    btrfs: &Path,
) -> Result<Vec<Use>, String> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut uses = Vec::new();
    for mount in namespaces.iter().flat_map(|mounts| mounted(mounts)) {
        let numbers = devices(mount, &number, btrfs)?.into_iter();
        uses.extend(numbers.map(|number| Use { number, kind: mount.1.into() }));
    }
    // Those in files belong to a file system.
    let swaps = swaps.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        let (path, kind) = (words.next()?, words.next()?);
        let number = (kind == "partition").then(|| number(path)).flatten()?;
        Some(Use { number, kind: "swap".into() })
    });
    uses.extend(swaps);
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

    /// It is no disk, but made of disks, a file or memory. A disk with several ways to it (NVMe
    /// with the kernel's own multipath) is one, and its name stays the same.
    fn is_virtual(&self) -> bool {
        let names: Vec<_> = self.whole.components().map(|part| part.as_os_str()).collect();
        let has_ways = names.windows(2).any(|two| two == ["virtual", "nvme-subsystem"]);
        names.iter().any(|name| *name == "virtual") && !has_ways
    }

    fn device(&self) -> PathBuf {
        Path::new("/dev").join(self.name())
    }
}

/// Make durable what was written to the disks that are in use, swap included.
pub(super) fn flush_disks() -> Result<(), String> {
    let places = uses()?.into_iter().map(|one| Place::of(&one.number));
    let mut places = places.collect::<Result<Vec<Place>, String>>()?;
    places.retain(|place| !place.is_virtual());
    let mut disks: Vec<PathBuf> = places.iter().map(Place::device).collect();
    disks.sort_unstable();
    disks.dedup();
    disks.iter().try_for_each(|disk| {
        let flushed = fs::File::open(disk).and_then(|file| file.sync_all());
        flushed.map_err(|why| format!("{}: flush: {why}", disk.display()))
    })
}

/// The kinds of file systems of disks that would not tell a conversion that they were mounted.
pub(super) fn untold() -> Result<Vec<String>, String> {
    let mut kinds: Vec<String> = Vec::new();
    for one in uses()?.into_iter().filter(|one| one.kind != "swap") {
        if disk(&one)?.is_some_and(|disk| disk.mounts == 0) {
            kinds.push(one.kind);
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    Ok(kinds)
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
    let device = place.device();
    let read = open_disk(&device).and_then(|file| superblock(&file, &device, superblock_sector));
    let read = read.map_err(|why| {
        format!(
            "{why}: the {} there must be the same at the resume; expected root of a whole \
             machine, not of a container",
            of.kind
        )
    })?;
    let sectors = number_in(place.whole.join("size"))?;
    let (sum, mounts) = (superblock_sum(&read), mounts::mark(&read, mounts::freezes()));
    Ok(Some(Disk { sectors, superblock_sector, sum, mounts }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as the kernel's of btrfs is, of file systems with devices of these numbers, for as
    /// long as `look` takes.
    fn with_btrfs<T>(test: &str, systems: &[&[&str]], look: impl FnOnce(&Path) -> T) -> T {
        let name = format!("blocklab-btrfs-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("features")).unwrap();
        for (index, numbers) in systems.iter().enumerate() {
            for (disk, number) in numbers.iter().enumerate() {
                let device = folder.join(format!("{index}/devices/sd{disk}"));
                fs::create_dir_all(&device).unwrap();
                fs::write(device.join("dev"), format!("{number}\n")).unwrap();
            }
        }
        let found = look(&folder);
        fs::remove_dir_all(folder).unwrap();
        found
    }

    fn sorted(found: Result<Vec<String>, String>) -> Result<Vec<String>, String> {
        found.map(|mut numbers| {
            numbers.sort_unstable();
            numbers
        })
    }

    #[test]
    fn a_btrfs_lies_on_all_of_its_devices() {
        let number = |path: &str| (path == "/dev/sdc").then(|| "8:32".to_string());
        let mount = ("0:25", "btrfs", "/dev/sdc");
        let on = |systems: &[&[&str]]| {
            with_btrfs("all", systems, |folder| sorted(devices(mount, number, folder)))
        };
        let is = |numbers: &[&str]| Ok(numbers.iter().map(ToString::to_string).collect());
        let other: &[&str] = &["8:0", "8:1"];
        assert_eq!(on(&[other, &["8:48", "8:32"]]), is(&["8:32", "8:48"]));
        assert_eq!(on(&[&["8:32"], other]), is(&["8:32"]));
        let why = on(&[other]).unwrap_err();
        assert!(why.contains("does not tell which devices it has"), "{why}");
    }

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
    fn what_lies_on_disks_is_found_or_refused() {
        let number = |path: &str| {
            let known = ["/dev/sda", "/dev/sdb", "/dev/disk/by-path/pci-0000:00:1f.2"];
            known.iter().position(|known| *known == path).map(|at| format!("8:{at}"))
        };
        let systems: &[&[&str]] = &[&["8:1"], &["8:2"]];
        let on = |device: &str, kind: &str, source: &str| {
            let mount = (device, kind, source);
            with_btrfs("found", systems, |folder| devices(mount, number, folder))
        };
        let is = |numbers: &[&str]| Ok(numbers.iter().map(ToString::to_string).collect());
        assert_eq!(on("254:1", "ext4", "/dev/root"), is(&["254:1"]));
        assert_eq!(on("0:25", "btrfs", "/dev/sdb"), is(&["8:1"]));
        assert_eq!(on("0:25", "btrfs", "/dev/disk/by-path/pci-0000:00:1f.2"), is(&["8:2"]));
        assert_eq!(on("0:26", "bcachefs", "/dev/sda:/dev/sdb"), is(&["8:0", "8:1"]));
        // No device, or one that is no disk.
        for (kind, source) in [("tmpfs", "tmpfs"), ("fuse.x", "/dev/fuse"), ("overlay", "overlay")]
        {
            assert_eq!(on("0:6", kind, source), is(&[]), "{kind}");
        }
        for (kind, source, told) in [
            ("btrfs", "/dev/root", "a btrfs is mounted from /dev/root, which is no device"),
            ("bcachefs", "/dev/sda:/dev/sdc", "a bcachefs is mounted from /dev/sda:/dev/sdc"),
            ("zfs", "tank/home", "expected none: zpool export tank"),
        ] {
            let why = on("0:27", kind, source).unwrap_err();
            assert!(why.contains(told), "{why}");
        }
    }

    #[test]
    fn a_disk_with_several_ways_is_a_disk() {
        let is_virtual = |whole: &str| {
            let whole = PathBuf::from(whole);
            Place { part: whole.clone(), whole }.is_virtual()
        };
        assert!(!is_virtual("/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"));
        assert!(!is_virtual("/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/block/sda"));
        assert!(is_virtual("/sys/devices/virtual/block/dm-0"));
    }

    #[test]
    fn more_memory_than_the_loader_maps_is_refused() {
        let upto = |bytes: u64| [Range { start: 0, bytes, kind: Range::USABLE }];
        assert_eq!(frames(&upto(512 << 30)), Ok(1 << 27));
        let why = frames(&upto((512 << 30) + 4096)).unwrap_err();
        assert!(why.starts_with("memory reaches up to 513 GiB: expected at most 512 GiB"), "{why}");
        // What is not memory may be anywhere.
        let device = [Range { start: 1 << 45, bytes: 4096, kind: 2 }];
        assert_eq!(frames(&device), Ok(0));
    }

    #[test]
    fn state_is_told_where_each_kind_has_it() {
        let of = |kind: &str| Use { number: "8:1".into(), kind: kind.into() };
        let found = ["ext3", "btrfs", "bcachefs", "swap", "xfs"].map(|kind| {
            let one = of(kind);
            (one.superblock_sector(), one.tells_mounts())
        });
        assert_eq!(found, [(2, true), (128, true), (8, false), (2, false), (0, false)]);
    }

    #[test]
    fn what_is_on_this_machine_is_found() {
        // Whatever it is, it has a number that the kernel knows.
        // Of other namespaces only root is told.
        let own = fs::read_to_string("/proc/self/mountinfo").unwrap();
        for one in uses_of(&[own], number, Path::new(BTRFS)).unwrap() {
            assert!(Path::new("/sys/dev/block").join(&one.number).exists(), "{one:?}");
        }
    }

    #[test]
    fn what_only_a_container_has_mounted_is_in_use() {
        let root = "26 1 254:1 / / rw - ext4 /dev/vda1 rw\n";
        let container = "91 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
                         92 91 254:17 / /data rw - ext4 /dev/vdb1 rw\n\
                         93 91 0:25 / /more rw - btrfs /dev/vdc rw\n";
        let mounts = namespaces::tests::told(&[
            (1, 1, "mnt:[1]", Some(root)),
            (70, 70, "mnt:[2]", Some(container)),
        ]);
        let number = |path: &str| (path == "/dev/vdc").then(|| "254:32".to_string());
        let found =
            with_btrfs("container", &[&["254:32"]], |folder| uses_of(&mounts, number, folder));
        let found = found.unwrap();
        let found: Vec<&str> =
            found.iter().filter(|one| one.kind != "swap").map(|one| one.number.as_str()).collect();
        assert_eq!(found, ["254:1", "254:17", "254:32"]);
    }
}

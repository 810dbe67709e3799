//! Making a new mirror.

use std::path::{Path, PathBuf};

use mirror::core::Meta;
use mirror::format::layout::SUPERBLOCKS;
use mirror::format::maps::{Activity, SUMS_PER_PAGE};
use mirror::format::superblock::{EXTENTS_MAX, Generations, Membership, Seen, XXH64_SUMS};
use mirror::format::{Geometry, Layout, Superblock};
use mirror::{DEVICES, LEGS, Mode, Slot, WITNESS};
use study::Failure;

use super::device::{Access, Device, PAGE};
use super::media::{self, layout_of};
use super::{NAMES, Paths, random};

/// Looked at on both ends of a device before it is taken.
const LOOK_BYTES: u64 = 1 << 20;
/// Pages of the log: a quarter of a per cent of the device, but at least 4 MiB and at most 256.
const LOG_PAGES_MIN: u64 = 1 << 10;
const LOG_PAGES_MAX: u64 = 1 << 16;

/// What to make.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The devices.
    pub paths: Paths,
    /// Bytes offered to the host; `None` for as many as fit.
    pub bytes: Option<u64>,
    /// The mode it runs in.
    pub mode: Mode,
    /// Bytes of each device's log; `None` for a quarter of a per cent of the smaller leg, but at
    /// least 4 MiB, at most 256 MiB, and no more than the witness has room for.
    pub log_bytes: Option<u64>,
    /// Bytes of an extent of the activity log: 1,013 may be hot at a time.
    pub extent_bytes: u64,
    /// Devices that may be overwritten although they hold something.
    pub overwrite: Vec<PathBuf>,
}

/// An extent, if nobody wants another size.
pub const EXTENT_BYTES: u64 = 1 << 20;
/// The largest extent and the largest log.
const EXTENT_BYTES_MAX: u64 = 1 << 30;
const LOG_BYTES_MAX: u64 = 1 << 34;

/// What was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Created {
    /// The array's id.
    pub array: u128,
    /// Bytes offered to the host.
    pub bytes: u64,
    /// Bytes of each device's log.
    pub log_bytes: u64,
}

/// Make a mirror. Until the last superblock is written there is none: every start is refused.
///
/// # Errors
/// When a device cannot be used, is too small, or holds something that may not be overwritten.
pub fn create(plan: &CreateOptions) -> Result<Created, Failure> {
    plan.paths.distinct()?;
    let mut devices: [Option<Device>; DEVICES] = Default::default();
    for (slot, path) in plan.paths.each() {
        let device = Device::open(path, Access::Own)?;
        let named = plan.overwrite.iter().any(|named| named == path);
        if let (false, Some(holds)) = (named, holds(&device)?) {
            let shown = path.display();
            return Err(Failure::input(format!("{shown} holds {holds}"))
                .expected("an empty device: zeros in its first and last MiB")
                .help(format!("to lose what it holds: --overwrite {shown}")));
        }
        devices[slot] = Some(device);
    }
    let geometry = geometry(plan, &devices)?;
    let superblocks = superblocks(plan, geometry)?;
    let there = || devices.iter().enumerate().filter_map(|(s, d)| Some((s, d.as_ref()?)));
    for (slot, device) in there() {
        reserve(device, &layout_of(slot, &geometry))?;
    }
    for (slot, device) in there() {
        let wiped = wipe(device, &layout_of(slot, &geometry));
        wiped.map_err(|why| failed(device, &why))?;
    }
    // A log of hot extents that cannot be read is damage from now on.
    for (slot, device) in there().filter(|&(slot, _)| slot < LEGS) {
        let cold = Meta::Activity(Activity { version: 1, hot: Vec::new() });
        let layout = layout_of(slot, &geometry);
        let (page, bytes) = media::meta_pages(&cold, slot, superblocks[slot].array, &layout);
        device.write(page, &bytes, true).map_err(|why| failed(device, &why))?;
    }
    // The fast leg's comes last: the others alone are no mirror that starts.
    for (slot, device) in there().collect::<Vec<_>>().into_iter().rev() {
        let layout = layout_of(slot, &geometry);
        for copy in Layout::copies_of(1) {
            let page = layout.superblock(copy);
            let bytes = superblocks[slot].encode(page);
            device.write(page, &bytes[..], true).map_err(|why| failed(device, &why))?;
        }
    }
    let (bytes, log_bytes) = (geometry.blocks * PAGE, u64::from(geometry.log_pages) * PAGE);
    Ok(Created { array: superblocks[0].array, bytes, log_bytes })
}

pub(super) fn failed(device: &Device, why: &std::io::Error) -> Failure {
    Failure::machine(format!("cannot write {}: {why}", device.path().display()))
}

/// Forget what was there, then the data, so that both legs begin with the same content.
fn wipe(device: &Device, layout: &Layout) -> std::io::Result<()> {
    wipe_superblocks(device, layout)?;
    if layout.blocks > 0 {
        device.clear(layout.data, layout.blocks)?;
    }
    device.sync()
}

/// Take room for everything but the data, so that a full file system never stands in the way of
/// a start.
pub(super) fn reserve(device: &Device, layout: &Layout) -> Result<(), Failure> {
    let half = SUPERBLOCKS / 2;
    let end = layout.table + 2 * layout.blocks.div_ceil(SUMS_PER_PAGE);
    let reserved = device.reserve(0, end).and_then(|()| device.reserve(layout.pages - half, half));
    reserved.map_err(|why| {
        failed(device, &why)
            .expected(format!("room for {} bytes of metadata", (end + half) * PAGE))
            .help("make room on its file system")
    })
}

/// Forget every place where a superblock is looked for.
pub(super) fn wipe_superblocks(device: &Device, layout: &Layout) -> std::io::Result<()> {
    let half = SUPERBLOCKS / 2;
    if let Ok(old) = media::read_superblock(device, None) {
        let end = layout_of(old.device.into(), &old.geometry).pages;
        device.clear(end - half, half)?;
    }
    device.clear(0, half)?;
    for end in [layout.pages, device.pages()] {
        device.clear(end - half, half)?;
    }
    device.sync()
}

/// What a device holds, if it is not empty.
pub(super) fn holds(device: &Device) -> Result<Option<String>, Failure> {
    let look = (LOOK_BYTES / PAGE).min(device.pages());
    let mut head = vec![0; (look * PAGE) as usize];
    let mut tail = head.clone();
    let read = device.read(0, &mut head);
    read.and_then(|()| device.read(device.pages() - look, &mut tail)).map_err(|why| {
        Failure::machine(format!("cannot read {}: {why}", device.path().display()))
    })?;
    if let Ok(found) = media::read_superblock(device, None) {
        let name = NAMES[usize::from(found.device)];
        return Ok(Some(format!("the {name} of mirror {:032x}", found.array)));
    }
    let has = |at: usize, magic: &[u8]| head.get(at..at + magic.len()) == Some(magic);
    let known = [
        (512, &b"EFI PART"[..], "a GPT partition table"),
        (1080, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
        (0, b"XFSB", "an XFS file system"),
        (65600, b"_BHRfS_M", "a btrfs file system"),
        (0, b"LUKS", "an encrypted volume"),
        (536, b"LVM2", "an LVM physical volume"),
        (510, &[0x55, 0xaa], "a partition table or a boot sector"),
    ];
    let known = known.iter().find(|(at, magic, _)| has(*at, magic));
    let data = |bytes: &[u8]| bytes.iter().position(|&byte| byte != 0);
    let start = (device.pages() - look) * PAGE;
    Ok(match (known, data(&head), data(&tail)) {
        (Some((.., what)), ..) => Some((*what).to_string()),
        (None, Some(at), _) => Some(format!("data: byte {at} is not zero")),
        (None, None, Some(at)) => Some(format!("data: byte {} is not zero", start + at as u64)),
        (None, None, None) => None,
    })
}

/// The sizes: the smaller leg decides.
fn geometry(
    plan: &CreateOptions,
    devices: &[Option<Device>; DEVICES],
) -> Result<Geometry, Failure> {
    let pages = |slot: Slot| devices[slot].as_ref().map(Device::pages);
    let room = (0..LEGS).filter_map(pages).min().unwrap_or(0);
    let extent = plan.extent_bytes;
    if !extent.is_power_of_two() || !(16 * PAGE..=EXTENT_BYTES_MAX).contains(&extent) {
        return Err(Failure::input(format!("--extent {extent}"))
            .expected("a power of two from 64 KiB to 1 GiB"));
    }
    let log_pages = log_pages(plan, room, pages(WITNESS))?;
    let extent_blocks = (extent / PAGE) as u32;
    let of = |blocks| Geometry { blocks, extent_blocks, region_blocks: 16, log_pages };
    let blocks = match plan.bytes {
        Some(bytes) if bytes == 0 || bytes % PAGE != 0 => {
            return Err(Failure::input(format!("--size {bytes}"))
                .expected("a multiple of 4096 bytes, more than 0"));
        }
        Some(bytes) => bytes / PAGE,
        None => fitting(room, &of).max(1),
    };
    enough_extents(&of(blocks))?;
    let needed = Layout::leg(&of(blocks)).pages;
    for (slot, path) in plan.paths.each().filter(|&(slot, _)| slot < LEGS) {
        let found = pages(slot).unwrap_or(0);
        if found < needed {
            let what = format!("a leg of {} bytes of data", blocks * PAGE);
            return Err(too_small(path, found * PAGE, needed * PAGE, &what));
        }
    }
    Ok(of(blocks))
}

/// Are the extents large enough to be numbered?
fn enough_extents(geometry: &Geometry) -> Result<(), Failure> {
    let (found, extent) = (geometry.extents(), u64::from(geometry.extent_blocks) * PAGE);
    if found <= EXTENTS_MAX {
        return Ok(());
    }
    let bytes = geometry.blocks * PAGE;
    let least = extent * found.div_ceil(EXTENTS_MAX).next_power_of_two();
    Err(Failure::input(format!("--extent {extent} makes {found} extents of {bytes} bytes"))
        .expected(format!("at most {EXTENTS_MAX} extents"))
        .help(format!("larger ones: --extent {least}")))
}

/// Pages of each log, for legs of `room` pages and a witness of so many.
fn log_pages(plan: &CreateOptions, room: u64, witness: Option<u64>) -> Result<u32, Failure> {
    let mut log = (room / 400).clamp(LOG_PAGES_MIN, LOG_PAGES_MAX);
    if let Some(bytes) = plan.log_bytes {
        if bytes % PAGE != 0 || !(LOG_PAGES_MIN * PAGE..=LOG_BYTES_MAX).contains(&bytes) {
            return Err(Failure::input(format!("--log {bytes}"))
                .expected("a multiple of 4096 bytes from 4 MiB to 16 GiB"));
        }
        log = bytes / PAGE;
    }
    if let (Some(pages), Some(path)) = (witness, &plan.paths.witness) {
        let least = if plan.log_bytes.is_some() { log } else { LOG_PAGES_MIN };
        log = log.min(pages.saturating_sub(SUPERBLOCKS));
        if log < least {
            let needed = (least + SUPERBLOCKS) * PAGE;
            return Err(too_small(path, pages * PAGE, needed, "a witness"));
        }
    }
    Ok(log as u32)
}

fn too_small(path: &Path, found: u64, needed: u64, what: &str) -> Failure {
    Failure::input(format!("{} has {found} bytes", path.display()))
        .expected(format!("at least {needed} bytes for {what}"))
}

/// The most blocks that fit into a leg of `room` pages.
fn fitting(room: u64, of: &impl Fn(u64) -> Geometry) -> u64 {
    let mut blocks = room;
    while blocks > 0 {
        let needed = Layout::leg(&of(blocks)).pages;
        if needed <= room {
            break;
        }
        blocks = blocks.saturating_sub(needed - room);
    }
    blocks
}

fn superblocks(plan: &CreateOptions, geometry: Geometry) -> Result<[Superblock; DEVICES], Failure> {
    let (array, current) = (random()?, random()?.max(1));
    let witness = plan.paths.witness.as_ref().map_or(Membership::Never, |_| Membership::Member);
    let identities = [random()?, random()?, random()?];
    Ok(std::array::from_fn(|slot| Superblock {
        array,
        device: slot as u8,
        identity: identities[slot],
        features: [0, 0, XXH64_SUMS],
        geometry,
        update: 1,
        incarnation: 1,
        generations: Generations { current, ..Generations::default() },
        members: [Membership::Member, Membership::Member, witness],
        mode: plan.mode,
        clean: true,
        armed_relaxed: false,
        armed_witness: false,
        log_first: 1,
        run: 0,
        seen: std::array::from_fn(|slot| match plan.paths.of(slot) {
            Some(_) => Seen { identity: identities[slot], update: 1, run: 0 },
            None => Seen::default(),
        }),
    }))
}

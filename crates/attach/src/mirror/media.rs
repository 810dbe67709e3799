//! Real devices for the recovery: their superblocks, and [`Media`].

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mirror::core::Meta;
use mirror::format::layout::{ACTIVITY_PAGES, SUPERBLOCKS};
use mirror::format::maps::{Activity, Bitmap, TablePage};
use mirror::format::page::Damage;
use mirror::format::record::Record;
use mirror::format::sums::BlockSums;
use mirror::format::{Geometry, Layout, PAGE_BYTES, PageAddress, Superblock, superblock};
use mirror::policy::assemble::Offer;
use mirror::recovery::Media;
use mirror::{Block, DEVICES, LEGS, Slot};

use super::device::{Device, PAGE};
use super::mutant::planted;

/// The layout of the device in `slot`.
pub(super) fn layout_of(slot: Slot, geometry: &Geometry) -> Layout {
    if slot < LEGS { Layout::leg(geometry) } else { Layout::witness(geometry) }
}

/// The superblock on `page`, whichever slot the device has.
fn superblock_at(device: &Device, page: u64) -> Result<Superblock, Damage> {
    let mut bytes = [0; PAGE_BYTES];
    if device.read(page, &mut bytes).is_err() {
        return Err(Damage::Length { found: 0 });
    }
    let slots = (0..DEVICES as u8).map(|slot| (slot, PageAddress { device: slot, page }));
    let mut found = { slots }.map(|(slot, place)| {
        let superblock = Superblock::decode(place, &bytes)?;
        let expected = "the slot that its checksum was made for";
        let (name, offset, value) = ("device", 32, superblock.device.into());
        let fits = superblock.device == slot;
        fits.then_some(superblock).ok_or(Damage::Field { name, offset, value, expected })
    });
    let first = found.next().expect("there are slots");
    first.or_else(|damage| found.find_map(Result::ok).ok_or(damage))
}

/// The current superblock of a device, looked for at its head and at its end. `hint` is what the
/// other devices say of it, for a device whose head is damaged.
pub(super) fn read_superblock(
    device: &Device,
    hint: Option<(Slot, &Geometry)>,
) -> Result<Superblock, Vec<Damage>> {
    let half = SUPERBLOCKS / 2;
    let mut copies: Vec<_> = (0..half).map(|copy| superblock_at(device, copy)).collect();
    let mut ends: Vec<u64> = { copies.iter().flatten() }
        .map(|found| layout_of(found.device.into(), &found.geometry).pages)
        .collect();
    if ends.is_empty() {
        ends.extend(hint.map(|(slot, geometry)| layout_of(slot, geometry).pages));
        ends.push(device.pages());
    }
    ends.dedup();
    for end in ends.into_iter().filter(|&end| end > SUPERBLOCKS && end <= device.pages()) {
        copies.extend((end - half..end).map(|page| superblock_at(device, page)));
    }
    superblock::newest(copies)
}

/// Which device is being asked, for whoever waits for its answer.
#[derive(Clone, Default, Debug)]
pub(super) struct Asked(Arc<AtomicUsize>);

impl Asked {
    pub(super) fn begins(&self, slot: Slot) {
        self.0.store(slot, Ordering::Relaxed);
    }

    pub(super) fn last(&self) -> Slot {
        self.0.load(Ordering::Relaxed)
    }
}

/// The devices that are there, by what they say they are.
pub(super) struct Devices {
    pub(super) slots: [Option<Device>; DEVICES],
    pub(super) array: u128,
    pub(super) sums: BlockSums,
    pub(super) geometry: Geometry,
    /// What the user must know of the start.
    pub(super) notes: Vec<String>,
    pub(super) asked: Asked,
}

/// A device failed during the recovery.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) slot: Slot,
    pub(super) why: io::Error,
}

impl Devices {
    pub(super) fn offer(device: &Device, superblock: &Superblock) -> Offer {
        Offer { superblock: Ok(superblock.clone()), pages: device.pages() }
    }

    fn device(&self, slot: Slot) -> Result<&Device, Broken> {
        self.asked.begins(slot);
        let missing = || Broken { slot, why: io::ErrorKind::NotFound.into() };
        self.slots[slot].as_ref().ok_or_else(missing)
    }

    fn layout(&self, slot: Slot) -> Layout {
        layout_of(slot, &self.geometry)
    }

    fn page(&self, slot: Slot, page: u64) -> Result<Option<[u8; PAGE_BYTES]>, Broken> {
        let mut bytes = [0; PAGE_BYTES];
        Ok(self.device(slot)?.read(page, &mut bytes).is_ok().then_some(bytes))
    }

    /// A page at its place, if it can be read.
    fn at(&self, slot: Slot, page: u64) -> Result<Option<(PageAddress, [u8; PAGE_BYTES])>, Broken> {
        let place = PageAddress { device: slot as u8, page };
        Ok(self.page(slot, page)?.map(|bytes| (place, bytes)))
    }

    fn write(
        &mut self,
        slot: Slot,
        work: impl FnOnce(&Device) -> io::Result<()>,
    ) -> Result<(), Broken> {
        work(self.device(slot)?).map_err(|why| Broken { slot, why })
    }

    /// The newest of what is on `pages`, of what can be read and decoded.
    fn newest<T>(
        &self,
        slot: Slot,
        pages: Range<u64>,
        decode: impl Fn(PageAddress, &[u8]) -> Result<T, Damage>,
        version: impl Fn(&T) -> u64,
    ) -> Result<Option<T>, Broken> {
        let mut newest: Option<T> = None;
        for page in pages {
            let Some((place, bytes)) = self.at(slot, page)? else { continue };
            let Ok(found) = decode(place, &bytes) else { continue };
            if newest.as_ref().is_none_or(|newest| version(newest) < version(&found)) {
                newest = Some(found);
            }
        }
        Ok(newest)
    }

    /// Copy page `source` of one device to a block of another.
    fn transfer(&mut self, from: Slot, source: u64, to: Slot, block: Block) -> Result<(), Broken> {
        let mut bytes = [0; PAGE_BYTES];
        let read = self.device(from)?.read(source, &mut bytes);
        read.map_err(|why| Broken { slot: from, why })?;
        let home = self.layout(to).data + block;
        self.write(to, |device| device.write(home, &bytes, false))
    }
}

impl Media for Devices {
    type Error = Broken;

    fn record(&mut self, slot: Slot, page: u64) -> Result<Option<Record>, Broken> {
        let found = self.at(slot, self.layout(slot).log + page)?;
        Ok(found.and_then(|(place, bytes)| Record::decode(self.array, place, &bytes).ok()))
    }

    fn payload(&mut self, slot: Slot, page: u64, block: Block, sum: u32) -> Result<bool, Broken> {
        let layout = self.layout(slot);
        if page >= layout.log_pages {
            return Ok(false);
        }
        let bytes = self.page(slot, layout.log + page)?;
        Ok(bytes.is_some_and(|bytes| self.sums.sum(block, &bytes) == sum))
    }

    fn activity(&mut self, slot: Slot) -> Result<Option<Activity>, Broken> {
        let first = self.layout(slot).activity;
        let decode = |place, bytes: &[u8]| Activity::decode(self.array, place, bytes);
        self.newest(slot, first..first + ACTIVITY_PAGES, decode, |found| found.version)
    }

    fn bitmap(&mut self, slot: Slot, index: u64) -> Result<Option<Bitmap>, Broken> {
        let slots = self.layout(slot).bitmap_slots(index);
        let decode = |place, bytes: &[u8]| Bitmap::decode(self.array, place, bytes);
        let newest = self.newest(slot, slots, decode, |found| found.version)?;
        Ok(newest.filter(|newest| newest.index == index))
    }

    fn table(&mut self, slot: Slot, index: u64) -> Result<Option<TablePage>, Broken> {
        let slots = self.layout(slot).table_slots(index);
        let decode = |place, bytes: &[u8]| TablePage::decode(self.array, place, bytes);
        let newest = self.newest(slot, slots, decode, |found| found.version)?;
        Ok(newest.filter(|newest| newest.index == index))
    }

    fn sum(&mut self, slot: Slot, block: Block) -> Result<Option<u32>, Broken> {
        let bytes = self.page(slot, self.layout(slot).data + block)?;
        Ok(bytes.map(|bytes| self.sums.sum(block, &bytes)))
    }

    fn replay(&mut self, from: Slot, page: u64, to: Slot, block: Block) -> Result<(), Broken> {
        self.transfer(from, self.layout(from).log + page, to, block)
    }

    fn zero(&mut self, slot: Slot, block: Block, _: u32) -> Result<(), Broken> {
        let home = self.layout(slot).data + block;
        self.write(slot, |device| device.zero(home, 1, false, false))
    }

    fn copy(&mut self, from: Slot, to: Slot, block: Block) -> Result<(), Broken> {
        self.transfer(from, self.layout(from).data + block, to, block)
    }

    fn flush(&mut self, slot: Slot) -> Result<(), Broken> {
        if planted!(RecoveryWithoutFlush) {
            return Ok(());
        }
        self.write(slot, Device::sync)
    }

    fn meta(&mut self, slot: Slot, meta: Meta) -> Result<(), Broken> {
        let (page, bytes) = meta_pages(&meta, slot, self.array, &self.layout(slot));
        let durable = !planted!(RecoveryMetaInCache);
        self.write(slot, |device| device.write(page, &bytes, durable))
    }
}

/// Where a metadata page goes and what is written there.
pub(super) fn meta_pages(meta: &Meta, slot: Slot, array: u128, layout: &Layout) -> (u64, Vec<u8>) {
    let place = |page| PageAddress { device: slot as u8, page };
    let pages = meta.pages(layout);
    let first = pages.start;
    match meta {
        Meta::Superblock { superblock, .. } => (first, superblock.encode(first).to_vec()),
        Meta::Activity(activity) => {
            let mut bytes = Vec::with_capacity(2 * PAGE as usize);
            for page in pages {
                bytes.extend(activity.encode(array, place(page)).iter());
                if planted!(ActivityOneCopy) {
                    break;
                }
            }
            (first, bytes)
        }
        Meta::Bitmap(bitmap) => (first, bitmap.encode(array, place(first)).to_vec()),
        Meta::Table(table) => {
            let only = || layout.table_slots(table.index).start;
            let page = if planted!(TableOneSlot) { only() } else { first };
            (page, table.encode(array, place(page)).to_vec())
        }
    }
}

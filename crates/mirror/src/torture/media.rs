//! Simulated devices as the media of a recovery, with a power cut after any number of steps.

use std::collections::BTreeMap;

use super::disk::{self, Disk, Effect, Page};
use crate::core::Meta;
use crate::format::maps::{Activity, Bitmap, TablePage};
use crate::format::record::Record;
use crate::recovery::Media;
use crate::types::{DEVICES, Slot};

/// The power was cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerCut;

/// The devices during a recovery.
pub struct Devices<'a> {
    /// The devices.
    pub disks: &'a mut [Disk; DEVICES],
    /// Zeros have values of their own here; what a log says of them is a checksum.
    pub zeros: &'a BTreeMap<u32, u64>,
    /// Writes until the power is cut.
    pub steps: u64,
    /// The write that was out when it was.
    pub flying: Option<(Slot, Effect)>,
}

impl Devices<'_> {
    fn write(&mut self, slot: Slot, effect: Effect) -> Result<(), PowerCut> {
        if self.steps == 0 {
            self.flying = Some((slot, effect));
            return Err(PowerCut);
        }
        self.steps -= 1;
        self.disks[slot].apply(&effect);
        Ok(())
    }

    fn write_block(&mut self, slot: Slot, block: u64, content: u64) -> Result<(), PowerCut> {
        let mut contents = [0; super::SPAN_MAX];
        contents[0] = content;
        self.write(slot, Effect::Data { start: block, content: contents, blocks: 1, fua: false })
    }
}

impl Media for Devices<'_> {
    type Error = PowerCut;

    fn record(&mut self, slot: Slot, page: u64) -> Result<Option<Record>, PowerCut> {
        Ok(match self.disks[slot].log_page(page) {
            Page::Head(record) => Some(Record::clone(record)),
            _ => None,
        })
    }

    fn payload(&mut self, slot: Slot, page: u64, block: u64, sum: u32) -> Result<bool, PowerCut> {
        Ok(match self.disks[slot].log_page(page) {
            Page::Payload(content) => disk::sum(block, *content) == sum,
            _ => false,
        })
    }

    fn activity(&mut self, slot: Slot) -> Result<Option<Activity>, PowerCut> {
        Ok(self.disks[slot].activity())
    }

    fn bitmap(&mut self, slot: Slot, _: u64) -> Result<Option<Bitmap>, PowerCut> {
        Ok(self.disks[slot].bitmap())
    }

    fn table(&mut self, slot: Slot, _: u64) -> Result<Option<TablePage>, PowerCut> {
        Ok(self.disks[slot].table())
    }

    fn sum(&mut self, slot: Slot, block: u64) -> Result<Option<u32>, PowerCut> {
        let disk = &self.disks[slot];
        let readable = !disk.unreadable.contains(&block);
        Ok(readable.then(|| disk::sum(block, disk.data[block as usize])))
    }

    fn replay(&mut self, from: Slot, page: u64, to: Slot, block: u64) -> Result<(), PowerCut> {
        let content = match self.disks[from].log_page(page) {
            Page::Payload(content) => *content,
            _ => 0xdead_beef_dead_beef,
        };
        self.write_block(to, block, content)
    }

    fn zero(&mut self, slot: Slot, block: u64, sum: u32) -> Result<(), PowerCut> {
        let content = self.zeros.get(&sum).copied().unwrap_or(0);
        self.write_block(slot, block, content)
    }

    fn copy(&mut self, from: Slot, to: Slot, block: u64) -> Result<(), PowerCut> {
        let content = self.disks[from].data[block as usize];
        self.write_block(to, block, content)
    }

    fn flush(&mut self, slot: Slot) -> Result<(), PowerCut> {
        let stamp = self.disks[slot].flush_begins();
        if self.steps == 0 {
            return Err(PowerCut);
        }
        self.steps -= 1;
        self.disks[slot].flush_ends(stamp);
        Ok(())
    }

    fn meta(&mut self, slot: Slot, meta: Meta) -> Result<(), PowerCut> {
        self.write(slot, Effect::Meta(std::rc::Rc::new(meta)))
    }
}

/// Is a metadata page the same after a way through its bytes?
pub(super) fn survives_its_bytes(slot: Slot, meta: &Meta) -> bool {
    let (array, place) = (0xb10c, crate::format::PageAddress { device: slot as u8, page: 7 });
    match meta {
        Meta::Superblock { superblock, .. } => {
            let bytes = superblock.encode(place.page);
            crate::format::Superblock::decode(place, &bytes[..]).as_ref() == Ok(&**superblock)
        }
        Meta::Activity(activity) => {
            let bytes = activity.encode(array, place);
            Activity::decode(array, place, &bytes[..]).as_ref() == Ok(activity)
        }
        Meta::Bitmap(bitmap) => {
            let bytes = bitmap.encode(array, place);
            Bitmap::decode(array, place, &bytes[..]).as_ref() == Ok(bitmap)
        }
        Meta::Table(table) => {
            let bytes = table.encode(array, place);
            TablePage::decode(array, place, &bytes[..]).as_ref() == Ok(table)
        }
    }
}

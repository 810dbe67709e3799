//! What is in the window: whole chunks, or single entries.

use sim::{CowVec, Loader, Saver, Snapshot, SnapshotError, snapshot_fields};

use super::{Loading, LruScope, Params};
use crate::ftl::mapping::demand::MapStore;
use crate::ftl::mapping::demand::frames::Frames;
use crate::ftl::mapping::demand::lru::Lists;
use crate::ssd::geometry::Divisor;
use crate::ssd::plan::NONE;

/// The window's contents. A *unit* is what is thrown out at once: a chunk, or a slot of an entry.
#[derive(Clone)]
pub(super) struct Cache {
    kind: Kind,
    /// Size of a unit in the window, in bits.
    unit_bits: u64,
    entries: Divisor,
    chunks_per_plane: Divisor,
    /// Least recently used lists: one, or one per plane.
    lists: u32,
    dirty: Vec<bool>,
    recency: Lists,
}

#[derive(Clone)]
enum Kind {
    /// The unit is the chunk number.
    Chunks(Frames),
    Entries(Slots),
}

snapshot_fields!(Cache { kind, dirty, recency });

impl Snapshot for Kind {
    fn save(&self, to: &mut Saver) {
        match self {
            Kind::Chunks(frames) => frames.save(to),
            Kind::Entries(slots) => slots.save(to),
        }
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        match self {
            Kind::Chunks(frames) => frames.restore(from),
            Kind::Entries(slots) => slots.restore(from),
        }
    }
}

/// Entries in RAM; their unit is the slot.
#[derive(Clone)]
struct Slots {
    /// Entries loaded after a miss.
    load: u32,
    /// Position to slot, or [`NONE`].
    slot: CowVec<u32>,
    free: Vec<u32>,
    /// (position, PPN) of each slot.
    data: Vec<(u32, u32)>,
}

snapshot_fields!(Slots { slot, free, data });

impl Cache {
    /// An empty window.
    pub(super) fn new(
        params: &Params,
        chunks: u32,
        chunks_per_plane: u32,
        entries: u32,
        unit_bits: u64,
    ) -> Cache {
        let slots = |load: u32| {
            let slot = CowVec::new((chunks * entries) as usize, NONE);
            Kind::Entries(Slots {
                load: load.clamp(1, entries),
                slot,
                free: Vec::new(),
                data: Vec::new(),
            })
        };
        let kind = match params.loading {
            Loading::Chunk => Kind::Chunks(Frames::new(chunks, entries)),
            Loading::Entry => slots(1),
            Loading::ReadAhead(count) => slots(count),
        };
        let units = if matches!(kind, Kind::Chunks(_)) { chunks } else { 0 };
        let lists = match params.lru {
            LruScope::Global => 1,
            LruScope::PerPlane => chunks / chunks_per_plane,
        };
        Cache {
            kind,
            unit_bits,
            entries: Divisor::new(entries),
            chunks_per_plane: Divisor::new(chunks_per_plane),
            lists,
            dirty: vec![false; units as usize],
            recency: Lists::new(units, lists),
        }
    }

    /// True when units are whole map pages.
    pub(super) fn holds_chunks(&self) -> bool {
        matches!(self.kind, Kind::Chunks(_))
    }

    /// The list that what belongs to a chunk is in.
    pub(super) fn list(&self, chunk: u32) -> u32 {
        if self.lists == 1 { 0 } else { self.chunks_per_plane.div(chunk) }
    }

    /// Use the entry of `position`; false when it is not in the window.
    #[inline]
    pub(super) fn touch(&mut self, position: u32, chunk: u32) -> bool {
        let list = self.list(chunk);
        let unit = match &mut self.kind {
            Kind::Chunks(frames) if !frames.holds(chunk) => return false,
            Kind::Chunks(_) => chunk,
            Kind::Entries(slots) => match slots.slot.get(position as usize) {
                NONE => return false,
                slot => slot,
            },
        };
        self.recency.touch(list, unit);
        true
    }

    /// The entry of `position`, if it is in the window.
    #[inline]
    pub(super) fn get(&mut self, position: u32, chunk: u32) -> Option<u32> {
        match &mut self.kind {
            Kind::Chunks(frames) => frames.get(position, chunk),
            Kind::Entries(slots) => match slots.slot.get(position as usize) {
                NONE => None,
                slot => Some(slots.data[slot as usize].1),
            },
        }
    }

    /// Change the entry of `position`, which is in the window. Returns what it was.
    #[inline]
    pub(super) fn set(&mut self, position: u32, chunk: u32, ppn: u32) -> u32 {
        let (unit, old) = match &mut self.kind {
            Kind::Chunks(frames) => (chunk, frames.set(position, chunk, ppn)),
            Kind::Entries(slots) => {
                let slot = slots.slot.get(position as usize);
                (slot, std::mem::replace(&mut slots.data[slot as usize].1, ppn))
            }
        };
        self.dirty[unit as usize] = true;
        old
    }

    /// Lists.
    pub(super) fn lists(&self) -> u32 {
        self.lists
    }

    /// What to throw out of a list in a window of `bytes`, if something must go; with `more` so
    /// that what belongs to a miss has room.
    pub(super) fn victim(&self, bytes: u64, list: u32, more: bool) -> Option<u32> {
        let needed = match &self.kind {
            Kind::Entries(slots) => slots.load,
            Kind::Chunks(_) => 1,
        };
        let units = bytes * 8 / self.unit_bits / u64::from(self.lists);
        let kept = units.saturating_sub(if more { u64::from(needed) } else { 0 });
        if u64::from(self.recency.len(list)) > kept { self.recency.tail(list) } else { None }
    }

    /// The unit of the same list that was used next after this one.
    pub(super) fn newer(&self, unit: u32) -> Option<u32> {
        self.recency.newer(unit)
    }

    /// True when flash does not have the unit as it is in RAM.
    pub(super) fn is_dirty(&self, unit: u32) -> bool {
        self.dirty[unit as usize]
    }

    /// The chunk a unit belongs to.
    pub(super) fn chunk_of(&self, unit: u32) -> u32 {
        match &self.kind {
            Kind::Chunks(_) => unit,
            Kind::Entries(slots) => self.entries.div(slots.data[unit as usize].0),
        }
    }

    /// Put what a unit says into its map page, whose program the caller plans.
    pub(super) fn write_back(&mut self, unit: u32, chunk: u32, store: &mut MapStore) {
        match &mut self.kind {
            Kind::Chunks(frames) => store.store(chunk, frames.of(chunk)),
            Kind::Entries(slots) => {
                let (position, ppn) = slots.data[unit as usize];
                store.set(position, ppn);
            }
        }
        self.dirty[unit as usize] = false;
    }

    /// Throw a clean unit out.
    pub(super) fn remove(&mut self, unit: u32) {
        let list = self.list(self.chunk_of(unit));
        self.recency.remove(list, unit);
        match &mut self.kind {
            Kind::Chunks(frames) => frames.remove(unit),
            Kind::Entries(slots) => {
                slots.slot.set(slots.data[unit as usize].0 as usize, NONE);
                slots.free.push(unit);
            }
        }
    }

    /// Take over from the map page `chunk` what a miss of `position` loads.
    pub(super) fn insert(&mut self, position: u32, chunk: u32, store: &mut MapStore) {
        let list = self.list(chunk);
        match &mut self.kind {
            Kind::Chunks(frames) => {
                self.dirty[chunk as usize] = frames.load(chunk, store);
                self.recency.push(list, chunk);
            }
            Kind::Entries(slots) => {
                let end = (position + slots.load).min(store.positions(chunk).end);
                // The wanted one last: it is the most recently used.
                for at in (position..end).rev() {
                    if slots.slot.get(at as usize) != NONE {
                        continue;
                    }
                    let (ppn, newer) = store.take(at);
                    let slot = slots.free.pop().unwrap_or_else(|| {
                        slots.data.push((0, NONE));
                        self.dirty.push(false);
                        self.recency.grow();
                        slots.data.len() as u32 - 1
                    });
                    slots.slot.set(at as usize, slot);
                    slots.data[slot as usize] = (at, ppn);
                    self.dirty[slot as usize] = newer;
                    self.recency.push(list, slot);
                }
            }
        }
    }

    /// RAM of what is in the window.
    pub(super) fn ram(&self) -> u64 {
        let units: u64 = (0..self.lists).map(|list| u64::from(self.recency.len(list))).sum();
        (units * self.unit_bits).div_ceil(8)
    }

    /// The power failed.
    pub(super) fn clear(&mut self) {
        self.recency.clear();
        self.dirty.fill(false);
        match &mut self.kind {
            Kind::Chunks(frames) => frames.clear(),
            Kind::Entries(slots) => {
                slots.slot = CowVec::new(slots.slot.len(), NONE);
                slots.free = (0..slots.data.len() as u32).collect();
            }
        }
    }

    /// Prepare for cheap clones.
    pub(super) fn freeze(&mut self) {
        if let Kind::Entries(slots) = &mut self.kind {
            slots.slot.freeze();
        }
    }
}

//! Single table entries in RAM, with the changed ones of each map page at hand.

use sim::{CowVec, snapshot_fields};

use super::MapStore;
use super::lru::Lists;
use crate::ssd::plan::NONE;

/// Cached table entries. A *slot* is the place of one in RAM.
#[derive(Clone, Debug)]
pub struct Entries {
    /// Position to slot, or [`NONE`].
    slots: CowVec<u32>,
    data: Vec<Entry>,
    free: Vec<u32>,
    /// The changed entries of each map page.
    dirty: Lists,
    /// Lists of the scheme's own, in order of use. Entries come and go without being in one.
    pub order: Lists,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    position: u32,
    ppn: u32,
    /// Flash does not say so yet.
    dirty: bool,
}

snapshot_fields!(Entry { position, ppn, dirty });
snapshot_fields!(Entries { slots, data, free, dirty, order });

impl Entries {
    /// No entries of a table; the scheme keeps them in `lists` lists of its own.
    pub fn new(store: &MapStore, lists: u32) -> Entries {
        let positions = store.pages() as usize * store.entries() as usize;
        Entries {
            slots: CowVec::new(positions, NONE),
            data: Vec::new(),
            free: Vec::new(),
            dirty: Lists::new(0, store.pages()),
            order: Lists::new(0, lists),
        }
    }

    /// Entries in RAM.
    pub fn len(&self) -> u32 {
        (self.data.len() - self.free.len()) as u32
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slot of a position, if its entry is in RAM.
    #[inline]
    pub fn find(&mut self, position: u32) -> Option<u32> {
        Some(self.slots.get(position as usize)).filter(|&slot| slot != NONE)
    }

    /// The entry of a position, if it is in RAM.
    #[inline]
    pub fn get(&mut self, position: u32) -> Option<u32> {
        self.find(position).map(|slot| self.data[slot as usize].ppn)
    }

    /// The position a slot is about.
    #[inline]
    pub fn position(&self, slot: u32) -> u32 {
        self.data[slot as usize].position
    }

    /// True when flash does not have the entry as it is in RAM.
    #[inline]
    pub fn is_dirty(&self, slot: u32) -> bool {
        self.data[slot as usize].dirty
    }

    /// Changed entries of a map page.
    #[inline]
    pub fn dirty_of(&self, page: u32) -> u32 {
        self.dirty.len(page)
    }

    /// A changed entry of a map page.
    pub fn any_dirty_of(&self, page: u32) -> Option<u32> {
        self.dirty.tail(page)
    }

    /// The changed entries of a map page, the one not used for longest first.
    pub fn dirty_slots(&self, page: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(self.dirty.tail(page), |&slot| self.dirty.newer(slot))
    }

    /// What a slot says.
    #[inline]
    pub fn ppn(&self, slot: u32) -> u32 {
        self.data[slot as usize].ppn
    }

    /// Take an entry into RAM; the scheme puts its slot into a list.
    #[inline]
    pub fn insert(&mut self, position: u32, page: u32, ppn: u32, dirty: bool) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.data.push(Entry::default());
            self.dirty.grow();
            self.order.grow();
            self.data.len() as u32 - 1
        });
        self.slots.set(position as usize, slot);
        self.data[slot as usize] = Entry { position, ppn, dirty };
        if dirty {
            self.dirty.push(page, slot);
        }
        slot
    }

    /// As [`Entries::insert`] of what the table says.
    #[inline]
    pub fn load(&mut self, position: u32, page: u32, store: &mut MapStore) -> u32 {
        let (ppn, newer) = store.take(position);
        self.insert(position, page, ppn, newer)
    }

    /// Change an entry. Returns what it was.
    #[inline]
    pub fn set(&mut self, slot: u32, page: u32, ppn: u32) -> u32 {
        let entry = &mut self.data[slot as usize];
        if !std::mem::replace(&mut entry.dirty, true) {
            self.dirty.push(page, slot);
        }
        std::mem::replace(&mut entry.ppn, ppn)
    }

    /// Say for a changed entry, and give its new value: flash is about to know it.
    #[inline]
    pub fn clean(&mut self, slot: u32, page: u32) -> u32 {
        let entry = &mut self.data[slot as usize];
        debug_assert!(entry.dirty);
        entry.dirty = false;
        self.dirty.remove(page, slot);
        entry.ppn
    }

    /// Put every changed entry of a map page into it; the caller plans its program.
    pub fn write_back(&mut self, page: u32, store: &mut MapStore) {
        while self.write_back_oldest(page, store).is_some() {}
    }

    /// Put the changed entry of a map page that was not used for longest into it, and give its
    /// slot.
    pub fn write_back_oldest(&mut self, page: u32, store: &mut MapStore) -> Option<u32> {
        let slot = self.dirty.tail(page)?;
        let ppn = self.clean(slot, page);
        store.set(self.position(slot), ppn);
        Some(slot)
    }

    /// A changed entry was used.
    #[inline]
    pub fn touch_dirty(&mut self, slot: u32, page: u32) {
        self.dirty.touch(page, slot);
    }

    /// Throw an unchanged entry out that is in no list any more.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        debug_assert!(!self.is_dirty(slot));
        self.slots.set(self.position(slot) as usize, NONE);
        self.free.push(slot);
    }

    /// The power failed.
    pub fn clear(&mut self) {
        self.slots = CowVec::new(self.slots.len(), NONE);
        self.dirty.clear();
        self.order.clear();
        self.free = (0..self.data.len() as u32).collect();
    }

    /// Prepare for cheap clones.
    pub fn freeze(&mut self) {
        self.slots.freeze();
    }
}

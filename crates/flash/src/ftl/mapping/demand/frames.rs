//! Whole map pages in RAM.

use sim::snapshot_fields;

use super::MapStore;
use crate::ssd::plan::NONE;

/// Map pages in RAM, by number.
#[derive(Clone, Debug)]
pub struct Frames {
    entries: u32,
    /// Frame of each map page, or [`NONE`].
    frame: Vec<u32>,
    free: Vec<u32>,
    /// The PPNs, frame after frame.
    data: Vec<u32>,
}

snapshot_fields!(Frames { frame, free, data });

impl Frames {
    /// None of `pages` map pages of `entries` each.
    pub fn new(pages: u32, entries: u32) -> Frames {
        Frames { entries, frame: vec![NONE; pages as usize], free: Vec::new(), data: Vec::new() }
    }

    /// True when the map page is in RAM.
    #[inline]
    pub fn holds(&self, page: u32) -> bool {
        self.frame[page as usize] != NONE
    }

    #[inline]
    fn place(&self, position: u32, page: u32) -> Option<usize> {
        let frame = self.frame[page as usize];
        (frame != NONE).then(|| (frame * self.entries + (position - page * self.entries)) as usize)
    }

    /// The entry of a position of `page`, if the page is in RAM.
    #[inline]
    pub fn get(&self, position: u32, page: u32) -> Option<u32> {
        self.place(position, page).map(|place| self.data[place])
    }

    /// Change an entry of a page in RAM. Returns what it was.
    #[inline]
    pub fn set(&mut self, position: u32, page: u32, ppn: u32) -> u32 {
        let place = self.place(position, page).expect("the map page is in RAM");
        std::mem::replace(&mut self.data[place], ppn)
    }

    /// The entries of a page in RAM.
    pub fn of(&self, page: u32) -> &[u32] {
        let entries = self.entries as usize;
        &self.data[self.frame[page as usize] as usize * entries..][..entries]
    }

    /// Take a map page into RAM, with what was moved since it was written. Returns true when that
    /// made it newer than the page on flash.
    pub fn load(&mut self, page: u32, store: &mut MapStore) -> bool {
        let entries = self.entries as usize;
        let frame = self.free.pop().unwrap_or_else(|| {
            let frame = self.data.len() / entries;
            self.data.resize(self.data.len() + entries, NONE);
            frame as u32
        });
        self.frame[page as usize] = frame;
        store.load(page, &mut self.data[frame as usize * entries..][..entries])
    }

    /// Throw a map page out.
    pub fn remove(&mut self, page: u32) {
        let frame = std::mem::replace(&mut self.frame[page as usize], NONE);
        self.free.push(frame);
    }

    /// The power failed.
    pub fn clear(&mut self) {
        self.frame.fill(NONE);
        self.free.clear();
        self.data.clear();
    }
}

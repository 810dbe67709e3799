//! Filling a new drive at once, and what is left of one after a power failure.

use sim::CowVec;

use super::{Flash, Frontier, GROUP, HIDDEN, spare_entry};
use crate::ssd::plan::NONE;

impl Flash {
    /// Write `count` pages of a pristine plane in order, all at once: page `i` gets `lpn(i)`.
    /// Every logical page may be written once only: their ages are not told apart.
    pub fn fill_plane(
        &mut self,
        plane: u32,
        count: u32,
        lpn: impl Fn(u32) -> u32 + Send + Sync + 'static,
    ) {
        let first = self.geometry.first_ppn(self.geometry.blocks_of_plane(plane).start);
        let entry = move |ppn: usize| spare_entry(lpn(ppn as u32 - first), 0);
        self.spare.follow(first as usize, count as usize, entry);
        self.clock += u64::from(count);
        let pages = self.geometry.pages_per_block.get();
        let mut left = count;
        while left > 0 {
            let block = self.take_free(plane, Frontier::HOST);
            let written = left.min(pages);
            self.blocks[block as usize].written = written as u16;
            self.programmed[block as usize] = written as u16;
            self.valid[block as usize] += written as u16;
            if written == pages {
                self.seal(block)
            } else {
                let place = self.open_block(plane, Frontier::HOST);
                self.open[place] = block;
            }
            left -= written;
        }
        self.set_live_range(first, count);
    }

    /// These pages hold the newest copies of their owners.
    pub(super) fn set_live_range(&mut self, first: u32, count: u32) {
        let (mut ppn, end) = (first, first + count);
        while ppn < end {
            let (word, before) = (ppn as usize / 64, ppn % 64);
            let words = if before == 0 { (end - ppn) / 64 } else { 0 };
            if words > 0 {
                self.live.follow(word, words as usize, |_| u64::MAX);
                ppn += words * 64;
                continue;
            }
            let pages = (64 - before).min(end - ppn);
            self.live.update(word, |bits| bits | u64::MAX >> (64 - pages) << before);
            ppn += pages;
        }
    }

    /// True when nothing was ever written.
    pub fn is_pristine(&self) -> bool {
        self.clock == 0
    }

    /// When a written page was handed out: larger is later.
    pub fn sequence(&mut self, ppn: u32) -> u64 {
        let block = self.geometry.pages_per_block.div(ppn);
        self.blocks[block as usize].opened_at + (self.spare.get(ppn as usize) >> 32)
    }

    /// The id in the spare area of a programmed page, valid or not; [`NONE`] for a skipped page.
    #[inline]
    pub fn spare(&mut self, ppn: u32) -> u32 {
        self.spare.get(ppn as usize) as u32
    }

    /// After a power failure nothing is in flight any more: pages that were handed out but not
    /// programmed can be handed out again, and blocks under collection are offered again. Which
    /// pages are valid is not known before [`Flash::find_newest`].
    pub fn power_fail(&mut self) {
        self.open.fill(NONE);
        self.owed.fill(0);
        for block in 0..self.geometry.blocks() {
            let pages = self.block_pages(self.blocks[block as usize].frontier());
            let record = &mut self.blocks[block as usize];
            let frontier = Frontier(record.frontier);
            if frontier == Frontier::FREE {
                continue;
            }
            record.pins = 0;
            record.withheld = false;
            record.written = self.programmed[block as usize];
            let written = u32::from(record.written);
            let plane = self.geometry.plane_of_block(block);
            if written == 0 {
                self.blocks[block as usize].frontier = Frontier::FREE.0;
                self.count_pslc(block, frontier, -1);
                self.valid[block as usize] |= HIDDEN;
                self.free[plane as usize].push_front(block);
            } else if frontier == Frontier::OWN {
                debug_assert!(!self.is_sealed(block));
            } else if written == pages {
                if !self.is_sealed(block) {
                    self.seal(block);
                }
            } else {
                // It may have been sealed because all its pages were handed out.
                self.valid[block as usize] |= HIDDEN;
                // Programs of a frontier run in order, so only one of its blocks is half written.
                let place = self.open_block(plane, frontier);
                debug_assert_eq!(self.open[place], NONE);
                self.open[place] = block;
            }
        }
    }

    /// After a power failure: the newest programmed copy of each id below `ids` becomes its valid
    /// one, every other page invalid. Gives the PPN of each id, or [`NONE`]. What it costs follows
    /// from what was written, not from the size of the drive.
    pub fn find_newest(&mut self, ids: u32) -> CowVec<u32> {
        let mut newest = CowVec::new(ids as usize, NONE);
        self.live = CowVec::new(self.live.len(), 0);
        for block in 0..self.geometry.blocks() {
            self.valid[block as usize] &= HIDDEN;
            let first = self.geometry.first_ppn(block);
            for ppn in first..first + self.pages_programmed(block) {
                let id = self.spare(ppn);
                if id == NONE {
                    continue;
                }
                let best = newest.get(id as usize);
                if best != NONE && self.sequence(ppn) <= self.sequence(best) {
                    continue;
                }
                if best != NONE {
                    // Its block is this one or an earlier one, so its page has been counted.
                    self.set_live(best, false);
                    self.valid[self.geometry.pages_per_block.div(best) as usize] -= 1;
                }
                newest.set(id as usize, ppn);
                self.set_live(ppn, true);
                self.valid[block as usize] += 1;
            }
        }
        for group in 0..self.group_least.len() {
            self.refresh_group((group * GROUP) as u32);
        }
        self.withhold_all();
        newest
    }

    /// For tests: make a superseded page look valid.
    #[cfg(test)]
    pub(crate) fn pretend_valid(&mut self, ppn: u32) {
        self.set_live(ppn, true);
        self.valid[self.geometry.pages_per_block.div(ppn) as usize] += 1;
    }

    /// The blocks that the mapping took for itself, with their tags.
    pub fn own_blocks(&self) -> Vec<(u32, u32)> {
        let blocks = self.blocks.iter().enumerate().filter(|(_, block)| block.is_own());
        blocks.map(|(index, block)| (index as u32, block.tag)).collect()
    }

    /// Pages of the drive whose program has ended, skipped ones included.
    pub fn programmed_pages(&self) -> u64 {
        self.programmed.iter().map(|&pages| u64::from(pages)).sum()
    }
}

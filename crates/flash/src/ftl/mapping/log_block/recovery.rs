//! Power is back: who is home, which merges were interrupted, which log blocks hold what.

use super::layout::Layout;
use super::store::{LOG, Store};
use crate::ftl::flash::Flash;
use crate::ftl::mapping::bits;
use crate::ssd::plan::{NONE, Rebuilt};

/// A log block found after a power failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredLog {
    pub(crate) block: u32,
    /// The logical block that it was taken for and that all its pages belong to, or [`NONE`].
    pub(crate) lbn: u32,
}

impl Store {
    /// Make the tables anew. The newest block that holds pages of its logical block at their own
    /// offsets only is its home; an older one was about to be replaced, and what it has that the
    /// newer one has not reached is still to be copied. Log blocks can be homes only in a scheme
    /// that `switches`; those that are none and have valid pages are returned, oldest first.
    pub(super) fn rebuild(
        &mut self,
        flash: &mut Flash,
        switches: bool,
    ) -> (Vec<StoredLog>, Rebuilt) {
        self.place = flash.find_newest(self.layout.logical_pages);
        self.home.fill(NONE);
        self.work.iter_mut().for_each(|work| *work = Default::default());
        let mut own = flash.own_blocks();
        own.sort_by_cached_key(|&(block, _)| self.age(flash, block));
        let mut former = Vec::new();
        let mut logs: Vec<StoredLog> = Vec::new();
        let mut pages = 0;
        for (block, tag) in own {
            let lbn = if tag == NONE { NONE } else { tag & !LOG };
            if tag & LOG != 0 {
                pages += u64::from(flash.pages_programmed(block));
            }
            let is_home =
                tag & LOG == 0 || (switches && lbn != NONE && self.is_in_order(flash, lbn, block));
            if !is_home {
                let lbn = if self.is_of(flash, lbn, block) { lbn } else { NONE };
                logs.push(StoredLog { block, lbn });
                continue;
            }
            let older = std::mem::replace(&mut self.home[lbn as usize], block);
            if older != NONE {
                former.push((lbn, older));
            }
            // Log blocks of this logical block alone were about to be given up, too.
            former.extend(logs.extract_if(.., |log| log.lbn == lbn).map(|log| (lbn, log.block)));
        }
        logs.retain(|log| {
            let empty = flash.valid(log.block) == 0;
            if empty {
                self.bury(flash, log.block);
            }
            !empty
        });
        for (lbn, older) in former {
            pages += u64::from(flash.pages_programmed(older));
            self.interrupted(flash, lbn, older);
        }
        // The spare area of the first page of every block, all those of log blocks and of
        // interrupted merges, and a bisection for the last written page of the data blocks.
        let bisection = u64::from(bits(self.geometry.pages_per_block.get()));
        let homes = self.home.iter().filter(|&&home| home != NONE).count() as u64;
        let spare_reads = u64::from(self.geometry.blocks()) + pages + homes * bisection;
        (logs, Rebuilt { spare_reads, ..Rebuilt::default() })
    }

    /// When the first page of a block was handed out.
    fn age(&self, flash: &mut Flash, block: u32) -> u64 {
        let first = self.geometry.first_ppn(block);
        let programmed = flash.pages_programmed(block);
        let ppn = (first..first + programmed).find(|&ppn| flash.spare(ppn) != NONE);
        ppn.map_or(0, |ppn| flash.sequence(ppn))
    }

    /// True when every page is at its own offset in `lbn`. A partial merge skips offsets that hold
    /// nothing; arriving pages never do.
    fn is_in_order(&self, flash: &mut Flash, lbn: u32, block: u32) -> bool {
        let first = self.geometry.first_ppn(block);
        let programmed = flash.pages_programmed(block);
        (0..programmed).all(|page| {
            let id = flash.spare(first + page);
            id == NONE || id == self.layout.lpn(lbn, page)
        })
    }

    /// True when every page belongs to `lbn`: a scheme can turn the log block of one logical block
    /// into one of any.
    fn is_of(&self, flash: &mut Flash, lbn: u32, block: u32) -> bool {
        let first = self.geometry.first_ppn(block);
        let programmed = flash.pages_programmed(block);
        (first..first + programmed).all(|ppn| {
            let id = flash.spare(ppn);
            id == NONE || self.layout.split(id).0 == lbn
        })
    }

    /// A merge of `lbn` was interrupted before a block that it empties was erased.
    fn interrupted(&mut self, flash: &mut Flash, lbn: u32, older: u32) {
        let reached = flash.pages_programmed(self.home[lbn as usize]);
        // The merge passed these offsets without copying them: the pages had been discarded.
        self.forget(flash, older, |layout, lpn| layout.split(lpn).1 < reached);
        if flash.valid(older) == 0 {
            self.bury(flash, older);
        } else {
            let pool = self.pool(self.layout.plane(lbn));
            self.work[pool].unfinished.push_back((lbn, older));
        }
    }

    /// The power failure brought back discarded pages of a block: discard them again.
    fn forget(&mut self, flash: &mut Flash, block: u32, which: impl Fn(&Layout, u32) -> bool) {
        let first = self.geometry.first_ppn(block);
        for ppn in first..first + flash.pages_programmed(block) {
            if flash.is_valid(ppn) && which(&self.layout, flash.spare(ppn)) {
                flash.invalidate(ppn);
                self.place.set(flash.spare(ppn) as usize, NONE);
            }
        }
    }

    /// A log block had been given up because its last pages were discarded, but was not erased.
    pub(crate) fn give_up(&mut self, flash: &mut Flash, block: u32) {
        self.forget(flash, block, |_, _| true);
        self.bury(flash, block);
    }
}

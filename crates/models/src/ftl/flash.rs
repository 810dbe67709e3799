//! The books of the flash array: who owns a page, how full a block is, which blocks are free.

use std::collections::VecDeque;

use sim::{CowVec, snapshot_fields};

use crate::ssd::geometry::Geometry;
use crate::ssd::plan::NONE;

/// A block whose valid count is not offered to victim selection: free, open or being collected.
const HIDDEN: u16 = 1 << 15;
/// Blocks whose smallest valid count is kept as one number.
const GROUP: usize = 64;

/// Which open block of a plane takes a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Slot {
    /// Pages the host writes.
    Host = 0,
    /// Pages moved by garbage collection or wear levelling, when they are kept apart.
    Moved = 1,
}

const SLOTS: usize = 2;

/// What is known of a block besides its valid count.
#[derive(Clone, Copy, Default, Debug)]
pub struct Block {
    /// Pages handed out since the last erase; the next page to program.
    pub written: u16,
    /// Pages whose program has ended. Pages between the two are still in the controller.
    pub programmed: u16,
    /// Erases since the drive was built.
    pub erases: u32,
    /// Counts up whenever a block is sealed: smaller is older.
    pub sealed_at: u32,
    /// Programs in flight that supersede a page of this block. Until they end, the old copy is
    /// all there is after a power failure, so the block must not be erased.
    pins: u32,
    /// The slot it was opened for.
    slot: u8,
}

snapshot_fields!(Block { written, programmed, erases, sealed_at, pins, slot });

/// State of the whole array.
#[derive(Clone, Debug)]
pub struct Flash {
    /// The shape of the array.
    pub geometry: Geometry,
    /// PPN to the logical page it holds, [`NONE`] when it holds nothing valid.
    owner: CowVec<u32>,
    /// Valid pages per block, with [`HIDDEN`] set unless the block is sealed.
    valid: Vec<u16>,
    /// Smallest entry of `valid` in each group.
    group_least: Vec<u16>,
    blocks: Vec<Block>,
    free: Vec<VecDeque<u32>>,
    open: Vec<u32>,
    seals: u32,
    /// Pages of each plane that the collector still has to place into the host's open block;
    /// 0 where moved pages have open blocks of their own.
    owed: Vec<u32>,
    /// Blocks sealed since the collector last looked.
    pub newly_sealed: Vec<u32>,
    /// Take the least worn free block instead of the one that has been free longest.
    level_wear: bool,
}

snapshot_fields!(Flash {
    owner,
    valid,
    group_least,
    blocks,
    free,
    open,
    seals,
    owed,
    newly_sealed
});

impl Flash {
    /// An erased drive. `level_wear` takes the least worn free block instead of the oldest.
    pub fn new(geometry: Geometry, level_wear: bool) -> Flash {
        let blocks = geometry.blocks() as usize;
        Flash {
            geometry,
            owner: CowVec::new(geometry.pages() as usize, NONE),
            valid: vec![HIDDEN; blocks],
            group_least: vec![HIDDEN; blocks.div_ceil(GROUP)],
            blocks: vec![Block::default(); blocks],
            free: (0..geometry.planes()).map(|p| geometry.blocks_of_plane(p).collect()).collect(),
            open: vec![NONE; geometry.planes() as usize * SLOTS],
            seals: 0,
            owed: vec![0; geometry.planes() as usize],
            newly_sealed: Vec::new(),
            level_wear,
        }
    }

    /// Share the big tables so that the next clone is cheap.
    pub fn freeze(&mut self) {
        self.owner.freeze();
    }

    /// The logical page a physical page holds, or [`NONE`].
    #[inline]
    pub fn owner(&mut self, ppn: u32) -> u32 {
        self.owner.get(ppn as usize)
    }

    /// Valid pages of a block.
    #[inline]
    pub fn valid(&self, block: u32) -> u32 {
        u32::from(self.valid[block as usize] & !HIDDEN)
    }

    /// True when a block is full and offered to victim selection.
    #[inline]
    pub fn is_sealed(&self, block: u32) -> bool {
        self.valid[block as usize] & HIDDEN == 0
    }

    /// What else is known of a block.
    #[inline]
    pub fn block(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    /// Blocks sealed so far; a block's age is this minus its `sealed_at`.
    pub fn seals(&self) -> u32 {
        self.seals
    }

    /// Free blocks of a plane.
    #[inline]
    pub fn free_blocks(&self, plane: u32) -> u32 {
        self.free[plane as usize].len() as u32
    }

    /// True when `slot` of the plane can take a page while `reserve` blocks stay free and the
    /// collector can still finish what it has begun.
    #[inline]
    pub fn has_room(&self, plane: u32, slot: Slot, reserve: u32) -> bool {
        let open = self.open[plane as usize * SLOTS + slot as usize] != NONE;
        let owed = self.owed[plane as usize];
        (open || self.free_blocks(plane) > reserve) && (owed == 0 || self.room(plane, slot) > owed)
    }

    /// Pages that `slot` of the plane can take if every free block goes to it.
    pub fn room(&self, plane: u32, slot: Slot) -> u32 {
        let pages = self.geometry.pages_per_block.get();
        let open = match self.open[plane as usize * SLOTS + slot as usize] {
            NONE => 0,
            block => pages - u32::from(self.blocks[block as usize].written),
        };
        open + self.free_blocks(plane) * pages
    }

    /// The collector will place that many more pages of the plane into the host's open block.
    pub fn set_owed(&mut self, plane: u32, pages: u32) {
        self.owed[plane as usize] = pages;
    }

    /// Hand out the next page of `slot` in the plane for `lpn`; `None` when a new block is needed
    /// and only `reserve` free ones are left. The flag says that a free block was taken.
    #[inline]
    pub fn allocate(
        &mut self,
        plane: u32,
        slot: Slot,
        lpn: u32,
        reserve: u32,
    ) -> Option<(u32, bool)> {
        let place = plane as usize * SLOTS + slot as usize;
        let mut opened = false;
        if self.open[place] == NONE {
            if self.free_blocks(plane) <= reserve {
                return None;
            }
            let block = self.take_free(plane);
            self.blocks[block as usize].slot = slot as u8;
            self.open[place] = block;
            opened = true;
        }
        let block = self.open[place];
        let record = &mut self.blocks[block as usize];
        let ppn = self.geometry.first_ppn(block) + u32::from(record.written);
        record.written += 1;
        let full = u32::from(record.written) == self.geometry.pages_per_block.get();
        self.owner.set(ppn as usize, lpn);
        self.valid[block as usize] += 1;
        if full {
            self.open[place] = NONE;
            self.seal(block);
        }
        Some((ppn, opened))
    }

    #[cold]
    fn take_free(&mut self, plane: u32) -> u32 {
        let free = &mut self.free[plane as usize];
        if self.level_wear {
            let worn = |&index: &usize| self.blocks[free[index] as usize].erases;
            let least = (0..free.len()).min_by_key(worn).expect("the plane has a free block");
            return free.remove(least).expect("the index is in the list");
        }
        free.pop_front().expect("the plane has a free block")
    }

    /// Offer a full block to victim selection.
    #[cold]
    fn seal(&mut self, block: u32) {
        let valid = &mut self.valid[block as usize];
        *valid &= !HIDDEN;
        let group = &mut self.group_least[block as usize / GROUP];
        *group = (*group).min(*valid);
        self.seals += 1;
        self.blocks[block as usize].sealed_at = self.seals;
        self.newly_sealed.push(block);
    }

    /// The page no longer holds valid data.
    #[inline]
    pub fn invalidate(&mut self, ppn: u32) {
        self.owner.set(ppn as usize, NONE);
        let block = self.geometry.pages_per_block.div(ppn) as usize;
        let valid = self.valid[block] - 1;
        self.valid[block] = valid;
        // A hidden block's count has the top bit set, so it never lowers the group's least.
        let group = &mut self.group_least[block / GROUP];
        *group = (*group).min(valid);
    }

    /// Withdraw a block from victim selection because it is being collected.
    pub fn begin_collection(&mut self, block: u32) {
        self.valid[block as usize] |= HIDDEN;
        self.refresh_group(block);
    }

    /// A program that supersedes page `from` (or [`NONE`]) was handed to the flash.
    #[inline]
    pub fn pin(&mut self, from: u32) {
        if from != NONE {
            self.blocks[self.geometry.pages_per_block.div(from) as usize].pins += 1;
        }
    }

    /// True when the block must not be erased yet.
    #[inline]
    pub fn is_pinned(&self, block: u32) -> bool {
        self.blocks[block as usize].pins > 0
    }

    /// The program of a page that supersedes `from` has ended.
    #[inline]
    pub fn programmed(&mut self, ppn: u32, from: u32) {
        let block = self.geometry.pages_per_block.div(ppn);
        self.blocks[block as usize].programmed += 1;
        if from != NONE {
            self.blocks[self.geometry.pages_per_block.div(from) as usize].pins -= 1;
        }
    }

    /// True when the page's program has ended; otherwise its data is still in the controller.
    #[inline]
    pub fn is_programmed(&self, ppn: u32) -> bool {
        let (block, page) = self.geometry.block_page(ppn);
        page < u32::from(self.blocks[block as usize].programmed)
    }

    /// The erase of a block has ended: it is free again.
    pub fn erased(&mut self, block: u32) {
        debug_assert_eq!(self.valid(block), 0, "block {block} is erased with valid pages");
        let record = &mut self.blocks[block as usize];
        record.written = 0;
        record.programmed = 0;
        record.erases += 1;
        self.valid[block as usize] = HIDDEN;
        self.free[self.geometry.plane_of_block(block) as usize].push_back(block);
    }

    fn refresh_group(&mut self, block: u32) {
        let group = block as usize / GROUP;
        let end = (group * GROUP + GROUP).min(self.valid.len());
        let least = self.valid[group * GROUP..end].iter().min();
        self.group_least[group] = *least.expect("a group has blocks");
    }

    /// The sealed block with the fewest valid pages in the range, the lowest-numbered of several;
    /// `None` when no block is sealed.
    pub fn least_valid(&self, blocks: std::ops::Range<u32>) -> Option<u32> {
        let (start, end) = (blocks.start as usize, blocks.end as usize);
        let groups_start = start.next_multiple_of(GROUP).min(end);
        let groups_end = (end - end % GROUP).max(groups_start);
        let least_of = |range: &[u16]| range.iter().copied().min().unwrap_or(HIDDEN);
        let head = least_of(&self.valid[start..groups_start]);
        let tail = least_of(&self.valid[groups_end..end]);
        let groups = groups_start / GROUP..groups_end / GROUP;
        let body = least_of(&self.group_least[groups.clone()]);
        let least = head.min(body).min(tail);
        if least >= HIDDEN {
            return None;
        }
        let search = |from: usize, to: usize| {
            self.valid[from..to].iter().position(|&v| v == least).map(|i| (from + i) as u32)
        };
        if head == least {
            return search(start, groups_start);
        }
        if body == least {
            let group = groups.start + self.group_least[groups].iter().position(|&v| v == least)?;
            return search(group * GROUP, group * GROUP + GROUP);
        }
        search(groups_end, end)
    }

    /// Histogram of erase counts of a plane's blocks: (erases, blocks), rising.
    pub fn wear(&self, plane: u32) -> Vec<(u32, u32)> {
        let mut counts = std::collections::BTreeMap::new();
        for block in self.geometry.blocks_of_plane(plane) {
            *counts.entry(self.block(block).erases).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// Write `count` pages of a pristine plane in order, all at once: page `i` gets `lpn(i)`.
    pub fn fill_plane(&mut self, plane: u32, count: u32, mut lpn: impl FnMut(u32) -> u32) {
        let first = self.geometry.first_ppn(self.geometry.blocks_of_plane(plane).start);
        self.owner.fill_with(first as usize, count as usize, |i| lpn(i as u32));
        let pages = self.geometry.pages_per_block.get();
        let mut left = count;
        while left > 0 {
            let block = self.take_free(plane);
            let written = left.min(pages);
            let record = &mut self.blocks[block as usize];
            (record.written, record.programmed) = (written as u16, written as u16);
            self.valid[block as usize] += written as u16;
            match written == pages {
                true => self.seal(block),
                false => self.open[plane as usize * SLOTS + Slot::Host as usize] = block,
            }
            left -= written;
        }
    }

    /// True when nothing was ever written.
    pub fn is_pristine(&self) -> bool {
        self.seals == 0
            && self.open.iter().all(|&block| block == NONE)
            && self.blocks.iter().all(|block| block.erases == 0)
    }

    /// After a power failure nothing is in flight any more: pages that were handed out but not
    /// programmed can be handed out again, and blocks under collection are offered again.
    pub fn power_fail(&mut self) {
        self.open.fill(NONE);
        self.owed.fill(0);
        for block in 0..self.geometry.blocks() {
            let record = &mut self.blocks[block as usize];
            let was_taken = record.written > 0;
            record.pins = 0;
            record.written = record.programmed;
            let (written, slot) = (u32::from(record.written), usize::from(record.slot));
            let plane = self.geometry.plane_of_block(block) as usize;
            if written == self.geometry.pages_per_block.get() {
                if !self.is_sealed(block) {
                    self.seal(block);
                }
                continue;
            }
            if was_taken {
                // It may have been sealed because all its pages were handed out.
                self.valid[block as usize] |= HIDDEN;
                self.refresh_group(block);
            }
            if written > 0 {
                // Programs of a slot run in order, so only one of its blocks is half written.
                debug_assert_eq!(self.open[plane * SLOTS + slot], NONE);
                self.open[plane * SLOTS + slot] = block;
            } else if was_taken {
                self.free[plane].push_front(block);
            }
        }
    }

    /// Undo an allocation whose program was lost: `from` (if any) holds the data again.
    pub fn undo(&mut self, ppn: u32, from: u32, lpn: u32) {
        self.invalidate(ppn);
        if from != NONE {
            self.owner.set(from as usize, lpn);
            let block = self.geometry.pages_per_block.div(from);
            self.valid[block as usize] += 1;
            self.refresh_group(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::geometry::GeometryParams;

    fn flash() -> Flash {
        let params = GeometryParams {
            channels: 1,
            dies_per_package: 1,
            planes_per_die: 2,
            blocks_per_plane: 150,
            pages_per_block: 4,
            ..GeometryParams::default()
        };
        Flash::new(params.check().unwrap(), false)
    }

    #[test]
    fn the_least_valid_block_is_found_in_every_part_of_a_range() {
        let mut flash = flash();
        for lpn in 0..600 {
            flash.allocate(1, Slot::Host, lpn, 0).unwrap();
        }
        let mut rng = sim::Rng::new(1, "least");
        for _ in 0..600 {
            let ppn = 600 + rng.below(600) as u32;
            if flash.owner(ppn) != NONE {
                flash.invalidate(ppn);
            }
            let range = 150..300;
            let expected = range.clone().min_by_key(|&b| (flash.valid(b), b));
            assert_eq!(flash.least_valid(range), expected);
        }
        assert_eq!(flash.least_valid(0..150), None, "an erased plane has no victim");
    }

    #[test]
    fn a_page_is_in_the_controller_until_it_is_programmed() {
        let mut flash = flash();
        let (ppn, opened) = flash.allocate(0, Slot::Host, 7, 0).unwrap();
        assert!(opened && !flash.is_programmed(ppn));
        flash.programmed(ppn, NONE);
        assert!(flash.is_programmed(ppn));
        assert_eq!(flash.owner(ppn), 7);
    }

    #[test]
    fn the_reserve_is_kept() {
        let mut flash = flash();
        let mut pages = 0;
        while flash.allocate(0, Slot::Host, pages, 2).is_some() {
            pages += 1;
        }
        assert_eq!((pages, flash.free_blocks(0)), (148 * 4, 2));
    }
}

//! Handing out pages: which block takes the next one, and whether there is room.

use super::{Flash, Frontier, spare_entry};
use crate::ssd::plan::NONE;

impl Flash {
    /// Pages that a block opened for `frontier` holds.
    #[inline]
    pub(super) fn block_pages(&self, frontier: Frontier) -> u32 {
        match &self.pslc {
            Some(pslc) if frontier == Frontier::PSLC => pslc.pages_per_block,
            _ => self.geometry.pages_per_block.get(),
        }
    }

    #[inline]
    pub(super) fn open_block(&self, plane: u32, frontier: Frontier) -> usize {
        plane as usize * self.frontiers + usize::from(frontier.0)
    }

    /// True when `frontier` of the plane can take a page while `reserve` blocks stay free and the
    /// collector can still finish what it has begun.
    #[inline]
    pub fn has_room(&self, plane: u32, frontier: Frontier, reserve: u32) -> bool {
        let open = self.open[self.open_block(plane, frontier)] != NONE;
        let (owed, free) = (self.owed[plane as usize], self.free_blocks(plane));
        if let Some(pslc) = self.pslc.as_ref().filter(|_| frontier == Frontier::PSLC) {
            let more = self.pslc_blocks[plane as usize] < pslc.blocks;
            return open || more && free > reserve.max(pslc.keep_free);
        }
        let kept = frontier == Frontier::HOST && free < self.kept_for_collection;
        (open && !kept || free > reserve) && (owed == 0 || self.room(plane, frontier) > owed)
    }

    /// Pages left in the open block of `frontier`.
    pub fn room_in_open(&self, plane: u32, frontier: Frontier) -> u32 {
        match self.open[self.open_block(plane, frontier)] {
            NONE => 0,
            block => self.room_in(block),
        }
    }

    /// Pages of a block that were not handed out yet.
    pub fn room_in(&self, block: u32) -> u32 {
        let block = &self.blocks[block as usize];
        self.block_pages(Frontier(block.frontier)) - u32::from(block.written)
    }

    /// Pages that `frontier` of the plane can take if every free block goes to it.
    pub fn room(&self, plane: u32, frontier: Frontier) -> u32 {
        let free = self.free_blocks(plane) * self.block_pages(frontier);
        self.room_in_open(plane, frontier) + free
    }

    /// The collector will place that many more pages of the plane into the host's open block.
    pub fn set_owed(&mut self, plane: u32, pages: u32) {
        self.owed[plane as usize] = pages;
    }

    /// Hand out the next page of `frontier` in the plane for `id`; `None` when a new block is
    /// needed and only `reserve` free ones are left. The flag says that a free block was taken.
    #[inline]
    pub fn allocate(
        &mut self,
        plane: u32,
        frontier: Frontier,
        id: u32,
        reserve: u32,
    ) -> Option<(u32, bool)> {
        let place = self.open_block(plane, frontier);
        let mut opened = false;
        if self.open[place] == NONE {
            if self.free_blocks(plane) <= reserve {
                return None;
            }
            self.open[place] = self.take_free(plane, frontier);
            opened = true;
        }
        let block = self.open[place];
        let page = u32::from(self.blocks[block as usize].written);
        let ppn = self.hand_out(block, page, id);
        self.close_if_full(place);
        Some((ppn, opened))
    }

    /// The open block in this place has given pages away: if that were its last, it is sealed.
    #[inline]
    pub(super) fn close_if_full(&mut self, place: usize) {
        let block = self.open[place];
        if self.room_in(block) == 0 {
            self.open[place] = NONE;
            self.seal(block);
        }
    }

    /// Take a free block of the plane for the mapping itself; `None` when only `reserve` are
    /// left. `tag` goes into the spare area of its first page.
    pub fn take_block(&mut self, plane: u32, tag: u32, reserve: u32) -> Option<u32> {
        if self.free_blocks(plane) <= reserve {
            return None;
        }
        let block = self.take_free(plane, Frontier::OWN);
        self.blocks[block as usize].tag = tag;
        Some(block)
    }

    /// Hand out page `page` of a block that the mapping took, skipping those before it.
    ///
    /// # Panics
    /// When a later page was handed out already.
    pub fn allocate_at(&mut self, block: u32, page: u32, id: u32) -> u32 {
        let written = u32::from(self.blocks[block as usize].written);
        assert!(page >= written, "page {page} of block {block} lies below {written}");
        let first = self.geometry.first_ppn(block);
        (written..page)
            .for_each(|skipped| self.spare.set((first + skipped) as usize, spare_entry(NONE, 0)));
        self.hand_out(block, page, id)
    }

    #[inline]
    fn hand_out(&mut self, block: u32, page: u32, id: u32) -> u32 {
        let (ppn, age) = self.book(block, page, 1);
        // Blocks are open on every plane: more streams than the processor follows by itself.
        if page.is_multiple_of(8) {
            self.spare.prefetch(ppn as usize + 8);
        }
        self.spare.set(ppn as usize, spare_entry(id, age));
        self.set_live(ppn, true);
        ppn
    }

    /// Count `count` pages of a block from page `page` on as handed out and valid. Returns the PPN
    /// of the first, and how many pages the drive had handed out since the block was opened.
    #[inline]
    pub(super) fn book(&mut self, block: u32, page: u32, count: u32) -> (u32, u64) {
        let record = &mut self.blocks[block as usize];
        if record.written == 0 {
            record.opened_at = self.clock;
        }
        let age = self.clock - record.opened_at;
        record.written = (page + count) as u16;
        self.clock += u64::from(count);
        self.valid[block as usize] += count as u16;
        (self.geometry.first_ppn(block) + page, age)
    }

    #[cold]
    pub(super) fn take_free(&mut self, plane: u32, frontier: Frontier) -> u32 {
        let free = &mut self.free[plane as usize];
        let worn = |&index: &usize| self.blocks[free[index] as usize].erases;
        let index = if self.level_wear { (0..free.len()).min_by_key(worn) } else { Some(0) };
        let block = index.and_then(|index| free.remove(index)).expect("the plane has a free block");
        self.blocks[block as usize].frontier = frontier.0;
        self.count_pslc(block, frontier, 1);
        block
    }

    /// Count a block that is, or no longer is, used as pSLC.
    pub(super) fn count_pslc(&mut self, block: u32, frontier: Frontier, change: i32) {
        if self.pslc.is_some() && frontier == Frontier::PSLC {
            let count = &mut self.pslc_blocks[self.geometry.plane_of_block(block) as usize];
            *count = count.wrapping_add_signed(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::flash;
    use super::*;

    #[test]
    fn the_reserve_is_kept() {
        let (mut flash, mut pages) = (flash(), 0);
        while flash.allocate(0, Frontier::HOST, pages, 2).is_some() {
            pages += 1;
        }
        assert_eq!((pages, flash.free_blocks(0)), (148 * 4, 2));
    }
}

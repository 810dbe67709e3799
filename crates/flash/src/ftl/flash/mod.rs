//! The books of the flash array: who owns a page, how full a block is, which blocks are free.
//!
//! An *id* is what a page's spare area names as its owner: a logical page number, or, from
//! `logical pages` on, a page of the mapping table. The spare area and the block tags stay until
//! the erase, also of pages that are no longer valid: they are what a mapping is rebuilt from.

use std::collections::VecDeque;

use sim::{CowVec, snapshot_fields};

use crate::ssd::geometry::Geometry;
use crate::ssd::plan::NONE;

mod allocation;
mod frontier;
mod moves;
mod recovery;
mod victims;

pub use frontier::Frontier;
pub use moves::Move;

/// A block whose valid count is not offered to victim selection: free, open or being collected.
const HIDDEN: u16 = 1 << 15;
/// Blocks whose smallest valid count is kept as one number.
const GROUP: usize = 64;

/// A spare area as the table keeps it: the id, below the number of pages that the drive handed out
/// between the opening of the page's block and the page. Both in one word: open blocks lie on every
/// plane, and each table more would be another place of memory for each of them.
#[inline]
fn spare_entry(id: u32, age: u64) -> u64 {
    age.min(u64::from(u32::MAX)) << 32 | u64::from(id)
}

/// How blocks are used as pSLC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pslc {
    /// Pages that such a block holds.
    pub pages_per_block: u32,
    /// Blocks of a plane that are used so at most.
    pub blocks: u32,
    /// Free blocks of a plane that are not used so.
    pub keep_free: u32,
}

/// What is known of a block besides its valid count.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Pages handed out since the last erase, skipped ones included; the next page to program.
    pub written: u16,
    /// Erases since the drive was built.
    pub erases: u32,
    /// Counts up whenever a block is sealed: smaller is older.
    pub sealed_at: u32,
    /// Programs in flight that supersede a page of this block, and reads of it that wait. Until
    /// they end the block must not be erased: after a power failure the old copy is all there is.
    pins: u32,
    /// The frontier it was opened for.
    frontier: u8,
    /// It is full of map pages, of which too many are valid for it to be a victim.
    withheld: bool,
    /// What the mapping wrote into the spare area of the block it took for itself.
    pub tag: u32,
    /// Pages handed out on the whole drive when the first of this block was.
    opened_at: u64,
}

impl Default for Block {
    fn default() -> Block {
        Block {
            written: 0,
            erases: 0,
            sealed_at: 0,
            pins: 0,
            frontier: Frontier::FREE.0,
            withheld: false,
            tag: 0,
            opened_at: 0,
        }
    }
}

snapshot_fields!(Block { written, erases, sealed_at, pins, frontier, withheld, tag, opened_at });

impl Block {
    /// The frontier the block was opened for.
    pub fn frontier(&self) -> Frontier {
        Frontier(self.frontier)
    }

    /// True when the mapping took the block for itself.
    pub fn is_own(&self) -> bool {
        self.frontier == Frontier::OWN.0
    }
}

/// State of the whole array.
#[derive(Clone, Debug)]
pub struct Flash {
    /// The shape of the array.
    pub geometry: Geometry,
    /// PPN to its spare area, see [`spare_entry`]; means nothing for a page that is not written.
    spare: CowVec<u64>,
    /// One bit per PPN: the page holds the newest copy of its owner.
    live: CowVec<u64>,
    /// Valid pages per block, with [`HIDDEN`] set unless the block is sealed.
    valid: Vec<u16>,
    /// Smallest entry of `valid` in each group.
    group_least: Vec<u16>,
    blocks: Vec<Block>,
    /// Per block, one past the last page whose program has ended; pages from there to `written` are
    /// still in the controller. By itself, since every read asks: so it stays in a near cache.
    programmed: Vec<u16>,
    free: Vec<VecDeque<u32>>,
    /// Open block of each frontier of each plane.
    open: Vec<u32>,
    frontiers: usize,
    seals: u32,
    /// Pages handed out since the drive was built.
    clock: u64,
    /// Pages of each plane that the collector still has to place into the host's open block;
    /// 0 where moved pages have open blocks of their own.
    owed: Vec<u32>,
    /// Free blocks of a plane below which the host's open block, too, is the collector's. 0 where
    /// moved pages have open blocks of their own, or a collection takes one free block at most.
    pub kept_for_collection: u32,
    /// Valid pages with which a block of map pages is offered to victim selection at most; `None`
    /// offers it like any other.
    pub map_victim_pages: Option<u32>,
    /// Blocks sealed since the collector last looked.
    pub newly_sealed: Vec<u32>,
    /// Take the least worn free block instead of the one that has been free longest.
    level_wear: bool,
    /// How blocks are used as pSLC, if they are.
    pslc: Option<Pslc>,
    /// Blocks of each plane that are used as pSLC now.
    pslc_blocks: Vec<u32>,
}

snapshot_fields!(Flash {
    spare,
    live,
    valid,
    group_least,
    blocks,
    programmed,
    free,
    open,
    seals,
    clock,
    owed,
    newly_sealed,
    pslc_blocks
});

impl Flash {
    /// An erased drive with `frontiers` open blocks per plane. `level_wear` takes the least worn
    /// free block instead of the oldest.
    pub fn new(geometry: Geometry, frontiers: u8, level_wear: bool) -> Flash {
        let blocks = geometry.blocks() as usize;
        let pages = geometry.pages() as usize;
        Flash {
            geometry,
            spare: CowVec::new(pages, spare_entry(NONE, 0)),
            live: CowVec::new(pages.div_ceil(64), 0),
            valid: vec![HIDDEN; blocks],
            group_least: vec![HIDDEN; blocks.div_ceil(GROUP)],
            blocks: vec![Block::default(); blocks],
            programmed: vec![0; blocks],
            free: (0..geometry.planes()).map(|p| geometry.blocks_of_plane(p).collect()).collect(),
            open: vec![NONE; geometry.planes() as usize * usize::from(frontiers)],
            frontiers: usize::from(frontiers),
            seals: 0,
            clock: 0,
            owed: vec![0; geometry.planes() as usize],
            kept_for_collection: 0,
            map_victim_pages: None,
            newly_sealed: Vec::new(),
            level_wear,
            pslc: None,
            pslc_blocks: vec![0; geometry.planes() as usize],
        }
    }

    /// The same drive with blocks that may be used as pSLC.
    pub fn with_pslc(self, pslc: Option<Pslc>) -> Flash {
        Flash { pslc, ..self }
    }

    /// Share the big tables so that the next clone is cheap.
    pub fn freeze(&mut self) {
        self.spare.freeze();
        self.live.freeze();
    }

    /// The id a physical page holds the newest copy of, or [`NONE`].
    #[inline]
    pub fn owner(&mut self, ppn: u32) -> u32 {
        if self.is_valid(ppn) { self.spare(ppn) } else { NONE }
    }

    /// The page is read or superseded soon: fetch what that looks at into the processor's cache.
    #[inline]
    pub fn prefetch(&self, ppn: u32) {
        let block = self.geometry.pages_per_block.div(ppn) as usize;
        sim::prefetch_index(&self.programmed, block);
        sim::prefetch_index(&self.valid, block);
        self.live.prefetch(ppn as usize / 64);
    }

    /// True when the page holds the newest copy of its owner.
    #[inline]
    pub fn is_valid(&mut self, ppn: u32) -> bool {
        self.live.get(ppn as usize / 64) >> (ppn % 64) & 1 == 1
    }

    #[inline]
    fn set_live(&mut self, ppn: u32, live: bool) {
        let word = ppn as usize / 64;
        let bit = 1 << (ppn % 64);
        self.live.update(word, |bits| if live { bits | bit } else { bits & !bit });
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

    /// Blocks of a plane that are used as pSLC.
    #[inline]
    pub fn pslc_blocks(&self, plane: u32) -> u32 {
        self.pslc_blocks[plane as usize]
    }

    /// True when blocks of the drive may be used as pSLC.
    #[inline]
    pub fn has_pslc(&self) -> bool {
        self.pslc.is_some()
    }

    /// True when the block of a page, if it is one, is used as pSLC.
    #[inline]
    pub fn is_pslc(&self, ppn: u32) -> bool {
        self.pslc.is_some() && ppn != NONE && {
            let block = self.geometry.pages_per_block.div(ppn);
            self.blocks[block as usize].frontier == Frontier::PSLC.0
        }
    }

    /// The block of a plane that has been full of pSLC pages longest.
    pub fn oldest_pslc(&self, plane: u32) -> Option<u32> {
        if self.pslc_blocks[plane as usize] == 0 {
            return None;
        }
        let full = |&block: &u32| {
            self.blocks[block as usize].frontier == Frontier::PSLC.0 && self.is_sealed(block)
        };
        let blocks = self.geometry.blocks_of_plane(plane).filter(full);
        blocks.min_by_key(|&block| self.blocks[block as usize].sealed_at)
    }

    /// The page no longer holds valid data.
    #[inline]
    pub fn invalidate(&mut self, ppn: u32) {
        self.set_live(ppn, false);
        let block = self.geometry.pages_per_block.div(ppn) as usize;
        self.valid[block] -= 1;
        // A hidden block's count has the top bit set, so it never lowers the group's least.
        let group = &mut self.group_least[block / GROUP];
        *group = (*group).min(self.valid[block]);
        // Few drives withhold blocks; on the others this would be a cache miss per page.
        if self.map_victim_pages.is_some()
            && self.blocks[block].withheld
            && !self.is_to_be_withheld(block as u32)
        {
            self.offer(block as u32);
        }
    }

    /// A program that supersedes page `ppn` (or [`NONE`]) was handed to the flash, or a read of it
    /// waits: its block must stay.
    #[inline]
    pub fn pin(&mut self, ppn: u32) {
        if ppn != NONE {
            self.blocks[self.geometry.pages_per_block.div(ppn) as usize].pins += 1;
        }
    }

    /// What page `ppn` (or [`NONE`]) was pinned for is over.
    #[inline]
    pub fn unpin(&mut self, ppn: u32) {
        if ppn != NONE {
            self.blocks[self.geometry.pages_per_block.div(ppn) as usize].pins -= 1;
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
        let (block, page) = self.geometry.block_page(ppn);
        self.programmed[block as usize] = page as u16 + 1;
        self.unpin(from);
    }

    /// True when the page's program has ended; otherwise its data is still in the controller.
    #[inline]
    pub fn is_programmed(&self, ppn: u32) -> bool {
        let (block, page) = self.geometry.block_page(ppn);
        page < self.pages_programmed(block)
    }

    /// Pages of a block, from its first, whose programs have ended.
    #[inline]
    pub fn pages_programmed(&self, block: u32) -> u32 {
        u32::from(self.programmed[block as usize])
    }

    /// The erase of a block has ended: it is free again.
    pub fn erased(&mut self, block: u32) {
        debug_assert_eq!(self.valid(block), 0, "block {block} is erased with valid pages");
        let record = &mut self.blocks[block as usize];
        record.written = 0;
        record.erases += 1;
        let frontier = Frontier(std::mem::replace(&mut record.frontier, Frontier::FREE.0));
        self.programmed[block as usize] = 0;
        self.count_pslc(block, frontier, -1);
        self.valid[block as usize] = HIDDEN;
        self.free[self.geometry.plane_of_block(block) as usize].push_back(block);
    }

    /// Histogram of erase counts of a plane's blocks: (erases, blocks), rising.
    pub fn wear(&self, plane: u32) -> Vec<(u32, u32)> {
        let mut counts = std::collections::BTreeMap::new();
        for block in self.geometry.blocks_of_plane(plane) {
            *counts.entry(self.block(block).erases).or_default() += 1;
        }
        counts.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::geometry::GeometryParams;

    pub(super) fn flash() -> Flash {
        let params = GeometryParams {
            channels: 1,
            dies_per_package: 1,
            planes_per_die: 2,
            blocks_per_plane: 150,
            pages_per_block: 4,
            ..GeometryParams::default()
        };
        Flash::new(params.check().unwrap(), Frontier::COMMON, false)
    }

    #[test]
    fn the_least_valid_block_is_found_in_every_part_of_a_range() {
        let mut flash = flash();
        for lpn in 0..600 {
            flash.allocate(1, Frontier::HOST, lpn, 0).unwrap();
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
        let (ppn, opened) = flash.allocate(0, Frontier::HOST, 7, 0).unwrap();
        assert!(opened && !flash.is_programmed(ppn));
        flash.programmed(ppn, NONE);
        assert!(flash.is_programmed(ppn));
        assert_eq!(flash.owner(ppn), 7);
    }
}

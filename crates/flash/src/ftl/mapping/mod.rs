//! Mappings: which physical page holds which logical page. One file per scheme.

use config::ConfigError;
use sim::{Bytes, Counters, Snapshot};

use super::allocation::Allocator;
use super::flash::{Flash, Frontier, Move, Pslc};
use crate::ssd::geometry::Geometry;
use crate::ssd::plan::{Cause, FlashOp, NONE, OpCounts, Plan, Rebuilt};

pub mod demand;
mod fill;
mod log_block;
#[cfg(test)]
mod tests;

sim::registry! {
    /// How an FTL finds pages.
    pub enum MappingScheme("mapping"): Context => Built = {
        Page = "page" => page,
        MultiStream = "multi-stream" => multi_stream,
        Fdp = "fdp" => fdp,
        Pslc = "pslc" => pslc,
        Zns = "zns" => zns,
        Wadpm = "wadpm" => wadpm,
        Dftl = "dftl" => dftl,
        Sftl = "sftl" => sftl,
        Cdftl = "cdftl" => cdftl,
        Tpftl = "tpftl" => tpftl,
        Leaftl = "leaftl" => leaftl,
        Block = "block" => block,
        Bast = "bast" => bast,
        Fast = "fast" => fast,
        Kast = "kast" => kast,
        Last = "last" => last,
        Superblock = "superblock" => superblock,
        Reconfigurable = "reconfigurable" => reconfigurable,
    }
}

/// What a mapping is built with besides its parameters.
#[derive(Clone, Debug)]
pub struct Context {
    /// The array.
    pub geometry: Geometry,
    /// Chooses planes for new pages.
    pub allocator: Allocator,
    /// Logical pages of the drive.
    pub logical_pages: u32,
    /// Free blocks of a plane that host writes must leave for relocation; what the scheme itself
    /// [needs](Needs::reserve) comes on top.
    pub reserve: u32,
    /// The flash can copy pages within a plane without the bus.
    pub copy_back: bool,
    /// Pages of a block that is used as pSLC, if it can be.
    pub pslc_pages: Option<u32>,
}

impl Context {
    /// Blocks of a plane that its share of the logical pages leaves when it fills the others.
    pub(crate) fn spare_blocks(&self) -> u32 {
        let live = self.logical_pages.div_ceil(self.geometry.planes());
        let full = live.div_ceil(self.geometry.pages_per_block.get());
        self.geometry.blocks_per_plane.get() - full
    }
}

/// What a mapping's `build` gives.
pub type Built = Result<Box<dyn Mapping>, ConfigError>;

/// One page of a host request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostPage {
    /// Logical page number.
    pub lpn: u32,
    /// Sectors of it that the request covers.
    pub sectors: u16,
    /// False when the rest of the page must be read and kept.
    pub whole: bool,
    /// The host's stream or placement hint.
    pub stream: u16,
    /// Which page of the request this is, from 0.
    pub index: u32,
    /// Pages of the request.
    pub of: u32,
}

impl HostPage {
    /// A whole page, the first of a request of `of` pages; `sectors` are those of a page.
    pub fn whole(lpn: u32, sectors: u32, stream: u16, of: u32) -> HostPage {
        HostPage { lpn, sectors: sectors as u16, whole: true, stream, index: 0, of }
    }

    /// Plan the read of what a write in part leaves as it is at `old`; true when there is such.
    #[inline]
    pub fn plan_rest(&self, old: u32, geometry: &Geometry, plan: &mut Plan) -> bool {
        let needed = old != NONE && !self.whole;
        if needed {
            let kept = geometry.page_sectors - u32::from(self.sectors);
            plan.push(FlashOp::read(Cause::Host, old, self.lpn, kept));
        }
        needed
    }

    /// Plan its read from `ppn`; a page that was never written is read without the flash.
    #[inline]
    pub fn plan_read(&self, ppn: u32, plan: &mut Plan) {
        if ppn != NONE {
            plan.push(FlashOp::read(Cause::Host, ppn, self.lpn, u32::from(self.sectors)));
        }
    }

    /// Plan its program to `ppn` in place of `old`, after the read of the rest if that is needed.
    #[inline]
    pub fn plan_program(&self, old: u32, ppn: u32, flash: &mut Flash, plan: &mut Plan) {
        if self.plan_rest(old, &flash.geometry, plan) {
            plan.then();
        }
        if old != NONE {
            flash.invalidate(old);
        }
        let sectors = flash.geometry.page_sectors;
        plan.push(FlashOp::program(Cause::Host, ppn, old, self.lpn, sectors));
    }
}

/// The next page of a frontier of `plane` for `id`, as [`Flash::allocate`] gives it; a plane that
/// gave up a free block for it may have to be collected.
#[inline]
pub(crate) fn next_page(
    flash: &mut Flash,
    plane: u32,
    frontier: Frontier,
    id: u32,
    reserve: u32,
    plan: &mut Plan,
) -> Option<u32> {
    let (ppn, opened) = flash.allocate(plane, frontier, id, reserve)?;
    if opened {
        plan.collect.push(plane);
    }
    Some(ppn)
}

/// No room: the write must wait until a block of this plane (`None`: of any plane) is erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full(pub Option<u32>);

/// What became of a step of cleaning: freeing blocks by moving what is valid in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CleaningStep {
    /// Operations were planned; ask again when they are done.
    Planned,
    /// The victim cannot be erased until programs in flight have ended; ask again later.
    Blocked,
    /// Nothing to do.
    Idle,
}

/// What a scheme needs from the rest of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Open blocks per plane; see [`Frontier`].
    pub frontiers: u8,
    /// Free blocks per plane that host writes must leave besides the drive's own reserve.
    pub reserve: u32,
    /// Pages of the mapping table on flash. Their ids follow the logical page numbers.
    pub map_pages: u32,
    /// Map pages that [`Mapping::before_erase`] writes at most for one collected block.
    pub before_erase_pages: u32,
    /// Free blocks of a plane below which the host leaves alone the open block that it shares with
    /// moved pages, if it does.
    pub kept_for_collection: u32,
    /// Placement handles whose moved pages stay among themselves; 0 when the collector may mix.
    pub isolated: u8,
    /// How it uses blocks as pSLC, if it does. The collector folds them when the drive rests.
    pub pslc: Option<Pslc>,
    /// The scheme frees blocks itself, in that many pools (1, or one per plane); 0 leaves it to
    /// the collector.
    pub pools: u32,
}

impl Default for Needs {
    fn default() -> Needs {
        let frontiers = Frontier::COMMON;
        Needs {
            frontiers,
            reserve: 0,
            map_pages: 0,
            before_erase_pages: 0,
            kept_for_collection: 0,
            isolated: 0,
            pslc: None,
            pools: 0,
        }
    }
}

/// How a scheme that does not hold its whole table in RAM found pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapStats {
    /// Pages looked up.
    pub lookups: u64,
    /// Found in RAM. A miss reads no flash while its map page was never written.
    pub hits: u64,
    /// Page reads of the host that had to read flash twice or more.
    pub double_reads: u64,
}

sim::snapshot_fields!(MapStats { lookups, hits, double_reads });

/// A mapping scheme: logic only, it emits plans and has no clock.
///
/// Tables change when a plan is made. The flash executes the programs and erases of a die in
/// planned order, and keeps what a program in flight supersedes.
pub trait Mapping: Snapshot + Send {
    /// Where the newest copy of `lpn` is, or [`NONE`]. Costs nothing: this is
    /// how checks look at a scheme from outside.
    fn lookup(&mut self, flash: &mut Flash, lpn: u32) -> u32;

    /// The page will be asked for soon: fetch its entry into the processor's cache, if that is
    /// worth the while. Changes nothing.
    fn prefetch(&self, lpn: u32) {
        let _ = lpn;
    }

    /// The same for what the entry points to, when the entry is in the cache.
    fn prefetch_page(&mut self, flash: &Flash, lpn: u32) {
        let _ = (flash, lpn);
    }

    /// Plan a read. A page that was never written needs no operation.
    fn read(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan);

    /// Plan a write.
    ///
    /// # Errors
    /// [`Full`]: the page is not written; try again when a block was erased. What was planned must
    /// be done all the same: it made room in RAM.
    fn write(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) -> Result<(), Full>;

    /// The host no longer needs the page. Forgotten by a power failure: the page may be back.
    ///
    /// # Errors
    /// As of [`Mapping::write`].
    fn discard(&mut self, flash: &mut Flash, lpn: u32, plan: &mut Plan) -> Result<(), Full>;

    /// The collector moved page `id`.
    fn relocated(&mut self, flash: &mut Flash, id: u32, from: u32, to: u32);

    /// The collector moved these pages, in this order.
    fn relocated_all(&mut self, flash: &mut Flash, moves: &[Move]) {
        // The entries of the pages of a block lie anywhere. One by one, each would wait for its own
        // walk of the processor's page tables.
        const BURST: usize = 16;
        let mut fetched = 0;
        for start in (0..moves.len()).step_by(BURST) {
            while fetched < (start + 2 * BURST).min(moves.len()) {
                self.prefetch(moves[fetched].id);
                fetched += 1;
            }
            for &Move { id, from, to } in moves[start..].iter().take(BURST) {
                self.relocated(flash, id, from, to);
            }
        }
    }

    /// The collector has moved every page of a block of `plane`: plan what must be on flash
    /// before the block is erased, in that plane. Returns false when nothing (more) must.
    fn before_erase(&mut self, flash: &mut Flash, plane: u32, plan: &mut Plan) -> bool {
        let _ = (flash, plane, plan);
        false
    }

    /// Map pages that [`Mapping::before_erase`] has to write at most when the valid pages of
    /// `block` were moved now.
    fn map_pages_to_change(&mut self, flash: &mut Flash, block: u32) -> u32 {
        flash.valid(block)
    }

    /// Power is back: make the tables anew from what is on flash.
    fn rebuild(&mut self, flash: &mut Flash) -> Rebuilt;

    /// Write logical pages `0..count` of a pristine drive in order, all at once. Returns false
    /// when the scheme has no shortcut; nothing has changed then.
    fn fill(&mut self, flash: &mut Flash, count: u32, plan: &mut Plan) -> bool {
        let _ = (flash, count, plan);
        false
    }

    /// What the scheme needs; never changes.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// True when a pool of a scheme that frees blocks itself should be cleaned now.
    fn wants_cleaning(&self, flash: &Flash, pool: u32) -> bool {
        let _ = (flash, pool);
        false
    }

    /// Plan the next step of cleaning a pool. The step after it is asked for when this one is
    /// done.
    fn clean(&mut self, flash: &mut Flash, pool: u32, plan: &mut Plan) -> CleaningStep {
        let _ = (flash, pool, plan);
        CleaningStep::Idle
    }

    /// Memory the scheme needs now in a real controller: tables, tags and directories.
    fn ram(&self) -> Bytes;

    /// Lookups and hits; `None` when the whole table is in RAM.
    fn stats(&self) -> Option<MapStats> {
        None
    }

    /// What the scheme counts besides; `planned` is what the drive has planned so far. Every scheme
    /// says how many pages it wrote into their data block (`write_data`), elsewhere because they
    /// held data already (`update_pure`), and elsewhere although they held none
    /// (`update_wasted`). Where any page can be anywhere there are no updates.
    fn counters(&self, planned: &OpCounts, out: &mut Counters) {
        write_anywhere(planned, out);
    }

    /// Prepare for cheap clones.
    fn freeze(&mut self);

    /// A copy that will do the same.
    fn boxed_clone(&self) -> Box<dyn Mapping>;
}

impl Clone for Box<dyn Mapping> {
    fn clone(&self) -> Box<dyn Mapping> {
        self.boxed_clone()
    }
}

/// The [counters](Mapping::counters) of a scheme that may write any page anywhere.
pub(crate) fn write_anywhere(planned: &OpCounts, out: &mut Counters) {
    out.add("write_data", planned.programs(Cause::Host));
    out.add("update_pure", 0);
    out.add("update_wasted", 0);
}

/// Bits that number `count` things, at least 1.
pub(crate) fn bits(count: u32) -> u32 {
    (32 - count.saturating_sub(1).leading_zeros()).max(1)
}

//! Superblock FTL: page mapping inside groups of N logical blocks, its tables in spare areas.
//!
//! ```text
//!  RAM: superblock -> blocks          a superblock (N = 2, M = 2) anywhere in N + M blocks
//!       middle directories' places    +--+--+--+--+ full         +--+--+--+--+ takes what
//!       cache of page tables:         |28| x| x|31|              |29|30|28| .| the host writes
//!       lpn -> page                   +--+--+--+--+              +--+--+--+--+
//!                                     +--+--+--+--+ full         +--+--+--+--+ takes what
//!  spare area of each page:           | x|33| x|35|              |32|34| .| .| collection moves
//!  its page table, middle directory   +--+--+--+--+              +--+--+--+--+
//! ```
//!
//! # What it models
//! The write path:
//! 1. The page's table is read from spare areas unless it is cached; so is it for a read.
//! 2. The page goes to the next page of the superblock's open block, with its table and middle
//!    directory in the spare area: keeping the map on flash costs no program.
//! 3. When the open block is full, the superblock takes a free block, up to N + M.
//! 4. With N + M blocks, the write waits until one of them is collected: the one with the fewest
//!    valid pages, which are moved to the superblock's block for moved pages, apart from what the
//!    host writes (`separate`), until a block is free. A block without valid pages is exchanged
//!    for a free one without copies.
//! 5. When the plane has no free block, the least recently written superblock that can give one
//!    up is collected in the same way.
//!
//! A superblock is N consecutive logical blocks of one plane. A page table covers `fan_out` pages,
//! a middle directory `fan_out` page tables; each is in the spare area of the last page written of
//! those it covers, so a page whose table is not cached costs two reads without transfer
//! (`flash_reads.map`), or one when both are in the same spare area.
//!
//! # Equation
//! Collecting a block with v valid pages costs vc + E and gains b - v pages. RAM = block lists
//! (data and spare blocks x log2(blocks)) + one place for every fan_out^2 pages + cached tables x
//! (fan_out log2((N + M) b) + tag) bits.
//!
//! # Parameters
//! `group_blocks`: N, at least 8 and enough to leave each superblock a spare block unless given.
//! `update_blocks`: M. `separate`: moved pages go to a block of their own. `fan_out`: entries of a
//! table. `cache_tables`: page tables in RAM, least recently used out first. `striping`: `pages` or
//! `blocks`.
//!
//! # What it leaves out
//! The middle directories are not cached. Whether a table fits in a spare area is not checked. A
//! discard does not write the map. The spare areas that collection reads to update a table are
//! counted once for consecutive pages of it, and do not change the cache.
//!
//! # Validated against
//! Exact costs; write amplification of a page map with as many spare pages (one superblock); the
//! NAND oracle with power cuts.
//!
//! # References
//! Kang, Jo, Kim, Lee, EMSOFT 2006; Jung, Kang, Jo, Kim, Lee, ACM TECS 9(4), 2010.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::metric::{Counted, Counter};
use sim::{Bytes, Counters, CowVec, snapshot_fields};

use super::log_block::{Budget, Dead, Layout, Striping};
use super::{Built, CleaningStep, Context, Full, HostPage, MapStats, Mapping, Needs, bits};
use crate::ftl::flash::Flash;
use crate::ssd::geometry::Geometry;
use crate::ssd::plan::{Cause, FlashOp, NONE, OpCounts, Plan, Rebuilt};

mod collect;
mod groups;
mod tables;
#[cfg(test)]
mod tests;

use groups::Groups;
use tables::Tables;

/// What it does with victims.
static VICTIMS: Counted = Counted {
    counters: &[
        Counter::new("superblock_victims.*", "blocks", "victims, by how they were emptied"),
        Counter::new("superblock_evictions", "pages", "tables that left the cache"),
    ],
    metrics: &[],
};

/// Parameters of the superblock FTL.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// N: logical blocks of a superblock. There must be a spare block for each superblock; unless
    /// given, 8 or as many as that takes.
    pub group_blocks: Option<u32>,
    /// M: blocks that a superblock may have besides N; at least 1, or 2 with `separate`.
    pub update_blocks: u32,
    /// Pages moved by collection go to a block of their own, apart from what the host writes.
    pub separate: bool,
    /// Pages of a page table and page tables of a middle directory, 2 to 256.
    pub fan_out: u32,
    /// Page tables in RAM, from 1.
    pub cache_tables: u32,
    /// What is striped over the planes.
    pub striping: Striping,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            group_blocks: None,
            update_blocks: 2,
            separate: true,
            fan_out: 16,
            cache_tables: 1024,
            striping: Striping::default(),
        }
    }
}

impl Params {
    /// What the scheme counts.
    pub const COUNTED: sim::metric::Declarations = &[&VICTIMS];

    /// Build the mapping.
    ///
    /// # Errors
    /// When a parameter is out of range or superblocks are so small that there is no spare block
    /// for each.
    pub fn build(&self, context: &Context) -> Built {
        let planes = context.geometry.planes();
        let layout = Layout::new(context, self.striping);
        let spare = Budget::new(context, &layout).per_plane(1)?;
        let data = layout.blocks.div_ceil(planes);
        let least = data.div_ceil(spare);
        let group_blocks = self.group_blocks.unwrap_or(least.max(8)).min(data.max(least));
        let error = |key: &str, expected: String, got: u32| {
            let message = format!("expected {expected}, got {got}");
            Err(ConfigError::new(key, message))
        };
        if group_blocks < least {
            let why = format!(
                "at least {least} (each of a plane's superblocks needs one of its {spare} spare \
                 blocks)"
            );
            return error("group_blocks", why, group_blocks);
        }
        let updates = if self.separate { 2 } else { 1 };
        if !(updates..=data.max(updates)).contains(&self.update_blocks) {
            let most = data.max(updates);
            let why = format!("{updates} to {most} with separate = {}", self.separate);
            return error("update_blocks", why, self.update_blocks);
        }
        if !(2..=256).contains(&self.fan_out) {
            return error("fan_out", "2 to 256".into(), self.fan_out);
        }
        if self.cache_tables == 0 {
            return error("cache_tables", "at least 1".into(), 0);
        }
        Ok(Box::new(Superblock {
            place: CowVec::new(context.logical_pages as usize, NONE),
            tables: Tables::new(context, &layout, group_blocks, self),
            groups: Groups::new(&layout, planes, group_blocks, group_blocks + self.update_blocks),
            pools: vec![PlaneWork::default(); planes as usize],
            layout,
            geometry: context.geometry,
            reserve: context.reserve.max(1),
            copy_back: context.copy_back,
            separate: self.separate,
            tally: Tally::default(),
            moves: Vec::new(),
        }))
    }
}

/// What a plane has to do.
#[derive(Clone, Default, Debug)]
struct PlaneWork {
    dead: Dead,
    /// The superblock that needs one of its blocks collected, or [`NONE`]: any that can.
    wish: Option<u32>,
    job: Option<Job>,
    /// A power failure left no free block: a block is collected before anything is written.
    recovering: bool,
}

snapshot_fields!(PlaneWork { dead, wish, job, recovering });

/// A superblock that is collected until it has given up a block.
#[derive(Clone, Copy, Default, Debug)]
struct Job {
    group: u32,
    /// Another superblock needs the block; room in the block for moved pages is of no use to it.
    evicts: bool,
    /// Blocks taken for moved pages less blocks given up.
    balance: u32,
}

snapshot_fields!(Job { group, evicts, balance });

#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    /// Blocks collected with and without copies, and superblocks that gave one up for others.
    copied: u64,
    exchanged: u64,
    evicted: u64,
}

snapshot_fields!(Tally { copied, exchanged, evicted });

#[derive(Clone)]
struct Superblock {
    layout: Layout,
    geometry: Geometry,
    reserve: u32,
    copy_back: bool,
    separate: bool,
    /// Where each logical page is: the tables in the spare areas.
    place: CowVec<u32>,
    tables: Tables,
    groups: Groups,
    pools: Vec<PlaneWork>,
    tally: Tally,
    /// Scratch: (to, from, lpn) of the step being planned.
    moves: Vec<(u32, u32, u32)>,
}

snapshot_fields!(Superblock { place, tables, groups, pools, tally });

impl Superblock {
    /// A page of the superblock's open block; `None` when something must be collected first.
    fn page_for(&mut self, flash: &mut Flash, plane: u32, group: u32, lpn: u32) -> Option<u32> {
        let pool = &mut self.pools[plane as usize];
        if pool.recovering {
            return None;
        }
        let record = &mut self.groups.records[group as usize];
        let has_room = |block: u32| block != NONE && flash.room_in(block) > 0;
        if !has_room(record.open) && !self.separate && has_room(record.moved) {
            let collecting = pool.job.is_some_and(|job| job.group == group);
            if !collecting {
                record.open = std::mem::replace(&mut record.moved, NONE);
            }
        }
        if !has_room(record.open) {
            let full = record.blocks.len() as u32 >= self.groups.limit;
            let taken = if full { None } else { flash.take_block(plane, group, self.reserve) };
            let Some(block) = taken else {
                if pool.job.is_none() && !pool.dead.is_freeing(flash) {
                    pool.wish = Some(if full { group } else { NONE });
                }
                return None;
            };
            record.open = block;
            record.blocks.push(block);
        }
        self.groups.touch(group);
        let block = self.groups.records[group as usize].open;
        let page = u32::from(flash.block(block).written);
        Some(flash.allocate_at(block, page, lpn))
    }
}

impl Mapping for Superblock {
    #[inline]
    fn lookup(&mut self, _flash: &mut Flash, lpn: u32) -> u32 {
        self.place.get(lpn as usize)
    }

    fn read(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) {
        let ppn = self.place.get(page.lpn as usize);
        let table = self.tables.of(&self.layout, page.lpn);
        let looks = self.tables.use_table(flash, table, plan);
        if ppn == NONE {
            return;
        }
        if looks > 0 {
            self.tables.stats.double_reads += 1;
            plan.then();
        }
        page.plan_read(ppn, plan);
    }

    fn write(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) -> Result<(), Full> {
        let lpn = page.lpn;
        let (lbn, _) = self.layout.split(lpn);
        let plane = self.layout.plane(lbn);
        let group = self.groups.of(lbn);
        let Some(ppn) = self.page_for(flash, plane, group, lpn) else {
            return Err(Full(Some(plane)));
        };
        let table = self.tables.of(&self.layout, lpn);
        let looks = self.tables.use_table(flash, table, plan);
        if looks > 0 && !page.whole {
            // They say where the rest of the page is.
            plan.then();
        }
        let old = self.place.get(lpn as usize);
        page.plan_rest(old, &self.geometry, plan);
        plan.then();
        if old != NONE {
            flash.invalidate(old);
        }
        self.place.set(lpn as usize, ppn);
        self.tables.written(table, ppn);
        let sectors = self.geometry.page_sectors;
        plan.push(FlashOp::program(Cause::Host, ppn, old, lpn, sectors));
        Ok(())
    }

    fn discard(&mut self, flash: &mut Flash, lpn: u32, _plan: &mut Plan) -> Result<(), Full> {
        let old = self.place.get(lpn as usize);
        if old != NONE {
            flash.invalidate(old);
            self.place.set(lpn as usize, NONE);
        }
        Ok(())
    }

    fn relocated(&mut self, _flash: &mut Flash, id: u32, _from: u32, _to: u32) {
        unreachable!("the collector moves no page {id} of a block that is not its own");
    }

    fn rebuild(&mut self, flash: &mut Flash) -> Rebuilt {
        self.place = flash.find_newest(self.layout.logical_pages);
        self.pools.fill(PlaneWork::default());
        let mut dead = Vec::new();
        self.groups.rebuild(flash, &self.geometry, |block| dead.push(block));
        for block in dead {
            let plane = self.geometry.plane_of_block(block);
            self.pools[plane as usize].dead.push(flash, block);
        }
        for plane in 0..self.geometry.planes() {
            let pool = &mut self.pools[plane as usize];
            pool.recovering = flash.free_blocks(plane) < self.reserve;
        }
        self.tables.rebuild(flash, &self.layout, &mut self.place);
        Rebuilt { spare_reads: flash.programmed_pages(), ..Rebuilt::default() }
    }

    fn needs(&self) -> Needs {
        Needs { pools: self.geometry.planes(), ..Needs::default() }
    }

    fn wants_cleaning(&self, _flash: &Flash, pool: u32) -> bool {
        let PlaneWork { dead, wish, job, recovering } = &self.pools[pool as usize];
        *recovering || dead.len() > 0 || wish.is_some() || job.is_some()
    }

    fn clean(&mut self, flash: &mut Flash, pool: u32, plan: &mut Plan) -> CleaningStep {
        self.collect(flash, pool, plan)
    }

    fn ram(&self) -> Bytes {
        let blocks = u64::from(self.geometry.blocks()) * u64::from(bits(self.geometry.blocks()));
        let tables = self.tables.ram_bits(&self.geometry, self.groups.limit);
        Bytes((blocks + tables).div_ceil(8))
    }

    fn stats(&self) -> Option<MapStats> {
        Some(self.tables.stats)
    }

    fn counters(&self, planned: &OpCounts, out: &mut Counters) {
        out.add("write_data", planned.programs(Cause::Host));
        out.add("update_pure", 0);
        out.add("update_wasted", 0);
        out.add("superblock_victims.copied", self.tally.copied);
        out.add("superblock_victims.exchanged", self.tally.exchanged);
        out.add("superblock_evictions", self.tally.evicted);
    }

    fn freeze(&mut self) {
        self.place.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Mapping> {
        Box::new(self.clone())
    }
}

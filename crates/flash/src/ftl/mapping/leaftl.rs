//! LeaFTL: lines learned from where pages were written, instead of a table.
//!
//! ```text
//!   LPN -> plane PN = LPN mod planes, LPI = LPN div planes; groups of 256 LPIs of a plane
//!
//!   RAM    group 0:  [start 0, length 255, slope 1, PPN 4096]     accurate
//!          group 1:  [start 3, length 90, slope 0.43, PPN 77]     approximate, lists {3 5 7 ..}
//!                    [start 40, length 0, PPN 5021]               a single page
//!   flash  pages with the LPNs of themselves and their neighbours in the spare area
//! ```
//!
//! # What it models
//! When a block is full, the pages in it that are valid are sorted by LPI and lines are fitted
//! through (LPI, PPN), each as long as its predictions stay within the error bound. A newer segment
//! hides what older ones say of the same pages. A wrong prediction is noticed in the spare area,
//! which names the neighbours too: the page is found with the second read.
//!
//! The write path:
//! 1. predict where the page was; if the prediction is wrong, read the spare area there, beside
//!    the program;
//! 2. take the next page of the open block, or wait until one is collected;
//! 3. a page written in part: read the rest of it;
//! 4. program it, mark the old page invalid, remember the new one as a segment of its own;
//! 5. the block is full: learn segments from it, which replace those of single pages.
//!
//! Pages that the collector moves are learned in the same way.
//!
//! # Equation
//! A line through (i0, p0) predicts p0 + round(slope (i - i0)); the slope, between 0 and 1, is one
//! for which every prediction is off by at most the error bound.
//! `RAM = 8 segments + members of approximate segments + approximate segments` bytes.
//!
//! # Parameters
//! `error_bound`: pages by which a prediction may be off; 0 learns exact lines only.
//!
//! # What it leaves out
//! The paper sorts what its write buffer holds before it programs it: set `buffer.destage_order` to
//! `sorted`, or only streams leave long segments. Segments hidden by newer ones take no RAM at
//! once, not after the next compaction, and there is no cost of searching levels. The directory of
//! groups, and groups that would be kept on flash when RAM is short. A spare area names neighbours
//! that are written after it, as if blocks were programmed from a buffer. After a power failure all
//! spare areas are read.
//!
//! # Validated against
//! Exact segments and RAM of streams, the error bound on random ones; the NAND oracle.
//!
//! # References
//! Sun, Li, Sun, Sun, Vijaykumar, Huang, ASPLOS 2023. Slopes are fixed-point numbers of 14 bits,
//! not half floats of 15.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, snapshot_fields};

use super::fill::fill;
use super::{Built, Context, Full, HostPage, MapStats, Mapping, next_page};
use crate::ftl::allocation::Allocator;
use crate::ftl::flash::{Flash, Frontier};
use crate::ssd::geometry::Divisor;
use crate::ssd::plan::{Cause, FlashOp, NONE, Plan, Rebuilt};

mod segments;

use segments::{GROUP, Prediction, Table};

/// The greatest error bound: the spare area names twice as many neighbours.
const ERROR_BOUND_MAX: u32 = 16;

/// Parameters of LeaFTL.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Pages by which a prediction may be off, 0 to 16.
    pub error_bound: u32,
}

impl Params {
    /// Build the mapping.
    ///
    /// # Errors
    /// When the error bound is too great.
    pub fn build(&self, context: &Context) -> Built {
        if self.error_bound > ERROR_BOUND_MAX {
            let message = format!("expected 0 to {ERROR_BOUND_MAX}, got {}", self.error_bound);
            return Err(ConfigError::new("error_bound", message));
        }
        let geometry = &context.geometry;
        let planes = geometry.planes();
        let groups = context.logical_pages.div_ceil(planes).div_ceil(GROUP);
        Ok(Box::new(Leaf {
            table: Table::new(groups * planes),
            allocator: context.allocator.clone(),
            planes: Divisor::new(planes),
            groups,
            error_bound: self.error_bound,
            logical_pages: context.logical_pages,
            reserve: context.reserve,
            points: Vec::new(),
            stats: MapStats::default(),
        }))
    }
}

#[derive(Clone)]
struct Leaf {
    table: Table,
    allocator: Allocator,
    planes: Divisor,
    /// Groups of a plane.
    groups: u32,
    error_bound: u32,
    logical_pages: u32,
    reserve: u32,
    /// Scratch of `learn`.
    points: Vec<(u32, u32)>,
    stats: MapStats,
}

snapshot_fields!(Leaf { table, allocator, stats });

/// Where a page is, and where it was sought.
#[derive(Clone, Copy)]
struct LeafLookup {
    ppn: u32,
    predicted: u32,
}

impl LeafLookup {
    fn is_hit(self) -> bool {
        self.ppn == self.predicted
    }
}

impl Leaf {
    /// Position of a logical page in the table: plane after plane in stripe order.
    #[inline]
    fn position(&self, lpn: u32) -> u32 {
        let (lpi, turn) = self.planes.split(lpn);
        turn * self.groups * GROUP + lpi
    }

    #[inline]
    fn find(&mut self, flash: &mut Flash, lpn: u32) -> LeafLookup {
        let (near, anchor) = match self.table.predict(self.position(lpn)) {
            Prediction::Exact(ppn) => return LeafLookup { ppn, predicted: ppn },
            Prediction::Near { ppn, anchor } => (ppn, anchor),
        };
        // A line was learned from the pages of one block.
        let (block, _) = flash.geometry.block_page(anchor);
        let first = flash.geometry.first_ppn(block);
        let last = first + u32::from(flash.block(block).written) - 1;
        let predicted = near.clamp(first, last);
        let distances = 0..=self.error_bound;
        let mut around = distances.flat_map(|d| [predicted + d, predicted.saturating_sub(d)]);
        let holds = |&ppn: &u32| (first..=last).contains(&ppn) && flash.owner(ppn) == lpn;
        let ppn = around.find(holds).expect("predictions are within the error bound");
        LeafLookup { ppn, predicted }
    }

    /// Find a page as part of an access to it. A wrong prediction costs the read of a spare area.
    #[inline]
    fn seek(&mut self, lpn: u32, flash: &mut Flash, plan: &mut Plan) -> LeafLookup {
        let found = self.find(flash, lpn);
        self.stats.lookups += 1;
        self.stats.hits += u64::from(found.is_hit());
        if !found.is_hit() {
            let id = flash.spare(found.predicted);
            plan.push(FlashOp::read(Cause::Map, found.predicted, id, 0));
        }
        found
    }

    /// A page was written; the block may be full now.
    #[inline]
    fn written(&mut self, lpn: u32, ppn: u32, flash: &mut Flash) {
        self.table.set(self.position(lpn), ppn);
        let (block, page) = flash.geometry.block_page(ppn);
        if page + 1 == flash.geometry.pages_per_block.get() {
            self.learn(block, flash);
        }
    }

    /// Learn segments from the valid pages of a block.
    #[cold]
    fn learn(&mut self, block: u32, flash: &mut Flash) {
        let first = flash.geometry.first_ppn(block);
        let mut points = std::mem::take(&mut self.points);
        for ppn in first..first + u32::from(flash.block(block).written) {
            let lpn = flash.owner(ppn);
            if lpn != NONE {
                points.push((self.position(lpn), ppn));
            }
        }
        points.sort_unstable();
        self.table.learn(&points, self.error_bound);
        points.clear();
        self.points = points;
    }
}

impl Mapping for Leaf {
    fn lookup(&mut self, flash: &mut Flash, lpn: u32) -> u32 {
        self.find(flash, lpn).ppn
    }

    fn read(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) {
        let found = self.seek(page.lpn, flash, plan);
        plan.then();
        self.stats.double_reads += u64::from(!found.is_hit());
        page.plan_read(found.ppn, plan);
    }

    fn write(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) -> Result<(), Full> {
        let (lpn, reserve) = (page.lpn, self.reserve);
        let plane = self.allocator.choose(Frontier::HOST, lpn, flash, reserve).map_err(Full)?;
        let old = self.seek(lpn, flash, plan).ppn;
        if !page.whole {
            plan.then();
        }
        let ppn = next_page(flash, plane, Frontier::HOST, lpn, reserve, plan)
            .expect("the allocator chose a plane with room");
        page.plan_program(old, ppn, flash, plan);
        self.written(lpn, ppn, flash);
        Ok(())
    }

    fn discard(&mut self, flash: &mut Flash, lpn: u32, plan: &mut Plan) -> Result<(), Full> {
        let old = self.seek(lpn, flash, plan).ppn;
        if old != NONE {
            flash.invalidate(old);
            self.table.forget(self.position(lpn));
        }
        Ok(())
    }

    fn relocated(&mut self, flash: &mut Flash, lpn: u32, _from: u32, to: u32) {
        self.written(lpn, to, flash);
    }

    fn rebuild(&mut self, flash: &mut Flash) -> Rebuilt {
        self.table.clear();
        let mut newest = flash.find_newest(self.logical_pages);
        for lpn in 0..self.logical_pages {
            let ppn = newest.get(lpn as usize);
            if ppn != NONE {
                self.table.set(self.position(lpn), ppn);
            }
        }
        (0..flash.geometry.blocks()).for_each(|block| self.learn(block, flash));
        Rebuilt { spare_reads: flash.programmed_pages(), ..Rebuilt::default() }
    }

    fn fill(&mut self, flash: &mut Flash, count: u32, plan: &mut Plan) -> bool {
        let Some(filled) = fill(flash, &mut self.allocator, count, self.reserve, 0, plan) else {
            return false;
        };
        (0..count).for_each(|lpn| self.table.set(self.position(lpn), filled.ppn(lpn)));
        (0..flash.geometry.blocks()).for_each(|block| self.learn(block, flash));
        true
    }

    fn ram(&self) -> Bytes {
        Bytes(self.table.bytes())
    }

    fn stats(&self) -> Option<MapStats> {
        Some(self.stats)
    }

    fn freeze(&mut self) {
        self.table.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Mapping> {
        Box::new(self.clone())
    }
}

//! Zoned namespaces: the drive maps zones only, and a host with a log writes them in order.
//!
//! ```text
//!   host:   page -> (zone, place)      one open zone a stream, one for what it moves
//!   drive:  zone -> a block in each plane of a group
//!
//!           plane 0   plane 1   plane 2   plane 3
//!   zone 7  [block]   [block]   [block]   [block]     pages 0, 1, 2, 3, then 4, 5, ...
//! ```
//!
//! # What it models
//! A drive that only appends to zones and resets them, so that its table is tiny and it never
//! collects; and the host such a drive needs for any other workload: a log that maps pages, writes
//! each stream to an open zone of its own, and empties the zone with the fewest valid pages when
//! few are left. What the host moves is counted as garbage collection; a workload that gives up
//! (discards, overwrites) whole zones moves nothing. A zone without valid pages is reset at once.
//!
//! The write path:
//! 1. take the open zone of the stream; if there is none, open one where most zones are empty;
//! 2. if only the zones kept for cleaning are empty, wait;
//! 3. program the next page of the zone, its planes in turn;
//! 4. mark the old page invalid, change the host's entry; reset its zone if that was the last.
//!
//! # Equation
//! `RAM = zones x (blocks of a zone x ceil(log2(blocks of a plane)) + ceil(log2(pages of a zone +
//! 1))) / 8` bytes in the drive, and `logical pages x ceil(log2(physical pages)) / 8` in the host
//! (counter `host_map_bytes`).
//!
//! # Parameters
//! `zone_planes`: planes that a zone stripes over, all by default. `open_zones`: zones the host
//! keeps open, one a stream; a stream beyond them is the first one's.
//!
//! # What it leaves out
//! Zone management commands and their states, refused writes, zone append; the host link: cleaning
//! is a simple copy inside the drive. The host's own checkpoints: its table is made anew from every
//! spare area, and after a power failure a zone goes on where each of its blocks stopped.
//!
//! # Validated against
//! Logs that go round at different paces move nothing when they have streams of their own; with
//! one block a zone, random writes move what a page map moves; the NAND oracle.
//!
//! # References
//! Bjorling et al., USENIX ATC 2021; NVM Express, TP4053 "Zoned namespaces", 2020.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::metric::{Counted, Counter};
use sim::{Bytes, Counters, CowVec, snapshot_fields};

use super::{Built, CleaningStep, Context, Full, HostPage, Mapping, Needs, bits, write_anywhere};
use crate::ftl::flash::Flash;
use crate::ssd::plan::{Cause, FlashOp, NONE, OpCounts, Plan, Rebuilt};

mod zones;

use zones::Zones;

/// Empty zones that only cleaning may open.
const KEPT: u32 = 1;

/// Rows of pages, one in each block of a zone, that are moved at a time.
const STEP_ROWS: u32 = 2;

/// What the host keeps.
static HOST: Counted = Counted {
    counters: &[Counter::new("host_map_bytes", "bytes", "RAM the host's own mapping takes")],
    metrics: &[],
};

/// Parameters of zoned namespaces.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Planes that a zone stripes over; absent: all of them.
    pub zone_planes: Option<u32>,
    /// Zones the host keeps open.
    pub open_zones: u8,
}

impl Default for Params {
    fn default() -> Params {
        Params { zone_planes: None, open_zones: 8 }
    }
}

impl Params {
    /// What the host of the zones keeps.
    pub const COUNTED: sim::metric::Declarations = &[&HOST];

    /// Build the mapping.
    ///
    /// # Errors
    /// Zones that do not divide the planes, or too few of them for the open ones and for cleaning.
    pub fn build(&self, context: &Context) -> Built {
        let geometry = &context.geometry;
        let planes = geometry.planes();
        let width = self.zone_planes.unwrap_or(planes);
        if width == 0 || !planes.is_multiple_of(width) {
            let message = format!("expected a divisor of the {planes} planes, got {width}");
            return Err(ConfigError::new("zone_planes", message));
        }
        let zones = Zones::new(geometry, width);
        // Besides the open ones: one to clean into, those kept for that, one to clean.
        let full = context.logical_pages.div_ceil(zones.pages_per_zone());
        let spare = zones.count().saturating_sub(full);
        let most = spare.saturating_sub(KEPT + 2).min(64);
        if !(1..=most).contains(&u32::from(self.open_zones)) {
            let message = format!(
                "{} open zones do not fit into the {spare} spare ones of {} zones: expected 1 to \
                 {most}, or smaller zones (zone_planes), or leave more over_provisioning",
                self.open_zones,
                zones.count()
            );
            return Err(ConfigError::new("open_zones", message));
        }
        Ok(Box::new(Zns {
            map: CowVec::new(context.logical_pages as usize, NONE),
            host_map_bytes: (u64::from(context.logical_pages) * u64::from(bits(geometry.pages())))
                .div_ceil(8),
            open: vec![NONE; usize::from(self.open_zones) + 1],
            zones,
            victim: NONE,
            cursor: 0,
            resetting: NONE,
            moves: Vec::new(),
        }))
    }
}

#[derive(Clone)]
struct Zns {
    map: CowVec<u32>,
    host_map_bytes: u64,
    zones: Zones,
    /// The open zone of each stream, and last that of moved pages.
    open: Vec<u32>,
    /// The zone being emptied, and the next of its pages to look at.
    victim: u32,
    cursor: u32,
    /// The zone whose reset was planned last.
    resetting: u32,
    /// Scratch: (to, from, lpn) of the step being planned.
    moves: Vec<(u32, u32, u32)>,
}

snapshot_fields!(Zns { map, zones, open, victim, cursor, resetting });

impl Zns {
    /// The open zone of moved pages.
    fn for_moved(&self) -> usize {
        self.open.len() - 1
    }

    /// Hand out the next page of an open zone; `None` when a zone must be opened and no more than
    /// `kept` are empty.
    #[inline]
    fn append(&mut self, flash: &mut Flash, which: usize, lpn: u32, kept: u32) -> Option<u32> {
        if self.open[which] == NONE {
            let moved = which == self.for_moved();
            self.open[which] = self.zones.open(flash, moved, kept)?;
        }
        let zone = self.open[which];
        let ppn = self.zones.append(flash, zone, lpn);
        if self.zones.is_full(zone) {
            self.open[which] = NONE;
        }
        Some(ppn)
    }

    /// A page no longer holds its data: a zone without data is reset.
    #[inline]
    fn lost_page(&mut self, flash: &Flash, ppn: u32, plan: &mut Plan) {
        if ppn != NONE && self.zones.lost_page(&flash.geometry, ppn) {
            plan.collect.push(0);
        }
    }

    /// Plan the moves of a step; false when the victim holds nothing valid any more.
    fn move_pages(&mut self, flash: &mut Flash, plan: &mut Plan) -> bool {
        let sectors = flash.geometry.page_sectors;
        let slot = self.for_moved();
        let step = (STEP_ROWS * self.zones.width()) as usize;
        let mut moves = std::mem::take(&mut self.moves);
        while moves.len() < step && self.zones.valid(self.victim) > 0 {
            let from = self.zones.page(&flash.geometry, self.victim, self.cursor);
            self.cursor += 1;
            let Some(from) = from.filter(|&ppn| flash.is_valid(ppn)) else { continue };
            let lpn = flash.owner(from);
            let to = self.append(flash, slot, lpn, 0).expect("a zone is kept for cleaning");
            if flash.is_programmed(from) {
                plan.push(FlashOp::read(Cause::Gc, from, lpn, sectors));
            }
            flash.invalidate(from);
            self.zones.lost_page(&flash.geometry, from);
            self.map.set(lpn as usize, to);
            moves.push((to, from, lpn));
        }
        plan.then();
        for &(to, from, lpn) in &moves {
            plan.push(FlashOp::program(Cause::Gc, to, from, lpn, sectors));
        }
        let moved = !moves.is_empty();
        moves.clear();
        self.moves = moves;
        moved
    }
}

impl Mapping for Zns {
    #[inline]
    fn lookup(&mut self, _flash: &mut Flash, lpn: u32) -> u32 {
        self.map.get(lpn as usize)
    }

    fn read(&mut self, _flash: &mut Flash, page: HostPage, plan: &mut Plan) {
        page.plan_read(self.map.get(page.lpn as usize), plan);
    }

    fn write(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) -> Result<(), Full> {
        let streams = self.for_moved();
        let stream = if usize::from(page.stream) < streams { usize::from(page.stream) } else { 0 };
        let opens = self.open[stream] == NONE;
        let ppn = self.append(flash, stream, page.lpn, KEPT).ok_or(Full(None))?;
        let old = self.map.get(page.lpn as usize);
        page.plan_program(old, ppn, flash, plan);
        self.lost_page(flash, old, plan);
        self.map.set(page.lpn as usize, ppn);
        if opens {
            plan.collect.push(0);
        }
        Ok(())
    }

    fn discard(&mut self, flash: &mut Flash, lpn: u32, plan: &mut Plan) -> Result<(), Full> {
        let old = self.map.get(lpn as usize);
        if old != NONE {
            flash.invalidate(old);
            self.lost_page(flash, old, plan);
            self.map.set(lpn as usize, NONE);
        }
        Ok(())
    }

    fn relocated(&mut self, _flash: &mut Flash, lpn: u32, _from: u32, _to: u32) {
        unreachable!("page {lpn} was moved by a collector that a zoned drive does not have");
    }

    fn rebuild(&mut self, flash: &mut Flash) -> Rebuilt {
        self.map = flash.find_newest(self.map.len() as u32);
        self.zones.rebuild(flash, &mut self.open);
        (self.victim, self.cursor, self.resetting) = (NONE, 0, NONE);
        Rebuilt { spare_reads: flash.programmed_pages(), ..Rebuilt::default() }
    }

    fn needs(&self) -> Needs {
        Needs { pools: 1, ..Needs::default() }
    }

    fn wants_cleaning(&self, flash: &Flash, _pool: u32) -> bool {
        self.zones.empty(flash) <= KEPT + 1 || self.zones.has_dead()
    }

    fn clean(&mut self, flash: &mut Flash, pool: u32, plan: &mut Plan) -> CleaningStep {
        if self.resetting != NONE {
            self.zones.forget(std::mem::replace(&mut self.resetting, NONE));
        }
        if self.victim == NONE {
            if !self.wants_cleaning(flash, pool) {
                return CleaningStep::Idle;
            }
            let Some(victim) = self.zones.least_valid(&self.open) else {
                return CleaningStep::Idle;
            };
            (self.victim, self.cursor) = (victim, 0);
        }
        if self.move_pages(flash, plan) {
            return CleaningStep::Planned;
        }
        if self.zones.blocks(self.victim).any(|block| flash.is_pinned(block)) {
            return CleaningStep::Blocked;
        }
        for block in self.zones.blocks(self.victim) {
            plan.push(FlashOp::erase(Cause::Gc, flash.geometry.first_ppn(block)));
        }
        self.zones.reset();
        self.resetting = std::mem::replace(&mut self.victim, NONE);
        CleaningStep::Planned
    }

    fn ram(&self) -> Bytes {
        self.zones.ram()
    }

    fn counters(&self, planned: &OpCounts, out: &mut Counters) {
        write_anywhere(planned, out);
        out.level("host_map_bytes", self.host_map_bytes);
    }

    fn freeze(&mut self) {
        self.map.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Mapping> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;

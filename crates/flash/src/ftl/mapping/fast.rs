//! FAST: block mapping with log blocks that any logical block may use.
//!
//! ```text
//!  RAM: block table             data blocks          SW log block       RW log blocks, a queue
//!       lbn -> data block       +--+--+--+--+        +--+--+--+--+      +--+--+--+--+
//!       SW: owner, next         |28| x| x|31|        |16|17|18| .|      |30|12|29|30|  oldest
//!       RW page table:          +--+--+--+--+        +--+--+--+--+      +--+--+--+--+
//!       lpn -> log page         |12|13|14|15|        one owner, in      |13| .| .| .|  open
//!                               +--+--+--+--+        order from 0       +--+--+--+--+
//! ```
//!
//! # What it models
//! The write path:
//! 1. The page's place in its data block is free and not below one written: it goes there.
//! 2. Page 0 of a logical block opens the SW log block anew; the one before becomes the data block
//!    if it is full and all its pages are the newest (switch), is completed by copies if they are
//!    but it is not full (partial), and is merged in full otherwise.
//! 3. The page that the SW log block expects next goes there.
//! 4. Any other page goes to the open RW log block.
//! 5. When the RW log blocks are used up, the write waits until every logical block that has a
//!    valid page in the oldest one is merged in full.
//!
//! The scope says who shares log blocks. `naive_global`: the whole drive has one SW log block and
//! one open RW log block, which lies on one plane, and merges one logical block at a time: what
//! an FTL for a single chip does when it is put on an array. `global_k_open`: one SW log block,
//! and an open RW log block on each plane that take log pages in turn; merges on different planes
//! run at once. `per_plane`: each plane is a FAST of its own.
//!
//! Logical pages are striped over planes by default, as in the paper by Ha et al.: a sequential
//! stream then touches a logical block on every plane in turn, so a shared SW log block is closed
//! after page 0 on every plane but the last, while one per plane becomes a data block by switch.
//!
//! # Equation
//! A victim with pages of A logical blocks costs A(bc + E) + E. Uniform single-page overwrites of D
//! logical blocks with L RW log blocks: `WAF = 1 + bD/(D + Lb)`, mean A = bD/(D + Lb). Overwriting
//! whole blocks in order: switches only, `WAF = 1`, one erase per block.
//! RAM = block table + L b log2(pages) + L log2(blocks) bits.
//!
//! # Parameters
//! `log_blocks`: of the whole drive, SW included, a sixteenth of its blocks unless given. `scope`:
//! `naive_global`, `global_k_open` or `per_plane`. `sw_break`: what an unexpected page of the SW
//! log block's owner does to it, `keep` or `merge`. `striping`: `pages` or `blocks`.
//!
//! # What it leaves out
//! The map block on flash: the tables are found again from the spare areas. After a power failure
//! an SW log block is closed by a partial merge. A data block whose pages were all discarded is
//! kept as long as its logical block has the SW log block.
//!
//! # Validated against
//! The equations, exact costs, the NAND oracle with power cuts.
//!
//! # References
//! Lee, Park, Chung, Lee, Park, Song, ACM TECS 6(3), art. 18, 2007; Ha, Cho and Eom, J. KIISE
//! 37(4), 2010.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::snapshot_fields;

use super::log_block::{Budget, Hybrid, Job, Logs, MERGES, Store, StoredLog, Striping, Update};
use super::{Built, Context, bits};
use crate::ftl::flash::Flash;
use crate::ssd::plan::NONE;

#[cfg(test)]
mod tests;

/// Who shares log blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The whole drive; one open RW log block.
    NaiveGlobal,
    /// The whole drive; an open RW log block on each plane.
    GlobalKOpen,
    /// Each plane its own.
    #[default]
    PerPlane,
}

/// What happens to the SW log block when its owner is written out of order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwBreak {
    /// It stays; the page goes to an RW log block.
    #[default]
    Keep,
    /// It is merged first.
    Merge,
}

/// Parameters of FAST.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Log blocks of the whole drive, sequential ones included; a sixteenth of its blocks unless
    /// given. A scope other than `naive_global` deals them evenly to the planes.
    pub log_blocks: Option<u32>,
    /// Who shares log blocks.
    pub scope: Scope,
    /// What happens to the SW log block when its owner is written out of order.
    pub sw_break: SwBreak,
    /// What is striped over the planes.
    pub striping: Striping,
}

impl Params {
    /// What the schemes with log blocks count.
    pub const COUNTED: sim::metric::Declarations = &[&MERGES];

    /// Build the mapping.
    ///
    /// # Errors
    /// When the log blocks do not fit beside the data blocks.
    pub fn build(&self, context: &Context) -> Built {
        let planes = context.geometry.planes();
        let store = Store::new(context, self.striping, self.scope != Scope::PerPlane);
        let budget = Budget::new(context, &store.layout);
        let per_plane = self.scope == Scope::PerPlane;
        let least = match self.scope {
            Scope::NaiveGlobal => 2,
            Scope::GlobalKOpen => planes + 1,
            Scope::PerPlane => 2 * planes,
        };
        let logs = budget.log_blocks(self.log_blocks, least, !per_plane)?;
        let (lanes, of_lane) = match self.scope {
            Scope::NaiveGlobal => (1, logs - 1),
            Scope::GlobalKOpen => (planes, (logs - 1) / planes),
            Scope::PerPlane => (planes, logs / planes - 1),
        };
        let fast = Fast {
            scope: self.scope,
            merge_broken: self.sw_break == SwBreak::Merge,
            log_blocks: logs,
            of_lane,
            of_plane: (of_lane * lanes).div_ceil(planes),
            sequential: vec![Sequential::default(); store.pools() as usize],
            lanes: vec![Lane::default(); lanes as usize],
            on_plane: vec![0; planes as usize],
            turn: 0,
        };
        Ok(Hybrid::boxed(store, fast))
    }
}

/// The SW log block.
#[derive(Clone, Copy, Debug)]
struct Sequential {
    block: u32,
    /// The logical block it belongs to; [`NONE`] when there is no SW log block.
    owner: u32,
    /// It must be merged.
    closing: bool,
}

snapshot_fields!(Sequential { block, owner, closing });

impl Default for Sequential {
    fn default() -> Sequential {
        Sequential { block: NONE, owner: NONE, closing: false }
    }
}

/// RW log blocks that are filled one after another.
#[derive(Clone, Default, Debug)]
struct Lane {
    /// Oldest first; only the last can have room.
    blocks: VecDeque<u32>,
    /// The oldest must be emptied.
    wish: bool,
}

snapshot_fields!(Lane { blocks, wish });

#[derive(Clone)]
struct Fast {
    scope: Scope,
    merge_broken: bool,
    log_blocks: u32,
    /// RW log blocks of a lane, and at most on a plane.
    of_lane: u32,
    of_plane: u32,
    /// Per pool.
    sequential: Vec<Sequential>,
    /// One, or one per plane.
    lanes: Vec<Lane>,
    /// RW log blocks on each plane.
    on_plane: Vec<u32>,
    /// Where in the stripe the next log page (or log block, when there is one lane) goes.
    turn: u32,
}

snapshot_fields!(Fast { sequential, lanes, on_plane, turn });

impl Fast {
    fn lane_of_block(&self, store: &Store, block: u32) -> usize {
        match self.scope {
            Scope::NaiveGlobal => 0,
            _ => store.geometry.plane_of_block(block) as usize,
        }
    }

    /// The lanes of a pool.
    fn lanes_of(&self, pool: usize) -> std::ops::Range<usize> {
        match self.scope {
            Scope::PerPlane => pool..pool + 1,
            _ => 0..self.lanes.len(),
        }
    }

    fn advance(&mut self) {
        self.turn = if self.turn + 1 == self.on_plane.len() as u32 { 0 } else { self.turn + 1 };
    }

    /// Take an RW log block for a lane, on the next plane that has room for one when the lane is
    /// not bound to a plane.
    fn open(&mut self, store: &mut Store, flash: &mut Flash, lane: usize) -> Option<u32> {
        let tries = if self.scope == Scope::NaiveGlobal { self.on_plane.len() } else { 1 };
        for _ in 0..tries {
            let plane = match self.scope {
                Scope::NaiveGlobal => store.layout.stripe()[self.turn as usize],
                _ => lane as u32,
            };
            if self.on_plane[plane as usize] < self.of_plane
                && let Some(block) = store.take_log(flash, plane, NONE)
            {
                self.lanes[lane].blocks.push_back(block);
                self.on_plane[plane as usize] += 1;
                if tries > 1 {
                    self.advance();
                }
                return Some(block);
            }
            if tries > 1 {
                self.advance();
            }
        }
        None
    }

    fn append_random(
        &mut self,
        store: &mut Store,
        flash: &mut Flash,
        plane: u32,
        lpn: u32,
    ) -> Option<u32> {
        let lane = match self.scope {
            Scope::NaiveGlobal => 0,
            Scope::GlobalKOpen => store.layout.stripe()[self.turn as usize] as usize,
            Scope::PerPlane => plane as usize,
        };
        let last = self.lanes[lane].blocks.back().copied();
        let block = match last.filter(|&block| flash.room_in(block) > 0) {
            Some(block) => block,
            None if (self.lanes[lane].blocks.len() as u32) < self.of_lane => {
                self.open(store, flash, lane)?
            }
            None => {
                self.lanes[lane].wish = true;
                return None;
            }
        };
        if self.scope == Scope::GlobalKOpen {
            self.advance();
        }
        let page = u32::from(flash.block(block).written);
        Some(flash.allocate_at(block, page, lpn))
    }
}

impl Logs for Fast {
    fn merges_in_parallel(&self) -> bool {
        self.scope == Scope::GlobalKOpen
    }

    fn append(&mut self, store: &mut Store, flash: &mut Flash, update: Update) -> Option<u32> {
        let Update { lpn, lbn, offset, .. } = update;
        let plane = store.layout.plane(lbn);
        let pool = store.pool(plane);
        let Sequential { block, owner, closing } = self.sequential[pool];
        if offset == 0 {
            if owner != NONE {
                if closing || !store.is_switchable(flash, owner, block) {
                    self.sequential[pool].closing = true;
                    return None;
                }
                store.switch(flash, owner, block);
                self.sequential[pool] = Sequential::default();
            }
            let block = store.take_log(flash, plane, lbn)?;
            self.sequential[pool] = Sequential { block, owner: lbn, closing: false };
            return Some(flash.allocate_at(block, 0, lpn));
        }
        if owner == lbn && !closing {
            if offset == u32::from(flash.block(block).written) {
                return Some(flash.allocate_at(block, offset, lpn));
            }
            if self.merge_broken {
                self.sequential[pool].closing = true;
                return None;
            }
        }
        self.append_random(store, flash, plane, lpn)
    }

    fn wants(&self, pool: usize) -> bool {
        // A power failure can bring back a log block that was to be erased.
        let wants = |lane: &Lane| lane.wish || lane.blocks.len() as u32 > self.of_lane;
        self.sequential[pool].closing || self.lanes[self.lanes_of(pool)].iter().any(wants)
    }

    fn withdraw(&mut self, pool: usize) {
        self.sequential[pool].closing = false;
        let lanes = self.lanes_of(pool);
        self.lanes[lanes].iter_mut().for_each(|lane| lane.wish = false);
    }

    fn holds(&self, store: &Store, lbn: u32) -> bool {
        self.sequential[store.pool(store.layout.plane(lbn))].owner == lbn
    }

    fn next_job(&mut self, _store: &mut Store, _flash: &mut Flash, pool: usize) -> Option<Job> {
        let Sequential { block, owner, closing } = self.sequential[pool];
        if closing {
            return Some(Job { log: block, lbn: owner });
        }
        let lanes = self.lanes_of(pool);
        self.lanes[lanes].iter_mut().find_map(|lane| {
            let crowd = (lane.blocks.len() as u32).cmp(&self.of_lane);
            let wanted = std::mem::take(&mut lane.wish) && crowd.is_eq();
            let oldest = lane.blocks.front().filter(|_| wanted || crowd.is_gt());
            oldest.map(|&log| Job { log, lbn: NONE })
        })
    }

    fn merged(&mut self, store: &mut Store, flash: &mut Flash, lbn: u32) {
        let pool = store.pool(store.layout.plane(lbn));
        let Sequential { block, owner, .. } = self.sequential[pool];
        if owner == lbn {
            self.sequential[pool] = Sequential::default();
            if store.home(lbn) != block {
                store.bury(flash, block);
            }
        }
    }

    fn emptied(&mut self, store: &Store, log: u32) {
        let lane = self.lane_of_block(store, log);
        let oldest = self.lanes[lane].blocks.pop_front();
        debug_assert_eq!(oldest, Some(log));
        self.on_plane[store.geometry.plane_of_block(log) as usize] -= 1;
    }

    fn clear(&mut self) {
        self.sequential.fill(Sequential::default());
        self.lanes.fill(Lane::default());
        self.on_plane.fill(0);
        self.turn = 0;
    }

    fn found(&mut self, store: &mut Store, _flash: &mut Flash, log: StoredLog) {
        let lane = self.lane_of_block(store, log.block);
        self.lanes[lane].blocks.push_back(log.block);
        self.on_plane[store.geometry.plane_of_block(log.block) as usize] += 1;
    }

    fn ram_bits(&self, store: &Store) -> u64 {
        let geometry = &store.geometry;
        let pages = u64::from(geometry.pages_per_block.get()) * u64::from(bits(geometry.pages()));
        u64::from(self.log_blocks) * (pages + u64::from(bits(geometry.blocks())))
    }
}

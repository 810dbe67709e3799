//! KAST: FAST with a bound on how many logical blocks a log block may mix.
//!
//! ```text
//!  RAM: block table              SW log blocks, one per       RW log blocks (K = 2) and the
//!       lbn -> data block        stream, in order from 0      logical blocks each is bound to
//!       log page table:          +--+--+--+--+                +--+--+--+--+
//!       lpn -> log page          |16|17|18| .|  of 4          |30|12|29|13|  7, 3: takes no other
//!       log block -> lbns        +--+--+--+--+                +--+--+--+--+
//!                                |40|41| .| .|  of 10         |22| .| .| .|  5
//!                                +--+--+--+--+                +--+--+--+--+
//! ```
//!
//! # What it models
//! The write path:
//! 1. The page's place in its data block is free and not below one written: it goes there.
//! 2. The page that the logical block's SW log block expects next goes there; any other page of
//!    that logical block goes there too, and makes it an RW log block.
//! 3. Page 0 of another logical block opens an SW log block; without a free one the least recently
//!    written is closed by switch, partial or full merge.
//! 4. Any other page goes to the RW log block that its logical block is bound to, or else to the
//!    one bound to fewest (an unused one if there is any), fewer than K.
//! 5. Without such a log block, the write waits until every logical block that has a valid page
//!    in the oldest RW log block is merged in full: at most K.
//!
//! Each plane has log blocks of its own and merges on its own. A merged logical block is unbound
//! from all log blocks; one that is then bound to none is the next to be erased.
//!
//! # Equation
//! No write waits longer for merges than K(bc + E) + E. RAM = block table + L b log2(pages) +
//! L log2(blocks) + L K log2(logical blocks) bits.
//!
//! # Parameters
//! `log_blocks`: of the whole drive, a sixteenth of its blocks unless given. `associativity`: K.
//! `sequential_blocks`: most SW log blocks of a plane; RW log blocks use what they leave.
//! `striping`: `pages` or `blocks`.
//!
//! # What it leaves out
//! The map block on flash: the tables are found again from the spare areas. A log block stays bound
//! to a logical block whose pages in it were all superseded. After a power failure SW log blocks
//! are closed by partial merges. A data block whose pages were all discarded is kept as long as a
//! log block is bound to its logical block.
//!
//! # Validated against
//! The bound, reached and never passed by single writes; exact costs; the NAND oracle with power
//! cuts.
//!
//! # References
//! Cho, Shin, Eom, DATE 2009.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::snapshot_fields;

use super::log_block::{
    Budget, Hybrid, Job, Logs, MERGES, Store, StoredLog, Striping, Update, in_range,
};
use super::{Built, Context, bits};
use crate::ftl::flash::Flash;
use crate::ssd::plan::NONE;

#[cfg(test)]
mod tests;

/// Parameters of KAST.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Log blocks of the whole drive; a sixteenth of its blocks unless given. They are dealt
    /// evenly to the planes.
    pub log_blocks: Option<u32>,
    /// K: most logical blocks that an RW log block is bound to, from 1.
    pub associativity: u32,
    /// Most SW log blocks of a plane, from 1; 2 unless given (1 where a plane has two log blocks).
    pub sequential_blocks: Option<u32>,
    /// What is striped over the planes.
    pub striping: Striping,
}

impl Default for Params {
    fn default() -> Params {
        let striping = Striping::default();
        Params { log_blocks: None, associativity: 8, sequential_blocks: None, striping }
    }
}

impl Params {
    /// What the schemes with log blocks count.
    pub const COUNTED: sim::metric::Declarations = &[&MERGES];

    /// Build the mapping.
    ///
    /// # Errors
    /// When the log blocks do not fit beside the data blocks, leave no RW log block on a plane, or
    /// could never be bound to that many logical blocks.
    pub fn build(&self, context: &Context) -> Built {
        let planes = context.geometry.planes();
        let pages = context.geometry.pages_per_block.get();
        let store = Store::new(context, self.striping, false);
        let budget = Budget::new(context, &store.layout);
        let logs = budget.log_blocks(self.log_blocks, 2 * planes, false)? / planes;
        let sequential = self.sequential_blocks.unwrap_or(2.min(logs - 1));
        let most = "the log blocks of a plane less one";
        in_range("associativity", self.associativity, pages, "the pages of a block")?;
        in_range("sequential_blocks", sequential, logs - 1, most)?;
        let kast = Kast {
            associativity: self.associativity,
            sequential,
            logs,
            log_of: vec![NONE; store.layout.blocks as usize],
            pools: vec![LogBlocks::default(); planes as usize],
        };
        Ok(Hybrid::boxed(store, kast))
    }
}

/// A log block that one logical block writes in order.
#[derive(Clone, Copy, Default, Debug)]
struct Sequential {
    block: u32,
    owner: u32,
}

snapshot_fields!(Sequential { block, owner });

/// A log block and the logical blocks it is bound to.
#[derive(Clone, Default, Debug)]
struct Random {
    block: u32,
    bound: Vec<u32>,
}

snapshot_fields!(Random { block, bound });

/// The log blocks of a plane.
#[derive(Clone, Debug)]
struct LogBlocks {
    /// Least recently written first.
    sequential: Vec<Sequential>,
    /// Oldest first.
    random: Vec<Random>,
    /// An SW log block must be closed.
    closing: bool,
    /// An RW log block must be emptied.
    crowded: bool,
    /// The RW log block that is being emptied, or [`NONE`].
    victim: u32,
}

snapshot_fields!(LogBlocks { sequential, random, closing, crowded, victim });

impl Default for LogBlocks {
    fn default() -> LogBlocks {
        let (sequential, random) = (Vec::new(), Vec::new());
        LogBlocks { sequential, random, closing: false, crowded: false, victim: NONE }
    }
}

#[derive(Clone)]
struct Kast {
    /// K.
    associativity: u32,
    /// Most SW log blocks, and log blocks of any kind, of a plane.
    sequential: u32,
    logs: u32,
    /// The RW log block that takes the pages of each logical block, as long as it has room.
    log_of: Vec<u32>,
    pools: Vec<LogBlocks>,
}

snapshot_fields!(Kast { log_of, pools });

impl LogBlocks {
    fn count(&self) -> u32 {
        (self.sequential.len() + self.random.len()) as u32
    }
}

impl Kast {
    /// The RW log block with room that is bound to fewest logical blocks, fewer than K.
    fn least_bound(&self, flash: &Flash, pool: usize) -> Option<usize> {
        let LogBlocks { random, victim, .. } = &self.pools[pool];
        // One that is bound to none was: what it held is to be erased.
        let may = 1..self.associativity;
        let takes = |log: &Random| {
            let free = may.contains(&(log.bound.len() as u32)) && log.block != *victim;
            free && flash.room_in(log.block) > 0
        };
        let candidates = random.iter().enumerate().filter(|(_, log)| takes(log));
        candidates.min_by_key(|(_, log)| log.bound.len()).map(|(index, _)| index)
    }

    /// True when a plane may have one more RW log block.
    fn may_open(&self, pool: usize) -> bool {
        self.pools[pool].count() < self.logs
    }

    /// The next page of the logical block's SW log block, if it has one with room.
    fn append_in_order(
        &mut self,
        store: &mut Store,
        flash: &mut Flash,
        update: Update,
    ) -> Option<u32> {
        let Update { lpn, lbn, offset, .. } = update;
        let pool = store.layout.plane(lbn) as usize;
        let sequential = &mut self.pools[pool].sequential;
        let index = sequential.iter().position(|log| log.owner == lbn)?;
        let Sequential { block, .. } = sequential.remove(index);
        let next = u32::from(flash.block(block).written);
        let has_room = flash.room_in(block) > 0;
        if has_room && offset == next {
            sequential.push(Sequential { block, owner: lbn });
        } else if !has_room && store.is_switchable(flash, lbn, block) {
            store.switch(flash, lbn, block);
        } else {
            self.pools[pool].random.push(Random { block, bound: vec![lbn] });
            self.log_of[lbn as usize] = block;
        }
        has_room.then(|| flash.allocate_at(block, next, lpn))
    }

    /// Open an SW log block for page 0 of a logical block that has none.
    fn open_in_order(
        &mut self,
        store: &mut Store,
        flash: &mut Flash,
        update: Update,
    ) -> Option<u32> {
        let plane = store.layout.plane(update.lbn);
        let pool = &mut self.pools[plane as usize];
        if pool.sequential.len() as u32 >= self.sequential {
            let Sequential { block, owner } = pool.sequential[0];
            if !store.is_switchable(flash, owner, block) {
                pool.closing = true;
                return None;
            }
            store.switch(flash, owner, block);
            pool.sequential.remove(0);
        }
        if pool.count() >= self.logs {
            pool.crowded = true;
            return None;
        }
        let block = store.take_log(flash, plane, update.lbn)?;
        pool.sequential.push(Sequential { block, owner: update.lbn });
        Some(flash.allocate_at(block, 0, update.lpn))
    }

    fn append_random(
        &mut self,
        store: &mut Store,
        flash: &mut Flash,
        update: Update,
    ) -> Option<u32> {
        let lbn = update.lbn;
        let plane = store.layout.plane(lbn);
        let mut block = self.log_of[lbn as usize];
        if block == NONE || flash.room_in(block) == 0 {
            if self.may_open(plane as usize) {
                block = store.take_log(flash, plane, NONE)?;
                self.pools[plane as usize].random.push(Random { block, bound: vec![lbn] });
            } else if let Some(index) = self.least_bound(flash, plane as usize) {
                let log = &mut self.pools[plane as usize].random[index];
                block = log.block;
                if !log.bound.contains(&lbn) {
                    log.bound.push(lbn);
                }
            } else {
                self.pools[plane as usize].crowded = true;
                return None;
            }
            self.log_of[lbn as usize] = block;
        }
        let page = u32::from(flash.block(block).written);
        Some(flash.allocate_at(block, page, update.lpn))
    }
}

impl Logs for Kast {
    fn append(&mut self, store: &mut Store, flash: &mut Flash, update: Update) -> Option<u32> {
        if let Some(ppn) = self.append_in_order(store, flash, update) {
            return Some(ppn);
        }
        match update.offset {
            0 => self.open_in_order(store, flash, update),
            _ => self.append_random(store, flash, update),
        }
    }

    fn wants(&self, pool: usize) -> bool {
        let LogBlocks { closing, crowded, .. } = self.pools[pool];
        // A power failure can bring back a log block that was to be erased.
        closing || crowded || self.pools[pool].count() > self.logs
    }

    fn withdraw(&mut self, pool: usize) {
        self.pools[pool].closing = false;
        self.pools[pool].crowded = false;
    }

    fn holds(&self, store: &Store, lbn: u32) -> bool {
        let pool = &self.pools[store.layout.plane(lbn) as usize];
        pool.sequential.iter().any(|log| log.owner == lbn)
            || pool.random.iter().any(|log| log.bound.contains(&lbn))
    }

    fn next_job(&mut self, _store: &mut Store, flash: &mut Flash, pool: usize) -> Option<Job> {
        let stuck = !self.may_open(pool) && self.least_bound(flash, pool).is_none();
        let pool = &mut self.pools[pool];
        let full = pool.sequential.len() as u32 >= self.sequential;
        if std::mem::take(&mut pool.closing) && full {
            let Sequential { block, owner } = pool.sequential[0];
            return Some(Job { log: block, lbn: owner });
        }
        let crowd = pool.count().cmp(&self.logs);
        let wanted = std::mem::take(&mut pool.crowded) && (crowd.is_eq() || stuck);
        if !wanted && !crowd.is_gt() {
            return None;
        }
        let unbound = pool.random.iter().find(|log| log.bound.is_empty());
        let Random { block, bound } = unbound.or(pool.random.first())?;
        pool.victim = *block;
        // It takes no more pages.
        for &lbn in bound {
            let taking = &mut self.log_of[lbn as usize];
            if *taking == *block {
                *taking = NONE;
            }
        }
        Some(Job { log: *block, lbn: NONE })
    }

    fn merged(&mut self, store: &mut Store, flash: &mut Flash, lbn: u32) {
        let pool = &mut self.pools[store.layout.plane(lbn) as usize];
        self.log_of[lbn as usize] = NONE;
        if let Some(index) = pool.sequential.iter().position(|log| log.owner == lbn) {
            let Sequential { block, .. } = pool.sequential.remove(index);
            if pool.victim != NONE {
                // It is erased when it is needed: a write waits for one victim only.
                pool.random.push(Random { block, bound: Vec::new() });
            } else if store.home(lbn) != block {
                store.bury(flash, block);
            }
        }
        pool.random.iter_mut().for_each(|log| log.bound.retain(|&bound| bound != lbn));
    }

    fn emptied(&mut self, store: &Store, log: u32) {
        let pool = &mut self.pools[store.geometry.plane_of_block(log) as usize];
        pool.victim = NONE;
        pool.random.retain(|random| random.block != log);
    }

    fn clear(&mut self) {
        self.log_of.fill(NONE);
        self.pools.fill(LogBlocks::default());
    }

    fn found(&mut self, store: &mut Store, flash: &mut Flash, log: StoredLog) {
        let bound = store.mixed(flash, log.block);
        bound.iter().for_each(|&lbn| self.log_of[lbn as usize] = log.block);
        let plane = store.geometry.plane_of_block(log.block);
        self.pools[plane as usize].random.push(Random { block: log.block, bound });
    }

    fn ram_bits(&self, store: &Store) -> u64 {
        let geometry = &store.geometry;
        let pages = u64::from(geometry.pages_per_block.get()) * u64::from(bits(geometry.pages()));
        let bound = u64::from(self.associativity) * u64::from(bits(store.layout.blocks));
        let logs = u64::from(self.logs) * self.pools.len() as u64;
        logs * (pages + u64::from(bits(geometry.blocks())) + bound)
    }
}

//! Reconfigurable FTL: groups of N logical blocks share up to K log blocks.
//!
//! ```text
//!  RAM: block table             data blocks of a group (N = 2)       its log blocks (K = 2)
//!       lbn -> data block       +--+--+--+--+   +--+--+--+--+        +--+--+--+--+
//!       group -> log blocks     |28| x| x|31|   |32| x|34| x|        |30|33|29|30|  oldest
//!       log page table:         +--+--+--+--+   +--+--+--+--+        +--+--+--+--+
//!       log page ->             logical block 7 logical block 8      |33|35| .| .|
//!       page of the group                                            +--+--+--+--+
//! ```
//!
//! # What it models
//! The write path:
//! 1. The page's place in its data block is free and not below one written: it goes there.
//! 2. Otherwise it goes to the next page of its group's newest log block.
//! 3. If that is full and holds a logical block in order, it becomes the data block (switch).
//! 4. Otherwise the group takes another log block; when it has K, the write waits until its
//!    oldest is emptied, and when the plane has no more, until the oldest of the least recently
//!    written group is.
//! 5. A log block of one logical block is emptied by partial merge if it is a prefix in order;
//!    any other by a full merge of each logical block that has a valid page in it, at most N.
//!
//! N = K = 1 is BAST; N = 1 with more log blocks is BAST with several for each logical block; one
//! group of everything is FAST without its sequential log block. A group lies on one plane.
//!
//! # Equation
//! A victim with pages of A <= N logical blocks costs A(bc + E) + E. One group of D logical blocks
//! with K log blocks, uniform single-page overwrites: `WAF = 1 + bD/(D + Kb)`. With N = K = 1 as
//! BAST. RAM = block table + L (log2(blocks) + b log2(N b)) bits.
//!
//! # Parameters
//! `group_blocks`: N; as many as a plane has or more make it one group. `group_logs`: K; likewise.
//! `log_blocks`: of the whole drive, a sixteenth of its blocks
//! unless given. `striping`: `pages` or `blocks`.
//!
//! # What it leaves out
//! Choosing N and K while running; the map block on flash: the tables are found again from the
//! spare areas. After a power failure a log block with a prefix in order is closed by a partial
//! merge. A data block whose pages were all discarded is kept as long as its group has log blocks.
//!
//! # Validated against
//! BAST, count by count (N = K = 1); the closed form of FAST (one group); exact costs; the NAND
//! oracle with power cuts.
//!
//! # References
//! Park, Cheon, Kang, Noh, Cho, Kim, ACM TECS 7(4), art. 38, 2008.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::snapshot_fields;

use super::log_block::{Budget, Hybrid, Job, Logs, MERGES, Store, StoredLog, Striping, Update};
use super::{Built, Context, bits};
use crate::ftl::flash::Flash;
use crate::ssd::plan::NONE;

#[cfg(test)]
mod tests;

/// Parameters of the reconfigurable FTL.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// N: logical blocks that share log blocks, from 1; at most all of a plane do.
    pub group_blocks: u32,
    /// K: most log blocks of a group, from 1; at most all of a plane.
    pub group_logs: u32,
    /// Log blocks of the whole drive; a sixteenth of its blocks unless given. They are dealt
    /// evenly to the planes.
    pub log_blocks: Option<u32>,
    /// What is striped over the planes.
    pub striping: Striping,
}

impl Default for Params {
    fn default() -> Params {
        let striping = Striping::default();
        Params { group_blocks: 8, group_logs: 4, log_blocks: None, striping }
    }
}

impl Params {
    /// What the schemes with log blocks count.
    pub const COUNTED: sim::metric::Declarations = &[&MERGES];

    /// Build the mapping.
    ///
    /// # Errors
    /// When the log blocks do not fit beside the data blocks, or N or K is out of range.
    pub fn build(&self, context: &Context) -> Built {
        let planes = context.geometry.planes();
        let store = Store::new(context, self.striping, false);
        let budget = Budget::new(context, &store.layout);
        let logs = budget.log_blocks(self.log_blocks, planes, false)? / planes;
        let data = store.layout.blocks.div_ceil(planes);
        for (key, value) in [("group_blocks", self.group_blocks), ("group_logs", self.group_logs)] {
            if value == 0 {
                return Err(ConfigError::new(key, "expected at least 1, got 0"));
            }
        }
        let group_blocks = self.group_blocks.min(data);
        let groups = (data.div_ceil(group_blocks) * planes) as usize;
        let reconfigurable = Reconfigurable {
            planes,
            group_blocks,
            group_logs: self.group_logs.min(logs),
            logs,
            groups: vec![Vec::new(); groups],
            used_at: vec![0; groups],
            clock: 0,
            pools: vec![PlaneLogs::default(); planes as usize],
        };
        Ok(Hybrid::boxed(store, reconfigurable))
    }
}

/// What is known of a plane.
#[derive(Clone, Debug)]
struct PlaneLogs {
    /// Groups with log blocks.
    owners: Vec<u32>,
    /// Log blocks in use.
    count: u32,
    /// The group that needs a log block emptied, or [`NONE`] for the least recently written.
    wish: Option<u32>,
    /// The log block that is being emptied, or [`NONE`]: it takes no more pages.
    victim: u32,
}

snapshot_fields!(PlaneLogs { owners, count, wish, victim });

impl Default for PlaneLogs {
    fn default() -> PlaneLogs {
        PlaneLogs { owners: Vec::new(), count: 0, wish: None, victim: NONE }
    }
}

#[derive(Clone)]
struct Reconfigurable {
    planes: u32,
    /// N, K, and the log blocks of a plane.
    group_blocks: u32,
    group_logs: u32,
    logs: u32,
    /// Log blocks of each group, oldest first; only the last can have room.
    groups: Vec<Vec<u32>>,
    /// When each group was last written, in log pages.
    used_at: Vec<u64>,
    clock: u64,
    pools: Vec<PlaneLogs>,
}

snapshot_fields!(Reconfigurable { groups, used_at, clock, pools });

impl Reconfigurable {
    /// The group of a logical block: the planes take turns, as logical blocks do.
    fn group(&self, lbn: u32) -> u32 {
        let (row, turn) = (lbn / self.planes, lbn % self.planes);
        row / self.group_blocks * self.planes + turn
    }

    fn link(&mut self, plane: u32, group: u32, block: u32) {
        let pool = &mut self.pools[plane as usize];
        let logs = &mut self.groups[group as usize];
        if logs.is_empty() {
            pool.owners.push(group);
        }
        logs.push(block);
        pool.count += 1;
    }

    /// The group loses its log blocks that `goes` names.
    fn unlink(&mut self, plane: u32, group: u32, mut goes: impl FnMut(u32) -> bool) {
        let pool = &mut self.pools[plane as usize];
        let logs = &mut self.groups[group as usize];
        let before = logs.len() as u32;
        logs.retain(|&block| !goes(block));
        pool.count -= before - logs.len() as u32;
        if logs.is_empty() {
            pool.owners.retain(|&owner| owner != group);
        }
    }

    fn write(&mut self, flash: &mut Flash, group: u32, log: u32, lpn: u32) -> u32 {
        self.clock += 1;
        self.used_at[group as usize] = self.clock;
        let page = u32::from(flash.block(log).written);
        flash.allocate_at(log, page, lpn)
    }

    /// The only logical block of a log block whose first page is at its own offset, or [`NONE`].
    fn owner_in_order(&self, store: &Store, flash: &mut Flash, log: u32) -> u32 {
        let (lbn, _) = store.layout.split(flash.spare(store.geometry.first_ppn(log)));
        if store.is_clean_prefix(flash, lbn, log) { lbn } else { NONE }
    }
}

impl Logs for Reconfigurable {
    fn append(&mut self, store: &mut Store, flash: &mut Flash, update: Update) -> Option<u32> {
        let plane = store.layout.plane(update.lbn);
        let group = self.group(update.lbn);
        let victim = self.pools[plane as usize].victim;
        if let Some(&log) = self.groups[group as usize].last() {
            if flash.room_in(log) > 0 && log != victim {
                return Some(self.write(flash, group, log, update.lpn));
            }
            let owner = self.owner_in_order(store, flash, log);
            if owner != NONE && flash.room_in(log) == 0 {
                store.switch(flash, owner, log);
                self.unlink(plane, group, |block| block == log);
            }
        }
        let pool = &mut self.pools[plane as usize];
        if self.groups[group as usize].len() as u32 >= self.group_logs {
            pool.wish = Some(group);
            return None;
        }
        if pool.count >= self.logs {
            pool.wish = Some(NONE);
            return None;
        }
        // The tag is the logical block that could be switched to it.
        let log = store.take_log(flash, plane, update.lbn)?;
        self.link(plane, group, log);
        Some(self.write(flash, group, log, update.lpn))
    }

    fn wants(&self, pool: usize) -> bool {
        // A power failure can bring back a log block that was to be erased.
        self.pools[pool].wish.is_some() || self.pools[pool].count > self.logs
    }

    fn withdraw(&mut self, pool: usize) {
        self.pools[pool].wish = None;
    }

    fn holds(&self, _store: &Store, lbn: u32) -> bool {
        !self.groups[self.group(lbn) as usize].is_empty()
    }

    fn next_job(&mut self, store: &mut Store, flash: &mut Flash, pool: usize) -> Option<Job> {
        let plane = &mut self.pools[pool];
        let wish = plane.wish.take().unwrap_or(NONE);
        let crowd = plane.count.cmp(&self.logs);
        let group = if wish != NONE && crowd.is_le() {
            let logs = &self.groups[wish as usize];
            let full = logs.last().is_some_and(|&log| flash.room_in(log) == 0);
            (full && logs.len() as u32 >= self.group_logs).then_some(wish)?
        } else if crowd.is_ge() {
            let oldest = |&&group: &&u32| self.used_at[group as usize];
            *plane.owners.iter().min_by_key(oldest)?
        } else {
            return None;
        };
        let log = self.groups[group as usize][0];
        let mixed = store.mixed(flash, log);
        if let [lbn] = mixed[..] {
            return Some(Job { log, lbn });
        }
        self.pools[pool].victim = log;
        Some(Job { log, lbn: NONE })
    }

    fn merged(&mut self, store: &mut Store, flash: &mut Flash, lbn: u32) {
        let plane = store.layout.plane(lbn);
        let victim = self.pools[plane as usize].victim;
        self.unlink(plane, self.group(lbn), |block| {
            if store.home(lbn) == block {
                return true;
            }
            let empty = flash.valid(block) == 0 && block != victim;
            if empty {
                store.bury(flash, block);
            }
            empty
        });
    }

    fn emptied(&mut self, store: &Store, log: u32) {
        let plane = store.geometry.plane_of_block(log);
        let pool = &mut self.pools[plane as usize];
        pool.victim = NONE;
        let holder = pool.owners.iter().find(|&&group| self.groups[group as usize].contains(&log));
        let group = *holder.expect("the victim is in a group");
        self.unlink(plane, group, |block| block == log);
    }

    fn clear(&mut self) {
        self.groups.iter_mut().for_each(Vec::clear);
        self.used_at.fill(0);
        self.pools.fill(PlaneLogs::default());
    }

    fn found(&mut self, store: &mut Store, flash: &mut Flash, log: StoredLog) {
        let group = self.group(store.mixed(flash, log.block)[0]);
        self.clock += 1;
        self.used_at[group as usize] = self.clock;
        self.link(store.geometry.plane_of_block(log.block), group, log.block);
    }

    fn ram_bits(&self, store: &Store) -> u64 {
        let pages = store.geometry.pages_per_block.get();
        let page = u64::from(bits(pages * self.group_blocks));
        let log = u64::from(bits(store.geometry.blocks())) + u64::from(pages) * page;
        u64::from(self.logs) * self.pools.len() as u64 * log
    }
}

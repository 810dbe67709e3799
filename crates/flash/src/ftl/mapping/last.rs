//! LAST: log blocks for sequential writes, for hot pages and for cold pages.
//!
//! ```text
//!  RAM: block table             sequential log buffer:      random log buffer, any logical block:
//!       lbn -> data block       one of a logical block      hot partition     cold partition
//!       lbn -> log block        +--+--+--+--+               +--+--+--+--+     +--+--+--+--+
//!       log page tables         |16|17|18| .| of 4          | x| x|29|29|     |30|12|44|21|
//!       opening times           +--+--+--+--+               +--+--+--+--+     +--+--+--+--+
//!                               +--+--+--+--+               +--+--+--+--+     +--+--+--+--+
//!                               |40|41| .| .| of 10         | x| x| x| x|dead |53| .| .| .|open
//!                               +--+--+--+--+               +--+--+--+--+     +--+--+--+--+
//! ```
//!
//! # What it models
//! The write path:
//! 1. The page's place in its data block is free and not below one written: it goes there.
//! 2. A page of a long request goes to its logical block's log block in the sequential buffer,
//!    which works like BAST: switch and partial merges, least recently used out first.
//! 3. A page of a short request goes to the open log block of the hot partition if its former
//!    copy is in a random log block that was opened at most a window of log pages ago; else to
//!    that of the cold partition.
//! 4. When the random log blocks are used up, the write waits until one is emptied: a dead one
//!    (without valid pages: erased only), else the one with pages of the fewest logical blocks,
//!    each of which is merged in full. Hot log blocks younger than the window come last.
//! 5. A partition grows when it opens a log block and shrinks when one of its own is emptied.
//!
//! Each plane has buffers of its own and merges on its own.
//!
//! # Equation
//! A random victim with pages of A logical blocks costs A(bc + E) + E, a dead one E; sequential log
//! blocks cost E (switch), (b-k)c + E (partial) or bc + 2E (full). RAM = block table + S (log2
//! (blocks) + b log2 b) + R (log2(blocks) + b log2(pages) + 33) bits for S sequential and R random
//! log blocks: 32 bits of opening time and one for the partition.
//!
//! # Parameters
//! `log_blocks`: of the whole drive, a sixteenth of its blocks unless given. `sequential_blocks`:
//! those of a plane's that are the sequential buffer, a quarter unless given. `sequential_from`:
//! size of the shortest request that is sequential, more than a page, in whole pages; 8 KiB or two
//! pages unless given. `hot_window`: log pages of a plane, half of its random log unless given.
//! `striping`: `pages` or `blocks`.
//!
//! # What it leaves out
//! The border between sequential and random buffer does not move. Behind a write buffer every page
//! is a request of its own, so all of them are random. The map block on flash: the tables are
//! found again from the spare areas; all random log blocks found after a power failure count as
//! cold and full, and sequential ones in order are closed by partial merges. A data block whose
//! pages were all discarded is kept as long as its logical block has a sequential log block.
//!
//! # Validated against
//! Exact costs of each merge; fewer copies than FAST on hot and cold pages; the NAND oracle with
//! power cuts.
//!
//! # References
//! Lee, Shin, Kim, Kim, ACM SIGOPS Operating Systems Review 42(6), 2008.

use config::{ConfigError, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, snapshot_fields};

use super::log_block::{
    Associative, Budget, Hybrid, Job, Logs, MERGES, Store, StoredLog, Striping, Update, in_range,
};
use super::{Built, Context, bits};
use crate::ftl::flash::Flash;
use crate::ssd::plan::{NONE, Plan};

#[cfg(test)]
mod tests;

/// Size of the shortest sequential request unless given, where that is more than a page.
const SEQUENTIAL_FROM: Bytes = Bytes(8 << 10);

/// Parameters of LAST.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Log blocks of the whole drive; a sixteenth of its blocks unless given. They are dealt
    /// evenly to the planes.
    pub log_blocks: Option<u32>,
    /// Log blocks of a plane that are the sequential buffer, from 1; a quarter unless given.
    pub sequential_blocks: Option<u32>,
    /// Size of the shortest request whose pages go to the sequential buffer, more than a page;
    /// the larger of 8 KiB and two pages unless given.
    pub sequential_from: Option<Size>,
    /// Pages written to a plane's random log within which a page must be updated to be hot; half
    /// of what the random log holds unless given.
    pub hot_window: Option<u32>,
    /// What is striped over the planes.
    pub striping: Striping,
}

impl Params {
    /// What the schemes with log blocks count.
    pub const COUNTED: sim::metric::Declarations = &[&MERGES];

    /// Build the mapping.
    ///
    /// # Errors
    /// When the log blocks do not fit beside the data blocks or leave fewer than two random ones
    /// on a plane, and when every request would be sequential.
    pub fn build(&self, context: &Context) -> Built {
        let planes = context.geometry.planes();
        let store = Store::new(context, self.striping, false);
        let budget = Budget::new(context, &store.layout);
        let logs = budget.log_blocks(self.log_blocks, 3 * planes, false)? / planes;
        let in_order = self.sequential_blocks.unwrap_or((logs / 4).max(1));
        let most = "the log blocks of a plane less two";
        in_range("sequential_blocks", in_order, logs - 2, most)?;
        let random = logs - in_order;
        let pages = context.geometry.pages_per_block.get();
        let last = Last {
            sequential: Associative::new(context, &store, in_order),
            sequential_from: self.sequential_pages(context)?,
            window: u64::from(self.hot_window.unwrap_or(random * pages / 2)),
            random,
            opened_at: vec![NEVER; context.geometry.blocks() as usize],
            pools: vec![RandomLogs::default(); planes as usize],
            seen: vec![0; store.layout.blocks as usize],
            look: 0,
        };
        Ok(Hybrid::boxed(store, last))
    }

    /// Pages of the shortest sequential request.
    fn sequential_pages(&self, context: &Context) -> Result<u64, ConfigError> {
        let page = context.geometry.page_bytes();
        let Some(Size(from)) = self.sequential_from else {
            return Ok(SEQUENTIAL_FROM.0.div_ceil(page).max(2));
        };
        if from.0 <= page {
            let message = format!(
                "expected more than a page ({}), got {from}: every request would be sequential",
                Bytes(page)
            );
            return Err(ConfigError::new("sequential_from", message));
        }
        Ok(from.0.div_ceil(page))
    }
}

/// Opening time of a block that is no random log block.
const NEVER: u64 = u64::MAX;

/// A random log block.
#[derive(Clone, Copy, Default, Debug)]
struct Random {
    block: u32,
    /// It belongs to the hot partition.
    hot: bool,
}

snapshot_fields!(Random { block, hot });

/// The random log buffer of a plane.
#[derive(Clone, Debug)]
struct RandomLogs {
    /// Log blocks of both partitions, oldest first.
    logs: Vec<Random>,
    /// The log block that takes cold pages and the one that takes hot pages, or [`NONE`].
    open: [u32; 2],
    /// Log pages written.
    clock: u64,
    /// A log block must be emptied.
    crowded: bool,
}

snapshot_fields!(RandomLogs { logs, open, clock, crowded });

impl Default for RandomLogs {
    fn default() -> RandomLogs {
        RandomLogs { logs: Vec::new(), open: [NONE; 2], clock: 0, crowded: false }
    }
}

#[derive(Clone)]
struct Last {
    sequential: Associative<true>,
    /// Pages of the shortest sequential request.
    sequential_from: u64,
    window: u64,
    /// Random log blocks of a plane.
    random: u32,
    /// The clock of its plane when each block became a random log block, or [`NEVER`].
    opened_at: Vec<u64>,
    pools: Vec<RandomLogs>,
    /// Scratch: when each logical block was last counted, and the number of the present count.
    seen: Vec<u64>,
    look: u64,
}

snapshot_fields!(Last { sequential, opened_at, pools });

impl Last {
    /// True when the former copy of a page came to a random log block not long ago.
    fn is_hot(&self, store: &mut Store, pool: usize, lpn: u32) -> bool {
        let former = store.place(lpn);
        if former == NONE {
            return false;
        }
        let opened_at = self.opened_at[store.geometry.block_page(former).0 as usize];
        opened_at != NEVER && self.pools[pool].clock - opened_at <= self.window
    }

    fn append_random(
        &mut self,
        store: &mut Store,
        flash: &mut Flash,
        update: Update,
    ) -> Option<u32> {
        let plane = store.layout.plane(update.lbn);
        let partition = usize::from(self.is_hot(store, plane as usize, update.lpn));
        let pool = &mut self.pools[plane as usize];
        let mut block = pool.open[partition];
        if block == NONE || flash.room_in(block) == 0 {
            if pool.logs.len() as u32 >= self.random {
                pool.crowded = true;
                return None;
            }
            block = store.take_log(flash, plane, NONE)?;
            pool.logs.push(Random { block, hot: partition == 1 });
            pool.open[partition] = block;
            self.opened_at[block as usize] = pool.clock;
        }
        pool.clock += 1;
        let page = u32::from(flash.block(block).written);
        Some(flash.allocate_at(block, page, update.lpn))
    }

    /// Logical blocks that have valid pages in a log block, or `enough` if there are as many.
    fn mixed(&mut self, store: &Store, flash: &mut Flash, log: u32, enough: u32) -> u32 {
        self.look += 1;
        let first = store.geometry.first_ppn(log);
        let (mut left, mut found) = (flash.valid(log), 0);
        for ppn in first..first + u32::from(flash.block(log).written) {
            if left == 0 || found >= enough {
                break;
            }
            if flash.is_valid(ppn) {
                left -= 1;
                let (lbn, _) = store.layout.split(flash.spare(ppn));
                let seen = std::mem::replace(&mut self.seen[lbn as usize], self.look);
                found += u32::from(seen != self.look);
            }
        }
        found
    }

    /// The random log block to empty next: the one with pages of the fewest logical blocks, the
    /// oldest of several. One whose pages are hot and may still die goes last.
    fn cheapest(&mut self, store: &Store, flash: &mut Flash, pool: usize) -> Option<u32> {
        let (mut least, mut cheapest) = ((true, u32::MAX), None);
        for index in 0..self.pools[pool].logs.len() {
            let RandomLogs { logs, open, clock, .. } = &self.pools[pool];
            let Random { block, hot } = logs[index];
            if open.contains(&block) && flash.room_in(block) > 0 {
                continue;
            }
            let young = clock - self.opened_at[block as usize] <= self.window;
            let dying = hot && young && flash.valid(block) > 0;
            if dying && !least.0 {
                continue;
            }
            let enough = if dying == least.0 { least.1 } else { u32::MAX };
            let cost = (dying, self.mixed(store, flash, block, enough));
            if cost < least {
                (least, cheapest) = (cost, Some(block));
            }
        }
        cheapest
    }
}

impl Logs for Last {
    fn append(&mut self, store: &mut Store, flash: &mut Flash, update: Update) -> Option<u32> {
        if u64::from(update.of) >= self.sequential_from {
            self.sequential.append(store, flash, update)
        } else {
            self.append_random(store, flash, update)
        }
    }

    fn wants(&self, pool: usize) -> bool {
        let RandomLogs { crowded, ref logs, .. } = self.pools[pool];
        // A power failure can bring back a log block that was to be erased.
        self.sequential.wants(pool) || crowded || logs.len() as u32 > self.random
    }

    fn withdraw(&mut self, pool: usize) {
        self.sequential.withdraw(pool);
        self.pools[pool].crowded = false;
    }

    fn holds(&self, store: &Store, lbn: u32) -> bool {
        self.sequential.holds(store, lbn)
    }

    fn next_job(&mut self, store: &mut Store, flash: &mut Flash, pool: usize) -> Option<Job> {
        if self.sequential.wants(pool)
            && let Some(job) = self.sequential.next_job(store, flash, pool)
        {
            return Some(job);
        }
        let crowd = (self.pools[pool].logs.len() as u32).cmp(&self.random);
        let wanted = std::mem::take(&mut self.pools[pool].crowded) && crowd.is_eq();
        let log = (wanted || crowd.is_gt()).then(|| self.cheapest(store, flash, pool))?;
        log.map(|log| Job { log, lbn: NONE })
    }

    fn merged(&mut self, store: &mut Store, flash: &mut Flash, lbn: u32) {
        self.sequential.merged(store, flash, lbn);
    }

    fn emptied(&mut self, store: &Store, log: u32) {
        let pool = &mut self.pools[store.geometry.plane_of_block(log) as usize];
        pool.logs.retain(|random| random.block != log);
        pool.open.iter_mut().filter(|open| **open == log).for_each(|open| *open = NONE);
        self.opened_at[log as usize] = NEVER;
    }

    fn clear(&mut self) {
        self.sequential.clear();
        self.opened_at.fill(NEVER);
        self.pools.fill(RandomLogs::default());
    }

    fn found(&mut self, store: &mut Store, flash: &mut Flash, log: StoredLog) {
        if log.lbn != NONE {
            self.sequential.found(store, flash, log);
            return;
        }
        let pool = &mut self.pools[store.geometry.plane_of_block(log.block) as usize];
        pool.logs.push(Random { block: log.block, hot: false });
        self.opened_at[log.block as usize] = pool.clock;
        pool.clock += u64::from(flash.block(log.block).written);
    }

    fn probe(&self, store: &Store, flash: &mut Flash, lbn: u32, ppn: u32, plan: &mut Plan) {
        self.sequential.probe(store, flash, lbn, ppn, plan);
    }

    fn ram_bits(&self, store: &Store) -> u64 {
        let geometry = &store.geometry;
        let pages = u64::from(geometry.pages_per_block.get()) * u64::from(bits(geometry.pages()));
        let log = u64::from(bits(geometry.blocks())) + pages + 33;
        let random = u64::from(self.random) * self.pools.len() as u64;
        self.sequential.ram_bits(store) + random * log
    }
}

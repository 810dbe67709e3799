//! Block-associative log blocks: each belongs to one logical block, which has at most one.

use super::hybrid::{Logs, Update};
use super::recovery::StoredLog;
use super::store::{Job, Store};
use crate::ftl::flash::Flash;
use crate::ftl::mapping::{Context, bits};
use crate::ssd::plan::{Cause, FlashOp, NONE, Plan};

/// Log blocks filled in order of arrival. With `SWITCHES` those written in order become data
/// blocks (BAST); without, every merge is a full one and there is no page table of the log block,
/// so reads look through its spare areas (NFTL-1).
#[derive(Clone)]
pub(crate) struct Associative<const SWITCHES: bool> {
    /// The log block of each logical block.
    log_of: Vec<u32>,
    /// When it was last written, in log pages.
    used_at: Vec<u64>,
    clock: u64,
    /// Logical blocks with a log block, per pool (a plane).
    owners: Vec<Vec<u32>>,
    /// The logical block whose log block is full, or [`NONE`] for the least recently used.
    wish: Vec<Option<u32>>,
    /// Log blocks of a pool.
    limit: u32,
}

impl<const SWITCHES: bool> Associative<SWITCHES> {
    /// At most `limit` log blocks in each plane.
    pub(crate) fn new(context: &Context, store: &Store, limit: u32) -> Self {
        let blocks = store.layout.blocks as usize;
        let planes = context.geometry.planes() as usize;
        Associative {
            log_of: vec![NONE; blocks],
            used_at: vec![0; blocks],
            clock: 0,
            owners: vec![Vec::new(); planes],
            wish: vec![None; planes],
            limit,
        }
    }

    fn release(&mut self, pool: usize, lbn: u32) {
        self.log_of[lbn as usize] = NONE;
        self.owners[pool].retain(|&owner| owner != lbn);
    }

    fn write(&mut self, flash: &mut Flash, log: u32, update: Update) -> u32 {
        self.clock += 1;
        self.used_at[update.lbn as usize] = self.clock;
        let page = u32::from(flash.block(log).written);
        flash.allocate_at(log, page, update.lpn)
    }
}

impl<const SWITCHES: bool> sim::Snapshot for Associative<SWITCHES> {
    fn save(&self, to: &mut sim::Saver) {
        self.log_of.save(to);
        self.used_at.save(to);
        self.clock.save(to);
        self.owners.save(to);
        self.wish.save(to);
    }
    fn restore(&mut self, from: &mut sim::Loader) -> Result<(), sim::SnapshotError> {
        self.log_of.restore(from)?;
        self.used_at.restore(from)?;
        self.clock.restore(from)?;
        self.owners.restore(from)?;
        self.wish.restore(from)
    }
}

impl<const SWITCHES: bool> Logs for Associative<SWITCHES> {
    const SWITCHES: bool = SWITCHES;

    fn append(&mut self, store: &mut Store, flash: &mut Flash, update: Update) -> Option<u32> {
        let lbn = update.lbn;
        let plane = store.layout.plane(lbn);
        let pool = plane as usize;
        let log = self.log_of[lbn as usize];
        if log != NONE {
            if flash.room_in(log) > 0 {
                return Some(self.write(flash, log, update));
            }
            if !SWITCHES || !store.is_switchable(flash, lbn, log) {
                self.wish[pool] = Some(lbn);
                return None;
            }
            store.switch(flash, lbn, log);
            self.release(pool, lbn);
        }
        let full = self.owners[pool].len() as u32 >= self.limit;
        if full {
            self.wish[pool] = Some(NONE);
            return None;
        }
        let log = store.take_log(flash, plane, lbn)?;
        self.log_of[lbn as usize] = log;
        self.owners[pool].push(lbn);
        Some(self.write(flash, log, update))
    }

    fn wants(&self, pool: usize) -> bool {
        // A power failure can bring back a log block that was to be erased.
        self.wish[pool].is_some() || self.owners[pool].len() as u32 > self.limit
    }

    fn withdraw(&mut self, pool: usize) {
        self.wish[pool] = None;
    }

    fn holds(&self, _store: &Store, lbn: u32) -> bool {
        self.log_of[lbn as usize] != NONE
    }

    fn next_job(&mut self, _store: &mut Store, flash: &mut Flash, pool: usize) -> Option<Job> {
        let wish = self.wish[pool].take().unwrap_or(NONE);
        let crowd = (self.owners[pool].len() as u32).cmp(&self.limit);
        let lbn = if wish != NONE && crowd.is_le() {
            let log = self.log_of[wish as usize];
            let full = log != NONE && flash.room_in(log) == 0;
            full.then_some(wish)
        } else if crowd.is_ge() {
            let oldest = |&&lbn: &&u32| self.used_at[lbn as usize];
            self.owners[pool].iter().min_by_key(oldest).copied()
        } else {
            None
        };
        lbn.map(|lbn| Job { log: self.log_of[lbn as usize], lbn })
    }

    fn merged(&mut self, store: &mut Store, flash: &mut Flash, lbn: u32) {
        let log = self.log_of[lbn as usize];
        if log != NONE {
            self.release(store.layout.plane(lbn) as usize, lbn);
            if store.home(lbn) != log {
                store.bury(flash, log);
            }
        }
    }

    fn emptied(&mut self, _store: &Store, log: u32) {
        unreachable!("log block {log} belongs to one logical block");
    }

    fn clear(&mut self) {
        self.log_of.fill(NONE);
        self.used_at.fill(0);
        self.owners.iter_mut().for_each(Vec::clear);
        self.wish.fill(None);
    }

    fn found(&mut self, store: &mut Store, flash: &mut Flash, log: StoredLog) {
        let StoredLog { block, lbn } = log;
        let older = self.log_of[lbn as usize];
        if older != NONE {
            self.release(store.layout.plane(lbn) as usize, lbn);
            store.give_up(flash, older);
        }
        self.clock += 1;
        self.used_at[lbn as usize] = self.clock;
        self.log_of[lbn as usize] = block;
        self.owners[store.layout.plane(lbn) as usize].push(lbn);
    }

    fn probe(&self, store: &Store, flash: &mut Flash, lbn: u32, ppn: u32, plan: &mut Plan) {
        let log = self.log_of[lbn as usize];
        if SWITCHES || log == NONE {
            return;
        }
        // Newest first, down to the page itself or, when it is at home, to the end.
        let first = store.geometry.first_ppn(log);
        let written = u32::from(flash.block(log).written);
        let least = if ppn >= first && ppn < first + written { ppn - first } else { 0 };
        for page in (least..written).rev() {
            let id = flash.spare(first + page);
            plan.push(FlashOp::read(Cause::Map, first + page, id, 0));
        }
    }

    fn ram_bits(&self, store: &Store) -> u64 {
        let entry = u64::from(bits(store.geometry.blocks()));
        if !SWITCHES {
            // A second block number for each logical block.
            return u64::from(store.layout.blocks) * entry;
        }
        let pages = store.geometry.pages_per_block.get();
        let logs = u64::from(self.limit) * self.owners.len() as u64;
        logs * (entry + u64::from(pages) * u64::from(bits(pages)))
    }
}

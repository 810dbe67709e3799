//! A mapping made of data blocks and somebody's log blocks.

use sim::{Bytes, Counters, Snapshot};

use super::recovery::StoredLog;
use super::store::{Job, Store};
use crate::ftl::flash::Flash;
use crate::ftl::mapping::{CleaningStep, Full, HostPage, Mapping, Needs};
use crate::ssd::plan::{NONE, OpCounts, Plan, Rebuilt};

/// A page that its home cannot take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update {
    pub(crate) lpn: u32,
    pub(crate) lbn: u32,
    /// Offset in the logical block.
    pub(crate) offset: u32,
    /// Pages of the host's request.
    pub(crate) of: u32,
}

/// The log blocks of a scheme.
pub(crate) trait Logs: Snapshot + Clone + Send + 'static {
    /// A log block that holds its logical block in order can become the data block.
    const SWITCHES: bool = true;
    /// There are no log blocks: a page that its home cannot take has the whole block rewritten.
    const REWRITES: bool = false;

    /// Several logical blocks of a log block are merged at once, each on another plane.
    fn merges_in_parallel(&self) -> bool {
        false
    }

    /// Hand out a page of a log block. `None`: there is no room; what must be merged first is
    /// remembered.
    fn append(&mut self, store: &mut Store, flash: &mut Flash, update: Update) -> Option<u32>;

    /// True when an update waits for a merge in that pool.
    fn wants(&self, pool: usize) -> bool;

    /// Forget that an update waits for a merge: it will be tried again after an erase that is on
    /// its way, and may find room then.
    fn withdraw(&mut self, pool: usize);

    /// True when a log block is, or was taken for, a logical block alone, or is bound to it.
    fn holds(&self, store: &Store, lbn: u32) -> bool;

    /// The log block to empty next, if any must be.
    fn next_job(&mut self, store: &mut Store, flash: &mut Flash, pool: usize) -> Option<Job>;

    /// The valid pages of `lbn` are all in its data block, which may be one of its log blocks.
    /// Log blocks of this logical block alone must be given up.
    fn merged(&mut self, store: &mut Store, flash: &mut Flash, lbn: u32);

    /// A log block of mixed pages holds nothing valid any more and is going to be erased.
    fn emptied(&mut self, store: &Store, log: u32);

    /// Power is back: forget every log block.
    fn clear(&mut self);

    /// Power is back: a log block with valid pages was found; older ones come first.
    fn found(&mut self, store: &mut Store, flash: &mut Flash, log: StoredLog);

    /// Plan what it takes to find the page at `ppn`, besides reading it.
    fn probe(&self, store: &Store, flash: &mut Flash, lbn: u32, ppn: u32, plan: &mut Plan) {
        let _ = (store, flash, lbn, ppn, plan);
    }

    /// Bits of RAM besides the table of data blocks.
    fn ram_bits(&self, store: &Store) -> u64;
}

/// The mapping.
#[derive(Clone)]
pub(crate) struct Hybrid<L> {
    pub(crate) store: Store,
    pub(crate) logs: L,
}

impl<L: Logs> Hybrid<L> {
    pub(crate) fn boxed(store: Store, logs: L) -> Box<dyn Mapping> {
        Box::new(Hybrid { store, logs })
    }

    /// A page for a write; `None` when there is no room.
    #[inline]
    fn page_for(&mut self, flash: &mut Flash, update: Update, held_data: bool) -> Option<u32> {
        let Update { lpn, lbn, offset, .. } = update;
        if let Some(page) = self.store.home_page(flash, lbn, offset, lpn) {
            self.store.tally.write_data += u64::from(page.is_some());
            return page;
        }
        let page = self.logs.append(&mut self.store, flash, update)?;
        self.store.tally.update(held_data);
        Some(page)
    }

    /// Do the next part of a job; `None` when it is done without an operation.
    fn work(&mut self, flash: &mut Flash, pool: usize, plan: &mut Plan) -> Option<CleaningStep> {
        let job = self.store.work[pool].job?;
        if job.lbn != NONE {
            self.store.work[pool].job = None;
            let copied = self.store.close(flash, job, L::SWITCHES);
            self.logs.merged(&mut self.store, flash, job.lbn);
            self.store.plan_moves(flash, plan);
            return copied.then_some(CleaningStep::Planned);
        }
        let logs = &mut self.logs;
        let parallel = logs.merges_in_parallel();
        let more = self.store.drain(flash, job.log, parallel, |store, flash, lbn| {
            logs.merged(store, flash, lbn);
            store.work[pool].merged += 1;
        });
        if more {
            self.store.plan_moves(flash, plan);
            return Some(CleaningStep::Planned);
        }
        self.store.work[pool].job = None;
        let merged = std::mem::take(&mut self.store.work[pool].merged);
        self.store.tally.emptied(merged);
        self.logs.emptied(&self.store, job.log);
        self.store.bury(flash, job.log);
        None
    }
}

impl<L: Logs> Snapshot for Hybrid<L> {
    fn save(&self, to: &mut sim::Saver) {
        self.store.save(to);
        self.logs.save(to);
    }
    fn restore(&mut self, from: &mut sim::Loader) -> Result<(), sim::SnapshotError> {
        self.store.restore(from)?;
        self.logs.restore(from)
    }
}

impl<L: Logs> Mapping for Hybrid<L> {
    #[inline]
    fn lookup(&mut self, _flash: &mut Flash, lpn: u32) -> u32 {
        self.store.place(lpn)
    }

    fn read(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) {
        let ppn = self.store.place(page.lpn);
        if ppn != NONE {
            let (lbn, _) = self.store.layout.split(page.lpn);
            self.logs.probe(&self.store, flash, lbn, ppn, plan);
            page.plan_read(ppn, plan);
        }
    }

    fn write(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) -> Result<(), Full> {
        let lpn = page.lpn;
        let (lbn, offset) = self.store.layout.split(lpn);
        let plane = self.store.layout.plane(lbn);
        let pool = self.store.pool(plane);
        let full = Full((!self.store.global).then_some(plane));
        // What a power failure interrupted is brought to an end first: its target must not be
        // written beyond what is still to be copied.
        if !self.store.work[pool].unfinished.is_empty() {
            return Err(full);
        }
        let dead = self.store.work[pool].dead.len();
        let old = self.store.place(lpn);
        if L::REWRITES && !self.store.home_takes(flash, lbn, offset) {
            let planned = self.store.rewrite(flash, page, lbn, plan);
            plan.collect.push(plane);
            return if planned { Ok(()) } else { Err(full) };
        }
        // Where the rest of a page is, is found before the log block takes the new one.
        let mut looks = Plan::default();
        if !page.whole && old != NONE {
            self.logs.probe(&self.store, flash, lbn, old, &mut looks);
        }
        let update = Update { lpn, lbn, offset, of: page.of };
        let Some(ppn) = self.page_for(flash, update, old != NONE) else {
            if self.store.is_freeing(flash, pool) {
                self.logs.withdraw(pool);
            }
            return Err(full);
        };
        if !looks.ops.is_empty() {
            looks.ops.into_iter().for_each(|look| plan.push(look));
            plan.then();
        }
        page.plan_program(old, ppn, flash, plan);
        self.store.place.set(lpn as usize, ppn);
        if self.store.work[pool].dead.len() > dead {
            plan.collect.push(plane);
        }
        Ok(())
    }

    fn discard(&mut self, flash: &mut Flash, lpn: u32, plan: &mut Plan) -> Result<(), Full> {
        let old = self.store.place(lpn);
        if old == NONE {
            return Ok(());
        }
        flash.invalidate(old);
        self.store.place.set(lpn as usize, NONE);
        let (lbn, _) = self.store.layout.split(lpn);
        if self.store.is_forgotten(flash, lbn) && !self.logs.holds(&self.store, lbn) {
            self.store.move_home(flash, lbn, NONE);
            plan.collect.push(self.store.layout.plane(lbn));
        }
        Ok(())
    }

    fn relocated(&mut self, _flash: &mut Flash, id: u32, _from: u32, _to: u32) {
        unreachable!("the collector moves no page {id} of a block that is not its own");
    }

    fn rebuild(&mut self, flash: &mut Flash) -> Rebuilt {
        self.logs.clear();
        let (found, rebuilt) = self.store.rebuild(flash, L::SWITCHES);
        for log in found {
            self.logs.found(&mut self.store, flash, log);
        }
        rebuilt
    }

    fn needs(&self) -> Needs {
        Needs { pools: self.store.pools(), ..Needs::default() }
    }

    fn wants_cleaning(&self, _flash: &Flash, pool: u32) -> bool {
        let work = &self.store.work[pool as usize];
        let unfinished = !work.unfinished.is_empty() || work.job.is_some();
        unfinished || work.dead.len() > 0 || self.logs.wants(pool as usize)
    }

    fn clean(&mut self, flash: &mut Flash, pool: u32, plan: &mut Plan) -> CleaningStep {
        let pool = pool as usize;
        loop {
            // Erases first: they bring back the free block that the next merge needs.
            if let Some(step) = self.store.work[pool].dead.erase(&self.store.geometry, flash, plan)
            {
                return step;
            }
            if self.store.resume(flash, pool) {
                self.store.plan_moves(flash, plan);
                if !plan.ops.is_empty() {
                    return CleaningStep::Planned;
                }
                continue;
            }
            if self.store.work[pool].job.is_none() {
                let job = self.logs.next_job(&mut self.store, flash, pool);
                if job.is_none() && self.store.work[pool].dead.len() == 0 {
                    return CleaningStep::Idle;
                }
                self.store.work[pool].job = job;
            }
            if let Some(step) = self.work(flash, pool, plan) {
                return step;
            }
        }
    }

    fn ram(&self) -> Bytes {
        Bytes((self.store.home_bits() + self.logs.ram_bits(&self.store)).div_ceil(8))
    }

    fn counters(&self, _planned: &OpCounts, out: &mut Counters) {
        self.store.tally.counters(out);
    }

    fn freeze(&mut self) {
        self.store.place.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Mapping> {
        Box::new(self.clone())
    }
}

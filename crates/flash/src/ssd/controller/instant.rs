//! What takes no time: preconditioning, the write-amplification-only mode, power failure.

use sim::SECTOR_BYTES;

use super::*;
use crate::ftl::mapping::{CleaningStep, MapStats};

/// So many requests are between fetching a page's entry and what it points to.
const NAMED: usize = 16;

impl Controller {
    /// Take the effect of a request in no time.
    pub fn apply(&mut self, request: &Request) {
        assert!(self.nand.is_empty(), "preconditioning needs an idle drive");
        let ((first, begun), (last, rest)) =
            (self.locate(request.lba.0), self.locate(request.end().0));
        let end = last + u32::from(rest > 0);
        if request.op == Op::Write {
            self.sectors_written += u64::from(request.sectors);
        }
        match request.op {
            Op::Read | Op::Flush => {}
            Op::Discard => {
                // Only whole pages can be forgotten.
                for lpn in first + u32::from(begun > 0)..last {
                    self.discard_now(lpn);
                }
            }
            Op::Write if first == 0 && self.oracle.0.is_none() => {
                self.plan.clear();
                if self.mapping.fill(&mut self.flash, end, &mut self.plan) {
                    self.pages_written += u64::from(end);
                    (0..self.geometry.planes()).for_each(|plane| self.collect_now(plane));
                } else {
                    self.write_all_now(0..end, request.stream);
                }
            }
            Op::Write => {
                self.write_all_now(first..end, request.stream);
            }
        }
    }

    /// A request comes soon: fetch what it will touch. Where the page is now says the next place to
    /// look, so that is asked of one that was named some requests ago, whose entry is there by now.
    pub fn prefetch(&mut self, request: &Request) {
        let (lpn, _) = self.locate(request.lba.0);
        self.mapping.prefetch(lpn);
        self.named.push_back(lpn);
        if self.named.len() > NAMED {
            let earlier = self.named.pop_front().expect("there are some");
            self.mapping.prefetch_page(&self.flash, earlier);
        }
    }

    /// Write the pages of a request, all of each.
    fn write_all_now(&mut self, pages: std::ops::Range<u32>, stream: u16) {
        let first =
            HostPage::whole(pages.start, self.geometry.page_sectors, stream, pages.len() as u32);
        for (index, lpn) in pages.enumerate() {
            self.write_now(HostPage { lpn, index: index as u32, ..first });
        }
    }

    /// Write a page and collect as much as its plane then needs, in no time.
    #[inline]
    pub(super) fn write_now(&mut self, page: HostPage) {
        self.pages_written += 1;
        while !self.done_now(|c| c.mapping.write(&mut c.flash, page, &mut c.plan)) {}
    }

    /// Execute what `plan` plans in no time. When that was not all there is to do, collect for it
    /// and return false.
    #[inline]
    fn done_now(&mut self, plan: impl FnOnce(&mut Self) -> Result<(), Full>) -> bool {
        self.plan.clear();
        let planned = plan(self);
        self.run_now();
        self.collect_planned_now();
        let Err(Full(plane)) = planned else { return true };
        let planes = plane.map_or(0..self.geometry.planes(), |p| p..p + 1);
        planes.for_each(|plane| self.collect_now(plane));
        false
    }

    /// Read a page in no time: what it costs is the mapping's traffic.
    pub(super) fn read_now(&mut self, page: HostPage) {
        self.plan_read(page);
        self.run_now();
        self.collect_planned_now();
    }

    /// Forget a page in no time.
    pub(super) fn discard_now(&mut self, lpn: u32) {
        while !self.done_now(|controller| controller.plan_discard(lpn)) {}
    }

    /// Collect the planes that gave up a free block in the present plan.
    #[inline]
    fn collect_planned_now(&mut self) {
        if self.plan.collect.is_empty() {
            return;
        }
        let mut planes = std::mem::take(&mut self.plan.collect);
        let mut next = 0;
        while let Some(&plane) = planes.get(next) {
            self.collect_now(plane);
            // Map pages may have taken a free block of another plane.
            planes.append(&mut self.plan.collect);
            next += 1;
        }
        planes.clear();
        self.plan.collect = planes;
    }

    /// Collect a plane's pool until it has enough free blocks. `plan.collect` is then the planes
    /// that gave up a block for that.
    #[cold]
    fn collect_now(&mut self, plane: u32) {
        let pool = self.collector.pool_of(plane);
        self.plan.clear();
        if !self.collector.check(pool, &self.flash, &*self.mapping) {
            return;
        }
        let mut taken = Vec::new();
        loop {
            taken.append(&mut self.plan.collect);
            self.plan.clear();
            let (flash, mapping) = (&mut self.flash, &mut *self.mapping);
            // Nothing can come between the pages of a victim here: one step for all of them.
            match self.collector.step(pool, u32::MAX, flash, mapping, &mut self.plan) {
                CleaningStep::Planned => self.run_now(),
                CleaningStep::Blocked => unreachable!("no program is in flight outside time"),
                CleaningStep::Idle => break,
            }
        }
        taken.retain(|&other| other != plane);
        self.plan.collect = taken;
    }

    /// Execute the present plan in no time.
    #[inline]
    fn run_now(&mut self) {
        let ops = std::mem::take(&mut self.plan.ops);
        for &op in &ops {
            if let Some(oracle) = &mut self.oracle.0 {
                oracle.planned(op).unwrap_or_else(|wrong| panic!("wrong plan: {wrong}"));
            }
            // Nothing was pinned: no program is in flight outside time.
            self.executed(op, NONE);
        }
        self.plan.ops = ops;
    }

    /// Keep the books of an operation that has ended; `from` is the page it pinned.
    #[inline]
    pub(super) fn executed(&mut self, op: FlashOp, from: u32) {
        if let Some(oracle) = &mut self.oracle.0 {
            oracle.executed(op).unwrap_or_else(|wrong| panic!("wrong operation: {wrong}"));
        }
        match op.kind() {
            Kind::Read => {}
            Kind::Program | Kind::CopyBack => self.flash.programmed(op.ppn(), from),
            Kind::Erase => self.erased(op),
        }
    }

    // By itself, so that the rest, which every page passes, stays small.
    #[cold]
    fn erased(&mut self, op: FlashOp) {
        let (block, _) = self.geometry.block_page(op.ppn());
        self.flash.erased(block);
        self.collector.erased(block, &self.flash);
    }

    /// Lose the power: what was not programmed is gone, what it superseded is back.
    pub fn power_fail(&mut self, now: Nanos) -> Survivors {
        let unfinished: Vec<u64> = self.requests.iter().filter(|p| p.used).map(|p| p.id).collect();
        let lost = match &mut self.buffer.0 {
            Some(buffer) => buffer.power_fail(|id| !unfinished.contains(&id.0)),
            None => Vec::new(),
        };
        let (ending, _) = self.nand.power_fail(now);
        ending.iter().for_each(|&op| self.executed(op, op.from()));
        self.flash.power_fail();
        let rebuilt = self.mapping.rebuild(&mut self.flash);
        self.rebuild_ns = self.nand.rebuild_time(rebuilt).0;
        self.collector.power_fail(&mut self.flash);
        self.host.clear();
        self.events.clear();
        self.rests_told = 0;
        self.requests.clear();
        self.free_requests.clear();
        self.inside = 0;
        self.jobs.clear();
        self.stalled.iter_mut().for_each(VecDeque::clear);
        self.stalled_count = 0;
        self.unbuffered.clear();
        self.pace.0.iter_mut().for_each(Pace::clear);
        self.throttle.0.iter_mut().for_each(Throttle::clear);
        self.queues.0.iter_mut().for_each(HostQueues::clear);
        self.flushing.clear();
        self.in_step.fill(0);
        self.turns.clear();
        self.blocked_pools.clear();
        self.kicks.clear();
        if let Some(oracle) = &mut self.oracle.0 {
            let (mapping, flash) = (&mut self.mapping, &mut self.flash);
            let checked = oracle.power_failed(|lpn| mapping.lookup(flash, lpn));
            checked.unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        Survivors { lost }
    }

    /// Events that wait.
    #[cfg(test)]
    pub(crate) fn events(&self) -> usize {
        self.events.len()
    }

    /// Where a page is.
    #[cfg(test)]
    pub(crate) fn lookup(&mut self, lpn: u32) -> u32 {
        self.mapping.lookup(&mut self.flash, lpn)
    }

    /// Prepare for cheap clones.
    pub fn freeze(&mut self) {
        self.flash.freeze();
        self.mapping.freeze();
        self.nand.freeze();
    }

    /// Everything counted so far.
    pub fn counters(&self, out: &mut sim::Counters) {
        out.add("host_reads", self.pages_read);
        out.add("host_reads_unwritten", self.pages_read_unwritten);
        out.add("host_writes", self.pages_written);
        out.add("host_bytes_written", self.sectors_written * SECTOR_BYTES);
        let counts = &self.plan.counts;
        for (name, kind) in [("flash_reads", Kind::Read), ("flash_erases", Kind::Erase)] {
            for cause in Cause::ALL {
                out.add(format!("{name}.{}", cause.name()), counts.get(kind, cause));
            }
        }
        for cause in Cause::ALL {
            out.add(format!("flash_programs.{}", cause.name()), counts.programs(cause));
        }
        for cause in Cause::ALL {
            let bytes = counts.programs(cause) * self.geometry.page_bytes();
            out.add(format!("flash_bytes_programmed.{}", cause.name()), bytes);
        }
        if let Some(every) = self.nand.timing().parity_every {
            let programs: u64 = Cause::ALL.iter().map(|&cause| counts.programs(cause)).sum();
            let bytes = programs * self.geometry.page_bytes() / u64::from(every);
            out.add("flash_bytes_programmed.parity", bytes);
        }
        for cause in Cause::ALL {
            let copybacks = counts.get(Kind::CopyBack, cause);
            out.add(format!("flash_copybacks.{}", cause.name()), copybacks);
        }
        // Whatever is no longer free was opened, once more than it was erased.
        let planes = 0..self.geometry.planes();
        let free: u64 = planes.map(|plane| u64::from(self.flash.free_blocks(plane))).sum();
        let erased: u64 = Cause::ALL.iter().map(|&cause| counts.get(Kind::Erase, cause)).sum();
        let opened = (u64::from(self.geometry.blocks()) + erased).saturating_sub(free);
        out.add("flash_blocks_opened", opened);
        out.add("gc_pages_moved", counts.programs(Cause::Gc));
        out.add("gc_blocks_collected", counts.get(Kind::Erase, Cause::Gc));
        let pages = self.pages_read + self.pages_written;
        let in_ram = MapStats { lookups: pages, hits: pages, double_reads: 0 };
        let stats = self.mapping.stats().unwrap_or(in_ram);
        out.add("map_lookups", stats.lookups);
        out.add("map_hits", stats.hits);
        out.add("map_double_reads", stats.double_reads);
        out.level("map_ram_bytes", self.mapping.ram().0);
        out.level("map_rebuild_ns", self.rebuild_ns);
        self.mapping.counters(counts, out);
        self.nand.counters(out);
    }

    /// Histogram of erase counts per plane.
    pub fn wear(&self) -> Vec<Vec<(u32, u32)>> {
        (0..self.geometry.planes()).map(|plane| self.flash.wear(plane)).collect()
    }
}

//! What happens between requests: plans go to the NAND model, operations end, blocks are freed.

use super::jobs::Later;
use super::*;

/// Ends of rests that wait at most for each die: a die of a busy drive begins to rest all the time.
const RESTS_TOLD: u32 = 4;

/// Where an operation waits in the NAND model.
fn class(op: FlashOp, background: bool) -> Class {
    match (op.kind(), background) {
        (Kind::Read, false) => Class::Read,
        (Kind::Read, true) => Class::BackgroundRead,
        _ => Class::Write,
    }
}

impl Controller {
    /// Hand the present plan to the NAND model. A request waits for every operation (or for the
    /// whole of a plan with stages). For the buffer `lpn` is the page it gets rid of, [`NONE`] when
    /// the plan only made room in RAM.
    #[inline]
    pub(super) fn submit_plan(&mut self, waiter: Waiter, lpn: u32, background: bool) {
        if let Some(oracle) = &mut self.oracle.0 {
            for &op in &self.plan.ops {
                oracle.planned(op).unwrap_or_else(|wrong| panic!("wrong plan: {wrong}"));
            }
        }
        // The buffer is told once for a page, whatever its write took.
        if self.plan.ops.is_empty() {
            return;
        }
        if self.settings.rest.is_some() && !matches!(waiter, Waiter::Pool(_)) {
            self.end_rest();
        }
        let alone = waiter != Waiter::Buffer || self.plan.ops.len() == 1 && lpn != NONE;
        if !self.plan.stage_ends.is_empty() || !alone {
            self.submit_stages(waiter, lpn, background);
            return;
        }
        for index in 0..self.plan.ops.len() {
            let op = self.plan.ops[index];
            if self.start_op(op, waiter, background, false).is_some() {
                self.add_waiting(waiter, 1);
            }
        }
    }

    /// The host has work for dies: they rest no more.
    fn end_rest(&mut self) {
        for op in &self.plan.ops {
            let die = self.geometry.die_of_plane(self.geometry.plane_of(op.ppn()));
            for plane in self.planes_of(die) {
                self.collector.end_rest(self.collector.pool_of(plane));
            }
        }
    }

    fn planes_of(&self, die: u32) -> std::ops::Range<u32> {
        let planes = self.geometry.planes_per_die.get();
        die * planes..(die + 1) * planes
    }

    #[inline]
    fn add_waiting(&mut self, waiter: Waiter, count: u32) {
        match waiter {
            Waiter::Request(slot) => self.requests[slot as usize].remaining += count,
            Waiter::Pool(pool) => self.in_step[pool as usize] += count,
            Waiter::Job(job) => self.jobs.get(job).remaining += count,
            Waiter::Buffer => {}
        }
    }

    /// Queue an operation; `None` when no flash operation is needed because the data of a read is
    /// still in the controller.
    #[inline]
    fn start_op(
        &mut self,
        op: FlashOp,
        waiter: Waiter,
        background: bool,
        blocked: bool,
    ) -> Option<u32> {
        let op = if self.flash.has_pslc() {
            let copies = op.kind() == Kind::CopyBack;
            op.in_pslc(self.flash.is_pslc(op.ppn()), copies && self.flash.is_pslc(op.from()))
        } else {
            op
        };
        match op.kind() {
            Kind::Read if !self.flash.is_programmed(op.ppn()) => {
                // Those of map pages count as planned, as the equations of the schemes have them.
                if op.cause() == Cause::Host {
                    self.plan.counts.take_back(op);
                }
                return None;
            }
            Kind::Program | Kind::CopyBack => self.flash.pin(op.from()),
            _ => {}
        }
        let slot = self.nand.enqueue(op, waiter.pack(), class(op, background), blocked);
        if !blocked {
            let plane = self.geometry.plane_of(op.ppn());
            self.kick_soon(self.geometry.die_of_plane(plane));
        }
        Some(slot)
    }

    fn submit_stages(&mut self, waiter: Waiter, lpn: u32, background: bool) {
        let job = self.jobs.insert(waiter, lpn, background);
        self.add_waiting(waiter, 1);
        let first_end =
            self.plan.stage_ends.first().map_or(self.plan.ops.len(), |&end| end as usize);
        let mut stage = 0;
        for index in 0..self.plan.ops.len() {
            let op = self.plan.ops[index];
            if index < first_end {
                if self.start_op(op, Waiter::Job(job), background, false).is_some() {
                    self.jobs.get(job).remaining += 1;
                }
                continue;
            }
            while self.plan.stage_ends.get(stage).is_some_and(|&end| end as usize <= index) {
                stage += 1;
            }
            // Writes keep their place in the die's order; reads have none to keep, but until they
            // start nobody else knows that their page is still wanted.
            let slot = match op.kind() {
                Kind::Read => {
                    self.flash.pin(op.ppn());
                    NONE
                }
                _ => self
                    .start_op(op, Waiter::Job(job), background, true)
                    .expect("only reads are served without the flash"),
            };
            self.jobs.get(job).later.push(Later { stage: stage as u32, slot, op });
        }
        if self.jobs.get(job).remaining == 0 && !self.next_stage(job) {
            // Only reads, and all of them of data still in the controller.
            self.jobs.remove(job);
            match waiter {
                Waiter::Request(slot) => self.requests[slot as usize].remaining -= 1,
                Waiter::Buffer if lpn == NONE => {}
                _ => unreachable!("a plan nobody waits for as a request writes something"),
            }
        }
    }

    /// Start the next stage of a job; returns false when there is none left.
    fn next_stage(&mut self, index: u32) -> bool {
        let background = self.jobs.get(index).background;
        while let Some(Later { stage, .. }) = self.jobs.get(index).peek() {
            while let Some(Later { stage: same, slot, op }) = self.jobs.get(index).peek()
                && same == stage
            {
                self.jobs.get(index).started += 1;
                if slot != NONE {
                    let die = self.nand.unblock(slot);
                    self.kick_soon(die);
                } else {
                    self.flash.unpin(op.ppn());
                    if self.start_op(op, Waiter::Job(index), background, false).is_none() {
                        continue;
                    }
                }
                self.jobs.get(index).remaining += 1;
            }
            if self.jobs.get(index).remaining > 0 {
                return true;
            }
        }
        false
    }

    /// The die was given something. A step of the collector gives one die hundreds of operations:
    /// it is kicked once for them.
    #[inline]
    fn kick_soon(&mut self, die: u32) {
        if self.kicks.last() != Some(&die) {
            self.kicks.push(die);
        }
    }

    /// Let the dies start that were given something.
    #[inline]
    pub(super) fn kick_all(&mut self, now: Nanos) {
        while let Some(die) = self.kicks.pop() {
            self.nand.kick(die, now, &mut self.events);
        }
    }

    /// A flash operation ended: keep the books, tell who waits.
    pub(super) fn flash_op_ended(
        &mut self,
        op: FlashOp,
        waiter: Waiter,
        now: Nanos,
        out: &mut Completions,
    ) {
        self.executed(op, op.from());
        if op.kind() == Kind::Erase {
            self.block_erased(op.ppn(), now, out);
        }
        self.tell(waiter, op.lpn(), now, out);
        if !self.blocked_pools.is_empty() {
            self.pump_blocked();
        }
        self.kick_all(now);
    }

    /// Try again what waited for programs in flight.
    fn pump_blocked(&mut self) {
        std::mem::swap(&mut self.blocked_pools, &mut self.pumped_pools);
        for index in 0..self.pumped_pools.len() {
            self.pump(self.pumped_pools[index]);
        }
        self.pumped_pools.clear();
    }

    fn tell(&mut self, waiter: Waiter, lpn: u32, now: Nanos, out: &mut Completions) {
        match waiter {
            Waiter::Request(slot) => self.part_done(slot, now, out),
            Waiter::Job(job) => {
                self.jobs.get(job).remaining -= 1;
                if self.jobs.get(job).remaining == 0 && !self.next_stage(job) {
                    let (waiter, lpn) = self.jobs.remove(job);
                    self.tell(waiter, lpn, now, out);
                }
            }
            Waiter::Pool(pool) => {
                self.in_step[pool as usize] -= 1;
                if self.in_step[pool as usize] == 0 {
                    self.pump(pool);
                    self.step_ended(now);
                }
            }
            Waiter::Buffer => self.destaged(lpn, now, out),
        }
    }

    /// The program of a buffered page ended.
    fn destaged(&mut self, lpn: u32, now: Nanos, out: &mut Completions) {
        let buffer = self.buffer.0.as_mut().expect("only a buffer destages");
        if lpn != NONE {
            buffer.programmed(lpn);
        }
        for slot in self.flushed() {
            self.part_done(slot, now, out);
        }
        self.admit(now);
        self.destage();
    }

    /// Requests that wait no more for the buffer: nothing that was dirty when they came still is.
    pub(super) fn flushed(&mut self) -> Vec<u32> {
        let Some(buffer) = self.buffer.0.as_ref().filter(|_| !self.flushing.is_empty()) else {
            return Vec::new();
        };
        let clean = |&mut (_, to): &mut (u32, u64)| buffer.is_clean_to(to);
        self.flushing.extract_if(.., clean).map(|(slot, _)| slot).collect()
    }

    /// A block is free again: let waiting writes have it.
    fn block_erased(&mut self, ppn: u32, now: Nanos, out: &mut Completions) {
        if self.stalled_count > 0 {
            let plane = self.geometry.plane_of(ppn);
            self.retry_stalled(plane as usize, now, out);
            self.retry_stalled(self.geometry.planes() as usize, now, out);
        }
        self.destage();
    }

    fn retry_stalled(&mut self, queue: usize, now: Nanos, out: &mut Completions) {
        let count = self.stalled[queue].len();
        for _ in 0..count {
            let Some(part) = self.stalled[queue].pop_front() else { break };
            match self.try_program(&part) {
                Ok(()) => {
                    self.stalled_count -= 1;
                    // A discard may need no operation.
                    self.complete_if_done(part.slot, now, out);
                }
                Err(other) if other != queue => {}
                Err(_) => {
                    // It keeps its turn.
                    self.stalled[queue].rotate_right(1);
                    break;
                }
            }
        }
    }

    /// A free block of the plane was taken.
    pub(super) fn check_pool(&mut self, plane: u32) {
        let pool = self.collector.pool_of(plane);
        if self.collector.check(pool, &self.flash, &*self.mapping) {
            self.pump(pool);
        }
    }

    /// A write found no room: somebody must collect for it.
    pub(super) fn wake_collectors(&mut self, plane: Option<u32>) {
        let planes = match plane {
            Some(plane) => plane..plane + 1,
            None => 0..self.geometry.planes(),
        };
        for plane in planes {
            self.check_pool(plane);
        }
    }

    /// Plan the next collection step of a pool if it is its turn: at once when it is urgent, else
    /// when its die has nothing else to do.
    pub(super) fn pump(&mut self, pool: u32) {
        if !self.collector.is_active(pool) || self.in_step[pool as usize] > 0 {
            return;
        }
        let turn = self.to_move(pool);
        let in_turn = turn.is_some_and(|pages| pages > 0);
        let urgent = self.collector.is_urgent(pool, &self.flash);
        // In a turn nobody else programs, and reads of the host still come first.
        if !urgent && !in_turn {
            // At rest nobody opens a turn.
            if turn.is_some() && !self.collector.is_at_rest(pool) {
                return;
            }
            let plane = self.collector.working_plane(pool, &self.flash);
            if !self.nand.is_idle(self.geometry.die_of_plane(plane)) {
                return;
            }
        }
        self.plan.clear();
        let (flash, mapping) = (&mut self.flash, &mut *self.mapping);
        let pages = turn.filter(|_| in_turn).unwrap_or(self.collector.rules.step_pages);
        match self.collector.step(pool, pages, flash, mapping, &mut self.plan) {
            CleaningStep::Planned => {
                if in_turn {
                    self.count_moves(pool);
                }
                self.submit_plan(Waiter::Pool(pool), NONE, !urgent);
                // Map pages may have taken a free block of another plane.
                self.check_planned();
            }
            // Its die asks as well, each time that it has ended something.
            CleaningStep::Blocked if self.blocked_pools.contains(&pool) => {}
            CleaningStep::Blocked => self.blocked_pools.push(pool),
            CleaningStep::Idle => {}
        }
    }

    /// A die has ended its work: it starts the next, and collection may use it.
    pub(super) fn die_free(&mut self, die: u32, now: Nanos) {
        self.nand.kick(die, now, &mut self.events);
        if !self.nand.is_idle(die) {
            return;
        }
        for plane in self.planes_of(die) {
            let pool = self.collector.pool_of(plane);
            if self.collector.is_active(pool) {
                self.pump(pool);
            }
        }
        self.kick_all(now);
        if let Some(rest) = self.settings.rest.filter(|_| self.nand.is_idle(die)) {
            self.rested_at[die as usize] = now + rest;
            self.events.push(now + rest, Event::DieRested(die).pack());
            self.rests_told += 1;
            if self.rests_told > RESTS_TOLD * self.geometry.dies() {
                self.forget_rests();
            }
        }
    }

    /// Withdraw the ends of rests that did not last.
    #[cold]
    fn forget_rests(&mut self) {
        let (rested_at, mut kept) = (&self.rested_at, 0);
        self.events.retain(|time, payload| {
            let Event::DieRested(die) = Event::unpack(payload) else { return true };
            let lasts = rested_at[die as usize] == time;
            kept += u32::from(lasts);
            lasts
        });
        self.rests_told = kept;
    }

    /// A die may have rested long enough to be collected in the background.
    pub(super) fn die_rested(&mut self, die: u32, now: Nanos) {
        self.rests_told -= 1;
        if self.rested_at[die as usize] != now || !self.nand.is_idle(die) {
            return;
        }
        for plane in self.planes_of(die) {
            let pool = self.collector.pool_of(plane);
            if self.collector.check_background(pool, &self.flash) {
                self.pump(pool);
            }
        }
        self.kick_all(now);
    }
}

#[cfg(test)]
mod tests {
    use config::device::Context;
    use sim::{Device, Rng};

    use super::*;
    use crate::device::ssd::Params;

    #[test]
    fn ends_of_rests_that_did_not_last_are_forgotten() {
        let mut params = Params::default();
        params.geometry.blocks_per_plane = 32;
        params.collection.background_free_percent = 10.0;
        params.collection.background_after = config::Duration(Nanos::from_millis(10_000));
        let context = Context { rng: Rng::new(1, "rests") };
        let mut device = params.build_around(&context, |mapping| mapping).unwrap();
        device.apply(&Request::write(Lba(0), device.limits().sectors() as u32));
        let (mut now, mut out) = (Nanos::ZERO, Completions::new());
        for page in 0..5_000 {
            device.submit(now, Request::read(Lba(4 * page), 4)).unwrap();
            while out.done.len() as u64 <= page {
                now = device.next_event().expect("it is answered");
                device.advance(now, &mut out);
            }
        }
        let dies = params.geometry.check().unwrap().dies();
        let most = RESTS_TOLD * dies;
        assert!(device.events() as u32 <= most, "{} events for {dies} dies", device.events());
    }
}

//! Budgets: how many sectors and how much time a turn may take, and what it counts.

use sim::Nanos;

use super::machine::{Bfq, FIRST_BUDGET};
use super::rate::SHIFT;
use crate::elevator::linux::pool::{NONE, Pool};

/// The least budget is this part of the largest.
const PARTS: u64 = 32;
/// What nobody waits for counts so many times.
const ASYNC_FACTOR: u64 = 3;
/// Turns are counted by a mean that grows to 256; from here on the measured budget counts.
const ENOUGH_TURNS: u64 = 194;
/// A turn shorter than this does not tell the rate of a queue; one longer does.
const SHORT_TURN: Nanos = Nanos::from_millis(1);
const LONG_TURN: Nanos = Nanos::from_millis(20);

/// Why a turn ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Its process did not come back.
    Idle,
    Timeout,
    /// The budget is used.
    Used,
    /// It has nothing more, and is not waited for.
    Empty,
    /// Another queue comes first.
    Preempted,
}

impl Bfq {
    /// The largest budget as measured, whether it counts yet or not.
    pub(super) fn measured_budget(&self) -> u64 {
        match self.params.max_budget {
            0 => self.measured_budget,
            fixed => fixed,
        }
    }

    pub(super) fn max_budget(&self) -> u64 {
        if self.turns < ENOUGH_TURNS { FIRST_BUDGET } else { self.measured_budget() }
    }

    pub(super) fn least_budget(&self) -> u64 {
        self.max_budget() / PARTS
    }

    /// The peak rate is another.
    pub(super) fn measure_budget(&mut self) {
        let timeout_ms = self.ticks.in_ms(self.ticks.timeout);
        self.measured_budget = (self.rate.peak * 1000 * timeout_ms) >> SHIFT;
    }

    /// What a request counts, in sectors.
    pub(super) fn charge(&self, pool: &Pool, rq: u32, queue: u32) -> u64 {
        let sectors = u64::from(pool[rq].what.sectors);
        let q = &self.queues[queue as usize];
        if q.sync || q.is_raised() || self.is_asymmetric(queue) {
            sectors
        } else {
            ASYNC_FACTOR * sectors
        }
    }

    /// A queue is chosen: when is its turn over?
    pub(super) fn set_timeout(&mut self, now: Nanos, queue: u32) {
        let (tick, ticks) = (self.tick(), self.ticks);
        let q = &mut self.queues[queue as usize];
        let regular = q.raise.is_regular(&ticks.raise);
        let times = if regular { 1 } else { q.entity.weight / q.entity.plain };
        q.timeout = tick + ticks.timeout * times;
        self.began = now;
    }

    pub(super) fn is_time_over(&self, queue: u32) -> bool {
        self.queues[queue as usize].timeout <= self.tick()
    }

    /// A queue that is waited for and has used most of its budget may go on when its time is over.
    pub(super) fn may_time_out(&self, queue: u32) -> bool {
        let q = &self.queues[queue as usize];
        (!q.awaited || q.entity.has_much_left()) && self.is_time_over(queue)
    }

    /// Did the turn move little for its time? And how long was it, in ms?
    pub(super) fn slowness(&self, now: Nanos, before_idling: bool) -> (bool, u64) {
        let q = &self.queues[self.active as usize];
        if !q.sync {
            return (false, 0);
        }
        let end = if before_idling { self.idling.since() } else { now };
        let took = end.since(self.began);
        if took < SHORT_TURN {
            return (q.is_seeky(), if self.rotational { 8 } else { 2 });
        }
        let slow = if took > LONG_TURN {
            q.entity.service < self.measured_budget() / 2
        } else {
            q.is_seeky()
        };
        (slow, took.0 / 1_000_000)
    }

    /// A turn counts by its time.
    pub(super) fn charge_time(&mut self, queue: u32, took_ms: u64) {
        let timeout_ms = self.ticks.default_timeout_ms;
        let by_time = self.measured_budget() * took_ms.min(timeout_ms) / timeout_ms;
        let entity = &mut self.queues[queue as usize].entity;
        let whole = by_time.max(entity.service);
        entity.budget = entity.budget.max(whole);
        let more = whole - entity.service;
        self.count_service(queue, more);
    }

    /// A queue got so many sectors.
    pub(super) fn count_service(&mut self, queue: u32, sectors: u64) {
        let tick = self.tick();
        let q = &mut self.queues[queue as usize];
        if q.service_since_idle == 0 {
            q.first_service = tick;
        }
        if q.is_raised() {
            q.raise.service += sectors;
        }
        q.service_since_idle += sectors;
        self.schedule.served(&mut self.queues, queue, sectors);
    }

    /// The budget of the next full turn, by how this one ended.
    pub(super) fn adapt_budget(&mut self, pool: &Pool, queue: u32, end: End) {
        let (least, most) = (self.least_budget(), self.measured_budget());
        let q = &self.queues[queue as usize];
        let old = q.full_budget;
        let budget = match (q.sync, q.is_raised(), end) {
            (_, true, _) if q.sync => 2 * least,
            (false, ..) => most,
            (.., End::Idle) if q.dispatched > 0 => (old * 2).min(most),
            (.., End::Idle) if old > 5 * least => old - 4 * least,
            (.., End::Idle) => least,
            (.., End::Timeout) => (old * 2).min(most),
            (.., End::Used) => (old * 4).min(most),
            (.., End::Empty) => q.entity.service.max(least),
            (.., End::Preempted) => return,
        };
        let known = self.turns >= ENOUGH_TURNS && self.params.max_budget == 0;
        let budget = if known { budget.min(most) } else { budget };
        self.queues[queue as usize].full_budget = budget;
        self.fit_budget(pool, queue);
    }

    /// At least enough for the next request, if there is one.
    fn fit_budget(&mut self, pool: &Pool, queue: u32) {
        let q = &self.queues[queue as usize];
        if q.next != NONE {
            let budget = q.full_budget.max(self.charge(pool, q.next, queue));
            self.queues[queue as usize].entity.budget = budget;
        }
    }

    /// The next request of a queue is another one, or has grown: is its budget enough?
    pub(super) fn next_changed(&mut self, pool: &Pool, queue: u32) {
        let q = &self.queues[queue as usize];
        if q.next == NONE || queue == self.active {
            return;
        }
        let enough = self.charge(pool, q.next, queue).max(q.entity.service);
        let budget = q.full_budget.max(enough);
        if q.entity.budget != budget {
            self.queues[queue as usize].entity.budget = budget;
            self.schedule.requeue(&mut self.queues, queue, false);
        }
    }

    /// A queue asks again: does it go on with what was left of its budget?
    pub(super) fn budget_at_arrival(&mut self, pool: &Pool, queue: u32, in_time: bool) -> bool {
        let q = &mut self.queues[queue as usize];
        let left = q.entity.left();
        if q.may_go_on && in_time && left > 0 {
            q.entity.budget = (left as u64).min(q.full_budget);
            q.entity.service = 0;
            return true;
        }
        q.entity.service = 0;
        q.may_go_on = false;
        self.fit_budget(pool, queue);
        false
    }
}

//! Turns: when one begins, whom it goes to, and what ends it.

use sim::Nanos;

use super::budget::End;
use super::entity::Place;
use super::machine::Bfq;
use crate::elevator::linux::pool::{NONE, Pool};

impl Bfq {
    /// The turn of another queue ends for one that goes on, or comes first, or since the device
    /// need not be kept idle any longer.
    pub(super) fn preempt(&mut self, now: Nanos, pool: &Pool, queue: u32, goes_on: bool) {
        if self.active == NONE {
            return;
        }
        let (q, a) = (&self.queues[queue as usize], &self.queues[self.active as usize]);
        let first = goes_on && q.raise.factor >= a.raise.factor
            || q.class < a.class
            || q.entity.weight > a.entity.weight
            || !self.should_idle(self.active);
        if first && self.schedule.may_preempt() {
            self.end_turn(now, pool, false, End::Preempted);
        }
    }

    /// The turn of the active queue is over.
    pub(super) fn end_turn(&mut self, now: Nanos, pool: &Pool, before_idling: bool, end: End) {
        let queue = self.active;
        let (slow, took_ms) = self.slowness(now, before_idling);
        let tick = self.tick();
        let q = &self.queues[queue as usize];
        let wasted = end == End::Timeout && q.entity.has_much_left();
        if !q.is_raised() && (slow || wasted) {
            self.charge_time(queue, took_ms);
        }
        let q = &mut self.queues[queue as usize];
        if self.params.low_latency {
            if !q.is_raised() {
                q.raise.since = tick;
            }
            if q.is_empty() && q.dispatched == 0 {
                self.note_regular(queue);
            } else if q.is_empty() {
                q.raise.look_again = true;
            }
        }
        self.measuring.stop();
        self.adapt_budget(pool, queue, end);
        self.leave_service(now, queue, end);
        let q = &mut self.queues[queue as usize];
        if !q.busy && !matches!(end, End::Timeout | End::Used) {
            q.may_go_on = true;
        } else {
            q.entity.service = 0;
        }
    }

    pub(super) fn leave_service(&mut self, now: Nanos, queue: u32, end: End) {
        let tick = self.tick();
        let fair = end == End::Preempted && self.idling_is_fair(queue);
        let q = &mut self.queues[queue as usize];
        if q.shared && q.is_seeky() {
            q.to_split = true;
        }
        if q.is_empty() && !fair {
            if q.dispatched == 0 {
                q.timeout = tick;
            }
            self.not_busy(queue, true);
        } else {
            self.schedule.requeue(&mut self.queues, queue, true);
            if !self.queues[queue as usize].is_empty() {
                self.place_found(queue);
            }
        }
        self.queues[queue as usize].awaited = false;
        if end == End::Idle {
            self.idling.lost(now)
        } else {
            self.idling.stop(now)
        }
        self.active = NONE;
        self.schedule.end();
    }

    fn begin_turn(&mut self, now: Nanos) {
        if self.busy_queues() == 0 {
            return;
        }
        let queue = self.schedule.begin(&mut self.queues);
        debug_assert_eq!(self.queues[queue as usize].entity.place, Place::InService);
        self.queues[queue as usize].fifo_checked = false;
        self.turns = (self.turns * 7 + 256) / 8;
        self.prolong_regular(queue);
        self.set_timeout(now, queue);
        (self.active, self.active_position) = (queue, 0);
    }

    /// The queue that may send one request.
    pub(super) fn select(&mut self, now: Nanos, pool: &Pool) -> Option<u32> {
        if self.active != NONE {
            let queue = self.active;
            let awaits = self.queues[queue as usize].is_empty() && self.should_idle(queue);
            if self.may_time_out(queue) && !awaits {
                self.end_turn(now, pool, false, End::Timeout);
            }
        }
        loop {
            if self.active == NONE {
                self.begin_turn(now);
            }
            if self.active == NONE {
                return None;
            }
            let queue = self.active;
            let q = &self.queues[queue as usize];
            if q.next != NONE {
                if self.charge(pool, q.next, queue) as i64 <= q.entity.left() {
                    if q.awaited {
                        self.stop_idling(now);
                    }
                    return Some(queue);
                }
                self.end_turn(now, pool, false, End::Used);
            } else if q.awaited || q.dispatched != 0 && self.should_idle(queue) {
                return self.inject(pool);
            } else {
                self.end_turn(now, pool, false, End::Empty);
            }
        }
    }

    /// The active queue has an answer: is it waited for, or is its turn over?
    pub(super) fn after_answer(&mut self, now: Nanos, pool: &Pool) {
        let queue = self.active;
        let q = &self.queues[queue as usize];
        let (empty, inside) = (q.is_empty(), q.dispatched);
        let idle = self.should_idle(queue);
        if empty && idle {
            if inside == 0 {
                self.start_idling(now);
            }
        } else if self.may_time_out(queue) {
            self.end_turn(now, pool, false, End::Timeout);
        } else if empty && (inside == 0 || !idle) {
            self.end_turn(now, pool, false, End::Empty);
        }
    }

    /// The next request of a queue goes to the device.
    pub(super) fn send(&mut self, now: Nanos, pool: &mut Pool, queue: u32, rq: u32) {
        let charge = self.charge(pool, rq, queue);
        self.count_service(queue, charge);
        if queue == self.active {
            self.measure_from(rq);
        }
        self.queues[queue as usize].dispatched += 1;
        let what = pool[rq].what;
        if self.rate.sent(now, &what, self.in_device) {
            self.measure_budget();
        }
        if queue == self.active {
            self.active_position = what.end().0;
        }
        self.remove(now, pool, rq);
        self.in_device += 1;
        if queue == self.active {
            self.check_raise(queue);
            let others = self.busy_queues() > 1;
            if others && self.queues[queue as usize].is_idle_class() {
                self.end_turn(now, pool, false, End::Used);
            }
        }
    }
}

//! When the weight of a queue is raised, and when no longer.

use super::epoch::LONG_AGO;
use super::machine::Bfq;
use super::queue::Queue;
use crate::elevator::linux::pool::NONE;

/// Only the weight of a queue with this plain one is raised: others were chosen by somebody.
const PLAIN: u64 = 40;
/// A queue that starts a program has no more sectors than this to read.
const SECTORS_MAX: u64 = 120_000;
/// Regular requests have at most this rate, in sectors a second.
const REGULAR_RATE: u64 = 7000;
/// Ticks that a greedy process may come too late because of the length of a tick.
const SLACK_TICKS: u64 = 4;

/// Why a queue that asks again may be raised.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Deserves {
    away: bool,
    regular: bool,
    in_burst: bool,
    any: bool,
}

impl Bfq {
    pub(super) fn raise_time(&self) -> u64 {
        self.ticks.raise.duration(&self.rate)
    }

    fn was_long_away(&self, queue: &Queue) -> bool {
        queue.dispatched == 0 && queue.timeout + self.ticks.raise.away < self.tick()
    }

    /// A queue had nothing and asks: does it deserve a raised weight? Belonging to a burst is
    /// forgotten after a long time.
    pub(super) fn deserves(&mut self, queue: u32, stably_joined: bool) -> Deserves {
        let (tick, after_burst) = (self.tick(), self.ticks.raise.after_burst);
        let q = &self.queues[queue as usize];
        let was_away = self.was_long_away(q);
        let plain = q.entity.next_plain == PLAIN;
        let in_burst = q.in_large_burst;
        let regular = !q.only_seeks()
            && !in_burst
            && q.raise.next_regular < tick
            && q.dispatched == 0
            && plain;
        let away = !in_burst && was_away && plain;
        let one_process = q.owner != NONE || stably_joined;
        let any = self.params.low_latency
            && (q.is_raised() || q.sync && one_process && (away || regular));
        let q = &mut self.queues[queue as usize];
        if !q.new && was_away && q.timeout + after_burst < tick {
            q.in_large_burst = false;
            self.burst.leave(q, queue);
        }
        Deserves { away, regular, in_burst, any }
    }

    /// Raise it, or not. Returns whether it is raised as one who was away.
    pub(super) fn raise_at_arrival(&mut self, queue: u32, why: Deserves) -> bool {
        let (tick, duration, ticks) = (self.tick(), self.raise_time(), self.ticks.raise);
        let least = self.least_budget();
        let q = &mut self.queues[queue as usize];
        if !self.params.low_latency || q.split + ticks.away >= tick {
            return why.away;
        }
        let raise = &mut q.raise;
        let old = raise.factor;
        if old == 1 && why.any {
            if why.away {
                raise.service = 0;
                raise.as_away(duration);
            } else {
                raise.before_regular = LONG_AGO;
                raise.as_regular(&ticks);
            }
            // Its backlog is small, and a small budget brings its turn soon.
            q.entity.budget = q.entity.budget.min(2 * least);
        } else if old > 1 {
            if why.away {
                raise.as_away(duration);
            } else if why.in_burst {
                raise.factor = 1;
            } else if why.regular {
                if !raise.is_regular(&ticks) {
                    raise.before_regular = raise.since;
                    raise.as_regular(&ticks);
                }
                raise.since = tick;
            }
        }
        q.entity.changed |= q.raise.factor != old;
        why.away
    }

    /// Something comes that nobody waits for, to a queue that has more: raised after a pause, so
    /// that it does not starve.
    pub(super) fn raise_async(&mut self, queue: u32) {
        let (tick, duration) = (self.tick(), self.raise_time());
        let q = &mut self.queues[queue as usize];
        let paused = q.raise.since + self.ticks.raise.away_async < tick;
        if self.params.low_latency && !q.is_raised() && !q.sync && paused {
            q.raise.as_away(duration);
            q.entity.changed = true;
            self.raised_busy += 1;
        }
    }

    /// Its weight is the plain one again.
    pub(super) fn end_raise(&mut self, queue: u32) {
        let (tick, regular) = (self.tick(), self.ticks.raise.regular);
        let q = &mut self.queues[queue as usize];
        if q.raise.time != regular {
            q.raise.next_regular = tick;
        }
        self.raised_busy -= u32::from(q.busy);
        (q.raise.factor, q.raise.time, q.raise.since) = (1, 0, tick);
        q.entity.changed = true;
    }

    /// A request of the queue in service has left: is its raise over?
    pub(super) fn check_raise(&mut self, queue: u32) {
        let (tick, duration, ticks) = (self.tick(), self.raise_time(), self.ticks.raise);
        let q = &mut self.queues[queue as usize];
        if q.is_raised() {
            let over = q.raise.is_over(tick);
            let regular = q.raise.is_regular(&ticks);
            if q.in_large_burst {
                self.end_raise(queue);
            } else if over && regular && q.raise.back_to_away(tick, duration) {
                q.entity.changed = true;
            } else if over {
                self.end_raise(queue);
            }
            let q = &self.queues[queue as usize];
            let started = !q.raise.is_regular(&ticks) && q.raise.service > SECTORS_MAX;
            if q.is_raised() && started {
                self.end_raise(queue);
            }
        }
        let q = &mut self.queues[queue as usize];
        if (q.entity.weight > q.entity.plain) != q.is_raised() {
            self.schedule.update_weight(q, false);
        }
    }

    /// A regular one that only seeks is none.
    pub(super) fn check_regular(&mut self, queue: u32) {
        let (tick, duration, ticks) = (self.tick(), self.raise_time(), self.ticks.raise);
        let q = &mut self.queues[queue as usize];
        if q.is_raised() && q.raise.is_regular(&ticks) && q.only_seeks() {
            if q.raise.back_to_away(tick, duration) {
                q.entity.changed = true;
            } else {
                self.end_raise(queue);
            }
        }
    }

    /// From when on requests of this queue are slow enough to be regular.
    pub(super) fn note_regular(&mut self, queue: u32) {
        let (tick, ticks) = (self.tick(), self.ticks.raise);
        let q = &mut self.queues[queue as usize];
        let slow = q.raise.asked + ticks.second * q.service_since_idle / REGULAR_RATE;
        let soon = tick + ticks.slice_idle + SLACK_TICKS;
        q.raise.next_regular = q.raise.next_regular.max(slow).max(soon);
    }

    /// It waited for its turn: a regular one is not punished for that.
    pub(super) fn prolong_regular(&mut self, queue: u32) {
        let (tick, ticks) = (self.tick(), self.ticks.raise);
        let q = &mut self.queues[queue as usize];
        let raise = &mut q.raise;
        let regular = raise.factor > 1 && raise.is_regular(&ticks);
        if regular && raise.since < tick && q.timeout < tick {
            let since = if q.timeout > raise.since { raise.since + tick - q.timeout } else { tick };
            raise.since = since;
        }
    }
}

//! Whose requests are slipped into the pause of a queue, and what that costs it.

use sim::Nanos;

use super::machine::Bfq;
use super::seek::SHORT;
use crate::elevator::linux::pool::{NONE, Pool};

/// A queue that asks within this time after another one's answer may have waited for that.
const WAKES_WITHIN: u64 = 4_000_000;
/// So many times in a row, and it did.
const WAKES: u32 = 3;
/// In this many times `slice_idle`.
const WAKES_TIME: u64 = 128;

impl Bfq {
    pub(super) fn reset_injection(&mut self, queue: u32) {
        let tick = self.tick();
        let q = &mut self.queues[queue as usize];
        q.inject.plain_ns = 0;
        q.inject.limit = u32::from(!q.thinks_briefly);
        q.inject.lowered = tick;
        self.measuring.request = NONE;
    }

    /// Its thinking has changed: as long as nothing was measured, the limit follows from that.
    pub(super) fn think_changed(&mut self, queue: u32) {
        let (tick, q) = (self.tick(), &self.queues[queue as usize]);
        let settled = q.inject.lowered + self.ticks.inject_settles <= tick;
        if q.inject.plain_ns == 0 && (settled || !q.thinks_briefly) {
            self.reset_injection(queue);
        }
    }

    /// The first request that its process has out comes to a queue.
    pub(super) fn first_request(&mut self, now: Nanos, queue: u32) {
        self.look_for_waker(now, queue);
        let tick = self.tick();
        if self.queues[queue as usize].inject.lowered + self.ticks.inject_reset <= tick {
            self.reset_injection(queue);
        }
        let inject = &self.queues[queue as usize].inject;
        let quiet = self.in_device == 0;
        let after_others = inject.plain_ns > 0 && self.measuring.injected && !quiet;
        let rested = inject.lowered + self.ticks.inject_rests <= tick;
        if queue == self.active && (quiet || after_others) && rested {
            (self.measuring.since, self.measuring.waits) = (now, true);
            if quiet {
                self.measuring.injected = false;
            }
        }
    }

    fn look_for_waker(&mut self, now: Nanos, queue: u32) {
        let last = self.last_answered;
        let q = &mut self.queues[queue as usize];
        let late = now.since(self.last_answer).0 >= WAKES_WITHIN;
        if last == NONE || last == queue || q.thinks_briefly || late {
            return;
        }
        let until = q.inject.first_seen.0 + WAKES_TIME * self.params.slice_idle.0.0;
        if last != q.inject.candidate || now.0 > until {
            (q.inject.candidate, q.inject.seen, q.inject.first_seen) = (last, 1, now);
        } else {
            q.inject.seen += 1;
        }
        if q.inject.seen == WAKES {
            q.inject.candidate = NONE;
            self.set_waker(queue, last);
        }
    }

    pub(super) fn set_waker(&mut self, queue: u32, waker: u32) {
        let old = std::mem::replace(&mut self.queues[queue as usize].inject.waker, waker);
        for other in [old, waker].into_iter().filter(|&other| other != NONE) {
            self.queues[other as usize].inject.wakes.retain(|&woken| woken != queue);
        }
        self.queues[waker as usize].inject.wakes.insert(0, queue);
    }

    /// It asks again: of those whom its waker wakes, it was the last.
    pub(super) fn woken(&mut self, queue: u32) {
        let waker = self.queues[queue as usize].inject.waker;
        if waker != NONE {
            let wakes = &mut self.queues[waker as usize].inject.wakes;
            wakes.retain(|&woken| woken != queue);
            wakes.insert(0, queue);
        }
    }

    /// A request of the queue in service goes out.
    pub(super) fn measure_from(&mut self, rq: u32) {
        if std::mem::take(&mut self.measuring.waits) {
            self.measuring.request = rq;
        }
    }

    /// The device has answered, and counts the request still.
    pub(super) fn measure_to(&mut self, now: Nanos, queue: u32, rq: u32) {
        if rq != self.measuring.request {
            return;
        }
        let (tick, took) = (self.tick(), now.since(self.measuring.since).0);
        let injected = self.measuring.injected;
        let (alone, most) = (self.in_device == 1, self.device_queue.most());
        let inject = &mut self.queues[queue as usize].inject;
        let old = inject.limit;
        if inject.plain_ns > 0 && injected {
            let slow = took >= inject.plain_ns * 3 / 2;
            if slow && old > 0 {
                inject.limit -= 1;
                inject.lowered = tick;
            } else if !slow && old <= most {
                inject.limit += 1;
            }
        }
        if inject.plain_ns == 0 && alone || took < inject.plain_ns {
            if inject.plain_ns == 0 {
                inject.limit = old.max(1);
            }
            inject.plain_ns = took;
        } else if !injected && alone {
            inject.plain_ns = took;
        }
        (self.measuring.request, self.measuring.injected) = (NONE, false);
    }

    /// The queue in service is awaited: whose request is sent meanwhile, if any.
    pub(super) fn inject(&mut self, pool: &Pool) -> Option<u32> {
        let active = self.active;
        let ready =
            |bfq: &Bfq, queue: u32| bfq.queues[queue as usize].busy && bfq.fits(pool, queue);
        let q = &self.queues[active as usize];
        // What the same process does not wait for does it no harm.
        if q.owner != NONE {
            let other = self.processes[q.owner as usize].unwaited;
            if other != NONE && ready(self, other) {
                let next = self.queues[other as usize].next;
                if pool[next].owner == q.owner {
                    return Some(other);
                }
            }
        }
        let (waker, woken) = (q.inject.waker, q.inject.wakes.first().copied());
        if waker != NONE && ready(self, waker) {
            return Some(waker);
        }
        if let Some(woken) = woken.filter(|&woken| ready(self, woken)) {
            return Some(woken);
        }
        let allowed = !self.idling_is_faster(active)
            && (!q.is_raised() || self.raised_busy > 1 || !q.thinks_briefly);
        if allowed { self.inject_any(pool) } else { None }
    }

    fn inject_any(&mut self, pool: &Pool) -> Option<u32> {
        let q = &self.queues[self.active as usize];
        let limit = q.inject.limit;
        if self.in_device >= limit {
            return None;
        }
        let whoever = !q.is_raised() || !q.thinks_briefly;
        let found = self.schedule.newest_first().find(|&other| {
            let q = &self.queues[other as usize];
            if !(whoever || q.is_raised()) || !self.fits(pool, other) {
                return false;
            }
            // One large request at a time on a device without an arm: it would be preferred.
            let large = !self.rotational && pool[q.next].what.sectors >= SHORT;
            self.in_device < if large { limit.min(1) } else { limit }
        });
        self.measuring.injected |= found.is_some();
        found
    }

    /// It has a request, and the budget for it.
    fn fits(&self, pool: &Pool, queue: u32) -> bool {
        let q = &self.queues[queue as usize];
        q.next != NONE && self.charge(pool, q.next, queue) as i64 <= q.entity.left()
    }
}

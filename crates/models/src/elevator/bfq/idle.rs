//! Whether the device is left idle for a queue that has nothing more at the moment: when that is
//! faster, as the next request will be near, or when its share would be lost otherwise.

use sim::Nanos;

use super::budget::End;
use super::device_queue::QUEUES;
use super::machine::Bfq;
use crate::elevator::linux::pool::{NONE, Pool};

/// The least time that is waited, for queues that seek.
const SHORT_WAIT: Nanos = Nanos::from_millis(2);
/// The least for raised queues.
const RAISED_WAIT: Nanos = Nanos::from_millis(20);
/// Of so many others' requests in the device those of a raised queue are told from.
const OTHERS: u32 = 4;
/// A queue is watched for so long.
const WATCHED_NS: u64 = 200_000_000;

impl Bfq {
    /// The device has answered; `in_device` counts that request still.
    pub(super) fn watch_device(&mut self) {
        let inside = self.in_device;
        // It could have more in the device if it had more.
        let too_few = |queue: usize| {
            let q = &self.queues[queue];
            q.thinks_briefly && q.dispatched + q.queued < QUEUES && inside < QUEUES
        };
        let idles = self.active != NONE && too_few(self.active as usize);
        if let Some(exists) = self.device_queue.sample(inside, self.queued, idles) {
            self.parallel_flash = !self.rotational && exists;
        }
    }

    /// The weights differ of those who ask, or their classes.
    pub(super) fn is_asymmetric(&self, queue: u32) -> bool {
        let entity = &self.queues[queue as usize].entity;
        let classes = self.busy.iter().filter(|&&busy| busy > 0).count();
        classes > 1 || self.schedule.weights.vary_for(entity)
    }

    /// Idling moves more: there is one place at a time, and the next request is near it.
    pub(super) fn idling_is_faster(&self, queue: u32) -> bool {
        let q = &self.queues[queue as usize];
        let one_place = self.rotational && !self.device_queue.exists();
        let comes_back = !q.is_seeky() && q.io_bound && q.thinks_briefly;
        let faster = one_place || (self.rotational || !self.device_queue.exists()) && comes_back;
        // It must not keep those waiting who are raised.
        q.processes > 0 && faster && self.raised_busy == 0
    }

    /// Without it, others would get what belongs to this queue.
    pub(super) fn idling_is_fair(&self, queue: u32) -> bool {
        let q = &self.queues[queue as usize];
        let busy = self.busy_queues();
        let others = self.raised_busy < busy || self.in_device >= q.dispatched + OTHERS;
        q.processes > 0 && (q.is_raised() && others || self.is_asymmetric(queue) || busy == 1)
    }

    pub(super) fn should_idle(&self, queue: u32) -> bool {
        let q = &self.queues[queue as usize];
        let ever = self.params.slice_idle.0 > Nanos::ZERO && q.sync && !q.is_idle_class();
        ever && (self.idling_is_faster(queue) || self.idling_is_fair(queue))
    }

    /// From now on the device is left idle for the queue in service.
    pub(super) fn start_idling(&mut self, now: Nanos) {
        let q = &self.queues[self.active as usize];
        let idle = self.params.slice_idle.0;
        let time = if q.is_raised() {
            idle.max(RAISED_WAIT)
        } else if q.is_seeky() && !self.is_asymmetric(self.active) {
            idle.min(SHORT_WAIT)
        } else {
            idle
        };
        self.queues[self.active as usize].awaited = true;
        self.idling.start(now, time);
    }

    /// A request comes: how long did its process think? Only the time counts in which it had
    /// nothing out.
    pub(super) fn learn_thinking(&mut self, now: Nanos, queue: u32) {
        let idle = self.params.slice_idle.0;
        let tick = self.tick();
        let q = &mut self.queues[queue as usize];
        if q.dispatched == 0 && !q.busy {
            q.think.add(now.since(q.answered).0.min(2 * idle.0));
        }
        let settled = q.split + self.ticks.raise.away < tick;
        if !q.sync || q.is_idle_class() || idle == Nanos::ZERO || !settled {
            return;
        }
        let briefly = !q.think.is_valid() || q.think.mean <= idle.0 / 2;
        let changed = std::mem::replace(&mut q.thinks_briefly, briefly) != briefly;
        if changed {
            self.think_changed(queue);
        }
    }

    /// Is it busy for most of the time?
    pub(super) fn watch_io(&mut self, now: Nanos, queue: u32) {
        let q = &mut self.queues[queue as usize];
        if q.is_empty() && q.dispatched == 0 {
            q.idle_ns += now.since(q.answered).0;
        }
        if q.new {
            return;
        }
        let watched = now.since(q.watched_since).0;
        q.io_bound = q.idle_ns * 5 <= watched;
        if watched > WATCHED_NS {
            q.watched_since = Nanos(now.0 - watched / 2);
            q.idle_ns /= 2;
        }
    }

    /// A request came to the queue that the device was left idle for. It stays so while more may
    /// follow that a short one can be joined with; whoever looks at the queue ends it.
    pub(super) fn came_back(&mut self, now: Nanos, pool: &Pool, queue: u32, sectors: u32) {
        let over = self.is_time_over(queue);
        let q = &self.queues[queue as usize];
        let may_grow = q.queued == 1 && sectors < 32;
        if may_grow && !over && self.idling_is_faster(queue) {
            return;
        }
        self.stop_idling(now);
        if over {
            self.end_turn(now, pool, false, End::Timeout);
        }
    }

    pub(super) fn stop_idling(&mut self, now: Nanos) {
        self.queues[self.active as usize].awaited = false;
        self.idling.won(now);
    }
}

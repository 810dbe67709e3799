//! A queue of requests, and what is known of whoever fills it.

use sim::{Nanos, Priority, PriorityClass, snapshot_fields};

use super::entity::Entity;
use super::epoch::{FIRST_TICK, LONG_AGO};
use super::inject::Injecting;
use super::raise::Raise;

use crate::elevator::linux::habits::Fading;
use crate::elevator::linux::pool::{Fifo, NONE};
use crate::elevator::linux::sorted::Sorted;

/// A queue seeks when more of its last 32 requests did.
const SEEKY: u32 = 19;

/// Class and weight of a priority.
pub(super) fn class_and_weight(priority: Priority) -> (usize, u64) {
    let class = match priority.class() {
        PriorityClass::RealTime => 0,
        PriorityClass::None | PriorityClass::BestEffort => 1,
        PriorityClass::Idle => 2,
    };
    let level = if class == 2 { Priority::LEVELS - 1 } else { priority.level() };
    (class, 10 * u64::from(Priority::LEVELS - level))
}

/// Requests that are served together.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) entity: Entity,
    pub(super) class: usize,
    /// What `class` will be when it next enters a tree.
    pub(super) next_class: usize,
    pub(super) sync: bool,
    /// The only process that fills it; [`NONE`] for several, or none.
    pub(super) owner: u32,
    /// Processes that fill it, or soon will.
    pub(super) processes: u32,
    /// The queue that it will be joined with.
    pub(super) joins: u32,
    pub(super) sorted: Sorted,
    pub(super) fifo: Fifo,
    pub(super) next: u32,
    /// Requests in it and in the device, and all of these together.
    pub(super) queued: u32,
    pub(super) dispatched: u32,
    pub(super) allocated: u32,
    /// The budget of a full turn.
    pub(super) full_budget: u64,
    /// It asks, or has its turn.
    pub(super) busy: bool,
    /// The device is left idle for it.
    pub(super) awaited: bool,
    /// It left its turn since it had nothing more, and may go on with the rest of its budget.
    pub(super) may_go_on: bool,
    /// The oldest request was looked at in this turn.
    pub(super) fifo_checked: bool,
    /// Its process comes back soon after an answer.
    pub(super) thinks_briefly: bool,
    /// Four fifths of the time it has something to do.
    pub(super) io_bound: bool,
    pub(super) new: bool,
    pub(super) in_large_burst: bool,
    pub(super) in_burst_list: bool,
    /// Several processes fill it; and they should no longer.
    pub(super) shared: bool,
    pub(super) to_split: bool,
    /// It can be found by where its next request is.
    pub(super) findable: bool,
    /// In ticks: the end of its turn, or when it was last left with nothing, here or in the device.
    pub(super) timeout: u64,
    pub(super) created: u64,
    pub(super) split: u64,
    /// Of its last 32 requests, which were seeks.
    pub(super) seeks: u32,
    pub(super) last_end: u64,
    pub(super) think: Fading,
    pub(super) answered: Nanos,
    /// Since when it is watched for `io_bound`, and for how long it had nothing to do.
    pub(super) watched_since: Nanos,
    pub(super) idle_ns: u64,
    pub(super) raise: Raise,
    /// Sectors since it last had nothing, and the tick of the first of them.
    pub(super) service_since_idle: u64,
    pub(super) first_service: u64,
    pub(super) inject: Injecting,
}

snapshot_fields!(Queue {
    entity,
    class,
    next_class,
    sync,
    owner,
    processes,
    joins,
    sorted,
    fifo,
    next,
    queued,
    dispatched,
    allocated,
    full_budget,
    busy,
    awaited,
    may_go_on,
    fifo_checked,
    thinks_briefly,
    io_bound,
    new,
    in_large_burst,
    in_burst_list,
    shared,
    to_split,
    findable,
    timeout,
    created,
    split,
    seeks,
    last_end,
    think,
    answered,
    watched_since,
    idle_ns,
    raise,
    service_since_idle,
    first_service,
    inject,
});

impl Default for Queue {
    fn default() -> Queue {
        Queue::new(Nanos::ZERO, FIRST_TICK, false, Priority::NONE, 0)
    }
}

impl Queue {
    pub(super) fn new(
        now: Nanos,
        tick: u64,
        sync: bool,
        priority: Priority,
        full_budget: u64,
    ) -> Queue {
        let (class, weight) = class_and_weight(priority);
        let entity = Entity {
            weight,
            plain: weight,
            next_plain: weight,
            changed: true,
            ..Entity::default()
        };
        Queue {
            entity,
            class,
            next_class: class,
            sync,
            owner: NONE,
            processes: 0,
            joins: NONE,
            sorted: Sorted::default(),
            fifo: Fifo::default(),
            next: NONE,
            queued: 0,
            dispatched: 0,
            allocated: 0,
            full_budget,
            busy: false,
            awaited: false,
            may_go_on: false,
            fifo_checked: false,
            thinks_briefly: sync && class != 2,
            io_bound: true,
            new: sync,
            in_large_burst: false,
            in_burst_list: false,
            shared: false,
            to_split: false,
            findable: false,
            timeout: LONG_AGO,
            created: tick,
            split: LONG_AGO,
            // The first request is a seek, nearly always.
            seeks: 1,
            last_end: 0,
            think: Fading::default(),
            answered: now,
            watched_since: now,
            idle_ns: 0,
            raise: Raise::new(tick),
            service_since_idle: 0,
            first_service: tick,
            inject: Injecting::default(),
        }
    }

    pub(super) fn entity_mut(&mut self) -> (usize, &mut Entity) {
        (self.class, &mut self.entity)
    }

    pub(super) fn is_idle_class(&self) -> bool {
        self.class == 2
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued == 0
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raise.factor > 1
    }

    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.count_ones() > SEEKY
    }

    /// Every one of its last 32 requests was a seek.
    pub(super) fn only_seeks(&self) -> bool {
        self.seeks == u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_seeks_of_the_last_32_requests_make_a_queue_seeky() {
        let mut queue = Queue { seeks: 0, ..Queue::default() };
        for (seeks, seeky) in [(19, false), (20, true), (32, true)] {
            queue.seeks = u32::MAX >> (32 - seeks);
            assert_eq!(queue.is_seeky(), seeky, "{seeks}");
        }
        assert!(queue.only_seeks());
    }

    #[test]
    fn the_idle_class_has_the_least_weight() {
        let of = |class, level| class_and_weight(Priority::new(class, level));
        assert_eq!(of(PriorityClass::RealTime, 0), (0, 80));
        assert_eq!(of(PriorityClass::Idle, 0), (2, 10));
        assert_eq!(class_and_weight(Priority::NONE), (1, 40));
    }
}

//! The queues of cfq and the order of their turns.

use std::collections::BTreeSet;

use sim::{Nanos, Priority, PriorityClass, Request, snapshot_fields};

use crate::elevator::linux::owners::Owners;
use crate::elevator::linux::pool::{Fifo, NONE};
use crate::elevator::linux::sorted::Sorted;

/// Requests that take turns together.
#[derive(Clone, Debug)]
pub(super) struct TurnQueue {
    pub(super) sync: bool,
    pub(super) priority: Priority,
    pub(super) sorted: Sorted,
    pub(super) fifo: Fifo,
    /// The best candidate.
    pub(super) next: u32,
    /// Sent and not answered.
    pub(super) dispatched: u32,
    /// Sent in this turn.
    pub(super) sent: u32,
    /// Its slice has not begun: that is with its first answer.
    pub(super) slice_new: bool,
    pub(super) slice_end: Nanos,
    /// What was left of the last slice; less than nothing when it took longer.
    pub(super) rest: i64,
    /// Is it worth while to wait for its next request?
    pub(super) idles: bool,
    /// That is being done.
    pub(super) waited_for: bool,
    /// The oldest request was looked at in this slice.
    pub(super) fifo_checked: bool,
    /// Its place among the queues that have requests.
    place: Option<ServiceKey>,
}

snapshot_fields!(TurnQueue {
    sync,
    priority,
    sorted,
    fifo,
    next,
    dispatched,
    sent,
    slice_new,
    slice_end,
    rest,
    idles,
    waited_for,
    fifo_checked,
    place,
});

impl Default for TurnQueue {
    fn default() -> TurnQueue {
        TurnQueue {
            sync: false,
            priority: Priority::NONE,
            sorted: Sorted::default(),
            fifo: Fifo::default(),
            next: NONE,
            dispatched: 0,
            sent: 0,
            slice_new: false,
            slice_end: Nanos::ZERO,
            rest: 0,
            idles: false,
            waited_for: false,
            fifo_checked: false,
            place: None,
        }
    }
}

impl TurnQueue {
    pub(super) fn is_idle_class(&self) -> bool {
        self.priority.class() == PriorityClass::Idle
    }

    /// As the kernel has it: the idle class has the lowest level.
    pub(super) fn level(&self) -> u8 {
        if self.is_idle_class() { Priority::LEVELS - 1 } else { self.priority.level() }
    }

    pub(super) fn has_used_slice(&self, now: Nanos) -> bool {
        !self.slice_new && now >= self.slice_end
    }

    pub(super) fn is_busy(&self) -> bool {
        self.place.is_some()
    }
}

/// (class, when, order of coming): queues are served from the least on.
type ServiceKey = (u8, i64, u64);

/// All queues.
#[derive(Clone, Default, Debug)]
pub(super) struct Turns {
    pub(super) all: Vec<TurnQueue>,
    pub(super) owners: Owners,
    /// Those with requests: (place, queue).
    service: BTreeSet<(ServiceKey, u32)>,
    stamp: u64,
}

snapshot_fields!(Turns { all, owners, service, stamp });

impl Turns {
    /// The queue of a request by the process of this number.
    pub(super) fn of(&mut self, what: &Request, owner: u32) -> u32 {
        if let Some(known) = self.owners.queue(what, owner) {
            return known;
        }
        let sync = what.is_sync();
        let queue = self.all.len() as u32;
        let idles = sync && what.priority.class() != PriorityClass::Idle;
        self.all.push(TurnQueue { sync, priority: what.priority, idles, ..TurnQueue::default() });
        self.owners.assign(what, owner, queue);
        queue
    }

    /// Queues with requests.
    pub(super) fn busy(&self) -> u32 {
        self.service.len() as u32
    }

    /// Give a queue its place, or a new one: by `key`, the earlier the sooner; before all others of
    /// its class without one.
    pub(super) fn put(&mut self, queue: u32, key: Option<i64>) {
        self.drop(queue);
        self.stamp += 1;
        let turn = &mut self.all[queue as usize];
        let class = match turn.priority.class() {
            PriorityClass::RealTime => 0,
            PriorityClass::None | PriorityClass::BestEffort => 1,
            PriorityClass::Idle => 2,
        };
        let place = (class, key.unwrap_or(i64::MIN), self.stamp);
        turn.place = Some(place);
        self.service.insert((place, queue));
    }

    /// A queue has no requests any more.
    pub(super) fn drop(&mut self, queue: u32) {
        if let Some(place) = self.all[queue as usize].place.take() {
            self.service.remove(&(place, queue));
        }
    }

    /// The last place, unless somebody there has jumped the line.
    pub(super) fn last_key(&self) -> Option<i64> {
        self.service.last().map(|&((_, key, _), _)| key).filter(|&key| key != i64::MIN)
    }

    /// Whose turn it is.
    pub(super) fn first(&self) -> Option<u32> {
        self.service.first().map(|&(_, queue)| queue)
    }
}

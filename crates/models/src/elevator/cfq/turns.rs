//! The queues of cfq and the order of their turns.

use std::collections::{BTreeMap, BTreeSet};

use sim::{Nanos, Priority, PriorityClass, Request, snapshot_fields};

use crate::elevator::linux::habits::Habits;
use crate::elevator::linux::pool::{Fifo, NONE};
use crate::elevator::linux::sorted::Sorted;

/// Requests that take turns together.
#[derive(Clone, Debug)]
pub(super) struct Turn {
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
    place: Option<Place>,
}

snapshot_fields!(Turn {
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

impl Default for Turn {
    fn default() -> Turn {
        Turn {
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

impl Turn {
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
type Place = (u8, i64, u64);

/// All queues.
#[derive(Clone, Default, Debug)]
pub(super) struct Turns {
    pub(super) all: Vec<Turn>,
    /// Numbers of processes.
    numbers: BTreeMap<u32, u32>,
    /// By number: the queue of a process, and what is known of it.
    processes: Vec<(u32, Habits)>,
    /// Of priorities, for all that nobody waits for.
    shared: BTreeMap<u8, u32>,
    /// Those with requests: (place, queue).
    service: BTreeSet<(Place, u32)>,
    stamp: u64,
}

snapshot_fields!(Turns { all, numbers, processes, shared, service, stamp });

/// Which shared queue a priority goes to.
fn shelf(priority: Priority) -> u8 {
    match priority.class() {
        PriorityClass::RealTime => priority.level(),
        PriorityClass::None | PriorityClass::BestEffort => 8 + priority.level(),
        PriorityClass::Idle => 16,
    }
}

impl Turns {
    /// The queue of a request, if there is one yet.
    pub(super) fn find(&self, what: &Request) -> Option<u32> {
        match what.is_sync() {
            true => self.numbers.get(&what.process).map(|&n| self.processes[n as usize].0),
            false => self.shared.get(&shelf(what.priority)).copied(),
        }
        .filter(|&queue| queue != NONE)
    }

    /// The number of a process.
    pub(super) fn number(&mut self, process: u32) -> u32 {
        if let Some(&number) = self.numbers.get(&process) {
            return number;
        }
        let number = self.processes.len() as u32;
        self.processes.push((NONE, Habits::default()));
        self.numbers.insert(process, number);
        number
    }

    /// The queue of a request by the process of this number.
    pub(super) fn of(&mut self, what: &Request, owner: u32) -> u32 {
        let sync = what.is_sync();
        let known = match sync {
            true => self.processes[owner as usize].0,
            false => self.shared.get(&shelf(what.priority)).copied().unwrap_or(NONE),
        };
        if known != NONE {
            return known;
        }
        let queue = self.all.len() as u32;
        let idles = sync && what.priority.class() != PriorityClass::Idle;
        self.all.push(Turn { sync, priority: what.priority, idles, ..Turn::default() });
        match sync {
            true => self.processes[owner as usize].0 = queue,
            false => _ = self.shared.insert(shelf(what.priority), queue),
        }
        queue
    }

    pub(super) fn habits(&mut self, owner: u32) -> &mut Habits {
        &mut self.processes[owner as usize].1
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

    /// Whose turn it is.
    pub(super) fn first(&self) -> Option<u32> {
        self.service.first().map(|&(_, queue)| queue)
    }
}

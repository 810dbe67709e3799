//! The state machine: requests come, turns begin and end, requests go.

use sim::{Nanos, Request, snapshot_fields};

use super::Params;
use super::burst::Burst;
use super::device_queue::DeviceQueue;
use super::entity::Place;
use super::inject::Measuring;
use super::process::Process;
use super::queue::{Queue, class_and_weight};
use super::rate::Rate;
use super::service::{CLASSES, Schedule};
use super::ticks::Ticks;
use crate::elevator::Context;
use crate::elevator::linux::idling::Idling;
use crate::elevator::linux::names::Names;
use crate::elevator::linux::pool::{NONE, Pool};
use crate::elevator::linux::sorted::OneWay;
use crate::elevator::linux::tags::map::Words;

/// Budget in sectors until enough turns were seen.
pub(super) const FIRST_BUDGET: u64 = 16 * 1024;
/// Levels of a class, and one queue for the idle class.
const SHELVES: usize = 2 * 8 + 1;

#[derive(Clone, Debug)]
pub(super) struct Bfq {
    pub(super) params: Params,
    pub(super) nr_requests: u32,
    /// Of them, those of a word of their map.
    pub(super) word: u32,
    pub(super) rotational: bool,
    pub(super) ticks: Ticks,
    pub(super) queues: Vec<Queue>,
    pub(super) processes: Vec<Process>,
    pub(super) names: Names,
    /// By priority: the queues for what nobody waits for.
    shelves: [u32; SHELVES],
    pub(super) schedule: Schedule,
    /// The queue whose turn it is, and since when.
    pub(super) active: u32,
    pub(super) began: Nanos,
    /// Where its last request ended.
    pub(super) active_position: u64,
    pub(super) idling: Idling,
    /// Busy queues by class, and those of them that are raised.
    pub(super) busy: [u32; CLASSES],
    pub(super) raised_busy: u32,
    /// Requests that wait, and that are in the device.
    pub(super) queued: u32,
    pub(super) in_device: u32,
    pub(super) device_queue: DeviceQueue,
    /// It does not rotate and queues requests itself.
    pub(super) parallel_flash: bool,
    /// When the device last answered, and whom.
    pub(super) last_answer: Nanos,
    pub(super) last_answered: u32,
    pub(super) rate: Rate,
    /// Turns seen: a mean that grows to 256.
    pub(super) turns: u64,
    pub(super) measured_budget: u64,
    pub(super) measuring: Measuring,
    pub(super) burst: Burst,
    pub(super) last_created: u32,
}

snapshot_fields!(Bfq {
    queues,
    processes,
    names,
    shelves,
    schedule,
    active,
    began,
    active_position,
    idling,
    busy,
    raised_busy,
    queued,
    in_device,
    device_queue,
    parallel_flash,
    last_answer,
    last_answered,
    rate,
    turns,
    measured_budget,
    measuring,
    burst,
    last_created,
});

impl Bfq {
    pub(super) fn new(params: Params, context: &Context) -> Bfq {
        let rotational = context.rotational;
        let ticks = Ticks::new(&params, rotational);
        Bfq {
            params,
            nr_requests: context.nr_requests,
            word: Words::of(context.nr_requests).requests,
            rotational,
            ticks,
            queues: Vec::new(),
            processes: Vec::new(),
            names: Names::default(),
            shelves: [NONE; SHELVES],
            schedule: Schedule::new(ticks.at(Nanos::ZERO), ticks.idle_class),
            active: NONE,
            began: Nanos::ZERO,
            active_position: 0,
            idling: Idling::default(),
            busy: [0; CLASSES],
            raised_busy: 0,
            queued: 0,
            in_device: 0,
            device_queue: DeviceQueue::default(),
            parallel_flash: !rotational,
            last_answer: Nanos::ZERO,
            last_answered: NONE,
            rate: Rate::new(rotational),
            turns: 0,
            measured_budget: FIRST_BUDGET,
            measuring: Measuring::default(),
            burst: Burst::new(ticks.burst_interval),
            last_created: NONE,
        }
    }

    pub(super) fn tick(&self) -> u64 {
        self.schedule.tick
    }

    pub(super) fn set_time(&mut self, now: Nanos) {
        self.schedule.tick = self.ticks.at(now);
    }

    /// Queues that ask, or have their turn.
    pub(super) fn busy_queues(&self) -> u32 {
        self.busy.iter().sum()
    }

    pub(super) fn way(&self) -> OneWay {
        let Params { back_seek_max, back_seek_penalty, .. } = self.params;
        OneWay { last: self.rate.position, back_max: back_seek_max * 2, penalty: back_seek_penalty }
    }

    /// The queue that a request goes to, which may be a new one.
    pub(super) fn queue_of(&mut self, now: Nanos, what: &Request, process: u32) -> u32 {
        let sync = what.is_sync();
        self.check_priority(what, process);
        let mut queue = self.processes[process as usize].queue(sync);
        if queue == NONE {
            queue = self.create(now, what, process);
            if sync {
                self.begin_together(what, process, queue);
                queue = self.processes[process as usize].waited;
            }
        } else {
            let q = &self.queues[queue as usize];
            let split = q.shared && q.to_split && !self.processes[process as usize].stably_joined;
            if split {
                queue = self.split(now, what, process, queue);
            }
        }
        let none_busy = self.busy_queues() == 0;
        let tick = self.tick();
        let q = &mut self.queues[queue as usize];
        if q.joins == NONE && q.processes == 1 {
            q.owner = process;
        }
        let rested = q.split + self.ticks.after_split < tick;
        if q.new && rested && (self.burst.size > 0 || none_busy) {
            self.burst.join(&mut self.queues, queue, tick, none_busy);
        }
        queue
    }

    /// Whoever has another priority now has it from its next turn on.
    fn check_priority(&mut self, what: &Request, process: u32) {
        let p = &mut self.processes[process as usize];
        if p.priority == what.priority {
            return;
        }
        p.priority = what.priority;
        let unwaited = std::mem::replace(&mut p.unwaited, NONE);
        if unwaited != NONE {
            self.leave_queue(unwaited);
        }
        let p = &self.processes[process as usize];
        if p.waited != NONE {
            let q = &mut self.queues[p.waited as usize];
            (q.next_class, q.entity.next_plain) = class_and_weight(what.priority);
            q.entity.changed = true;
        }
    }

    /// A queue for this process; what nobody waits for shares one of the same priority.
    pub(super) fn create(&mut self, now: Nanos, what: &Request, process: u32) -> u32 {
        let sync = what.is_sync();
        let (class, _) = class_and_weight(what.priority);
        let shelf =
            if class == 2 { SHELVES - 1 } else { 8 * class + usize::from(what.priority.level()) };
        let mut queue = if sync { NONE } else { self.shelves[shelf] };
        if queue == NONE {
            queue = self.queues.len() as u32;
            let budget = 2 * self.max_budget() / 3;
            self.queues.push(Queue::new(now, self.tick(), sync, what.priority, budget));
        }
        if sync {
            self.processes[process as usize].waited = queue;
            self.queues[queue as usize].processes = 1;
        } else {
            let q = &mut self.queues[queue as usize];
            if self.shelves[shelf] == NONE {
                // The elevator keeps it, whoever comes.
                q.processes = 1;
            }
            q.processes += 1;
            self.shelves[shelf] = queue;
            self.processes[process as usize].unwaited = queue;
        }
        queue
    }

    /// Requests of a process that works on the same place as another go to that one's queue.
    pub(super) fn join_at_insert(&mut self, pool: &Pool, queue: u32, rq: u32) -> u32 {
        let what = pool[rq].what;
        let Some(partner) = self.partner(pool, queue, &what) else { return queue };
        self.join_up_to(pool[rq].owner, queue, partner);
        // Only now: what is joined before its first request is raised when it is split again.
        self.queues[queue as usize].new = false;
        partner
    }

    pub(super) fn insert(&mut self, now: Nanos, pool: &mut Pool, rq: u32, queue: u32) {
        let (what, process) = (pool[rq].what, pool[rq].owner);
        let first = self.processes[process as usize].requests <= 1;
        if self.queues[queue as usize].sync {
            if first {
                self.first_request(now, queue);
            }
            self.watch_io(now, queue);
        }
        let way = self.way();
        let q = &mut self.queues[queue as usize];
        let (was_raised, old) = (q.is_raised(), q.next);
        q.queued += 1;
        self.queued += 1;
        q.sorted.insert(pool, rq);
        q.next = way.choose(pool, Some(old).filter(|&old| old != NONE), Some(rq)).unwrap_or(rq);
        let changed = q.next != old;
        let mut away = false;
        if changed {
            self.place_found(queue);
        }
        if !self.queues[queue as usize].busy {
            away = self.becomes_busy(now, pool, queue, process);
        } else {
            if !what.is_sync() && !was_raised {
                self.raise_async(queue);
            }
            if changed {
                self.next_changed(pool, queue);
            }
        }
        let tick = self.tick();
        let q = &mut self.queues[queue as usize];
        if self.params.low_latency && (!was_raised || !q.is_raised() || away) {
            q.raise.since = tick;
        }
    }

    /// A queue had nothing and asks. Returns whether it was long away.
    fn becomes_busy(&mut self, now: Nanos, pool: &Pool, queue: u32, process: u32) -> bool {
        let in_time =
            now.0 <= self.queues[queue as usize].answered.0 + 3 * self.params.slice_idle.0.0;
        let stable = self.processes[process as usize].stably_joined;
        let deserves = self.deserves(queue, stable);
        let goes_on = self.budget_at_arrival(pool, queue, in_time);
        self.queues[queue as usize].new = false;
        let away = self.raise_at_arrival(queue, deserves);
        let tick = self.tick();
        let q = &mut self.queues[queue as usize];
        (q.raise.asked, q.raise.look_again) = (tick, false);
        q.service_since_idle = 0;
        let may_go_on = std::mem::take(&mut q.may_go_on);
        self.schedule.activate(&mut self.queues, queue, may_go_on);
        self.now_busy(queue);
        self.preempt(now, pool, queue, goes_on);
        away
    }

    fn now_busy(&mut self, queue: u32) {
        let q = &mut self.queues[queue as usize];
        q.busy = true;
        self.busy[q.class] += 1;
        if q.is_raised() {
            self.raised_busy += 1;
        } else if q.dispatched == 0 {
            self.schedule.weights.add(&mut q.entity);
        }
        self.woken(queue);
    }

    pub(super) fn not_busy(&mut self, queue: u32, turn_over: bool) {
        let q = &mut self.queues[queue as usize];
        q.busy = false;
        self.busy[q.class] -= 1;
        self.raised_busy -= u32::from(q.is_raised());
        self.schedule.deactivate(&mut self.queues, queue, turn_over);
        let q = &mut self.queues[queue as usize];
        if q.dispatched == 0 {
            self.schedule.weights.remove(&mut q.entity);
        }
    }

    /// The request after `rq` in its queue: the oldest one, once in a turn, when its time is over;
    /// else the nearest.
    fn successor(&mut self, now: Nanos, pool: &Pool, rq: u32) -> u32 {
        let expire = self.params.fifo_expire(pool[rq].is_sync());
        let way = OneWay { last: pool[rq].start(), ..self.way() };
        let q = &mut self.queues[pool[rq].queue as usize];
        if !std::mem::replace(&mut q.fifo_checked, true)
            && let Some(oldest) = q.fifo.head()
            && oldest != rq
            && now >= pool[oldest].time + expire
        {
            return oldest;
        }
        q.sorted.neighbour(pool, rq, &way).unwrap_or(NONE)
    }

    /// A request leaves its queue.
    pub(super) fn remove(&mut self, now: Nanos, pool: &mut Pool, rq: u32) {
        let queue = pool[rq].queue;
        if self.queues[queue as usize].next == rq {
            let next = self.successor(now, pool, rq);
            self.queues[queue as usize].next = next;
            self.next_changed(pool, queue);
        }
        let q = &mut self.queues[queue as usize];
        q.fifo.remove(pool, rq);
        q.sorted.remove(pool, rq);
        q.queued -= 1;
        self.queued -= 1;
        if !q.is_empty() {
            return self.place_found(queue);
        }
        (q.next, q.findable) = (NONE, false);
        if q.busy && queue != self.active {
            self.not_busy(queue, false);
            let entity = &mut self.queues[queue as usize].entity;
            (entity.budget, entity.service) = (0, 0);
        }
    }

    /// A process has more requests than its share of the pool.
    pub(super) fn is_over_share(&self, what: &Request, limit: u32) -> bool {
        let Some(process) = self.names.find(what.process) else { return false };
        let queue = self.processes[process as usize].queue(what.is_sync());
        if queue == NONE {
            return false;
        }
        let q = &self.queues[queue as usize];
        if q.entity.place == Place::Out {
            return false;
        }
        let all = self.schedule.weights_up_to(q.class).fold(0, |sum, weights| sum * 8 + weights);
        let share = u64::from(limit) * q.entity.weight;
        all > 0 && u64::from(q.allocated) >= (share + all / 2) / all
    }
}

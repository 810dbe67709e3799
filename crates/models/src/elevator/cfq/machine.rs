//! The state machine: whose turn it is, what of it goes next, and when to wait for more.

use sim::{Counters, Nanos, PriorityClass, Request, snapshot_fields};

use super::Params;
use super::turns::Turns;
use crate::elevator::Policy;
use crate::elevator::linux::idling::Idling;
use crate::elevator::linux::pool::{NONE, Piece, Pool};
use crate::elevator::linux::sorted::OneWay;

/// Levels of a class.
const LEVELS: u64 = 8;
/// A slice is this many parts longer or shorter per level.
const SLICE_SCALE: u64 = 5;
/// A process that seeks is waited for no longer than this.
const SEEKY_IDLE: Nanos = Nanos::from_millis(2);
/// It seeks when its mean distance is more sectors than this.
const SEEKY: u64 = 8 * 1024;
/// The idle class has its place so long behind whoever is last.
const IDLE_DELAY: Nanos = Nanos::from_millis(200);
/// A device that had more requests at once sorts them itself.
const QUEUES_ITSELF: u32 = 4;

#[derive(Clone, Debug)]
pub(super) struct Cfq {
    params: Params,
    turns: Turns,
    /// The queue whose turn it is.
    active: u32,
    /// The number of the process that began its slice.
    active_process: Option<u32>,
    /// Waiting for it.
    idling: Idling,
    /// Where the device is.
    position: u64,
    in_device: u32,
    sync_out: u32,
    queues_itself: bool,
}

snapshot_fields!(Cfq {
    turns,
    active,
    active_process,
    idling,
    position,
    in_device,
    sync_out,
    queues_itself,
});

impl Cfq {
    pub(super) fn new(params: Params) -> Cfq {
        Cfq {
            params,
            turns: Turns::default(),
            active: NONE,
            active_process: None,
            idling: Idling::default(),
            position: 0,
            in_device: 0,
            sync_out: 0,
            queues_itself: false,
        }
    }

    fn way(&self) -> OneWay {
        let Params { back_seek_max, back_seek_penalty, .. } = self.params;
        OneWay { last: self.position, back_max: back_seek_max * 2, penalty: back_seek_penalty }
    }

    fn slice(&self, sync: bool, level: u8) -> u64 {
        let base = if sync { self.params.slice_sync } else { self.params.slice_async };
        let (base, step) = (base.0.0, base.0.0 / SLICE_SCALE);
        // Level 4 has the base, 7 three steps less.
        base + step * 4 - step * u64::from(level)
    }

    /// Give a queue with requests its place by time.
    fn place(&mut self, now: Nanos, queue: u32) {
        let turn = &self.turns.all[queue as usize];
        if turn.is_idle_class() {
            let last = self.turns.last_key().unwrap_or(now.0 as i64);
            return self.turns.put(queue, Some(last.saturating_add(IDLE_DELAY.0 as i64)));
        }
        let others = u64::from(self.turns.busy() + u32::from(!turn.is_busy())) - 1;
        let behind = self.slice(true, 0).saturating_sub(self.slice(turn.sync, turn.level()));
        let key = (now.0 + others * behind) as i64 + turn.rest;
        self.turns.all[queue as usize].rest = 0;
        self.turns.put(queue, Some(key));
    }

    /// The turn of the active queue is over. `keep` what is left of its slice for the next one.
    fn end_turn(&mut self, now: Nanos, keep: bool) {
        if self.active == NONE {
            return;
        }
        self.idling.stop(now);
        let turn = &mut self.turns.all[self.active as usize];
        turn.waited_for = false;
        if keep && !turn.slice_new {
            turn.rest = turn.slice_end.0 as i64 - now.0 as i64;
        }
        if turn.is_busy() {
            self.place(now, self.active);
        }
        (self.active, self.active_process) = (NONE, None);
    }

    /// Begin the turn of the first queue in the order.
    fn begin_turn(&mut self) -> Option<u32> {
        let queue = self.turns.first()?;
        let turn = &mut self.turns.all[queue as usize];
        (turn.slice_end, turn.slice_new, turn.fifo_checked) = (Nanos::ZERO, true, false);
        turn.sent = 0;
        self.active = queue;
        Some(queue)
    }

    /// The queue that may send; `None` when there is none, or the active one is waited for.
    fn select(&mut self, now: Nanos) -> Option<u32> {
        if self.active != NONE {
            let turn = &self.turns.all[self.active as usize];
            if !turn.has_used_slice(now) {
                if turn.is_busy() {
                    return Some(self.active);
                }
                if self.idling.is_on() || turn.dispatched > 0 && turn.idles {
                    return None;
                }
            }
            self.end_turn(now, false);
        }
        self.begin_turn()
    }

    /// Requests that a queue nobody waits for may send in a turn.
    fn async_max(&self, level: u8) -> u32 {
        let base = u64::from(self.params.slice_async_rq);
        (2 * (base + base * (LEVELS - 1 - u64::from(level)))) as u32
    }

    /// Send requests of a queue, at most `max`.
    fn send(&mut self, now: Nanos, pool: &mut Pool, queue: u32, max: u32, out: &mut Vec<u32>) {
        let mut sent = 0;
        while sent < max && self.turns.all[queue as usize].is_busy() {
            let rq = self.expired(now, pool, queue);
            let rq = rq.unwrap_or(self.turns.all[queue as usize].next);
            self.active_process.get_or_insert(pool[rq].owner);
            self.take(pool, rq, out);
            sent += 1;
        }
        self.turns.all[queue as usize].sent += sent;
        let turn = &self.turns.all[queue as usize];
        let used = !turn.sync && turn.sent >= self.async_max(turn.level()) || turn.is_idle_class();
        if used && self.turns.busy() > 1 {
            self.end_turn(now, false);
        }
    }

    /// The oldest request of a queue if it has waited long; looked at once per slice.
    fn expired(&mut self, now: Nanos, pool: &Pool, queue: u32) -> Option<u32> {
        let turn = &mut self.turns.all[queue as usize];
        if std::mem::replace(&mut turn.fifo_checked, true) {
            return None;
        }
        let expire = if turn.sync {
            self.params.fifo_expire_sync.0
        } else {
            self.params.fifo_expire_async.0
        };
        turn.fifo.head().filter(|&rq| now >= pool[rq].time + expire)
    }

    /// A request leaves for the device.
    fn take(&mut self, pool: &mut Pool, rq: u32, out: &mut Vec<u32>) {
        let queue = pool[rq].queue;
        self.forget(pool, rq);
        let turn = &mut self.turns.all[queue as usize];
        turn.dispatched += 1;
        self.sync_out += u32::from(turn.sync);
        out.push(rq);
    }

    fn forget(&mut self, pool: &mut Pool, rq: u32) {
        self.turns.all[pool[rq].queue as usize].fifo.remove(pool, rq);
        self.leave_order(pool, rq);
    }

    fn leave_order(&mut self, pool: &Pool, rq: u32) {
        let (queue, way) = (pool[rq].queue, self.way());
        let turn = &mut self.turns.all[queue as usize];
        if turn.next == rq {
            turn.next = turn.sorted.neighbour(pool, rq, &way).unwrap_or(NONE);
        }
        turn.sorted.remove(pool, rq);
        if turn.sorted.is_empty() {
            self.turns.drop(queue);
        }
    }

    /// A process asks: is it worth while to wait for it after its next answer?
    fn learn(&mut self, now: Nanos, pool: &Pool, rq: u32) {
        let (what, idle) = (pool[rq].what, self.params.slice_idle.0);
        let habits = self.turns.owners.habits(pool[rq].owner);
        let think = now.since(habits.answered).min(Nanos(2 * idle.0));
        habits.think.add(think.0);
        habits.seek_to(what.lba.0);
        habits.position = what.end().0;
        let habits = *habits;
        let turn = &mut self.turns.all[pool[rq].queue as usize];
        if turn.sync && !turn.is_idle_class() {
            let seeks = self.queues_itself && habits.seek.mean > SEEKY;
            if idle == Nanos::ZERO || seeks {
                turn.idles = false;
            } else if habits.think.is_valid() {
                turn.idles = habits.think.mean <= idle.0;
            }
        }
    }

    /// Does a new request take the turn from the active queue?
    fn preempts(&mut self, now: Nanos, pool: &Pool, rq: u32) -> bool {
        if self.active == NONE {
            return false;
        }
        let new = &self.turns.all[pool[rq].queue as usize];
        let active = &self.turns.all[self.active as usize];
        if active.has_used_slice(now) {
            return true;
        }
        if new.is_idle_class() || active.is_idle_class() {
            return !new.is_idle_class();
        }
        if pool[rq].is_sync() && !active.sync {
            return true;
        }
        let (waited_for, start) = (active.waited_for, pool[rq].start());
        let Some(process) = self.active_process.filter(|_| waited_for) else { return false };
        let distance = start.abs_diff(self.position);
        let seek = self.turns.owners.habits(process).seek;
        seek.is_valid() && distance <= seek.mean
    }

    /// The active queue is empty: wait for its process, if that is worth while.
    fn idle(&mut self, now: Nanos) {
        let turn = &mut self.turns.all[self.active as usize];
        let Some(process) = self.active_process.filter(|_| turn.idles) else { return };
        if self.params.slice_idle.0 == Nanos::ZERO {
            return;
        }
        turn.waited_for = true;
        let seek = self.turns.owners.habits(process).seek;
        let seeks = seek.is_valid() && seek.mean > SEEKY;
        let idle = self.params.slice_idle.0;
        self.idling.stop(now);
        self.idling.start(now, if seeks { idle.min(SEEKY_IDLE) } else { idle });
    }
}

impl Policy for Cfq {
    fn add(&mut self, now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        let what = pool[rq].what;
        let owner = self.turns.owners.number(what.process);
        let queue = self.turns.of(&what, owner);
        (pool[rq].queue, pool[rq].owner) = (queue, owner);
        pool[rq].time = now;
        let way = self.way();
        let turn = &mut self.turns.all[queue as usize];
        if turn.sync {
            // A process may have got another priority.
            turn.priority = what.priority;
            turn.idles &= what.priority.class() != PriorityClass::Idle;
        }
        turn.sorted.insert(pool, rq);
        turn.fifo.push(pool, rq);
        let old = Some(turn.next).filter(|&next| next != NONE);
        turn.next = way.choose(pool, old, Some(rq)).unwrap_or(NONE);
        if !turn.is_busy() {
            self.place(now, queue);
        }
        self.learn(now, pool, rq);
        if queue == self.active {
            let waited_for = std::mem::take(&mut self.turns.all[queue as usize].waited_for);
            self.idling.won(now);
            return waited_for;
        }
        let preempts = self.preempts(now, pool, rq);
        if preempts {
            self.end_turn(now, true);
            self.turns.put(queue, None);
            let turn = &mut self.turns.all[queue as usize];
            (turn.slice_end, turn.slice_new) = (Nanos::ZERO, true);
        }
        preempts
    }

    fn is_empty(&self) -> bool {
        self.turns.busy() == 0
    }

    fn dispatch(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        if self.turns.busy() == 0 {
            return;
        }
        while let Some(queue) = self.select(now) {
            let alone = self.turns.busy() <= 1;
            let turn = &mut self.turns.all[queue as usize];
            let max = if turn.is_idle_class() { 1 } else { self.params.quantum };
            if turn.dispatched >= max && (!alone || turn.dispatched >= 4 * max) {
                break;
            }
            if self.sync_out > 0 && !turn.sync {
                break;
            }
            turn.waited_for = false;
            self.idling.stop(now);
            self.send(now, pool, queue, max, out);
        }
    }

    fn drain(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        while let Some(queue) = self.turns.first() {
            self.take(pool, self.turns.all[queue as usize].next, out);
        }
        self.end_turn(now, false);
    }

    fn started(&mut self, _now: Nanos, pool: &Pool, rq: u32) {
        self.in_device += 1;
        self.queues_itself |= self.in_device > QUEUES_ITSELF;
        self.position = pool[rq].end();
    }

    fn completed(&mut self, now: Nanos, pool: &Pool, rq: u32) {
        let queue = pool[rq].queue;
        self.in_device -= 1;
        let turn = &mut self.turns.all[queue as usize];
        turn.dispatched -= 1;
        self.sync_out -= u32::from(turn.sync);
        if pool[rq].is_sync() {
            self.turns.owners.habits(pool[rq].owner).answered = now;
        }
        if self.active != queue {
            return;
        }
        let turn = &self.turns.all[queue as usize];
        if turn.slice_new {
            let slice = Nanos(self.slice(turn.sync, turn.level()));
            let turn = &mut self.turns.all[queue as usize];
            (turn.slice_end, turn.slice_new) = (now + slice, false);
        }
        let turn = &self.turns.all[queue as usize];
        if turn.has_used_slice(now) {
            self.end_turn(now, true);
        } else if turn.sync && !turn.is_busy() {
            self.idle(now);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        Some(self.idling.until()).filter(|&at| at != Nanos::MAX)
    }

    fn timer(&mut self, now: Nanos, _pool: &Pool) {
        if self.idling.until() > now {
            return;
        }
        self.idling.lost(now);
        // With nobody else waiting the slice goes on.
        if self.turns.busy() > 0 {
            self.end_turn(now, false);
        }
    }

    fn may_merge(&self, pool: &Pool, rq: u32, piece: &Piece) -> bool {
        self.turns.owners.find(&piece.what) == Some(pool[rq].queue)
    }

    fn front(&self, _pool: &Pool, piece: &Piece) -> Option<u32> {
        let queue = self.turns.owners.find(&piece.what)?;
        self.turns.all[queue as usize].sorted.at(piece.what.end().0)
    }

    fn grown(&mut self, pool: &Pool, rq: u32, old: u64) {
        let way = self.way();
        let turn = &mut self.turns.all[pool[rq].queue as usize];
        turn.sorted.moved(pool, rq, old);
        turn.next = way.choose(pool, Some(turn.next), Some(rq)).unwrap_or(rq);
    }

    fn latter(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.turns.all[pool[rq].queue as usize].sorted.after(pool, rq)
    }

    fn former(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.turns.all[pool[rq].queue as usize].sorted.before(pool, rq)
    }

    fn joined(&mut self, pool: &mut Pool, first: u32, second: u32) {
        self.turns.all[pool[first].queue as usize].fifo.join(pool, first, second);
        self.leave_order(pool, second);
    }

    fn expects(&self, what: &Request) -> bool {
        let queue = self.turns.owners.find(what);
        queue.is_some_and(|queue| self.turns.all[queue as usize].waited_for)
    }

    fn counters(&self, out: &mut Counters) {
        self.idling.counters(out);
    }

    fn clear(&mut self) {
        let idling = self.idling.cleared();
        *self = Cfq { idling, ..Cfq::new(self.params.clone()) };
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

//! The state machine: batches, anticipation, and what is known of the processes.

use sim::{Counters, Nanos, Request, snapshot_enum, snapshot_fields};

use super::Params;
use crate::elevator::Policy;
use crate::elevator::linux::habits::{Fading, Habits};
use crate::elevator::linux::names::Names;
use crate::elevator::linux::pool::{Fifo, NONE, Piece, Pool};
use crate::elevator::linux::sorted::{OneWay, Sorted};

/// The two kinds of requests, and so the two lists.
const ASYNC: usize = 0;
const SYNC: usize = 1;

/// Sectors that an elevator goes back at most.
const BACK_MAX: u64 = 1 << 20;
/// Sectors that are close at once.
const CLOSE: u64 = 8192;
/// A longer pause counts as this one, and after so long everything is close.
const THINK_MAX: Nanos = Nanos::from_millis(20);
const MILLISECOND: u64 = 1_000_000;
/// A write batch has so many requests at first: `write_batch_expire` in ticks, by ten.
const WRITES_PER_MS: u64 = 10;

/// What the machine waits for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Status {
    /// Nothing.
    #[default]
    Off,
    /// The answer to the last read; then it anticipates.
    Answer,
    /// The next read.
    Next,
    /// It has waited enough.
    Finished,
}

snapshot_enum!(Status { Off, Answer, Next, Finished });

/// Waiting requests of one kind.
#[derive(Clone, Debug)]
struct List {
    sorted: Sorted,
    fifo: Fifo,
    /// The best candidate.
    next: u32,
    /// Where the last one ended.
    last_sector: u64,
    checked: Nanos,
}

snapshot_fields!(List { sorted, fifo, next, last_sector, checked });

impl Default for List {
    fn default() -> List {
        List {
            sorted: Sorted::default(),
            fifo: Fifo::default(),
            next: NONE,
            last_sector: 0,
            checked: Nanos::ZERO,
        }
    }
}

impl List {
    fn way(&self) -> OneWay {
        OneWay { last: self.last_sector, back_max: BACK_MAX, penalty: 2 }
    }
}

/// A process.
#[derive(Clone, Copy, Default, Debug)]
struct Process {
    id: u32,
    habits: Habits,
    queued: u32,
    /// Chosen, but not yet in the device.
    dispatched: u32,
    /// It asked for something before.
    began: bool,
    /// And got an answer.
    answered: bool,
}

snapshot_fields!(Process { id, habits, queued, dispatched, began, answered });

#[derive(Clone, Debug)]
pub(super) struct Anticipatory {
    fifo_expire: [Nanos; 2],
    batch_expire: [Nanos; 2],
    antic_expire: Nanos,
    lists: [List; 2],
    /// Of the running batch.
    kind: usize,
    /// The old batch must drain before the new one begins.
    changed: bool,
    /// The clock of a read batch starts with its first answer.
    fresh: bool,
    batch_ends: Nanos,
    write_batch: u64,
    writes_left: u64,
    /// The write batch was alone, so its time says nothing.
    idled_batch: bool,
    /// Chosen and not answered.
    out: u32,
    status: Status,
    antic_start: Nanos,
    /// The number of the process whose read was last; nobody's when it was a write.
    last: Option<u32>,
    last_answered: bool,
    processes: Vec<Process>,
    names: Names,
    /// Of processes that begin.
    new_think: u64,
    new_seek: u64,
    won: u64,
    lost: u64,
    idled: Nanos,
    waits_since: Nanos,
}

snapshot_fields!(Anticipatory {
    lists,
    kind,
    changed,
    fresh,
    batch_ends,
    write_batch,
    writes_left,
    idled_batch,
    out,
    status,
    antic_start,
    last,
    last_answered,
    processes,
    names,
    new_think,
    new_seek,
    won,
    lost,
    idled,
    waits_since,
});

fn kind(pool: &Pool, rq: u32) -> usize {
    usize::from(pool[rq].is_sync())
}

impl Anticipatory {
    pub(super) fn new(params: &Params) -> Anticipatory {
        let write_batch = params.write_batch_expire.0.0 / MILLISECOND / WRITES_PER_MS;
        Anticipatory {
            fifo_expire: [params.write_expire.0, params.read_expire.0],
            batch_expire: [params.write_batch_expire.0, params.read_batch_expire.0],
            antic_expire: params.antic_expire.0,
            lists: Default::default(),
            kind: ASYNC,
            changed: false,
            fresh: false,
            batch_ends: params.read_batch_expire.0,
            write_batch: write_batch.max(2),
            writes_left: 0,
            idled_batch: false,
            out: 0,
            status: Status::Off,
            antic_start: Nanos::ZERO,
            last: None,
            last_answered: false,
            processes: Vec::new(),
            names: Names::default(),
            new_think: 0,
            new_seek: 0,
            won: 0,
            lost: 0,
            idled: Nanos::ZERO,
            waits_since: Nanos::ZERO,
        }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.status, Status::Answer | Status::Next)
    }

    fn wait_for_next(&mut self, now: Nanos) {
        self.status = Status::Next;
        self.waits_since = now;
    }

    fn stop_waiting(&mut self, now: Nanos) {
        if self.status == Status::Next {
            self.idled += now.since(self.waits_since);
        }
        if self.is_waiting() {
            self.status = Status::Finished;
        }
    }

    fn has_expired(&self, now: Nanos) -> bool {
        now.since(self.antic_start) >= self.antic_expire
    }

    /// The number of a process.
    fn number(&mut self, process: u32) -> u32 {
        let number = self.names.number(process);
        if number as usize == self.processes.len() {
            self.processes.push(Process { id: process, ..Process::default() });
        }
        number
    }

    fn owner(&mut self, pool: &Pool, rq: u32) -> &mut Process {
        &mut self.processes[pool[rq].owner as usize]
    }

    /// A process asks: what that says of its habits.
    fn learn(&mut self, now: Nanos, owner: u32, start: u64, end: u64) {
        let known = &mut self.processes[owner as usize];
        if known.began {
            let alone = known.answered && known.queued + known.dispatched == 0;
            let think = if alone { now.since(known.habits.answered).min(THINK_MAX).0 } else { 0 };
            let fade = |mean: &mut u64, value: u64| *mean = (7 * *mean + value) / 8;
            if known.habits.think.samples == 0 {
                fade(&mut self.new_think, think);
            }
            known.habits.think.add(think);
            let first = known.habits.seek.samples == 0;
            let distance = known.habits.seek_to(start);
            if first {
                fade(&mut self.new_seek, distance);
            }
        }
        known.habits.position = end;
        known.began = true;
    }

    /// Is a request near where the device is, or nearer than what is waited for?
    fn is_close(&self, now: Nanos, pool: &Pool, rq: u32, seek: &Fading) -> bool {
        let mut close = CLOSE;
        if self.status != Status::Off && self.last_answered {
            let waited = now.since(self.antic_start);
            if waited > THINK_MAX || waited > self.antic_expire {
                return true;
            }
            close <<= waited.0 / MILLISECOND;
        }
        let (last, next) = (self.lists[self.kind].last_sector, pool[rq].start());
        if last <= next + close / 2 && next <= last + close {
            return true;
        }
        let expected = if seek.samples == 0 { self.new_seek } else { seek.mean };
        expected > last.abs_diff(next)
    }

    /// Is there no point in waiting for `self.last`, given this candidate?
    fn is_pointless(&mut self, now: Nanos, pool: &Pool, rq: Option<u32>) -> bool {
        let Some(owner) = self.last else { return true };
        if rq.is_some_and(|rq| pool[rq].owner == owner) {
            return true;
        }
        if self.last_answered && self.has_expired(now) {
            return true;
        }
        let Process { habits: Habits { think, seek, .. }, queued, dispatched, .. } =
            self.processes[owner as usize];
        if queued > 0 || dispatched > 0 {
            return true;
        }
        let sync = rq.filter(|&rq| pool[rq].is_sync());
        if let Some(rq) = sync.filter(|&rq| self.is_close(now, pool, rq, &seek)) {
            // Those who work in one place are taken for one.
            self.learn(now, owner, pool[rq].start(), pool[rq].end());
            return true;
        }
        let think = if think.samples == 0 { self.new_think } else { think.mean };
        think > self.antic_expire.0
    }

    fn may_anticipate(&mut self, now: Nanos, pool: &Pool, rq: Option<u32>) -> bool {
        self.last.is_some() && self.status != Status::Finished && !self.is_pointless(now, pool, rq)
    }

    /// Looked at no more often than once per expiry: else all would be late, and served one by one
    /// wherever they are.
    fn fifo_expired(&mut self, now: Nanos, pool: &Pool, kind: usize) -> bool {
        let (expire, list) = (self.fifo_expire[kind], &mut self.lists[kind]);
        if now.since(list.checked) < expire {
            return false;
        }
        list.checked = now;
        list.fifo.head().is_some_and(|rq| now > pool[rq].time)
    }

    fn batch_expired(&self, now: Nanos) -> bool {
        !self.changed
            && !self.fresh
            && (now > self.batch_ends || self.kind == ASYNC && self.writes_left == 0)
    }

    /// Let a write batch have more or fewer requests, by the time that the last one took.
    fn resize_write_batch(&mut self, now: Nanos) {
        let batch = self.batch_expire[ASYNC].0;
        let took = (now.0 + batch).saturating_sub(self.batch_ends.0);
        if took > batch && !self.idled_batch {
            if took > batch * 3 { self.write_batch /= 2 } else { self.write_batch -= 1 }
        } else if took < batch && self.writes_left == 0 {
            if batch > took * 3 { self.write_batch *= 2 } else { self.write_batch += 1 }
        }
        // A device that answers at once would let it grow without end.
        self.write_batch = self.write_batch.clamp(1, 1 << 20);
    }

    /// A request leaves for the device.
    fn send(&mut self, now: Nanos, pool: &mut Pool, rq: u32, out: &mut Vec<u32>) {
        self.stop_waiting(now);
        self.status = Status::Off;
        let (kind, owner) = (kind(pool, rq), pool[rq].owner);
        self.lists[kind].last_sector = pool[rq].end();
        match kind {
            SYNC => self.last = Some(owner),
            _ => {
                self.last = None;
                self.writes_left = self.writes_left.saturating_sub(1);
            }
        }
        self.last_answered = false;
        self.replace_next(pool, rq);
        self.forget(pool, rq);
        self.processes[owner as usize].dispatched += 1;
        self.out += 1;
        out.push(rq);
    }

    /// The best candidate is another one from now on.
    fn replace_next(&mut self, pool: &Pool, rq: u32) {
        let list = &mut self.lists[kind(pool, rq)];
        list.next = list.sorted.neighbour(pool, rq, &list.way()).unwrap_or(NONE);
    }

    fn forget(&mut self, pool: &mut Pool, rq: u32) {
        let list = &mut self.lists[kind(pool, rq)];
        list.sorted.remove(pool, rq);
        list.fifo.remove(pool, rq);
        self.owner(pool, rq).queued -= 1;
    }

    /// Which request goes next; `None` when none may.
    fn choose(&mut self, now: Nanos, pool: &Pool) -> Option<u32> {
        let reads = !self.lists[SYNC].fifo.is_empty();
        let writes = !self.lists[ASYNC].fifo.is_empty();
        if self.kind == ASYNC && !reads && (self.writes_left == 0 || !writes) {
            self.idled_batch = true;
        }
        if !(reads || writes) || self.is_waiting() || self.changed {
            return None;
        }
        let mut chosen = None;
        if !(reads && writes && self.batch_expired(now)) {
            let next = Some(self.lists[self.kind].next).filter(|&rq| rq != NONE);
            if self.kind == SYNC && self.antic_expire > Nanos::ZERO {
                if self.fifo_expired(now, pool, SYNC) {
                    return self.lists[SYNC].fifo.head();
                }
                if self.may_anticipate(now, pool, next) {
                    if self.last_answered {
                        self.wait_for_next(now)
                    } else {
                        self.status = Status::Answer
                    }
                    return None;
                }
            }
            if next.is_some() && reads && !writes {
                self.batch_ends = now + self.batch_expire[SYNC];
            }
            chosen = next;
        }
        if chosen.is_none() {
            chosen = self.begin_batch(now, reads, writes);
        }
        if self.fifo_expired(now, pool, self.kind) {
            chosen = self.lists[self.kind].fifo.head();
        }
        if self.changed {
            if self.out > 0 {
                return None;
            }
            match self.kind {
                ASYNC => self.batch_ends = now + self.batch_expire[ASYNC],
                _ => self.fresh = true,
            }
            self.changed = false;
        }
        chosen
    }

    /// No batch runs: choose the kind of the next one. It begins with the oldest request.
    fn begin_batch(&mut self, now: Nanos, reads: bool, writes: bool) -> Option<u32> {
        if reads && !(writes && self.kind == SYNC) {
            self.changed |= self.kind == ASYNC;
            self.kind = SYNC;
        } else {
            if self.kind == SYNC {
                self.changed = true;
                self.fresh = false;
            }
            self.kind = ASYNC;
            self.writes_left = self.write_batch;
            self.idled_batch = false;
        }
        let list = &mut self.lists[self.kind];
        list.checked = now;
        list.fifo.head()
    }
}

impl Policy for Anticipatory {
    fn add(&mut self, now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        let (kind, owner) = (kind(pool, rq), self.number(pool[rq].what.process));
        pool[rq].owner = owner;
        if kind == SYNC {
            self.learn(now, owner, pool[rq].start(), pool[rq].end());
        }
        self.processes[owner as usize].queued += 1;
        pool[rq].time = now.saturating_add(self.fifo_expire[kind]);
        let list = &mut self.lists[kind];
        list.sorted.insert(pool, rq);
        list.fifo.push(pool, rq);
        let old = Some(list.next).filter(|&rq| rq != NONE);
        list.next = list.way().choose(pool, Some(rq), old).unwrap_or(NONE);
        // Whom the machine waits for has a request queued now, this one.
        let ends = self.is_waiting() && self.is_pointless(now, pool, Some(rq));
        if ends {
            self.won += u64::from(self.last == Some(owner));
            self.stop_waiting(now);
        }
        ends
    }

    fn is_empty(&self) -> bool {
        self.lists.iter().all(|list| list.fifo.is_empty())
    }

    fn dispatch(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        if let Some(rq) = self.choose(now, pool) {
            self.send(now, pool, rq, out);
        }
    }

    fn drain(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        (self.kind, self.changed, self.fresh) = (SYNC, false, false);
        for kind in [SYNC, ASYNC] {
            while self.lists[kind].next != NONE {
                self.send(now, pool, self.lists[kind].next, out);
            }
            self.lists[kind].checked = now;
        }
    }

    fn started(&mut self, _now: Nanos, pool: &Pool, rq: u32) {
        self.owner(pool, rq).dispatched -= 1;
    }

    fn completed(&mut self, now: Nanos, pool: &Pool, rq: u32) {
        let (kind, owner) = (kind(pool, rq), pool[rq].owner);
        if self.changed && self.out == 1 {
            self.batch_ends = now + self.batch_expire[self.kind];
            self.changed = false;
            self.fresh |= self.kind == SYNC;
        }
        self.out -= 1;
        if self.fresh && self.kind == kind {
            self.resize_write_batch(now);
            self.batch_ends = now + self.batch_expire[SYNC];
            self.fresh = false;
        }
        if self.last == Some(owner) {
            self.antic_start = now;
            self.last_answered = true;
            if self.status == Status::Answer {
                self.wait_for_next(now);
            }
        }
        if kind == SYNC {
            let known = self.owner(pool, rq);
            known.answered = true;
            known.habits.answered = now;
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        (self.status == Status::Next).then(|| self.antic_start + self.antic_expire)
    }

    fn timer(&mut self, now: Nanos, _pool: &Pool) {
        if self.status == Status::Next && self.has_expired(now) {
            self.lost += 1;
            self.stop_waiting(now);
        }
    }

    fn front(&self, _pool: &Pool, piece: &Piece) -> Option<u32> {
        let kind = usize::from(piece.what.is_sync());
        self.lists[kind].sorted.at(piece.what.end().0)
    }

    fn grown(&mut self, pool: &Pool, rq: u32, old: u64) {
        self.lists[kind(pool, rq)].sorted.moved(pool, rq, old);
    }

    fn latter(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.lists[kind(pool, rq)].sorted.after(pool, rq)
    }

    fn former(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.lists[kind(pool, rq)].sorted.before(pool, rq)
    }

    fn joined(&mut self, pool: &mut Pool, first: u32, second: u32) {
        let kind = kind(pool, second);
        if self.lists[kind].next == second {
            self.replace_next(pool, second);
        }
        let list = &mut self.lists[kind];
        list.fifo.join(pool, first, second);
        list.sorted.remove(pool, second);
        self.owner(pool, second).queued -= 1;
    }

    fn expects(&self, what: &Request) -> bool {
        let last = self.last.filter(|_| self.is_waiting());
        last.is_some_and(|owner| self.processes[owner as usize].id == what.process)
    }

    fn counters(&self, out: &mut Counters) {
        out.add("anticipations_won", self.won);
        out.add("anticipations_lost", self.lost);
        out.add("idled_ns", self.idled.0);
    }

    fn clear(&mut self) {
        self.lists = Default::default();
        (self.changed, self.fresh, self.out) = (false, false, 0);
        (self.status, self.last, self.last_answered) = (Status::Off, None, false);
        self.processes.clear();
        self.names = Names::default();
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

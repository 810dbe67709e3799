//! What the queue before the device asks of bfq.

use sim::{Counters, Nanos, Op, Request};

use super::budget::End;
use super::machine::Bfq;
use super::process::Process;
use super::seek::is_seek;
use crate::elevator::linux::pool::{NONE, Piece, Pool};
use crate::elevator::{Context, Policy};

impl Policy for Bfq {
    fn add(&mut self, now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        self.set_time(now);
        let what = pool[rq].what;
        let process = self.names.number(what.process);
        if process as usize == self.processes.len() {
            let priority = what.priority;
            self.processes.push(Process { priority, ..Process::default() });
        }
        pool[rq].owner = process;
        self.processes[process as usize].requests += 1;
        let queue = self.queue_of(now, &what, process);
        let queue = self.join_at_insert(pool, queue, rq);
        pool[rq].queue = queue;
        self.queues[queue as usize].allocated += 1;
        self.learn_thinking(now, queue);
        let q = &mut self.queues[queue as usize];
        q.seeks = q.seeks << 1 | u32::from(is_seek(self.rotational, q.last_end, &what));
        self.check_regular(queue);
        self.insert(now, pool, rq, queue);
        pool[rq].time = now;
        let q = &mut self.queues[queue as usize];
        q.fifo.push(pool, rq);
        q.last_end = what.end().0;
        if queue == self.active && q.awaited {
            self.came_back(now, pool, queue, what.sectors);
        }
        false
    }

    fn is_empty(&self) -> bool {
        self.queued == 0
    }

    fn dispatch(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        // Who has nothing is not asked, so that a turn does not end by that.
        if self.queued == 0 {
            return;
        }
        self.set_time(now);
        let Some(queue) = self.select(now, pool) else { return };
        let rq = self.queues[queue as usize].next;
        self.send(now, pool, queue, rq);
        out.push(rq);
    }

    fn drain(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        self.set_time(now);
        for queue in 0..self.queues.len() as u32 {
            while let Some(rq) = self.queues[queue as usize].fifo.head() {
                self.send(now, pool, queue, rq);
                out.push(rq);
            }
        }
    }

    fn force(&mut self, now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        self.set_time(now);
        self.send(now, pool, pool[rq].queue, rq);
        true
    }

    fn ended(&mut self, now: Nanos, _pool: &Pool, process: u32) {
        self.set_time(now);
        if let Some(process) = self.names.find(process) {
            self.forget(now, process);
        }
    }

    fn completed(&mut self, now: Nanos, pool: &Pool, rq: u32) {
        self.set_time(now);
        let queue = pool[rq].queue;
        self.measure_to(now, queue, rq);
        self.watch_device();
        self.in_device -= 1;
        let tick = self.tick();
        let q = &mut self.queues[queue as usize];
        q.dispatched -= 1;
        if q.dispatched == 0 && !q.busy {
            q.timeout = tick;
            self.schedule.weights.remove(&mut q.entity);
        }
        q.answered = now;
        let shared = q.shared;
        let regular = q.raise.look_again && q.dispatched == 0 && q.is_empty() && !q.raise.is_away();
        if self.rate.answered(now) {
            self.measure_budget();
        }
        (self.last_answer, self.last_answered) = (now, if shared { NONE } else { queue });
        if regular {
            self.note_regular(queue);
        }
        if queue == self.active {
            self.after_answer(now, pool);
        }
        self.queues[queue as usize].allocated -= 1;
        self.processes[pool[rq].owner as usize].requests -= 1;
    }

    fn next_event(&self) -> Option<Nanos> {
        self.idling.is_on().then_some(self.idling.until())
    }

    fn timer(&mut self, now: Nanos, pool: &Pool) {
        if now < self.idling.until() || self.active == NONE {
            return;
        }
        self.set_time(now);
        let queue = self.active;
        self.queues[queue as usize].awaited = false;
        if self.is_time_over(queue) {
            self.end_turn(now, pool, true, End::Timeout);
        } else if self.queues[queue as usize].is_empty() {
            self.end_turn(now, pool, true, End::Idle);
        } else {
            self.idling.won(now);
        }
    }

    fn looks(&mut self, now: Nanos, pool: &Pool, piece: &Piece) {
        self.set_time(now);
        if let Some(process) = self.names.find(piece.what.process) {
            self.join_by_bio(pool, process, &piece.what);
        }
    }

    fn may_merge(&self, pool: &Pool, rq: u32, piece: &Piece) -> bool {
        let sync = piece.what.is_sync();
        if sync && !pool[rq].is_sync() {
            return false;
        }
        let process = self.names.find(piece.what.process);
        let queue = process.map_or(NONE, |p| self.processes[p as usize].queue(sync));
        queue != NONE && pool[rq].queue == queue
    }

    fn front(&self, _pool: &Pool, piece: &Piece) -> Option<u32> {
        let process = self.names.find(piece.what.process)?;
        let queue = self.processes[process as usize].queue(piece.what.is_sync());
        self.queues.get(queue as usize)?.sorted.at(piece.what.end().0)
    }

    fn grown(&mut self, pool: &Pool, rq: u32, old: u64) {
        let (way, queue) = (self.way(), pool[rq].queue);
        let q = &mut self.queues[queue as usize];
        let before = q.next;
        if !q.sorted.moved(pool, rq, old) {
            // In its old place it is no better a choice than it was.
            return;
        }
        q.next = way.choose(pool, Some(q.next), Some(rq)).unwrap_or(rq);
        if q.next != before {
            self.next_changed(pool, queue);
            self.place_found(queue);
        }
    }

    fn latter(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.queues[pool[rq].queue as usize].sorted.after(pool, rq)
    }

    fn former(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.queues[pool[rq].queue as usize].sorted.before(pool, rq)
    }

    fn joined(&mut self, pool: &mut Pool, first: u32, second: u32) {
        let q = &mut self.queues[pool[second].queue as usize];
        if q.next == second {
            q.next = first;
        }
        q.fifo.join(pool, first, second);
        q.sorted.remove(pool, second);
        q.queued -= 1;
        q.allocated -= 1;
        self.queued -= 1;
        self.processes[pool[second].owner as usize].requests -= 1;
    }

    fn depth(&self, what: &Request) -> u32 {
        let word = self.word;
        let limit = match (what.op, what.sync, self.raised_busy > 0) {
            (Op::Read | Op::Flush, ..) => u32::MAX,
            (_, true, false) => word * 3 / 4,
            (_, true, true) => word * 6 / 16,
            (_, false, false) => word / 2,
            (_, false, true) => word * 3 / 16,
        };
        let limit = limit.max(1);
        if self.is_over_share(what, self.nr_requests * limit.min(word) / word) { 1 } else { limit }
    }

    fn depth_min(&self) -> u32 {
        1
    }

    fn counters(&self, out: &mut Counters) {
        self.idling.counters(out);
        out.level("max_budget_sectors", self.max_budget());
    }

    fn clear(&mut self) {
        let idling = self.idling.cleared();
        let context = Context { nr_requests: self.nr_requests, rotational: self.rotational };
        *self = Bfq::new(self.params.clone(), &context);
        self.idling = idling;
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

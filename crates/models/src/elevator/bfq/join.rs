//! Queues that are joined: of processes that work on the same place, and of those that began
//! together; and queues that are split again since they seek.

use sim::{Nanos, Request};

use super::budget::End;
use super::machine::Bfq;
use super::process::Saved;
use super::queue::Queue;
use super::raise::Raise;
use crate::elevator::linux::pool::{NONE, Pool};

/// Requests at most so many sectors away are at the same place.
const CLOSE: u64 = 8 * 1024;

impl Bfq {
    /// Joining is for the first moments of a queue only.
    fn is_late(&self, queue: u32) -> bool {
        let q = &self.queues[queue as usize];
        q.service_since_idle > 0 && q.first_service + self.ticks.join_until < self.tick()
    }

    /// The next request of a queue is another: may others find it by that?
    pub(super) fn place_found(&mut self, queue: u32) {
        if self.parallel_flash {
            return;
        }
        let late = self.is_late(queue);
        let q = &mut self.queues[queue as usize];
        q.findable = !late && !q.is_idle_class() && q.next != NONE;
    }

    /// The queue whose next request is at this place.
    fn find_close(&self, pool: &Pool, sector: u64) -> Option<u32> {
        let findable = (0..).zip(&self.queues).filter(|(_, q)| q.findable && q.next != NONE);
        let far = findable.map(|(queue, q)| (pool[q.next].start().abs_diff(sector), queue));
        far.min().filter(|&(distance, _)| distance <= CLOSE).map(|(_, queue)| queue)
    }

    fn may_cooperate(&self, queue: u32, other: u32) -> bool {
        let (q, o) = (&self.queues[queue as usize], &self.queues[other as usize]);
        !self.is_late(other)
            && !q.is_idle_class()
            && q.class == o.class
            && !q.is_seeky()
            && !o.is_seeky()
            && q.sync
            && o.sync
    }

    /// The queue with which this one is to be joined, since something comes at this place.
    pub(super) fn partner(&mut self, pool: &Pool, queue: u32, what: &Request) -> Option<u32> {
        let q = &self.queues[queue as usize];
        if q.joins != NONE {
            return Some(self.end_of_chain(q.joins));
        }
        if self.parallel_flash {
            return None;
        }
        if let Some(stable) = self.take_stable(what, queue) {
            return self.plan_stable(what, queue, stable);
        }
        if self.is_late(queue) || self.busy_queues() == 1 {
            return None;
        }
        let active = self.active;
        if active != NONE
            && active != queue
            && what.lba.0.abs_diff(self.active_position) <= CLOSE
            && self.may_cooperate(queue, active)
            && let Some(partner) = self.plan_join(queue, active)
        {
            return Some(partner);
        }
        let close = self.find_close(pool, what.lba.0)?;
        if close == queue || !self.may_cooperate(queue, close) {
            return None;
        }
        self.plan_join(queue, close)
    }

    /// A process's bio comes at the place where another one works: its queue is joined before there
    /// is a request.
    pub(super) fn join_by_bio(&mut self, pool: &Pool, process: u32, what: &Request) {
        let own = self.processes[process as usize].queue(what.is_sync());
        if own == NONE {
            return;
        }
        if let Some(partner) = self.partner(pool, own, what) {
            self.join_up_to(process, own, partner);
        }
    }

    /// The process leaves its queue for the one that was planned, and so on, up to `partner`.
    pub(super) fn join_up_to(&mut self, process: u32, mut own: u32, partner: u32) {
        while own != partner && self.processes[process as usize].waited == own {
            own = self.join_with_planned(process, own);
        }
    }

    fn end_of_chain(&self, mut queue: u32) -> u32 {
        while self.queues[queue as usize].joins != NONE {
            queue = self.queues[queue as usize].joins;
        }
        queue
    }

    /// Whoever uses this queue will use the other one.
    fn plan_join(&mut self, queue: u32, other: u32) -> Option<u32> {
        // What nobody uses leads nowhere.
        if self.queues[other as usize].processes == 0 {
            return None;
        }
        let mut other = other;
        while self.queues[other as usize].joins != NONE {
            other = self.queues[other as usize].joins;
            if other == queue {
                return None;
            }
        }
        let processes = self.queues[queue as usize].processes;
        if other == queue || processes == 0 || self.queues[other as usize].processes == 0 {
            return None;
        }
        self.queues[queue as usize].joins = other;
        self.queues[other as usize].processes += processes;
        Some(other)
    }

    /// A queue that was created soon before, once enough is known of this one.
    fn take_stable(&mut self, what: &Request, queue: u32) -> Option<u32> {
        let process = self.names.find(what.process)? as usize;
        let q = &self.queues[queue as usize];
        let (tick, wait) = (self.tick(), self.ticks.stable_later);
        let stable = self.processes[process].stable;
        let known = q.split + wait < tick && q.created + wait < tick;
        if stable == NONE || !q.sync || q.new || !known {
            return None;
        }
        self.processes[process].stable = NONE;
        Some(stable)
    }

    fn plan_stable(&mut self, what: &Request, queue: u32, stable: u32) -> Option<u32> {
        let used = [queue, stable].iter().all(|&q| self.queues[q as usize].processes > 0);
        if self.idling_is_faster(queue) || !used {
            return None;
        }
        let partner = self.plan_join(queue, stable)?;
        self.mark_stable(what, partner);
        Some(partner)
    }

    fn mark_stable(&mut self, what: &Request, partner: u32) {
        if let Some(process) = self.names.find(what.process) {
            self.processes[process as usize].stably_joined = true;
        }
        let owner = self.queues[partner as usize].owner;
        if owner != NONE {
            self.processes[owner as usize].stably_joined = true;
        }
    }

    /// A new queue for what is waited for: is it one of several that begin together?
    pub(super) fn begin_together(&mut self, what: &Request, process: u32, queue: u32) {
        let last = self.last_created;
        let created = self.queues[queue as usize].created;
        let alike = last != NONE && {
            let (l, q) = (&self.queues[last as usize], &self.queues[queue as usize]);
            l.created + self.ticks.stable_begins >= created
                && l.entity.next_plain == q.entity.next_plain
                && l.class == q.class
        };
        if !alike {
            self.last_created = queue;
        } else if self.queues[last as usize].created + self.ticks.burst_interval >= created {
            if !self.parallel_flash {
                self.processes[process as usize].stable = last;
            } else if let Some(partner) = self.plan_join(queue, last) {
                self.mark_stable(what, partner);
                self.processes[process as usize].stably_joined = true;
                self.queues[queue as usize].owner = process;
                self.join_with_planned(process, queue);
            }
        }
    }

    /// The process leaves its queue for the one that was planned. Returns that.
    pub(super) fn join_with_planned(&mut self, process: u32, queue: u32) -> u32 {
        let other = self.queues[queue as usize].joins;
        self.save(queue);
        self.save(other);
        let [q, o] = self.two(queue, other);
        o.io_bound |= std::mem::take(&mut q.io_bound);
        let waker = q.inject.waker;
        let takes_waker = waker != NONE && o.inject.waker == NONE && waker != other;
        if takes_waker {
            self.set_waker(other, waker);
        }
        self.hand_over_raise(queue, other);
        let p = &mut self.processes[process as usize];
        p.waited = other;
        if p.stable == other {
            p.stable = NONE;
        }
        let [q, o] = self.two(queue, other);
        o.shared = true;
        (q.owner, o.owner) = (NONE, NONE);
        if self.last_created == queue {
            self.last_created = other;
        }
        self.leave_queue(queue);
        other
    }

    fn two(&mut self, one: u32, other: u32) -> [&mut Queue; 2] {
        let both = self.queues.get_disjoint_mut([one as usize, other as usize]);
        both.expect("a queue is not joined with itself")
    }

    fn hand_over_raise(&mut self, queue: u32, other: u32) {
        let [q, o] = self.two(queue, other);
        let (mut more, mut less) = (0, 0);
        if !o.is_raised() && q.is_raised() {
            let (service, next) = (o.raise.service, o.raise.next_regular);
            let (asked, look_again) = (o.raise.asked, o.raise.look_again);
            o.raise = Raise { service, next_regular: next, asked, look_again, ..q.raise };
            o.entity.changed = true;
            more = u32::from(o.busy);
        }
        if q.is_raised() {
            q.raise.factor = 1;
            q.entity.changed = true;
            less = u32::from(q.busy);
        }
        self.raised_busy = self.raised_busy + more - less;
    }

    /// A process uses a queue no longer.
    pub(super) fn leave_queue(&mut self, queue: u32) {
        let q = &self.queues[queue as usize];
        if q.busy && q.is_empty() && queue != self.active {
            self.not_busy(queue, false);
        }
        if self.last_created == queue {
            self.last_created = NONE;
        }
        self.queues[queue as usize].processes -= 1;
    }

    /// A process has ended: its queues lose it, and the device is kept idle for it no longer.
    pub(super) fn forget(&mut self, now: Nanos, process: u32) {
        let p = &mut self.processes[process as usize];
        let queues =
            [std::mem::replace(&mut p.waited, NONE), std::mem::replace(&mut p.unwaited, NONE)];
        p.stable = NONE;
        for queue in queues.into_iter().filter(|&queue| queue != NONE) {
            if queue == self.active {
                self.leave_service(now, queue, End::Timeout);
            }
            self.leave_plans(queue);
            self.leave_queue(queue);
            if self.queues[queue as usize].processes == 0 {
                self.forget_queue(queue);
            }
        }
    }

    /// A queue that nobody fills any longer wakes nobody, is woken by nobody and is in no burst.
    fn forget_queue(&mut self, queue: u32) {
        let waker = std::mem::replace(&mut self.queues[queue as usize].inject.waker, NONE);
        if waker != NONE {
            self.queues[waker as usize].inject.wakes.retain(|&woken| woken != queue);
        }
        let woken = std::mem::take(&mut self.queues[queue as usize].inject.wakes);
        for woken in woken {
            self.queues[woken as usize].inject.waker = NONE;
        }
        if self.last_answered == queue {
            self.last_answered = NONE;
        }
        let q = &mut self.queues[queue as usize];
        if q.in_burst_list && q.owner != NONE {
            // Whoever came and went at once is no part of a large burst.
            self.burst.size = self.burst.size.saturating_sub(1);
        }
        self.burst.leave(q, queue);
    }

    /// What its only process will get back.
    fn save(&mut self, queue: u32) {
        let (tick, duration) = (self.tick(), self.raise_time());
        let q = &self.queues[queue as usize];
        if q.owner == NONE {
            return;
        }
        let before_first = q.new && !q.in_large_burst && self.params.low_latency;
        self.processes[q.owner as usize].saved = Saved {
            thinks_briefly: q.thinks_briefly,
            io_bound: q.io_bound,
            in_large_burst: q.in_large_burst,
            in_burst_list: q.in_burst_list,
            plain: q.entity.plain,
            think: q.think,
            answered: q.answered,
            watched_since: q.watched_since,
            idle_ns: q.idle_ns,
            inject: q.inject.saved(),
            raise: if before_first { Raise::of_new(tick, duration) } else { q.raise },
        };
    }

    /// It has sought for too long beside others: the process has its own queue again.
    pub(super) fn split(&mut self, now: Nanos, what: &Request, process: u32, queue: u32) -> u32 {
        let waker = self.waker_of(queue);
        let q = &mut self.queues[queue as usize];
        self.processes[process as usize].saved.in_large_burst |= q.in_large_burst;
        let alone = q.processes == 1 && q.joins == NONE;
        if alone {
            (q.shared, q.to_split) = (false, false);
            self.resume(process, queue, true);
            return queue;
        }
        self.leave_plans(queue);
        self.leave_queue(queue);
        let own = self.create(now, what, process);
        self.rejoin_burst(process, own);
        if waker != NONE && waker != own {
            self.set_waker(own, waker);
        }
        self.queues[own as usize].split = self.tick();
        self.resume(process, own, false);
        own
    }

    /// The waker of a queue that is split, unless nobody uses it then.
    fn waker_of(&self, queue: u32) -> u32 {
        let waker = self.queues[queue as usize].inject.waker;
        if waker == NONE {
            return NONE;
        }
        let mut next = self.queues[queue as usize].joins;
        while next != NONE && next != waker {
            next = self.queues[next as usize].joins;
        }
        // Of those that the queue will be joined with, the process that leaves was one.
        let leaves = u32::from(next == waker);
        if self.queues[waker as usize].processes > leaves { waker } else { NONE }
    }

    /// A process that leaves a queue will not use those either that it was to be joined with.
    fn leave_plans(&mut self, queue: u32) {
        let mut next = self.queues[queue as usize].joins;
        while next != NONE {
            self.queues[next as usize].processes -= 1;
            next = self.queues[next as usize].joins;
        }
    }

    fn rejoin_burst(&mut self, process: u32, queue: u32) {
        let saved = &self.processes[process as usize].saved;
        let was_listed = saved.in_burst_list;
        if was_listed && self.burst.large || saved.in_large_burst {
            self.queues[queue as usize].in_large_burst = true;
        } else if was_listed {
            self.burst.list(&mut self.queues, queue);
        }
    }

    fn resume(&mut self, process: u32, queue: u32, existed: bool) {
        let (tick, duration, ticks) = (self.tick(), self.raise_time(), self.ticks.raise);
        let saved = self.processes[process as usize].saved.clone();
        let q = &mut self.queues[queue as usize];
        if q.joins != NONE || q.processes != 1 {
            return;
        }
        q.owner = process;
        (q.thinks_briefly, q.io_bound) = (saved.thinks_briefly, saved.io_bound);
        q.inject.resume(saved.inject);
        if saved.plain != 0 {
            q.entity.next_plain = saved.plain;
        }
        (q.think, q.answered) = (saved.think, saved.answered);
        (q.watched_since, q.idle_ns) = (saved.watched_since, saved.idle_ns);
        let old = q.raise.factor;
        if self.params.low_latency {
            let (next_regular, asked) = (q.raise.next_regular, q.raise.asked);
            q.raise = Raise { next_regular, asked, ..saved.raise };
            q.raise.resume(tick, duration, q.in_large_burst, &ticks);
        }
        q.entity.changed = true;
        if existed && q.busy {
            self.raised_busy -= u32::from(old > 1);
            self.raised_busy += u32::from(q.raise.factor > 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use sim::Lba;

    use super::*;
    use crate::elevator::bfq::Params;
    use crate::elevator::bfq::epoch::LONG_AGO;
    use crate::elevator::linux::pool::Piece;
    use crate::elevator::{Context, Policy};

    /// Where nobody else works: who is split and goes on at the same place is joined again.
    const FAR: u64 = 90_000_000;

    /// A disk, and requests that wait.
    struct Waiting {
        bfq: Bfq,
        pool: Pool,
    }

    impl Waiting {
        fn new() -> Waiting {
            let context = Context { nr_requests: 256, rotational: true };
            Waiting { bfq: Bfq::new(Params::default(), &context), pool: Pool::new() }
        }

        fn reads(&mut self, ms: u64, process: u32, lba: u64) -> u32 {
            let now = Nanos::from_millis(ms);
            let what = Request { process, ..Request::read(Lba(lba), 8) };
            let rq = self.pool.allocate(now, &Piece { what, split: NONE });
            self.bfq.add(now, &mut self.pool, rq);
            self.pool[rq].queue
        }

        fn process(&self, process: u32) -> usize {
            self.bfq.names.find(process).unwrap() as usize
        }
    }

    /// Process 2 works where process 1 does, and 3 elsewhere.
    fn joined() -> Waiting {
        let mut waiting = Waiting::new();
        let queues = [(1, 0), (3, 50_000_000), (2, 8)].map(|(p, lba)| waiting.reads(1, p, lba));
        assert_eq!(queues, [0, 1, 0]);
        waiting
    }

    #[test]
    fn what_is_joined_by_its_first_request_is_raised_when_it_is_split() {
        let mut waiting = joined();
        let process = waiting.process(2);
        assert!(waiting.bfq.processes[process].saved.raise.is_away());
        waiting.bfq.queues[0].to_split = true;
        let own = waiting.reads(100, 2, FAR) as usize;
        assert!(own > 1 && waiting.bfq.queues[own].is_raised());
    }

    #[test]
    fn what_a_process_thinks_goes_on_from_its_last_answer() {
        let mut waiting = joined();
        let process = waiting.process(2);
        waiting.bfq.processes[process].saved.answered = Nanos::from_millis(95);
        waiting.bfq.queues[0].to_split = true;
        let own = waiting.reads(100, 2, FAR) as usize;
        assert_eq!(waiting.bfq.queues[own].answered, Nanos::from_millis(95));
    }

    /// Who stays alone keeps his queue, and its mark is of the past.
    #[test]
    fn only_who_leaves_was_split_now() {
        let mut waiting = joined();
        waiting.bfq.queues[0].to_split = true;
        let own = waiting.reads(100, 2, FAR) as usize;
        assert_eq!(waiting.bfq.queues[own].split, waiting.bfq.tick());
        assert_eq!(waiting.reads(101, 1, 24), 0);
        assert!(!waiting.bfq.queues[0].shared);
        assert_eq!(waiting.bfq.queues[0].split, LONG_AGO);
    }

    #[test]
    fn who_leaves_a_queue_is_not_waited_for_where_it_was_to_go() {
        let mut waiting = joined();
        waiting.bfq.plan_join(0, 1);
        assert_eq!([0, 1].map(|queue| waiting.bfq.queues[queue].processes), [2, 3]);
        waiting.bfq.queues[0].to_split = true;
        waiting.reads(100, 2, FAR);
        assert_eq!([0, 1].map(|queue| waiting.bfq.queues[queue].processes), [1, 2]);
        waiting.reads(101, 1, 24);
        assert_eq!([0, 1].map(|queue| waiting.bfq.queues[queue].processes), [0, 1]);
    }

    /// In Linux the queues are one before the bio is a request, so that it may join that of the
    /// other process.
    #[test]
    fn a_bio_joins_its_queue_with_that_of_who_works_there() {
        let mut waiting = Waiting::new();
        let rq = {
            waiting.reads(1, 1, 0);
            waiting.bfq.queues[0].next
        };
        waiting.reads(1, 3, 50_000_000);
        assert_eq!(waiting.reads(1, 2, FAR), 2);
        let what = Request { process: 2, ..Request::read(Lba(8), 8) };
        let piece = Piece { what, split: NONE };
        let Waiting { bfq, pool } = &mut waiting;
        assert!(!bfq.may_merge(pool, rq, &piece));
        bfq.looks(Nanos::from_millis(2), pool, &piece);
        assert!(bfq.may_merge(pool, rq, &piece));
    }

    /// A process reads, has its answer and ends: the other one's read goes at once.
    #[test]
    fn nobody_waits_for_a_process_that_has_ended() {
        for ends in [false, true] {
            let mut waiting = Waiting::new();
            waiting.bfq.params.low_latency = false;
            let mut sent = Vec::new();
            waiting.reads(1, 1, 0);
            let Waiting { bfq, pool } = &mut waiting;
            bfq.dispatch(Nanos::from_millis(1), pool, &mut sent);
            bfq.started(Nanos::from_millis(1), pool, sent[0]);
            waiting.reads(2, 2, FAR);
            let Waiting { bfq, pool } = &mut waiting;
            let now = Nanos::from_millis(3);
            bfq.completed(now, pool, sent[0]);
            if ends {
                bfq.ended(now, pool, 1);
            }
            bfq.dispatch(now, pool, &mut sent);
            assert_eq!(sent.len(), 1 + usize::from(ends), "ends: {ends}");
        }
    }

    /// What it left behind is nobody's: no new queue is joined with it, and it wakes nobody.
    #[test]
    fn a_process_that_has_ended_leaves_nothing_to_join() {
        let mut waiting = joined();
        waiting.bfq.set_waker(0, 1);
        waiting.bfq.last_created = 1;
        let Waiting { bfq, pool } = &mut waiting;
        bfq.ended(Nanos::from_millis(2), pool, 3);
        assert_eq!((bfq.last_created, bfq.queues[0].inject.waker), (NONE, NONE));
        assert_eq!(bfq.plan_join(0, 1), None);
        assert_eq!(bfq.queues[1].processes, 0);
    }

    /// A queue that nobody uses any more wakes nobody.
    #[test]
    fn a_waker_without_processes_is_forgotten() {
        for (processes, expected) in [(0, NONE), (1, 1)] {
            let mut waiting = joined();
            waiting.bfq.set_waker(0, 1);
            waiting.bfq.queues[1].processes = processes;
            waiting.bfq.queues[0].to_split = true;
            let own = waiting.reads(100, 2, FAR) as usize;
            assert_eq!(waiting.bfq.queues[own].inject.waker, expected);
        }
    }
}

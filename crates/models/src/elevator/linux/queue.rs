//! The queue before a device: bios come in, requests go out.

pub(crate) mod recorded;
mod woken;

use std::collections::VecDeque;

use sim::{
    Busy, Completions, Counters, Device, Limits, Nanos, Op, Request, RequestId, Survivors,
    snapshot_fields,
};

use super::cut::Cut;
use super::extent::{Extent, is_mergeable};
use super::plug::{QueuePlug, TaskPlugs};
use super::pool::{NONE, Piece, Pool, State};
use super::share::Shares;
use super::tags::Tags;
use super::written::Written;
use crate::elevator::mutant::planted;
use crate::elevator::{Kind, Merging, Policy};
use crate::raid::legs::Legs;

/// The low bits of a request's name below: its place in the pool. The rest tells apart those that
/// had the place one after the other.
const PLACE_BITS: u32 = 22;

/// The one device below, as [`Legs`] counts.
const BELOW: usize = 0;

/// What does not change during a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Bios accepted at once.
    pub(crate) bios_max: u32,
    /// Requests in the device at once.
    pub(crate) depth: u32,
    /// The driver asks for a place in the device before it asks the policy. Without that it takes
    /// one request too many, which then waits before the device: nothing joins it, and it is next.
    pub(crate) budget: bool,
    pub(crate) nr_requests: u32,
    pub(crate) extent: Extent,
    /// Requests that open the plug of the queue.
    pub(crate) unplug_thresh: u32,
    /// When it opens in any case.
    pub(crate) unplug_delay: Nanos,
    /// Processes whose shares are counted one by one.
    pub(crate) processes: u32,
}

/// The longest request, from the kernel's settings.
pub(crate) fn extent(max_sectors_kb: u32, segments_max: u32, merge: bool) -> Extent {
    Extent {
        sectors_max: max_sectors_kb * 2,
        segments_max,
        merge,
        #[cfg(test)]
        mutant: None,
    }
}

/// What the queue counted.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counts {
    enqueued: u64,
    pieces: u64,
    pub(super) merged_back: u64,
    pub(super) merged_front: u64,
    pub(super) joined: u64,
    dequeued: u64,
    dequeued_reads: u64,
    dequeued_writes: u64,
    flushes: u64,
    waited: u64,
}

snapshot_fields!(Counts {
    enqueued,
    pieces,
    merged_back,
    merged_front,
    joined,
    dequeued,
    dequeued_reads,
    dequeued_writes,
    flushes,
    waited,
});

/// A block layer's queue with an elevator in it.
#[derive(Clone)]
pub(crate) struct Queue {
    below: Legs,
    limits: Limits,
    settings: Settings,
    pub(super) extent: Extent,
    pub(super) kind: Kind,
    pub(super) policy: Box<dyn Policy>,
    pub(super) pool: Pool,
    pub(super) tags: Tags,
    pub(super) plugs: TaskPlugs,
    plug: QueuePlug,
    /// The request that took or brought the last bio.
    pub(super) last_merge: u32,
    /// Chosen, but not yet in the device.
    dispatch: VecDeque<u32>,
    /// Where the last request that was sent ends.
    end_sector: u64,
    in_device: u32,
    barrier_out: bool,
    /// Bios inside.
    inside: u32,
    /// When somebody is through with submitting and waits; [`Nanos::MAX`] for nobody.
    sleeps_at: Nanos,
    /// When somebody was woken that has not gone on yet; [`Nanos::MAX`] for nobody.
    wakes_at: Nanos,
    sequence: u64,
    /// Flushes that are out: their names below and what they cover.
    flushes: Vec<(u64, u64)>,
    written: Written,
    shares: Shares,
    pub(super) counts: Counts,
    done: Vec<(usize, RequestId)>,
    chosen: Vec<u32>,
    #[cfg(test)]
    pub(super) mutant: Option<crate::elevator::mutant::Mutant>,
}

snapshot_fields!(Queue {
    below,
    policy,
    pool,
    tags,
    plugs,
    plug,
    last_merge,
    dispatch,
    end_sector,
    in_device,
    barrier_out,
    inside,
    sleeps_at,
    wakes_at,
    sequence,
    flushes,
    written,
    shares,
    counts,
});

impl Queue {
    pub(crate) fn new(
        below: Legs,
        policy: Box<dyn Policy>,
        kind: Kind,
        settings: Settings,
    ) -> Queue {
        let limits = Limits { queue_depth_max: settings.bios_max, ..below.limits(BELOW) };
        let tags = Tags::new(settings.nr_requests, kind.sharing, policy.depth_min());
        Queue {
            below,
            limits,
            settings,
            extent: settings.extent,
            kind,
            policy,
            pool: Pool::new(),
            tags,
            plugs: TaskPlugs::default(),
            plug: QueuePlug::default(),
            last_merge: NONE,
            dispatch: VecDeque::new(),
            end_sector: 0,
            in_device: 0,
            barrier_out: false,
            inside: 0,
            sleeps_at: Nanos::MAX,
            wakes_at: Nanos::MAX,
            sequence: 0,
            flushes: Vec::new(),
            written: Written::default(),
            shares: Shares::new(settings.processes),
            counts: Counts::default(),
            done: Vec::new(),
            chosen: Vec::new(),
            #[cfg(test)]
            mutant: None,
        }
    }

    /// A request of the host comes, in pieces that are not too long.
    fn enter(&mut self, now: Nanos, request: Request) {
        for piece in self.cut(request) {
            self.enter_piece(now, piece);
        }
    }

    fn enter_piece(&mut self, now: Nanos, piece: Piece) {
        self.counts.pieces += 1;
        self.accept(now, piece);
    }

    fn cut(&mut self, request: Request) -> Cut {
        let longest = self.extent.piece_sectors();
        Cut::new(&mut self.pool, request, longest)
    }

    /// A piece joins a request, becomes one, or waits for one.
    fn accept(&mut self, now: Nanos, piece: Piece) {
        if self.tags.wait_behind(now, &piece) || self.merge(now, &piece) {
            return;
        }
        let depth = self.policy.depth(&piece.what);
        if !self.become_request(now, &piece, depth) {
            self.counts.waited += 1;
            self.tags.sleep(now, piece, depth);
            // Whoever sleeps hands over what it kept back.
            self.sleeps_at = self.sleeps_at.min(now);
        }
    }

    fn become_request(&mut self, now: Nanos, piece: &Piece, depth: u32) -> bool {
        let policy = &self.policy;
        let tag = self.tags.take(now, piece, depth, || policy.expects(&piece.what));
        let Some(tag) = tag else { return false };
        let last = if self.kind.task_plug {
            self.plugs.last(piece.what.process).map_or(0, |rq| self.pool[rq].what.sectors)
        } else {
            0
        };
        let rq = self.pool.allocate(now, piece);
        self.pool[rq].tag = tag;
        if !self.kind.task_plug {
            self.insert_plugging(now, rq);
            return true;
        }
        self.pool[rq].state = State::Plugged;
        self.sleeps_at = self.sleeps_at.min(now);
        if let Some(list) = self.plugs.add(piece.what.process, rq, last) {
            self.insert_all(now, list);
            self.run(now);
        }
        true
    }

    /// As in 2.6.26: an empty queue is plugged first.
    fn insert_plugging(&mut self, now: Nanos, rq: u32) {
        if self.policy.is_empty() && self.dispatch.is_empty() && !planted!(self, NeverPlug) {
            self.plug.close(now.saturating_add(self.settings.unplug_delay));
        }
        let sync = self.pool[rq].is_sync();
        let kick = self.insert(now, rq);
        let waiting = self.tags.in_use().saturating_sub(self.in_device);
        let enough = waiting >= self.settings.unplug_thresh || planted!(self, NeverPlug);
        if kick || (self.plug.is_closed() || planted!(self, NeverPlug)) && enough {
            self.plug.open();
            self.run(now);
        } else if sync && self.plug.is_closed() && !planted!(self, LeaveSleepers) {
            self.sleeps_at = self.sleeps_at.min(now);
        }
    }

    /// Hand a request to the policy. True when it wants the queue to run.
    fn insert(&mut self, now: Nanos, rq: u32) -> bool {
        self.pool[rq].state = State::Queued;
        if self.kind.merging == Merging::Elevator && is_mergeable(&self.pool[rq].what) {
            self.pool.chain(rq);
            if self.last_merge == NONE {
                self.last_merge = rq;
            }
        }
        self.policy.add(now, &mut self.pool, rq)
    }

    fn insert_all(&mut self, now: Nanos, list: Vec<u32>) {
        for &rq in &list {
            if !self.merge_at_insert(now, rq) {
                self.insert(now, rq);
            }
        }
        self.plugs.reuse(list);
    }

    /// A request that nothing joins and that the policy does not see. In 2.6.26 nothing passes it
    /// on either side.
    fn send_alone(&mut self, now: Nanos, request: Request) {
        let rq = self.pool.allocate(now, &Piece { what: request, split: NONE });
        if !self.kind.task_plug {
            self.pool[rq].barrier = true;
            self.policy.drain(now, &mut self.pool, &mut self.chosen);
            for nth in 0..self.chosen.len() {
                self.leave_policy(self.chosen[nth]);
                self.dispatch.push_back(self.chosen[nth]);
            }
            self.chosen.clear();
            self.plug.open();
        }
        self.pool[rq].state = State::Dispatched;
        self.dispatch.push_back(rq);
        self.run(now);
    }

    fn leave_policy(&mut self, rq: u32) {
        self.pool.unchain(rq);
        self.pool[rq].state = State::Dispatched;
        if self.last_merge == rq {
            self.last_merge = NONE;
        }
    }

    /// Send what the device has room for.
    fn run(&mut self, now: Nanos) {
        while self.in_device < self.settings.depth {
            let Some(rq) = self.next(now) else { break };
            self.start(now, rq);
        }
        if !self.settings.budget && self.in_device == self.settings.depth {
            self.choose(now);
        }
    }

    fn next(&mut self, now: Nanos) -> Option<u32> {
        if self.barrier_out {
            return None;
        }
        self.choose(now);
        let &first = self.dispatch.front()?;
        if self.pool[first].barrier && self.in_device > 0 && !planted!(self, PassBarrier) {
            return None;
        }
        self.dispatch.pop_front()
    }

    /// Ask the policy what goes next, unless that is known.
    fn choose(&mut self, now: Nanos) {
        if self.dispatch.is_empty() {
            self.policy.dispatch(now, &mut self.pool, &mut self.chosen);
            for nth in 0..self.chosen.len() {
                self.leave_policy(self.chosen[nth]);
                self.dispatch_sorted(self.chosen[nth]);
            }
            self.chosen.clear();
        }
    }

    /// The driver's list rises from where the device is, and then from the beginning.
    fn dispatch_sorted(&mut self, rq: u32) {
        if self.dispatch.is_empty() {
            return self.dispatch.push_back(rq);
        }
        let (new, boundary) = (&self.pool[rq], self.end_sector);
        let passes = |&&other: &&u32| {
            let other = &self.pool[other];
            if other.barrier || other.what.op != new.what.op {
                return false;
            }
            match (new.start() >= boundary, other.start() >= boundary) {
                (true, false) => true,
                (false, true) => false,
                _ => new.start() < other.start(),
            }
        };
        let passed = self.dispatch.iter().rev().take_while(passes).count();
        self.dispatch.insert(self.dispatch.len() - passed, rq);
    }

    fn start(&mut self, now: Nanos, rq: u32) {
        self.sequence += 1;
        let name = self.sequence << PLACE_BITS | u64::from(rq);
        let entry = &mut self.pool[rq];
        (entry.state, entry.started) = (State::Started, now);
        let what = Request { id: RequestId(name), ..entry.what };
        self.barrier_out = entry.barrier;
        self.in_device += 1;
        match what.op {
            Op::Flush => {
                self.counts.flushes += 1;
                self.flushes.push((name, self.written.mark()));
            }
            _ => {
                self.counts.dequeued += 1;
                self.counts.dequeued_reads += u64::from(what.op == Op::Read);
                self.counts.dequeued_writes += u64::from(what.op == Op::Write);
                self.end_sector = what.end().0;
            }
        }
        if !self.is_alone(rq) {
            self.policy.started(now, &self.pool, rq);
        }
        self.below.submit(now, BELOW, what);
    }

    /// The policy does not know it.
    fn is_alone(&self, rq: u32) -> bool {
        self.pool[rq].barrier || self.pool[rq].what.op == Op::Flush
    }

    fn finish(&mut self, now: Nanos, name: RequestId, out: &mut Completions) {
        let rq = (name.0 & ((1 << PLACE_BITS) - 1)) as u32;
        self.in_device -= 1;
        self.barrier_out = false;
        let (alone, entry) = (self.is_alone(rq), &self.pool[rq]);
        let (what, started, tag) = (entry.what, entry.started, entry.tag);
        if what.op == Op::Flush {
            let index = self.flushes.iter().position(|(flush, _)| *flush == name.0);
            let index = index.expect("every flush that is out is listed");
            self.written.flushed(self.flushes.swap_remove(index).1);
        } else {
            self.shares.served(what.process, what.sectors, now.since(started));
        }
        if !alone {
            self.policy.completed(now, &self.pool, rq);
        }
        let keep = self.limits.write_cache && what.op == Op::Write && !what.fua;
        let only_first = planted!(self, AnswerFirst);
        let (written, inside) = (&mut self.written, &mut self.inside);
        self.pool.release(rq, |host, lba, sectors, whole| {
            if keep {
                written.add(name, host, lba, sectors);
            }
            if whole && !(only_first && lba > what.lba.0) {
                *inside -= 1;
                out.complete(host, now);
            }
        });
        if !alone {
            self.give_back(now, tag);
        }
    }

    pub(super) fn give_back(&mut self, now: Nanos, tag: u32) {
        if self.tags.give_back(tag) {
            self.wakes_at = now;
        }
    }

    /// Let the device below go on. What it does without an answer nobody above can see.
    fn go_on_below(&mut self, now: Nanos, out: &mut Completions) {
        let mut done = std::mem::take(&mut self.done);
        self.below.advance(now, out, &mut done);
        let answered = !done.is_empty() || planted!(self, SeeBelow);
        for (_, name) in done.drain(..) {
            self.finish(now, name, out);
        }
        self.done = done;
        if answered {
            // The driver asks for more, whatever is plugged.
            self.plug.open();
            self.run(now);
        }
    }

    /// When the policy's time or the plug's is over; [`Nanos::MAX`] for never.
    fn next_timer(&self) -> Nanos {
        let tasks = self.sleeps_at.min(self.wakes_at).min(self.plug.opens());
        tasks.min(self.policy.next_event().unwrap_or(Nanos::MAX))
    }

    /// Somebody waits: what was kept back goes on.
    fn unplug(&mut self, now: Nanos) {
        self.sleeps_at = Nanos::MAX;
        self.plug.open();
        while let Some(list) = self.plugs.hand_over() {
            self.insert_all(now, list);
        }
        self.run(now);
    }
}

impl Device for Queue {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.inside >= self.settings.bios_max {
            return Err(Busy);
        }
        self.inside += 1;
        let barrier = request.fua && !self.kind.task_plug;
        if request.op == Op::Flush {
            self.send_alone(now, request);
            return Ok(());
        }
        self.counts.enqueued += 1;
        if barrier {
            self.counts.pieces += 1;
            self.send_alone(now, request);
        } else {
            self.enter(now, request)
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        let next = self.next_timer().min(self.below.next_event().unwrap_or(Nanos::MAX));
        (next != Nanos::MAX).then_some(next)
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        loop {
            let below = self.below.next_event().is_some_and(|at| at <= now);
            if !below && self.next_timer() > now {
                return;
            }
            if below {
                self.go_on_below(now, out);
            }
            if self.policy.next_event().is_some_and(|at| at <= now) {
                self.policy.timer(now, &self.pool);
                self.run(now);
            }
            if self.sleeps_at.min(self.plug.opens()) <= now {
                self.unplug(now);
            }
            if self.wakes_at <= now {
                self.wake(now);
            }
        }
    }

    fn power_fail(&mut self, now: Nanos) -> Survivors {
        let mut inside = self.pool.hosts();
        inside.extend(self.tags.waiting().map(|piece| piece.what.id));
        let lost = self.below.power_fail(now).into_iter().flat_map(|survivors| survivors.lost);
        let lost: Vec<_> = lost.collect();
        let lost =
            if planted!(self, ForeignNames) { lost } else { self.written.name(&lost, &inside) };
        self.pool = Pool::new();
        self.policy.clear();
        let Settings { nr_requests, .. } = self.settings;
        self.tags = Tags::new(nr_requests, self.kind.sharing, self.policy.depth_min());
        self.plugs.clear();
        self.plug.open();
        self.dispatch.clear();
        self.flushes.clear();
        (self.last_merge, self.sleeps_at, self.wakes_at) = (NONE, Nanos::MAX, Nanos::MAX);
        (self.in_device, self.barrier_out, self.inside) = (0, false, 0);
        Survivors { lost }
    }

    fn apply(&mut self, request: &Request) {
        self.below.apply(BELOW, request);
    }

    fn prefetch(&mut self, request: &Request) {
        self.below.prefetch(BELOW, request);
    }

    fn counters(&self, out: &mut Counters) {
        let counts = &self.counts;
        out.add("enqueued", counts.enqueued);
        out.add("splits", counts.pieces - counts.enqueued);
        out.add("merged_back", counts.merged_back);
        out.add("merged_front", counts.merged_front);
        out.add("merged_requests", counts.joined);
        out.add("dequeued", counts.dequeued);
        out.add("dequeued_reads", counts.dequeued_reads);
        out.add("dequeued_writes", counts.dequeued_writes);
        out.add("flushes", counts.flushes);
        out.add("waited_for_request", counts.waited);
        self.policy.counters(out);
        self.shares.counters(out);
        self.below.counters(out);
    }

    fn wear(&self) -> Vec<sim::Wear> {
        self.below.wear()
    }

    fn freeze(&mut self) {
        self.below.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

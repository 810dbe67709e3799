//! What Linux md RAID-1 does with two legs, without and with write-behind.

use std::collections::{BTreeMap, VecDeque};

use sim::{
    Busy, Completions, Counters, Device, Limits, Nanos, Op, Request, RequestId, Survivors,
    snapshot_fields,
};

use super::legs::Legs;

const LEGS: usize = 2;

/// A host request that is out on a leg.
#[derive(Clone, Copy, Default, Debug)]
struct Open {
    request: Request,
    /// Legs that have not answered.
    waits: [bool; LEGS],
    issued: Nanos,
    /// What the leg that answered first took, in nanoseconds; 0 before.
    first_ns: u64,
    /// The host has its answer when the first leg has.
    behind: bool,
    /// When the host had it.
    acked: Option<Nanos>,
}

snapshot_fields!(Open { request, waits, issued, first_ns, behind, acked });

#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    behind: u64,
    behind_max: u64,
    synchronous: u64,
    overlaps: u64,
    exposed_sectors: u64,
    exposed_sectors_max: u64,
    flushes_exposed: u64,
    flushed_sectors_max: u64,
    /// Largest ratio of one write's times on the two legs, by the slower leg, in thousandths.
    slower: [u64; LEGS],
}

snapshot_fields!(Counts {
    behind,
    behind_max,
    synchronous,
    overlaps,
    exposed_sectors,
    exposed_sectors_max,
    flushes_exposed,
    flushed_sectors_max,
    slower,
});

/// A mirror of two legs as md runs it.
#[derive(Clone)]
pub(crate) struct Md {
    legs: Legs,
    limits: Limits,
    /// Writes acknowledged before the second leg has them, at most; the second leg is
    /// write-mostly then.
    behind_max: Option<u32>,
    open: BTreeMap<u64, Open>,
    /// Writes that wait for a write behind of the same sectors.
    stalled: VecDeque<(Request, Nanos)>,
    ready: VecDeque<(Nanos, RequestId)>,
    inside: u32,
    /// Requests out on each leg.
    pending: [u32; LEGS],
    /// Where the last read that it was given ends, and the last request that it has answered.
    next: [u64; LEGS],
    head: [u64; LEGS],
    counts: Counts,
    done: Vec<(usize, RequestId)>,
}

snapshot_fields!(Md { legs, open, stalled, ready, inside, pending, next, head, counts });

impl Md {
    /// A mirror of two legs; with `behind_max`, the second one is write-mostly.
    pub(crate) fn new(legs: Legs, queue_depth_max: u32, behind_max: Option<u32>) -> Md {
        let common = legs.common();
        // A write behind is not lost with the power, but with the first leg.
        let limits = Limits { queue_depth_max, ..common };
        Md {
            legs,
            limits,
            behind_max,
            open: BTreeMap::new(),
            stalled: VecDeque::new(),
            ready: VecDeque::new(),
            inside: 0,
            pending: [0; LEGS],
            next: [0; LEGS],
            head: [0; LEGS],
            counts: Counts::default(),
            done: Vec::new(),
        }
    }

    /// The leg to read from: the one that would go on where it is; where one is idle or flash the
    /// one with fewer requests out, else the one whose arm is nearer.
    fn read_leg(&self, request: &Request) -> usize {
        if self.behind_max.is_some() {
            return 0;
        }
        let goes_on = |leg: &usize| [self.next[*leg], self.head[*leg]].contains(&request.lba.0);
        if let Some(leg) = (0..LEGS).find(goes_on) {
            return leg;
        }
        let flash = (0..LEGS).any(|leg| !self.legs.limits(leg).rotational);
        let by_requests = flash || self.pending.contains(&0);
        let cost = |leg: &usize| {
            if by_requests {
                u64::from(self.pending[*leg])
            } else {
                self.head[*leg].abs_diff(request.lba.0)
            }
        };
        (0..LEGS).min_by_key(cost).unwrap_or(0)
    }

    fn overlaps_behind(&self, request: &Request) -> bool {
        self.open.values().any(|open| {
            open.behind
                && open.request.lba.0 < request.end().0
                && request.lba.0 < open.request.end().0
        })
    }

    fn begin(&mut self, now: Nanos, request: Request, issued: Nanos) {
        let mut waits = [true; LEGS];
        let mut behind = false;
        match request.op {
            Op::Read => {
                let leg = self.read_leg(&request);
                waits = std::array::from_fn(|other| other == leg);
                self.next[leg] = request.end().0;
            }
            Op::Write => {
                let free = |max| self.counts.behind < u64::from(max);
                behind = self.behind_max.is_some_and(free);
                self.counts.behind += u64::from(behind);
                self.counts.behind_max = self.counts.behind_max.max(self.counts.behind);
                let full = self.behind_max.is_some() && !behind;
                self.counts.synchronous += u64::from(full);
            }
            Op::Flush | Op::Discard => {}
        }
        let open = Open { request, waits, issued, first_ns: 0, behind, acked: None };
        self.open.insert(request.id.0, open);
        for leg in (0..LEGS).filter(|&leg| waits[leg]) {
            self.pending[leg] += 1;
            self.legs.submit(now, leg, request);
        }
    }

    fn acknowledge(&mut self, now: Nanos, id: RequestId) {
        self.inside -= 1;
        self.ready.push_back((now, id));
    }

    fn answered(&mut self, now: Nanos, leg: usize, id: RequestId) {
        self.pending[leg] -= 1;
        let Some(open) = self.open.get_mut(&id.0) else { return };
        open.waits[leg] = false;
        if matches!(open.request.op, Op::Read | Op::Write) {
            self.head[leg] = open.request.end().0;
        }
        let took = now.since(open.issued).0;
        let over = open.waits == [false; LEGS];
        if open.request.op == Op::Write {
            if over {
                let ratio = took.saturating_mul(1000) / open.first_ns.max(1);
                let slower = &mut self.counts.slower[leg];
                *slower = (*slower).max(ratio);
            }
            open.first_ns = took.max(1);
        }
        let first = open.behind && !open.waits[0];
        let newly = (over || first) && open.acked.is_none();
        if newly {
            open.acked = Some(now);
        }
        let Open { request, behind, issued, .. } = *open;
        if newly {
            self.acknowledge(now, id);
        }
        let sectors = u64::from(request.sectors);
        let counts = &mut self.counts;
        if newly && !over {
            counts.exposed_sectors += sectors;
            counts.exposed_sectors_max = counts.exposed_sectors_max.max(counts.exposed_sectors);
        }
        if over {
            self.open.remove(&id.0);
            counts.behind -= u64::from(behind);
            counts.exposed_sectors -= if behind && !newly { sectors } else { 0 };
            if request.op == Op::Flush {
                self.look_at_flush(issued);
            }
            self.retry(now);
        }
    }

    /// What a flush that came at `issued` promised although the second leg does not have it.
    fn look_at_flush(&mut self, issued: Nanos) {
        let before = |open: &&Open| open.acked.is_some_and(|acked| acked <= issued);
        let owed = self.open.values().filter(|open| open.behind).filter(before);
        let sectors: u64 = owed.map(|open| u64::from(open.request.sectors)).sum();
        self.counts.flushes_exposed += u64::from(sectors > 0);
        self.counts.flushed_sectors_max = self.counts.flushed_sectors_max.max(sectors);
    }

    fn retry(&mut self, now: Nanos) {
        while let Some(&(request, issued)) = self.stalled.front()
            && !self.overlaps_behind(&request)
        {
            self.stalled.pop_front();
            self.begin(now, request, issued);
        }
    }
}

impl Device for Md {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.inside >= self.limits.queue_depth_max {
            return Err(Busy);
        }
        self.inside += 1;
        let overlaps = request.op == Op::Write && self.overlaps_behind(&request);
        if overlaps {
            self.counts.overlaps += 1;
            self.stalled.push_back((request, now));
        } else {
            self.begin(now, request, now);
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = self.ready.front().map(|&(at, _)| at);
        [ready, self.legs.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        while self.legs.next_event().is_some_and(|at| at <= now) {
            let mut done = std::mem::take(&mut self.done);
            self.legs.advance(now, out, &mut done);
            for (leg, id) in done.drain(..) {
                self.answered(now, leg, id);
            }
            self.done = done;
        }
        for (at, id) in self.ready.drain(..) {
            out.complete(id, at);
        }
    }

    /// Both legs return: the first is copied over the second, as md does.
    fn power_fail(&mut self, now: Nanos) -> Survivors {
        let unreported: Vec<RequestId> = self.ready.drain(..).map(|(_, id)| id).collect();
        let open = std::mem::take(&mut self.open);
        let acked = |id: RequestId| {
            !unreported.contains(&id) && open.get(&id.0).is_none_or(|open| open.acked.is_some())
        };
        let first = self.legs.power_fail(now).into_iter().next().unwrap_or_default();
        self.stalled.clear();
        (self.inside, self.pending) = (0, [0; LEGS]);
        (self.counts.behind, self.counts.exposed_sectors) = (0, 0);
        Survivors { lost: first.lost.into_iter().filter(|lost| acked(lost.id)).collect() }
    }

    fn apply(&mut self, request: &Request) {
        (0..LEGS).for_each(|leg| self.legs.apply(leg, request));
    }

    fn counters(&self, out: &mut Counters) {
        let counts = &self.counts;
        out.add("behind_synchronous", counts.synchronous);
        out.add("behind_overlaps", counts.overlaps);
        out.add("flushes_exposed", counts.flushes_exposed);
        for (leg, name) in ["first", "second"].into_iter().enumerate() {
            out.level(format!("slower_{name}_milli"), counts.slower[leg]);
        }
        out.level("behind_max", counts.behind_max);
        out.level("exposed_bytes", counts.exposed_sectors * 512);
        out.level("exposed_bytes_max", counts.exposed_sectors_max * 512);
        out.level("flushed_exposed_bytes_max", counts.flushed_sectors_max * 512);
        self.legs.counters(out);
    }

    fn wear(&self) -> Vec<sim::Wear> {
        self.legs.wear()
    }

    fn freeze(&mut self) {
        self.legs.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

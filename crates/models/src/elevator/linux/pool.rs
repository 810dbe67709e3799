//! The requests of a queue, and the bios that each of them carries.

use std::ops::{Index, IndexMut};

use sim::{Nanos, Op, Request, RequestId, snapshot_enum, snapshot_fields};

/// No entry: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// Chains of requests by their end; a power of two.
const CHAINS: usize = 64;

/// Where a request is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum State {
    /// Not in use.
    #[default]
    Free,
    /// In the plug of a process.
    Plugged,
    /// With the policy.
    Queued,
    /// Chosen, but not yet in the device.
    Dispatched,
    /// In the device.
    Started,
}

snapshot_enum!(State { Free, Plugged, Queued, Dispatched, Started });

/// What goes to the device as one request: a run of sectors, and whose it is.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Rq {
    /// Its range and flags; the id means nothing.
    pub(crate) what: Request,
    /// Memory segments.
    pub(crate) segments: u32,
    pub(crate) state: State,
    /// The policy's queue it is in.
    pub(crate) queue: u32,
    /// The policy's number of its process.
    pub(crate) owner: u32,
    /// What it has of the tags.
    pub(crate) tag: u32,
    /// When it was allocated.
    pub(crate) allocated: Nanos,
    /// When the policy must have served it, or got it: the policy's own.
    pub(crate) time: Nanos,
    /// When it went to the device.
    pub(crate) started: Nanos,
    /// Keeps its place: nothing passes it.
    pub(crate) barrier: bool,
    first_bio: u32,
    last_bio: u32,
    /// Neighbours in a [`Fifo`].
    before: u32,
    after: u32,
    /// Neighbours in a chain of equal ends.
    chain_before: u32,
    chain_after: u32,
    chained: bool,
}

snapshot_fields!(Rq {
    what,
    segments,
    state,
    queue,
    owner,
    tag,
    allocated,
    time,
    started,
    barrier,
    first_bio,
    last_bio,
    before,
    after,
    chain_before,
    chain_after,
    chained,
});

impl Rq {
    pub(crate) fn start(&self) -> u64 {
        self.what.lba.0
    }

    pub(crate) fn end(&self) -> u64 {
        self.what.end().0
    }

    pub(crate) fn is_sync(&self) -> bool {
        self.what.is_sync()
    }

    /// 0 for a read, 1 for what changes the medium.
    pub(crate) fn direction(&self) -> usize {
        direction(self.what.op)
    }
}

/// 0 for a read, 1 for what changes the medium.
pub(crate) fn direction(op: Op) -> usize {
    usize::from(matches!(op, Op::Write | Op::Discard))
}

/// A request of the host, or a piece of one, inside an [`Rq`].
#[derive(Clone, Copy, Default, Debug)]
struct Bio {
    id: RequestId,
    sectors: u32,
    next: u32,
    /// The split it is a piece of.
    split: u32,
}

snapshot_fields!(Bio { id, sectors, next, split });

/// A host's request, or a piece of it, on its way into the queue.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Piece {
    /// Its range and flags, and the host's name of it.
    pub(crate) what: Request,
    /// The split it is a piece of.
    pub(crate) split: u32,
}

snapshot_fields!(Piece { what, split });

/// All requests of a queue.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    rqs: Vec<Rq>,
    free: Vec<u32>,
    bios: Vec<Bio>,
    free_bios: Vec<u32>,
    /// Pieces that are still out, per split.
    splits: Vec<u32>,
    free_splits: Vec<u32>,
    /// First request of each chain.
    chains: [u32; CHAINS],
}

snapshot_fields!(Pool { rqs, free, bios, free_bios, splits, free_splits, chains });

impl Index<u32> for Pool {
    type Output = Rq;
    #[inline]
    fn index(&self, rq: u32) -> &Rq {
        &self.rqs[rq as usize]
    }
}

impl IndexMut<u32> for Pool {
    #[inline]
    fn index_mut(&mut self, rq: u32) -> &mut Rq {
        &mut self.rqs[rq as usize]
    }
}

/// Memory segments of a range: every page is one of its own.
pub(crate) fn segments(sectors: u32) -> u32 {
    sectors.div_ceil(8)
}

fn chain(end: u64) -> usize {
    // Requests mostly end at multiples of a page.
    ((end >> 3) ^ (end >> 9)) as usize % CHAINS
}

fn take<T: Default>(all: &mut Vec<T>, free: &mut Vec<u32>) -> u32 {
    free.pop().unwrap_or_else(|| {
        all.push(T::default());
        all.len() as u32 - 1
    })
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool {
            rqs: Vec::new(),
            free: Vec::new(),
            bios: Vec::new(),
            free_bios: Vec::new(),
            splits: Vec::new(),
            free_splits: Vec::new(),
            chains: [NONE; CHAINS],
        }
    }

    /// Remember a request of the host that goes in several pieces.
    pub(crate) fn split(&mut self, pieces: u32) -> u32 {
        let split = take(&mut self.splits, &mut self.free_splits);
        self.splits[split as usize] = pieces;
        split
    }

    /// A new request that carries one piece.
    pub(crate) fn allocate(&mut self, now: Nanos, piece: &Piece) -> u32 {
        let bio = self.bio(piece);
        let rq = take(&mut self.rqs, &mut self.free);
        self.rqs[rq as usize] = Rq {
            what: piece.what,
            segments: segments(piece.what.sectors),
            queue: NONE,
            owner: NONE,
            allocated: now,
            first_bio: bio,
            last_bio: bio,
            before: NONE,
            after: NONE,
            chain_before: NONE,
            chain_after: NONE,
            ..Rq::default()
        };
        rq
    }

    fn bio(&mut self, piece: &Piece) -> u32 {
        let bio = take(&mut self.bios, &mut self.free_bios);
        let Piece { what, split } = *piece;
        self.bios[bio as usize] = Bio { id: what.id, sectors: what.sectors, next: NONE, split };
        bio
    }

    /// A piece that begins where the request ends becomes its tail.
    pub(crate) fn append(&mut self, rq: u32, piece: &Piece) {
        let bio = self.bio(piece);
        let chained = self.unchain(rq);
        let rq_ = &mut self.rqs[rq as usize];
        self.bios[rq_.last_bio as usize].next = bio;
        rq_.last_bio = bio;
        rq_.what.sectors += piece.what.sectors;
        rq_.segments += segments(piece.what.sectors);
        if chained {
            self.chain(rq);
        }
    }

    /// A piece that ends where the request begins becomes its head.
    pub(crate) fn prepend(&mut self, rq: u32, piece: &Piece) {
        let bio = self.bio(piece);
        let rq = &mut self.rqs[rq as usize];
        self.bios[bio as usize].next = rq.first_bio;
        rq.first_bio = bio;
        rq.what.lba = piece.what.lba;
        rq.what.sectors += piece.what.sectors;
        rq.segments += segments(piece.what.sectors);
    }

    /// `second` begins where `first` ends: its bios go over, and it is free.
    pub(crate) fn join(&mut self, first: u32, second: u32) {
        let chained = self.unchain(first);
        self.unchain(second);
        let Rq { what, segments, first_bio, last_bio, allocated, .. } = self[second];
        let rq = &mut self.rqs[first as usize];
        self.bios[rq.last_bio as usize].next = first_bio;
        rq.last_bio = last_bio;
        rq.what.sectors += what.sectors;
        rq.segments += segments;
        rq.allocated = rq.allocated.min(allocated);
        self.rqs[second as usize].state = State::Free;
        self.free.push(second);
        if chained {
            self.chain(first);
        }
    }

    /// The request is over. Calls `each` with the host's name of every request in it, where its
    /// part begins, how long it is, and whether it is the last part of it.
    pub(crate) fn release(&mut self, rq: u32, mut each: impl FnMut(RequestId, u64, u32, bool)) {
        self.unchain(rq);
        let Rq { mut first_bio, what, .. } = self[rq];
        let mut lba = what.lba.0;
        while first_bio != NONE {
            let Bio { id, sectors, next, split } = self.bios[first_bio as usize];
            let mut whole = true;
            if split != NONE {
                let left = &mut self.splits[split as usize];
                *left -= 1;
                whole = *left == 0;
                if whole {
                    self.free_splits.push(split);
                }
            }
            each(id, lba, sectors, whole);
            lba += u64::from(sectors);
            self.free_bios.push(first_bio);
            first_bio = next;
        }
        self.rqs[rq as usize].state = State::Free;
        self.free.push(rq);
    }

    /// The host's names of all requests that are in use, those of splits more than once.
    pub(crate) fn hosts(&self) -> Vec<RequestId> {
        let mut hosts = Vec::new();
        for rq in self.rqs.iter().filter(|rq| rq.state != State::Free) {
            let mut bio = rq.first_bio;
            while bio != NONE {
                hosts.push(self.bios[bio as usize].id);
                bio = self.bios[bio as usize].next;
            }
        }
        hosts
    }

    /// The request in a plug that holds a sector.
    pub(super) fn plugged_at(&self, sector: u64) -> Option<u32> {
        let holds =
            |rq: &Rq| rq.state == State::Plugged && (rq.start()..rq.end()).contains(&sector);
        self.rqs.iter().position(holds).map(|index| index as u32)
    }

    /// What waits with the policy, or was chosen by it, that came by `until` and has a sector in
    /// common with a range.
    pub(super) fn waiting_in(&self, first: u64, end: u64, until: Nanos) -> Vec<u32> {
        let is = |rq: &Rq| {
            matches!(rq.state, State::Queued | State::Dispatched)
                && rq.allocated <= until
                && rq.start() < end
                && rq.end() > first
        };
        let mut found: Vec<u32> =
            (0..self.rqs.len() as u32).filter(|&rq| is(&self.rqs[rq as usize])).collect();
        found.sort_by_key(|&rq| self.rqs[rq as usize].start());
        found
    }

    /// Requests in a state.
    pub(super) fn count(&self, state: State) -> usize {
        self.rqs.iter().filter(|rq| rq.state == state).count()
    }

    /// Make a request findable by its end.
    pub(crate) fn chain(&mut self, rq: u32) {
        let head = chain(self[rq].end());
        let after = self.chains[head];
        let entry = &mut self.rqs[rq as usize];
        (entry.chained, entry.chain_before, entry.chain_after) = (true, NONE, after);
        if after != NONE {
            self.rqs[after as usize].chain_before = rq;
        }
        self.chains[head] = rq;
    }

    /// The opposite; returns whether it was findable.
    pub(crate) fn unchain(&mut self, rq: u32) -> bool {
        let Rq { chained, chain_before, chain_after, .. } = self[rq];
        if !chained {
            return false;
        }
        match chain_before {
            NONE => {
                let head = chain(self[rq].end());
                self.chains[head] = chain_after;
            }
            before => self.rqs[before as usize].chain_after = chain_after,
        }
        if chain_after != NONE {
            self.rqs[chain_after as usize].chain_before = chain_before;
        }
        self.rqs[rq as usize].chained = false;
        true
    }

    /// The findable requests that end at a sector, newest first.
    pub(crate) fn ending_at(&self, end: u64) -> impl Iterator<Item = u32> + '_ {
        let first = self.chains[chain(end)];
        let next = |&rq: &u32| Some(self[rq].chain_after).filter(|&rq| rq != NONE);
        let all = std::iter::successors(Some(first).filter(|&rq| rq != NONE), next);
        all.filter(move |&rq| self[rq].end() == end)
    }
}

/// Requests in the order in which they came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

snapshot_fields!(Fifo { head, tail });

impl Default for Fifo {
    fn default() -> Fifo {
        Fifo { head: NONE, tail: NONE }
    }
}

impl Fifo {
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(crate) fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(crate) fn tail(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    /// The entry behind this one.
    pub(crate) fn after(pool: &Pool, rq: u32) -> Option<u32> {
        Some(pool[rq].after).filter(|&rq| rq != NONE)
    }

    /// The entry before this one.
    pub(crate) fn before(pool: &Pool, rq: u32) -> Option<u32> {
        Some(pool[rq].before).filter(|&rq| rq != NONE)
    }

    pub(crate) fn push(&mut self, pool: &mut Pool, rq: u32) {
        (pool[rq].before, pool[rq].after) = (self.tail, NONE);
        match self.tail {
            NONE => self.head = rq,
            tail => pool[tail].after = rq,
        }
        self.tail = rq;
    }

    pub(crate) fn remove(&mut self, pool: &mut Pool, rq: u32) {
        let (before, after) = (pool[rq].before, pool[rq].after);
        match before {
            NONE => self.head = after,
            before => pool[before].after = after,
        }
        match after {
            NONE => self.tail = before,
            after => pool[after].before = before,
        }
    }

    /// `second` became a part of `first`: the one that would have expired first keeps its place.
    pub(crate) fn join(&mut self, pool: &mut Pool, first: u32, second: u32) {
        if pool[second].time < pool[first].time {
            pool[first].time = pool[second].time;
            self.take_place(pool, first, second);
        } else {
            self.remove(pool, second);
        }
    }

    /// `gone` leaves, and `rq` takes its place.
    fn take_place(&mut self, pool: &mut Pool, rq: u32, gone: u32) {
        self.remove(pool, rq);
        let (before, after) = (pool[gone].before, pool[gone].after);
        (pool[rq].before, pool[rq].after) = (before, after);
        match before {
            NONE => self.head = rq,
            before => pool[before].after = rq,
        }
        match after {
            NONE => self.tail = rq,
            after => pool[after].before = rq,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Lba;

    fn piece(id: u64, lba: u64, sectors: u32) -> Piece {
        let what = Request { id: RequestId(id), ..Request::read(Lba(lba), sectors) };
        Piece { what, split: NONE }
    }

    fn parts(pool: &mut Pool, rq: u32) -> Vec<(u64, u64, u32)> {
        let mut parts = Vec::new();
        pool.release(rq, |id, lba, sectors, _| parts.push((id.0, lba, sectors)));
        parts
    }

    #[test]
    fn bios_come_out_in_the_order_of_their_sectors() {
        let mut pool = Pool::new();
        let middle = pool.allocate(Nanos(5), &piece(1, 100, 8));
        pool.append(middle, &piece(2, 108, 16));
        pool.prepend(middle, &piece(3, 92, 8));
        let tail = pool.allocate(Nanos(6), &piece(4, 124, 8));
        pool.chain(middle);
        pool.chain(tail);
        pool.join(middle, tail);
        assert_eq!((pool[middle].start(), pool[middle].end()), (92, 132));
        assert_eq!(pool[middle].segments, 5);
        assert_eq!(pool.ending_at(132).collect::<Vec<_>>(), [middle]);
        assert_eq!(pool.ending_at(124).count(), 0);
        let all = [(3, 92, 8), (1, 100, 8), (2, 108, 16), (4, 124, 8)];
        assert_eq!(parts(&mut pool, middle), all);
        assert_eq!(pool.ending_at(132).count(), 0);
        assert!(pool.hosts().is_empty());
    }

    #[test]
    fn a_split_request_is_over_with_its_last_piece() {
        let mut pool = Pool::new();
        let split = pool.split(2);
        let of = |id, lba| Piece { split, ..piece(id, lba, 8) };
        let (a, b) = (pool.allocate(Nanos(0), &of(7, 0)), pool.allocate(Nanos(0), &of(7, 8)));
        let mut whole = Vec::new();
        pool.release(b, |_, _, _, last| whole.push(last));
        pool.release(a, |_, _, _, last| whole.push(last));
        assert_eq!(whole, [false, true]);
    }

    #[test]
    fn a_fifo_forgets_in_the_middle_and_hands_over_places() {
        let (mut pool, mut fifo) = (Pool::new(), Fifo::default());
        let rqs: Vec<u32> =
            (0..4).map(|n| pool.allocate(Nanos(0), &piece(n, n * 100, 8))).collect();
        rqs.iter().for_each(|&rq| fifo.push(&mut pool, rq));
        fifo.remove(&mut pool, rqs[1]);
        fifo.take_place(&mut pool, rqs[3], rqs[0]);
        let mut order = vec![fifo.head().unwrap()];
        while let Some(next) = Fifo::after(&pool, *order.last().unwrap()) {
            order.push(next);
        }
        assert_eq!(order, [rqs[3], rqs[2]]);
        assert_eq!((fifo.tail(), Fifo::before(&pool, rqs[2])), (Some(rqs[2]), Some(rqs[3])));
    }
}

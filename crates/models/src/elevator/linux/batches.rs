//! Batches by sector with deadlines: what `deadline` and `mq-deadline` share.

use sim::{Nanos, Request, snapshot_fields};

use super::pool::{Fifo, NONE, Piece, Pool, direction};
use super::sorted::Sorted;

/// What the tunables say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Of reads and writes.
    pub(crate) expire: [Nanos; 2],
    pub(crate) fifo_batch: u32,
    pub(crate) writes_starved: u32,
    /// A batch ends where the next request does not begin at the last one's end.
    pub(crate) only_sequential: bool,
    pub(crate) place: KeptPlace,
    /// Times are compared in ticks of the kernel's.
    pub(crate) tick: Nanos,
}

/// Where a direction goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeptPlace {
    /// At the request that came next when the last one left; not after the other direction's turn.
    UntilOtherDirection,
    /// At that request.
    Request,
    /// At the first request that does not begin before the last one did, whenever it came.
    Position,
}

const READ: usize = 0;
const WRITE: usize = 1;

/// The batch that runs. Linux has one, whatever the classes of priority.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Its direction.
    way: usize,
    /// Its requests.
    batching: u32,
    /// Times that writes were passed over.
    starved: u32,
}

snapshot_fields!(Turn { way, batching, starved });

impl Turn {
    /// Before the first batch, Linux of today takes the last one for one of writes.
    pub(crate) fn of_writes() -> Turn {
        Turn { way: WRITE, ..Turn::of_reads() }
    }

    pub(crate) fn of_reads() -> Turn {
        Turn { way: READ, batching: 0, starved: 0 }
    }

    /// A request goes, chosen by [`Batches::next`].
    pub(crate) fn count(&mut self) {
        self.batching += 1;
    }
}

/// Waiting requests of both directions.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    rules: Rules,
    sorted: [Sorted; 2],
    fifo: [Fifo; 2],
    /// Where a batch of each direction would go on.
    next: [u32; 2],
    /// Where its last request began.
    position: [u64; 2],
    /// Where the last request ended.
    last_sector: u64,
}

snapshot_fields!(Batches { sorted, fifo, next, position, last_sector });

impl Batches {
    pub(crate) fn new(rules: Rules) -> Batches {
        Batches {
            rules,
            sorted: Default::default(),
            fifo: Default::default(),
            next: [NONE; 2],
            position: [0; 2],
            last_sector: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fifo.iter().all(Fifo::is_empty)
    }

    fn tick(&self, now: Nanos) -> Nanos {
        Nanos(now.0 - now.0 % self.rules.tick.0)
    }

    pub(crate) fn add(&mut self, now: Nanos, pool: &mut Pool, rq: u32) {
        let way = pool[rq].direction();
        pool[rq].time = self.tick(now).saturating_add(self.rules.expire[way]);
        self.sorted[way].insert(pool, rq);
        self.fifo[way].push(pool, rq);
    }

    /// The request that goes next, and whether its time was over. It still waits, although a new
    /// batch has begun.
    pub(crate) fn next(&mut self, now: Nanos, pool: &Pool, turn: &mut Turn) -> Option<(u32, bool)> {
        let next = self.next_of(turn.way);
        if next != NONE {
            if self.rules.only_sequential && pool[next].start() != self.last_sector {
                turn.batching = self.rules.fifo_batch;
            }
            if turn.batching < self.rules.fifo_batch {
                return Some((next, false));
            }
        }
        let waits = [READ, WRITE].map(|way| !self.fifo[way].is_empty());
        let way = match waits {
            [false, false] => return None,
            [true, true] if turn.starved >= self.rules.writes_starved => WRITE,
            [true, writes] => {
                turn.starved += u32::from(writes);
                READ
            }
            [false, true] => WRITE,
        };
        if way == WRITE {
            turn.starved = 0;
        }
        let oldest = self.fifo[way].head()?;
        let expired = pool[oldest].time <= self.tick(now);
        let next = if way == turn.way { next } else { self.next_of(way) };
        (turn.way, turn.batching) = (way, 0);
        Some((if next != NONE && !expired { next } else { oldest }, expired))
    }

    fn next_of(&self, way: usize) -> u32 {
        match self.rules.place {
            KeptPlace::Position => self.sorted[way].from(self.position[way]).unwrap_or(NONE),
            KeptPlace::Request | KeptPlace::UntilOtherDirection => self.next[way],
        }
    }

    /// A request leaves for the device.
    pub(crate) fn take(&mut self, pool: &mut Pool, rq: u32) {
        let way = pool[rq].direction();
        self.last_sector = pool[rq].end();
        match self.rules.place {
            KeptPlace::Position => self.position[way] = pool[rq].start(),
            KeptPlace::Request => self.next[way] = self.behind(pool, rq),
            KeptPlace::UntilOtherDirection => {
                self.next = [NONE; 2];
                self.next[way] = self.behind(pool, rq);
            }
        }
        self.sorted[way].remove(pool, rq);
        self.fifo[way].remove(pool, rq);
    }

    /// A request that never waited here went to the device.
    pub(crate) fn passed(&mut self, what: &Request) {
        self.position[direction(what.op)] = what.lba.0;
    }

    fn behind(&self, pool: &Pool, rq: u32) -> u32 {
        self.sorted[pool[rq].direction()].after(pool, rq).unwrap_or(NONE)
    }

    /// A request of this direction that waits longest.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.fifo[READ].head().or(self.fifo[WRITE].head())
    }

    pub(crate) fn front(&self, piece: &Piece) -> Option<u32> {
        self.sorted[direction(piece.what.op)].at(piece.what.end().0)
    }

    pub(crate) fn grown(&mut self, pool: &Pool, rq: u32, old: u64) {
        self.sorted[pool[rq].direction()].moved(pool, rq, old);
    }

    pub(crate) fn latter(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.sorted[pool[rq].direction()].after(pool, rq)
    }

    pub(crate) fn former(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.sorted[pool[rq].direction()].before(pool, rq)
    }

    /// The one that would have expired first keeps its place.
    pub(crate) fn joined(&mut self, pool: &mut Pool, first: u32, second: u32) {
        let way = pool[first].direction();
        if self.next[way] == second {
            self.next[way] = self.behind(pool, second);
        }
        self.sorted[way].remove(pool, second);
        self.fifo[way].join(pool, first, second);
    }

    pub(crate) fn clear(&mut self) {
        *self = Batches::new(self.rules);
    }
}

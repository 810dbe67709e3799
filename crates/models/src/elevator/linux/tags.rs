//! Who may have a request of the pool, and who waits for one.

use std::collections::VecDeque;

use sim::{Nanos, snapshot_fields};

use super::pool::{Piece, direction};

/// Requests that a process may take in a row after it had to wait.
const BATCH_REQUESTS: u32 = 32;
/// For how long it may: HZ / 50 ticks.
const BATCH_TIME: Nanos = Nanos::from_millis(20);

/// A process that waited and now fills the queue for a while.
#[derive(Clone, Copy, Default, Debug)]
struct Batcher {
    process: u32,
    left: u32,
    until: Nanos,
}

snapshot_fields!(Batcher { process, left, until });

/// Someone who waits for a request.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Waiting {
    pub(crate) piece: Piece,
    /// It looked for something to merge with before it fell asleep.
    pub(crate) tried: bool,
}

snapshot_fields!(Waiting { piece, tried });

/// A process that sleeps until it has a request. What it asked for later waits behind that: it
/// could not have asked asleep.
#[derive(Clone, Default, Debug)]
struct Sleeper {
    process: u32,
    pieces: VecDeque<Waiting>,
}

snapshot_fields!(Sleeper { process, pieces });

/// Who shares a limit, and so a line to wait in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    /// Each direction has a limit, as in 2.6.26.
    Directions,
    /// One limit, which the policy lowers for those whom nobody waits for.
    Waited,
    /// One limit for all: a request of the pool is a place in the device.
    All,
}

/// The map of today's requests, in words: a policy lowers the limit by so many requests of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Words {
    /// Requests of a word.
    pub(crate) requests: u32,
    count: u32,
}

impl Words {
    /// At least four words of at most 64, of which each has half as many until they fit.
    pub(crate) fn of(nr_requests: u32) -> Words {
        let mut requests = 64;
        while nr_requests >= 4 && 4 * requests > nr_requests {
            requests /= 2;
        }
        Words { requests, count: nr_requests.div_ceil(requests) }
    }

    /// So many of each word.
    pub(crate) fn limit(self, per_word: u32) -> u32 {
        self.count * per_word
    }
}

/// The request pool: of 2.6.26, with a limit per direction and batches, or of today, with one
/// limit that the policy may lower for some.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    nr_requests: u32,
    sharing: Sharing,
    count: [u32; 2],
    full: [bool; 2],
    /// Who sleeps, and is woken in this order.
    sleepers: [VecDeque<Sleeper>; 2],
    batchers: Vec<Batcher>,
}

snapshot_fields!(Tags { count, full, sleepers, batchers });

impl Tags {
    pub(crate) fn new(nr_requests: u32, sharing: Sharing) -> Tags {
        Tags {
            nr_requests,
            sharing,
            count: [0; 2],
            full: [false; 2],
            sleepers: Default::default(),
            batchers: Vec::new(),
        }
    }

    /// Requests in use.
    pub(crate) fn in_use(&self) -> u32 {
        self.count[0] + self.count[1]
    }

    /// Take a request for this piece, if it may have one. `depth` is the policy's limit for it,
    /// `must` asks whether the policy is waiting for this very process.
    pub(crate) fn take(
        &mut self,
        now: Nanos,
        piece: &Piece,
        depth: u32,
        must: impl FnOnce() -> bool,
    ) -> bool {
        let way = direction(piece.what.op);
        if !self.has_batches() {
            let free = self.in_use() < depth.min(self.nr_requests);
            self.count[way] += u32::from(free);
            return free;
        }
        if self.count[way] + 1 >= self.nr_requests {
            if !self.full[way] {
                self.full[way] = true;
                self.batch(now, piece.what.process);
            } else if !self.is_batching(now, piece.what.process) && !must() {
                return false;
            }
        }
        if self.count[way] >= 3 * self.nr_requests / 2 {
            return false;
        }
        self.count[way] += 1;
        // A batch is counted in the requests that are taken.
        if let Some(batcher) = self.batchers.iter_mut().find(|b| b.process == piece.what.process) {
            batcher.left = batcher.left.saturating_sub(1);
        }
        true
    }

    fn batch(&mut self, now: Nanos, process: u32) {
        self.batchers.retain(|b| b.process != process && b.left > 0 && b.until > now);
        let until = now.saturating_add(BATCH_TIME);
        self.batchers.push(Batcher { process, left: BATCH_REQUESTS, until });
    }

    fn is_batching(&self, now: Nanos, process: u32) -> bool {
        let batcher = self.batchers.iter().find(|b| b.process == process);
        // A batch that was not begun does not run out.
        batcher.is_some_and(|b| b.left == BATCH_REQUESTS || b.left > 0 && now < b.until)
    }

    fn has_batches(&self) -> bool {
        self.sharing == Sharing::Directions
    }

    /// Where it waits.
    fn line(&self, piece: &Piece) -> usize {
        match self.sharing {
            Sharing::Directions => direction(piece.what.op),
            Sharing::Waited => usize::from(!piece.what.is_sync()),
            Sharing::All => 0,
        }
    }

    /// The lines that may go on when a request of this direction is free.
    pub(crate) fn lines(&self, way: usize) -> std::ops::RangeInclusive<usize> {
        if self.has_batches() { way..=way } else { 0..=1 }
    }

    /// Does the process of this piece already wait?
    pub(crate) fn is_asleep(&self, piece: &Piece) -> bool {
        let mut sleepers = self.sleepers[self.line(piece)].iter();
        sleepers.any(|sleeper| sleeper.process == piece.what.process)
    }

    pub(crate) fn wait(&mut self, piece: Piece, tried: bool) {
        let line = self.line(&piece);
        let process = piece.what.process;
        let sleepers = &mut self.sleepers[line];
        let waiting = Waiting { piece, tried };
        match sleepers.iter_mut().find(|sleeper| sleeper.process == process) {
            Some(sleeper) => sleeper.pieces.push_back(waiting),
            None => sleepers.push_back(Sleeper { process, pieces: [waiting].into() }),
        }
    }

    /// A request of this direction is free again.
    pub(crate) fn give_back(&mut self, way: usize) {
        self.count[way] -= 1;
        if self.count[way] < self.nr_requests {
            self.full[way] = false;
        }
    }

    /// Who waits longest in a line stops waiting, to try again. With `of`, only if it is that
    /// process. Today, whoever wants another request waits for it behind all others.
    pub(crate) fn wake(&mut self, now: Nanos, line: usize, of: Option<u32>) -> Option<Waiting> {
        let sleeper = self.sleepers[line].front_mut()?;
        let process = sleeper.process;
        if of.is_some_and(|of| of != process) {
            return None;
        }
        let first = sleeper.pieces.pop_front()?;
        if sleeper.pieces.is_empty() {
            self.sleepers[line].pop_front();
        } else if !self.has_batches() {
            self.sleepers[line].rotate_left(1);
        }
        if self.has_batches() && self.count[line] < self.nr_requests && first.tried {
            self.batch(now, process);
        }
        Some(first)
    }

    /// It had no luck and waits on, before all others.
    pub(crate) fn wait_on(&mut self, line: usize, waiting: Waiting) {
        let process = waiting.piece.what.process;
        let sleepers = &mut self.sleepers[line];
        let at = sleepers.iter().position(|sleeper| sleeper.process == process);
        let sleeper = at.and_then(|at| sleepers.remove(at));
        let mut sleeper = sleeper.unwrap_or_else(|| Sleeper { process, ..Sleeper::default() });
        sleeper.pieces.push_front(Waiting { tried: true, ..waiting });
        sleepers.push_front(sleeper);
    }

    /// Everybody who waits.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Piece> {
        let pieces = self.sleepers.iter().flatten().flat_map(|sleeper| &sleeper.pieces);
        pieces.map(|waiting| &waiting.piece)
    }

    /// Nothing is in use and nobody waits.
    pub(crate) fn clear(&mut self) {
        *self = Tags::new(self.nr_requests, self.sharing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::linux::pool::NONE;
    use sim::{Lba, Request};

    fn of(process: u32) -> Piece {
        let what = Request { process, ..Request::read(Lba(0), 8) };
        Piece { what, split: NONE }
    }

    fn take(tags: &mut Tags, now: u64, process: u32) -> bool {
        tags.take(Nanos(now), &of(process), u32::MAX, || false)
    }

    /// By hand from the rules: the process that fills the pool goes on for a batch of 32, but
    /// never beyond half as much again; anybody else waits.
    #[test]
    fn the_process_that_fills_the_pool_may_go_on_and_others_may_not() {
        let mut tags = Tags::new(128, Sharing::Directions);
        assert!((0..127).all(|_| take(&mut tags, 0, 1)));
        // The 128th marks the pool as full and process 1 as batching.
        assert!(take(&mut tags, 0, 1));
        assert!(!take(&mut tags, 0, 2));
        let more = (0..200).take_while(|_| take(&mut tags, 1, 1)).count();
        assert_eq!(more, 31);
        assert_eq!(tags.in_use(), 159);
        // Writes have a pool of their own.
        let what = Request::write(Lba(0), 8);
        assert!(tags.take(Nanos(0), &Piece { what, split: NONE }, u32::MAX, || false));
    }

    #[test]
    fn a_batch_ends_after_twenty_milliseconds() {
        let mut tags = Tags::new(4, Sharing::Directions);
        assert!((0..4).all(|_| take(&mut tags, 0, 1)));
        assert!(take(&mut tags, BATCH_TIME.0 - 1, 1));
        assert!(!take(&mut tags, BATCH_TIME.0, 1));
    }

    #[test]
    fn nobody_has_more_than_half_as_much_again() {
        let mut tags = Tags::new(8, Sharing::Directions);
        assert_eq!((0..100).take_while(|_| take(&mut tags, 0, 1)).count(), 12);
        // Even whom the policy waits for.
        assert!(!tags.take(Nanos(0), &of(1), u32::MAX, || true));
        tags.give_back(0);
        assert!(tags.take(Nanos(0), &of(9), u32::MAX, || true));
    }

    #[test]
    fn a_woken_sleeper_gets_a_batch() {
        let mut tags = Tags::new(4, Sharing::Directions);
        assert!((0..4).all(|_| take(&mut tags, 0, 1)));
        assert!(!take(&mut tags, 0, 2));
        tags.wait(of(2), true);
        assert!(tags.is_asleep(&of(2)) && !tags.is_asleep(&of(3)));
        tags.give_back(0);
        let sleeper = tags.wake(Nanos(9), 0, None).unwrap();
        assert!(take(&mut tags, 9, sleeper.piece.what.process));
        // It is full again, but process 2 fills it up to six.
        assert!(take(&mut tags, 9, 2) && take(&mut tags, 9, 2));
        assert!(!take(&mut tags, 9, 2));
    }

    /// Nobody overtakes where all share one limit; a reader does where the limits differ.
    #[test]
    fn the_line_is_one_or_two() {
        let write = |process| {
            let what = Request { process, ..Request::write(Lba(0), 8) };
            Piece { what, split: NONE }
        };
        for (sharing, first) in [(Sharing::All, 1), (Sharing::Waited, 2)] {
            let mut tags = Tags::new(4, sharing);
            tags.wait(write(1), true);
            tags.wait(of(2), true);
            let woken = tags.lines(1).find_map(|line| tags.wake(Nanos(0), line, None));
            assert_eq!(woken.unwrap().piece.what.process, first, "{sharing:?}");
        }
    }

    /// A process that waits with much does not keep another one waiting for all of it; in 2.6.26
    /// it goes on for its batch.
    #[test]
    fn a_process_waits_once() {
        for (sharing, order) in [(Sharing::All, [1, 2, 1]), (Sharing::Directions, [1, 1, 2])] {
            let mut tags = Tags::new(4, sharing);
            [1, 1, 2].into_iter().for_each(|process| tags.wait(of(process), false));
            let woken = [(); 3].map(|()| tags.wake(Nanos(0), 0, None).unwrap().piece.what.process);
            assert_eq!(woken, order, "{sharing:?}");
            assert!(tags.wake(Nanos(0), 0, None).is_none());
        }
    }

    #[test]
    fn who_has_no_luck_stays_before_all_others() {
        let mut tags = Tags::new(4, Sharing::All);
        [1, 1, 2].into_iter().for_each(|process| tags.wait(of(process), false));
        let waiting = tags.wake(Nanos(0), 0, None).unwrap();
        tags.wait_on(0, waiting);
        let woken = [(); 3].map(|()| tags.wake(Nanos(0), 0, None).unwrap());
        assert_eq!(
            woken.map(|w| (w.piece.what.process, w.tried)),
            [(1, true), (2, false), (1, false)]
        );
    }

    #[test]
    fn the_map_has_four_words_or_more() {
        let words = |nr| (Words::of(nr).requests, Words::of(nr).count);
        assert_eq!(
            [2, 8, 10, 64, 256, 512].map(words),
            [(64, 1), (2, 4), (2, 5), (16, 4), (64, 4), (64, 8)]
        );
    }

    #[test]
    fn the_policy_lowers_todays_limit() {
        let mut tags = Tags::new(8, Sharing::Waited);
        assert!((0..6).all(|_| tags.take(Nanos(0), &of(1), 6, || false)));
        assert!(!tags.take(Nanos(0), &of(1), 6, || false));
        assert!(tags.take(Nanos(0), &of(1), u32::MAX, || false));
    }
}

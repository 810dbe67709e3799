//! Today's pool: a map of requests in words (the kernel's `sbitmap_queue`, with one processor).

use std::collections::VecDeque;

use sim::snapshot_fields;

use super::sleeper::Sleeper;
use crate::elevator::linux::pool::Piece;

/// Lines to sleep in.
const LINES: u32 = 8;
/// Most requests that are given back before somebody is woken.
const WAKE_BATCH_MAX: u32 = 8;

/// How a map is cut into words. A policy lowers the limit to so many requests of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Words {
    nr_requests: u32,
    /// Requests of a word: two to the power of `shift`.
    pub(crate) requests: u32,
    shift: u32,
    count: u32,
}

impl Words {
    /// At least four words of at most 64, of which each has half as many until they fit.
    pub(crate) fn of(nr_requests: u32) -> Words {
        let mut requests = 64;
        while nr_requests >= 4 && 4 * requests > nr_requests {
            requests /= 2;
        }
        let (shift, count) = (requests.ilog2(), nr_requests.div_ceil(requests));
        Words { nr_requests, requests, shift, count }
    }

    /// The word of a request, and its place in there.
    fn place(self, tag: u32) -> (u32, u32) {
        (tag >> self.shift, tag & (self.requests - 1))
    }

    /// The last word may be shorter.
    fn requests_of(self, index: u32) -> u32 {
        self.requests.min(self.nr_requests - (index << self.shift))
    }

    /// Requests that are given back before sleepers are woken, of whom each may have so many of a
    /// word at least.
    fn wake_batch(self, depth_min: u32) -> u32 {
        let of_word = depth_min.min(self.requests);
        let rest = (self.nr_requests % self.requests).min(of_word);
        let usable = self.nr_requests / self.requests * of_word + rest;
        (usable / LINES).clamp(1, WAKE_BATCH_MAX)
    }
}

/// Requests of a word. What was given back is free once nothing else of the word is.
#[derive(Clone, Copy, Default, Debug)]
struct Word {
    taken: u64,
    returned: u64,
}

snapshot_fields!(Word { taken, returned });

impl Word {
    /// The first free one from a place on, then from the begin, of so many.
    fn take(&mut self, from: u32, depth: u32) -> Option<u32> {
        let free = |taken: u64, from: u32| {
            let bit = (!taken & (u64::MAX << from)).trailing_zeros();
            (bit < depth).then_some(bit)
        };
        let find = |taken| free(taken, from).or_else(|| free(taken, 0));
        let found = find(self.taken).or_else(|| {
            self.taken &= !std::mem::take(&mut self.returned);
            find(self.taken)
        })?;
        self.taken |= 1 << found;
        Some(found)
    }
}

/// Who has a request, and who sleeps for one.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    shape: Words,
    words: Vec<Word>,
    /// Where to look first.
    hint: u32,
    in_use: u32,
    wake_batch: u32,
    /// Given back since sleepers were woken.
    returned: u32,
    sleepers: Vec<VecDeque<Sleeper>>,
    asleep: u32,
    /// The line of whoever falls asleep next, and the one that is woken next.
    sleeps: u32,
    wakes: u32,
    /// Woken, and not yet at work.
    woken: VecDeque<Sleeper>,
}

snapshot_fields!(Map { words, hint, in_use, returned, sleepers, asleep, sleeps, wakes, woken });

fn next(line: &mut u32) -> u32 {
    std::mem::replace(line, (*line + 1) % LINES)
}

impl Map {
    /// With `depth_min`, the lowest limit that the policy sets.
    pub(super) fn new(nr_requests: u32, depth_min: u32) -> Map {
        let shape = Words::of(nr_requests);
        Map {
            shape,
            words: vec![Word::default(); shape.count as usize],
            hint: 0,
            in_use: 0,
            wake_batch: shape.wake_batch(depth_min),
            returned: 0,
            sleepers: vec![VecDeque::new(); LINES as usize],
            asleep: 0,
            sleeps: 0,
            wakes: 0,
            woken: VecDeque::new(),
        }
    }

    pub(super) fn in_use(&self) -> u32 {
        self.in_use
    }

    /// A request among the first `depth` of a word; [`u32::MAX`] for any, and then the first.
    pub(super) fn take(&mut self, depth: u32) -> Option<u32> {
        let Words { shift, count, .. } = self.shape;
        let (mut index, place) = self.shape.place(self.hint);
        let mut from = if depth == u32::MAX { 0 } else { place };
        let mut found = None;
        for _ in 0..count {
            let depth = depth.min(self.shape.requests_of(index));
            if let Some(bit) = self.words[index as usize].take(from, depth) {
                found = Some((index << shift) + bit);
                break;
            }
            (index, from) = (if index + 1 == count { 0 } else { index + 1 }, 0);
        }
        match found {
            None => self.hint = 0,
            Some(tag) if tag == self.hint => {
                let last = self.shape.nr_requests.saturating_sub(1);
                self.hint = if tag + 1 >= last { 0 } else { tag + 1 };
            }
            Some(_) => {}
        }
        self.in_use += u32::from(found.is_some());
        found
    }

    /// Returns whether somebody was woken.
    pub(super) fn give_back(&mut self, tag: u32) -> bool {
        let (index, place) = self.shape.place(tag);
        self.words[index as usize].returned |= 1 << place;
        self.in_use -= 1;
        self.hint = tag;
        // Whoever is woken counts until it is at work.
        if self.asleep == 0 && self.woken.is_empty() {
            return false;
        }
        self.wake()
    }

    /// Once a batch has been given back, as many of the next line in which anybody sleeps.
    fn wake(&mut self) -> bool {
        self.returned += 1;
        if self.returned < self.wake_batch {
            return false;
        }
        self.returned -= self.wake_batch;
        for _ in 0..LINES {
            let line = &mut self.sleepers[next(&mut self.wakes) as usize];
            let woken = line.len().min(self.wake_batch as usize);
            self.asleep -= woken as u32;
            self.woken.extend(line.drain(..woken));
            if woken > 0 {
                return true;
            }
        }
        false
    }

    pub(super) fn sleeper(&mut self, piece: &Piece) -> Option<&mut Sleeper> {
        if self.asleep == 0 && self.woken.is_empty() {
            return None;
        }
        let mut all = self.sleepers.iter_mut().flatten().chain(&mut self.woken);
        all.find(|sleeper| sleeper.asks(piece))
    }

    pub(super) fn sleep(&mut self, mut sleeper: Sleeper) {
        sleeper.line = next(&mut self.sleeps);
        self.sleep_on(sleeper);
    }

    /// It was woken. Should it have no luck, it goes on in the next line.
    pub(super) fn next_woken(&mut self) -> Option<Sleeper> {
        let mut sleeper = self.woken.pop_front()?;
        sleeper.line = next(&mut self.sleeps);
        Some(sleeper)
    }

    pub(super) fn sleep_on(&mut self, sleeper: Sleeper) {
        self.asleep += 1;
        self.sleepers[sleeper.line as usize].push_back(sleeper);
    }

    pub(super) fn sleepers(&self) -> impl Iterator<Item = &Sleeper> {
        self.sleepers.iter().flatten().chain(&self.woken)
    }
}

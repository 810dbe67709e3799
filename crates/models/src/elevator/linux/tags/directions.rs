//! The pool of 2.6.26: a limit per direction, and batches.

use std::collections::VecDeque;

use sim::{Nanos, snapshot_fields};

use super::sleeper::Sleeper;
use crate::elevator::linux::pool::{Piece, direction};

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

/// Who has a request, and who sleeps for one, by direction.
#[derive(Clone, Debug)]
pub(crate) struct Directions {
    nr_requests: u32,
    count: [u32; 2],
    full: [bool; 2],
    /// Who sleeps, and is woken in this order.
    sleepers: [VecDeque<Sleeper>; 2],
    /// Woken, and not yet at work.
    woken: VecDeque<Sleeper>,
    batchers: Vec<Batcher>,
}

snapshot_fields!(Directions { count, full, sleepers, woken, batchers });

impl Directions {
    pub(super) fn new(nr_requests: u32) -> Directions {
        Directions {
            nr_requests,
            count: [0; 2],
            full: [false; 2],
            sleepers: Default::default(),
            woken: VecDeque::new(),
            batchers: Vec::new(),
        }
    }

    pub(super) fn in_use(&self) -> u32 {
        self.count[0] + self.count[1]
    }

    /// `must` asks whether the policy is waiting for this very process.
    pub(super) fn take(&mut self, now: Nanos, piece: &Piece, must: impl FnOnce() -> bool) -> bool {
        let way = direction(piece.what.op);
        let fills = self.count[way] + 1 >= self.nr_requests;
        if fills {
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
        // A batch is counted in the requests that are taken while there are none for others.
        let mine = |batcher: &&mut Batcher| batcher.process == piece.what.process;
        if fills && let Some(batcher) = self.batchers.iter_mut().find(mine) {
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

    /// A request of this direction is free again: one sleeper is woken, if there is one and the
    /// pool is no longer over its limit.
    pub(super) fn give_back(&mut self, way: usize) -> bool {
        self.count[way] -= 1;
        if self.count[way] >= self.nr_requests {
            return false;
        }
        self.full[way] = false;
        let Some(woken) = self.sleepers[way].pop_front() else { return false };
        self.woken.push_back(woken);
        true
    }

    pub(super) fn sleeper(&mut self, piece: &Piece) -> Option<&mut Sleeper> {
        let way = direction(piece.what.op);
        if self.sleepers[way].is_empty() && self.woken.is_empty() {
            return None;
        }
        let mut all = self.sleepers[way].iter_mut().chain(&mut self.woken);
        all.find(|sleeper| sleeper.way() == way && sleeper.process == piece.what.process)
    }

    pub(super) fn sleep(&mut self, sleeper: Sleeper) {
        self.sleepers[sleeper.way()].push_back(sleeper);
    }

    /// It was woken, and begins a batch.
    pub(super) fn next_woken(&mut self, now: Nanos) -> Option<Sleeper> {
        let sleeper = self.woken.pop_front()?;
        if self.count[sleeper.way()] < self.nr_requests {
            self.batch(now, sleeper.process);
        }
        Some(sleeper)
    }

    pub(super) fn sleepers(&self) -> impl Iterator<Item = &Sleeper> {
        self.sleepers.iter().flatten().chain(&self.woken)
    }
}

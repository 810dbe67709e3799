//! Which bios and requests become one.

use sim::{Nanos, Request};

use super::extent::is_mergeable;
use super::pool::{Fifo, NONE, Piece, Rq, State, segments};
use super::queue::Queue;
use crate::elevator::Merging;
use crate::elevator::mutant::planted;

/// Entries of a software queue that a bio is compared with, from the newest on.
const RECENT: usize = 8;

/// On which side of a request a bio belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Back,
    Front,
}

fn side(rq: &Rq, what: &Request) -> Option<Side> {
    match () {
        () if rq.end() == what.lba.0 => Some(Side::Back),
        () if rq.start() == what.end().0 => Some(Side::Front),
        () => None,
    }
}

/// What could be one request if it stood side by side. What is waited for joins nothing that is
/// not.
fn is_alike(one: &Request, other: &Request) -> bool {
    one.op == other.op
        && one.priority == other.priority
        && (one.is_sync() || !other.is_sync())
        && is_mergeable(one)
}

impl Queue {
    /// Let a bio join a request that waits. False when there is none for it.
    pub(super) fn merge(&mut self, now: Nanos, piece: &Piece) -> bool {
        if !self.extent.merge || !is_mergeable(&piece.what) {
            return false;
        }
        if self.kind.task_plug && self.merge_plugged(piece) {
            return true;
        }
        match self.kind.merging {
            Merging::Plug => false,
            Merging::Recent => self.merge_recent(now, piece),
            Merging::Elevator => self.merge_elevator(now, piece),
        }
    }

    /// The last request of the task's plug, and no other.
    fn merge_plugged(&mut self, piece: &Piece) -> bool {
        let Some(rq) = self.plugs.last(piece.what.process) else { return false };
        let same = self.pool[rq].what.priority == piece.what.priority;
        let fits = same && self.extent.fits(&self.pool[rq], &piece.what, pages(piece));
        match side(&self.pool[rq], &piece.what).filter(|_| fits) {
            Some(Side::Back) => {
                self.pool.append(rq, piece);
                self.counts.merged_back += 1;
                true
            }
            Some(Side::Front) => {
                self.pool.prepend(rq, piece);
                self.counts.merged_front += 1;
                true
            }
            None => false,
        }
    }

    /// The request that took the last bio, then those that end where the bio begins, then what
    /// the policy finds for its front.
    fn merge_elevator(&mut self, now: Nanos, piece: &Piece) -> bool {
        if self.kind.asks_of_bios && self.has_candidates(&piece.what) {
            self.policy.looks(now, &self.pool, piece);
        }
        if self.last_merge != NONE
            && let Some(side) = side(&self.pool[self.last_merge], &piece.what)
            && self.may_merge(self.last_merge, piece)
        {
            self.merge_into(now, self.last_merge, piece, side);
            return true;
        }
        let back = self.pool.ending_at(piece.what.lba.0).find(|&rq| self.may_merge(rq, piece));
        if let Some(rq) = back {
            self.merge_into(now, rq, piece, Side::Back);
            return true;
        }
        let front = self.policy.front(&self.pool, piece).filter(|&rq| self.may_merge(rq, piece));
        if let Some(rq) = front {
            self.merge_into(now, rq, piece, Side::Front);
        }
        front.is_some()
    }

    /// Linux asks the policy about the cached one before it looks at its place.
    fn has_candidates(&self, what: &Request) -> bool {
        let cached = Some(self.last_merge).filter(|&last| last != NONE);
        let mut all = cached.into_iter().chain(self.pool.ending_at(what.lba.0));
        all.any(|rq| is_alike(&self.pool[rq].what, what))
    }

    /// The newest entries of the software queue that the bio belongs to.
    fn merge_recent(&mut self, now: Nanos, piece: &Piece) -> bool {
        let tail = self.policy.software_queue(&piece.what).and_then(Fifo::tail);
        let before = |rq: &u32| Fifo::before(&self.pool, *rq);
        let found = std::iter::successors(tail, before).take(RECENT).find_map(|rq| {
            let side = side(&self.pool[rq], &piece.what)?;
            self.may_merge(rq, piece).then_some((rq, side))
        });
        if let Some((rq, side)) = found {
            self.merge_into(now, rq, piece, side);
        }
        found.is_some()
    }

    fn may_merge(&self, rq: u32, piece: &Piece) -> bool {
        let one = &self.pool[rq].what;
        (!self.kind.task_plug || one.priority == piece.what.priority)
            && self.extent.fits(&self.pool[rq], &piece.what, pages(piece))
            && self.policy.may_merge(&self.pool, rq, piece)
    }

    fn merge_into(&mut self, now: Nanos, rq: u32, piece: &Piece, side: Side) {
        let side = if planted!(self, WrongSide) { Side::Back } else { side };
        match side {
            Side::Back => {
                self.pool.append(rq, piece);
                self.counts.merged_back += 1;
                if let Some(next) = self.policy.latter(&self.pool, rq) {
                    self.join(now, rq, next);
                }
            }
            Side::Front => {
                let old = self.pool[rq].start();
                self.pool.prepend(rq, piece);
                self.counts.merged_front += 1;
                self.policy.grown(&self.pool, rq, old);
                if let Some(before) = self.policy.former(&self.pool, rq) {
                    self.join(now, before, rq);
                }
            }
        }
        if self.pool[rq].state == State::Queued {
            self.last_merge = rq;
        }
    }

    /// Make one of two requests that have become neighbours, if they may be one.
    fn join(&mut self, now: Nanos, first: u32, second: u32) {
        let (one, other) = (&self.pool[first], &self.pool[second]);
        let fits = first != second
            && one.end() == other.start()
            && one.queue == other.queue
            && one.state == other.state
            && (!self.kind.task_plug || one.what.priority == other.what.priority)
            && is_mergeable(&other.what)
            && self.extent.fits(one, &other.what, other.segments);
        if !fits {
            return;
        }
        self.absorb(now, first, second);
    }

    /// `second` goes on as the tail of `first`.
    fn absorb(&mut self, now: Nanos, first: u32, second: u32) {
        self.policy.joined(&mut self.pool, first, second);
        let tag = self.pool[second].tag;
        self.pool.join(first, second);
        self.counts.joined += 1;
        self.last_merge = first;
        self.give_back(now, tag);
    }

    /// A request comes out of a plug: it may still become the tail of one that waits, of any
    /// process. The policy is asked about bios only.
    pub(super) fn merge_at_insert(&mut self, now: Nanos, rq: u32) -> bool {
        let what = self.pool[rq].what;
        let elevator = self.kind.merging == Merging::Elevator;
        if !self.extent.merge || !elevator || !is_mergeable(&what) {
            return false;
        }
        let last = Some(self.last_merge).filter(|&last| last != NONE);
        let fits = |&first: &u32| {
            let one = &self.pool[first];
            one.end() == what.lba.0
                && one.what.priority == what.priority
                && self.extent.fits(one, &what, self.pool[rq].segments)
        };
        let last = last.filter(fits);
        let found = last.or_else(|| self.pool.ending_at(what.lba.0).find(fits));
        let Some(first) = found else { return false };
        // It was never with the policy, so nobody else needs to know.
        let tag = self.pool[rq].tag;
        self.pool.join(first, rq);
        self.counts.joined += 1;
        self.give_back(now, tag);
        self.last_merge = first;
        // Linux looks for more only where it did not know the first one.
        if last.is_none()
            && let Some(before) = self.policy.former(&self.pool, first)
        {
            self.join(now, before, first);
        }
        true
    }
}

fn pages(piece: &Piece) -> u32 {
    segments(piece.what.sectors)
}

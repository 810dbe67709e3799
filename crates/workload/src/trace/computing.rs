//! Computing between requests, on a number of cores: who computes while others do shares them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sim::Nanos;

/// Work is counted in 1/2^20 ns, since shares are no whole numbers.
const FRACTION_BITS: u32 = 20;

/// What computes. A share is the same for all, so that one clock of work will do: it tells how far
/// each has come since it began, and goes slower the more there are.
pub(super) struct Computing {
    cores: u32,
    now: Nanos,
    clock: u128,
    /// By the clock's value at which it is done: (value, which).
    all: BinaryHeap<Reverse<(u128, u32)>>,
}

impl Computing {
    pub(super) fn on(cores: u32) -> Computing {
        Computing { cores, now: Nanos::ZERO, clock: 0, all: BinaryHeap::new() }
    }

    /// How many compute at `now`, and go on doing so; at least the cores.
    fn sharers(&self) -> u128 {
        (self.all.len() as u128).max(u128::from(self.cores))
    }

    fn advance(&mut self, now: Nanos) {
        let passed = u128::from(now.since(self.now).0) << FRACTION_BITS;
        self.clock += passed * u128::from(self.cores) / self.sharers();
        self.now = now;
    }

    /// `which` computes from `now` on; alone it would take `work`.
    pub(super) fn start(&mut self, now: Nanos, work: Nanos, which: u32) {
        self.advance(now.max(self.now));
        self.all.push(Reverse((self.clock + (u128::from(work.0) << FRACTION_BITS), which)));
    }

    /// When the first is done, unless another one starts before.
    pub(super) fn next(&self) -> Option<Nanos> {
        let &Reverse((value, _)) = self.all.peek()?;
        let whole = u128::from(self.cores) << FRACTION_BITS;
        let left = (value.saturating_sub(self.clock) * self.sharers()).div_ceil(whole);
        Some(self.now.saturating_add(Nanos(u64::try_from(left).unwrap_or(u64::MAX))))
    }

    /// The one that is done at `now`, where one is.
    pub(super) fn take(&mut self, now: Nanos) -> Option<u32> {
        if self.next().is_none_or(|at| at > now) {
            return None;
        }
        self.advance(now);
        self.all.pop().map(|Reverse((_, which))| which)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever is done, and when, of those that start: (at, work).
    fn run(cores: u32, starts: &[(u64, u64)]) -> Vec<(u32, u64)> {
        let (mut computing, mut done) = (Computing::on(cores), Vec::new());
        let mut starts = (0..).zip(starts).peekable();
        loop {
            let next = computing.next();
            let start = starts.next_if(|(_, (at, _))| next.is_none_or(|next| Nanos(*at) < next));
            if let Some((which, &(at, work))) = start {
                computing.start(Nanos(at), Nanos(work), which);
            } else if let Some(now) = next {
                done.push((computing.take(now).unwrap(), now.0));
            } else {
                return done;
            }
        }
    }

    #[test]
    fn those_that_compute_at_once_share_the_cores() {
        // Each has a core.
        assert_eq!(run(2, &[(0, 100), (50, 100)]), [(0, 100), (1, 150)]);
        // Half of one each from 50 on: the first has 50 left, and then the other 50.
        assert_eq!(run(1, &[(0, 100), (50, 100)]), [(0, 150), (1, 200)]);
        // Three on two: two thirds each.
        assert_eq!(run(2, &[(0, 100), (0, 100), (0, 100)]), [(0, 150), (1, 150), (2, 150)]);
        assert_eq!(run(2, &[(0, 0), (7, 3), (90, 5)]), [(0, 0), (1, 10), (2, 95)]);
    }

    #[test]
    fn nobody_is_done_too_early() {
        let mut computing = Computing::on(1);
        computing.start(Nanos(5), Nanos(10), 7);
        computing.start(Nanos(5), Nanos(30), 8);
        assert_eq!(computing.next(), Some(Nanos(25)));
        assert_eq!(computing.take(Nanos(24)), None);
        assert_eq!(computing.take(Nanos(25)), Some(7));
        assert_eq!(computing.next(), Some(Nanos(45)));
    }
}

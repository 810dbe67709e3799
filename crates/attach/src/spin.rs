//! How long before a deadline to stop sleeping.
//!
//! The kernel wakes a sleeper some microseconds late, a different number on every machine and at
//! every load. So the loop wakes early by as much as it was woken late before, and polls without
//! sleeping for the rest.

use crate::clock::Wall;

/// Shortest and longest stretch of polling. Long ones are preempted and make things worse.
const SPIN_MIN_NS: u64 = 3_000;
const SPIN_MAX_NS: u64 = 50_000;
/// Under a real-time priority wake-ups are prompt.
const SPIN_MAX_REALTIME_NS: u64 = 20_000;
/// What one sleep says is worth 1/16.
const WEIGHT: u64 = 16;

/// Plans sleeps and learns from them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    max_ns: u64,
    /// Moving mean of how late sleeps ended, times [`WEIGHT`].
    late: u64,
    /// Moving mean of the deviation from it, times [`WEIGHT`].
    deviation: u64,
}

impl Spin {
    /// Know nothing yet.
    pub(crate) fn new(realtime: bool) -> Spin {
        let max_ns = if realtime { SPIN_MAX_REALTIME_NS } else { SPIN_MAX_NS };
        Spin { max_ns, late: 8_000 * WEIGHT, deviation: 2_000 * WEIGHT }
    }

    /// How early to wake.
    pub(crate) fn ns(&self) -> u64 {
        ((self.late + 2 * self.deviation) / WEIGHT).clamp(SPIN_MIN_NS, self.max_ns)
    }

    /// How long to sleep at `now` when something is due at `due`; 0 is to poll.
    #[inline]
    pub(crate) fn sleep_ns(&self, now: Wall, due: Wall) -> u64 {
        match due {
            Wall::NEVER => u64::MAX,
            due => due.since(now).saturating_sub(self.ns()),
        }
    }

    /// A sleep that was to end at `planned` ended at `woken`, and nothing else had ended it.
    #[inline]
    pub(crate) fn learn(&mut self, planned: Wall, woken: Wall) {
        // A sleep that was late by a scheduling slice says nothing about the next one.
        let late = woken.since(planned).min(2 * self.max_ns);
        let mean = self.late / WEIGHT;
        self.deviation = self.deviation - self.deviation / WEIGHT + late.abs_diff(mean);
        self.late = self.late - mean + late;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_as_early_as_it_was_woken_late() {
        let mut spin = Spin::new(true);
        for _ in 0..200 {
            spin.learn(Wall(0), Wall(10_000));
        }
        assert!((9_500..11_500).contains(&spin.ns()), "{}", spin.ns());
        assert_eq!(spin.sleep_ns(Wall(0), Wall(100_000)), 100_000 - spin.ns());
        assert_eq!(spin.sleep_ns(Wall(0), Wall(spin.ns())), 0);
        assert_eq!(spin.sleep_ns(Wall(0), Wall::NEVER), u64::MAX);
        for _ in 0..500 {
            spin.learn(Wall(0), Wall(0));
        }
        assert_eq!(spin.ns(), SPIN_MIN_NS);
        (0..500).for_each(|_| spin.learn(Wall(0), Wall(9_000_000)));
        assert_eq!(spin.ns(), SPIN_MAX_REALTIME_NS);
    }
}

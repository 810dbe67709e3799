//! How long before a deadline to stop sleeping.
//!
//! The kernel wakes a sleeper some microseconds late, a different number on every machine and at
//! every load. So the loop wakes early by as much as it was woken late before, and polls without
//! sleeping for the rest.

use crate::clock::Wall;

/// Shortest and longest stretch of polling. Long ones are preempted and make things worse.
const SPIN_MIN_NS: u64 = 3_000;
const SPIN_MAX_NS: u64 = 50_000;
/// Under a real-time priority wake-ups from short sleeps are prompt.
const SPIN_MAX_REALTIME_NS: u64 = 20_000;
/// Those from long ones are not: a core that was idle long sleeps deeply. Nobody preempts us
/// there, so polling may take this part of the wait.
const PART_OF_WAIT: u64 = 32;
/// What one sleep says is worth 1/16.
const WEIGHT: u64 = 16;
/// A sleep that was late by a scheduling slice says no more than this about the next one.
const LATE_MAX_NS: u64 = 200_000;

/// Plans sleeps and learns from them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    realtime: bool,
    /// Moving mean of how late sleeps ended, times [`WEIGHT`].
    late: u64,
    /// Moving mean of the deviation from it, times [`WEIGHT`].
    deviation: u64,
}

impl Spin {
    /// Know nothing yet.
    pub(crate) fn new(realtime: bool) -> Spin {
        Spin { realtime, late: 8_000 * WEIGHT, deviation: 2_000 * WEIGHT }
    }

    /// How early to wake from a wait of `wait_ns`.
    fn early_ns(&self, wait_ns: u64) -> u64 {
        let most = if self.realtime {
            SPIN_MAX_REALTIME_NS.max(wait_ns / PART_OF_WAIT)
        } else {
            SPIN_MAX_NS
        };
        ((self.late + 2 * self.deviation) / WEIGHT).clamp(SPIN_MIN_NS, most)
    }

    /// How long to sleep at `now` when something is due at `due`; 0 is to poll.
    #[inline]
    pub(crate) fn sleep_ns(&self, now: Wall, due: Wall) -> u64 {
        match due {
            Wall::NEVER => u64::MAX,
            due => {
                let wait_ns = due.since(now);
                wait_ns.saturating_sub(self.early_ns(wait_ns))
            }
        }
    }

    /// A sleep that was to end at `planned` ended at `woken`, and nothing else had ended it.
    #[inline]
    pub(crate) fn learn(&mut self, planned: Wall, woken: Wall) {
        let late = woken.since(planned).min(LATE_MAX_NS);
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
        let early = spin.early_ns(100_000);
        assert!((9_500..11_500).contains(&early), "{early}");
        assert_eq!(spin.sleep_ns(Wall(0), Wall(100_000)), 100_000 - early);
        assert_eq!(spin.sleep_ns(Wall(0), Wall(early)), 0);
        assert_eq!(spin.sleep_ns(Wall(0), Wall::NEVER), u64::MAX);
        for _ in 0..500 {
            spin.learn(Wall(0), Wall(0));
        }
        assert_eq!(spin.early_ns(100_000), SPIN_MIN_NS);
    }

    #[test]
    fn it_polls_no_longer_than_is_worth_it() {
        for realtime in [true, false] {
            let mut spin = Spin::new(realtime);
            (0..500).for_each(|_| spin.learn(Wall(0), Wall(9_000_000)));
            let early = [100_000, 3_200_000, 10_000_000].map(|wait| spin.early_ns(wait));
            let most = if realtime { [20_000, 100_000, 200_000] } else { [50_000; 3] };
            for (early, most) in early.into_iter().zip(most) {
                assert!(early.abs_diff(most) < 100, "{early} ns, expected {most}");
            }
        }
    }
}

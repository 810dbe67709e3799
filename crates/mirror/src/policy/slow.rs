//! A leg that answers, but too slowly for too much of the time.

use sim::Nanos;

use crate::types::{LEGS, Slot, other};

/// Parts of the window: what is older than the window is forgotten a part at a time.
const PARTS: usize = 16;

/// When a leg is too slow to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowRules {
    /// A leg is slow while its oldest request is older than this.
    pub over: Nanos,
    /// It is left out when it was slow, and the other leg was not, for so many percent of the
    /// window.
    pub share_percent: u32,
    /// The window.
    pub window: Nanos,
}

impl Default for SlowRules {
    fn default() -> SlowRules {
        SlowRules { over: Nanos::from_secs(1), share_percent: 50, window: Nanos::from_secs(60) }
    }
}

impl SlowRules {
    /// The time within a window that is too much.
    pub fn limit(&self) -> Nanos {
        Nanos((self.window.0 / 100).saturating_mul(self.share_percent.into()))
    }

    fn part(&self) -> u64 {
        (self.window.0 / PARTS as u64).max(1)
    }
}

/// The time that a leg was slow while the other was not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Slowness {
    parts: [u64; PARTS],
    /// The number of the newest part.
    newest: u64,
}

sim::snapshot_fields!(Slowness { parts, newest });

impl Slowness {
    /// It was slow from `from` to `to`.
    pub fn add(&mut self, rules: &SlowRules, from: Nanos, to: Nanos) {
        let mut from = from.0.max(to.0.saturating_sub(rules.window.0));
        while from < to.0 {
            let part = from / rules.part();
            self.move_to(part);
            let end = ((part + 1) * rules.part()).min(to.0);
            self.parts[(part % PARTS as u64) as usize] += end - from;
            from = end;
        }
    }

    fn move_to(&mut self, part: u64) {
        let passed = part.saturating_sub(self.newest).min(PARTS as u64);
        (0..passed).for_each(|nth| self.parts[((part - nth) % PARTS as u64) as usize] = 0);
        self.newest = self.newest.max(part);
    }

    /// How long it was slow within the window up to `now`.
    pub fn total(&self, rules: &SlowRules, now: Nanos) -> Nanos {
        let mut all = *self;
        all.move_to(now.0 / rules.part());
        Nanos(all.parts.iter().sum())
    }
}

/// From when to when, up to `now`, each leg alone was slow: `since` is the moment since which each
/// is, `now` for one that is not.
pub fn alone(since: [Nanos; LEGS]) -> Option<(Slot, Nanos, Nanos)> {
    let leg = usize::from(since[1] < since[0]);
    (since[leg] < since[other(leg)]).then(|| (leg, since[leg], since[other(leg)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let rules = SlowRules { over: s(1), share_percent: 50, window: s(16) };
        let mut slowness = Slowness::default();
        slowness.add(&rules, s(100), s(103));
        slowness.add(&rules, Nanos(s(104).0 + 1), s(105));
        assert_eq!(slowness.total(&rules, s(105)), Nanos(s(4).0 - 1));
        assert_eq!(slowness.total(&rules, s(117)), Nanos(s(2).0 - 1));
        assert_eq!(slowness.total(&rules, s(130)), Nanos::ZERO);
        // Of a long time only the window counts, however late it is told.
        slowness.add(&rules, s(200), s(300));
        assert_eq!(slowness.total(&rules, s(300)), s(15));
        assert_eq!(rules.limit(), s(8));
    }

    #[test]
    fn only_a_leg_that_is_slow_alone_counts() {
        assert_eq!(alone([s(9), s(9)]), None);
        assert_eq!(alone([s(9), s(5)]), Some((1, s(5), s(9))));
        assert_eq!(alone([s(3), s(5)]), Some((0, s(3), s(5))));
    }
}

//! Freezes: when a leg counts as frozen, and when it has thawed.

use sim::Nanos;

use super::slow::SlowRules;
use crate::types::LEGS;

/// The parameters of freeze detection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LagRules {
    /// No leg is frozen before this age of its oldest request.
    pub floor: Nanos,
    /// Every leg is frozen from this age on.
    pub cap: Nanos,
    /// In between: this share of the expected 95th percentile, in percent.
    pub percent: u32,
    /// On-time completions in a row that a thaw needs.
    pub on_time: u32,
    /// Stop using a leg whose oldest request has this age.
    pub stuck_after: Nanos,
    /// Leave it for an operator from this age on.
    pub fail_after: Nanos,
    /// Leave a leg out that alone holds back a flush or the acknowledgement of a write for this
    /// long; `None` to wait.
    pub flush_deadline: Option<Nanos>,
    /// Leave a slow leg out; `None` to keep it.
    pub slow: Option<SlowRules>,
}

impl Default for LagRules {
    fn default() -> LagRules {
        LagRules {
            floor: Nanos::from_millis(2),
            cap: Nanos::from_millis(200),
            percent: 130,
            on_time: 2,
            stuck_after: Nanos::from_secs(5),
            fail_after: Nanos::from_secs(60),
            flush_deadline: Some(Nanos::from_secs(5)),
            slow: Some(SlowRules::default()),
        }
    }
}

impl LagRules {
    /// The age at which a request that is expected to take `p95` is late.
    pub fn late_after(&self, p95: Nanos) -> Nanos {
        let expected = p95.0.saturating_mul(self.percent.into()) / 100;
        Nanos(expected.min(self.cap.0).max(self.floor.0))
    }
}

/// What is known of one leg.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pace {
    /// It counts as frozen now.
    pub lagging: bool,
    /// Its oldest request is late.
    pub late: bool,
    /// On-time completions in a row.
    pub on_time: u32,
    /// Blocks waiting for it.
    pub backlog: u64,
}

sim::snapshot_fields!(Pace { lagging, late, on_time, backlog });

/// Which legs count as frozen. At most one does: with two late legs there is nothing to lean on,
/// and the mirror is a plain one.
pub fn frozen(rules: &LagRules, legs: [Pace; LEGS], backlog_low: u64) -> [bool; LEGS] {
    let frozen = legs.map(|leg| {
        let thawed = leg.on_time >= rules.on_time && leg.backlog <= backlog_low;
        leg.late || (leg.lagging && !thawed)
    });
    if frozen == [true; LEGS] { [false; LEGS] } else { frozen }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Pace = Pace { lagging: false, late: false, on_time: 5, backlog: 0 };

    #[test]
    fn the_deadline_has_a_floor_and_a_cap() {
        let rules = LagRules::default();
        assert_eq!(rules.late_after(Nanos::from_micros(20)), Nanos::from_millis(2));
        assert_eq!(rules.late_after(Nanos::from_millis(10)), Nanos::from_millis(13));
        assert_eq!(rules.late_after(Nanos::from_secs(1)), Nanos::from_millis(200));
    }

    #[test]
    fn a_freeze_ends_with_on_time_answers_and_a_short_queue() {
        let rules = LagRules::default();
        let frozen_one = |pace: Pace| frozen(&rules, [QUIET, pace], 10)[1];
        assert!(frozen_one(Pace { late: true, ..QUIET }));
        let lagging = Pace { lagging: true, ..QUIET };
        assert!(frozen_one(Pace { on_time: 1, ..lagging }));
        assert!(frozen_one(Pace { backlog: 11, ..lagging }));
        assert!(!frozen_one(Pace { backlog: 10, ..lagging }));
    }

    #[test]
    fn never_both() {
        let late = Pace { late: true, ..QUIET };
        assert_eq!(frozen(&LagRules::default(), [late; 2], 10), [false; 2]);
    }
}

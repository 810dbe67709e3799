//! The pace at which the write buffer takes pages in.
//!
//! A drive that knows what its flash can keep up with need not let a full buffer teach the host: it
//! takes a page in at most so often. Pages that come faster wait, in order; after a pause some may
//! come at once.

use config::{ConfigError, Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Nanos, snapshot_fields};

/// Parameters of the pace.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PaceParams {
    /// A page is taken in so often in the long run. A rewrite of a page in the buffer is free.
    pub page: Duration,
    /// Pages that may come at once after a pause, at least 1.
    #[serde(default = "one")]
    pub burst: u32,
    /// Only while the collector has its turn (`collection.turn_pages`), in which the buffer's pages
    /// are programmed, too, then; in the host's own turn they come as fast as there is room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_turns: bool,
}

fn one() -> u32 {
    1
}

/// State of the pace: a leaky bucket.
#[derive(Clone, Debug)]
pub struct Pace {
    /// It holds in the collector's turn, and in no other.
    pub in_turns: bool,
    page: Nanos,
    /// How far ahead of the pace pages may come.
    slack: Nanos,
    /// When the page after those admitted is due.
    due: Nanos,
    /// The moment the next page was promised; 0 when none waits for it.
    promised: Nanos,
}

snapshot_fields!(Pace { due, promised });

impl PaceParams {
    /// A pace that has rested.
    ///
    /// # Errors
    /// Names the key that cannot be used.
    pub fn check(&self) -> Result<Pace, ConfigError> {
        let page = self.page.0;
        if page == Nanos::ZERO {
            return Err(ConfigError::new("pace.page", "expected a time above 0, got 0ns"));
        }
        if !(1..=1 << 20).contains(&self.burst) {
            let message = format!("expected 1 to 1048576, got {}", self.burst);
            return Err(ConfigError::new("pace.burst", message));
        }
        let slack = Nanos(page.0.saturating_mul(u64::from(self.burst - 1)));
        let in_turns = self.in_turns;
        Ok(Pace { in_turns, page, slack, due: Nanos::ZERO, promised: Nanos::ZERO })
    }
}

impl Pace {
    /// When the next page may come: now, or later.
    #[inline]
    pub fn earliest(&self, now: Nanos) -> Nanos {
        now.max(Nanos(self.due.0.saturating_sub(self.slack.0)))
    }

    /// A page came in.
    #[inline]
    pub fn take(&mut self, now: Nanos) {
        self.due = self.due.max(now) + self.page;
    }

    /// Whether somebody has to be woken at `time`: once for a page.
    #[inline]
    pub fn promise(&mut self, time: Nanos) -> bool {
        let new = self.promised != time;
        self.promised = time;
        new
    }

    /// The power failed: nobody waits.
    pub fn clear(&mut self) {
        (self.due, self.promised) = (Nanos::ZERO, Nanos::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_pause_a_burst_comes_at_once_and_then_one_each_interval() {
        let page = Duration(Nanos(100));
        let mut pace = PaceParams { page, burst: 3, in_turns: false }.check().unwrap();
        let now = Nanos(1_000);
        let times: Vec<u64> = (0..5)
            .map(|_| {
                let at = pace.earliest(now);
                pace.take(at);
                at.0
            })
            .collect();
        assert_eq!(times, [1_000, 1_000, 1_000, 1_100, 1_200]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        let page = Duration(Nanos(100));
        for (params, key) in [
            (PaceParams { page: Duration(Nanos::ZERO), burst: 1, in_turns: false }, "pace.page"),
            (PaceParams { page, burst: 0, in_turns: false }, "pace.burst"),
        ] {
            assert_eq!(params.check().expect_err(key).key, key);
        }
    }
}

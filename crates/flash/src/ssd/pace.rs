//! The pace at which the write buffer takes pages in.
//!
//! A drive that knows what its flash can keep up with need not let a full buffer teach the host: it
//! takes a page in at most so often. Pages that come faster wait, in order; after a pause some may
//! come at once. What the flash can keep up with is less the more pages the collector moves for one
//! of the host's: if that is known, one pace is right for an empty drive, and for any that
//! collects.

use config::{ConfigError, Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Nanos, snapshot_fields};

use super::moved::MovedForOne;

/// Parameters of the pace.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PaceParams {
    /// A page is taken in so often in the long run. A rewrite of a page in the buffer is free.
    pub page: Duration,
    /// Added to `page` for each page that the collector moves for one of the host's, by the mean of
    /// the last 32,768 to 65,536 pages.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub moved: Duration,
    /// `page` and what is added come to at most this; 0 is no limit.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub most: Duration,
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

fn none() -> Duration {
    Duration(Nanos::ZERO)
}

fn is_none(time: &Duration) -> bool {
    time.0 == Nanos::ZERO
}

/// What is moved for a page is counted anew after so many pages,
const COUNT: u64 = 1 << 10;
/// and is the mean of so many, and half as many.
const PAGES_COUNTED: u64 = 1 << 16;

/// State of the pace: a leaky bucket.
#[derive(Clone, Debug)]
pub struct Pace {
    params: PaceParams,
    /// Between two pages, by what was moved for those before.
    page: Nanos,
    moved: MovedForOne,
    /// Pages of the present count.
    counting: u64,
    /// When the page after those admitted is due.
    due: Nanos,
    /// The moment the next page was promised; 0 when none waits for it.
    promised: Nanos,
}

snapshot_fields!(Pace { page, moved, counting, due, promised });

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
        let second = Nanos::from_millis(1_000);
        if self.moved.0 > second {
            let message = format!("expected at most {second}, got {}", self.moved.0);
            return Err(ConfigError::new("pace.moved", message));
        }
        let most = self.most.0;
        if most > Nanos::ZERO && (most < page || self.moved.0 == Nanos::ZERO) {
            let wanted = format!("expected `moved`, and at least `page` ({page})");
            return Err(ConfigError::new("pace.most", format!("{wanted}, got {most}")));
        }
        if !(1..=1 << 20).contains(&self.burst) {
            let message = format!("expected 1 to 1048576, got {}", self.burst);
            return Err(ConfigError::new("pace.burst", message));
        }
        Ok(Pace {
            params: *self,
            page,
            moved: MovedForOne::default(),
            counting: 0,
            due: Nanos::ZERO,
            promised: Nanos::ZERO,
        })
    }
}

impl Pace {
    /// It holds in the collector's turn, and in no other.
    #[inline]
    pub fn in_turns(&self) -> bool {
        self.params.in_turns
    }

    /// When the next page may come: now, or later.
    #[inline]
    pub fn earliest(&self, now: Nanos) -> Nanos {
        let ahead = self.page.0.saturating_mul(u64::from(self.params.burst - 1));
        now.max(Nanos(self.due.0.saturating_sub(ahead)))
    }

    /// A page came in, when the collector had moved so many since the drive began.
    #[inline]
    pub fn take(&mut self, now: Nanos, moved: u64) {
        self.due = self.due.max(now) + self.page;
        if self.params.moved.0 > Nanos::ZERO {
            self.count(moved);
        }
    }

    fn count(&mut self, moved: u64) {
        if self.counting == 0 && self.moved.is_empty() {
            self.moved.begin(moved);
        }
        self.counting += 1;
        if self.counting == COUNT {
            self.moved.count(std::mem::take(&mut self.counting), moved, PAGES_COUNTED);
            let added = self.params.moved.0.0 as f64 * self.moved.mean();
            let page = self.params.page.0 + Nanos(added.round() as u64);
            let most = self.params.most.0;
            self.page = if most == Nanos::ZERO { page } else { page.min(most) };
        }
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

    const PLAIN: PaceParams = PaceParams {
        page: Duration(Nanos(100)),
        moved: Duration(Nanos::ZERO),
        most: Duration(Nanos::ZERO),
        burst: 1,
        in_turns: false,
    };

    #[test]
    fn after_a_pause_a_burst_comes_at_once_and_then_one_each_interval() {
        let mut pace = PaceParams { burst: 3, ..PLAIN }.check().unwrap();
        let now = Nanos(1_000);
        let times: Vec<u64> = (0..5)
            .map(|_| {
                let at = pace.earliest(now);
                pace.take(at, 0);
                at.0
            })
            .collect();
        assert_eq!(times, [1_000, 1_000, 1_000, 1_100, 1_200]);
    }

    /// Nothing that was moved before the first page counts; then two for one, then none.
    #[test]
    fn a_page_waits_for_those_that_are_moved_for_it() {
        let (moved, most) = (Duration(Nanos(30)), Duration(Nanos(170)));
        let mut pace = PaceParams { moved, most, ..PLAIN }.check().unwrap();
        let mut take = |pages: u64, each: u64, moved: &mut u64| {
            let (mut from, mut to) = (0, 0);
            for _ in 0..pages {
                *moved += each;
                from = std::mem::replace(&mut to, pace.earliest(Nanos::ZERO).0);
                pace.take(Nanos(to), *moved);
            }
            to - from
        };
        let mut moved = 5_000_000;
        assert_eq!(take(COUNT, 2, &mut moved), 100, "nothing is known yet");
        assert_eq!(take(COUNT, 2, &mut moved), 160);
        take(4 * PAGES_COUNTED, 0, &mut moved);
        let forgotten = take(2, 0, &mut moved);
        assert!((100..105).contains(&forgotten), "{forgotten}");
        take(4 * PAGES_COUNTED, 9, &mut moved);
        assert_eq!(take(2, 9, &mut moved), 170, "at most");
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        let long = Duration(Nanos(2_000_000_000));
        for (params, key) in [
            (PaceParams { page: Duration(Nanos::ZERO), ..PLAIN }, "pace.page"),
            (PaceParams { moved: long, ..PLAIN }, "pace.moved"),
            (PaceParams { most: Duration(Nanos(200)), ..PLAIN }, "pace.most"),
            (PaceParams { burst: 0, ..PLAIN }, "pace.burst"),
        ] {
            assert_eq!(params.check().expect_err(key).key, key);
        }
    }
}

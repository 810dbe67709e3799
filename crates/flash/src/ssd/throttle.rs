//! A throttle on writes that follows the load: while the drive catches up with what its writes owe
//! the collector, it takes in about as many pages as it was given lately, not as many as it could.
//!
//! Each page owes some of the drive's time to collection. Now and then, when something is owed, the
//! drive catches up until nothing is. Meanwhile a page costs its own time as well, the first pages
//! wait, and the others come at the mean rate of the last window, less a share of what the drive
//! has to spare beyond that rate: a drive with little to do holds back more. What is behind in one
//! catch-up is admitted as fast as there is room when it ends.
//!
//! What a page costs follows what the drive does beside it, if that is known: the pages that the
//! collector moves for it, and the reads that take the drive's time from it. Then one set of
//! numbers is right for any fill, and for writes alone.
//!
//! All is a closed form of the moment that somebody asks: there are no events of its own.

use config::{ConfigError, Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Nanos, snapshot_fields};

use super::moved::MovedForOne;

/// Parameters of the throttle.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThrottleParams {
    /// The drive's time that a page takes while it catches up.
    pub page: Duration,
    /// The drive's time for collection that each page owes. For long it takes a page each
    /// `page` + `owed`.
    pub owed: Duration,
    /// The drive's time that each page costs which the collector moves: `page` and `owed` grow in
    /// proportion, so that for long it takes a page each `page` + `owed` + `moved` times the pages
    /// moved for one.
    #[serde(default = "none")]
    pub moved: Duration,
    /// The drive's time that each page costs which is read from flash: writes have the rest of it.
    #[serde(default = "none")]
    pub read: Duration,
    /// Reads take at most this share, in percent, of the drive's time.
    #[serde(default = "half")]
    pub read_percent_max: f64,
    /// From the beginning of one catch-up to that of the next, at least.
    pub every: Duration,
    /// No page is taken in when a catch-up begins, for so long.
    #[serde(default = "none")]
    pub stop: Duration,
    /// Pages that may come at once thereafter, at least 1.
    #[serde(default = "one")]
    pub burst: u32,
    /// Share, in percent, of the rate the drive could take beyond the one it was given, by which it
    /// takes less than that while it catches up.
    pub hold_back_percent: f64,
    /// It takes at least this share, in percent, of the rate it was given.
    pub least_percent: f64,
    /// The rate it was given is counted over so long.
    #[serde(default = "half_a_second")]
    pub window: Duration,
}

fn none() -> Duration {
    Duration(Nanos::ZERO)
}

fn one() -> u32 {
    1
}

fn half() -> f64 {
    50.0
}

fn half_a_second() -> Duration {
    Duration(Nanos::from_millis(500))
}

/// No window was counted: whatever the drive can take for long.
const NOT_KNOWN: u64 = 1 << 60;

/// So many pages, and half as many, say how many are moved for one: whole blocks are collected,
/// each of them at once.
const PAGES_COUNTED: u64 = 1 << 18;

/// Less than all by one part in so many is all that a drive can take.
const ALL: u64 = 50;

/// What the drive did beside taking pages in, since it began.
#[derive(Clone, Copy, Default, Debug)]
pub struct Beside {
    /// Pages that its collector moved.
    pub moved: u64,
    /// Pages that were read from flash for the host.
    pub reads: u64,
}

/// State of the throttle.
#[derive(Clone, Debug)]
pub struct Throttle {
    params: ThrottleParams,
    /// A page's time, and what it owes, by what the drive did beside in the windows before.
    page: u64,
    owed: u64,
    moved: MovedForOne,
    /// What was read beside when the window began, and when that was.
    reads_before: u64,
    window_began: Nanos,
    /// Time owed to collection, as of `updated` while the drive catches up.
    debt: u64,
    updated: Nanos,
    catching_up: bool,
    began: Nanos,
    /// Between two pages in this catch-up.
    interval: u64,
    /// When the page after those admitted is due.
    due: Nanos,
    /// The window that is being counted: its end, pages in it, and in the one before
    /// ([`NOT_KNOWN`] after a rest).
    window_end: Nanos,
    given: u64,
    given_before: u64,
    /// The moment the next page was promised; 0 when none waits for it.
    promised: Nanos,
}

snapshot_fields!(Throttle {
    page,
    owed,
    moved,
    reads_before,
    window_began,
    debt,
    updated,
    catching_up,
    began,
    interval,
    due,
    window_end,
    given,
    given_before,
    promised,
});

impl ThrottleParams {
    /// A throttle with nothing owed.
    ///
    /// # Errors
    /// Names the key that cannot be used.
    pub fn check(&self) -> Result<Throttle, ConfigError> {
        let second = Nanos::from_millis(1_000);
        for (key, time, most) in [
            ("page", self.page.0, second),
            ("owed", self.owed.0, second),
            ("every", self.every.0, Nanos(3_600 * second.0)),
            ("window", self.window.0, Nanos(3_600 * second.0)),
        ] {
            if time == Nanos::ZERO || time > most {
                let message = format!("expected above 0, at most {}, got {}", most, time);
                return Err(ConfigError::new(format!("throttle.{key}"), message));
            }
        }
        for (key, time) in [("moved", self.moved.0), ("read", self.read.0)] {
            if time > second {
                let message = format!("expected at most {second}, got {time}");
                return Err(ConfigError::new(format!("throttle.{key}"), message));
            }
        }
        if !(0.0..=90.0).contains(&self.read_percent_max) {
            let message = format!("expected 0 to 90, got {}", self.read_percent_max);
            return Err(ConfigError::new("throttle.read_percent_max", message));
        }
        if self.stop.0 >= self.every.0 {
            let message =
                format!("expected less than `every` ({}), got {}", self.every.0, self.stop.0);
            return Err(ConfigError::new("throttle.stop", message));
        }
        if !(1..=1 << 20).contains(&self.burst) {
            let message = format!("expected 1 to 1048576, got {}", self.burst);
            return Err(ConfigError::new("throttle.burst", message));
        }
        if !(0.0..=1_000.0).contains(&self.hold_back_percent) {
            let message = format!("expected 0 to 1000, got {}", self.hold_back_percent);
            return Err(ConfigError::new("throttle.hold_back_percent", message));
        }
        if !(1.0..=100.0).contains(&self.least_percent) {
            let message = format!("expected 1 to 100, got {}", self.least_percent);
            return Err(ConfigError::new("throttle.least_percent", message));
        }
        Ok(Throttle {
            params: *self,
            page: self.page.0.0,
            owed: self.owed.0.0,
            moved: MovedForOne::default(),
            reads_before: 0,
            window_began: Nanos::ZERO,
            debt: 0,
            updated: Nanos::ZERO,
            catching_up: false,
            began: Nanos::ZERO,
            interval: 0,
            due: Nanos::ZERO,
            window_end: self.window.0,
            given: 0,
            given_before: NOT_KNOWN,
            promised: Nanos::ZERO,
        })
    }

    /// By how much more than alone a page costs: with so many `moved` for one, and `reads` a second
    /// beside it.
    fn factor(&self, moved: f64, reads: f64) -> f64 {
        let alone = (self.page.0 + self.owed.0).0 as f64;
        let share = (self.read.0.0 as f64 * reads / 1e9).min(self.read_percent_max / 100.0);
        (1.0 + self.moved.0.0 as f64 * moved / alone) / (1.0 - share)
    }

    /// Time between pages that cost so much while the drive catches up, after `given` of them in a
    /// window.
    fn interval(&self, given: u64, cost: u64) -> u64 {
        let cost = cost as f64;
        // More than it can take for long is given in a burst only. One more than was counted: what
        // is cut off at the ends of a window must not slow the next one down, and that the next.
        let mean = (self.window.0.0 as f64 / (given + 1) as f64).max(cost);
        let held = self.hold_back_percent / 100.0;
        // 1 / interval = 1 / mean - held (1 / cost - 1 / mean), but at least a share of 1 / mean.
        let rate = (1.0 + held) / mean - held / cost;
        (1.0 / rate.max(self.least_percent / 100.0 / mean)).round() as u64
    }
}

impl Throttle {
    /// A window ended: what does a page cost now?
    fn count(&mut self, now: Nanos, beside: Beside) {
        self.moved.count(self.given, beside.moved, PAGES_COUNTED);
        let seconds = (now.0 - self.window_began.0) as f64 / 1e9;
        let reads = (beside.reads - self.reads_before) as f64 / seconds;
        let factor = self.params.factor(self.moved.mean(), reads);
        let times = |time: Duration| (time.0.0 as f64 * factor).round() as u64;
        let before = self.page + self.owed;
        (self.page, self.owed) = (times(self.params.page), times(self.params.owed));
        // What was all it could take is so when a page costs a little less: it was not given less
        // than it could take.
        let cost = self.page + self.owed;
        let window = self.params.window.0.0;
        if cost < before && self.given.saturating_mul(before) >= window - window / ALL {
            self.given = self.given.max(window / cost);
        }
        self.reads_before = beside.reads;
        self.window_began = now;
    }

    fn interval(&self) -> u64 {
        self.params.interval(self.given_before, self.page + self.owed)
    }

    /// Bring the books up to `now`.
    fn update(&mut self, now: Nanos, beside: Beside) {
        if now >= self.window_end {
            self.count(now, beside);
            let window = self.params.window.0.0;
            let passed = (now.0 - self.window_end.0) / window;
            self.given_before = if passed == 0 { self.given } else { NOT_KNOWN };
            self.given = 0;
            self.window_end = Nanos(self.window_end.0 + (passed + 1) * window);
            self.interval = self.interval();
        }
        if self.catching_up {
            self.debt = self.debt.saturating_sub(now.0 - self.updated.0);
            self.catching_up = self.debt > 0;
        }
        self.updated = now;
        if !self.catching_up && self.debt > 0 && now >= self.began + self.params.every.0 {
            self.catching_up = true;
            self.began = now;
            self.due = now + self.params.stop.0;
            self.interval = self.interval();
        }
    }

    /// When the next page may come: now, or later.
    pub fn earliest(&mut self, now: Nanos, beside: Beside) -> Nanos {
        self.update(now, beside);
        if !self.catching_up {
            return now;
        }
        let slack = self.interval.saturating_mul(u64::from(self.params.burst - 1));
        let paced = Nanos(self.due.0.saturating_sub(slack)).max(self.began + self.params.stop.0);
        // If none comes before, nothing is owed any more then.
        now.max(paced.min(Nanos(now.0 + self.debt)))
    }

    /// A page came in.
    pub fn take(&mut self, now: Nanos, beside: Beside) {
        if self.given == 0 && self.moved.is_empty() {
            self.moved.begin(beside.moved);
            (self.reads_before, self.window_began) = (beside.reads, now);
        }
        self.given += 1;
        self.debt += self.owed;
        if self.catching_up {
            self.debt += self.page;
            self.due = Nanos(self.due.max(now).0 + self.interval);
        }
    }

    /// Whether somebody has to be woken at `time`: once for a page.
    pub fn promise(&mut self, time: Nanos) -> bool {
        let new = self.promised != time;
        self.promised = time;
        new
    }

    /// The power failed: nobody waits, and what was owed is forgotten.
    pub fn clear(&mut self) {
        (self.debt, self.catching_up) = (0, false);
        (self.due, self.promised) = (Nanos::ZERO, Nanos::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn us(time: u64) -> Duration {
        Duration(Nanos(time * 1_000))
    }

    /// 100 us a page for long, of which 40 are owed; each 10 ms; halves a rate of a third.
    fn params() -> ThrottleParams {
        ThrottleParams {
            page: us(60),
            owed: us(40),
            every: us(10_000),
            stop: us(1_000),
            moved: us(0),
            read: us(0),
            read_percent_max: 50.0,
            burst: 1,
            hold_back_percent: 25.0,
            least_percent: 10.0,
            window: us(30_000),
        }
    }

    /// Give a page each `apart`, and return what each waited, in order.
    fn waits(params: ThrottleParams, apart: u64, pages: u64) -> Vec<u64> {
        let mut throttle = params.check().unwrap();
        let mut free = 0;
        (0..pages)
            .map(|page| {
                let came = page * apart;
                let mut now = Nanos(came.max(free));
                while throttle.earliest(now, Beside::default()) > now {
                    now = throttle.earliest(now, Beside::default());
                }
                throttle.take(now, Beside::default());
                free = now.0;
                free - came
            })
            .collect()
    }

    #[test]
    fn it_follows_the_rate_less_a_share_of_what_is_spare() {
        // 100 pages in 30 ms, a third of what it could: 1/300 - 0.25 (1/100 - 1/300) = 1/600.
        assert_eq!(params().interval(99, 100_000), 600_000);
        // As much as it can, and more, is taken at that rate.
        assert_eq!(params().interval(299, 100_000), 100_000);
        assert_eq!(params().interval(10_000, 100_000), 100_000);
        // A tenth of what it was given at the least: 10 pages in 30 ms.
        assert_eq!(params().interval(9, 100_000), 30_000_000);
        assert_eq!(params().interval(0, 100_000), 300_000_000);
    }

    #[test]
    fn more_than_it_can_take_is_taken_at_page_and_owed_for_long() {
        let (half, all) = (20_000, 40_000);
        let waits = waits(params(), 50_000, all);
        let taken = |page: u64| waits[page as usize - 1] + (page - 1) * 50_000;
        let each = (taken(all) - taken(half)) as f64 / (all - half) as f64;
        assert!((each / 100_000.0 - 1.0).abs() < 0.01, "{each} ns a page");
    }

    #[test]
    fn a_catch_up_lasts_as_long_as_what_was_owed_and_comes_in_meanwhile() {
        // 33 pages come in each 10 ms and owe 1.33 ms, of which the first is a stop.
        let waits = waits(params(), 300_000, 2_000);
        let settled = &waits[400..];
        let waited = settled.iter().filter(|&&wait| wait > 0).count() as f64 / 1_600.0;
        assert!((0.1..0.25).contains(&waited), "{waited} of the pages wait");
        let longest = *settled.iter().max().unwrap();
        assert!((MS * 8 / 10..MS * 2).contains(&longest), "{longest} ns");
    }

    /// What `params` take of twice as many pages as it can, with `moved` of each 100, and `reads`
    /// a second beside: time for each, in the second half.
    fn each(params: ThrottleParams, moved: u64, reads: u64) -> f64 {
        let mut throttle = params.check().unwrap();
        let (mut now, mut half, pages) = (Nanos(MS), Nanos::ZERO, 40_000);
        for page in 0..pages {
            // A filled drive: it moved a billion pages before.
            let beside = |now: Nanos| Beside {
                moved: 1_000_000_000 + page * moved / 100,
                reads: 7_000_000 + now.0 * reads / 1_000_000_000,
            };
            while throttle.earliest(now, beside(now)) > now {
                now = throttle.earliest(now, beside(now));
            }
            throttle.take(now, beside(now));
            now = Nanos(now.0 + 10_000);
            half = if page == pages / 2 { now } else { half };
        }
        (now.0 - half.0) as f64 / (pages / 2) as f64
    }

    #[test]
    fn a_page_costs_what_is_moved_for_it_and_the_time_that_reads_leave() {
        let params = ThrottleParams { moved: us(50), read: us(1_000), ..params() };
        let near = |each: f64, expected: f64| {
            assert!((each / expected - 1.0).abs() < 0.02, "{each} for {expected} ns a page");
        };
        near(each(params, 0, 0), 100_000.0);
        // Two pages are moved for one: 100 + 2 x 50 us.
        near(each(params, 200, 0), 200_000.0);
        // Reads take 0.2 s of each second, and never more than the half.
        near(each(params, 0, 200), 125_000.0);
        near(each(params, 200, 200), 250_000.0);
        near(each(params, 0, 9_000), 200_000.0);
    }

    #[test]
    fn a_drive_that_rests_owes_for_what_came_before_only() {
        let mut throttle = params().check().unwrap();
        for page in 0..10 {
            let now = Nanos(page * 1_000);
            assert_eq!(throttle.earliest(now, Beside::default()), now);
            throttle.take(now, Beside::default());
        }
        // The catch-up begins with the next page, and ends when the 0.4 ms are paid.
        let now = Nanos(50 * MS);
        assert_eq!(throttle.earliest(now, Beside::default()).0, now.0 + 400_000);
        let then = throttle.earliest(now, Beside::default());
        assert_eq!(throttle.earliest(then, Beside::default()), then);
        throttle.clear();
        assert_eq!(throttle.earliest(Nanos(90 * MS), Beside::default()), Nanos(90 * MS));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        for (params, key) in [
            (ThrottleParams { page: us(0), ..params() }, "throttle.page"),
            (ThrottleParams { owed: us(0), ..params() }, "throttle.owed"),
            (ThrottleParams { every: us(0), ..params() }, "throttle.every"),
            (ThrottleParams { window: us(0), ..params() }, "throttle.window"),
            (ThrottleParams { moved: us(1_000_001), ..params() }, "throttle.moved"),
            (ThrottleParams { read: us(1_000_001), ..params() }, "throttle.read"),
            (ThrottleParams { read_percent_max: 100.0, ..params() }, "throttle.read_percent_max"),
            (ThrottleParams { stop: us(10_000), ..params() }, "throttle.stop"),
            (ThrottleParams { burst: 0, ..params() }, "throttle.burst"),
            (ThrottleParams { hold_back_percent: -1.0, ..params() }, "throttle.hold_back_percent"),
            (ThrottleParams { least_percent: f64::NAN, ..params() }, "throttle.least_percent"),
        ] {
            assert_eq!(params.check().expect_err(key).key, key);
        }
    }
}

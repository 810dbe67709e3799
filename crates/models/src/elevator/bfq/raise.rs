//! Raised weights: of whoever was long away, as somebody may wait for a program to start, and of
//! whoever asks for little at regular times, as a player of music does.

use sim::{Nanos, snapshot_fields};

use super::epoch::LONG_AGO;
use super::rate::Rate;

/// A raised weight is so many times the plain one.
const FACTOR: u64 = 30;
/// For regular, slow requests it is so many times higher still.
const REGULAR: u64 = 100;
/// Times in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct RaiseTicks {
    pub(super) second: u64,
    /// A queue that had nothing for so long is raised.
    pub(super) away: u64,
    /// What nobody waits for is raised when nothing came for so long.
    pub(super) away_async: u64,
    /// How long the weight of regular requests is raised.
    pub(super) regular: u64,
    pub(super) least: u64,
    pub(super) most: u64,
    /// How long at the reference rate.
    pub(super) reference: u64,
    /// As the user said; 0 to compute it.
    pub(super) fixed: u64,
    pub(super) slice_idle: u64,
    /// Nothing of a burst is left in a queue that had nothing for so long.
    pub(super) after_burst: u64,
}

impl RaiseTicks {
    /// `ticks` converts milliseconds.
    pub(super) fn new(
        ticks: impl Fn(u64) -> u64,
        rotational: bool,
        fixed: Nanos,
        slice_idle: Nanos,
    ) -> RaiseTicks {
        RaiseTicks {
            second: ticks(1000),
            away: ticks(2000),
            away_async: ticks(500),
            regular: ticks(300),
            least: ticks(3000),
            most: ticks(25_000),
            reference: ticks(if rotational { 7000 } else { 2500 }),
            fixed: ticks(fixed.0.div_ceil(1_000_000)),
            slice_idle: slice_idle.0 * ticks(1000) / 1_000_000_000,
            after_burst: ticks(10_000),
        }
    }

    /// How long the weight of somebody who was away is raised: a faster device has loaded the same
    /// program sooner.
    pub(super) fn duration(&self, rate: &Rate) -> u64 {
        match self.fixed {
            0 => (rate.reference() * self.reference / rate.peak).clamp(self.least, self.most),
            fixed => fixed,
        }
    }
}

/// How far, since when and for how long the weight of a queue is raised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raise {
    /// 1 when it is not.
    pub(super) factor: u64,
    /// In ticks; 0 when it is not.
    pub(super) time: u64,
    /// When it was raised or, while it is not, when the last request came.
    pub(super) since: u64,
    /// Raised as somebody's who was away, since then, before its requests were found to be regular.
    pub(super) before_regular: u64,
    /// Sectors it had meanwhile.
    pub(super) service: u64,
    /// Requests that come after this are slow enough to be regular.
    pub(super) next_regular: u64,
    /// `next_regular` is to be computed when the device has answered.
    pub(super) look_again: bool,
    /// When it was last empty and then asked.
    pub(super) asked: u64,
}

snapshot_fields!(Raise {
    factor,
    time,
    since,
    before_regular,
    service,
    next_regular,
    look_again,
    asked,
});

impl Raise {
    pub(super) fn new(tick: u64) -> Raise {
        Raise {
            factor: 1,
            time: 0,
            since: tick,
            before_regular: LONG_AGO,
            service: 0,
            next_regular: tick,
            look_again: false,
            asked: LONG_AGO,
        }
    }

    pub(super) fn as_away(&mut self, duration: u64) {
        (self.factor, self.time) = (FACTOR, duration);
    }

    pub(super) fn as_regular(&mut self, ticks: &RaiseTicks) {
        (self.factor, self.time) = (FACTOR * REGULAR, ticks.regular);
    }

    pub(super) fn is_regular(&self, ticks: &RaiseTicks) -> bool {
        self.time == ticks.regular
    }

    pub(super) fn is_away(&self) -> bool {
        self.factor == FACTOR
    }

    /// What a queue would have that is joined with another one before its first request.
    pub(super) fn of_new(tick: u64, duration: u64) -> Raise {
        let mut raise = Raise::new(tick);
        raise.as_away(duration);
        raise
    }

    /// It has been raised for its whole time.
    pub(super) fn is_over(&self, tick: u64) -> bool {
        self.since + self.time < tick
    }

    /// Regular no longer: go on as somebody who was away, if that time is not over. False when it
    /// is.
    pub(super) fn back_to_away(&mut self, tick: u64, duration: u64) -> bool {
        if self.before_regular + duration < tick {
            return false;
        }
        self.as_away(duration);
        self.since = self.before_regular;
        true
    }

    /// It was split from others: what it had before counts, unless that is over.
    pub(super) fn resume(&mut self, tick: u64, duration: u64, burst: bool, ticks: &RaiseTicks) {
        if self.factor == 1 || !burst && !self.is_over(tick) {
            return;
        }
        let back = self.is_regular(ticks) && !burst && self.back_to_away(tick, duration);
        if !back {
            self.factor = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::bfq::epoch::FIRST_TICK;

    fn ticks(rotational: bool, fixed: Nanos) -> RaiseTicks {
        let ticks = |ms: u64| (ms * 250).div_ceil(1000);
        RaiseTicks::new(ticks, rotational, fixed, Nanos::from_millis(8))
    }

    /// 7 s at 14,000 of a disk, 2.5 s at 33,000 of flash; two thirds of these are assumed at first.
    #[test]
    fn a_fast_device_is_raised_for_a_shorter_time() {
        let (disk, flash) = (ticks(true, Nanos::ZERO), ticks(false, Nanos::ZERO));
        assert_eq!(disk.duration(&Rate::new(true)), 10_500 * 250 / 1000);
        assert_eq!(flash.duration(&Rate::new(false)), 3750 * 250 / 1000);
        let at = |peak| {
            let mut rate = Rate::new(true);
            rate.peak = peak;
            disk.duration(&rate)
        };
        assert_eq!((at(1), at(1_000_000)), (25 * 250, 3 * 250), "within 3 and 25 s");
        assert_eq!(ticks(true, Nanos::from_secs(1)).duration(&Rate::new(true)), 250);
    }

    /// 300 ms as a regular one within 10.5 s of having been away: it goes on as that, until then.
    #[test]
    fn a_regular_queue_falls_back_to_one_that_was_away() {
        let ticks = ticks(true, Nanos::ZERO);
        let duration = ticks.duration(&Rate::new(true));
        let mut raise = Raise::of_new(FIRST_TICK, duration);
        raise.before_regular = raise.since;
        raise.as_regular(&ticks);
        assert_eq!((raise.factor, raise.is_regular(&ticks)), (3000, true));
        let mut late = raise;
        assert!(raise.back_to_away(FIRST_TICK + duration, duration) && raise.is_away());
        assert!(!late.back_to_away(FIRST_TICK + duration + 1, duration));
        late.resume(FIRST_TICK + duration + 1, duration, false, &ticks);
        assert_eq!(late.factor, 1);
    }
}

//! How fast the device is, told by what is sent to it.

use sim::{Nanos, Request, snapshot_fields};

use super::seek::is_seek;

/// Sectors per microsecond have so many fractional bits.
pub(super) const SHIFT: u32 = 16;
/// First rates, of which two thirds are assumed: of a device that rotates, and of flash.
const FIRST: [u64; 2] = [14_000, 33_000];
/// Fewer samples than this, or a shorter time, tell nothing.
const SAMPLES_MIN: u64 = 32;
const TIME_MIN: u64 = 300_000_000;
/// A window ends after so long.
const TIME: u64 = 1_000_000_000;
/// The device had nothing to do for so long: a window ends before it.
const PAUSE: u64 = 100_000_000;
/// An answer that comes soon after the last one.
const SOON: u64 = 2_000_000;
/// No device moves more than 20 sectors per microsecond.
const RATE_MAX: u64 = 20 << SHIFT;

/// The highest rate seen, over windows of about a second.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    rotational: bool,
    /// Sectors per microsecond, with [`SHIFT`] fractional bits.
    pub(super) peak: u64,
    samples: u64,
    sequential: u64,
    sectors: u64,
    largest: u64,
    began: u64,
    took: u64,
    last_sent: u64,
    last_answer: u64,
    /// Where the last request ends.
    pub(super) position: u64,
}

snapshot_fields!(Rate {
    peak,
    samples,
    sequential,
    sectors,
    largest,
    began,
    took,
    last_sent,
    last_answer,
    position,
});

impl Rate {
    pub(super) fn new(rotational: bool) -> Rate {
        Rate {
            rotational,
            peak: FIRST[usize::from(!rotational)] * 2 / 3,
            samples: 0,
            sequential: 0,
            sectors: 0,
            largest: 0,
            began: 0,
            took: 0,
            last_sent: 0,
            last_answer: 0,
            position: 0,
        }
    }

    /// The rate for which a duration of raised weights is known.
    pub(super) fn reference(&self) -> u64 {
        FIRST[usize::from(!self.rotational)]
    }

    /// A request goes to the device, which has `inside` others. True when the peak is another.
    pub(super) fn sent(&mut self, now: Nanos, what: &Request, inside: u32) -> bool {
        let now = now.0;
        let mut changed = false;
        if self.samples == 0 {
            self.begin(now, what);
        } else if now - self.last_sent > PAUSE && inside == 0 {
            changed = self.close();
            self.begin(now, what);
        } else {
            self.sample(now, what, inside);
            if self.took >= TIME {
                changed = self.close();
                self.begin(now, what);
            }
        }
        self.position = what.end().0;
        self.last_sent = now;
        changed
    }

    fn sample(&mut self, now: u64, what: &Request, inside: u32) {
        self.samples += 1;
        let busy = inside > 0 || now - self.last_answer < SOON;
        if busy && !is_seek(self.rotational, self.position, what) {
            self.sequential += 1;
        }
        let sectors = u64::from(what.sectors);
        self.sectors += sectors;
        let forget = self.samples.is_multiple_of(32);
        self.largest = if forget { sectors } else { self.largest.max(sectors) };
        self.took = now - self.began;
    }

    fn begin(&mut self, now: u64, what: &Request) {
        (self.began, self.samples, self.sequential) = (now, 1, 0);
        self.sectors = u64::from(what.sectors);
        self.largest = self.sectors;
    }

    /// The device has answered. True when the peak is another.
    pub(super) fn answered(&mut self, now: Nanos) -> bool {
        let took_us = (now.0 - self.last_answer) / 1000;
        let slow = took_us > SOON / 1000 && (self.largest << SHIFT) / took_us < 1 << (SHIFT - 10);
        // So slow an answer is no part of a window.
        let changed = slow && self.close();
        if slow {
            self.samples = 0;
        }
        self.last_answer = now.0;
        changed
    }

    /// A window is over. True when it told something.
    fn close(&mut self) -> bool {
        if self.samples < SAMPLES_MIN || self.took < TIME_MIN {
            return false;
        }
        let took = self.took.max(self.last_answer.saturating_sub(self.began));
        self.took = took;
        let rate = (self.sectors << SHIFT) / (took / 1000).max(1);
        let scattered = self.sequential < 3 * self.samples / 4;
        if scattered && rate <= self.peak || rate > RATE_MAX {
            return false;
        }
        // The longer the window and the more sequential, the more it counts: up to a half.
        let weight = 9 * self.sequential / self.samples;
        let weight = (weight * took / TIME).min(8);
        let parts = 10 - weight;
        self.peak = (self.peak * (parts - 1) / parts + rate / parts).max(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Lba;

    /// 1 MiB each 10 ms in order: 204,800 sectors a second, 13,421 in the unit of the peak.
    #[test]
    fn a_window_of_a_second_moves_the_peak_half_way() {
        let mut rate = Rate::new(true);
        let first = rate.peak;
        let mut changes = 0;
        for n in 0..=100 {
            let now = Nanos::from_millis(10 * n);
            rate.answered(now);
            changes += u32::from(rate.sent(now, &Request::read(Lba(n * 2048), 2048), 1));
        }
        assert_eq!(changes, 1);
        let seen = ((101 * 2048) << SHIFT) / 1_000_000;
        assert_eq!(rate.peak, first / 2 + seen / 2);
    }

    #[test]
    fn a_scattered_window_that_is_slower_tells_nothing() {
        let mut rate = Rate::new(true);
        for n in 0..=200 {
            let now = Nanos::from_millis(10 * n);
            let lba = Lba((n % 2) * 10_000_000 + n * 8);
            assert!(!rate.sent(now, &Request::read(lba, 8), 1));
        }
        assert_eq!(rate.peak, 14_000 * 2 / 3);
    }
}

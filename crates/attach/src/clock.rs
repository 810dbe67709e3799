//! The wall clock and how modelled time runs along it.

use std::time::Instant;

use sim::Nanos;

/// Wall time in nanoseconds since the session began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Wall(pub u64);

impl Wall {
    /// Later than anything.
    pub const NEVER: Wall = Wall(u64::MAX);

    /// The time from `earlier` to `self` in nanoseconds, or 0 when `earlier` is later.
    pub const fn since(self, earlier: Wall) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `ns` later.
    #[must_use]
    pub const fn plus(self, ns: u64) -> Wall {
        Wall(self.0.saturating_add(ns))
    }

    /// `ns` earlier, or the beginning.
    #[must_use]
    pub const fn minus(self, ns: u64) -> Wall {
        Wall(self.0.saturating_sub(ns))
    }
}

/// Reads wall time.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts at zero.
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// The present moment.
    #[inline]
    pub fn now(&self) -> Wall {
        let elapsed = self.0.elapsed();
        Wall(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
    }

    /// Look at nothing but the clock until `moment`; returns the moment after that.
    pub(crate) fn poll_until(&self, moment: Wall) -> Wall {
        loop {
            let now = self.now();
            if now >= moment {
                return now;
            }
            std::hint::spin_loop();
        }
    }
}

/// Where a device's own time lies on the wall: `wall = (time - start) * dilation`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeline {
    /// The device's time when the session began.
    pub start: Nanos,
    /// Wall nanoseconds per modelled nanosecond; at least 1.
    pub dilation: u64,
}

impl Timeline {
    /// The device's time at `wall`.
    #[inline]
    pub fn device(&self, wall: Wall) -> Nanos {
        self.start.saturating_add(Nanos(wall.0 / self.dilation))
    }

    /// The first wall moment at which the device's time has reached `time`.
    #[inline]
    pub fn wall(&self, time: Nanos) -> Wall {
        Wall(time.since(self.start).0.saturating_mul(self.dilation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_on_the_wall_is_never_before_the_devices() {
        for dilation in [1, 3, 10] {
            let line = Timeline { start: Nanos(77), dilation };
            for time in [77, 78, 100, 1_000_003] {
                let wall = line.wall(Nanos(time));
                assert!(line.device(wall) >= Nanos(time));
                assert!(wall == Wall(0) || line.device(wall.minus(1)) < Nanos(time));
            }
        }
    }
}

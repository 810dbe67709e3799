//! Units as types: nanoseconds, bytes and sector addresses.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Bytes in one sector. As in Linux, an [`Lba`] always counts 512-byte sectors, whatever block
/// size a device prefers.
pub const SECTOR_BYTES: u64 = 512;

/// A moment or a span of simulated time, in nanoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of every run.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than any event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// A span of whole microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// A span of whole seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }

    /// This span in seconds, for reports only: floats never order events.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This span in microseconds, for reports only.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The span from `earlier` to `self`, or zero when `earlier` is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The sum, or [`Nanos::MAX`] when it does not fit.
    pub const fn saturating_add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => write!(f, "{} s", n as f64 / 1e9),
            n if n >= 1_000_000 => write!(f, "{} ms", n as f64 / 1e6),
            n if n >= 1_000 => write!(f, "{} us", n as f64 / 1e3),
            n => write!(f, "{n} ns"),
        }
    }
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bytes(pub u64);

impl Bytes {
    /// A size in whole KiB.
    pub const fn from_kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }

    /// A size in whole MiB.
    pub const fn from_mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }

    /// A size in whole GiB.
    pub const fn from_gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }

    /// Whole sectors in this size, rounded down.
    pub const fn sectors(self) -> u64 {
        self.0 / SECTOR_BYTES
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (name, shift) in units {
            if self.0 >= 1 << shift {
                let whole = self.0 >> shift;
                let exact = whole << shift == self.0;
                return if exact {
                    write!(f, "{whole} {name}")
                } else {
                    write!(f, "{:.2} {name}", self.0 as f64 / (1u64 << shift) as f64)
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A logical block address in 512-byte sectors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Lba(pub u64);

impl Lba {
    /// The byte offset of this sector.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * SECTOR_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_in_the_largest_whole_unit() {
        assert_eq!(Bytes(4096).to_string(), "4 KiB");
        assert_eq!(Bytes(1_610_612_736).to_string(), "1.50 GiB");
        assert_eq!(Bytes(511).to_string(), "511 B");
        assert_eq!(Nanos::from_micros(25).to_string(), "25 us");
    }

    #[test]
    fn since_never_underflows() {
        assert_eq!(Nanos(5).since(Nanos(9)), Nanos::ZERO);
        assert_eq!(Nanos(9).since(Nanos(5)), Nanos(4));
    }
}

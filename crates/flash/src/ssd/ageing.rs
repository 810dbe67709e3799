//! Pages that are harder to read the more their block was read: read retry.
//!
//! A read disturbs the other pages of its block a little. When a page has more errors than the
//! code corrects, the drive reads it again with other thresholds, and once more, until it can.
//! Which pages are weak is drawn once for each place: page `p` of block `b` needs a retry from
//! `t = reads (-ln u)^(1/shape)` reads of its block on, with `u` uniform in (0, 1), and one more
//! for each `more` of `t` beyond. So of pages whose block was read `n` times, the share
//! `1 - exp(-(n / reads)^shape)` needs one or more, a Weibull distribution, and a page needs
//! `1 + (n / t - 1) / more`, rounded down, at most `most`. An erase begins anew.
//!
//! Age is reads: `reads_before`, and `reads_per_day` for each day that data was kept, as every
//! block has them at the beginning. A run is too short to age, so time during it does not count.

use config::{ConfigError, Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{CowVec, Nanos, snapshot_fields};

use super::geometry::Geometry;
use super::plan::{FlashOp, Kind};

/// When reads are repeated.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadRetry {
    /// Reads of a block after which 63 % of its pages need a retry.
    pub reads: u64,
    /// How alike pages are: shape of the Weibull distribution.
    pub shape: f64,
    /// What a retry takes.
    pub step: Duration,
    /// Share more of the reads for each further retry.
    pub more: f64,
    /// Retries of a read at most.
    pub most: u32,
    /// Reads that each block has behind it at the beginning.
    pub reads_before: u64,
    /// Days that data was kept at the beginning.
    pub days: f64,
    /// Reads that a day is worth.
    pub reads_per_day: f64,
}

impl Default for ReadRetry {
    fn default() -> ReadRetry {
        ReadRetry {
            reads: 1_000_000,
            shape: 2.0,
            step: Duration(Nanos::from_micros(100)),
            more: 0.1,
            most: 16,
            reads_before: 0,
            days: 0.0,
            reads_per_day: 0.0,
        }
    }
}

impl ReadRetry {
    /// Check the values.
    ///
    /// # Errors
    /// Names the key that cannot be used.
    pub fn check(&self) -> Result<(), ConfigError> {
        let refuse = |key: &str, expected: &str, got: f64| {
            let message = format!("expected {expected}, got {got}");
            Err(ConfigError::new(format!("retry.{key}"), message))
        };
        if self.reads == 0 {
            return refuse("reads", "1 or more", 0.0);
        }
        if !(0.1..=100.0).contains(&self.shape) {
            return refuse("shape", "0.1 to 100", self.shape);
        }
        if !(0.001..=1000.0).contains(&self.more) {
            return refuse("more", "0.001 to 1000", self.more);
        }
        if !(1..=1000).contains(&self.most) {
            return refuse("most", "1 to 1000", f64::from(self.most));
        }
        for (key, value) in [("days", self.days), ("reads_per_day", self.reads_per_day)] {
            if !(0.0..=1e9).contains(&value) {
                return refuse(key, "0 or more", value);
            }
        }
        Ok(())
    }

    /// Reads that every block counts at the beginning.
    fn at_first(&self) -> u64 {
        self.reads_before.saturating_add((self.days * self.reads_per_day) as u64)
    }

    /// Retries of a page of that place after `reads` reads of its block.
    fn retries(&self, block: u32, page: u32, reads: u64) -> u32 {
        let drawn = -libm::log(unit(u64::from(block) << 32 | u64::from(page)));
        let weak = libm::pow(reads as f64 / self.reads as f64, self.shape) / drawn;
        if weak < 1.0 {
            return 0;
        }
        let beyond = libm::pow(weak, 1.0 / self.shape) - 1.0;
        (1.0 + beyond / self.more).min(f64::from(self.most)) as u32
    }
}

/// A number in (0, 1) that belongs to a place: the finaliser of SplitMix64.
fn unit(place: u64) -> f64 {
    let mut z = place.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    ((z >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// How often each block was read since its erase.
#[derive(Clone, Debug)]
pub struct Ageing {
    retry: Option<ReadRetry>,
    /// By block; empty where nothing ages.
    reads: CowVec<u64>,
    retries: u64,
    retried: u64,
}

snapshot_fields!(Ageing { reads, retries, retried });

impl Ageing {
    /// Blocks as they are at the beginning.
    pub fn new(geometry: &Geometry, retry: Option<ReadRetry>) -> Ageing {
        let blocks = retry.map_or(0, |_| geometry.blocks() as usize);
        let reads = CowVec::new(blocks, retry.map_or(0, |retry| retry.at_first()));
        Ageing { retry, reads, retries: 0, retried: 0 }
    }

    /// Does anything age?
    #[inline]
    pub fn is_on(&self) -> bool {
        self.retry.is_some()
    }

    /// An operation begins: what its retries take.
    pub fn begins(&mut self, geometry: &Geometry, op: FlashOp) -> u64 {
        let Some(retry) = self.retry else { return 0 };
        let from = match op.kind() {
            Kind::Read => op.ppn(),
            Kind::CopyBack => op.from(),
            Kind::Erase => {
                self.reads.set(geometry.block_page(op.ppn()).0 as usize, 0);
                return 0;
            }
            Kind::Program => return 0,
        };
        let (block, page) = geometry.block_page(from);
        let reads = self.reads.get(block as usize);
        self.reads.set(block as usize, reads + 1);
        let retries = retry.retries(block, page, reads);
        self.retries += u64::from(retries);
        self.retried += u64::from(retries > 0);
        u64::from(retries) * retry.step.0.0
    }

    /// Large tables become shared.
    pub fn freeze(&mut self) {
        self.reads.freeze();
    }

    /// Reads that were repeated, and how often in all.
    pub fn counters(&self, out: &mut sim::Counters) {
        if self.is_on() {
            out.add("retried_reads", self.retried);
            out.add("read_retries", self.retries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of pages with at least one retry is Weibull's, and with at least `k` that of
    /// fewer reads.
    #[test]
    fn shares_are_those_of_the_distribution() {
        let retry = ReadRetry { reads: 1000, shape: 1.88, more: 0.05, ..ReadRetry::default() };
        for reads in [100, 300, 1000] {
            let pages = 200_000;
            let counts: Vec<u32> =
                (0..pages).map(|n| retry.retries(n / 1000, n % 1000, reads)).collect();
            for k in [1, 2, 5] {
                let got = counts.iter().filter(|&&n| n >= k).count() as f64 / f64::from(pages);
                let scaled = reads as f64 / 1000.0 / (1.0 + 0.05 * f64::from(k - 1));
                let expected = 1.0 - (-scaled.powf(1.88)).exp();
                // Four times the standard deviation of a share of so many pages.
                let sigma = (expected * (1.0 - expected) / f64::from(pages)).sqrt();
                let text = format!("{reads} reads, {k}: {got}, not {expected}");
                assert!((got - expected).abs() < 4.0 * sigma, "{text}");
            }
            assert_eq!(counts.iter().max(), Some(&retry.most), "the weakest page");
        }
        assert_eq!(retry.retries(1, 1, 0), 0);
    }

    #[test]
    fn values_that_cannot_be_name_their_key() {
        let none = ReadRetry::default();
        for (retry, key) in [
            (ReadRetry { reads: 0, ..none }, "retry.reads"),
            (ReadRetry { shape: f64::NAN, ..none }, "retry.shape"),
            (ReadRetry { more: 0.0, ..none }, "retry.more"),
            (ReadRetry { most: 0, ..none }, "retry.most"),
            (ReadRetry { days: -1.0, ..none }, "retry.days"),
        ] {
            assert_eq!(retry.check().expect_err(key).key, key);
        }
        assert!(none.check().is_ok());
    }

    #[test]
    fn days_are_reads() {
        let kept =
            ReadRetry { reads_before: 7, days: 30.0, reads_per_day: 2.5, ..Default::default() };
        assert_eq!(kept.at_first(), 82);
    }
}

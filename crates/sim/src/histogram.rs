//! A high-dynamic-range histogram of latencies.

use crate::log_buckets::LogBuckets;

/// 128 per power of two: values are kept to better than 1 part in 128.
type Buckets = LogBuckets<7>;
const BUCKETS: usize = Buckets::below(64);

/// Counts of values with a relative error below 0.8 %, in constant memory.
///
/// Histograms of several runs are merged, never averaged. Minimum, maximum and mean are exact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// Count one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.counts[Buckets::of(value)] += 1;
        self.total += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Add all of `other`'s values.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Exact sum of the values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Exact mean, or `None` when empty.
    pub fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }

    /// Exact smallest value, or `None` when empty.
    pub fn min(&self) -> Option<u64> {
        (self.total > 0).then_some(self.min)
    }

    /// Exact largest value, or `None` when empty.
    pub fn max(&self) -> Option<u64> {
        (self.total > 0).then_some(self.max)
    }

    /// The value below or at which a share `q` (0 to 1) of the values lies: the middle of its
    /// bucket, never beyond the exact extremes. `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        if q >= 1.0 {
            return Some(self.max);
        }
        let rank = ((q.clamp(0.0, 1.0) * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Buckets::middle(index).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// The non-empty buckets as (lowest value, count), in rising order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, c)| **c > 0)
            .map(|(i, &c)| (Buckets::lowest(i), c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut h = Histogram::new();
        (1..=1_000_000u64).for_each(|v| h.record(v * 17));
        for q in [0.5, 0.99, 0.999] {
            let exact = q * 17e6;
            let got = h.quantile(q).unwrap() as f64;
            assert!((got - exact).abs() / exact < 0.008, "{q}: {got} against {exact}");
        }
        assert_eq!(h.max(), Some(17_000_000));
        assert_eq!(h.mean(), Some(17.0 * 500_000.5));
        assert_eq!(h.quantile(1.0), Some(17_000_000));
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for v in 0..5_000u64 {
            let value = v * v % 77_777;
            if v % 3 == 0 {
                a.record(value)
            } else {
                b.record(value)
            }
            both.record(value);
        }
        a.merge(&b);
        assert_eq!(a, both);
    }
}

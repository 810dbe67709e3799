//! Latencies over time in constant memory.

use sim::{LogBuckets, Nanos};

/// 16 per octave of latency: a percentile within a bin is good to 1/32.
type Buckets = LogBuckets<4>;
/// Latencies from 2^40 ns (18 minutes) on share the last bucket.
const LATENCY_MAX: u64 = (1 << 40) - 1;
const BUCKETS: usize = Buckets::below(40);
/// Buckets of a [`Bin`] per bucket of the heat map, which has 4 per octave.
const COARSE: usize = Buckets::PER_OCTAVE / 4;

/// What completed within one stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Bin {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) latency_max: u64,
    latencies: [u32; BUCKETS],
}

impl Bin {
    const EMPTY: Bin = Bin { requests: 0, bytes: 0, latency_max: 0, latencies: [0; BUCKETS] };

    fn merge(&mut self, other: &Bin) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.latency_max = self.latency_max.max(other.latency_max);
        let used = other.used();
        for (mine, theirs) in self.latencies[..used].iter_mut().zip(&other.latencies[..used]) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Buckets up to the last one that counted anything.
    fn used(&self) -> usize {
        if self.requests == 0 { 0 } else { bucket(self.latency_max) + 1 }
    }

    fn clear(&mut self) {
        let used = self.used();
        self.latencies[..used].fill(0);
        (self.requests, self.bytes, self.latency_max) = (0, 0, 0);
    }

    /// The latency below or at which a share `q` of the requests lies, in nanoseconds.
    pub(crate) fn quantile(&self, q: f64) -> u64 {
        let rank = ((q * self.requests as f64).ceil() as u64).clamp(1, self.requests.max(1));
        let mut seen = 0;
        for (index, &count) in self.latencies.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return Buckets::middle(index).min(self.latency_max);
            }
        }
        self.latency_max
    }

    /// (lowest latency in ns, count) with four buckets per octave, without the empty ones.
    pub(crate) fn heat(&self) -> impl Iterator<Item = (u64, u64)> {
        let sum = |group: &[u32]| group.iter().map(|&n| u64::from(n)).sum::<u64>();
        let groups = self.latencies.chunks(COARSE).enumerate();
        groups
            .map(move |(i, group)| (Buckets::lowest(i * COARSE), sum(group)))
            .filter(|(_, n)| *n > 0)
    }
}

#[inline]
fn bucket(latency: u64) -> usize {
    Buckets::of(latency.min(LATENCY_MAX))
}

/// Bins of equal width that double their width when the run gets longer.
#[derive(Debug)]
pub(crate) struct Timeline {
    bins_max: usize,
    width: Width,
    current: usize,
    /// The current bin is `start..end`.
    start: u64,
    end: u64,
    /// By operation; an operation that never completes takes no memory.
    bins: [Vec<Bin>; 4],
}

impl Timeline {
    /// At most `bins_max` (even) bins; `expected` is the length of the run, where it is known.
    pub(crate) fn new(bins_max: usize, expected: Option<Nanos>) -> Timeline {
        let width = Width::first(bins_max, expected);
        let (end, bins) = (width.start(1), Default::default());
        Timeline { bins_max, width, current: 0, start: 0, end, bins }
    }

    /// Count a request of operation `op` that completed at `at`.
    #[inline]
    pub(crate) fn record(&mut self, op: usize, at: u64, latency: u64, bytes: u64) {
        if at >= self.end || at < self.start {
            self.seek(at);
        }
        if self.bins[op].len() <= self.current {
            self.bins[op].resize_with(self.current + 1, || Bin::EMPTY);
        }
        let bin = &mut self.bins[op][self.current];
        bin.requests += 1;
        bin.bytes += bytes;
        bin.latency_max = bin.latency_max.max(latency);
        bin.latencies[bucket(latency)] += 1;
    }

    #[cold]
    fn seek(&mut self, at: u64) {
        while self.width.bin(at) >= self.bins_max as u64 {
            self.width.double();
            self.bins.iter_mut().for_each(halve);
        }
        self.current = self.width.bin(at) as usize;
        self.start = self.width.start(self.current as u64);
        self.end = self.width.start(self.current as u64 + 1);
    }

    /// The bins of operation `op`, by (start, bin), without the empty ones.
    pub(crate) fn bins(&self, op: usize) -> impl Iterator<Item = (Nanos, &Bin)> {
        let bins = self.bins[op].iter().enumerate().filter(|(_, bin)| bin.requests > 0);
        bins.map(|(i, bin)| (Nanos(self.width.start(i as u64)), bin))
    }

    /// All operations together.
    pub(crate) fn all(&self) -> Vec<(Nanos, Bin)> {
        let length = self.bins.iter().map(Vec::len).max().unwrap_or(0);
        let mut all = vec![Bin::EMPTY; length];
        for bins in &self.bins {
            all.iter_mut().zip(bins).for_each(|(sum, bin)| sum.merge(bin));
        }
        let start = |i: usize| Nanos(self.width.start(i as u64));
        let bins = all.into_iter().enumerate().filter(|(_, bin)| bin.requests > 0);
        bins.map(|(i, bin)| (start(i), bin)).collect()
    }
}

/// The width of a bin that is known at once.
const WIDTH_MIN: u64 = 1_000;

/// The width of bins: `whole`, halved some times. A run that ends long before what was expected of
/// it has as many bins as another; one that does not ends with bins of the whole width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    whole: u64,
    halvings: u32,
}

impl Width {
    /// To begin with; doubled often enough, a run of the expected length just fits.
    pub(crate) fn first(bins_max: usize, expected: Option<Nanos>) -> Width {
        // Requests issued just before the end complete after it; 1/64 of room keeps them inside.
        let fits = |time: Nanos| (time.0 + time.0 / 64).div_ceil(bins_max as u64).max(1);
        let whole = expected.map_or(WIDTH_MIN, fits);
        Width { whole, halvings: (whole / WIDTH_MIN).max(1).ilog2() }
    }

    /// Always the same.
    pub(crate) fn only(whole: u64) -> Width {
        Width { whole, halvings: 0 }
    }

    /// Bins that are together as wide as the whole.
    pub(crate) fn per_whole(self) -> usize {
        1 << self.halvings
    }

    pub(crate) fn double(&mut self) {
        match self.halvings.checked_sub(1) {
            Some(halvings) => self.halvings = halvings,
            None => self.whole *= 2,
        }
    }

    /// Where bin `index` begins: the begin of every second bin is that of one of twice the width.
    pub(crate) fn start(self, index: u64) -> u64 {
        let exact = u128::from(index) * u128::from(self.whole);
        u64::try_from(exact.div_ceil(1 << self.halvings)).unwrap_or(u64::MAX)
    }

    /// The bin that a moment is in.
    fn bin(self, at: u64) -> u64 {
        ((u128::from(at) << self.halvings) / u128::from(self.whole)) as u64
    }
}

fn halve(bins: &mut Vec<Bin>) {
    let half = bins.len().div_ceil(2);
    for i in 0..half {
        let (left, right) = bins.split_at_mut((2 * i).max(1));
        if i > 0 {
            left[i].clear();
        }
        // The first bin already has its own first half.
        let halves = if i > 0 { 2 } else { 1 };
        right.iter().take(halves).for_each(|bin| left[i].merge(bin));
    }
    bins.truncate(half);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_loses_nothing() {
        let mut timeline = Timeline::new(8, None);
        for i in 0..10_000u64 {
            timeline.record((i % 2) as usize, i * 777, 50 + i % 1000, 512);
        }
        let all = timeline.all();
        assert!(all.len() <= 8);
        assert_eq!(all.iter().map(|(_, bin)| bin.requests).sum::<u64>(), 10_000);
        assert_eq!(all.iter().map(|(_, bin)| bin.bytes).sum::<u64>(), 10_000 * 512);
        assert_eq!(all.iter().flat_map(|(_, bin)| bin.heat()).map(|(_, n)| n).sum::<u64>(), 10_000);
        let last = timeline.bins(1).last().unwrap();
        assert!(last.0.0 + timeline.width.start(1) > 9_999 * 777);
    }

    #[test]
    fn a_run_of_the_expected_length_has_bins_of_that_and_a_short_one_smaller_ones() {
        let expected = Nanos(10_000_000_007);
        let whole = (expected.0 + expected.0 / 64).div_ceil(400);
        for (step, bins) in [(25_000_003, 390..401), (35_999, 200..401)] {
            let mut timeline = Timeline::new(400, Some(expected));
            let mut at_once = Timeline::new(400, Some(expected));
            at_once.width = Width::only(whole);
            at_once.end = whole;
            for i in 0..400u64 {
                timeline.record(0, i * step, 50 + i % 100, 512);
                at_once.record(0, i * step, 50 + i % 100, 512);
            }
            assert!(bins.contains(&timeline.all().len()), "{}", timeline.all().len());
            let rows = |timeline: &Timeline| -> Vec<_> {
                let all = timeline.all().into_iter();
                all.map(|(at, bin)| (at, bin.requests, bin.latency_max, bin.quantile(0.5)))
                    .collect()
            };
            assert_eq!(rows(&timeline) == rows(&at_once), step > whole / 2);
        }
    }

    #[test]
    fn bins_of_half_the_width_lie_within_those_of_the_whole() {
        let mut width = Width::first(8, Some(Nanos(99_999_999)));
        assert!(width.halvings > 10 && width.start(1) >= WIDTH_MIN);
        while width.halvings > 0 {
            let fine = width;
            width.double();
            for bin in 0..50 {
                let start = width.start(bin);
                assert_eq!(start, fine.start(2 * bin));
                assert_eq!((width.bin(start), fine.bin(start)), (bin, 2 * bin));
                assert!(bin == 0 || width.bin(start - 1) == bin - 1);
            }
        }
        let whole = width.start(1);
        width.double();
        assert_eq!(width.start(1), 2 * whole);
    }

    #[test]
    fn quantiles_are_good_to_a_thirty_second() {
        let mut timeline = Timeline::new(8, None);
        (0..1_000u64).for_each(|i| timeline.record(0, 5, i * 100, 0));
        let (_, bin) = timeline.bins(0).next().unwrap();
        for q in [0.5, 0.99] {
            let (exact, got) = (q * 1e5, bin.quantile(q) as f64);
            assert!((got - exact).abs() / exact < 1.0 / 32.0, "{q}: {got} against {exact}");
        }
        assert_eq!(bin.latency_max, 99_900);
    }

    #[test]
    fn buckets_cover_every_latency() {
        for latency in (0..10_000).chain([1 << 39, LATENCY_MAX, u64::MAX]) {
            let index = bucket(latency);
            assert!(index < BUCKETS && Buckets::lowest(index) <= latency, "{latency}");
        }
    }
}

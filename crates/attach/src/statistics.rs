//! What a wall-clock run confesses: how late each reply was against the model's wish.

use serde::Serialize;
use sim::{Histogram, Op};

use crate::clock::Wall;

/// A reply later than this counts as late, as FEMU counts.
pub(crate) const LATE_NS: u64 = 20_000;
/// A reply later than this share of its modelled time counts as late, too.
pub(crate) const LATE_SHARE: f64 = 0.05;

/// The moments of one request.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The operation, as the model saw it.
    pub op: Op,
    /// When it arrived.
    pub arrived: Wall,
    /// When its reply was due.
    pub due: Wall,
    /// How long the model took, in wall nanoseconds; `None` when the model was not asked.
    pub modelled_ns: Option<u64>,
}

/// Measured since the session began.
#[derive(Default, Debug)]
pub struct Statistics {
    modelled: [Histogram; 4],
    served: [Histogram; 4],
    lateness: Histogram,
    late_absolute: u64,
    late_relative: u64,
    early: u64,
    bytes: [u64; 4],
    recent: Recent,
}

impl Statistics {
    /// A reply began to leave at `sent`.
    #[inline]
    pub fn replied(&mut self, timing: &Timing, bytes: u32, sent: Wall) {
        let Some(modelled_ns) = timing.modelled_ns else { return };
        let op = timing.op as usize;
        self.modelled[op].record(modelled_ns);
        self.served[op].record(sent.since(timing.arrived));
        self.bytes[op] += u64::from(bytes);
        let late = sent.since(timing.due);
        self.lateness.record(late);
        self.recent.served.record(sent.since(timing.arrived));
        self.recent.lateness.record(late);
        self.early += u64::from(sent < timing.due);
        self.late_absolute += u64::from(late > LATE_NS);
        self.late_relative += u64::from(late as f64 > modelled_ns as f64 * LATE_SHARE);
    }

    /// Replies so far.
    pub fn replies(&self) -> u64 {
        self.lateness.count()
    }

    /// Bytes read and written so far.
    pub fn transferred(&self) -> u64 {
        self.bytes[Op::Read as usize] + self.bytes[Op::Write as usize]
    }

    /// What was measured since this was last asked.
    pub(crate) fn take_recent(&mut self) -> Recent {
        std::mem::take(&mut self.recent)
    }

    /// Everything, against a limit of `late_share` of the median modelled time.
    pub fn summary(&self, late_share: f64, dilation: u64) -> Summary {
        let modelled = merged(&self.modelled);
        let median_ns = modelled.quantile(0.5).unwrap_or(0);
        let limit_ns = ((median_ns as f64 * late_share) as u64).max(LATE_NS);
        let lateness = Lateness {
            us: Quantiles::of(&self.lateness),
            late_over_20_us: self.late_absolute,
            late_over_5_percent: self.late_relative,
            early: self.early,
            limit_p99_us: limit_ns as f64 / 1e3,
            buckets_ns: self.lateness.buckets().collect(),
        };
        let late_p99 = self.lateness.quantile(0.99).unwrap_or(0);
        let faithful = self.early == 0 && late_p99 <= limit_ns;
        // When even the typical reply is late, the model offers more than this machine carries.
        let saturated = self.lateness.quantile(0.5).unwrap_or(0) > limit_ns;
        // No time at all stays none, however much it is stretched.
        let helps = saturated && median_ns > 0;
        let advice = helps.then(|| advice(&self.lateness, median_ns, limit_ns, dilation));
        Summary {
            replies: self.replies(),
            faithful,
            saturated,
            advice: advice.unwrap_or_default(),
            operations: self.operations(),
            lateness,
        }
    }

    /// By operation; those that did not occur are left out.
    pub fn operations(&self) -> Vec<Operation> {
        let of = |op: Op| Operation {
            op: op.name(),
            requests: self.modelled[op as usize].count(),
            bytes: self.bytes[op as usize],
            modelled_us: Quantiles::of(&self.modelled[op as usize]),
            served_us: Quantiles::of(&self.served[op as usize]),
        };
        let occurred = |op: &Op| self.modelled[*op as usize].count() > 0;
        Op::ALL.into_iter().filter(occurred).map(of).collect()
    }

    /// Add what was measured elsewhere.
    pub fn merge(&mut self, other: &Statistics) {
        for op in 0..self.modelled.len() {
            self.modelled[op].merge(&other.modelled[op]);
            self.served[op].merge(&other.served[op]);
            self.bytes[op] += other.bytes[op];
        }
        self.lateness.merge(&other.lateness);
        self.late_absolute += other.late_absolute;
        self.late_relative += other.late_relative;
        self.early += other.early;
    }
}

/// Measured since somebody last looked, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// From arrival to the start of the reply.
    pub(crate) served: Histogram,
    /// Reply start minus modelled completion.
    pub(crate) lateness: Histogram,
}

fn merged(histograms: &[Histogram; 4]) -> Histogram {
    let mut all = Histogram::new();
    histograms.iter().for_each(|histogram| all.merge(histogram));
    all
}

/// Slow enough that what is late now would be within the limit.
fn advice(lateness: &Histogram, median_ns: u64, limit_ns: u64, dilation: u64) -> String {
    let late = lateness.quantile(0.5).unwrap_or(0);
    let wish = (median_ns + late).div_ceil(median_ns.max(limit_ns).max(1));
    let factor = (dilation * wish.clamp(2, 1000)).next_power_of_two();
    format!(
        "the model answers faster than this machine can carry it; give it time with \
         --dilate {factor}"
    )
}

/// What a session measured.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Requests the model timed and the client was answered.
    pub replies: u64,
    /// True when the p99 of lateness is within its limit and nothing was early.
    pub faithful: bool,
    /// True when even the median reply was beyond the limit.
    pub saturated: bool,
    /// What to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// By operation; those that did not occur are left out.
    pub operations: Vec<Operation>,
    /// Reply start minus modelled completion.
    pub lateness: Lateness,
}

/// One operation.
#[derive(Clone, Debug, Serialize)]
pub struct Operation {
    /// Its name.
    pub op: &'static str,
    /// Replies.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// The model's time, in microseconds of wall time.
    pub modelled_us: Quantiles,
    /// From arrival to the start of the reply, in microseconds.
    pub served_us: Quantiles,
}

/// How late replies were.
#[derive(Clone, Debug, Serialize)]
pub struct Lateness {
    /// In microseconds.
    #[serde(flatten)]
    pub us: Quantiles,
    /// Replies more than 20 us late.
    pub late_over_20_us: u64,
    /// Replies late by more than 5 % of their modelled time.
    pub late_over_5_percent: u64,
    /// Replies before their modelled completion, compensation included: none, ever.
    pub early: u64,
    /// The p99 up to which the run counts as faithful.
    pub limit_p99_us: f64,
    /// (lower bound in ns, replies) of every bucket that is not empty.
    pub buckets_ns: Vec<(u64, u64)>,
}

/// A distribution in microseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Quantiles {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95 of 100 are below.
    pub p95: f64,
    /// 99 of 100 are below.
    pub p99: f64,
    /// 999 of 1000 are below.
    pub p99_9: f64,
    /// The largest.
    pub max: f64,
}

impl Quantiles {
    /// Of a histogram of nanoseconds; all zero when it is empty.
    pub fn of(histogram: &Histogram) -> Quantiles {
        let us = |q: f64| histogram.quantile(q).unwrap_or(0) as f64 / 1e3;
        Quantiles {
            mean: histogram.mean().unwrap_or(0.0) / 1e3,
            p50: us(0.5),
            p95: us(0.95),
            p99: us(0.99),
            p99_9: us(0.999),
            max: histogram.max().unwrap_or(0) as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(modelled_us: u64, late_us: &[u64]) -> Summary {
        let mut statistics = Statistics::default();
        for &late in late_us {
            let due = Wall(1_000_000);
            let timing = Timing {
                op: Op::Read,
                arrived: due.minus(modelled_us * 1000),
                due,
                modelled_ns: Some(modelled_us * 1000),
            };
            statistics.replied(&timing, 4096, due.plus(late * 1000));
        }
        statistics.summary(LATE_SHARE, 1)
    }

    #[test]
    fn a_run_is_faithful_up_to_its_limit() {
        assert!(run(100, &[1; 100]).faithful);
        assert!(run(100, &[19; 100]).faithful, "the limit is never below 20 us");
        assert!(run(10_000, &[490; 100]).faithful);
        let late = run(10_000, &[510; 100]);
        assert!(!late.faithful && late.saturated);
        assert_eq!(late.lateness.late_over_5_percent, 100);
        let mut tail = vec![0; 97];
        tail.extend([30; 3]);
        let tail = run(100, &tail);
        assert!(!tail.faithful && !tail.saturated && tail.advice.is_empty());
    }

    #[test]
    fn a_saturated_run_says_how_much_time_it_needs() {
        let summary = run(10, &[150; 10]);
        assert!(summary.advice.ends_with("--dilate 8"), "{}", summary.advice);
        let instant = run(0, &[150; 10]);
        assert!(instant.saturated && instant.advice.is_empty());
    }

    #[test]
    fn what_the_model_was_not_asked_is_not_counted() {
        let mut statistics = Statistics::default();
        let timing = Timing { op: Op::Read, arrived: Wall(5), due: Wall(5), modelled_ns: None };
        statistics.replied(&timing, 512, Wall(100_000));
        assert_eq!(statistics.replies(), 0);
    }
}

//! What a wall-clock run confesses: how late each reply was against the model's wish.

use serde::Serialize;
use sim::{Histogram, Op};

use crate::clock::Wall;
use crate::order::{Refusal, Timing};

/// A reply later than this counts as late, as FEMU counts.
pub(crate) const LATE_NS: u64 = 20_000;
/// A reply later than this share of its modelled time counts as late, too.
pub(crate) const LATE_SHARE: f64 = 0.05;
/// What a device answers sooner has no time that a reply could be true to.
const NO_TIME_US: f64 = 1.0;

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
    /// By operation, and by [`Refusal`].
    failed: [[u64; Refusal::ALL.len()]; 4],
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

    /// A request was answered with an error.
    pub(crate) fn failed(&mut self, op: Op, why: Refusal) {
        self.failed[op as usize][why as usize] += 1;
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
        // When even the typical reply is late, the model offers more than this machine carries.
        let saturated = self.lateness.quantile(0.5).unwrap_or(0) > limit_ns;
        // No time at all stays none, however much it is stretched.
        let helps = saturated && median_ns > 0;
        let advice = helps.then(|| advice(&self.lateness, median_ns, limit_ns, dilation));
        let operations = self.operations();
        let mut doubts = Vec::new();
        if self.early > 0 {
            doubts.push(format!("{} replies left before their time", self.early));
        }
        if late_p99 > limit_ns {
            let advice = advice.as_ref().map(|advice| format!("; {advice}"));
            let advice = advice.unwrap_or_default();
            doubts.push(format!("p99 of lateness beyond {:.0} us{advice}", lateness.limit_p99_us));
        } else if lateness.us.mean > lateness.limit_p99_us {
            doubts.push(stood_still(&lateness));
        }
        doubts.extend(operations.iter().filter_map(|op| timeless(op, self.replies())));
        Summary {
            replies: self.replies(),
            faithful: doubts.is_empty(),
            doubts,
            saturated,
            advice: advice.unwrap_or_default(),
            operations,
            failures: self.failures(),
            lateness,
        }
    }

    fn failures(&self) -> Vec<Failed> {
        let of = |op: Op, why: Refusal| {
            let requests = self.failed[op as usize][why as usize];
            (requests > 0).then(|| Failed { op: op.name(), requests, why: why.text() })
        };
        let all = Op::ALL.into_iter().flat_map(|op| Refusal::ALL.map(|why| (op, why)));
        all.filter_map(|(op, why)| of(op, why)).collect()
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

    /// Modelled times and bytes, by operation.
    pub(crate) fn times(&self) -> (&[Histogram; 4], &[u64; 4]) {
        (&self.modelled, &self.bytes)
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
        for (mine, theirs) in
            self.failed.as_flattened_mut().iter_mut().zip(other.failed.as_flattened())
        {
            *mine += theirs;
        }
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

/// Few replies were late, but so late that all are on average: each client waited for those.
fn stood_still(lateness: &Lateness) -> String {
    let (mean, limit) = (lateness.us.mean, lateness.limit_p99_us);
    let seconds = lateness.us.max / 1e6;
    format!(
        "mean of lateness {mean:.0} us, beyond {limit:.0} us: the server stood still for \
         {seconds:.1} s"
    )
}

/// A run is true to nothing when a part of its reads or writes took the device no time.
fn timeless(op: &Operation, replies: u64) -> Option<String> {
    let counts = matches!(op.op, "read" | "write") && op.requests * 10 >= replies;
    (counts && op.modelled_us.p50 < NO_TIME_US).then(|| {
        let hint = match op.op {
            "read" => " (an SSD has none for what was never written: --fill)",
            _ => "",
        };
        format!("{}s took the device about no time{hint}", op.op)
    })
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
    /// True when there is no doubt.
    pub faithful: bool,
    /// Why the run is not to be trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// True when even the median reply was beyond the limit.
    pub saturated: bool,
    /// What to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// By operation; those that did not occur are left out.
    pub operations: Vec<Operation>,
    /// Requests that were answered with an error.
    pub failures: Vec<Failed>,
    /// Reply start minus modelled completion.
    pub lateness: Lateness,
}

/// How long clients waited beyond the model's time.
#[derive(Clone, Debug, Serialize)]
pub struct Beyond {
    /// Where it is known from.
    #[serde(rename = "from")]
    pub source: &'static str,
    /// Round trips or requests.
    pub requests: u64,
    /// Wall time beyond the model's, compensation taken off; negative when clients had their
    /// answers before the model's time.
    pub beyond_us: f64,
}

impl Summary {
    /// What clients saw beyond the model's time counts, too.
    pub(crate) fn judge(&mut self, clients: Option<&Beyond>) {
        let Some(Beyond { source, beyond_us, .. }) = clients else { return };
        if beyond_us.abs() <= self.lateness.limit_p99_us {
            return;
        }
        let side = if *beyond_us > 0.0 { "longer" } else { "shorter" };
        let us = beyond_us.abs();
        self.doubts.push(format!("clients waited {us:.0} us {side} than modelled ({source})"));
        self.faithful = false;
    }
}

/// Requests that were answered with an error.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The operation.
    pub op: &'static str,
    /// How many.
    pub requests: u64,
    /// What the client was told.
    pub why: &'static str,
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
    /// The p99, and the mean, up to which the run counts as faithful.
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

    /// A pause is one late reply among thousands: no quantile sees it, every client does.
    #[test]
    fn a_run_with_a_pause_is_not_faithful() {
        let paused = |seconds: u64| {
            let mut late = vec![0; 9999];
            late.push(seconds * 1_000_000);
            run(10_000, &late)
        };
        let (short, long) = (paused(4), paused(6));
        assert!(short.faithful, "400 us of 10 ms: {:?}", short.doubts);
        assert!(
            !long.faithful && long.doubts[0].contains("stood still for 6.0 s"),
            "{:?}",
            long.doubts
        );
    }

    #[test]
    fn a_saturated_run_says_how_much_time_it_needs() {
        let summary = run(10, &[150; 10]);
        assert!(summary.advice.ends_with("--dilate 8"), "{}", summary.advice);
        let instant = run(0, &[150; 10]);
        assert!(instant.saturated && instant.advice.is_empty());
    }

    #[test]
    fn a_run_without_modelled_time_is_never_faithful() {
        let instant = run(0, &[0; 100]);
        assert!(!instant.faithful);
        assert_eq!(instant.doubts.len(), 1);
        assert!(instant.doubts[0].contains("about no time (an SSD"), "{:?}", instant.doubts);
        assert!(run(1, &[0; 100]).faithful);
    }

    #[test]
    fn what_clients_saw_is_part_of_the_verdict() {
        for (beyond_us, said) in [
            (19.0, None),
            (2_400.0, Some("clients waited 2400 us longer")),
            (-7_510.0, Some("clients waited 7510 us shorter")),
        ] {
            let mut summary = run(100, &[1; 100]);
            summary.judge(Some(&Beyond { source: "x", requests: 100, beyond_us }));
            assert_eq!(summary.faithful, said.is_none());
            let told = summary.doubts.first().map(String::as_str).unwrap_or_default();
            assert!(told.contains(said.unwrap_or_default()), "{told}");
        }
    }

    #[test]
    fn failures_are_counted_by_operation_and_reason() {
        let mut statistics = Statistics::default();
        statistics.failed(Op::Write, Refusal::NoSpace);
        let mut both = Statistics::default();
        both.failed(Op::Write, Refusal::NoSpace);
        both.merge(&statistics);
        let failures = both.summary(LATE_SHARE, 1).failures;
        let found: Vec<_> = failures.iter().map(|f| (f.op, f.requests, f.why)).collect();
        assert_eq!(found, [("write", 2, "no room on the host")]);
    }

    #[test]
    fn what_the_model_was_not_asked_is_not_counted() {
        let mut statistics = Statistics::default();
        let timing = Timing { op: Op::Read, arrived: Wall(5), due: Wall(5), modelled_ns: None };
        statistics.replied(&timing, 512, Wall(100_000));
        assert_eq!(statistics.replies(), 0);
    }
}

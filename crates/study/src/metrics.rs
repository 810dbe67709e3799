//! The numbers a run answers with, and what each of them means.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use config::{Failure, names};
use models::registry::PARTS;
use serde_json::{Map, Value};
use sim::metric::{Formula, Metric};
use sim::{Counters, Device, Histogram, Nanos, Op, Outcome, UnitKind};

use crate::job_names;
use crate::observe::Series;
use crate::recorder::Recorder;
use crate::travel_metrics;
use counted::Readings;

mod counted;
pub(crate) mod wear;

/// Metric values by name; `None` where a metric is undefined, such as the write amplification of
/// a run without writes.
pub type Metrics = BTreeMap<String, Option<f64>>;

/// Metrics of the machine blocklab ran on. They belong to no digest.
pub const WALL: [&str; 3] = ["wall_s", "simulated_requests_per_wall_s", "peak_rss_mb"];

const LATENCIES: [(&str, &str, f64); 6] = [
    ("p50", "median", 0.5),
    ("p90", "90th percentile", 0.9),
    ("p99", "99th percentile", 0.99),
    ("p99_9", "99.9th percentile", 0.999),
    ("p99_99", "99.99th percentile", 0.9999),
    ("max", "maximum", 1.0),
];

/// What response times are of: the prefix of a metric's name, and in words.
const KINDS: [(&str, &str); 5] = [
    ("", "reads and writes"),
    ("read_", "reads"),
    ("write_", "writes"),
    ("flush_", "flushes"),
    ("discard_", "discards"),
];

/// (name, unit, meaning) of what is measured between host and device, and of the run itself.
const PLAIN: [(&str, &str, &str); 22] = [
    ("iops", "1/s", "reads and writes completed per second of measured simulated time"),
    (
        "throughput_mb_s",
        "MB/s",
        "10^6 bytes read and written per second of measured simulated time",
    ),
    ("read_iops", "1/s", "reads completed per second of measured simulated time"),
    ("write_iops", "1/s", "writes completed per second of measured simulated time"),
    ("discard_iops", "1/s", "discards completed per second of measured simulated time"),
    ("read_mb_s", "MB/s", "10^6 bytes read per second of measured simulated time"),
    ("write_mb_s", "MB/s", "10^6 bytes written per second of measured simulated time"),
    ("discard_mb_s", "MB/s", "10^6 bytes discarded per second of measured simulated time"),
    (REQUESTS, "requests", "requests completed while measuring, flushes and discards included"),
    (TIME, "s", "measured simulated time: from the end of the ramp to the last completion"),
    ("wall_s", "s", "time of this machine for the run, preconditioning not included"),
    ("simulated_requests_per_wall_s", "1/s", "requests per second of this machine's time"),
    ("peak_rss_mb", "MB", "largest memory of the process so far, in 10^6 bytes"),
    ("little_error", "share", "|L - lambda W| / L over the whole run; Little's law makes it 0"),
    (
        "utilisation_mean",
        "share",
        "mean share of the measured time that the dies (or the arm) were busy; a host's cores are \
         none of them",
    ),
    (
        "utilisation_max",
        "share",
        "share of the measured time that the busiest die, channel or arm was busy",
    ),
    (
        "latency_us_mean",
        "us",
        "mean response time of reads and writes, waiting for the queue included",
    ),
    ("read_latency_us_mean", "us", "mean response time of reads"),
    ("write_latency_us_mean", "us", "mean response time of writes"),
    ("flush_latency_us_mean", "us", "mean response time of flushes"),
    ("discard_latency_us_mean", "us", "mean response time of discards"),
    (
        PROCESS_WAIT,
        "s",
        "time that the process of `workload.trace.watch` waited for answers of the device",
    ),
];

/// The metric of a process that is watched.
pub(crate) const PROCESS_WAIT: &str = "process_wait_s";

/// The metric that is the time in which they were counted, of a run or of one of its jobs.
pub(crate) const TIME: &str = "simulated_s";

/// The metric that counts requests.
pub(crate) const REQUESTS: &str = "host_requests";

/// What a metric is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// Its name in results.
    pub name: String,
    /// What the number is in; `1` for a plain ratio, `share` for one from 0 to 1.
    pub unit: &'static str,
    /// In one line.
    pub meaning: String,
}

impl Definition {
    /// The meaning with its unit, in one line.
    pub fn line(&self) -> String {
        match self.unit {
            "1" => self.meaning.clone(),
            unit => format!("{} [{unit}]", self.meaning),
        }
    }
}

/// Every metric, in a fixed order: what is measured at the host, then what models declare.
pub fn definitions() -> Vec<Definition> {
    let plain = PLAIN.iter().map(|&(name, unit, meaning)| (name.to_string(), unit, meaning.into()));
    let latencies = KINDS.iter().flat_map(|(prefix, of)| {
        LATENCIES.iter().map(move |(name, words, _)| {
            (format!("{prefix}latency_us_{name}"), "us", format!("{words} response time of {of}"))
        })
    });
    let declared = counted::declared().map(|m| (m.name.to_string(), m.unit, m.meaning.into()));
    let worn = wear::METRICS.iter().map(|&(name, unit, of)| (name.to_string(), unit, of.into()));
    let travelled = travel_metrics::definitions().into_iter();
    let all = plain.chain(latencies).chain(declared).chain(worn).chain(travelled);
    all.map(|(name, unit, meaning)| Definition { name, unit, meaning }).collect()
}

/// What a metric is in, of a part of a device, too; empty for what is none.
pub(crate) fn unit(name: &str) -> &'static str {
    static UNITS: LazyLock<BTreeMap<String, &'static str>> = LazyLock::new(|| {
        definitions().into_iter().map(|metric| (metric.name, metric.unit)).collect()
    });
    UNITS.get(name).or_else(|| UNITS.get(of_device(name))).copied().unwrap_or_default()
}

/// The share of requests that a percentile of response times is above; nothing for other metrics.
pub(crate) fn percentile(name: &str) -> Option<f64> {
    let (_, which) = name.rsplit_once("latency_us_p")?;
    Some(which.replace('_', ".").parse::<f64>().ok()? / 100.0)
}

/// The metric without the part of the device or the job in front: `waf` of `fast.waf`.
pub(crate) fn of_device(name: &str) -> &str {
    let mut own = job_names::split(name).map_or(name, |(_, own)| own);
    while let Some((part, rest)) = own.split_once('.')
        && PARTS.contains(&part)
    {
        own = rest;
    }
    own
}

/// True for a metric that counts something: an integer, wherever it is written.
pub fn is_count(name: &str) -> bool {
    let counts = |metric: &Metric| matches!(metric.formula, Formula::Count(_));
    let own = of_device(name);
    own == REQUESTS || counted::declared().any(|metric| metric.name == own && counts(metric))
}

/// True for what is measured of each job, too: how much it did, and what its requests took.
fn is_of_jobs(own: &str) -> bool {
    static OF_JOBS: LazyLock<Metrics> = LazyLock::new(|| {
        let mut metrics = Metrics::new();
        work(&mut metrics, &Default::default(), [0; 4], Nanos::ZERO);
        metrics
    });
    OF_JOBS.contains_key(own)
}

/// Refuse a name that is no metric. What a model declares is a metric of every part, too, and so
/// is wear.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    let (known, own) = (definitions(), of_device(name));
    let declared =
        |own: &str| wear::is_metric(own) || counted::declared().any(|metric| metric.name == own);
    let fits = |metric: &&Definition| match job_names::split(name) {
        Some(_) => is_of_jobs(&metric.name),
        None => own == name || declared(&metric.name),
    };
    if known.iter().filter(fits).any(|metric| metric.name == own) {
        return Ok(());
    }
    let failure = Failure::input(format!("there is no metric `{name}`"));
    let candidates = || known.iter().filter(fits);
    let near = names::nearest(own, candidates().map(|metric| metric.name.as_str())).or_else(|| {
        let texts = candidates().map(|metric| (metric.name.as_str(), metric.meaning.as_str()));
        names::related(own, texts)
    });
    let part = name.strip_suffix(own).unwrap_or_default();
    Err(match near {
        Some(near) => failure.expected(format!("a metric; did you mean `{part}{near}`?")),
        None => failure.expected("a metric, such as waf, iops, latency_us_p99 or fast.waf"),
    }
    .help("blocklab list metrics"))
}

/// Flushes, which have no rate: what is neither read nor written nor discarded of all requests.
pub fn flushes(run: &Metrics) -> Option<f64> {
    let of = |name: &str| run.get(name).copied().flatten();
    let others = of("iops")? + of("discard_iops").unwrap_or_default();
    Some(of(REQUESTS)? - others * of(TIME)?)
}

/// A declared metric of what was counted, levels as they are now; `None` where it is undefined.
pub fn value(counters: &Counters, name: &str) -> Option<f64> {
    let metric = counted::declared().find(|metric| metric.name == name)?;
    Readings { total: counters, series: None, after_cut: false }.value(metric)
}

/// The metrics of a run that only depend on what was simulated.
pub(crate) fn simulated(
    recorder: &Recorder,
    total: &Counters,
    series: &Series,
    outcome: &Outcome,
) -> Metrics {
    let mut metrics = Metrics::new();
    let readings = Readings { total, series: Some(series), after_cut: false };
    counted::declared().for_each(|metric| readings.add(metric, &mut metrics));
    let time = recorder.measured(outcome.end);
    let (histograms, bytes) = recorder.counted();
    work(&mut metrics, histograms, bytes, time);
    let requests: u64 = histograms.iter().map(Histogram::count).sum();
    metrics.insert(REQUESTS.into(), Some(requests as f64));
    let (mean, max) = utilisation(total, time).unzip();
    metrics.insert("utilisation_mean".into(), mean);
    metrics.insert("utilisation_max".into(), max);
    let error = outcome.in_flight_ns.abs_diff(outcome.response_ns) as f64;
    let little = if error == 0.0 { 0.0 } else { error / outcome.in_flight_ns as f64 };
    metrics.insert("little_error".into(), Some(little));
    wear::undefined(&mut metrics);
    metrics
}

/// Add what only a power cut shows: how long the mapping of a drive took to come back.
pub(crate) fn add_rebuild(metrics: &mut Metrics, device: &dyn Device) {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    let readings = Readings { total: &counters, series: None, after_cut: true };
    let shown = |metric: &&Metric| matches!(metric.formula, Formula::AfterPowerCut(..));
    counted::declared().filter(shown).for_each(|metric| readings.add(metric, metrics));
}

/// How much was done, in how long, and what it took: of response times and bytes by operation.
pub(crate) fn work(metrics: &mut Metrics, took: &[Histogram; 4], bytes: [u64; 4], time: Nanos) {
    metrics.insert(TIME.into(), Some(time.as_secs_f64()));
    rates(metrics, took.each_ref().map(Histogram::count), bytes, time);
    let [read, write, flush, discard] =
        [Op::Read, Op::Write, Op::Flush, Op::Discard].map(|op| &took[op as usize]);
    let mut all = read.clone();
    all.merge(write);
    for ((prefix, _), histogram) in KINDS.iter().zip([&all, read, write, flush, discard]) {
        latencies(metrics, prefix, histogram);
    }
}

fn rates(metrics: &mut Metrics, requests: [u64; 4], bytes: [u64; 4], time: Nanos) {
    let seconds = time.as_secs_f64();
    let mut put = |name: &str, amount: f64| {
        metrics.insert(name.into(), (seconds > 0.0).then(|| amount / seconds));
    };
    let of = |counts: [u64; 4]| [Op::Read, Op::Write, Op::Discard].map(|op| counts[op as usize]);
    let ([reads, writes, discards], [read, written, discarded]) = (of(requests), of(bytes));
    put("iops", (reads + writes) as f64);
    put("read_iops", reads as f64);
    put("write_iops", writes as f64);
    put("discard_iops", discards as f64);
    put("throughput_mb_s", (read + written) as f64 / 1e6);
    put("read_mb_s", read as f64 / 1e6);
    put("write_mb_s", written as f64 / 1e6);
    put("discard_mb_s", discarded as f64 / 1e6);
}

fn latencies(metrics: &mut Metrics, prefix: &str, histogram: &Histogram) {
    let mean = histogram.mean().map(|ns| ns / 1e3);
    metrics.insert(format!("{prefix}latency_us_mean"), mean);
    for (name, _, q) in LATENCIES {
        let value = histogram.quantile(q).map(|ns| ns as f64 / 1e3);
        metrics.insert(format!("{prefix}latency_us_{name}"), value);
    }
}

/// (mean over the leaves, largest) share of the time that the drive's units were busy; what stands
/// for a drive counts only where there is none.
pub fn utilisation(total: &Counters, time: Nanos) -> Option<(f64, f64)> {
    let of = |kind| total.units.iter().filter(move |unit: &&sim::Unit| unit.kind == kind);
    let media = of(UnitKind::Medium).next().is_some();
    let drives = || of(if media { UnitKind::Medium } else { UnitKind::Server });
    let share = |unit: &sim::Unit| {
        let busy: u64 = unit.busy.iter().map(|(_, time)| time.0).sum();
        (busy as f64 / time.0 as f64).min(1.0)
    };
    // A channel's dies are below it in name; the mean is over the leaves.
    let is_leaf = |unit: &sim::Unit| {
        let below = format!("{}.", unit.name);
        !total.units.iter().any(|other| other.name.starts_with(&below))
    };
    let leaves: Vec<f64> = drives().filter(|u| is_leaf(u)).map(share).collect();
    let mean = leaves.iter().sum::<f64>() / leaves.len() as f64;
    let max = drives().map(share).fold(0.0, f64::max);
    (time.0 > 0 && !leaves.is_empty()).then_some((mean, max))
}

/// Add what this machine needed for it.
pub(crate) fn add_wall(metrics: &mut Metrics, requests: u64, wall: std::time::Duration) {
    let seconds = wall.as_secs_f64();
    metrics.insert("wall_s".into(), Some(seconds));
    let rate = (seconds > 0.0).then(|| requests as f64 / seconds);
    metrics.insert("simulated_requests_per_wall_s".into(), rate);
    metrics.insert("peak_rss_mb".into(), peak_rss_mb());
}

fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// As JSON; undefined metrics are null.
pub fn to_json(metrics: &Metrics) -> Map<String, Value> {
    let number = |value: &Option<f64>| value.filter(|v| v.is_finite()).map_or(Value::Null, whole);
    metrics.iter().map(|(name, value)| (name.clone(), number(value))).collect()
}

/// Counts print as integers.
fn whole(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 2f64.powi(53) {
        (value as i64).into()
    } else {
        value.into()
    }
}

/// The metrics that belong to the result's digest: those that are defined, so that a metric which
/// some model adds leaves the digests of all others as they are.
pub(crate) fn digested(metrics: &Metrics) -> Map<String, Value> {
    let mut map = to_json(metrics);
    map.retain(|name, value| !value.is_null() && !WALL.contains(&name.as_str()));
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_metric_is_suggested() {
        let error = check_name("latency_us_p9").unwrap_err().to_string();
        assert!(error.contains("did you mean `latency_us_p99`?") || error.contains("p90"));
        assert_eq!(check_name("write_latency_us_p99_99"), Ok(()));
        assert_eq!(check_name("fast.waf"), Ok(()));
        assert_eq!(check_name("fast.erases_per_block_max"), Ok(()));
        assert!(check_name("fast.iops").is_err(), "measured at the host only");
        assert_eq!(check_name("job.quiet.write_latency_us_p99"), Ok(()));
        assert!(check_name("job.quiet.waf").is_err(), "nobody counts it by job");
        for (name, near) in [
            ("p99", "latency_us_p99"),
            ("write_p99", "write_latency_us_p99"),
            ("write_amplification", "waf"),
            ("hit_ratio", "map_hit_ratio"),
            ("fast.wav", "fast.waf"),
            ("job.quiet.iopps", "job.quiet.iops"),
            ("median_latency", "latency_us_p50"),
        ] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean `{near}`?")), "{name}: {error}");
        }
        assert!(!check_name("zzqq").unwrap_err().to_string().contains("did you mean"));
    }

    #[test]
    fn a_drives_utilisation_is_not_that_of_cores_or_servers_beside_it() {
        let unit = |kind, name: String, percent: u64| {
            let busy = vec![("work", Nanos::from_millis(10 * percent))];
            sim::Unit { name, kind, busy }
        };
        let utilised = |units: Vec<sim::Unit>| {
            let total = Counters { units, ..Counters::default() };
            utilisation(&total, Nanos::from_secs(1))
        };
        let near = |(mean, max): (f64, f64), expected: (f64, f64)| {
            (mean - expected.0).abs() < 1e-9 && (max - expected.1).abs() < 1e-9
        };
        let cores = || (0..4).map(|n| unit(UnitKind::Core, format!("core {n}"), 95));
        let dies = (0..8).map(|n| unit(UnitKind::Medium, format!("channel0.die{n}"), 20));
        let channel = unit(UnitKind::Medium, "channel0".into(), 30);
        let server = || unit(UnitKind::Server, "server".into(), 90);
        let all = cores().chain(dies).chain([channel, server()]).collect();
        assert!(near(utilised(all).unwrap(), (0.2, 0.3)));
        assert!(near(utilised(cores().chain([server()]).collect()).unwrap(), (0.9, 0.9)));
        assert_eq!(utilised(cores().collect()), None);
    }

    #[test]
    fn every_metric_has_one_meaning_and_a_unit() {
        let bare = definitions().into_iter().find(|metric| metric.unit.is_empty());
        assert_eq!(bare, None);
        let mut names: Vec<_> = definitions().into_iter().map(|metric| metric.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

//! The numbers a run answers with, and what each of them means.

use std::collections::BTreeMap;

use config::{Failure, names};
use serde_json::{Map, Value};
use sim::{Counters, Device, Histogram, Nanos, Op, Outcome};

use crate::observe::Series;
use crate::recorder::Recorder;

/// Metric values by name; `None` where a metric is undefined, such as the write amplification of
/// a run without writes.
pub type Metrics = BTreeMap<String, Option<f64>>;

/// Metrics of the machine blocklab ran on. They belong to no digest.
pub const WALL: [&str; 3] = ["wall_s", "simulated_requests_per_wall_s", "peak_rss_mb"];

/// Metrics that count something: integers, wherever they are written.
const COUNTS: [&str; 10] = [
    "host_requests",
    "host_pages_written",
    "flash_reads",
    "flash_programs",
    "flash_erases",
    "gc_pages_moved",
    "mirror_freezes",
    "merges_switch",
    "merges_partial",
    "merges_full",
];

const LATENCIES: [(&str, &str, f64); 6] = [
    ("p50", "median", 0.5),
    ("p90", "90th percentile", 0.9),
    ("p99", "99th percentile", 0.99),
    ("p99_9", "99.9th percentile", 0.999),
    ("p99_99", "99.99th percentile", 0.9999),
    ("max", "maximum", 1.0),
];

const PLAIN: [(&str, &str); 46] = [
    ("waf", "write amplification: bytes programmed, copy-backs included, per byte the host wrote"),
    ("waf_host", "the part of `waf` caused by host writes themselves"),
    ("waf_gc", "the part of `waf` caused by garbage collection"),
    ("waf_wear", "the part of `waf` caused by wear levelling"),
    ("waf_map", "the part of `waf` caused by writing the mapping"),
    ("waf_merge", "the part of `waf` caused by merges"),
    ("iops", "reads and writes completed per second of measured simulated time"),
    ("throughput_mb_s", "MB (10^6 bytes) read and written per second of measured simulated time"),
    ("read_iops", "reads completed per second of measured simulated time"),
    ("write_iops", "writes completed per second of measured simulated time"),
    ("read_mb_s", "MB (10^6 bytes) read per second of measured simulated time"),
    ("write_mb_s", "MB (10^6 bytes) written per second of measured simulated time"),
    ("host_requests", "requests completed while measuring, flushes and discards included"),
    ("host_pages_written", "flash pages the host wrote to while measuring, wholly or in part"),
    ("flash_reads", "flash page reads while measuring, all causes"),
    ("flash_programs", "flash page programs while measuring, copy-backs included, all causes"),
    ("flash_erases", "flash block erases while measuring, all causes"),
    ("gc_pages_moved", "valid pages moved by garbage collection while measuring"),
    ("map_hit_ratio", "share of mapping lookups that needed no flash read"),
    ("map_double_read_ratio", "share of the pages read whose mapping had to be read first"),
    ("map_ram_kib_mean", "KiB of RAM the mapping took, mean over the measured time"),
    ("map_ram_kib_max", "KiB of RAM the mapping took, largest while measuring"),
    ("map_rebuild_ms", "time to rebuild the mapping after a power cut; with `run.power_cut`"),
    (
        "update_pure_ratio",
        "share of the pages written that went elsewhere than into their data \
      block, as they had been written before",
    ),
    ("update_wasted_ratio", "the same, of pages never written before that came out of order"),
    ("update_wasted_share", "`update_wasted_ratio` as a share of both"),
    (
        "exposed_mib_mean",
        "MiB acknowledged by a mirror with one copy only, mean over the measured time",
    ),
    ("exposed_mib_max", "the same, most at any time since the device was new"),
    (
        "flushed_exposed_mib_max",
        "MiB that a completed flush covered though one leg of the mirror did not hold them, most",
    ),
    ("mirror_freezes", "times a leg of a mirror counted as frozen while measuring"),
    ("slower_first_max", "largest ratio of one write's times on the legs, first leg the slower"),
    ("slower_second_max", "the same, second leg the slower"),
    ("flush_latency_us_mean", "mean response time of flushes in microseconds"),
    ("merges_switch", "merges that made a log block the data block"),
    ("merges_partial", "merges that completed a log block by copies"),
    ("merges_full", "merges that copied a whole logical block"),
    ("simulated_s", "measured simulated time: from the end of the ramp to the last completion"),
    ("wall_s", "seconds of this machine's time for the run, preconditioning not included"),
    ("simulated_requests_per_wall_s", "requests per second of this machine's time"),
    ("peak_rss_mb", "largest memory of the process so far, in MB (10^6 bytes)"),
    ("little_error", "|L - lambda W| / L over the whole run; Little's law makes it 0"),
    ("utilisation_mean", "mean share of the measured time that the dies (or the arm) were busy"),
    ("utilisation_max", "share of the measured time that the busiest unit was busy"),
    ("latency_us_mean", "mean response time in microseconds, waiting for the queue included"),
    ("read_latency_us_mean", "mean response time of reads in microseconds"),
    ("write_latency_us_mean", "mean response time of writes in microseconds"),
];

/// What the counts of bytes programmed begin with; the cause follows.
const PROGRAMMED: &str = "flash_bytes_programmed.";

/// (name, meaning) of every metric, in a fixed order.
pub fn definitions() -> Vec<(String, String)> {
    let mut list: Vec<_> = PLAIN.iter().map(|&(n, d)| (n.to_string(), d.to_string())).collect();
    list.extend(crate::travel_metrics::definitions());
    let kinds =
        [("", ""), ("read_", " of reads"), ("write_", " of writes"), ("flush_", " of flushes")];
    for (prefix, of) in kinds {
        list.extend(LATENCIES.iter().map(|(name, words, _)| {
            let meaning = format!("{words} response time{of} in microseconds");
            (format!("{prefix}latency_us_{name}"), meaning)
        }));
    }
    list
}

/// True for a metric that counts something.
pub(crate) fn is_count(name: &str) -> bool {
    COUNTS.contains(&name)
}

/// Refuse a name that is no metric.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    let known = definitions();
    if known.iter().any(|(metric, _)| metric == name) {
        return Ok(());
    }
    let failure = Failure::input(format!("there is no metric `{name}`"));
    let near =
        names::nearest(name, known.iter().map(|(metric, _)| metric.as_str())).or_else(|| {
            names::related(name, known.iter().map(|(m, text)| (m.as_str(), text.as_str())))
        });
    Err(match near {
        Some(near) => failure.expected(format!("a metric; did you mean `{near}`?")),
        None => failure.expected("a metric, such as waf, iops or latency_us_p99"),
    }
    .help("blocklab list metrics"))
}

/// The metrics of a run that only depend on what was simulated.
pub(crate) fn simulated(recorder: &Recorder, total: &Counters, outcome: &Outcome) -> Metrics {
    let mut metrics = Metrics::new();
    let time = recorder.measured(outcome.end);
    rates(&mut metrics, recorder, time);
    let (read, write) = (recorder.histogram(Op::Read), recorder.histogram(Op::Write));
    let mut all = read.clone();
    all.merge(write);
    let flush = recorder.histogram(Op::Flush);
    for (prefix, histogram) in [("", &all), ("read_", read), ("write_", write), ("flush_", flush)] {
        latencies(&mut metrics, prefix, histogram);
    }
    flash(&mut metrics, total);
    let freezes = total.counts.iter().find(|(name, _)| name == "freezes");
    metrics.insert("mirror_freezes".into(), freezes.map(|(_, count)| *count as f64));
    utilisation(&mut metrics, total, time);
    let error = outcome.in_flight_ns.abs_diff(outcome.response_ns) as f64;
    let little = if error == 0.0 { 0.0 } else { error / outcome.in_flight_ns as f64 };
    metrics.insert("little_error".into(), Some(little));
    metrics.insert("simulated_s".into(), Some(time.as_secs_f64()));
    metrics
}

/// Add what was the case over time.
pub(crate) fn add_levels(metrics: &mut Metrics, series: &Series) {
    let ram = series.level("map_ram_bytes");
    metrics.insert("map_ram_kib_mean".into(), ram.map(|(mean, _)| mean / 1024.0));
    metrics.insert("map_ram_kib_max".into(), ram.map(|(_, max)| max / 1024.0));
    metrics.insert("map_rebuild_ms".into(), None);
    let mib = f64::from(1 << 20);
    let exposed = series.level("exposed_bytes");
    metrics.insert("exposed_mib_mean".into(), exposed.map(|(mean, _)| mean / mib));
    for (name, level, unit) in [
        ("exposed_mib_max", "exposed_bytes_max", mib),
        ("flushed_exposed_mib_max", "flushed_exposed_bytes_max", mib),
        ("slower_first_max", "slower_first_milli", 1e3),
        ("slower_second_max", "slower_second_milli", 1e3),
    ] {
        metrics.insert(name.into(), series.last_level(level).map(|value| value as f64 / unit));
    }
}

/// Add how long the mapping of a drive took to come back after a power cut.
pub(crate) fn add_rebuild(metrics: &mut Metrics, device: &dyn Device) {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    let rebuild = counters.levels.iter().find(|(name, _)| name == "map_rebuild_ns");
    metrics.insert("map_rebuild_ms".into(), rebuild.map(|(_, ns)| *ns as f64 / 1e6));
}

fn rates(metrics: &mut Metrics, recorder: &Recorder, time: Nanos) {
    let seconds = time.as_secs_f64();
    let mut put = |name: &str, amount: f64| {
        metrics.insert(name.into(), (seconds > 0.0).then(|| amount / seconds));
    };
    let (reads, writes) = (recorder.requests(Op::Read), recorder.requests(Op::Write));
    let (read, written) = (recorder.bytes(Op::Read), recorder.bytes(Op::Write));
    put("iops", (reads + writes) as f64);
    put("read_iops", reads as f64);
    put("write_iops", writes as f64);
    put("throughput_mb_s", (read + written) as f64 / 1e6);
    put("read_mb_s", read as f64 / 1e6);
    put("write_mb_s", written as f64 / 1e6);
    let requests: u64 = Op::ALL.iter().map(|&op| recorder.requests(op)).sum();
    metrics.insert("host_requests".into(), Some(requests as f64));
}

fn latencies(metrics: &mut Metrics, prefix: &str, histogram: &Histogram) {
    let mean = histogram.mean().map(|ns| ns / 1e3);
    metrics.insert(format!("{prefix}latency_us_mean"), mean);
    for (name, _, q) in LATENCIES {
        let value = histogram.quantile(q).map(|ns| ns as f64 / 1e3);
        metrics.insert(format!("{prefix}latency_us_{name}"), value);
    }
}

/// Write amplification: bytes programmed into flash for any cause, per byte that the host asked to
/// write. `None` when it wrote nothing, or when the device has no flash.
pub fn write_amplification(counters: &Counters) -> Option<f64> {
    let written = counters.get("host_bytes_written");
    let programmed = sum(counters, PROGRAMMED).filter(|_| written > 0);
    programmed.map(|programmed| programmed as f64 / written as f64)
}

/// The sum of the counts whose names begin so; `None` when there is none.
fn sum(counters: &Counters, prefix: &str) -> Option<u64> {
    let mut counts = counters.counts.iter().filter(|(n, _)| n.starts_with(prefix)).peekable();
    counts.peek().is_some().then(|| counts.map(|(_, count)| *count).sum())
}

fn flash(metrics: &mut Metrics, total: &Counters) {
    let has = |name: &str| total.counts.iter().any(|(n, _)| n == name);
    let exact = |name: &str| has(name).then(|| total.get(name) as f64);
    let as_f64 = |count: Option<u64>| count.map(|count| count as f64);
    let waf = write_amplification(total);
    metrics.insert("waf".into(), waf);
    for cause in ["host", "gc", "wear", "map", "merge"] {
        let programmed = total.get(&format!("{PROGRAMMED}{cause}")) as f64;
        let share = waf.map(|_| programmed / total.get("host_bytes_written") as f64);
        metrics.insert(format!("waf_{cause}"), share);
    }
    let writes = total.get("host_writes");
    metrics.insert("host_pages_written".into(), exact("host_writes"));
    metrics.insert("flash_reads".into(), as_f64(sum(total, "flash_reads.")));
    metrics.insert("flash_programs".into(), as_f64(sum(total, "flash_programs.")));
    metrics.insert("flash_erases".into(), as_f64(sum(total, "flash_erases.")));
    metrics.insert("gc_pages_moved".into(), exact("gc_pages_moved"));
    let lookups = total.get("map_lookups");
    let ratio = (lookups > 0).then(|| total.get("map_hits") as f64 / lookups as f64);
    metrics.insert("map_hit_ratio".into(), ratio);
    let reads = total.get("host_reads");
    let double = (reads > 0).then(|| total.get("map_double_reads") as f64 / reads as f64);
    metrics.insert("map_double_read_ratio".into(), double.filter(|_| has("map_double_reads")));
    for update in ["update_pure", "update_wasted"] {
        let share = exact(update).filter(|_| writes > 0).map(|count| count / writes as f64);
        metrics.insert(format!("{update}_ratio"), share);
    }
    let (pure, wasted) = (total.get("update_pure"), total.get("update_wasted"));
    let share = (pure + wasted > 0).then(|| wasted as f64 / (pure + wasted) as f64);
    metrics.insert("update_wasted_share".into(), share);
    for merge in ["switch", "partial", "full"] {
        metrics.insert(format!("merges_{merge}"), exact(&format!("merges.{merge}")));
    }
}

fn utilisation(metrics: &mut Metrics, total: &Counters, time: Nanos) {
    let share = |unit: &sim::Unit| {
        let busy: u64 = unit.busy.iter().map(|(_, time)| time.0).sum();
        (busy as f64 / time.0 as f64).min(1.0)
    };
    // A channel's dies are below it in name; the mean is over the leaves.
    let is_leaf = |unit: &sim::Unit| {
        let below = format!("{}.", unit.name);
        !total.units.iter().any(|other| other.name.starts_with(&below))
    };
    let leaves: Vec<f64> = total.units.iter().filter(|u| is_leaf(u)).map(share).collect();
    let known = time.0 > 0 && !leaves.is_empty();
    let mean = known.then(|| leaves.iter().sum::<f64>() / leaves.len() as f64);
    let max = known.then(|| total.units.iter().map(share).fold(0.0, f64::max));
    metrics.insert("utilisation_mean".into(), mean);
    metrics.insert("utilisation_max".into(), max);
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

/// The metrics that belong to the result's digest.
pub(crate) fn digested(metrics: &Metrics) -> Map<String, Value> {
    let mut map = to_json(metrics);
    WALL.iter().for_each(|name| {
        map.remove(*name);
    });
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_amplification_is_split_by_cause() {
        let mut total = Counters::default();
        for (name, count) in [
            ("host_writes", 100), // of a quarter of a page of 16 KiB each
            ("host_bytes_written", 100 * 4096),
            ("flash_programs.host", 98), // two were overwritten in the buffer
            ("flash_programs.gc", 50),
            ("flash_copybacks.gc", 10), // among the 50
            ("flash_bytes_programmed.host", 98 * 16384),
            ("flash_bytes_programmed.gc", 50 * 16384),
            ("map_lookups", 8),
            ("map_hits", 6),
        ] {
            total.add(name, count);
        }
        let mut metrics = Metrics::new();
        flash(&mut metrics, &total);
        assert_eq!(metrics["waf"], Some(4.0 * 1.48));
        assert_eq!((metrics["waf_host"], metrics["waf_gc"]), (Some(4.0 * 0.98), Some(4.0 * 0.5)));
        assert_eq!(metrics["waf_wear"], Some(0.0));
        assert_eq!(metrics["flash_programs"], Some(148.0));
        assert_eq!(metrics["map_hit_ratio"], Some(0.75));
        assert_eq!(metrics["flash_erases"], None);
    }

    #[test]
    fn a_mistyped_metric_is_suggested() {
        let error = check_name("latency_us_p9").unwrap_err().to_string();
        assert!(error.contains("did you mean `latency_us_p99`?") || error.contains("p90"));
        assert_eq!(check_name("write_latency_us_p99_99"), Ok(()));
        for (name, near) in [
            ("p99", "latency_us_p99"),
            ("write_p99", "write_latency_us_p99"),
            ("write_amplification", "waf"),
            ("hit_ratio", "map_hit_ratio"),
            ("median_latency", "latency_us_p50"),
        ] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean `{near}`?")), "{name}: {error}");
        }
        assert!(!check_name("zzqq").unwrap_err().to_string().contains("did you mean"));
    }

    #[test]
    fn every_metric_has_one_meaning() {
        let mut names: Vec<_> = definitions().into_iter().map(|(name, _)| name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

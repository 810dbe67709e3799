//! The shape of `fio --output-format=json` (fio 3.33), for tools that plot it.
//!
//! Key names, nesting and units are fio's. What a model cannot know is 0: CPU shares, context
//! switches, page faults. Submission takes no simulated time, so `slat_ns` is 0 and `clat_ns`
//! equals `lat_ns`.

use serde::ser::{Serialize, SerializeMap, Serializer};
use sim::{Histogram, Nanos};

use super::recorder::{JobRecord, Latency, Recorder, Samples, Side, labels};

/// An object whose keys are data.
#[derive(Clone, PartialEq, Debug)]
pub struct Table<V>(pub Vec<(String, V)>);

impl<V: Serialize> Serialize for Table<V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Declare structs whose fields all are fio's, in fio's order.
macro_rules! objects {
    ($(
        $(#[$meta:meta])*
        $name:ident { $( $(#[$field_meta:meta])* $field:ident: $type:ty ),+ $(,)? }
    )+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, PartialEq, Debug, serde::Serialize)]
            #[allow(missing_docs)] // The names are fio's own; its manual says what they mean.
            pub struct $name { $( $(#[$field_meta])* pub $field: $type, )+ }
        )+
    };
}

objects! {
    /// The whole report.
    Output {
        #[serde(rename = "fio version")]
        version: String,
        timestamp: u64,
        timestamp_ms: u64,
        time: String,
        #[serde(rename = "global options", skip_serializing_if = "Option::is_none")]
        global: Option<Table<String>>,
        jobs: Vec<Job>,
        disk_util: Vec<DiskUtil>,
    }
    /// One job, or one clone of it.
    Job {
        jobname: String,
        groupid: u32,
        error: u32,
        eta: u64,
        elapsed: u64,
        #[serde(rename = "job options")]
        options: Table<String>,
        read: Direction,
        write: Direction,
        trim: Direction,
        sync: Sync,
        job_runtime: u64,
        usr_cpu: f64,
        sys_cpu: f64,
        ctx: u64,
        majf: u64,
        minf: u64,
        iodepth_level: Table<f64>,
        iodepth_submit: Table<f64>,
        iodepth_complete: Table<f64>,
        latency_ns: Table<f64>,
        latency_us: Table<f64>,
        latency_ms: Table<f64>,
        latency_depth: u64,
        latency_target: u64,
        latency_percentile: f64,
        latency_window: u64,
    }
    /// Reads, writes or trims of a job: bytes, KiB/s, milliseconds.
    Direction {
        io_bytes: u64,
        io_kbytes: u64,
        bw_bytes: u64,
        bw: u64,
        iops: f64,
        runtime: u64,
        total_ios: u64,
        short_ios: u64,
        drop_ios: u64,
        slat_ns: Distribution,
        clat_ns: Distribution,
        lat_ns: Distribution,
        bw_min: u64,
        bw_max: u64,
        bw_agg: f64,
        bw_mean: f64,
        bw_dev: f64,
        bw_samples: u64,
        iops_min: u64,
        iops_max: u64,
        iops_mean: f64,
        iops_stddev: f64,
        iops_samples: u64,
    }
    /// Flushes of a job.
    Sync { total_ios: u64, lat_ns: Distribution }
    /// Latencies in nanoseconds.
    Distribution {
        min: u64,
        max: u64,
        mean: f64,
        stddev: f64,
        #[serde(rename = "N")]
        n: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        percentile: Option<Table<u64>>,
    }
    /// The device: requests, milliseconds, percent busy.
    DiskUtil {
        name: String,
        read_ios: u64,
        write_ios: u64,
        read_merges: u64,
        write_merges: u64,
        read_ticks: u64,
        write_ticks: u64,
        in_queue: u64,
        util: f64,
    }
}

/// fio's default `percentile_list`.
const PERCENTILES: [&str; 17] = [
    "1.000000",
    "5.000000",
    "10.000000",
    "20.000000",
    "30.000000",
    "40.000000",
    "50.000000",
    "60.000000",
    "70.000000",
    "80.000000",
    "90.000000",
    "95.000000",
    "99.000000",
    "99.500000",
    "99.900000",
    "99.950000",
    "99.990000",
];

impl Recorder {
    /// The report in the shape of `fio --output-format=json`. `unix_ms` is when the run was made,
    /// in milliseconds since 1970; `device` names the device in the disk statistics.
    pub fn output(&self, device: &str, unix_ms: u64) -> Output {
        let elapsed = self.end.since(self.start.unwrap_or_default());
        let global = Some(Table(self.global.clone())).filter(|table| !table.0.is_empty());
        Output {
            version: concat!("fio-3.33 shape, by blocklab-", env!("CARGO_PKG_VERSION")).into(),
            timestamp: unix_ms / 1000,
            timestamp_ms: unix_ms,
            time: date(unix_ms / 1000),
            global,
            jobs: self.jobs.iter().map(|job| job_output(job, self, elapsed)).collect(),
            disk_util: vec![disk_util(self, device, elapsed)],
        }
    }
}

fn job_output(job: &JobRecord, recorder: &Recorder, elapsed: Nanos) -> Job {
    let runtime = job.runtime();
    let side = |index: usize| {
        let peers = recorder.jobs.iter().filter(|peer| peer.info.group == job.info.group);
        let group: f64 = peers.map(|peer| peer.sides[index].bandwidth.mean()).sum();
        direction(&job.sides[index], runtime, group)
    };
    let issued: u64 = job.depths.iter().sum();
    let done: u64 = job.classes.iter().flatten().sum();
    let latencies = |table: usize| {
        let counts = job.classes[table].iter().map(|&count| percent(count, done));
        Table(labels(table).zip(counts).collect())
    };
    // Requests are submitted and reaped one by one; fio's class "4" holds batches of 1 to 4.
    let single = |n: u64| {
        let names = ["0", "4", "8", "16", "32", "64", ">=64"];
        let share = |name: &str| if name == "4" && n > 0 { 100.0 } else { 0.0 };
        Table(names.map(|name| (name.to_string(), share(name))).into())
    };
    let levels = ["1", "2", "4", "8", "16", "32", ">=64"].map(String::from);
    let shares = job.depths.map(|count| percent(count, issued));
    Job {
        jobname: job.info.name.clone(),
        groupid: job.info.group,
        error: 0,
        eta: 0,
        elapsed: elapsed.0.div_ceil(1_000_000_000),
        options: Table(
            [("name".to_string(), job.info.name.clone())]
                .into_iter()
                .chain(job.info.given.iter().filter(|(key, _)| key != "name").cloned())
                .collect(),
        ),
        read: side(0),
        write: side(1),
        trim: side(2),
        sync: Sync { total_ios: count(&job.sync), lat_ns: distribution(&job.sync, true) },
        job_runtime: runtime.0 / 1_000_000,
        usr_cpu: 0.0,
        sys_cpu: 0.0,
        ctx: 0,
        majf: 0,
        minf: 0,
        iodepth_level: Table(levels.into_iter().zip(shares).collect()),
        iodepth_submit: single(issued),
        iodepth_complete: single(issued),
        latency_ns: latencies(0),
        latency_us: latencies(1),
        latency_ms: latencies(2),
        latency_depth: job.info.depth,
        latency_target: 0,
        latency_percentile: 100.0,
        latency_window: 0,
    }
}

fn direction(side: &Side, runtime: Nanos, group_bandwidth: f64) -> Direction {
    let ios = count(&side.latency);
    let seconds = runtime.as_secs_f64();
    let per_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    let Samples { n, min, max, .. } = side.bandwidth;
    let share = side.bandwidth.mean() / group_bandwidth * 100.0;
    Direction {
        io_bytes: side.bytes,
        io_kbytes: side.bytes / 1024,
        bw_bytes: per_second(side.bytes) as u64,
        bw: (per_second(side.bytes) / 1024.0) as u64,
        iops: per_second(ios),
        runtime: if ios > 0 { runtime.0 / 1_000_000 } else { 0 },
        total_ios: ios,
        short_ios: 0,
        drop_ios: 0,
        slat_ns: Distribution { n: ios, ..distribution(&Latency::default(), false) },
        clat_ns: distribution(&side.latency, true),
        lat_ns: distribution(&side.latency, false),
        bw_min: min as u64,
        bw_max: max as u64,
        bw_agg: if group_bandwidth > 0.0 { share } else { 0.0 },
        bw_mean: side.bandwidth.mean(),
        bw_dev: side.bandwidth.deviation(),
        bw_samples: n,
        iops_min: side.rate.min as u64,
        iops_max: side.rate.max as u64,
        iops_mean: side.rate.mean(),
        iops_stddev: side.rate.deviation(),
        iops_samples: side.rate.n,
    }
}

fn count(latency: &Latency) -> u64 {
    latency.histogram.as_ref().map_or(0, Histogram::count)
}

fn distribution(latency: &Latency, percentiles: bool) -> Distribution {
    let histogram = latency.histogram.as_ref();
    let quantile = |name: &&str| {
        let q: f64 = name.parse::<f64>().ok()? / 100.0;
        Some((name.to_string(), histogram?.quantile(q)?))
    };
    let table: Vec<(String, u64)> = PERCENTILES.iter().filter_map(quantile).collect();
    Distribution {
        min: histogram.and_then(Histogram::min).unwrap_or(0),
        max: histogram.and_then(Histogram::max).unwrap_or(0),
        mean: histogram.and_then(Histogram::mean).unwrap_or(0.0),
        stddev: latency.deviation(),
        n: count(latency),
        percentile: Some(Table(table)).filter(|t| percentiles && !t.0.is_empty()),
    }
}

fn disk_util(recorder: &Recorder, device: &str, elapsed: Nanos) -> DiskUtil {
    let sum = |side: usize, of: fn(&Histogram) -> u128| -> u128 {
        let histograms =
            recorder.jobs.iter().filter_map(|j| j.sides[side].latency.histogram.as_ref());
        histograms.map(of).sum()
    };
    let ios = |side| sum(side, |histogram| u128::from(histogram.count())) as u64;
    let ticks = |side| (sum(side, Histogram::sum) / 1_000_000) as u64;
    DiskUtil {
        name: device.into(),
        read_ios: ios(0),
        write_ios: ios(1),
        read_merges: 0,
        write_merges: 0,
        read_ticks: ticks(0),
        write_ticks: ticks(1),
        in_queue: ticks(0) + ticks(1) + ticks(2),
        util: percent(recorder.busy.0, elapsed.0),
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// `Thu Jan  1 00:00:00 1970`, as C's `ctime` writes it, in UTC.
fn date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Counted from 1 March of year 0, so that the leap day comes last.
    let since = days + 719_468;
    let (era, day_of_era) = (since / 146_097, since % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = (shifted + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    format!(
        "{} {} {day:2} {:02}:{:02}:{:02} {year}",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;

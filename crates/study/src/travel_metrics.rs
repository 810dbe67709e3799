//! What a travelled run answers with, beside the metrics of its device.

use std::collections::BTreeMap;

use sim::Op;

use crate::crash::Cuts;
use crate::program::{Declared, Program};

/// Those of a run, by name; `None` where one is undefined.
type Metrics = BTreeMap<String, Option<f64>>;

/// Of each operation at the block layer: the end of the metric's name, its unit and its meaning.
const BLOCK: [Declared; 9] = [
    ("queued", "requests", "{op}s that file systems gave to the block layer"),
    ("merged", "requests", "{op}s that became part of another request in the block layer"),
    ("dispatched", "requests", "{op}s that the block layer gave to the device"),
    ("mb", "MB", "MB (10^6 bytes) of {op}s at the block layer"),
    ("kib_mean", "KiB", "mean size of a dispatched {op} in KiB"),
    (
        "latency_us_p50",
        "us",
        "median time of a {op} in the block layer in microseconds; with record_queue",
    ),
    (
        "latency_us_p95",
        "us",
        "95th percentile of a {op}'s time in the block layer; with record_queue",
    ),
    (
        "latency_us_p99",
        "us",
        "99th percentile of a {op}'s time in the block layer; with record_queue",
    ),
    ("latency_us_max", "us", "longest time of a {op} in the block layer; with record_queue"),
];

const PLAIN: [Declared; 7] = [
    ("program_s", "s", "virtual seconds of the travelled program"),
    ("sync_s", "s", "virtual seconds that it took after the program to write back what it left"),
    (
        PROGRAM_READ,
        "MB/s",
        "10^6 bytes read from the device per second of the travelled program, until its end; \
         `read_mb_s` counts what comes after it, too, and divides by `program_s` and `sync_s`",
    ),
    (
        PROGRAM_WRITE,
        "MB/s",
        "10^6 bytes written to the device per second of the travelled program, until its end: what \
         is dirty then is not in it. `write_mb_s` has it, and divides by `program_s` and `sync_s`",
    ),
    (
        "processor_share",
        "share",
        "share of the travelled program's time that its code was charged; with travel.host",
    ),
    ("block_flushes", "requests", "flushes that the block layer gave to the device"),
    ("guest_read_ahead_kb", "KiB", "KiB of read-ahead in the guest, read back when all was set"),
];

const PROGRAM_READ: &str = "program_read_mb_s";
const PROGRAM_WRITE: &str = "program_write_mb_s";

/// Of runs with `[crash]`.
const CUTS: [Declared; 10] = [
    ("crash_cuts", "moments", "moments at which the power was cut; with [crash]"),
    (
        "crash_looks",
        "looks",
        "looks at what cuts left, with subsets several at a moment; with [crash]",
    ),
    ("crash_media", "media", "media that the cuts left and that differ; with [crash]"),
    ("crash_acks", "promises", "promises that the program was made; with [crash]"),
    ("crash_clean", "cuts", "cuts after which every check is content, at every look; with [crash]"),
    ("crash_repaired", "cuts", "cuts after which the file system had to be repaired; with [crash]"),
    ("crash_lost", "cuts", "cuts after which something promised is missing; with [crash]"),
    ("crash_refused", "cuts", "cuts after which nothing mounts; with [crash]"),
    ("crash_lost_share", "share", "share of the cuts that is lost or refused; with [crash]"),
    (
        "crash_first_failure_s",
        "s",
        "virtual seconds of the program before the first cut that is lost or refused; with [crash]",
    ),
];

const OPS: [Op; 3] = [Op::Read, Op::Write, Op::Discard];

fn block_name(op: Op, end: &str) -> String {
    format!("block_{}_{end}", op.name())
}

/// (name, unit, meaning) of every metric that only travelled runs have.
pub(crate) fn definitions() -> Vec<(String, &'static str, String)> {
    let owned = |&(name, unit, meaning): &Declared| (name.to_string(), unit, meaning.into());
    let mut list: Vec<_> = PLAIN.iter().chain(&CUTS).map(owned).collect();
    for op in OPS {
        let of_op = |&(end, unit, meaning): &Declared| {
            (block_name(op, end), unit, meaning.replace("{op}", op.name()))
        };
        list.extend(BLOCK.iter().map(of_op));
    }
    list.extend(Program::all().flat_map(|program| program.metrics()).map(owned));
    list
}

/// One operation at the guest's block layer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BlockUse {
    /// The operation.
    pub op: Op,
    /// What file systems gave it.
    pub queued: u64,
    /// Of these, what became part of another request.
    pub merged: u64,
    /// What the device was given.
    pub dispatched: u64,
    /// Bytes.
    pub bytes: u64,
    /// Median, 95th and 99th percentile and maximum in microseconds, where they are known.
    pub us: Option<[f64; 4]>,
}

/// Every metric of a travelled run of `program`, with cuts or without, undefined.
pub(crate) fn undefined(program: Program, crashes: bool) -> Metrics {
    let other = |name: &str| {
        !crashes && CUTS.iter().any(|(metric, ..)| *metric == name)
            || Program::all().any(|other| {
                other != program && other.metrics().iter().any(|(metric, ..)| *metric == name)
            })
    };
    let names = definitions().into_iter().map(|(name, ..)| name);
    names.filter(|name| !other(name)).map(|name| (name, None)).collect()
}

/// Add what the cuts came to.
pub(crate) fn add_cuts(metrics: &mut Metrics, of: &Cuts) {
    let Cuts { cuts, looks, media, acks, .. } = *of;
    let Cuts { clean, repaired, lost, refused, first_failure_s, .. } = *of;
    let counts = [cuts, looks, media, acks, clean, repaired, lost, refused];
    let counts = counts.map(|count| count as f64);
    let share = (cuts > 0).then(|| (lost + refused) as f64 / cuts as f64);
    let values = counts.map(Some).into_iter().chain([share, first_failure_s]);
    metrics.extend(CUTS.iter().map(|(name, ..)| name.to_string()).zip(values));
}

/// Add the rates of the device while the program ran, for so many seconds.
pub(crate) fn add_rates(metrics: &mut Metrics, bytes: &[u64; 4], seconds: f64) {
    for (name, op) in [(PROGRAM_READ, Op::Read), (PROGRAM_WRITE, Op::Write)] {
        let rate = (seconds > 0.0).then(|| bytes[op as usize] as f64 / 1e6 / seconds);
        metrics.insert(name.into(), rate);
    }
}

/// Add what the block layer counted.
pub(crate) fn add_block(metrics: &mut Metrics, all: &[BlockUse]) {
    for of_op in all {
        if of_op.op == Op::Flush {
            metrics.insert("block_flushes".into(), Some(of_op.dispatched as f64));
            continue;
        }
        let mut put = |end, value: Option<f64>| {
            metrics.insert(block_name(of_op.op, end), value);
        };
        put("queued", Some(of_op.queued as f64));
        put("merged", Some(of_op.merged as f64));
        put("dispatched", Some(of_op.dispatched as f64));
        put("mb", Some(of_op.bytes as f64 / 1e6));
        let requests = of_op.dispatched as f64;
        put("kib_mean", (requests > 0.0).then(|| of_op.bytes as f64 / requests / 1024.0));
        let us = of_op.us.map(|us| us.map(Some)).unwrap_or_default();
        for (end, us) in ["latency_us_p50", "latency_us_p95", "latency_us_p99", "latency_us_max"]
            .into_iter()
            .zip(us)
        {
            put(end, us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_metrics_and_the_rest_is_undefined() {
        let mut metrics = undefined(Program::default(), false);
        let read =
            BlockUse { op: Op::Read, queued: 10, merged: 6, dispatched: 4, bytes: 65536, us: None };
        let flush = BlockUse { op: Op::Flush, dispatched: 3, ..read };
        add_block(&mut metrics, &[read, flush]);
        assert_eq!(metrics["block_read_kib_mean"], Some(16.0));
        assert_eq!(metrics["block_read_merged"], Some(6.0));
        assert_eq!(metrics["block_flushes"], Some(3.0));
        assert_eq!((metrics["block_read_latency_us_p99"], metrics["block_write_mb"]), (None, None));
        assert!(!metrics.contains_key("fio_read_iops"), "no metrics of another program");
        assert!(!metrics.contains_key("crash_cuts"), "none of a run without cuts");
        let cuts = Cuts { cuts: 8, lost: 1, refused: 1, ..Cuts::default() };
        metrics.extend(undefined(Program::default(), true));
        add_cuts(&mut metrics, &cuts);
        assert_eq!((metrics["crash_lost_share"], metrics["crash_clean"]), (Some(0.25), Some(0.0)));
        assert_eq!(metrics["crash_first_failure_s"], None);
        let known: Vec<String> = definitions().into_iter().map(|(name, ..)| name).collect();
        assert!(metrics.keys().all(|name| known.contains(name)));
    }
}

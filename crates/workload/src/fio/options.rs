//! The options of one job, with fio's defaults.

use sim::{Nanos, Priority, PriorityClass};

use super::flushes::Flushes;
use super::value::{Extent, Value};
use crate::distribution::Distribution;

/// Directions in fio's order of `read,write,trim` lists.
pub(super) const READ: usize = 0;
pub(super) const WRITE: usize = 1;
pub(super) const TRIM: usize = 2;

/// `rw`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pattern {
    /// Which of read, write, trim are issued.
    pub(super) does: [bool; 3],
    pub(super) random: bool,
    /// A new random place only every so many requests.
    pub(super) every: u64,
    /// Bytes added to each sequential step.
    pub(super) skip: i64,
}

impl Pattern {
    /// Trims followed by writes of the same range.
    pub(super) fn trim_write(&self) -> bool {
        self.does[TRIM] && self.does[WRITE]
    }
}

/// `bs`, `bsrange` or `bssplit` of one direction, in bytes.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum BlockSize {
    Fixed(u64),
    Range(u64, u64),
    /// (size, percent), percent summing to 100.
    Split(Vec<(u64, f64)>),
}

impl BlockSize {
    pub(super) fn min(&self) -> u64 {
        match self {
            BlockSize::Fixed(size) | BlockSize::Range(size, _) => *size,
            BlockSize::Split(sizes) => sizes.iter().map(|s| s.0).min().unwrap_or(0),
        }
    }

    pub(super) fn max(&self) -> u64 {
        match self {
            BlockSize::Fixed(size) | BlockSize::Range(_, size) => *size,
            BlockSize::Split(sizes) => sizes.iter().map(|s| s.0).max().unwrap_or(0),
        }
    }
}

/// Everything blocklab honours of one job.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    pub(super) rw: Pattern,
    pub(super) identical: bool,
    pub(super) bs: [BlockSize; 3],
    pub(super) bs_unaligned: bool,
    pub(super) ba: [Option<u64>; 3],
    pub(super) iodepth: u64,
    /// In a job file; a study's own table has none, and means its depth.
    pub(super) ioengine: Option<String>,
    /// fio's usual `io_submit_mode`: who waits for a rate does so with nothing in flight. A study's
    /// own table has its requests submitted when their time has come.
    pub(super) inline: bool,
    /// The engine waits for a trim before it goes on.
    pub(super) trims_wait: bool,
    pub(super) flushes: Flushes,
    pub(super) numjobs: u64,
    pub(super) size: Option<Extent>,
    pub(super) offset: Extent,
    pub(super) offset_increment: Extent,
    pub(super) io_size: Option<Extent>,
    /// `zonemode`, if given: strided or none.
    pub(super) strided: Option<bool>,
    pub(super) zonesize: u64,
    pub(super) zonerange: u64,
    pub(super) zoneskip: u64,
    pub(super) rwmixread: u64,
    pub(super) distribution: Distribution,
    pub(super) zoned_abs: bool,
    pub(super) norandommap: bool,
    pub(super) percentage_random: [u64; 3],
    pub(super) rate: [u64; 3],
    pub(super) rate_iops: [u64; 3],
    pub(super) poisson: bool,
    pub(super) rate_ignore_thinktime: bool,
    pub(super) thinktime: Nanos,
    pub(super) thinktime_blocks: u64,
    pub(super) thinktime_at_issue: bool,
    pub(super) fsync: u64,
    pub(super) fdatasync: u64,
    pub(super) end_fsync: bool,
    pub(super) fua: bool,
    pub(super) direct: bool,
    /// As numbered by fio and Linux: none, real time, best effort, idle.
    pub(super) prioclass: u8,
    pub(super) prio: u8,
    pub(super) startdelay: Nanos,
    pub(super) ramp_time: Nanos,
    pub(super) runtime: Nanos,
    pub(super) time_based: bool,
    pub(super) number_ios: u64,
    pub(super) loops: u64,
    pub(super) randseed: u64,
    pub(super) stonewall: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            rw: Pattern { does: [true, false, false], random: false, every: 1, skip: 0 },
            identical: false,
            bs: [const { BlockSize::Fixed(4096) }; 3],
            bs_unaligned: false,
            ba: [None; 3],
            iodepth: 1,
            ioengine: None,
            inline: false,
            trims_wait: false,
            flushes: Flushes::Drain,
            numjobs: 1,
            size: None,
            offset: Extent::Bytes(0),
            offset_increment: Extent::Bytes(0),
            io_size: None,
            strided: None,
            zonesize: 0,
            zonerange: 0,
            zoneskip: 0,
            rwmixread: 50,
            distribution: Distribution::Uniform,
            zoned_abs: false,
            norandommap: false,
            percentage_random: [100; 3],
            rate: [0; 3],
            rate_iops: [0; 3],
            poisson: false,
            rate_ignore_thinktime: false,
            thinktime: Nanos::ZERO,
            thinktime_blocks: 1,
            thinktime_at_issue: false,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            fua: false,
            direct: false,
            prioclass: 0,
            prio: 0,
            startdelay: Nanos::ZERO,
            ramp_time: Nanos::ZERO,
            runtime: Nanos::ZERO,
            time_based: false,
            number_ios: 0,
            loops: 1,
            randseed: 0,
            stonewall: false,
        }
    }
}

impl Options {
    /// Those of a job file.
    pub(super) fn of_file() -> Options {
        Options { inline: true, ..Options::default() }
    }

    /// True with a rate in any direction.
    pub(super) fn is_paced(&self) -> bool {
        self.rate.iter().chain(&self.rate_iops).any(|&rate| rate > 0)
    }

    /// I/O priority of the job. A level alone is one of best effort.
    pub(super) fn priority(&self) -> Priority {
        let class = match (self.prioclass, self.prio) {
            (0, 0) => return Priority::NONE,
            (0 | 2, _) => PriorityClass::BestEffort,
            (1, _) => PriorityClass::RealTime,
            _ => PriorityClass::Idle,
        };
        Priority::new(class, self.prio)
    }

    /// Contradictions between keys: (key, what is wrong).
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.time_based && self.runtime == Nanos::ZERO {
            return Err(("time_based", "time_based needs a runtime".into()));
        }
        if self.poisson && !self.is_paced() {
            let message = "rate_process=poisson needs a rate or rate_iops";
            return Err(("rate_process", message.into()));
        }
        if self.rate.iter().zip(&self.rate_iops).any(|(&rate, &iops)| rate > 0 && iops > 0) {
            return Err(("rate_iops", "rate and rate_iops cannot both be given".into()));
        }
        let sizes = self.bs.iter().zip(self.rw.does).filter(|(_, does)| *does);
        for (size, _) in sizes {
            let odd = match size {
                BlockSize::Fixed(size) => size % 512 != 0,
                BlockSize::Range(low, high) => low % 512 != 0 || high % 512 != 0,
                BlockSize::Split(sizes) => sizes.iter().any(|s| s.0 % 512 != 0),
            };
            if odd {
                let message = "block sizes are multiples of 512 bytes on a block device";
                return Err(("bs", message.into()));
            }
        }
        if self.strided == Some(true) && self.zonesize == 0 {
            return Err(("zonemode", "zonemode=strided needs a zonesize".into()));
        }
        let zones = [self.zonesize, self.zonerange, self.zoneskip];
        for (key, size) in ["zonesize", "zonerange", "zoneskip"].into_iter().zip(zones) {
            if size % 512 != 0 {
                return Err((key, format!("expected a multiple of 512 bytes, got {size}")));
            }
        }
        if self.ba.iter().flatten().any(|ba| ba % 512 != 0) {
            return Err(("blockalign", "expected a multiple of 512 bytes".into()));
        }
        Ok(())
    }
}

/// The largest block size: a request's length is a 32-bit number of sectors.
const BS_MAX: u64 = 1 << 40;

pub(super) fn rw(value: Value) -> Result<Pattern, String> {
    let text = value.str()?;
    let (name, number) = match text.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (text, None),
    };
    let (does, random) = match name {
        "read" => ([true, false, false], false),
        "write" => ([false, true, false], false),
        "trim" => ([false, false, true], false),
        "rw" | "readwrite" => ([true, true, false], false),
        "trimwrite" => ([false, true, true], false),
        "randread" => ([true, false, false], true),
        "randwrite" => ([false, true, false], true),
        "randtrim" => ([false, false, true], true),
        "randrw" => ([true, true, false], true),
        "randtrimwrite" => ([false, true, true], true),
        other => {
            const NAMES: [&str; 11] = [
                "read",
                "write",
                "trim",
                "rw",
                "readwrite",
                "trimwrite",
                "randread",
                "randwrite",
                "randtrim",
                "randrw",
                "randtrimwrite",
            ];
            let near = super::slips::nearest(other, NAMES.into_iter());
            return Err(format!(
                "expected one of {}, got \"{other}\"{}",
                NAMES.join(", "),
                near.map(|n| format!("; did you mean \"{n}\"?")).unwrap_or_default()
            ));
        }
    };
    let mut pattern = Pattern { does, random, every: 1, skip: 0 };
    match number {
        None => {}
        Some(number) if random => pattern.every = value.part(number).int(1, u64::MAX)?,
        Some(number) => {
            let (sign, digits) = match number.strip_prefix('-') {
                Some(digits) => (-1, digits),
                None => (1, number),
            };
            pattern.skip = sign * value.part(digits).int(0, BS_MAX)? as i64;
            if pattern.skip % 512 != 0 {
                return Err(format!(
                    "expected a multiple of 512 bytes after \":\", got \"{number}\""
                ));
            }
        }
    }
    Ok(pattern)
}

pub(super) fn bs(value: Value) -> Result<BlockSize, String> {
    match value.bytes()? {
        size @ 1..=BS_MAX => Ok(BlockSize::Fixed(size)),
        size => Err(format!("expected a block size from 512 bytes to 1 TiB, got {size}")),
    }
}

pub(super) fn bs_range(value: Value) -> Result<BlockSize, String> {
    let text = value.str()?;
    let Some((low, high)) = text.split_once(['-', ':']) else {
        return Err(format!("expected a range such as 4k-64k, got \"{text}\""));
    };
    let (low, high) = (bs(value.part(low))?.min(), bs(value.part(high))?.min());
    Ok(BlockSize::Range(low.min(high), low.max(high)))
}

pub(super) fn bs_split(value: Value) -> Result<BlockSize, String> {
    let text = value.str()?;
    let mut sizes = Vec::new();
    let mut open = Vec::new();
    for entry in text.split(':') {
        let (size, percent) = entry.split_once('/').unwrap_or((entry, ""));
        let size = bs(value.part(size))?.min();
        match percent.trim() {
            "" => {
                open.push(sizes.len());
                sizes.push((size, 0.0));
            }
            percent => sizes.push((size, value.part(percent).int(0, 100)? as f64)),
        }
    }
    let sum: f64 = sizes.iter().map(|s| s.1).sum();
    if sum > 100.0 {
        return Err(format!("the percentages of \"{text}\" add up to {sum}, more than 100"));
    }
    if open.is_empty() && sum < 100.0 {
        return Err(format!("the percentages of \"{text}\" add up to {sum}, expected 100"));
    }
    let rest = (100.0 - sum) / open.len().max(1) as f64;
    open.into_iter().for_each(|index| sizes[index].1 = rest);
    Ok(BlockSize::Split(sizes))
}

pub(super) fn distribution(value: Value) -> Result<(Distribution, bool), String> {
    let text = value.str()?;
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    if matches!(name, "zoned" | "zoned_abs") {
        return Ok((Distribution::Zoned(zones(value.part(rest), name)?), name == "zoned_abs"));
    }
    let mut numbers = rest.split(':').filter(|part| !part.is_empty());
    let shape = numbers.next().map(|n| value.part(n).float()).transpose()?;
    let center = numbers.next().map(|n| value.part(n).float()).transpose()?;
    if numbers.next().is_some() || center.is_some_and(|c| !(0.0..=1.0).contains(&c)) {
        return Err(format!("expected name:shape:place with a place from 0 to 1, got \"{text}\""));
    }
    // fio's own defaults of the shape.
    let law = match (name, shape) {
        ("random", None) => Distribution::Uniform,
        ("zipf", theta) => Distribution::Zipf(theta.unwrap_or(1.1), center),
        ("pareto", h) => Distribution::Pareto(h.unwrap_or(0.2), center),
        ("normal", Some(percent)) => Distribution::Normal(percent, center),
        _ => {
            return Err(format!(
                "expected random, zipf:theta, pareto:h, normal:deviation, zoned:share/size:... or \
                 zoned_abs:share/size:..., got \"{text}\""
            ));
        }
    };
    match law {
        Distribution::Zipf(theta, _) if theta <= 0.0 || theta == 1.0 || theta > 100.0 => {
            Err(format!("expected a theta above 0 and other than 1 (as in fio), got {theta}"))
        }
        Distribution::Pareto(h, _) if h <= 0.0 || h >= 1.0 => {
            Err(format!("expected a power between 0 and 1, got {h}"))
        }
        Distribution::Normal(percent, _) if !(0.0..=100.0).contains(&percent) => {
            Err(format!("expected a deviation from 0 to 100 percent, got {percent}"))
        }
        law => Ok((law, false)),
    }
}

fn zones(value: Value, name: &str) -> Result<Vec<(f64, f64)>, String> {
    let text = value.str()?;
    if text.contains(',') {
        return Err("expected one list of zones for all directions, got several".into());
    }
    let mut zones = Vec::new();
    for entry in text.split(':') {
        let Some((share, size)) = entry.split_once('/') else {
            return Err(format!("expected share/size, got \"{entry}\""));
        };
        let size = match name {
            "zoned" => value.part(size).int(0, 100)?,
            _ => value.part(size).bytes()?,
        };
        zones.push((value.part(share).int(0, 100)? as f64, size as f64));
    }
    let sum = |of: fn(&(f64, f64)) -> f64| zones.iter().map(of).sum::<f64>();
    if sum(|z| z.0) != 100.0 || (name == "zoned" && sum(|z| z.1) != 100.0) {
        return Err(format!("expected shares that add up to 100, got \"{text}\""));
    }
    if zones.len() > 256 {
        return Err(format!("expected at most 256 zones, got {}", zones.len()));
    }
    Ok(zones)
}

//! fio jobs: the workloads people already have, in simulated time.
//!
//! # What it models
//! The requests of fio's jobs: pattern, block sizes, distribution, queue depth, rates, think time,
//! flushes, several jobs at once or one after the other. Either a real job file (`file`) or
//! jobs whose keys stand in the table itself, under fio's own names. Each job is one closed loop of
//! `iodepth` requests (one, if a job file has an engine that keeps no more), or a paced stream when
//! a rate is given (`rate_process = "poisson"` for random arrivals), is a process, and writes to a
//! stream of its own where the device tells streams apart. Several jobs run at once from a table of
//! tables (`jobs.NAME`), each with what stands beside them and with keys of its own; of these, and
//! of the jobs of a file, metrics tell each (`job.NAME.write_latency_us_p99`). The table of keys is
//! in `docs/workloads.md`.
//!
//! # Equation
//! Zipf: P(rank i) = i^-theta / sum over j of j^-theta, drawn by the quantile of Gray et al. and
//! spread by hashing the rank, as fio does. Pareto: rank = blocks * u^(log h / log(1 - h)).
//! Normal: mean of twelve uniform draws plus one of the given width. Poisson: gaps of
//! -ln(1 - u) / rate. Random without `norandommap`: a keyed permutation of the blocks per pass,
//! which like fio's bitmap touches every block once, and needs no memory.
//!
//! # Parameters
//! fio's keys. In a study quantities carry units (`"4KiB"`, `"10s"`); in a job file fio's own
//! notation holds (`4k` is 4096 bytes, a bare time counts seconds).
//!
//! # What it leaves out
//! Files: all jobs address one device. CPU time, page cache and data. What an engine waits for is
//! modelled, no more of it: libaio for each flush and trim, `io_uring` for each trim. The random
//! map needs a single block size; with several, blocks may repeat. fio's own random numbers: only
//! the laws are the same.
//!
//! # Validated against
//! Chi-square and sigma bounds on every distribution, exact issue times of rates and think times,
//! and fio 3.33 for the notation of numbers, the count of flushes and the shape of the JSON output.
//!
//! # References
//! fio 3.33, its manual and `lib/zipf.c`, `lib/gauss.c`. Gray et al., "Quickly generating
//! billion-record synthetic databases", SIGMOD 1994.

mod engine;
mod flushes;
mod gate;
mod job;
pub mod json;
mod keys;
mod options;
mod pace;
mod parse;
mod plan;
mod recorder;
mod run;
mod shape;
mod slips;
mod stride;
mod value;

use std::collections::BTreeMap;

use config::{ConfigError, bounded};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use sim::Workload;

use crate::Context;

pub use engine::{SYNCHRONOUS, USUAL};
pub use options::Options;
pub use parse::{JobFile, JobFileError, JobSpec, parse_job_file};
pub use plan::{JobInfo, JobPlan};
pub use recorder::Recorder;
pub use shape::{number, reshapes};
pub use value::Extent;

use keys::Standing;
use value::{Dialect, Value};

/// The longest job file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// One value of a fio key.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// `time_based = true`
    Boolean(bool),
    /// `iodepth = 32`
    Integer(u64),
    /// `bs = "4KiB"`
    Text(String),
}

impl Scalar {
    /// As in a job file.
    fn text(&self) -> String {
        match self {
            Scalar::Boolean(value) => u8::from(*value).to_string(),
            Scalar::Integer(value) => value.to_string(),
            Scalar::Text(text) => text.clone(),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Scalar, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a whole number, true or false, or text such as \"4KiB\"")
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Boolean(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar::Integer(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Scalar, E> {
                let wrong = || E::invalid_value(de::Unexpected::Signed(value), &self);
                u64::try_from(value).map(Scalar::Integer).map_err(|_| wrong())
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.into()))
            }
        }
        from.deserialize_any(Visitor)
    }
}

/// A key with its value.
type Given<'a> = (&'static str, &'a Scalar);

/// Declare the table of a study: one optional value per key, and a way to walk over them.
macro_rules! params {
    ($( $(#[$doc:meta])+ $key:ident ),+ $(,)?) => {
        /// Parameters: a job file, or the keys of one job under fio's own names.
        #[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct Params {
            /// A fio job file; no other key beside it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub file: Option<String>,
            /// Several jobs at once: for each name the keys that the job has of its own. What
            /// stands beside them holds for all, as in `[global]` of a job file.
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            pub jobs: BTreeMap<String, JobKeys>,
            $( $(#[$doc])+
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $key: Option<Scalar>, )+
        }

        /// The keys of one of several jobs.
        #[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct JobKeys {
            $( $(#[$doc])+
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $key: Option<Scalar>, )+
        }

        impl Params {
            /// The keys that are given, in the order of fio's manual.
            fn given(&self) -> Vec<Given<'_>> {
                let all = [ $( (stringify!($key), self.$key.as_ref()) ),+ ];
                all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
            }
        }

        impl JobKeys {
            /// The keys that are given, in the order of fio's manual.
            fn given(&self) -> Vec<Given<'_>> {
                let all = [ $( (stringify!($key), self.$key.as_ref()) ),+ ];
                all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
            }
        }
    };
}

params! {
    /// How often the job does all of its I/O.
    loops,
    /// Clones of the job.
    numjobs,
    /// The longest time the job issues requests, after `ramp_time`.
    runtime,
    /// Go on until `runtime` is over, beginning again as often as needed.
    time_based,
    /// Wait so long from the start of the run before the first request.
    startdelay,
    /// Measure only after so long.
    ramp_time,
    /// none or strided: go on in the next zone when `zonesize` bytes of one are done.
    zonemode,
    /// Size of a zone, usually `zonesize`.
    zonerange,
    /// How much is done in a zone; given, it means `zonemode = "strided"`.
    zonesize,
    /// What lies between two zones.
    zoneskip,
    /// read, write, trim, randread, randwrite, randtrim, rw, randrw, trimwrite, randtrimwrite.
    rw,
    /// sequential or identical: what `rw = "randread:8"` does between two random places.
    rw_sequencer,
    /// Another draw of everything random.
    randseed,
    /// Where the job's region starts: a size or a percentage of the device.
    offset,
    /// How much further each clone of `numjobs` starts.
    offset_increment,
    /// Stop after so many requests per loop, unless `time_based`.
    number_ios,
    /// Flush after every so many writes.
    fsync,
    /// Flush after every so many writes, too: a block device knows one kind of flush.
    fdatasync,
    /// Flush once at the end.
    end_fsync,
    /// none, sync or dsync: the latter two make every write force unit access.
    sync,
    /// Writes are waited for, not written back later; an elevator tells them apart.
    direct,
    /// 0 none, 1 real time, 2 best effort, 3 idle: class of the job's I/O priority.
    prioclass,
    /// Level of that priority, 0 (highest) to 7; without a class that of best effort.
    prio,
    /// Percentage of reads in a mix.
    rwmixread,
    /// Percentage of writes in a mix.
    rwmixwrite,
    /// random, zipf:theta, pareto:h, normal:deviation, zoned:share/size:..., zoned_abs:...
    random_distribution,
    /// Percentage of a random job that is random; the rest is sequential.
    percentage_random,
    /// Blocks may repeat within a pass.
    norandommap,
    /// Block size; up to three comma-separated ones for reads, writes and trims.
    bs,
    /// Range of block sizes, such as "4KiB-64KiB".
    bsrange,
    /// Block sizes and their percentages, such as "4KiB/60:64KiB/40".
    bssplit,
    /// Sizes of `bsrange` need not be multiples of the smallest.
    bs_unaligned,
    /// Alignment of random requests.
    blockalign,
    /// The job's region, and how much it transfers: a size or a percentage.
    size,
    /// How much to transfer, if not `size`.
    io_size,
    /// Requests in flight.
    iodepth,
    /// Pause after a block completed.
    thinktime,
    /// Pause only after so many blocks.
    thinktime_blocks,
    /// complete or issue: which blocks count.
    thinktime_blocks_type,
    /// Bytes per second at most.
    rate,
    /// Requests per second at most.
    rate_iops,
    /// linear or poisson.
    rate_process,
    /// After a pause go on at the rate instead of catching up.
    rate_ignore_thinktime,
}

impl Params {
    /// Read the job file or the table: which jobs, and what they do on this device.
    ///
    /// # Errors
    /// When the file cannot be read or is not a job file, or a job does not fit the device.
    pub fn plan(&self, context: &Context) -> Result<JobPlan, ConfigError> {
        let given = self.given();
        let beside = given.first().map(|(key, _)| *key);
        let beside = beside.or((!self.jobs.is_empty()).then_some("jobs"));
        let jobs = match (&self.file, beside) {
            (Some(_), Some(key)) => {
                let message = "no key stands beside \"file\": write it into the job file";
                return Err(ConfigError::new(key, message));
            }
            (Some(file), None) => read(file, context)?,
            (None, _) => self.table(&given)?,
        };
        JobPlan::new(&jobs, context)
    }

    /// Build the workload.
    ///
    /// # Errors
    /// As [`Params::plan`].
    pub fn build(&self, context: &Context) -> Result<Box<dyn Workload + Send>, ConfigError> {
        Ok(Box::new(self.plan(context)?.start()))
    }

    /// The one job of the table, or those of `jobs`, each with what the table says to all.
    fn table(&self, given: &[Given]) -> Result<JobFile, ConfigError> {
        let named = |given: &[Given]| -> Vec<(String, String)> {
            given.iter().map(|(key, value)| (key.to_string(), value.text())).collect()
        };
        if self.jobs.is_empty() {
            let options = options(&[("", given)])?;
            let job = JobSpec { name: "fio".into(), options, given: named(given) };
            return Ok(JobFile { jobs: vec![job], notes: Vec::new(), global: Vec::new() });
        }
        let mut jobs = Vec::new();
        for (name, keys) in &self.jobs {
            let (own, place) = (keys.given(), format!("jobs.{name}."));
            let options = options(&[("", given), (&place, &own)])?;
            jobs.push(JobSpec { name: name.clone(), options, given: named(&own) });
        }
        Ok(JobFile { jobs, notes: Vec::new(), global: named(given) })
    }
}

/// The options that tables give together, each with its place; a later one replaces an earlier.
fn options(tables: &[(&str, &[Given])]) -> Result<Options, ConfigError> {
    let mut options = Options::default();
    let mut places = BTreeMap::new();
    for (place, given) in tables {
        for (key, value) in *given {
            let Some(Standing::Honoured(set)) = keys::find(key).map(|key| key.standing) else {
                continue;
            };
            let full = format!("{place}{key}");
            // A job file's word for yes is a number, too, which a study's is not.
            let text = match value {
                Scalar::Boolean(yes) => yes.to_string(),
                number_or_text => number_or_text.text(),
            };
            set(&mut options, Value { text: Some(&text), dialect: Dialect::Study })
                .map_err(|message| ConfigError::new(full.clone(), message))?;
            places.insert(*key, full);
        }
    }
    options.check().map_err(|(key, message)| {
        let place = places.get(key).cloned().unwrap_or_else(|| key.to_string());
        ConfigError::new(place, message)
    })?;
    Ok(options)
}

fn read(file: &str, context: &Context) -> Result<JobFile, ConfigError> {
    let fail = |message: String| ConfigError::new("file", message);
    let reader = (context.open)(file).map_err(|error| fail(format!("{file}: {error}")))?;
    let text = bounded::text(reader, FILE_MAX)
        .map_err(|error| fail(format!("{file}: expected a fio job file, but {error}")))?;
    parse_job_file(file, &text).map_err(|error| fail(error.to_string()))
}

#[cfg(test)]
#[path = "fio/tests.rs"]
mod tests;

//! What was measured on a drive, and the same loads on a part.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use study::{Cache, Failure, Options, PlannedStudy, RunResult, RunSummary, Watch};

use super::{in_toml, run};

mod again;
pub(super) mod amplification;
pub(super) mod files;
mod fio;
mod grouped;
pub(super) mod iocost;
mod jobs;
mod little;
mod loads;
mod outputs;
pub(super) mod points;
mod pts;
mod ssdiq;
pub(super) mod steady;
mod tables;
mod units;

pub(super) use again::contradiction;
pub(super) use loads::{Load, by_load, questions};
pub(super) use points::{METRICS, Point};

/// By [`METRICS`]: what a drive or a part did under one load.
pub(super) type Values = [Option<f64>; METRICS.len()];

/// A part in the state that the drive was measured in.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    /// By name or file.
    pub(super) part: &'a str,
    /// The model of the device that it describes.
    pub(super) model: &'a str,
    /// Percent of it that are overwritten at random after it was filled.
    pub(super) overwritten: u32,
    /// Requests of each load.
    pub(super) requests: u64,
    /// Root of what is random in them.
    pub(super) seed: u64,
    /// Whether the filled part is kept for the next time.
    pub(super) keep: bool,
}

impl Bench<'_> {
    /// By point: what the part does with `sets` (`ssd.nand.read="50us"`) laid over it. And what is
    /// to be said about it.
    pub(super) fn run(
        &self,
        points: &[Point],
        sets: &[String],
    ) -> Result<(Vec<Values>, Vec<String>), Failure> {
        let sets = sets.iter().filter(|set| of_model(set, self.model));
        let sets: Vec<String> = sets.map(|set| format!("device.{set}")).collect();
        let writes = points.iter().any(|point| point.direction() == "write");
        let buffer = if writes { self.buffer(&sets)? } else { Buffer::default() };
        let throttled = sets.iter().any(|set| set.contains(THROTTLE))
            || find(&study::part_source(self.part)?.parse().unwrap_or_default(), THROTTLE)
                .is_some();
        let loads = by_load(points);
        let (text, run_of) = self.study(points, &loads, (buffer, throttled));
        let runs = run_text(&text, &sets, self.keep)?;
        let mut found = vec![Values::default(); points.len()];
        for (load, run) in loads.iter().zip(run_of) {
            let Some(run) = runs.get(run) else { continue };
            for (&index, job) in load.points.iter().zip(&load.jobs) {
                found[index] = values(&points[index], job.as_deref(), run);
            }
        }
        let mut notes: Vec<String> =
            runs.iter().flat_map(|run| run.notes.iter().cloned()).collect();
        notes.dedup();
        Ok((found, notes))
    }

    /// What the part takes before its flash has to.
    fn buffer(&self, sets: &[String]) -> Result<Buffer, Failure> {
        let table: toml::Table = study::part_source(self.part)?.parse().unwrap_or_default();
        let of = |key: &str| {
            let set = sets
                .iter()
                .rev()
                .find_map(|set| set.strip_prefix("device.")?.strip_prefix(key)?.strip_prefix('='));
            let text = set.map(|set| set.trim_matches('"'));
            let text = text.or_else(|| find(&table, key).and_then(toml::Value::as_str));
            let size = config::Size::parse(text.unwrap_or_default());
            size.map_or(0.0, |size| size.0.0 as f64)
        };
        Ok(Buffer { bytes: of(BUFFER), page: of(PAGE) })
    }

    /// Requests that a load has to be run with.
    fn requests_of(&self, point: &Point) -> u64 {
        self.requests.max(FOR_EACH_IN_FLIGHT * point.in_flight())
    }

    /// Writes that a load is measured by: of large ones fewer, as each is many pages.
    fn writes_of(&self, point: &Point) -> u64 {
        let few = self.requests * LARGE / point.bytes().max(LARGE);
        few.max(FOR_EACH_IN_FLIGHT * point.in_flight())
    }

    /// A study with a workload for each load, but one for those that were measured several times;
    /// and by load, which run is its.
    fn study(
        &self,
        points: &[Point],
        loads: &[Load],
        drive: (Buffer, bool),
    ) -> (String, Vec<usize>) {
        let Bench { seed, model, .. } = self;
        let part = in_toml::part(self.part);
        let mut text = format!("[study]\nseed = {seed}\n[device.{model}]\npart = {part}\n");
        text += "[[precondition]]\nfill = { span = \"100%\" }\n";
        if self.overwritten > 0 {
            let writes = format!("{}%", self.overwritten);
            text += &format!("[[precondition]]\noverwrite = {{ writes = \"{writes}\" }}\n");
        }
        let reads = points.iter().all(|point| point.direction() == "read");
        let reads = reads && loads.iter().all(|load| !load.is_open(points));
        if reads {
            let requests = points.iter().map(|point| self.requests_of(point)).max();
            text += &format!("[run]\nrequests = {}\n", requests.unwrap_or(self.requests));
        }
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let mut run_of = Vec::new();
        for (index, load) in loads.iter().enumerate() {
            let own = match load.is_open(points) {
                true => load.workload((ANY, points), self.requests as f64, drive),
                false => self.workload(&points[load.points[0]], drive.0, reads),
            };
            let named = own.replace(ANY, &format!("p{index:04}"));
            let next = known.len();
            let run = *known.entry(own).or_insert(next);
            run_of.push(run);
            if run == next {
                text += &named;
            }
        }
        (text, run_of)
    }

    /// The workload [`ANY`] of a point by itself; `reads` if all are such.
    fn workload(&self, point: &Point, buffer: Buffer, reads: bool) -> String {
        let Point { rw, bs, iodepth, numjobs, .. } = point;
        let text = format!(
            "[workloads.{ANY}.fio]\nrw = \"{rw}\"\nbs = {}\niodepth = {iodepth}\n\
             numjobs = {numjobs}\nnorandommap = true\nio_size = \"{WITHOUT_END}\"\n",
            in_toml::text(bs)
        );
        let each = |requests: f64| (requests / f64::from(*numjobs)).ceil();
        text + &match (point.measured[0], point.direction()) {
            // A buffer takes the first ones, however slow the flash is: what the drive writes
            // in the same time is measured when it wrote more than that, and all are in flight.
            (Some(iops), "write") => {
                let all = self.writes_of(point) as f64;
                let before = 2.0 * (buffer.takes(point) + point.in_flight() as f64);
                let most = each(QUICKER_MAX * (before + all));
                let us = |requests: f64| (1e6 * requests / iops).ceil();
                format!(
                    "ramp_time = \"{}us\"\nruntime = \"{}us\"\nnumber_ios = {most}\n",
                    us(before),
                    us(all)
                )
            }
            _ if reads => "runtime = \"1h\"\n".to_string(),
            _ => {
                let all = self.requests_of(point) as f64;
                format!("runtime = \"1h\"\nnumber_ios = {}\n", each(all))
            }
        }
    }
}

/// A workload before it has its name.
const ANY: &str = "@";
/// More than any load gets to: its requests or its time end it, whichever is first. A job that is
/// `time_based` would not heed the first.
const WITHOUT_END: &str = "1000TiB";

/// The root of what is random, as a study has it that names none.
pub(super) const SEED: u64 = 1;
/// What an SSD's buffer holds.
pub(super) const BUFFER: &str = "ssd.buffer.capacity";
/// Of that, a smaller write takes as much as this.
pub(super) const PAGE: &str = "ssd.geometry.page";
/// What lets in at the rate of lately.
const THROTTLE: &str = "ssd.buffer.throttle";
/// So many requests for each that is in flight, at least: the first ones find an idle drive.
const FOR_EACH_IN_FLIGHT: u64 = 8;
/// Bytes of a write above which fewer are measured.
const LARGE: u64 = 16 << 10;

/// An SSD's buffer, in bytes: all of it, and a page.
#[derive(Clone, Copy, Default)]
struct Buffer {
    bytes: f64,
    page: f64,
}

impl Buffer {
    /// Requests that fill it.
    fn takes(&self, point: &Point) -> f64 {
        self.bytes / self.page.max(point.bytes().max(1) as f64)
    }
}

/// A part that is quicker than the drive by more than this has fewer writes measured.
const QUICKER_MAX: f64 = 20.0;

/// What a part's table has at a key such as `ssd.nand.read`.
pub(super) fn find<'a>(table: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
    let mut words = key.split('.');
    let first = table.get(words.next()?)?;
    words.try_fold(first, |value, word| value.as_table()?.get(word))
}

/// What a run gave: its metrics by name, and what a reader must know of it.
pub(super) struct Ran {
    pub(super) metrics: study::metrics::Metrics,
    notes: Vec<String>,
}

/// What the runs of a study of this text give with `sets` laid over it. `keep` the filled drives
/// for the next time, and show how far it is.
pub(super) fn run_text(text: &str, sets: &[String], keep: bool) -> Result<Vec<Ran>, Failure> {
    let plan = PlannedStudy::parse_in(Path::new(""), "measured.toml", text, sets)?;
    let watch = Watch::new(&plan);
    if keep {
        let folder = attach::PrivateFolder::new()?;
        let options = Options {
            out: Some(folder.path.join("results")),
            cache: Cache::of_user()?,
            ..Options::default()
        };
        let runs = run::interruptible(&plan, &options, &watch)?.runs.into_iter();
        Ok(runs.map(|RunSummary { metrics, notes, .. }| Ran { metrics, notes }).collect())
    } else {
        // One of many, without a progress bar of its own.
        let runs = study::measure(&plan, &watch)?.into_iter();
        Ok(runs.map(|RunResult { metrics, notes, .. }| Ran { metrics, notes }).collect())
    }
}

/// Is `KEY=VALUE` about a device of this model?
pub(super) fn of_model(set: &str, model: &str) -> bool {
    set.split('.').next() == Some(model)
}

/// What a run gave of what was measured, of one of its jobs if it has several.
fn values(point: &Point, job: Option<&str>, run: &Ran) -> Values {
    METRICS.map(|(_, metric)| {
        let mut metric = format!("{}_{metric}", point.direction());
        if let Some(job) = job {
            metric = format!("job.{job}.{metric}");
        }
        run.metrics.get(&metric).copied().flatten()
    })
}

/// (modelled / measured - 1), where there are both.
pub(super) fn error(measured: Option<f64>, modelled: Option<f64>) -> Option<f64> {
    Some(modelled? / measured? - 1.0)
}

/// Sizes of the errors of one metric, or of all, least first. What the drive did and the part did
/// not at all is infinitely far off.
pub(super) fn errors(points: &[Point], modelled: &[Values], metric: Option<usize>) -> Vec<f64> {
    let wanted = |index: &usize| metric.is_none_or(|only| only == *index);
    let pairs = points.iter().zip(modelled).flat_map(|(point, modelled)| {
        let all = (0..METRICS.len()).filter(wanted);
        all.filter_map(|index| {
            let measured = point.measured[index]?;
            Some(error(Some(measured), modelled[index]).unwrap_or(f64::INFINITY))
        })
    });
    let mut errors: Vec<f64> = pairs.map(f64::abs).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

/// The median of numbers in rising order.
pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[sorted.len() / 2 - 1] + upper) / 2.0 })
}

/// For people: the median and the worst of these errors, least first, and how many there are of
/// nothing; `None` where there are none.
pub(super) fn middle_and_worst(name: &str, errors: &[f64]) -> Option<String> {
    let (middle, count) = (median(errors)?, errors.len());
    let done = errors.partition_point(|error| error.is_finite());
    let percent = |error: f64| format!("{:.1} %", 100.0 * error);
    Some(match done.checked_sub(1) {
        None => format!("{name}: none of {count} numbers that the drive has"),
        Some(last) if done == count => {
            format!("{name} {} (worst {})", percent(middle), percent(errors[last]))
        }
        Some(last) => {
            let middle = if middle.is_finite() { percent(middle) } else { "none".into() };
            let worst = percent(errors[last]);
            format!("{name} {middle} (worst {worst}, and {} of {count} not done)", count - done)
        }
    })
}

/// For people: the median and the worst error of each metric.
pub(super) fn summary(points: &[Point], modelled: &[Values]) -> String {
    let parts = METRICS.iter().enumerate().filter_map(|(index, (name, _))| {
        let errors = errors(points, modelled, Some(index));
        middle_and_worst(name, &errors)
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// What a drive had behind it when it was measured, if nothing else is `asked` for: what the file
/// `said`; and what was offered to it is measured when nothing changes any more. And what is to be
/// said where nobody knows. Only an SSD's `model` has such a state.
pub(super) fn overwritten(
    asked: Option<u32>,
    model: &str,
    points: &[Point],
    said: Option<u32>,
) -> (u32, Option<String>) {
    let known = asked.or(said.filter(|_| model == "ssd"));
    if known.is_some() || model != "ssd" {
        return (known.unwrap_or(0), None);
    }
    let writes = || points.iter().filter(|point| point.direction() == "write");
    if writes().any(|point| point.offered.is_some()) {
        return (OVERWRITTEN, None);
    }
    let note = writes().next().map(|_| {
        format!(
            "the part was filled once and then written to, and has hardly to collect; if the drive \
             was in its steady state, say --overwritten {OVERWRITTEN}"
        )
    });
    (0, note)
}

/// Percent of a drive, as SSD-iq has it.
pub(in crate::verb) const OVERWRITTEN: u32 = 300;

/// A point, with what a part does there.
pub(super) fn row(point: &Point, modelled: serde_json::Value) -> serde_json::Value {
    let mut row = json!({ "rw": point.rw, "bs": point.bs, "iodepth": point.iodepth,
                          "numjobs": point.numjobs, "measured": named(&point.measured),
                          "modelled": modelled });
    if let Some(offered) = point.offered {
        row["offered_iops"] = json!(offered.iops);
    }
    if let Some(beside) = &point.beside {
        row["load"] = json!(beside.load);
    }
    row
}

/// Values by the names that results have.
pub(super) fn named(values: &Values) -> serde_json::Value {
    let names = METRICS.iter().map(|(_, name)| (*name).to_string());
    names.zip(values.iter().map(|value| json!(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_part_does_not_do_at_all_counts() {
        let point = Point { measured: [Some(100.0), Some(10.0), None, None], ..Point::default() };
        let points = [point.clone(), point.clone(), point];
        let done = |iops: Option<f64>| [iops, None, Some(5.0), None];
        let part = [done(Some(110.0)), done(Some(150.0)), done(None)];
        assert_eq!(
            summary(&points, &part),
            "IOPS 50.0 % (worst 50.0 %, and 1 of 3 not done), mean us: none of 3 numbers that the \
             drive has"
        );
        assert_eq!(median(&errors(&points, &part, None)), Some(f64::INFINITY));
        assert_eq!(
            summary(&points[..1], &part),
            "IOPS 10.0 % (worst 10.0 %), mean us: none of 1 \
             numbers that the drive has"
        );
    }
}

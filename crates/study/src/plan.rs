//! The plan: everything that can be wrong with a study is found before the first run starts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use models::registry::WorkloadModel;
use models::workload::fio;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sim::{Device, Limits, Rng, Workload};

use crate::digest;
use crate::document::{AxisValue, Claim, Expect, Header, Point, Report, Step};
use crate::failure::{Cause, Failure};
use crate::files::Files;
use crate::grid::{self, GridPoint, Part};
use crate::library::{self, CODE_VERSION};
use crate::load::{self, Loaded, unreadable};
use crate::locate;
use crate::metrics;
use crate::outline;
use crate::recorder::Progress;
use crate::tree::{Node, Text};

/// A study that is known to be sound.
#[derive(Debug)]
pub struct Plan {
    /// The file's stem.
    pub name: String,
    /// Title, question, seed.
    pub header: Header,
    /// The runs, in the order of the grid.
    pub runs: Vec<PlannedRun>,
    /// Names of the axes, `repeat` not included.
    pub axes: Vec<String>,
    /// What is claimed about the results.
    pub expectations: Vec<Expect>,
    /// What others say about them.
    pub claims: Vec<Claim>,
    /// What the report shows.
    pub report: Report,
    /// Digest over every run's digest.
    pub digest: String,
    /// The document with `--set` laid over it, as TOML.
    pub resolved: String,
    /// What a reader of the result must know.
    pub notes: Vec<String>,
    pub(crate) directory: PathBuf,
}

/// One run of the plan.
#[derive(Debug)]
pub struct PlannedRun {
    /// Short name, unique within the study.
    pub label: String,
    /// (axis, value), `repeat` not included.
    pub params: Vec<(String, AxisValue)>,
    /// Which repeat this is, from 0.
    pub repeat: u32,
    /// Every value in place.
    pub point: Point,
    /// The part the device was built from.
    pub part: Option<Part>,
    /// What the device can take.
    pub limits: Limits,
    /// Digest of everything the outcome depends on.
    pub digest: String,
    /// Digest of everything the preconditioned device depends on; `None` without preconditioning.
    pub precondition_digest: Option<String>,
    pub(crate) tree: Node,
}

impl Plan {
    /// Read the study `name` (a path, or the name of a shipped one) with `sets` (`key=value`) laid
    /// over it, and check every point of its grid.
    ///
    /// # Errors
    /// Everything that is wrong with the study, its parts and its traces, with its place.
    pub fn read(name: &str, sets: &[String]) -> Result<Plan, Failure> {
        let loaded = load::load(name, sets)?;
        let lost = !library::is_path(name) && loaded.directory.as_os_str().is_empty();
        Plan::of(loaded).map_err(|failure| match failure.cause {
            Some(Cause::FileNotOpened) if lost => {
                failure.help("run it in blocklab's repository: its traces are there")
            }
            _ => failure,
        })
    }

    /// Read a study from `text`. Files that it names are looked for in the current directory;
    /// errors call it `name`.
    ///
    /// # Errors
    /// As [`Plan::read`].
    pub fn parse(name: &str, text: &str) -> Result<Plan, Failure> {
        Plan::of(load::lay(name, &Text::new(name, text), PathBuf::new(), &[])?)
    }

    fn of(mut loaded: Loaded) -> Result<Plan, Failure> {
        let files = Files::new(&loaded.directory);
        let axes = grid::axes(&loaded)?;
        let points = grid::points(&loaded, &axes, &files)?;
        let single = points.len() == 1;
        let hashes = RefCell::default();
        let plan = |point| plan_run(point, &loaded, &hashes, single);
        let runs = points.into_iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        outline::check(&loaded, &axes)?;
        outline::narrow(&mut loaded);
        let digests: Vec<&str> = runs.iter().map(|run| run.digest.as_str()).collect();
        let digest = digest::of(&digests);
        let resolved = toml::to_string(&loaded.tree.to_value());
        Ok(Plan {
            digest,
            runs,
            axes: axes.iter().map(|axis| axis.name.clone()).collect(),
            header: loaded.frame.study,
            expectations: loaded.frame.expect,
            claims: loaded.frame.claim,
            report: loaded.frame.report,
            resolved: resolved.map_err(|e| Failure::input(format!("cannot be TOML: {e}")))?,
            notes: loaded.notes,
            name: loaded.name,
            directory: loaded.directory,
        })
    }
}

impl PlannedRun {
    /// The root of this run's random streams.
    pub(crate) fn rng(&self) -> Rng {
        Rng::new(self.point.study.seed, &format!("repeat {}", self.repeat))
    }

    /// A new device.
    pub(crate) fn build_device(&self) -> Result<Box<dyn Device>, Failure> {
        build_device(&self.point, &self.tree, self.rng())
    }

    /// The workload, for a device of these limits.
    pub(crate) fn build_workload(
        &self,
        files: &Files,
    ) -> Result<Box<dyn Workload + Send>, Failure> {
        build_workload(&self.point, &self.tree, self.rng(), self.limits, files)
    }

    /// What reports this run as fio would: by job, or as one job when the workload is not fio's.
    pub(crate) fn fio_recorder(&self, files: &Files) -> Result<fio::Recorder, Failure> {
        let WorkloadModel::Fio(params) = &self.point.workload else {
            return Ok(fio::Recorder::single(&self.label));
        };
        let open = |name: &str| files.open(name);
        let rng = self.rng().split("workload");
        let context = models::workload::Context { rng, limits: self.limits, open: &open };
        let plan = params
            .plan(&context)
            .map_err(|error| locate::config_failure(&self.tree, &["workload", "fio"], &error))?;
        Ok(fio::Recorder::new(&plan))
    }

    /// How far the run is, from 0 to 1; `None` when its length is not known beforehand.
    pub fn share_done(&self, progress: &Progress) -> Option<f64> {
        let section = &self.point.run;
        let share = |done: &AtomicU64, whole: u64| {
            done.load(Ordering::Relaxed) as f64 / whole.max(1) as f64
        };
        let by_requests = section.requests.map(|whole| share(&progress.requests, whole));
        let by_time = section
            .time
            .map(|time| share(&progress.simulated_ns, section.ramp.0.0.saturating_add(time.0.0)));
        let furthest = by_requests.into_iter().chain(by_time).reduce(f64::max);
        furthest.map(|share| share.min(1.0))
    }

    /// The axes' values as JSON, `repeat` included.
    pub fn params_json(&self) -> Map<String, Value> {
        let mut map = Map::new();
        for (axis, value) in &self.params {
            map.insert(axis.clone(), value.json());
        }
        map.insert("repeat".into(), self.repeat.into());
        map
    }
}

fn build_device(point: &Point, tree: &Node, rng: Rng) -> Result<Box<dyn Device>, Failure> {
    let context = models::device::Context { rng: rng.split("device") };
    let model = &point.device;
    model
        .build(&context)
        .map_err(|error| locate::config_failure(tree, &["device", model.name()], &error))
}

fn build_workload(
    point: &Point,
    tree: &Node,
    rng: Rng,
    limits: Limits,
    files: &Files,
) -> Result<Box<dyn Workload + Send>, Failure> {
    let open = |name: &str| files.open(name);
    let context = models::workload::Context { rng: rng.split("workload"), limits, open: &open };
    let model = &point.workload;
    model
        .build(&context)
        .map_err(|error| locate::config_failure(tree, &["workload", model.name()], &error))
}

fn plan_run(
    grid: GridPoint,
    loaded: &Loaded,
    hashes: &RefCell<BTreeMap<PathBuf, String>>,
    single: bool,
) -> Result<PlannedRun, Failure> {
    let GridPoint { params, repeat, point, part, tree } = grid;
    let rng = Rng::new(point.study.seed, &format!("repeat {repeat}"));
    let limits = build_device(&point, &tree, rng)?.limits();
    let files = Files::new(&loaded.directory);
    let with_cause = |failure| files.with_cause(failure);
    check_steps(&point, &tree, limits, &files, rng).map_err(with_cause)?;
    let precondition_files = hash_files(&files, hashes)?;
    build_workload(&point, &tree, rng, limits, &files).map_err(with_cause)?;
    let all_files = hash_files(&files, hashes)?;

    let seed = (point.study.seed, repeat);
    let precondition_digest = (!point.precondition.is_empty()).then(|| {
        digest::of(&json!({
            "code": CODE_VERSION, "device": point.device, "precondition": point.precondition,
            "seed": seed, "files": precondition_files,
        }))
    });
    let digest = digest::of(&json!({
        "code": CODE_VERSION, "device": point.device, "precondition": point.precondition,
        "workload": point.workload, "run": point.run, "seed": seed, "files": all_files,
    }));
    let label = label(&params, repeat, &point, part.as_ref(), single);
    let run = PlannedRun {
        label,
        params,
        repeat,
        point,
        part,
        limits,
        digest,
        precondition_digest,
        tree,
    };
    Ok(run)
}

/// Steps that no device of these limits can take, and workloads that cannot be built.
fn check_steps(
    point: &Point,
    tree: &Node,
    limits: Limits,
    files: &Files,
    rng: Rng,
) -> Result<(), Failure> {
    for (index, step) in point.precondition.iter().enumerate() {
        let number = index.to_string();
        let at = |keys: &[&str], failure: Failure| {
            let keys = ["precondition", &number].into_iter().chain(keys.iter().copied());
            let path: Vec<String> = keys.map(String::from).collect();
            match locate::place_of(tree, &path) {
                Some(place) => failure.at(place),
                None => failure,
            }
        };
        match step {
            Step::Fill(fill) if fill.span.of(limits.capacity) > limits.capacity => {
                let what = format!("{} is more than the device's {}", fill.span, limits.capacity);
                return Err(at(&["fill", "span"], Failure::input(what)));
            }
            Step::Overwrite(over) => {
                let span = over.span.of(limits.capacity);
                let unit = over.unit.0;
                if span > limits.capacity {
                    let what =
                        format!("{} is more than the device's {}", over.span, limits.capacity);
                    return Err(at(&["overwrite", "span"], Failure::input(what)));
                }
                if unit.sectors() == 0 || unit.0 % sim::SECTOR_BYTES != 0 || unit > span {
                    let what = format!("a write of {} does not fit into {span}", over.unit);
                    let failure = Failure::input(what).expected("whole 512-byte sectors");
                    return Err(at(&["overwrite", "unit"], failure));
                }
            }
            Step::Fill(_) => {}
            Step::UntilSteady(steady) => {
                metrics::check_name(&steady.metric)
                    .map_err(|failure| at(&["until_steady", "metric"], failure))?;
                if steady.window < 2 || steady.rounds_max < steady.window {
                    let failure = Failure::input("the window does not fit")
                        .expected("2 <= window <= rounds_max");
                    return Err(at(&["until_steady", "window"], failure));
                }
                let open = |name: &str| files.open(name);
                let context = models::workload::Context { rng, limits, open: &open };
                let model = &steady.workload;
                model.build(&context).map_err(|error| {
                    let path = ["precondition", &number, "until_steady", "workload", model.name()];
                    locate::config_failure(tree, &path, &error)
                })?;
            }
        }
    }
    Ok(())
}

/// (name, content digest) of every file that was opened.
fn hash_files(
    files: &Files,
    known: &RefCell<BTreeMap<PathBuf, String>>,
) -> Result<Vec<(String, String)>, Failure> {
    let mut hashes = Vec::new();
    for (name, path) in files.opened() {
        let hash = known.borrow().get(&path).cloned();
        let hash = match hash {
            Some(hash) => hash,
            None => File::open(&path)
                .and_then(digest::of_reader)
                .map_err(|error| unreadable("file", &path, &error))?,
        };
        known.borrow_mut().insert(path, hash.clone());
        hashes.push((name, hash));
    }
    Ok(hashes)
}

fn label(
    params: &[(String, AxisValue)],
    repeat: u32,
    point: &Point,
    part: Option<&Part>,
    single: bool,
) -> String {
    let short = |(axis, value): &(String, AxisValue)| match axis.as_str() {
        "device" | "workload" => value.label(),
        _ => format!("{}={}", axis.rsplit('.').next().unwrap_or(axis), value.label()),
    };
    let mut words: Vec<String> = params.iter().map(short).collect();
    if words.is_empty() {
        words.push(part.map_or(point.device.name().into(), |part| part.name.clone()));
    }
    if !single && point.study.repeats > 1 {
        words.push(format!("repeat {repeat}"));
    }
    words.join(" ")
}

impl AxisValue {
    /// As JSON: numbers and strings as they are, anything else as its label.
    pub fn json(&self) -> Value {
        match &self.0 {
            toml::Value::Integer(n) => (*n).into(),
            toml::Value::Float(n) => (*n).into(),
            toml::Value::Boolean(b) => (*b).into(),
            _ => self.label().into(),
        }
    }

    /// Short text: `d-choices(d=10)`.
    pub fn label(&self) -> String {
        short(&self.0)
    }
}

fn short(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Table(table) => {
            let entry = |(key, value): (&String, &toml::Value)| match value {
                toml::Value::Table(inner) if inner.is_empty() => key.clone(),
                toml::Value::Table(_) => format!("{key}({})", short(value)),
                _ => format!("{key}={}", short(value)),
            };
            table.iter().map(entry).collect::<Vec<_>>().join(",")
        }
        toml::Value::Array(list) => list.iter().map(short).collect::<Vec<_>>().join("/"),
        other => other.to_string(),
    }
}

/// A run's place in the results, for tables and JSON.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceSummary {
    /// The model's name.
    pub model: String,
    /// The part's name.
    pub part: Option<String>,
    /// How far the part can be trusted.
    pub status: Option<String>,
    /// Usable size in bytes.
    pub capacity_bytes: u64,
    /// Preferred transfer unit in bytes.
    pub block_bytes: u32,
    /// Requests it accepts at once.
    pub queue_depth_max: u32,
    /// A rotating medium.
    pub rotational: bool,
    /// A volatile write cache.
    pub write_cache: bool,
    /// Understands discards.
    pub discard: bool,
}

impl PlannedRun {
    /// The device in a few numbers.
    pub fn device_summary(&self) -> DeviceSummary {
        DeviceSummary {
            model: self.point.device.name().into(),
            part: self.part.as_ref().map(|part| part.name.clone()),
            status: self.part.as_ref().map(|part| part.status.clone()),
            capacity_bytes: self.limits.capacity.0,
            block_bytes: self.limits.block_bytes,
            queue_depth_max: self.limits.queue_depth_max,
            rotational: self.limits.rotational,
            write_cache: self.limits.write_cache,
            discard: self.limits.discard,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_opened_is_a_cause_of_its_own() {
        let cause = |workload: &str| {
            let text = format!("[device.null]\n{workload}");
            Plan::parse("test", &text).unwrap_err().cause
        };
        let missing = "[workload.trace]\nfile = \"no-such.log\"\n";
        assert_eq!(cause(missing), Some(Cause::FileNotOpened));
        assert_eq!(cause("[workload.fio]\niodepth = 0\n"), None);
        let step = "[[precondition]]\nuntil_steady.workload.trace.file = \"no-such.log\"\n";
        assert_eq!(cause(&format!("[workload.fio]\n{step}")), Some(Cause::FileNotOpened));
    }
}

//! One run of a plan: a point of the grid that is known to be sound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use models::registry::WorkloadModel;
use serde::Serialize;
use serde_json::{Map, Value};
use sim::{Device, Limits, Rng, Workload};
use workload::fio;

use crate::axis_value::AxisValue;
use crate::block::Block;
use crate::document::Point;
use crate::files::Files;
use crate::grid::Part;
use crate::hashed::HashedFile;
use crate::host::{self, HostProfile};
use crate::locate;
use crate::recorder::Progress;
use crate::tree::Node;
use config::Failure;

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
    /// How its device presents itself to a guest.
    pub block: Block,
    /// What the device can take.
    pub limits: Limits,
    /// Digest of everything the outcome depends on.
    pub digest: String,
    /// Digest of everything the preconditioned device depends on; `None` without preconditioning.
    pub precondition_digest: Option<String>,
    /// What its digests say of files holds for these.
    pub(crate) files: Vec<Arc<HashedFile>>,
    pub(crate) tree: Node,
}

/// A point of the grid and what it needs to be run, before anything of it has run.
pub struct Setup<'a> {
    /// Every value in place.
    pub point: &'a Point,
    /// Which repeat this is, from 0.
    pub repeat: u32,
    /// What the device can take.
    pub limits: Limits,
    /// How the device presents itself to a guest.
    pub block: &'a Block,
    pub(crate) tree: &'a Node,
    pub(crate) files: &'a Files,
}

impl Setup<'_> {
    /// The root of this run's random streams.
    pub fn rng(&self) -> Rng {
        rng(self.point, self.repeat)
    }

    /// The host whose code a program in a guest runs as; `None` where code is free.
    ///
    /// # Errors
    /// What is wrong with the profile, with its place.
    pub fn host(&self) -> Result<Option<HostProfile>, Failure> {
        let Some(travel) = &self.point.travel else { return Ok(None) };
        let host = host::find(&travel.host, self.files)?;
        host::with_program(host, travel.between_calls)
    }

    /// A failure at the place of the value that the keys lead to.
    pub fn at(&self, keys: &[&str], failure: Failure) -> Failure {
        let path: Vec<String> = keys.iter().map(|key| (*key).to_string()).collect();
        match locate::place_of(self.tree, &path) {
            Some(place) => failure.at(place),
            None => failure,
        }
    }

    /// The point's workload, for a device of these limits.
    ///
    /// # Errors
    /// When it cannot be built: at the place of the value that is to blame.
    pub fn build_workload(&self) -> Result<Box<dyn Workload + Send>, Failure> {
        let open = |name: &str| self.files.open(name);
        let rng = self.rng().split("workload");
        let context = workload::Context { rng, limits: self.limits, open: &open };
        let Some(model) = &self.point.workload else {
            return Err(Failure::input("a program in a guest is no workload that is simulated")
                .help("blocklab run STUDY runs studies with [travel]"));
        };
        let path = ["workload", model.name()];
        model.build(&context).map_err(|error| locate::config_failure(self.tree, &path, &error))
    }

    /// The jobs of the point's workload, where it is fio's.
    ///
    /// # Errors
    /// As [`Setup::build_workload`].
    pub(crate) fn fio_plan(&self) -> Result<Option<fio::JobPlan>, Failure> {
        let Some(WorkloadModel::Fio(params)) = &self.point.workload else { return Ok(None) };
        let open = |name: &str| self.files.open(name);
        let rng = self.rng().split("workload");
        let context = workload::Context { rng, limits: self.limits, open: &open };
        let plan = params
            .plan(&context)
            .map_err(|error| locate::config_failure(self.tree, &["workload", "fio"], &error));
        plan.map(Some)
    }
}

/// The root of the random streams of a point's repeat.
fn rng(point: &Point, repeat: u32) -> Rng {
    Rng::new(point.study.seed, &format!("repeat {repeat}"))
}

impl PlannedRun {
    /// The root of this run's random streams.
    pub(crate) fn rng(&self) -> Rng {
        rng(&self.point, self.repeat)
    }

    /// Refuse files that are others by now than those that its digests stand for.
    pub(crate) fn check_files(&self) -> Result<(), Failure> {
        self.files.iter().try_for_each(|file| file.check())
    }

    /// A new device.
    pub(crate) fn build_device(&self) -> Result<Box<dyn Device>, Failure> {
        build_device(&self.point, &self.tree, self.repeat)
    }

    /// The run as its runner sees it.
    pub(crate) fn setup<'a>(&'a self, files: &'a Files) -> Setup<'a> {
        let &PlannedRun { ref point, repeat, limits, ref block, ref tree, .. } = self;
        Setup { point, repeat, limits, block, tree, files }
    }

    /// What reports this run as fio would: by job, or as one job when the workload is not fio's.
    pub(crate) fn fio_recorder(&self, files: &Files) -> Result<fio::Recorder, Failure> {
        let plan = self.setup(files).fio_plan()?;
        Ok(plan.map_or_else(|| fio::Recorder::single(&self.label), |p| fio::Recorder::new(&p)))
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

/// A new device of a point's repeat.
pub(crate) fn build_device(
    point: &Point,
    tree: &Node,
    repeat: u32,
) -> Result<Box<dyn Device>, Failure> {
    let context = config::device::Context { rng: rng(point, repeat).split("device") };
    let model = &point.device;
    model
        .build(&context)
        .map_err(|error| locate::config_failure(tree, &["device", model.name()], &error))
}

/// Short name of a run, unique within its study.
pub(crate) fn label(
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

//! The study document: one TOML file per question, as types.

use std::collections::BTreeMap;

use config::{Duration, Size};
use models::registry::{DeviceModel, WorkloadModel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::axis_value::AxisValue;
use crate::crash::Crash;
use crate::figure::Figure;
use crate::travel::Travel;

/// A study as written, before its grid is laid out. What sweeps can change is only checked for
/// its shape here (the fields with an underscore) and read point by point.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Frame {
    #[serde(default)]
    pub(crate) study: Header,
    #[serde(rename = "device")]
    pub(crate) _device: Option<toml::Value>,
    #[serde(rename = "devices", default)]
    pub(crate) _devices: BTreeMap<String, toml::Value>,
    #[serde(rename = "workload")]
    pub(crate) _workload: Option<toml::Value>,
    #[serde(rename = "workloads", default)]
    pub(crate) _workloads: BTreeMap<String, toml::Value>,
    #[serde(rename = "travel")]
    pub(crate) _travel: Option<toml::Table>,
    #[serde(rename = "crash")]
    pub(crate) _crash: Option<toml::Table>,
    #[serde(rename = "precondition", default)]
    pub(crate) _precondition: Vec<toml::Table>,
    #[serde(rename = "run", default)]
    pub(crate) _run: toml::Table,
    #[serde(rename = "sweep", default)]
    pub(crate) _sweep: BTreeMap<String, Vec<toml::Value>>,
    #[serde(default)]
    pub(crate) expect: Vec<Expect>,
    #[serde(default)]
    pub(crate) claim: Vec<Claim>,
    #[serde(default)]
    pub(crate) report: Report,
}

/// The question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Header {
    /// Short title, for the report.
    pub title: String,
    /// The question in one sentence.
    pub question: String,
    /// Root of every random stream.
    pub seed: u64,
    /// How often each point is run, each time with independent random streams.
    pub repeats: u32,
    /// What answers the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerMetric>,
}

impl Default for Header {
    fn default() -> Header {
        Header { title: String::new(), question: String::new(), seed: 1, repeats: 1, answer: None }
    }
}

/// What answers the question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerMetric {
    /// The metric.
    pub metric: String,
    /// The axis whose values are compared. Without it: what claims, figures and axes say.
    pub by: Option<String>,
}

/// When a run stops issuing and what of it is measured.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSection {
    /// Simulated time at the start that is run but not measured.
    pub ramp: Duration,
    /// Stop issuing this long after the ramp.
    pub time: Option<Duration>,
    /// Stop after this many requests, those of the ramp included.
    pub requests: Option<u64>,
    /// Cut the power at the end, to learn how long the mapping takes to rebuild.
    pub power_cut: bool,
}

/// One step that brings a drive into its starting state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreconditionStep {
    /// Write a share of the capacity sequentially, in no simulated time.
    Fill(Fill),
    /// Overwrite uniformly at random, in no simulated time.
    Overwrite(Overwrite),
    /// Run a workload in simulated time until a metric is steady.
    UntilSteady(Box<UntilSteady>),
}

/// Sequential filling.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fill {
    /// Share of the capacity, or a size, from the first sector on.
    pub span: Amount,
    /// How often.
    pub passes: u32,
}

impl Default for Fill {
    fn default() -> Fill {
        Fill { span: Amount::Percent(100.0), passes: 1 }
    }
}

/// Random overwriting.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overwrite {
    /// Share of the capacity, or a size, from the first sector on.
    pub span: Amount,
    /// How much is written: a share of the span, or a size.
    pub writes: Amount,
    /// Size and alignment of each write.
    pub unit: Size,
}

impl Default for Overwrite {
    fn default() -> Overwrite {
        Overwrite {
            span: Amount::Percent(100.0),
            writes: Amount::Percent(100.0),
            unit: Size(sim::Bytes(4096)),
        }
    }
}

/// The steady-state rule of the SNIA Solid State Storage Performance Test Specification: over the
/// last `window` rounds the metric's range stays within `range_percent` of its mean, and the
/// excursion of its least-squares line within `slope_percent`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UntilSteady {
    /// What is run in every round.
    pub workload: WorkloadModel,
    /// Which metric must be steady.
    #[serde(default = "UntilSteady::metric")]
    pub metric: String,
    /// Length of one round in simulated time.
    #[serde(default = "UntilSteady::round")]
    pub round: Duration,
    /// Rounds that are looked at together.
    #[serde(default = "UntilSteady::window")]
    pub window: u32,
    /// Largest range within the window, in percent of the mean.
    #[serde(default = "UntilSteady::range_percent")]
    pub range_percent: f64,
    /// Largest excursion of the fitted line within the window, in percent of the mean.
    #[serde(default = "UntilSteady::slope_percent")]
    pub slope_percent: f64,
    /// Give up after this many rounds; the run goes on and says so.
    #[serde(default = "UntilSteady::rounds_max")]
    pub rounds_max: u32,
}

impl UntilSteady {
    fn metric() -> String {
        "iops".into()
    }
    fn round() -> Duration {
        Duration(sim::Nanos::from_secs(1))
    }
    fn window() -> u32 {
        5
    }
    fn range_percent() -> f64 {
        20.0
    }
    fn slope_percent() -> f64 {
        10.0
    }
    fn rounds_max() -> u32 {
        25
    }
}

/// A statement about the results; the study's exit code is 1 when one does not hold.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// What is claimed, in words.
    pub text: String,
    /// The metric it is about.
    pub metric: String,
    /// Divide by this metric of the same run.
    pub per: Option<String>,
    /// Which runs: the value, or a list of values, of each named axis. Without it: all.
    #[serde(default, rename = "where")]
    pub which: BTreeMap<String, AxisValue>,
    /// Divide by the metric of the same point with these values on these axes instead.
    #[serde(default)]
    pub relative_to: BTreeMap<String, AxisValue>,
    /// The metric is at least this.
    pub min: Option<f64>,
    /// The metric is at most this.
    pub max: Option<f64>,
    /// The metric equals this, within the tolerance.
    pub equal: Option<f64>,
    /// Tolerance of `equal` in percent of it.
    pub tolerance_percent: Option<f64>,
}

/// Numbers from `min` to `max`; a missing end is open.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Band {
    /// Smallest number inside.
    pub min: Option<f64>,
    /// Largest number inside.
    pub max: Option<f64>,
}

impl Band {
    /// True when the number lies inside.
    pub fn holds(&self, value: f64) -> bool {
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }
}

/// What somebody else says, and how near to it the results are. Unlike an expectation, a claim
/// that does not hold is an answer, not a failure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is claimed, in words.
    pub text: String,
    /// Who says so, and where.
    pub source: String,
    /// The metric it is about.
    pub metric: String,
    /// Divide by this metric of the same run.
    pub per: Option<String>,
    /// Which runs: the value, or a list of values, of each named axis. Without it: all.
    #[serde(default, rename = "where")]
    pub which: BTreeMap<String, AxisValue>,
    /// Divide by the metric of the same point with these values on these axes instead.
    #[serde(default)]
    pub relative_to: BTreeMap<String, AxisValue>,
    /// The mean over the selected points is judged rather than each of them.
    #[serde(default)]
    pub mean: bool,
    /// The claim holds inside.
    pub holds: Band,
    /// It holds in part inside this wider band.
    pub in_part: Option<Band>,
}

/// What the report shows.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    /// At most five. Without it: `percentiles`, `throughput`, `latency-heatmap`, `utilisation` and
    /// `waf`, or none beside figures of the study's own.
    #[schemars(length(max = 5))]
    pub plots: Option<Vec<Plot>>,
    /// Figures of the study's own, at most eight.
    #[schemars(length(max = 8))]
    pub figure: Vec<Figure>,
}

impl Report {
    /// The plots it shows after its figures.
    pub fn plots(&self) -> Vec<Plot> {
        use Plot::*;
        match &self.plots {
            Some(plots) => plots.clone(),
            None if self.figure.is_empty() => {
                vec![Percentiles, Throughput, LatencyHeatmap, Utilisation, Waf]
            }
            None => Vec::new(),
        }
    }
}

/// A figure of the report.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Plot {
    /// Latency percentiles on a nines axis.
    Percentiles,
    /// Throughput over time.
    Throughput,
    /// Latency over time.
    LatencyHeatmap,
    /// How busy dies, channels or the arm were.
    Utilisation,
    /// Write amplification over time, and wear.
    Waf,
    /// RAM of the mapping and its hit ratio over time.
    Map,
}

/// One point of the grid, with every value in place.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The question.
    #[serde(default)]
    pub study: Header,
    /// The device.
    pub device: DeviceModel,
    /// The workload; a point has this or `travel`.
    pub workload: Option<WorkloadModel>,
    /// The program in a real Linux guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub travel: Option<Travel>,
    /// Cuts of the power while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash: Option<Crash>,
    /// How the device is brought into its starting state.
    #[serde(default)]
    pub precondition: Vec<PreconditionStep>,
    /// When it stops.
    #[serde(default)]
    pub run: RunSection,
}

impl Point {
    /// What stands for the workload in a document: the name of the table below `workload`.
    pub(crate) fn workload_name(&self) -> &str {
        self.workload.as_ref().map_or("travel", |model| model.name())
    }
}

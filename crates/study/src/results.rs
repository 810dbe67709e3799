//! What a study leaves behind: one directory, written beside and renamed when it is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Failure;
use models::registry::WorkloadModel;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::answer::{self, Answer};
use crate::axis_value::AxisValue;
use crate::digest;
use crate::document::Plot;
use crate::drawing::Drawing;
use crate::expect::{self, Judged, Verdict};
use crate::figure::Figure;
use crate::kept::Finished;
use crate::library::CODE_VERSION;
use crate::metrics::{self, Metrics};
use crate::options::Options;
use crate::output::{Output, unwritable};
use crate::parquet::{self, Column, RowGroup, Schema};
use crate::plan::PlannedStudy;
use crate::planned::{DeviceSummary, PlannedRun};
use crate::prepared::Gate;
use crate::records;
use crate::runner::RunResult;
use crate::spool;
use crate::tables;

/// The answer; as JSON it is `result.json` and the output of `--json`.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The study's name.
    pub study: String,
    /// Its title.
    pub title: String,
    /// Its question.
    pub question: String,
    /// Digest of everything the results depend on.
    pub digest: String,
    /// Digest of everything that was simulated.
    pub result_digest: String,
    /// blocklab's version.
    pub version: &'static str,
    /// Hash over the source text that decides results.
    pub code_version: &'static str,
    /// What the study answers; nothing where no metric is defined.
    pub answer: Option<Answer>,
    /// One per point and repeat.
    pub runs: Vec<RunSummary>,
    /// What became of the expectations.
    pub expectations: Vec<Verdict>,
    /// What became of the claims.
    pub claims: Vec<Judged>,
    /// The study's own figures, with their numbers.
    pub figures: Vec<Drawing>,
    /// What the report shows after them.
    pub plots: Vec<Plot>,
    /// What the models leave out.
    pub limits: Vec<String>,
    /// What a reader must know of the study as a whole.
    pub notes: Vec<String>,
    /// Every file of the directory by its stem.
    pub files: BTreeMap<String, String>,
    /// The command line that repeats the study.
    pub replay: String,
    /// Seconds of this machine's time for everything.
    pub wall_s: f64,
    /// The directory.
    #[serde(skip)]
    pub directory: PathBuf,
}

/// What one run gave, as it is written: its tables are encoded, which is much smaller.
pub(crate) struct Measured {
    result: RunResult,
    gate: Option<Gate>,
    tables: Vec<RowGroup>,
}

impl Measured {
    /// Of the run of that number.
    pub(crate) fn new(run: u32, finished: Finished) -> Measured {
        let Finished { mut result, gate } = finished;
        let tables = std::mem::take(&mut result.tables).encode(run);
        Measured { result, gate, tables }
    }

    /// Without its tables.
    pub(crate) fn into_result(self) -> RunResult {
        self.result
    }
}

/// One run's answer.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// Short name, unique within the study.
    pub label: String,
    /// The value on every axis, and `repeat`.
    pub params: Map<String, Value>,
    /// Digest of everything the outcome depends on.
    pub digest: String,
    /// Digest of everything that was simulated.
    pub result_digest: String,
    /// Root of the random streams.
    pub seed: u64,
    /// The device.
    pub device: DeviceSummary,
    /// The workload in one line.
    pub workload: String,
    /// What a reader must know of this run.
    pub notes: Vec<String>,
    /// Why it came to nothing; its metrics are undefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What it ran with, read back from the guest of a travelled run.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// What the steady-state gate said, where there was one.
    pub gate: Option<Gate>,
    /// The numbers.
    #[serde(serialize_with = "metrics_as_json")]
    pub metrics: Metrics,
}

fn metrics_as_json<S: serde::Serializer>(metrics: &Metrics, to: S) -> Result<S::Ok, S::Error> {
    metrics::to_json(metrics).serialize(to)
}

impl Results {
    /// Check the expectations and write the directory.
    pub(crate) fn write(
        plan: &PlannedStudy,
        options: &Options,
        results: Vec<Measured>,
        notes: Vec<String>,
        wall: Duration,
        output: Output,
    ) -> Result<Results, Failure> {
        let target = output.target().to_path_buf();
        let (mut answer, groups) = Results::new(plan, options, results, wall, target.clone());
        answer.notes.extend(notes);
        let written = answer.write_files(plan, options, &groups, output.path());
        written.map_err(|error| unwritable(&target, &error))?;
        output.finish()?;
        Ok(answer)
    }

    fn new(
        plan: &PlannedStudy,
        options: &Options,
        results: Vec<Measured>,
        wall: Duration,
        directory: PathBuf,
    ) -> (Results, Vec<Vec<RowGroup>>) {
        let (mut runs, mut groups) = (Vec::new(), Vec::new());
        for (run, Measured { result, gate, tables }) in plan.runs.iter().zip(results) {
            groups.push(tables);
            runs.push(RunSummary {
                label: run.label.clone(),
                params: run.params_json(),
                digest: run.digest.clone(),
                result_digest: result.result_digest,
                seed: run.point.study.seed,
                device: run.device_summary(),
                workload: describe(run),
                notes: result.notes,
                failed: result.failed,
                settings: result.settings,
                gate,
                metrics: result.metrics,
            });
        }
        let pairs: Vec<(&PlannedRun, &Metrics)> =
            plan.runs.iter().zip(runs.iter().map(|run| &run.metrics)).collect();
        let expectations = plan.expectations.iter().map(|e| expect::check(e, &pairs)).collect();
        let claims = plan.claims.iter().map(|claim| expect::judge(claim, &pairs)).collect();
        let answer = answer::answer(plan, &pairs);
        let by_answer = answer.iter().filter_map(|answer| answer.figure(plan)).collect();
        let own = &plan.report.figure;
        let figures: &Vec<Figure> = if own.is_empty() { &by_answer } else { own };
        let digests: Vec<&str> = runs.iter().map(|run| run.result_digest.as_str()).collect();
        let results = Results {
            answer,
            study: plan.name.clone(),
            title: plan.header.title.clone(),
            question: plan.header.question.clone(),
            digest: plan.digest.clone(),
            result_digest: digest::of(&digests),
            version: env!("CARGO_PKG_VERSION"),
            code_version: CODE_VERSION,
            expectations,
            claims,
            figures: figures.iter().map(|f| f.draw(&plan.axes, &pairs)).collect(),
            plots: plan.report.plots(),
            limits: limits(plan),
            notes: plan.notes.clone(),
            files: BTreeMap::new(),
            replay: options.replay.clone(),
            wall_s: wall.as_secs_f64(),
            runs,
            directory,
        };
        (results, groups)
    }

    fn write_files(
        &mut self,
        plan: &PlannedStudy,
        options: &Options,
        groups: &[Vec<RowGroup>],
        to: &Path,
    ) -> io::Result<()> {
        let table = |files: &mut BTreeMap<_, _>, stem: &str, schema: &Schema, groups: Vec<_>| {
            let name = format!("{stem}.parquet");
            let file = BufWriter::new(File::create(to.join(&name))?);
            files.insert(stem.to_string(), name);
            parquet::write_file(file, schema, groups)
        };
        let files = &mut self.files;
        let (schema, group) = runs_table(plan, &self.runs);
        table(files, "runs", &schema, vec![&group])?;
        for (index, (stem, schema)) in tables::schemas().iter().enumerate() {
            let of_runs = groups.iter().filter_map(|groups| groups.get(index)).collect();
            table(files, stem, schema, of_runs)?;
        }
        let spools = |spool: fn(&Path, usize) -> PathBuf| {
            (0..self.runs.len()).map(|run| spool(to, run)).collect::<Vec<_>>()
        };
        if options.records {
            let name = "requests.parquet";
            records::collect(&spools(spool::records), &to.join(name))?;
            files.insert("requests".into(), name.into());
        }
        if options.perfetto {
            let name = "trace.pftrace";
            spool::concatenate(&spools(spool::perfetto), &to.join(name))?;
            files.insert("perfetto".into(), name.into());
        }
        if options.fio_json {
            for run in 0..self.runs.len() {
                let path = spool::fio(to, run, self.runs.len());
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                files.insert(stem.clone(), format!("{stem}.json"));
            }
        }
        fs::write(to.join("study.toml"), &plan.resolved)?;
        files.insert("study".into(), "study.toml".into());
        let mut file = BufWriter::new(File::create(to.join("result.json"))?);
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.flush()
    }
}

/// The workload in a line: its name and the parameters that differ from their defaults.
fn describe(run: &PlannedRun) -> String {
    let Some(model) = &run.point.workload else {
        let command = run.point.travel.as_ref().map(|travel| travel.command.trim());
        return format!("travel: {}", command.unwrap_or_default());
    };
    let params = |model: &WorkloadModel| {
        let value = toml::Value::try_from(model).ok();
        value.and_then(|value| value.get(model.name())?.as_table().cloned()).unwrap_or_default()
    };
    let usual =
        WorkloadModel::from_name(model.name()).map_or_else(Default::default, |m| params(&m));
    let words: Vec<String> = params(model)
        .into_iter()
        .filter(|(key, value)| usual.get(key) != Some(value))
        .map(|(key, value)| format!("{key} {}", AxisValue(value).label()))
        .collect();
    format!("{}: {}", model.name(), words.join(", "))
}

/// The "What it leaves out" of every device of the study.
fn limits(plan: &PlannedStudy) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for run in &plan.runs {
        let name = run.point.device.name();
        let Some(text) = crate::explain::stanza("device", name, "What it leaves out") else {
            continue;
        };
        let line = format!("device.{name}: {text}");
        if !list.contains(&line) {
            list.push(line);
        }
    }
    list
}

/// One row per run: axes and metrics.
fn runs_table(plan: &PlannedStudy, runs: &[RunSummary]) -> (Schema, RowGroup) {
    let mut columns = vec![
        ("run".to_string(), Column::U32((0..runs.len() as u32).collect())),
        (
            "label".to_string(),
            Column::Text(runs.iter().map(|run| run.label.clone().into()).collect()),
        ),
    ];
    for axis in plan.axes.iter().map(String::as_str).chain(["repeat"]) {
        let values: Vec<&Value> = runs.iter().map(|run| &run.params[axis]).collect();
        let text = |value: &&Value| value.as_str().map_or(value.to_string(), String::from).into();
        let whole: Option<Vec<i64>> = values.iter().map(|value| value.as_i64()).collect();
        let numbers = || values.iter().map(|value| value.as_f64()).collect::<Option<Vec<f64>>>();
        let column = match (whole, numbers()) {
            (Some(whole), _) => Column::I64(whole),
            (None, Some(numbers)) => Column::F64(numbers),
            (None, None) => Column::Text(values.iter().map(text).collect()),
        };
        columns.push((axis.to_string(), column));
    }
    // A part of a device may be in some runs only, and a run that failed has fewer.
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.metrics.keys()).collect();
    for name in names {
        let values = runs
            .iter()
            .map(|run| run.metrics.get(name).copied().flatten().filter(|v| v.is_finite()));
        let column = if metrics::is_count(name) {
            Column::MaybeI64(values.map(|value| value.map(|v| v as i64)).collect())
        } else {
            Column::MaybeF64(values.collect())
        };
        columns.push((name.clone(), column));
    }
    let values: Vec<Column> = columns.iter().map(|(_, column)| column.clone()).collect();
    let schema = Schema::new(columns);
    let group = RowGroup::encode(&schema, &values);
    (schema, group)
}

impl Results {
    /// As one JSON object.
    pub fn to_json(&self) -> Value {
        json!(self)
    }

    /// True when every expectation holds, and no run failed.
    pub fn as_expected(&self) -> bool {
        let ok = self.expectations.iter().all(|verdict| verdict.ok);
        ok && self.runs.iter().all(|run| run.failed.is_none())
    }
}

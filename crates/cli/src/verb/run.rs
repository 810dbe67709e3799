//! `blocklab run`: answer a study's question.

mod devices;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use config::quoted;
use rustix::process::{Pid, Signal, kill_process_group};
use study::{Cache, Failure, Options, PlannedStudy, Results, Watch};

use crate::table::{self, Format};
use crate::{answer, interrupt, progress, python, say, warn};

/// As of the runs: what takes longer says so.
const SILENT_MAX: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A study file, or the name of a shipped study (`blocklab list studies`); with --device, a fio
    /// job file or a recorded trace
    study: String,
    /// Run a job or a trace on this part, by name or file (`blocklab list parts`), which is filled
    /// first; may be repeated
    #[arg(long = "device", value_name = "PART", conflicts_with = "on")]
    devices: Vec<String>,
    /// Change a key of the study, such as device.ssd.gc=greedy; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Runs at a time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Where the results go [default: out/STUDY]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// One JSON object on stdout and nothing else
    #[arg(long)]
    json: bool,
    /// Show every run and every column
    #[arg(long)]
    all: bool,
    /// How the table of runs is written; what is said beside CSV and Markdown goes to stderr
    #[arg(long, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
    format: Format,
    /// Keep every request, in requests.parquet
    #[arg(long)]
    records: bool,
    /// Write trace.pftrace for ui.perfetto.dev
    #[arg(long)]
    perfetto: bool,
    /// Write fio.json, in the shape of fio's own JSON output
    #[arg(long)]
    fio_json: bool,
    /// Boot this vmlinuz in QEMU, stored as the study's recorded boots are, instead of replaying
    /// those; the new recordings are kept in DIR.recordings
    #[cfg(feature = "linux")]
    #[arg(long, value_name = "VMLINUZ", conflicts_with_all = ["on", "devices"])]
    live: Option<PathBuf>,
    /// Make no report
    #[arg(long)]
    no_report: bool,
    /// Precondition anew, and keep no drive for next time
    #[arg(long)]
    no_cache: bool,
    /// Do the runs on a cluster: `ray`, or `ray://HOST:PORT` (the Python package's extra `ray`)
    #[arg(long, value_name = "CLUSTER",
          conflicts_with_all = ["no_cache", "records", "perfetto", "fio_json"])]
    on: Option<String>,
}

impl Args {
    pub(crate) fn run(mut self) -> Result<u8, Failure> {
        let plan = self.planned()?;
        if let Some(on) = &self.on
            && let code @ 1.. = self.elsewhere(on, &plan)?
        {
            return Ok(code);
        }
        let watch = Watch::new(&plan);
        let options = Options {
            jobs: self.jobs.map_or(0, usize::from),
            out: self.out.clone(),
            records: self.records,
            perfetto: self.perfetto,
            fio_json: self.fio_json,
            cache: if self.no_cache { None } else { Cache::of_user()? },
            anew: self.no_cache,
            replay: self.replay(),
        };
        let results = interruptible(&plan, &options, &watch)
            .map_err(|failure| self.with_replay(&plan, failure))
            .map_err(|failure| match self.devices.is_empty() {
                true => failure,
                false => devices::without_place(&self.study, failure),
            })?;
        let report = if self.no_report { None } else { Some(report(&results.directory)) };
        if self.json {
            say(results.to_json());
        } else {
            let (before, behind) = answer::around(&results, report);
            let table = table::lines(&plan, &results.runs, self.format, self.all)?;
            let beside: fn(&String) = match self.format {
                Format::Table => |line| say(line),
                Format::Csv | Format::Markdown => |line| warn(line),
            };
            before.iter().for_each(beside);
            table.iter().for_each(say);
            behind.iter().for_each(beside);
        }
        Ok(u8::from(!results.as_expected()))
    }

    /// Have the runs done on a cluster, which leaves their results where the study looks for what
    /// was finished before; the exit code.
    fn elsewhere(&self, on: &str, plan: &PlannedStudy) -> Result<u8, Failure> {
        if plan.travels() {
            return Err(Failure::input(format!(
                "--on {on}: this study boots a kernel of this machine"
            ))
            .expected("a study with a workload"));
        }
        python::find().map_err(python::missing)?;
        let mut command = Command::new(python::interpreter());
        command.args(["-m", "blocklab.cluster", "--on", on]).arg(&self.study);
        if let Some(out) = &self.out {
            command.arg("--out").arg(out);
        }
        for set in &self.sets {
            command.args(["--set", set]);
        }
        if self.json {
            command.arg("--json");
        }
        // In a group of its own, so that it hears of a signal once, from here.
        let child = command.stdin(Stdio::null()).process_group(0).spawn();
        let mut child =
            child.map_err(|why| python::missing(format!("cannot run Python: {why}")))?;
        let (group, ended_by) = (Pid::from_child(&child), AtomicI32::new(0));
        let stop = |signal| {
            ended_by.store(signal, Ordering::Relaxed);
            // It may have ended meanwhile.
            let _ = kill_process_group(group, Signal::INT);
        };
        let status = interrupt::during(stop, || child.wait());
        if let signal @ 1.. = ended_by.into_inner() {
            interrupt::end_by(signal);
        }
        // Killed, it has no code of its own.
        Ok(status.ok().and_then(|status| status.code()).map_or(3, |code| code as u8))
    }

    /// The plan, of boots that were recorded anew where that was asked for.
    #[cfg(feature = "linux")]
    fn planned(&mut self) -> Result<PlannedStudy, Failure> {
        let plan = self.plan()?;
        let Some(kernel) = self.live.take() else { return Ok(plan) };
        let folder = self.out.clone().unwrap_or_else(|| Path::new("out").join(&plan.name));
        let mut folder = folder.into_os_string();
        folder.push(".recordings");
        let known = plan.recorded_boots();
        self.sets.extend(super::boot::record_anew(&kernel, &known, Path::new(&folder))?);
        self.plan()
    }

    /// The plan of a study that boots nothing.
    #[cfg(not(feature = "linux"))]
    fn planned(&mut self) -> Result<PlannedStudy, Failure> {
        self.plan()
    }

    fn plan(&self) -> Result<PlannedStudy, Failure> {
        if !self.devices.is_empty() {
            return devices::plan(&self.study, &self.devices, &self.sets)
                .map_err(|failure| devices::without_place(&self.study, failure));
        }
        #[cfg(feature = "linux")]
        let runner = attach::Travelling::new(crate::binary::find);
        #[cfg(not(feature = "linux"))]
        let runner = study::Simulated;
        PlannedStudy::read_for(Box::new(runner), &self.study, &self.sets)
            .map_err(|failure| devices::hint(&self.study, failure))
    }

    /// A bug is reported with what repeats it.
    fn with_replay(&self, plan: &PlannedStudy, failure: Failure) -> Failure {
        match failure.kind {
            study::Kind::Bug => failure.help(format!(
                "this is a bug in blocklab; please report it with the study (digest {}) \
                 and\n    {}",
                plan.digest,
                self.replay()
            )),
            _ => failure,
        }
    }

    /// The command line that gives the same result.
    fn replay(&self) -> String {
        let devices = self.devices.iter().map(|part| format!(" --device {}", quoted(part)));
        let sets = self.sets.iter().map(|set| format!(" --set {}", quoted(set)));
        let rest: String = devices.chain(sets).collect();
        format!("blocklab run {}{rest}", quoted(&self.study))
    }
}

/// Run the study. A signal to end stops it first, so that what is half-written goes.
pub(super) fn interruptible(
    plan: &PlannedStudy,
    options: &Options,
    watch: &Watch,
) -> Result<Results, Failure> {
    let ended_by = AtomicI32::new(0);
    let stop = |signal| {
        ended_by.store(signal, Ordering::Relaxed);
        watch.stop();
    };
    let results = interrupt::during(stop, || {
        progress::during(plan, watch, || study::run(plan, options, watch))
    });
    match ended_by.into_inner() {
        0 => {}
        signal => {
            if plan.travels() && options.cache.is_some() {
                crate::warn("runs that were finished are kept: the same command goes on there");
            }
            interrupt::end_by(signal)
        }
    }
    results
}

/// What a program says; one that takes longer than a second is told of.
fn awaited(command: &mut Command) -> std::io::Result<Output> {
    let (done, waiting) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(SILENT_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
                warn("making the report");
            }
        });
        let output = command.output();
        drop(done);
        output
    })
}

/// Make the report; says where it is, or how to get one. A run never fails for its report.
fn report(directory: &Path) -> String {
    if let Err(why) = python::find() {
        return format!("no report ({why}); {}", python::install_command());
    }
    let mut command = Command::new(python::interpreter());
    command.args(["-m", "blocklab.report"]).arg(directory).stdin(Stdio::null());
    let failed = match awaited(&mut command) {
        Ok(output) if output.status.success() => {
            return format!("report  {}", directory.join("report.html").display());
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_string(),
        Err(error) => error.to_string(),
    };
    let last = failed.lines().last().unwrap_or("it said nothing");
    format!("no report: {last}; try blocklab report {}", directory.display())
}

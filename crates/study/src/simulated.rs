//! A run in virtual time: the workload's requests on the modelled device.

use std::time::Instant;

use serde_json::Value;
use sim::{Completion, Demand, Nanos, Request, RunError, Stop, Workload, WorkloadError, simulate};

use crate::advice::{self, Backlog};
use crate::digest;
use crate::document::RunSection;
use crate::failure::Failure;
use crate::locate;
use crate::metrics;
use crate::observe::Observed;
use crate::planned::{PlannedRun, Setup};
use crate::recorder::{Progress, Recorder};
use crate::runner::{Job, RunResult, Runner};
use crate::tables;

/// Readings of the device's counters per run.
const READINGS_MAX: usize = 100;

/// A workload whose time zero is the device's `start`, and which ends when told to stop.
pub(crate) struct Shifted<'a> {
    pub(crate) inner: Box<dyn Workload + Send>,
    pub(crate) start: Nanos,
    pub(crate) progress: &'a Progress,
}

impl Workload for Shifted<'_> {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        self.progress.check().map_err(|stopped| WorkloadError(stopped.message))?;
        // Changed where it lies: to take it apart and build it again is a tenth of a read's cost.
        let mut demand = self.inner.next(now.since(self.start));
        if let Ok(Demand::At(time)) = &mut demand {
            *time = time.saturating_add(self.start);
        }
        demand
    }
    fn complete(&mut self, request: &Request, completion: Completion) {
        let at = completion.at.since(self.start);
        self.inner.complete(request, Completion { at, ..completion });
    }
    fn notes(&self) -> Vec<String> {
        self.inner.notes()
    }
    fn measure_from(&self) -> Nanos {
        self.inner.measure_from()
    }
}

/// When to stop, for a run that begins at `start`.
fn stop(section: &RunSection, start: Nanos) -> Stop {
    let at = section
        .time
        .map_or(Nanos::MAX, |time| start.saturating_add(section.ramp.0).saturating_add(time.0));
    Stop { at, requests: section.requests.unwrap_or(u64::MAX) }
}

/// Runs in virtual time.
#[derive(Debug)]
pub(crate) struct Simulated;

impl Runner for Simulated {
    fn plan(&self, setup: &Setup) -> Result<Option<Value>, Failure> {
        setup.build_workload().map(|_| None)
    }

    fn run(&self, job: Job) -> Result<RunResult, Failure> {
        simulated(job)
    }
}

fn simulated(job: Job) -> Result<RunResult, Failure> {
    let Job { run, setup, index, mut device, start, progress, spools } = job;
    let mut section = run.point.run;
    let mut workload = Shifted { inner: setup.build_workload()?, start, progress };
    // A fio job may ask for a ramp of its own.
    section.ramp.0 = section.ramp.0.max(workload.measure_from());
    let expected = section.time.map(|time| time.0);
    let began = Instant::now();
    let mut recorder = Recorder::new(start, section.ramp.0, expected, progress);
    let mut observed = Observed::new(&mut *device, start + section.ramp.0, READINGS_MAX, expected);
    let stop = stop(&section, start);
    let mut backlog = Backlog::default();
    // The spools cost a check per event, so they take part only when they are wanted.
    let outcome = match spools.is_empty() {
        true => {
            let mut probe = (&mut recorder, &mut backlog);
            simulate(&mut observed, &mut workload, start, stop, &mut probe)
        }
        false => {
            let mut probe = (&mut recorder, (&mut backlog, spools));
            simulate(&mut observed, &mut workload, start, stop, &mut probe)
        }
    };
    let outcome = outcome.map_err(|error| run_failure(run, &error))?;
    let series = observed.finish(outcome.end);
    let wall = began.elapsed();

    let total = series.total();
    let mut metrics = metrics::simulated(&recorder, &total, &outcome);
    metrics::add_levels(&mut metrics, &series);
    let tables = tables::of_run(index, &recorder, &series, &*device);
    if section.power_cut {
        device.power_fail(outcome.end);
        metrics::add_rebuild(&mut metrics, &*device);
    }
    let result_digest = digest::of(&serde_json::json!({
        "end": outcome.end.0, "requests": outcome.requests,
        "completions": outcome.digest.to_string(), "response_ns": outcome.response_ns.to_string(),
        "metrics": metrics::digested(&metrics), "counters": total.counts,
    }));
    metrics::add_wall(&mut metrics, outcome.requests, wall);
    let mut notes = workload.notes();
    if outcome.in_flight_ns != outcome.response_ns {
        notes.push("Little's law does not hold on this run: this is a bug in blocklab".into());
    }
    notes.extend(advice::notes(run, (&metrics, &total), (&backlog, start, &outcome)));
    Ok(RunResult { metrics, result_digest, notes, tables })
}

/// A run that could not be finished, at the workload's table.
pub(crate) fn run_failure(run: &PlannedRun, error: &RunError) -> Failure {
    let failure = match error {
        RunError::Stuck { .. } => return Failure::bug(error.to_string()),
        _ => Failure::input(format!("{}: {error}", run.label)),
    };
    let path = ["workload".to_string(), run.point.workload.name().to_string()];
    match locate::place_of(&run.tree, &path) {
        Some(place) => failure.at(place),
        None => failure,
    }
}

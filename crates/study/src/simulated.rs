//! A run in virtual time: the workload's requests on the modelled device.

use std::time::Instant;

use serde_json::Value;
use sim::{Completions, Device, Nanos, Outcome, Stop, Workload};

use crate::advice::{self, Backlog};
use crate::digest;
use crate::document::RunSection;
use crate::jobs::Jobs;
use crate::metrics;
use crate::observe::Observed;
use crate::planned::Setup;
use crate::recorder::Recorder;
use crate::runner::{Job, RunResult, Runner};
use crate::shifted::{Shifted, run_failure};
use crate::tables::{self, Tables};
use config::Failure;

/// Readings of the device's counters per run.
const READINGS_MAX: usize = 100;

/// When to stop, for a run that begins at `start`.
fn stop(section: &RunSection, start: Nanos) -> Stop {
    let at = section
        .time
        .map_or(Nanos::MAX, |time| start.saturating_add(section.ramp.0).saturating_add(time.0));
    Stop { at, requests: section.requests.unwrap_or(u64::MAX) }
}

/// Runs in virtual time.
#[derive(Debug)]
pub struct Simulated;

impl Runner for Simulated {
    fn plan(&self, setup: &Setup) -> Result<Option<Value>, Failure> {
        setup.build_workload().map(|_| None)
    }

    fn run(&self, job: Job) -> Result<RunResult, Failure> {
        simulated(job)
    }
}

fn simulated(job: Job) -> Result<RunResult, Failure> {
    let Job { run, setup, mut device, start, progress, spools, metrics_only } = job;
    let mut section = run.point.run;
    let mut workload = Shifted::new(setup.build_workload()?, start, progress);
    // A fio job may ask for a ramp of its own.
    section.ramp.0 = section.ramp.0.max(workload.measure_from());
    // At most: the requests, or the workload, may end before.
    let expected = section.time.map(|time| time.0);
    let began = Instant::now();
    let mut recorder = Recorder::new(start, section.ramp.0, expected, progress);
    let readings = if metrics_only { 2 } else { READINGS_MAX };
    let origin = start.saturating_add(section.ramp.0);
    let mut observed = Observed::new(&mut *device, origin, readings, expected);
    let stop = stop(&section, start);
    let mut jobs = Jobs::of(&setup, start, section.ramp.0)?;
    let mut backlog = Backlog::default();
    // The spools cost a check per event, so they take part only when they are wanted.
    let outcome = if spools.is_empty() {
        let mut probe = (&mut recorder, (&mut backlog, &mut jobs));
        workload.go_on(&mut observed, start, stop, &mut probe)
    } else {
        let mut probe = (&mut recorder, (&mut backlog, (&mut jobs, &mut *spools)));
        workload.go_on(&mut observed, start, stop, &mut probe)
    };
    let outcome = outcome.map_err(|error| run_failure(run, &error))?;
    let series = observed.finish(outcome.end);
    let wall = began.elapsed();
    let total = series.total();
    let mut metrics = metrics::simulated(&recorder, &total, &series, &outcome);
    let waited = workload.waited().map(|waited| waited.as_secs_f64());
    metrics.insert(metrics::PROCESS_WAIT.into(), waited);
    // Before the power is cut.
    let worn = device.wear();
    let tables =
        if metrics_only { Tables::default() } else { tables::of_run(&recorder, &series, &worn) };
    if section.power_cut {
        cut(&mut *device, outcome.end);
        metrics::add_rebuild(&mut metrics, &*device);
    }
    let result_digest = digest::of(&serde_json::json!({
        "end": outcome.end.0, "requests": outcome.requests,
        "completions": outcome.digest.to_string(), "response_ns": outcome.response_ns.to_string(),
        "metrics": metrics::digested(&metrics), "counters": total.counts,
    }));
    // The digest has every completion already.
    let at_work = workload.at_work();
    jobs.add(&mut metrics, &at_work, outcome.end);
    // Wear is not in it, so that it is that of earlier versions.
    metrics::wear::add(&mut metrics, &worn, &total.parts);
    spools.ended(&at_work, outcome.end);
    metrics::add_wall(&mut metrics, outcome.requests, wall);
    let mut notes = workload.notes();
    notes.extend(irregularities(&section, &outcome, stop));
    notes.extend(advice::notes(run, &metrics, (&backlog, start, &outcome)));
    Ok(RunResult {
        metrics,
        result_digest,
        notes,
        tables,
        failed: None,
        settings: serde_json::Map::new(),
    })
}

/// What is wrong with a run as such.
fn irregularities(section: &RunSection, outcome: &Outcome, stop: Stop) -> Vec<String> {
    let mut notes = Vec::new();
    if outcome.in_flight_ns != outcome.response_ns {
        notes.push("Little's law does not hold on this run: this is a bug in blocklab".into());
    }
    if let Some(asked) = section.requests.filter(|asked| outcome.requests < *asked)
        && outcome.end < stop.at
    {
        notes.push(format!(
            "the workload ended after {} of the {asked} requests that [run] asks for; a fio job \
             goes on with loops or time_based",
            outcome.requests
        ));
    }
    notes
}

/// Cut the power. What the drive does by itself until then it has done.
fn cut(device: &mut dyn Device, at: Nanos) {
    while device.advance_until(at, &mut Completions::new()).is_some() {}
    device.power_fail(at);
}

//! Bringing a drive into its starting state.

use config::Failure;
use sim::{AHEAD, Bytes, Device, Lba, Nanos, Request, Rng, SECTOR_BYTES, Stop};

use crate::document::{Fill, Overwrite, PreconditionStep, UntilSteady};
use crate::files::Files;
use crate::locate;
use crate::metrics;
use crate::observe::Observed;
use crate::planned::PlannedRun;
use crate::prepared::{Gate, Prepared};
use crate::recorder::{Progress, Recorder};
use crate::shifted::{Shifted, run_failure};
use crate::steady;

/// Sequential fills are applied in requests of 1 TiB, so that a device which can fill itself in
/// bulk sees the whole span at once.
const FILL_SECTORS: u64 = 1 << 31;

/// Take every preconditioning step of `run` on a fresh device.
pub(crate) fn precondition(
    run: &PlannedRun,
    files: &Files,
    progress: &Progress,
) -> Result<Prepared, Failure> {
    let mut prepared = Prepared::fresh(run.build_device()?);
    for (index, step) in run.point.precondition.iter().enumerate() {
        let rng = run.rng().split(&format!("precondition {index}"));
        match step {
            PreconditionStep::Fill(step) => {
                fill(&mut *prepared.device, step, run.limits.capacity, progress)?;
            }
            PreconditionStep::Overwrite(step) => {
                overwrite(&mut *prepared.device, step, run.limits.capacity, rng, progress)?;
            }
            PreconditionStep::UntilSteady(step) => {
                until_steady(&mut prepared, step, run, index, rng, files, progress)?;
            }
        }
    }
    Ok(prepared)
}

fn fill(
    device: &mut dyn Device,
    step: &Fill,
    capacity: Bytes,
    progress: &Progress,
) -> Result<(), Failure> {
    let end = step.span.of(capacity).sectors();
    for _ in 0..step.passes {
        let mut lba = 0;
        while lba < end {
            progress.check()?;
            let sectors = FILL_SECTORS.min(end - lba);
            device.apply(&Request::write(Lba(lba), sectors as u32));
            lba += sectors;
        }
    }
    Ok(())
}

fn overwrite(
    device: &mut dyn Device,
    step: &Overwrite,
    capacity: Bytes,
    mut rng: Rng,
    progress: &Progress,
) -> Result<(), Failure> {
    let span = step.span.of(capacity);
    let unit = step.unit.0;
    let units = span.0 / unit.0;
    let sectors = unit.0 / SECTOR_BYTES;
    let mut left = step.writes.of(span).0 / unit.0;
    // Where a large drive's tables are touched next is known, so that is fetched ahead. Many at a
    // time: one by one, each would wait for its own walk of the processor's page tables.
    const BURST: usize = AHEAD / 2;
    let (mut present, mut next) = (Vec::new(), Vec::with_capacity(BURST));
    loop {
        for _ in 0..left.min(BURST as u64) {
            let write = Request::write(Lba(rng.below(units) * sectors), sectors as u32);
            device.prefetch(&write);
            next.push(write);
        }
        left -= next.len() as u64;
        for write in present.drain(..) {
            progress.check()?;
            device.apply(&write);
        }
        if next.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut present, &mut next);
    }
}

fn until_steady(
    prepared: &mut Prepared,
    step: &UntilSteady,
    run: &PlannedRun,
    index: usize,
    rng: Rng,
    files: &Files,
    progress: &Progress,
) -> Result<(), Failure> {
    let open = |name: &str| files.open(name);
    let context = workload::Context { rng, limits: run.limits, open: &open };
    let number = index.to_string();
    let model = &step.workload;
    let path = ["precondition", &number, "until_steady", "workload", model.name()];
    let failure = |error| locate::config_failure(&run.tree, &path, &error);
    let inner = model.build(&context).map_err(failure)?;
    let mut workload = Shifted::new(inner, prepared.start, progress);
    let (mut values, mut rounds) = (Vec::new(), Vec::new());
    let rule = steady::Rule::of(step);
    let holds = |values: &[f64], rounds: &[_]| rule.holds(values) && rule.keeps_up(rounds);
    let unwatched = Progress::default();
    while (values.len() as u32) < step.rounds_max && !holds(&values, &rounds) {
        let start = prepared.start;
        let mut recorder = Recorder::new(start, Nanos::ZERO, Some(step.round.0), &unwatched);
        // One reading at each end of the round is enough.
        let mut observed = Observed::new(&mut *prepared.device, start, 2, Some(step.round.0));
        let stop = Stop { at: start.saturating_add(step.round.0), ..Stop::default() };
        let outcome = workload
            .go_on(&mut observed, start, stop, &mut recorder)
            .map_err(|error| run_failure(run, &error))?;
        let series = observed.finish(outcome.end);
        let total = series.total();
        let mut metrics = metrics::simulated(&recorder, &total, &series, &outcome);
        metrics::wear::add(&mut metrics, &prepared.device.wear(), &total.parts);
        let Some(value) = metrics.get(&step.metric).copied().flatten() else {
            let what = format!("`{}` is undefined in round {}", step.metric, values.len() + 1);
            return Err(Failure::input(what)
                .expected("a workload whose rounds all define the metric")
                .help("lengthen `round`, or choose another metric"));
        };
        values.push(value);
        rounds.push(metrics);
        prepared.start = outcome.end.max(start + Nanos(1));
    }
    let steady = holds(&values, &rounds);
    let why = if rule.holds(&values) {
        ": collection brought back fewer blocks than were begun, so writes were still to become \
         slower; longer or more rounds (round, rounds_max), or overwrite the drive before"
    } else {
        ""
    };
    let rounds = values.len() as u32;
    if !steady {
        prepared.notes.push(format!(
            "{} was not steady after {rounds} rounds: results describe a drive in transition{why}",
            step.metric,
        ));
    }
    prepared.gate = Some(Gate { steady, rounds, metric: step.metric.clone(), values });
    Ok(())
}

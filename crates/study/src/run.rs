//! Running a plan: in parallel, preconditioned once per configuration, everything or nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use config::Failure;
use sim::SnapshotError;

use crate::files::Files;
use crate::kept::{Finished, Kept};
use crate::lock::lock;
use crate::options::Options;
use crate::output::{Output, unwritable};
use crate::plan::PlannedStudy;
use crate::planned::PlannedRun;
use crate::precondition::precondition;
use crate::prepared::Prepared;
use crate::recorder::Progress;
use crate::results::{Measured, Results};
use crate::runner::{Job, RunResult};
use crate::shared_drives::SharedDrives;
use crate::spool::Spools;

/// What a watcher sees while a study runs.
#[derive(Debug, Default)]
pub struct Watch {
    /// Runs that are finished.
    pub(crate) done: AtomicUsize,
    /// Of these, those that an interrupted run of the study had finished.
    pub taken: AtomicUsize,
    /// One per run.
    pub runs: Vec<Progress>,
}

impl Watch {
    /// A watch for a plan.
    pub fn new(plan: &PlannedStudy) -> Watch {
        let runs = plan.runs.iter().map(|_| Progress::default()).collect();
        Watch { runs, ..Watch::default() }
    }

    /// Runs that are finished.
    pub fn finished(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// The share of the study that is done; runs of unknown length count when they end.
    pub fn share(&self, plan: &PlannedStudy) -> f64 {
        let runs = plan.runs.iter().zip(&self.runs);
        let known: f64 = runs.map(|(run, progress)| run.share_done(progress).unwrap_or(0.0)).sum();
        known.max(self.finished() as f64) / plan.runs.len() as f64
    }

    /// End the study soon, as a failure that leaves nothing behind.
    pub fn stop(&self) {
        self.runs.iter().for_each(|run| run.stop.store(true, Ordering::Relaxed));
    }
}

/// Run every run of the plan and write the results.
///
/// # Errors
/// The failure of the first run that failed, or what kept the results from being written. Nothing
/// is left behind then.
pub fn run(plan: &PlannedStudy, options: &Options, watch: &Watch) -> Result<Results, Failure> {
    let began = Instant::now();
    check_options(plan, options)?;
    let target = options.out.clone().unwrap_or_else(|| Path::new("out").join(&plan.name));
    let mut output = Output::begin(&target)?;
    let kept = Kept::beside(output.target());
    // Who wants everything anew says so; and what is spooled is not kept.
    let keeps = !options.anew && !options.spools();
    let queue = RunQueue::new(plan, options, watch, (output.path(), keeps.then_some(&kept)));
    let (results, mut notes) = queue.all()?;
    if let taken @ 1.. = watch.taken.load(Ordering::Relaxed) {
        notes.push(format!(
            "{taken} runs were finished before, by a study that was interrupted or elsewhere"
        ));
    }
    notes.extend(kept.others(plan));
    if kept.is_used() {
        output.replaces_what_was_kept();
    }
    let results = Results::write(plan, options, results, notes, began.elapsed(), output)?;
    kept.clear(plan);
    Ok(results)
}

/// The metrics of every run of the plan, in its order, and nothing written: for who runs one small
/// plan after the other.
///
/// # Errors
/// The failure of the first run that failed.
pub fn measure(plan: &PlannedStudy, watch: &Watch) -> Result<Vec<RunResult>, Failure> {
    let options = Options::default();
    let queue = RunQueue::new(plan, &options, watch, (Path::new(""), None));
    let (measured, _) = RunQueue { metrics_only: true, ..queue }.all()?;
    Ok(measured.into_iter().map(Measured::into_result).collect())
}

/// What travels has its requests in a guest, where nothing of the study sees them one by one.
fn check_options(plan: &PlannedStudy, options: &Options) -> Result<(), Failure> {
    let asked = [
        ("--records", options.records),
        ("--perfetto", options.perfetto),
        ("--fio-json", options.fio_json),
    ];
    match asked.iter().find(|(_, asked)| *asked) {
        Some((option, _)) if plan.travels() => {
            Err(Failure::input(format!("{option}: a study that travels has no such record"))
                .expected("a study with a workload")
                .help("blocklab travel PART --record FILE -- CMD records a single session"))
        }
        _ => Ok(()),
    }
}

pub(crate) struct RunQueue<'a> {
    plan: &'a PlannedStudy,
    options: &'a Options,
    watch: &'a Watch,
    /// Where runs spool what is too much for memory.
    directory: &'a Path,
    /// Runs that need not be done again.
    kept: Option<&'a Kept>,
    /// Of each run only the metrics: no tables.
    metrics_only: bool,
    /// What happened to the cache.
    notes: Mutex<Vec<String>>,
    failed: AtomicBool,
    results: Vec<Mutex<Option<Result<Measured, Failure>>>>,
    drives: SharedDrives<'a>,
}

/// Whose drive a run starts from.
#[derive(Clone, Copy)]
enum DriveSource {
    /// That of all runs with its preconditioning.
    Shared,
    /// One of its own: the shared one cannot be read any more.
    Own,
}

impl<'a> RunQueue<'a> {
    pub(crate) fn new(
        plan: &'a PlannedStudy,
        options: &'a Options,
        watch: &'a Watch,
        (directory, kept): (&'a Path, Option<&'a Kept>),
    ) -> RunQueue<'a> {
        let digests = plan.runs.iter().map(|run| run.precondition_digest.as_deref());
        RunQueue {
            plan,
            options,
            watch,
            directory,
            kept,
            metrics_only: false,
            notes: Mutex::default(),
            failed: AtomicBool::new(false),
            results: plan.runs.iter().map(|_| Mutex::default()).collect(),
            drives: SharedDrives::new(digests),
        }
    }

    /// Every run, on as many threads as are wanted, and what happened to the cache.
    fn all(self) -> Result<(Vec<Measured>, Vec<String>), Failure> {
        let jobs = match self.options.jobs {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            jobs => jobs,
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs.min(self.plan.runs.len()) {
                scope.spawn(|| self.work());
            }
        });
        let slots = self.results.into_iter();
        // What has no result was not started, because another run failed.
        let results =
            slots.filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
        let notes = self.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((results.collect::<Result<_, _>>()?, notes))
    }

    /// Take runs from the queue until it is empty or one failed.
    fn work(&self) {
        while !self.failed.load(Ordering::Relaxed) {
            let Some(index) = self.drives.take_run() else { break };
            let result = self.one(index, &self.plan.runs[index]);
            self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
            let measured = result.map(|finished| Measured::new(index as u32, finished));
            *lock(&self.results[index]) = Some(measured);
            self.watch.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The run of that number, from what is kept or else anew.
    pub(crate) fn one(&self, index: usize, run: &PlannedRun) -> Result<Finished, Failure> {
        if let Some(finished) = self.kept.and_then(|kept| kept.load(run)) {
            self.watch.taken.fetch_add(1, Ordering::Relaxed);
            if let Some(digest) = run.precondition_digest.as_deref() {
                self.drives.not_needed(digest);
            }
            return Ok(finished);
        }
        let began = Instant::now();
        run.check_files()?;
        let finished = self.caught(index, run);
        // What a file that changed meanwhile gave is no result of this digest, and no fault either.
        let finished = run.check_files().and(finished)?;
        let kept = self.kept.map(|kept| kept.store(run, &finished, began.elapsed()));
        if let Some(Err(why)) = kept {
            lock(&self.notes).push(format!("{} could not be kept meanwhile: {why}", run.label));
        }
        Ok(finished)
    }

    /// The run of that number; a panic is a failure.
    fn caught(&self, index: usize, run: &PlannedRun) -> Result<Finished, Failure> {
        let attempt = |source| catch_unwind(AssertUnwindSafe(|| self.anew(index, run, source)));
        let finished = attempt(DriveSource::Shared).or_else(|payload| {
            match payload.downcast_ref::<SnapshotError>() {
                // On a file system of several machines, another may have removed it under way.
                Some(SnapshotError::Unread(why)) => {
                    lock(&self.notes).push(format!(
                        "the saved drive of {} vanished while it ran, which was repeated: {why}",
                        run.label
                    ));
                    attempt(DriveSource::Own)
                }
                _ => Err(payload),
            }
        });
        finished.unwrap_or_else(|payload| Err(self.panicked(run, &*payload)))
    }

    fn anew(
        &self,
        index: usize,
        run: &PlannedRun,
        source: DriveSource,
    ) -> Result<Finished, Failure> {
        let files = Files::new(&self.plan.directory);
        let progress = &self.watch.runs[index];
        let make = |digest| self.make(digest, run, &files, progress);
        let prepared = match (run.precondition_digest.as_deref(), source) {
            (None, _) => Prepared::fresh(run.build_device()?),
            (Some(digest), DriveSource::Shared) => self.drives.fork(digest, || make(digest))?,
            (Some(digest), DriveSource::Own) => make(digest)?,
        };
        let Prepared { device, start, gate, mut notes } = prepared;
        let mut spools = Spools::begin(
            self.options,
            self.directory,
            run,
            (index as u32, self.plan.runs.len()),
            &*device,
            start,
            if self.options.fio_json { Some(run.fio_recorder(&files)?) } else { None },
        )
        .map_err(|error| unwritable(self.directory, &error))?;
        let mut result = self.plan.runner.run(Job {
            run,
            setup: run.setup(&files),
            device,
            start,
            progress,
            spools: &mut spools,
            metrics_only: self.metrics_only,
        })?;
        notes.append(&mut result.notes);
        let spooled = spools.finish();
        notes.extend(spooled.map_err(|error| unwritable(Path::new("the spool"), &error))?);
        result.notes = notes;
        Ok(Finished { result, gate })
    }

    /// Why a run unwound: its saved drive is damaged, or there is a bug.
    fn panicked(&self, run: &PlannedRun, payload: &(dyn Any + Send)) -> Failure {
        match (payload.downcast_ref::<SnapshotError>(), &self.options.cache) {
            (Some(SnapshotError::Unread(why)), Some(cache)) => {
                let place = cache.path(run.precondition_digest.as_deref().unwrap_or_default());
                Failure::machine(format!("the saved drive {}: {why}", place.display()))
                    .expected("a file that can be read as long as the run lasts")
                    .help("run the study again; --no-cache makes the drive anew, without the file")
            }
            (Some(SnapshotError::Damaged(why)), Some(cache)) => {
                let digest = run.precondition_digest.as_deref().unwrap_or_default();
                let place = cache.remove(digest);
                Failure::machine(format!("the saved drive {} is damaged: {why}", place.display()))
                    .help("it was removed; run the study again, and the drive is made anew")
            }
            _ => panicked(run, payload),
        }
    }
}

impl RunQueue<'_> {
    /// A preconditioned device: from the cache, or else made and put there.
    pub(crate) fn make(
        &self,
        digest: &str,
        run: &PlannedRun,
        files: &Files,
        progress: &Progress,
    ) -> Result<Prepared, Failure> {
        let Some(cache) = &self.options.cache else { return precondition(run, files, progress) };
        match cache.load(digest, run.build_device()?) {
            Ok(Some(prepared)) => return Ok(prepared),
            Ok(None) => {}
            Err(damage) => lock(&self.notes).push(damage),
        }
        let began = Instant::now();
        let prepared = precondition(run, files, progress);
        // It is stored under the digest of the files as they were.
        let prepared = run.check_files().and(prepared)?;
        // Without a cache the same study runs as well, only slower.
        if began.elapsed() >= cache.worth {
            let note = cache.store(digest, &prepared).unwrap_or_else(|error| {
                let place = cache.directory.display();
                Some(format!("the drive could not be kept in {place}: {error}"))
            });
            lock(&self.notes).extend(note);
        }
        Ok(prepared)
    }
}

/// What a panic said; nothing where that was no text.
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn panicked(run: &PlannedRun, payload: &(dyn Any + Send)) -> Failure {
    let text = panic_text(payload);
    Failure::bug(format!("the run `{}` panicked: {text}", run.label))
        .help(format!("this is a bug in blocklab; please report it with run digest {}", run.digest))
}

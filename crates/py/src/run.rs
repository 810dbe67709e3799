//! Running a study inside the Python process.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use study::{Cache, Failure, Options, Plan, Results, Watch};

use crate::error::raised;

/// How often Ctrl-C is looked for.
const POLL: Duration = Duration::from_millis(50);

/// Run the study `study` (a path, or a shipped study's name) with `sets` (`key=value`) laid over
/// it. Returns the directory of the results and `result.json` as text.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one per keyword of the Python function")]
pub(crate) fn run_study(
    py: Python<'_>,
    study: String,
    sets: Vec<String>,
    jobs: usize,
    out: Option<PathBuf>,
    records: bool,
    perfetto: bool,
    replay: String,
) -> PyResult<(PathBuf, String)> {
    let plan = py.detach(|| Plan::read(&study, &sets)).map_err(|failure| raised(py, &failure))?;
    let cache = Cache::of_user().map_err(|failure| raised(py, &failure))?;
    let options = Options { jobs, out, records, perfetto, fio_json: false, cache, replay };
    let watch = Watch::new(&plan);
    let (outcome, interrupt) = py.detach(|| watched(&plan, &options, &watch));
    match (outcome, interrupt) {
        (_, Some(interrupt)) => Err(interrupt),
        (Err(failure), None) => Err(raised(py, &failure)),
        (Ok(results), None) => Ok((results.directory.clone(), results.to_json().to_string())),
    }
}

/// The results, and the exception that a Python signal handler raised meanwhile.
fn watched(
    plan: &Plan,
    options: &Options,
    watch: &Watch,
) -> (Result<Results, Failure>, Option<PyErr>) {
    let caller = thread::current();
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let outcome = study::run(plan, options, watch);
            caller.unpark(); // so that a short study need not wait for the next poll
            outcome
        });
        let mut interrupt = None;
        while !worker.is_finished() {
            thread::park_timeout(POLL);
            if interrupt.is_none() {
                interrupt = Python::attach(|py| py.check_signals()).err();
                if interrupt.is_some() {
                    watch.stop();
                }
            }
        }
        let outcome = worker.join().unwrap_or_else(|_| Err(Failure::bug("the study panicked")));
        (outcome, interrupt)
    })
}

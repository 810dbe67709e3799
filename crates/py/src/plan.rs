//! Studies that are known to be sound, run inside the Python process.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use study::{Cache, Failure, Options, Watch};

use crate::error::raised;

/// How often Ctrl-C is looked for.
const POLL: Duration = Duration::from_millis(50);
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// A study that is known to be sound.
#[pyclass(frozen, name = "Plan", module = "blocklab._core")]
pub(crate) struct PlannedStudy(study::PlannedStudy);

#[pymethods]
impl PlannedStudy {
    /// The study `study` (a path, or a shipped one's name) with `sets` (`key=value`) laid over it.
    #[staticmethod]
    fn read(py: Python<'_>, study: &str, sets: Vec<String>) -> PyResult<PlannedStudy> {
        of(py, || study::PlannedStudy::read(study, &sets))
    }

    /// The same of a study in `text`, whose files are looked for in `directory` first.
    #[staticmethod]
    fn parse(
        py: Python<'_>,
        directory: PathBuf,
        name: &str,
        text: &str,
        sets: Vec<String>,
    ) -> PyResult<PlannedStudy> {
        of(py, || study::PlannedStudy::parse_in(&directory, name, text, &sets))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Of everything that the results depend on.
    #[getter]
    fn digest(&self) -> &str {
        &self.0.digest
    }

    /// The study's text as it was read, before anything was laid over it.
    #[getter]
    fn text(&self) -> &str {
        self.0.text()
    }

    /// Where the files it names are looked for first.
    #[getter]
    fn directory(&self) -> PathBuf {
        self.0.directory().to_path_buf()
    }

    /// By run: its label, its digest, and that of the drive it starts from.
    #[getter]
    fn runs(&self) -> Vec<(&str, &str, Option<&str>)> {
        let runs = self.0.runs.iter();
        runs.map(|run| (&*run.label, &*run.digest, run.precondition_digest.as_deref())).collect()
    }

    /// Run all of it. Returns the directory of the results and `result.json` as text. `tell` is
    /// called with (share that is done, finished runs).
    #[expect(clippy::too_many_arguments, reason = "one per keyword of the Python function")]
    fn run(
        &self,
        py: Python<'_>,
        jobs: usize,
        out: Option<PathBuf>,
        records: bool,
        perfetto: bool,
        replay: String,
        tell: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(PathBuf, String)> {
        let cache = Cache::of_user().map_err(|failure| raised(py, &failure))?;
        let options = Options { jobs, out, records, perfetto, cache, replay, ..Options::default() };
        let results = self.attended(py, tell, |plan, watch| study::run(plan, &options, watch))?;
        Ok((results.directory.clone(), results.to_json().to_string()))
    }

    /// Measure the run of that number alone; drives are kept in the folder `cache`, or in that of
    /// the user. Returns what `take` takes.
    fn measure<'py>(
        &self,
        py: Python<'py>,
        number: usize,
        cache: Option<PathBuf>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let cache = drives(py, cache)?;
        let bytes =
            self.attended(py, None, |plan, watch| plan.measure(number, cache.clone(), watch))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Make the drive that the run of that number starts from, and return the place of its image.
    fn prepare(
        &self,
        py: Python<'_>,
        number: usize,
        cache: Option<PathBuf>,
    ) -> PyResult<Option<PathBuf>> {
        let Some(cache) = drives(py, cache)? else { return Ok(None) };
        self.attended(py, None, |plan, watch| plan.prepare(number, &cache, watch))
    }

    /// The place of that image, whether it exists or not.
    fn image(
        &self,
        py: Python<'_>,
        number: usize,
        cache: Option<PathBuf>,
    ) -> PyResult<Option<PathBuf>> {
        let Some(cache) = drives(py, cache)? else { return Ok(None) };
        self.0.image(number, &cache).map_err(|failure| raised(py, &failure))
    }

    /// Take over what `measure` returned for the run of that number, for results in `out`.
    fn take(&self, py: Python<'_>, number: usize, bytes: &[u8], out: PathBuf) -> PyResult<()> {
        self.0.take(number, bytes, &out).map_err(|failure| raised(py, &failure))
    }

    /// Refuse a place where the results could not be written.
    fn check_output(&self, py: Python<'_>, out: PathBuf) -> PyResult<()> {
        self.0.check_output(&out).map_err(|failure| raised(py, &failure))
    }

    /// The numbers of the runs that are still to be done for results in `out`.
    fn left(&self, out: PathBuf) -> Vec<usize> {
        self.0.left(&out)
    }
}

impl PlannedStudy {
    /// What `work` gives, in another thread: this one looks for Ctrl-C, and tells progress.
    fn attended<T: Send>(
        &self,
        py: Python<'_>,
        tell: Option<Bound<'_, PyAny>>,
        work: impl Fn(&study::PlannedStudy, &Watch) -> Result<T, Failure> + Sync,
    ) -> PyResult<T> {
        let (plan, watch, tell) = (&self.0, Watch::new(&self.0), tell.map(Bound::unbind));
        let (outcome, raised_here) = py.detach(|| {
            let (caller, done) = (thread::current(), AtomicBool::new(false));
            thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    let outcome = work(plan, &watch);
                    // So that a short study need not wait for the next poll.
                    done.store(true, Ordering::Release);
                    caller.unpark();
                    outcome
                });
                let (mut raised_here, mut told) = (None, Instant::now());
                while !done.load(Ordering::Acquire) && !worker.is_finished() {
                    thread::park_timeout(POLL);
                    if raised_here.is_some() {
                        continue;
                    }
                    let tell = tell.as_ref().filter(|_| told.elapsed() >= TELL_EVERY);
                    raised_here = Python::attach(|py| {
                        py.check_signals()?;
                        if let Some(tell) = tell {
                            told = Instant::now();
                            tell.call1(py, (watch.share(plan), watch.finished()))?;
                        }
                        Ok(())
                    })
                    .err();
                    if raised_here.is_some() {
                        watch.stop();
                    }
                }
                let panicked = |_| Err(Failure::bug("the study panicked"));
                let outcome = worker.join().unwrap_or_else(panicked);
                // Whoever draws a bar sees it full.
                if let Some(tell) = tell.filter(|_| outcome.is_ok() && raised_here.is_none()) {
                    let now = (watch.share(plan), watch.finished());
                    raised_here = Python::attach(|py| tell.call1(py, now).map(drop)).err();
                }
                (outcome, raised_here)
            })
        });
        match raised_here {
            Some(raised_here) => Err(raised_here),
            None => outcome.map_err(|failure| raised(py, &failure)),
        }
    }
}

fn of(
    py: Python<'_>,
    read: impl FnOnce() -> Result<study::PlannedStudy, Failure> + Send,
) -> PyResult<PlannedStudy> {
    py.detach(read).map(PlannedStudy).map_err(|failure| raised(py, &failure))
}

/// Where drives are kept: in that folder, or in the user's.
fn drives(py: Python<'_>, folder: Option<PathBuf>) -> PyResult<Option<Cache>> {
    let cache = Cache::of_user().map_err(|failure| raised(py, &failure))?;
    Ok(match (cache, folder) {
        (Some(cache), Some(directory)) => Some(Cache { directory, ..cache }),
        (None, Some(directory)) => Some(Cache::at(directory)),
        (cache, None) => cache,
    })
}

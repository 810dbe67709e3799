//! A study in parts: single runs on any machine, and what they gave taken over by the one that
//! writes the results. All machines have the same blocklab and read the same study.

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Failure;

use crate::files::Files;
use crate::image::Cache;
use crate::kept::Kept;
use crate::options::Options;
use crate::output::Output;
use crate::plan::PlannedStudy;
use crate::planned::PlannedRun;
use crate::run::{RunQueue, Watch};

impl PlannedStudy {
    /// Measure the run of that number, and give what [`PlannedStudy::take`] takes.
    ///
    /// # Errors
    /// Those of the run, or that there is none of that number.
    pub fn measure(
        &self,
        number: usize,
        cache: Option<Cache>,
        watch: &Watch,
    ) -> Result<Vec<u8>, Failure> {
        let run = self.numbered(number)?;
        let options = Options { cache, ..Options::default() };
        let queue = RunQueue::new(self, &options, watch, (Path::new(""), None));
        let finished = queue.one(number, run)?;
        finished.to_bytes(run).ok_or_else(|| {
            let why = finished.result.failed.unwrap_or_default();
            Failure::machine(format!("{} came to nothing: {why}", run.label))
        })
    }

    /// The place in `cache` of the image of the drive that the run of that number starts from;
    /// `None` when it starts from a new drive.
    ///
    /// # Errors
    /// When there is no run of that number.
    pub fn image(&self, number: usize, cache: &Cache) -> Result<Option<PathBuf>, Failure> {
        let digest = self.numbered(number)?.precondition_digest.as_deref();
        Ok(digest.map(|digest| cache.path(digest)))
    }

    /// Make that drive, if its image is not there, and give the image's place; `None` also when it
    /// could not be kept.
    ///
    /// # Errors
    /// Those of preconditioning, or that there is no run of that number.
    pub fn prepare(
        &self,
        number: usize,
        cache: &Cache,
        watch: &Watch,
    ) -> Result<Option<PathBuf>, Failure> {
        let run = self.numbered(number)?;
        let Some(digest) = &run.precondition_digest else { return Ok(None) };
        let path = cache.path(digest);
        if !path.exists() {
            let cache = Cache { worth: Duration::ZERO, ..cache.clone() };
            let options = Options { cache: Some(cache), ..Options::default() };
            let queue = RunQueue::new(self, &options, watch, (Path::new(""), None));
            queue.make(digest, run, &Files::new(&self.directory), &watch.runs[number])?;
        }
        Ok(path.exists().then_some(path))
    }

    /// Take over what [`PlannedStudy::measure`] gave for the run of that number: the study whose
    /// results go to `target` will not do it again.
    ///
    /// # Errors
    /// When the bytes are of another run or of another version, or cannot be kept.
    pub fn take(&self, number: usize, bytes: &[u8], target: &Path) -> Result<(), Failure> {
        Kept::beside(target).take(self.numbered(number)?, bytes)
    }

    /// Refuse a place where the results could not be written, before anything is done elsewhere.
    ///
    /// # Errors
    /// As [`crate::run()`] does.
    pub fn check_output(&self, target: &Path) -> Result<(), Failure> {
        Output::begin(target).map(drop)
    }

    /// The numbers of the runs that are still to be done for `target`.
    pub fn left(&self, target: &Path) -> Vec<usize> {
        let kept = Kept::beside(target);
        (0..self.runs.len()).filter(|&number| kept.load(&self.runs[number]).is_none()).collect()
    }

    fn numbered(&self, number: usize) -> Result<&PlannedRun, Failure> {
        self.runs.get(number).ok_or_else(|| {
            Failure::input(format!("there is no run {number}"))
                .expected(format!("a number below {}", self.runs.len()))
        })
    }
}

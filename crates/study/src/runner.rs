//! How one run of a study is run: simulated here, or by whoever hands in another way.

use std::fmt::Debug;

use serde_json::{Map, Value};
use sim::{Device, Nanos};

use crate::metrics::Metrics;
use crate::planned::{PlannedRun, Setup};
use crate::recorder::Progress;
use crate::spool::Spools;
use crate::tables::Tables;
use config::Failure;

/// A way to run the points of a grid. The grid, preconditioning, digests, results and expectations
/// are the same for all of them.
pub trait Runner: Debug + Send + Sync {
    /// Check a point, before any point runs. Returns what its outcome depends on beside the
    /// point itself, the seed, the files that it names, and blocklab's code: that becomes a part of
    /// its digest.
    ///
    /// # Errors
    /// When the point cannot be run, with the place of what is to blame.
    fn plan(&self, setup: &Setup) -> Result<Option<Value>, Failure>;

    /// Run a point. Several threads do so at a time.
    ///
    /// # Errors
    /// When it could not be finished; the study ends with that.
    fn run(&self, job: Job) -> Result<RunResult, Failure>;
}

/// One run of a plan and what it starts from.
pub struct Job<'a> {
    /// The run.
    pub run: &'a PlannedRun,
    /// What it was planned from.
    pub setup: Setup<'a>,
    /// The device in its starting state.
    pub device: Box<dyn Device>,
    /// The device's present moment.
    pub start: Nanos,
    /// What whoever watches the study is told, and how the run learns that it is to end early.
    pub progress: &'a Progress,
    /// Is to be told of every request, where the user asked for that.
    pub spools: &'a mut Spools,
    /// Nobody looks at its tables: they may be left out.
    pub metrics_only: bool,
}

/// What one run gave.
#[derive(Debug)]
pub struct RunResult {
    /// The numbers, by the names of [`crate::metrics::definitions`].
    pub metrics: Metrics,
    /// Digest of everything that was measured and does not depend on this machine.
    pub result_digest: String,
    /// What a reader must know of this run.
    pub notes: Vec<String>,
    /// What was measured over time and by unit.
    pub tables: Tables,
    /// Why it came to nothing, where that is no reason to give up the others.
    pub failed: Option<String>,
    /// What it ran with, read back.
    pub settings: Map<String, Value>,
}

//! A workload on a device that has been in use, and why it could not go on.

use config::Failure;
use sim::{Completion, Demand, Lba, Nanos, Request, RunError, Workload, WorkloadError};

use crate::locate;
use crate::planned::PlannedRun;
use crate::recorder::Progress;

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
    #[inline]
    fn ahead(&self) -> Option<Lba> {
        self.inner.ahead()
    }
    fn notes(&self) -> Vec<String> {
        self.inner.notes()
    }
    fn busy_after(&self) -> Nanos {
        self.inner.busy_after()
    }

    fn waited(&self) -> Option<Nanos> {
        self.inner.waited()
    }

    fn measure_from(&self) -> Nanos {
        self.inner.measure_from()
    }
}

const WITHOUT_TIME: &str = "a read of what was never written takes no time: write it first with \
     [[precondition]] fill = {}, or say how many: [run] requests = 100000";

/// A run that could not be finished, at the workload's table.
pub(crate) fn run_failure(run: &PlannedRun, error: &RunError) -> Failure {
    let failure = match error {
        RunError::Stuck { .. } => return Failure::bug(error.to_string()),
        RunError::NoTime { .. } => {
            Failure::input(format!("{}: {error}", run.label)).help(WITHOUT_TIME)
        }
        RunError::TooLong { .. } => Failure::input(format!("{}: {error}", run.label))
            .help("take a device that is quicker, or ask it for less"),
        _ => Failure::input(format!("{}: {error}", run.label)),
    };
    let path = ["workload".to_string(), run.point.workload_name().to_string()];
    match locate::place_of(&run.tree, &path) {
        Some(place) => failure.at(place),
        None => failure,
    }
}

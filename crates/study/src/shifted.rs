//! A workload on a device that has been in use, and why it could not go on.

use config::Failure;
use sim::{
    Completion, Demand, Device, Lba, Nanos, Outcome, Probe, Request, RequestId, RunError, Stop,
    Workload, WorkloadError, simulate,
};

use crate::locate;
use crate::planned::PlannedRun;
use crate::recorder::Progress;

/// A workload whose time zero is the device's `start`, and which ends when told to stop.
pub(crate) struct Shifted<'a> {
    inner: Box<dyn Workload + Send>,
    start: Nanos,
    progress: &'a Progress,
    /// Requests of earlier rounds: the driver numbers those of each from 0, and to the workload
    /// they are all one run.
    earlier: u64,
}

impl<'a> Shifted<'a> {
    pub(crate) fn new(
        inner: Box<dyn Workload + Send>,
        start: Nanos,
        progress: &'a Progress,
    ) -> Shifted<'a> {
        Shifted { inner, start, progress, earlier: 0 }
    }

    /// Go on with it on `device` from `start`, until it ends or is to stop.
    ///
    /// # Errors
    /// As [`simulate`].
    pub(crate) fn go_on<D: Device + ?Sized, P: Probe + ?Sized>(
        &mut self,
        device: &mut D,
        start: Nanos,
        stop: Stop,
        probe: &mut P,
    ) -> Result<Outcome, RunError> {
        let outcome = simulate(device, self, start, stop, probe)?;
        // All that was issued is complete.
        self.earlier += outcome.requests;
        Ok(outcome)
    }
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
        if self.earlier == 0 {
            return self.inner.complete(request, Completion { at, ..completion });
        }
        let id = RequestId(self.earlier + completion.id.0);
        self.inner.complete(&Request { id, ..*request }, Completion { at, id });
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

    fn at_work(&self) -> Vec<(Nanos, Nanos)> {
        let here = |time: Nanos| time.saturating_add(self.start);
        let all = self.inner.at_work().into_iter();
        all.map(|(began, ended)| (here(began), here(ended))).collect()
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

const DISCARDS_WITHOUT_TIME: &str = "discards take no time on this part: say how many ([run] \
     requests = 100000, or a job's number_ios), or give them a rate";

/// A run that could not be finished, at the workload's table.
pub(crate) fn run_failure(run: &PlannedRun, error: &RunError) -> Failure {
    let failure = match error {
        RunError::Stuck { .. } => return Failure::bug(error.to_string()),
        RunError::NoTime { what, .. } => Failure::input(format!("{}: {error}", run.label))
            .help(if *what == sim::Op::Discard { DISCARDS_WITHOUT_TIME } else { WITHOUT_TIME }),
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

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use sim::Rng;

    use super::*;

    /// Where requests went.
    #[derive(Default)]
    struct Places(Vec<u64>);

    impl Probe for Places {
        fn on_issue(&mut self, _: Nanos, request: &Request) {
            self.0.push(request.lba.0);
        }
    }

    /// What follows a completion follows that one in a later round, too, whose ids begin anew.
    #[test]
    fn a_replay_by_dependencies_goes_on_in_the_next_round() {
        // Each is issued 10 us after the answer to the one before.
        let line = |i: u64| format!("{},h,0,Read,{},4096,900\n", i * 1000, i * 4096);
        let recorded: String = (0..1000).map(line).collect();
        let open = |_: &str| -> std::io::Result<Box<dyn Read + Send>> {
            Ok(Box::new(Cursor::new(recorded.clone().into_bytes())))
        };
        let device = models::device::null::Params::default();
        let mut device = device.build(&config::device::Context { rng: Rng::new(1, "d") }).unwrap();
        let context =
            workload::Context { rng: Rng::new(1, "w"), limits: device.limits(), open: &open };
        let table = "trace = { file = 'a.csv', format = 'msr', replay = 'dependencies' }";
        let table: toml::Value = toml::Value::Table(table.parse().unwrap());
        let model: models::registry::WorkloadModel = table.try_into().unwrap();
        let progress = Progress::default();
        let begin = Nanos::from_millis(7);
        let mut workload = Shifted::new(model.build(&context).unwrap(), begin, &progress);
        let (mut start, mut places) = (begin, Places::default());
        for _ in 0..3 {
            let stop = Stop { at: start + Nanos::from_millis(1), ..Stop::default() };
            start = workload.go_on(&mut *device, start, stop, &mut places).unwrap().end;
        }
        // 20 us each: 50 to a round.
        let expected: Vec<u64> = (0..150).map(|i| i * 8).collect();
        assert_eq!(places.0, expected);
    }
}

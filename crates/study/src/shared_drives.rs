//! Preconditioned drives that several runs start from, and the order in which runs are taken, so
//! that few of them are in memory at a time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use config::Failure;

use crate::lock::lock;
use crate::prepared::Prepared;

/// A drive, and the runs that start from it.
#[derive(Default)]
struct SharedDrive {
    device: Option<Prepared>,
    /// Runs that still need it.
    users: usize,
}

/// In the order in which they are preferred: a drive that is there goes the sooner; two that are
/// made at the same time are made by two threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Ready,
    Untouched,
    /// Whoever wants it waits.
    BeingMade,
}

/// By the digest of the preconditioning; runs without one start from a new drive.
pub(crate) struct SharedDrives<'a> {
    of_runs: Vec<Option<&'a str>>,
    drives: BTreeMap<&'a str, Mutex<SharedDrive>>,
    turns: Mutex<Turns<'a>>,
}

struct Turns<'a> {
    /// Numbers of runs that nobody has taken.
    pending: Vec<usize>,
    stages: BTreeMap<&'a str, Stage>,
}

impl<'a> SharedDrives<'a> {
    /// Those of a plan's runs, in its order.
    pub(crate) fn new(runs: impl Iterator<Item = Option<&'a str>>) -> SharedDrives<'a> {
        let of_runs: Vec<_> = runs.collect();
        let mut drives = BTreeMap::<&str, Mutex<SharedDrive>>::new();
        for digest in of_runs.iter().flatten() {
            let drive = drives.entry(digest).or_default();
            drive.get_mut().unwrap_or_else(PoisonError::into_inner).users += 1;
        }
        let stages = drives.keys().map(|&digest| (digest, Stage::Untouched)).collect();
        let turns = Mutex::new(Turns { pending: (0..of_runs.len()).collect(), stages });
        SharedDrives { of_runs, drives, turns }
    }

    /// The run to do next.
    pub(crate) fn take_run(&self) -> Option<usize> {
        let mut turns = lock(&self.turns);
        let Turns { pending, stages } = &mut *turns;
        let stage = |&run: &usize| self.of_runs[run].map_or(Stage::Ready, |digest| stages[digest]);
        // Of those that are equal, the first of the plan.
        let (place, _) = pending.iter().enumerate().min_by_key(|(_, run)| stage(run))?;
        let run = pending.remove(place);
        if let Some(stage @ Stage::Untouched) =
            self.of_runs[run].and_then(|digest| stages.get_mut(digest))
        {
            *stage = Stage::BeingMade;
        }
        Some(run)
    }

    /// A fork of the drive; the first run that needs it makes it.
    pub(crate) fn fork(
        &self,
        digest: &str,
        make: impl FnOnce() -> Result<Prepared, Failure>,
    ) -> Result<Prepared, Failure> {
        let mut shared = lock(&self.drives[digest]);
        if shared.device.is_none() {
            let mut prepared = make()?;
            // Sharing the tables is a copy of them: worth it for forks only.
            if shared.users > 1 {
                prepared.device.freeze();
            }
            shared.device = Some(prepared);
            self.now(digest, Stage::Ready);
        }
        shared.users -= 1;
        let last = shared.users == 0;
        let device = if last { shared.device.take() } else { None };
        Ok(device.unwrap_or_else(|| shared.device.as_ref().expect("it was just made").fork()))
    }

    /// A run was finished before, and starts from nothing.
    pub(crate) fn not_needed(&self, digest: &str) {
        let mut shared = lock(&self.drives[digest]);
        shared.users -= 1;
        if shared.users == 0 {
            shared.device = None;
        } else if shared.device.is_none() {
            self.now(digest, Stage::Untouched);
        }
    }

    fn now(&self, digest: &str, stage: Stage) {
        if let Some(old) = lock(&self.turns).stages.get_mut(digest) {
            *old = stage;
        }
    }

    /// Drives that are in memory.
    #[cfg(test)]
    fn in_memory(&self) -> usize {
        self.drives.values().filter(|drive| lock(drive).device.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: [Option<&str>; 7] =
        [Some("a"), Some("b"), None, Some("a"), Some("b"), Some("a"), Some("c")];

    fn made() -> Result<Prepared, Failure> {
        let plan = crate::PlannedStudy::parse_in(
            std::path::Path::new(""),
            "study.toml",
            "[device.null]\n[workload.fio]\n[run]\nrequests = 1\n",
            &[],
        )?;
        Ok(Prepared::fresh(plan.runs[0].build_device()?))
    }

    #[test]
    fn one_thread_has_one_drive_in_memory() {
        let drives = SharedDrives::new(RUNS.into_iter());
        let mut order = Vec::new();
        while let Some(run) = drives.take_run() {
            order.push(run);
            if let Some(digest) = RUNS[run] {
                drives.fork(digest, made).unwrap();
            }
            assert!(drives.in_memory() <= 1, "{order:?}");
        }
        assert_eq!(order, [2, 0, 3, 5, 1, 4, 6]);
        assert_eq!(drives.in_memory(), 0);
    }

    #[test]
    fn two_threads_make_two_drives_at_the_same_time() {
        let drives = SharedDrives::new(RUNS.into_iter());
        let taken = [(); 4].map(|()| drives.take_run().unwrap());
        assert_eq!(taken, [2, 0, 1, 6]);
        // Nothing else is to be done: whoever comes waits for a drive.
        assert_eq!(drives.take_run(), Some(3));
    }

    #[test]
    fn what_was_finished_before_holds_no_drive() {
        let drives = SharedDrives::new(RUNS.into_iter());
        assert_eq!([drives.take_run(), drives.take_run()], [Some(2), Some(0)]);
        drives.not_needed("a");
        drives.fork("a", made).unwrap();
        assert_eq!(drives.in_memory(), 1);
        drives.not_needed("a");
        assert_eq!(drives.in_memory(), 0, "no run is left that needs it");
    }
}

//! One core for the guest and its calendar, of which only one has something to do at a time:
//! handing over costs a fraction of what it costs between two cores. And each keeps it until it has
//! said all it has to say.

use std::sync::{Mutex, PoisonError};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::realtime;

/// Cores of this process's sessions.
static TAKEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// This thread, and what it starts, on one core until it is dropped.
pub(super) struct OneCore {
    core: usize,
    before: Option<CpuSet>,
}

impl OneCore {
    /// The core that this thread is on, or another one while that is a session's.
    pub(super) fn take() -> OneCore {
        let before = sched_getaffinity(None).ok();
        let here = sched_getcpu();
        let core = {
            let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
            let allowed = |core: &usize| before.is_some_and(|set| set.is_set(*core));
            let mut all = std::iter::once(here).chain((0..CpuSet::MAX_CPU).filter(allowed));
            let core = all.find(|core| !taken.contains(core)).unwrap_or(here);
            taken.push(core);
            core
        };
        let mut one = CpuSet::new();
        one.set(core);
        realtime::set_batch(true);
        // Where it is not permitted it is only slower.
        OneCore { core, before: before.filter(|_| sched_setaffinity(None, &one).is_ok()) }
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = taken.iter().position(|core| *core == self.core) {
            taken.swap_remove(index);
        }
        drop(taken);
        realtime::set_batch(false);
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_side_by_side_have_a_core_each_while_there_are_enough() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let first = OneCore::take();
        // As from another thread, which is on any core.
        sched_setaffinity(None, &first.before.unwrap_or_default()).unwrap();
        let second = OneCore::take();
        assert!(first.core != second.core || cores == 1);
    }
}

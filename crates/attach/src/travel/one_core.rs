//! One core for the guest and its calendar, of which only one has something to do at a time:
//! handing over costs a fraction of what it costs between two cores. And each keeps it until it has
//! said all it has to say.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::realtime;

/// This thread, and what it starts, on one core until it is dropped.
pub(super) struct OneCore(Option<CpuSet>);

impl OneCore {
    /// The core that this thread is on.
    pub(super) fn take() -> OneCore {
        let before = sched_getaffinity(None).ok();
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        realtime::set_batch(true);
        // Where it is not permitted it is only slower.
        OneCore(before.filter(|_| sched_setaffinity(None, &one).is_ok()))
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        realtime::set_batch(false);
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

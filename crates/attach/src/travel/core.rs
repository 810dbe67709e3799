//! One core for the guest and its calendar, of which only one has something to do at a time:
//! handing over costs a fraction of what it costs between two cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// This thread, and what it starts, on one core until it is dropped.
pub(super) struct OneCore(Option<CpuSet>);

impl OneCore {
    /// The core that this thread is on.
    pub(super) fn take() -> OneCore {
        let before = sched_getaffinity(None).ok();
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        // Where it is not permitted it is only slower.
        OneCore(before.filter(|_| sched_setaffinity(None, &one).is_ok()))
    }

    /// From now on a message of the guest does not take the core from it: it goes on until it
    /// waits. What was started before this is not affected.
    pub(super) fn give_way(&self) {
        // On two cores there is nothing to give.
        if self.0.is_some() {
            set_policy(libc::SCHED_BATCH);
        }
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            set_policy(libc::SCHED_OTHER);
            let _ = sched_setaffinity(None, before);
        }
    }
}

fn set_policy(policy: libc::c_int) {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads `none`. That it fails costs nothing but speed.
    unsafe { libc::sched_setscheduler(0, policy, &none) };
}

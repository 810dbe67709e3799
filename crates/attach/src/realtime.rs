//! Being on time: a real-time priority, and memory that stays.

use serde::Serialize;

/// Above ordinary programs, below what the kernel itself needs.
const FIFO_PRIORITY: i32 = 40;

/// The event loop's scheduling class.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// `SCHED_FIFO`: it runs when it is due.
    Realtime,
    /// Like any other program, and why.
    Normal(String),
}

/// Raise the calling thread to `SCHED_FIFO`. Threads and programs it starts stay ordinary.
pub(crate) fn raise() -> Priority {
    if let Err(why) = set_fifo() {
        return Priority::Normal(why);
    }
    // Pages that are swapped out would be late; without permission they may be.
    use rustix::mm::MlockAllFlags as Lock;
    let _ = rustix::mm::mlockall(Lock::CURRENT | Lock::FUTURE | Lock::ONFAULT);
    Priority::Realtime
}

fn set_fifo() -> Result<(), String> {
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, FIFO_PRIORITY)
}

/// An ordinary thread, and what it starts, keeps the core when another one wakes up, or no longer.
/// Who was given another class keeps that.
pub(crate) fn set_batch(on: bool) {
    let classes = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    let [from, to] = [classes[usize::from(!on)], classes[usize::from(on)]];
    // SAFETY: the call takes a number only; 0 is this thread.
    if unsafe { libc::sched_getscheduler(0) } == from {
        // Where it is not permitted it is only slower.
        let _ = set_policy(to, 0);
    }
}

fn set_policy(policy: libc::c_int, priority: i32) -> Result<(), String> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` lives across the call, which only reads it; 0 is this thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().to_string()),
    }
}

/// Whether a session would get a real-time priority, tried out in a thread of its own.
///
/// # Errors
/// Says why not.
pub fn realtime_permitted() -> Result<(), String> {
    std::thread::spawn(set_fifo).join().unwrap_or_else(|_| Err("the attempt failed".into()))
}

/// Whether the kernel may make this thread wait for the device that it serves, while it finds
/// memory for it: a block device's server must not be. Without permission nothing changes.
pub(crate) fn set_io_flusher(on: bool) {
    /// From `linux/prctl.h`.
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: the call takes numbers only, and is async-signal-safe.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, libc::c_ulong::from(on), 0, 0, 0) };
}

impl Priority {
    /// What a user must know who did not get it.
    pub fn warning(&self) -> Option<String> {
        match self {
            Priority::Realtime => None,
            Priority::Normal(why) => Some(format!(
                "WARNING: no real-time priority ({why}): replies will be late whenever this \
                 machine is busy; run as root, or: \
                 sudo setcap cap_sys_nice+ep $(command -v blocklab)"
            )),
        }
    }
}

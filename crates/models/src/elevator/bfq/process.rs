//! Processes, and which queues their requests go to.

use sim::{Nanos, Priority, snapshot_fields};

use super::raise::Raise;
use crate::elevator::linux::habits::Fading;
use crate::elevator::linux::pool::NONE;

/// What a process had before its queue was joined with another, given back when they are split.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) thinks_briefly: bool,
    pub(super) io_bound: bool,
    pub(super) in_large_burst: bool,
    pub(super) in_burst_list: bool,
    pub(super) plain: u64,
    pub(super) think: Fading,
    /// Its last answer: the pause until its next request is what it thinks.
    pub(super) answered: Nanos,
    pub(super) watched_since: Nanos,
    pub(super) idle_ns: u64,
    pub(super) inject: (u32, u64, u64),
    pub(super) raise: Raise,
}

snapshot_fields!(Saved {
    thinks_briefly,
    io_bound,
    in_large_burst,
    in_burst_list,
    plain,
    think,
    answered,
    watched_since,
    idle_ns,
    inject,
    raise,
});

impl Default for Saved {
    fn default() -> Saved {
        Saved {
            thinks_briefly: false,
            io_bound: false,
            in_large_burst: false,
            in_burst_list: false,
            plain: 0,
            think: Fading::default(),
            answered: Nanos::ZERO,
            watched_since: Nanos::ZERO,
            idle_ns: 0,
            inject: (0, 0, 0),
            raise: Raise::new(0),
        }
    }
}

/// Somebody who asks.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// Queues of what it waits for, and of what it does not; [`NONE`] before the first request.
    pub(super) waited: u32,
    pub(super) unwaited: u32,
    pub(super) priority: Priority,
    /// Its requests that are waiting or in the device.
    pub(super) requests: u32,
    /// The queue created shortly before its own, with which it may be joined for good.
    pub(super) stable: u32,
    pub(super) stably_joined: bool,
    pub(super) saved: Saved,
}

snapshot_fields!(Process { waited, unwaited, priority, requests, stable, stably_joined, saved });

impl Default for Process {
    fn default() -> Process {
        Process {
            waited: NONE,
            unwaited: NONE,
            priority: Priority::NONE,
            requests: 0,
            stable: NONE,
            stably_joined: false,
            saved: Saved::default(),
        }
    }
}

impl Process {
    pub(super) fn queue(&self, sync: bool) -> u32 {
        if sync { self.waited } else { self.unwaited }
    }
}

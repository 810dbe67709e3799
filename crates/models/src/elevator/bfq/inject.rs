//! Injection: while the device is left idle for one queue, requests of others may be slipped in,
//! as many as do not make the first request after the pause slow.

use sim::{Nanos, snapshot_fields};

use crate::elevator::linux::pool::NONE;

/// What is known of slipping requests into the pauses of a queue.
#[derive(Clone, Debug)]
pub(super) struct Injecting {
    /// Requests in the device up to which others may be slipped in.
    pub(super) limit: u32,
    /// How long a request takes when none was slipped in before it; 0 when not known.
    pub(super) plain_ns: u64,
    /// In ticks: when the limit was lowered.
    pub(super) lowered: u64,
    /// The queue whose answers make this one ask.
    pub(super) waker: u32,
    /// The one that may be it, how often it was, and since when.
    pub(super) candidate: u32,
    pub(super) seen: u32,
    pub(super) first_seen: Nanos,
    /// The queues that this one wakes, the last that asked first.
    pub(super) wakes: Vec<u32>,
}

snapshot_fields!(Injecting { limit, plain_ns, lowered, waker, candidate, seen, first_seen, wakes });

impl Default for Injecting {
    fn default() -> Injecting {
        Injecting {
            limit: 0,
            plain_ns: 0,
            lowered: 0,
            waker: NONE,
            candidate: NONE,
            seen: 0,
            first_seen: Nanos::ZERO,
            wakes: Vec::new(),
        }
    }
}

impl Injecting {
    /// What goes with the process when its queue is joined with another, and comes back.
    pub(super) fn saved(&self) -> (u32, u64, u64) {
        (self.limit, self.plain_ns, self.lowered)
    }

    pub(super) fn resume(&mut self, (limit, plain_ns, lowered): (u32, u64, u64)) {
        (self.limit, self.plain_ns, self.lowered) = (limit, plain_ns, lowered);
    }
}

/// The one measurement that goes on.
#[derive(Clone, Debug)]
pub(super) struct Measuring {
    /// The next request of the queue in service is measured.
    pub(super) waits: bool,
    /// The request, when it is out.
    pub(super) request: u32,
    pub(super) since: Nanos,
    /// Something was slipped in before it.
    pub(super) injected: bool,
}

snapshot_fields!(Measuring { waits, request, since, injected });

impl Default for Measuring {
    fn default() -> Measuring {
        Measuring { waits: false, request: NONE, since: Nanos::ZERO, injected: false }
    }
}

impl Measuring {
    pub(super) fn stop(&mut self) {
        (self.waits, self.request, self.injected) = (false, NONE, false);
    }
}

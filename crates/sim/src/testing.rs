//! Small devices and workloads for tests of everything that needs one.

use crate::device::{Busy, Completions, Device, Limits, Survivors};
use crate::heap::EventHeap;
use crate::request::Request;
use crate::snapshot_fields;
use crate::units::{Bytes, Nanos};
use crate::workload::{Demand, Workload, WorkloadError};

/// A device that answers every request after the same time, one at a time.
#[derive(Clone, Debug)]
pub struct FixedDelay {
    delay: Nanos,
    depth: u32,
    free_at: Nanos,
    events: EventHeap,
}

impl FixedDelay {
    /// One server with `depth` places, its own included.
    pub fn new(delay: Nanos, depth: u32) -> FixedDelay {
        FixedDelay { delay, depth, free_at: Nanos::ZERO, events: EventHeap::new() }
    }
}

snapshot_fields!(FixedDelay { free_at, events });

impl Device for FixedDelay {
    fn limits(&self) -> Limits {
        Limits {
            capacity: Bytes::from_gib(1),
            block_bytes: 512,
            queue_depth_max: self.depth,
            rotational: false,
            write_cache: false,
            discard: false,
        }
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.events.len() >= self.depth as usize {
            return Err(Busy);
        }
        // One at a time only where the depth is 1; a deeper device is an infinite server.
        let start = if self.depth == 1 { self.free_at.max(now) } else { now };
        self.free_at = start + self.delay;
        self.events.push(start + self.delay, request.id.0 as u32);
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.events.next_time()
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        while let Some((at, id)) = self.events.pop_due(now) {
            out.complete(crate::RequestId(u64::from(id)), at);
        }
    }

    fn power_fail(&mut self, now: Nanos) -> Survivors {
        self.events.clear();
        self.free_at = now;
        Survivors::default()
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

/// Requests at given times.
#[derive(Clone, Debug)]
pub struct Script {
    requests: std::collections::VecDeque<(Nanos, Request)>,
}

impl Script {
    /// Issue these requests at these times, which do not go back.
    pub fn new(requests: impl IntoIterator<Item = (Nanos, Request)>) -> Script {
        Script { requests: requests.into_iter().collect() }
    }
}

impl Workload for Script {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        match self.requests.front() {
            None => Ok(Demand::End),
            Some(&(time, _)) if time > now => Ok(Demand::At(time)),
            Some(&(_, request)) => {
                self.requests.pop_front();
                Ok(Demand::Issue(request))
            }
        }
    }
}

//! The null device: every request takes the same time, any number at once.
//!
//! # What it models
//! An infinitely parallel device. It is the floor under every other device: what a workload and
//! the driver cost by themselves.
//!
//! # Equation
//! `completion = submission + latency`
//!
//! # Parameters
//! `capacity`, `latency`, `queue_depth_max`.
//!
//! # What it leaves out
//! Everything a real device does.
//!
//! # Validated against
//! The contract tests; its response time is exact by construction.
//!
//! # References
//! Linux `null_blk`.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{
    Busy, Bytes, Completions, Device, Limits, Nanos, Request, RequestId, Survivors, snapshot_fields,
};

use config::device::Context;
use config::{ConfigError, Duration, Size};

/// Parameters of the null device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Usable size.
    pub capacity: Size,
    /// Time from submission to completion of every request.
    pub latency: Duration,
    /// Requests accepted at once.
    pub queue_depth_max: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            capacity: Size(Bytes::from_gib(16)),
            latency: Duration(Nanos::from_micros(10)),
            queue_depth_max: 1024,
        }
    }
}

impl Params {
    /// Build the device.
    ///
    /// # Errors
    /// When the queue depth is 0, or the capacity is no whole number of sectors.
    pub fn build(&self, _context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        if self.queue_depth_max == 0 {
            return Err(ConfigError::new("queue_depth_max", "expected at least 1, got 0"));
        }
        let Size(capacity) = self.capacity;
        if capacity.sectors() == 0 || capacity.0 % sim::SECTOR_BYTES != 0 {
            let what = format!("expected whole sectors of 512 bytes, got {} bytes", capacity.0);
            return Err(ConfigError::new("capacity", what));
        }
        Ok(Box::new(Null { params: self.clone(), inside: VecDeque::new() }))
    }
}

#[derive(Clone)]
struct Null {
    params: Params,
    /// (completion time, id): the latency is constant, so first in is first out.
    inside: VecDeque<(Nanos, u64)>,
}

snapshot_fields!(Null { inside });

impl Device for Null {
    fn limits(&self) -> Limits {
        Limits {
            capacity: self.params.capacity.0,
            block_bytes: 512,
            queue_depth_max: self.params.queue_depth_max,
            rotational: false,
            write_cache: false,
            discard: true,
        }
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.inside.len() >= self.params.queue_depth_max as usize {
            return Err(Busy);
        }
        self.inside.push_back((now + self.params.latency.0, request.id.0));
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.inside.front().map(|&(at, _)| at)
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        while let Some(&(at, id)) = self.inside.front()
            && at <= now
        {
            self.inside.pop_front();
            out.complete(RequestId(id), at);
        }
    }

    fn power_fail(&mut self, _now: Nanos) -> Survivors {
        self.inside.clear();
        Survivors::default()
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Lba, Rng, Stepper};

    #[test]
    fn not_a_tick_early_and_not_a_tick_late() {
        let device = Params::default().build(&Context { rng: Rng::new(1, "null") }).unwrap();
        let mut host = Stepper::new(device);
        host.submit(Request::read(Lba(0), 8)).unwrap();
        assert!(host.run_until(Nanos(9_999)).is_empty());
        assert_eq!(host.run_until(Nanos(10_000)).len(), 1);
    }
}

//! Uniform random requests, a fixed number always in flight.
//!
//! # What it models
//! A closed loop of `depth` requests of one size over the whole device.
//!
//! # Equation
//! Throughput = depth / response time (Little's law).
//!
//! # Parameters
//! `depth`, `unit`, `read_percent`.
//!
//! # What it leaves out
//! Locality and think time.
//!
//! # Validated against
//! Little's law on every run.
//!
//! # References
//! None.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Completion, Demand, Lba, Nanos, Op, Request, Rng, Workload, WorkloadError};

use crate::config::{ConfigError, Size};
use crate::workload::Context;

/// Parameters of the uniform workload.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Requests in flight.
    pub depth: u32,
    /// Size and alignment of each request.
    pub unit: Size,
    /// Share of reads in percent.
    pub read_percent: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params { depth: 1, unit: Size(sim::Bytes(4096)), read_percent: 100.0 }
    }
}

impl Params {
    /// Build the workload.
    ///
    /// # Errors
    /// When the unit is not whole sectors or larger than the device.
    pub fn build(&self, context: &Context<'_>) -> Result<Box<dyn Workload + Send>, ConfigError> {
        let sectors = self.unit.0.sectors();
        if sectors == 0 || sectors > context.limits.sectors() {
            return Err(ConfigError::new("unit", format!("{} does not fit", self.unit)));
        }
        Ok(Box::new(Uniform {
            rng: context.rng,
            units: context.limits.sectors() / sectors,
            sectors: sectors as u32,
            reads: self.read_percent / 100.0,
            room: self.depth,
        }))
    }
}

struct Uniform {
    rng: Rng,
    units: u64,
    sectors: u32,
    reads: f64,
    room: u32,
}

impl Workload for Uniform {
    fn next(&mut self, _now: Nanos) -> Result<Demand, WorkloadError> {
        if self.room == 0 {
            return Ok(Demand::Wait);
        }
        self.room -= 1;
        let lba = Lba(self.rng.below(self.units) * u64::from(self.sectors));
        let op = if self.rng.chance(self.reads) { Op::Read } else { Op::Write };
        Ok(Demand::Issue(Request::new(op, lba, self.sectors)))
    }

    fn complete(&mut self, _request: &Request, _completion: Completion) {
        self.room += 1;
    }
}

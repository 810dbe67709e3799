//! Replay in a closed loop: a fixed number of requests in flight.
//!
//! # What it models
//! A program that keeps a queue of `depth` requests full and ignores the trace's times.
//!
//! # Equation
//! A request is issued whenever fewer than `depth` are in flight.
//!
//! # Parameters
//! `depth`.
//!
//! # What it leaves out
//! Think time.
//!
//! # Validated against
//! Requests in flight never exceed the depth and reach it, in tests.
//!
//! # References
//! fio's `iodepth`.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Nanos;

use crate::replay::{Order, Pace, Turn};

/// Parameters of replay in a closed loop.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Requests in flight.
    #[schemars(range(min = 1))]
    pub depth: u64,
}

impl Default for Params {
    fn default() -> Params {
        Params { depth: 32 }
    }
}

impl Params {
    /// Build the order.
    ///
    /// # Errors
    /// When the depth is 0.
    pub fn build(&self, _context: &()) -> Result<Order, ConfigError> {
        if self.depth == 0 {
            return Err(ConfigError::new("closed-loop.depth", "expected at least 1, got 0"));
        }
        Ok(Order::Paced(Box::new(ClosedLoop { depth: self.depth })))
    }
}

struct ClosedLoop {
    depth: u64,
}

impl Pace for ClosedLoop {
    #[inline]
    fn turn(&self, _now: Nanos, _time: Nanos, in_flight: u64, _completed: Nanos) -> Turn {
        if in_flight < self.depth { Turn::Now } else { Turn::Wait }
    }
}

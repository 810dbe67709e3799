//! Replay back to back: one request after the other.
//!
//! # What it models
//! A single synchronous program that ignores the trace's times.
//!
//! # Equation
//! `issue = completion of the request before + pause`
//!
//! # Parameters
//! `pause`.
//!
//! # What it leaves out
//! Any parallelism of the recorded programs.
//!
//! # Validated against
//! Issue times to the nanosecond, in tests.
//!
//! # References
//! fio's `thinktime`.

use config::{ConfigError, Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Nanos;

use crate::replay::{Order, Pace, Turn};

/// Parameters of replay back to back.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Time between a completion and the next request.
    pub pause: Duration,
}

impl Params {
    /// Build the order.
    ///
    /// # Errors
    /// Never.
    pub fn build(&self, _context: &()) -> Result<Order, ConfigError> {
        Ok(Order::Paced(Box::new(BackToBack { pause: self.pause.0 })))
    }
}

struct BackToBack {
    pause: Nanos,
}

impl Pace for BackToBack {
    #[inline]
    fn turn(&self, now: Nanos, _time: Nanos, in_flight: u64, completed: Nanos) -> Turn {
        if in_flight > 0 {
            return Turn::Wait;
        }
        // The first request follows no completion.
        let due = if completed == Nanos::ZERO { completed } else { completed + self.pause };
        if due > now { Turn::At(due) } else { Turn::Now }
    }
}

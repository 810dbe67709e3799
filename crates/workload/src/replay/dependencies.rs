//! Replay by dependencies: whoever waited for a request waits for it again.
//!
//! # What it models
//! A closed loop as it was recorded: a process issues a request some computing time after the
//! latest thing that it did or waited for. A stream that was recorded on one device can so be
//! replayed on another one: a faster one is asked sooner, a slower one later.
//!
//! # Equation
//! `issue = end of what it follows + (recorded issue - recorded end of what it follows)`.
//! A process's own is its request before this one (whose end is its issue), or the answer to one
//! that it waited for (a read, a flush, a write that is marked as waited for, `S`), whichever is
//! later. A request follows its process's own within `burst`; else the latest answer to anybody
//! within `handover`: the journal's thread that a commit woke, write-back that had no room,
//! and programs that were throttled, which a kernel of 100 Hz lets go on up to two ticks later;
//! else its process's own, however long ago. What follows nothing is issued at its recorded time.
//!
//! # Parameters
//! `burst`, `handover`.
//!
//! # What it leaves out
//! What the record does not show: locks, pipes, waiting for memory. Requests that another device
//! would have led to: write-back and journals look at the time. Computing takes as long as it
//! took. The trace is held in memory, about 100 bytes a request.
//!
//! # Validated against
//! Issue times to the nanosecond, in tests; programs in a guest of `travel`, recorded on one
//! device and run on another (`docs/measured/linux-io.md`).
//!
//! # References
//! Haghdoost et al., "On the Accuracy and Scalability of Intensive I/O Workload Replay",
//! FAST 2017; Mesnier et al., "//TRACE: Parallel Trace Replay with Approximate Causal Events",
//! FAST 2007.

use config::{ConfigError, Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Nanos;

use crate::replay::Order;

/// Parameters of replay by dependencies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Requests of a process that are closer than this follow each other.
    pub burst: Duration,
    /// Others follow the latest completion, where it is not longer ago than this.
    pub handover: Duration,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            burst: Duration(Nanos::from_micros(50)),
            handover: Duration(Nanos::from_millis(20)),
        }
    }
}

impl Params {
    /// Build the order.
    ///
    /// # Errors
    /// Never.
    pub fn build(&self, _context: &()) -> Result<Order, ConfigError> {
        Ok(Order::Dependencies { burst: self.burst.0, handover: self.handover.0 })
    }
}

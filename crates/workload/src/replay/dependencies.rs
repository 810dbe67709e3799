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
//! What a task kept back in its plug is issued at once, when that was handed over.
//!
//! # Parameters
//! `burst`, `handover`; `cores`: what is computed between, where it is no longer than `handover`,
//! shares so many. A slow device keeps processes apart that compute at the same time on a fast one.
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

/// More cores than any host has.
const CORES_MAX: u32 = 4096;

/// Parameters of replay by dependencies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Requests of a process that are closer than this follow each other.
    pub burst: Duration,
    /// Others follow the latest completion, where it is not longer ago than this.
    pub handover: Duration,
    /// Cores that compute; none: each process has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            burst: Duration(Nanos::from_micros(50)),
            handover: Duration(Nanos::from_millis(20)),
            cores: None,
        }
    }
}

impl Params {
    /// Build the order.
    ///
    /// # Errors
    /// When there is no core.
    pub fn build(&self, _context: &()) -> Result<Order, ConfigError> {
        if self.cores.is_some_and(|cores| !(1..=CORES_MAX).contains(&cores)) {
            let message = format!("expected 1 to {CORES_MAX}, or none for one for each process");
            return Err(ConfigError::new("cores", message));
        }
        let (burst, handover) = (self.burst.0, self.handover.0);
        Ok(Order::Dependencies { burst, handover, cores: self.cores })
    }
}

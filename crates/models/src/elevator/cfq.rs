//! cfq, of Linux 2.6.26: each process gets slices of the device's time.
//!
//! # What it models
//! Requests that a process waits for go to a queue of its own; the others to one per priority that
//! all share. Queues take turns for a slice of time, longer for a better priority. Within a queue
//! an elevator goes up, and back only a little; once per slice the oldest request goes first if it
//! has waited long. When the queue whose turn it is runs empty, the device idles for `slice_idle`,
//! because the process will ask for its next block; not so if it thinks longer than that, and only
//! for 2 ms if it seeks. A request that somebody waits for takes the turn from one that nobody
//! does; one that is close takes it from a queue that idles. The idle class has its turn, of one
//! request, when nobody else asks.
//!
//! # Equation
//! `slice = base + base / 5 * (4 - level)`: 180, 100 and 40 ms for the levels 0, 4 and 7
//!
//! `turn = now + (queues - 1) * (slice(0) - slice(level)) + rest of the last slice`
//!
//! # Parameters
//! `quantum`, `fifo_expire_sync`, `fifo_expire_async`, `back_seek_max` (in KiB),
//! `back_seek_penalty`, `slice_sync`, `slice_async`, `slice_async_rq`, `slice_idle`, under the
//! kernel's names and with its defaults. A request without a priority has level 4 of best effort.
//!
//! # What it leaves out
//! Processes that end, metadata marks, priority that a process inherits with a lock. Time is not
//! rounded to ticks. The quota of requests that nobody waits for is counted over the slice; the
//! code of 2.6.24 compared it with one round, which `quantum` ended before.
//!
//! # Validated against
//! State tables by hand from the description; limits (one process, `slice_idle = 0`); shares of
//! time: equal readers within 5 %, levels 0 and 7 as 4.5 to 1, in its tests. No kernel that still
//! has it was run beside it.
//!
//! # References
//! Linux 2.6.24 and 2.6.27, `block/cfq-iosched.c`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Nanos;

use super::counted::ANTICIPATION;
use super::{Built, Context, Kind, within};
use config::{ConfigError, Duration};

mod machine;
#[cfg(test)]
mod tests;
mod turns;

/// Parameters of the policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Requests of one queue that are sent in one go.
    pub quantum: u32,
    /// A request that is waited for goes next after so long.
    pub fifo_expire_sync: Duration,
    /// Any other request goes next after so long.
    pub fifo_expire_async: Duration,
    /// How far the elevator goes back, in KiB.
    pub back_seek_max: u64,
    /// What a way back costs, in ways forward.
    pub back_seek_penalty: u64,
    /// Slice of a process of level 4.
    pub slice_sync: Duration,
    /// Slice of the requests that nobody waits for, of level 4.
    pub slice_async: Duration,
    /// Requests of such a slice, before it counts as used: twice as many, and as many again per
    /// level.
    pub slice_async_rq: u32,
    /// How long the next request of a process is waited for; 0 for not at all.
    pub slice_idle: Duration,
}

impl Default for Params {
    fn default() -> Params {
        let ms = |ms| Duration(Nanos::from_millis(ms));
        Params {
            quantum: 4,
            fifo_expire_sync: ms(125),
            fifo_expire_async: ms(250),
            back_seek_max: 16 * 1024,
            back_seek_penalty: 2,
            slice_sync: ms(100),
            slice_async: ms(40),
            slice_async_rq: 2,
            slice_idle: ms(8),
        }
    }
}

impl Params {
    /// What the policy counts.
    pub const COUNTED: sim::metric::Declarations = &[&ANTICIPATION];

    /// Build the policy.
    ///
    /// # Errors
    /// When nothing could be sent, or a slice would take no time.
    pub fn build(&self, _context: &Context) -> Result<Built, ConfigError> {
        within("quantum", self.quantum, 1..=1 << 16)?;
        within("slice_async_rq", self.slice_async_rq, 1..=1 << 16)?;
        within("back_seek_penalty", self.back_seek_penalty, 1..=1 << 16)?;
        within("back_seek_max", self.back_seek_max, 0..=1 << 50)?;
        for (key, value) in [("slice_sync", self.slice_sync), ("slice_async", self.slice_async)] {
            if value.0 == Nanos::ZERO {
                return Err(ConfigError::new(key, "expected more than 0, got \"0ns\""));
            }
        }
        Ok(Built { policy: Box::new(machine::Cfq::new(self.clone())), kind: Kind::ERA })
    }
}

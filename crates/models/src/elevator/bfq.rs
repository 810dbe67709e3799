//! bfq: each process gets its share of the device's throughput, in budgets of sectors.
//!
//! # What it models
//! Requests that a process waits for go to a queue of its own, the others to one per priority that
//! all share. A queue is served until its budget of sectors is used, its time is over, or it is
//! empty and its process does not come back within `slice_idle`. Who is next is told by B-WF2Q+, a
//! fair queue in virtual time: of those who are not ahead of their share, the one who would finish
//! first. Budgets grow while they are used and shrink when a queue leaves them. A queue that was
//! long away weighs 30 times as much for a while (`low_latency`): somebody has started a program.
//!
//! # Equation
//! `finish = start + sectors * 2^22 / weight`; `weight = 10 * (8 - level)`
//!
//! # Parameters
//! `slice_idle`, `timeout_sync`, `max_budget` (in sectors; 0: what the fastest turns moved in
//! `timeout_sync`), `fifo_expire_sync`, `fifo_expire_async`, `back_seek_max` (KiB),
//! `back_seek_penalty`, `low_latency`, under the kernel's names. `wr_max_time` is how long a weight
//! is raised: 10.5 s were seen on 6.18. As remembered, not read again: that requests nobody waits
//! for count threefold, the steps of the budget, and the shares of the pool (all of it for reads,
//! 3/4 for writes that are waited for, 1/2 for others, and half of these while a weight is raised).
//!
//! # What it leaves out
//! Groups, queues that are joined because their processes work together, bursts of new queues, soft
//! real time, and requests of others that are slipped in while the device idles. The peak rate is
//! the mean of whole turns, not of samples.
//!
//! # Validated against
//! The timestamp in a trace of the kernel's own (1024 sectors at weight 1200 are 3,579,139), state
//! tables by hand, and shares: equal readers within 5 %, levels 0 and 7 as 8 to 1, in its tests.
//!
//! # References
//! Linux 6.18, `Documentation/block/bfq-iosched.rst`. Valente, Checconi, "High throughput disk
//! scheduling with fair bandwidth distribution", IEEE Trans. Computers 59(9), 2010.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Nanos;
use sim::metric::{Counted, Counter};

use super::counted::ANTICIPATION;
use super::{Built, Context, Kind, within};
use config::{ConfigError, Duration};

mod budget;
mod burst;
mod idle;
mod inject;
mod join;
mod machine;
mod policy;
mod process;
mod queue;
mod raise;
mod rate;
mod service;
#[cfg(test)]
mod tests;
mod ticks;
mod turn;

/// What only BFQ counts.
static BUDGET: Counted = Counted {
    counters: &[Counter::new("max_budget_sectors", "sectors", "the largest budget of a queue now")],
    metrics: &[],
};

/// Parameters of the policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// How long the next request of a process is waited for; 0 for not at all.
    pub slice_idle: Duration,
    /// The longest turn.
    pub timeout_sync: Duration,
    /// The largest budget, in sectors; 0 to measure it.
    pub max_budget: u64,
    /// A request that is waited for goes next after so long.
    pub fifo_expire_sync: Duration,
    /// Any other request goes next after so long.
    pub fifo_expire_async: Duration,
    /// How far the elevator goes back, in KiB.
    pub back_seek_max: u64,
    /// What a way back costs, in ways forward.
    pub back_seek_penalty: u64,
    /// Raise the weight of queues that were long away.
    pub low_latency: bool,
    /// For how long; 0 to compute it from the rate of the device.
    pub wr_max_time: Duration,
    /// Ticks per second: many times are counted in them.
    pub hz: u32,
}

impl Default for Params {
    fn default() -> Params {
        let ms = |ms| Duration(Nanos::from_millis(ms));
        Params {
            slice_idle: ms(8),
            timeout_sync: ms(124),
            max_budget: 0,
            fifo_expire_sync: ms(125),
            fifo_expire_async: ms(250),
            back_seek_max: 16 * 1024,
            back_seek_penalty: 2,
            low_latency: true,
            wr_max_time: ms(0),
            hz: 250,
        }
    }
}

impl Params {
    fn fifo_expire(&self, sync: bool) -> Nanos {
        if sync { self.fifo_expire_sync.0 } else { self.fifo_expire_async.0 }
    }

    /// What the policy counts.
    pub const COUNTED: sim::metric::Declarations = &[&ANTICIPATION, &BUDGET];

    /// Build the policy.
    ///
    /// # Errors
    /// When a turn would take no time, or a value is out of range.
    pub fn build(&self, context: &Context) -> Result<Built, ConfigError> {
        within("back_seek_penalty", self.back_seek_penalty, 1..=1 << 16)?;
        within("back_seek_max", self.back_seek_max, 0..=1 << 50)?;
        within("max_budget", self.max_budget, 0..=1 << 32)?;
        within("hz", self.hz, 10..=10_000)?;
        if self.timeout_sync.0 == Nanos::ZERO {
            return Err(ConfigError::new("timeout_sync", "expected more than 0, got \"0ns\""));
        }
        let policy = Box::new(machine::Bfq::new(self.clone(), context));
        Ok(Built { policy, kind: Kind::TODAY })
    }
}

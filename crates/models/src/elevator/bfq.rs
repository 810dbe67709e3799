//! bfq: each process gets its share of the device's throughput, in budgets of sectors.
//!
//! # What it models
//! Requests that a process waits for go to a queue of its own, the others to one per priority that
//! all share. A queue is served until its budget of sectors is used, its time is over, or it is
//! empty and its process does not come back within `slice_idle`. Who is next is told by B-WF2Q+, a
//! fair queue in virtual time: of those who are not ahead of their share, the one who would finish
//! first. Budgets grow while they are used and shrink when a queue leaves them. The mechanisms are
//! those of Linux 6.1, a file each: a turn ends early for a queue that comes back within three
//! times `slice_idle`, weighs more, or when idling pays no longer (`turn`); the weight of a queue
//! that was long away is raised 30 times, that of slow and regular requests 3000 times (`raise`,
//! `low_latency`), but not that of eight or more queues that appear together (`burst`); the device
//! is left idle where that is faster or fair (`idle`), and requests of others are slipped in
//! meanwhile (`inject`); queues that work on the same place, or began together, are joined, and
//! split when they seek (`join`); slow queues are charged their time, and what nobody waits for
//! threefold (`budget`); the largest budget and the time of a raised weight follow from the peak
//! rate (`rate`).
//!
//! # Equation
//! `finish = start + sectors * 2^22 / weight`; `weight = 10 * (8 - level)`
//!
//! # Parameters
//! `slice_idle`, `timeout_sync`, `max_budget` (in sectors; 0: what the peak rate moves in
//! `timeout_sync`; counts once enough turns were seen), `fifo_expire_sync`, `fifo_expire_async`,
//! `back_seek_max` (KiB), `back_seek_penalty`, `low_latency`, under the kernel's names.
//! `wr_max_time` is how long a weight is raised: by itself 3 to 25 s, 10.5 s on a disk of which
//! nothing is known. `hz` is the kernel's, as it compares ticks: a guest of `travel` has 100, and
//! with it a `timeout_sync` of 120 ms.
//!
//! # What it leaves out
//! Groups, processes that end (but beside a recording: their turn ends, too, and nothing is joined
//! with what they leave), the preference for metadata, several
//! actuators, `strict_guarantees`. A tag of the pool is any one, not one of the first of its word.
//!
//! # Validated against
//! The order of the kernel's own on 18 recordings (`docs/measured/linux-io.md`), the timestamp
//! in a trace of it (1024 sectors at weight 1200 are 3,579,139), state tables by hand, and shares:
//! equal readers within 5 %, levels 0 and 7 as 8 to 1, in its tests.
//!
//! # References
//! Linux 6.1, `block/bfq-iosched.c` and `block/bfq-wf2q.c`, read for mechanism and numbers;
//! `Documentation/block/bfq-iosched.rst`. Valente, Checconi, "High throughput disk scheduling with
//! fair bandwidth distribution", IEEE Trans. Computers 59(9), 2010.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Nanos;
use sim::metric::{Counted, Counter};

use super::counted::ANTICIPATION;
use super::{Built, Context, Kind, within};
use config::{ConfigError, Duration};

mod budget;
mod burst;
mod device_queue;
mod entity;
mod epoch;
mod idle;
mod inject;
mod injecting;
mod join;
mod machine;
mod policy;
mod process;
mod queue;
mod raise;
mod raising;
mod rate;
mod seek;
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
        Ok(Built { policy, kind: Kind { asks_of_bios: true, ..Kind::TODAY } })
    }
}

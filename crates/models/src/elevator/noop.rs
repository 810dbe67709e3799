//! noop, of Linux 2.6.26: requests go in the order in which they came.
//!
//! # What it models
//! One list. Bios still join a request that ends where they begin; nothing is moved. Bios are
//! plugged, merged and pooled as in every queue of that kernel.
//!
//! # Equation
//! None: first in, first out.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Nothing of the policy. The driver's list is sorted, but requests reach it one at a time.
//!
//! # Validated against
//! State tables by hand in its tests: interleaved streams stay interleaved, neighbours merge. No
//! kernel that still has it was run beside it.
//!
//! # References
//! Linux 2.6.27, `block/noop-iosched.c`, `block/elevator.c`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Nanos, snapshot_fields};

use super::linux::pool::{Fifo, Pool};
use super::{Built, Context, Kind, Policy};
use config::ConfigError;

/// It has no parameters.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {}

impl Params {
    /// Build the policy.
    ///
    /// # Errors
    /// Never.
    pub fn build(&self, _context: &Context) -> Result<Built, ConfigError> {
        Ok(Built { policy: Box::new(Noop::default()), kind: Kind::ERA })
    }
}

#[derive(Clone, Default)]
struct Noop {
    list: Fifo,
}

snapshot_fields!(Noop { list });

impl Policy for Noop {
    fn add(&mut self, _now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        self.list.push(pool, rq);
        false
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn dispatch(&mut self, _now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        if let Some(rq) = self.list.head() {
            self.list.remove(pool, rq);
            out.push(rq);
        }
    }

    fn drain(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        while !self.is_empty() {
            self.dispatch(now, pool, out);
        }
    }

    fn latter(&self, pool: &Pool, rq: u32) -> Option<u32> {
        Fifo::after(pool, rq)
    }

    fn former(&self, pool: &Pool, rq: u32) -> Option<u32> {
        Fifo::before(pool, rq)
    }

    fn joined(&mut self, pool: &mut Pool, _first: u32, second: u32) {
        self.list.remove(pool, second);
    }

    fn clear(&mut self) {
        self.list = Fifo::default();
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

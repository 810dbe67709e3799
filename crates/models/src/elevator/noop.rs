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

use super::linux::in_order::InOrder;
use super::{Built, Context, Kind};
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
        Ok(Built { policy: Box::new(InOrder::new(true)), kind: Kind::ERA })
    }
}

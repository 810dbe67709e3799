//! none: requests go to the device as the plugs hand them over.
//!
//! # What it models
//! The block layer of today without an elevator. A bio joins the last request of its own task's
//! plug or nothing; when the task sleeps, its plug goes to the device in the order of its making. A
//! request holds a place in the device from the beginning, so there is nothing to choose from.
//!
//! # Equation
//! None: first in, first out.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Several processors with a software queue each, and the comparison with their last eight entries:
//! it changes the number of requests by less than 1 % (below).
//!
//! # Validated against
//! State tables by hand in its tests. Its rule of merging, applied to recordings of Linux 6.18 on
//! which this repository does not depend, gave 0.4 to 0.6 % more requests than were seen.
//!
//! # References
//! Linux 6.18, `block/blk-mq.c`, `block/blk-merge.c`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linux::in_order::InOrder;
use super::linux::tags::Sharing;
use super::{Built, Context, Kind, Merging};
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
        let kind = Kind { merging: Merging::Plug, sharing: Sharing::All, ..Kind::TODAY };
        Ok(Built { policy: Box::new(InOrder::new(false)), kind })
    }
}

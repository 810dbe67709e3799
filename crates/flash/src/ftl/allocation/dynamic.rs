//! Dynamic allocation: a logical page goes to any plane that has room.
//!
//! # What it models
//! Log-like striping: writes avoid planes that are out of free blocks. Relocation stays in the
//! plane.
//!
//! # Equation
//! None.
//!
//! # Parameters
//! `order`: a permutation of C, W, D, P, fastest first. `pick`: `round-robin` or `most-free`.
//!
//! # What it leaves out
//! Which die is idle: the FTL has no clock.
//!
//! # Validated against
//! Conservation of valid pages in the NAND oracle's runs.
//!
//! # References
//! Tavakkol et al., FAST 2018; the element pool of Agrawal et al., USENIX ATC 2008 (`most-free`).

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Allocator, Context, Order, Pick};

/// Parameters of dynamic allocation.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Striping order.
    pub order: Order,
    /// Choice among planes with room.
    pub pick: Pick,
}

impl Params {
    /// Build the policy.
    ///
    /// # Errors
    /// When the order is not a permutation of CWDP.
    pub fn build(&self, context: &Context) -> Result<Allocator, ConfigError> {
        let stripe = self.order.stripe(&context.geometry);
        Ok(Allocator::new(stripe.map_err(|e| e.within("dynamic"))?, Some(self.pick)))
    }
}

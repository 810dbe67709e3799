//! Static allocation: a logical page always goes to the same plane.
//!
//! # What it models
//! Striping by address. Relocation stays in the plane, so copy-back is always possible; a write
//! must wait for its plane even while others are idle.
//!
//! # Equation
//! `plane = stripe[lpn mod planes]`, the stripe running over channel, way, die and plane in the
//! given order.
//!
//! # Parameters
//! `order`: a permutation of C, W, D, P, fastest first.
//!
//! # What it leaves out
//! Parity and bad blocks.
//!
//! # Validated against
//! Every order is a permutation of the planes (unit test); the timing closed forms.
//!
//! # References
//! Agrawal et al., USENIX ATC 2008; Tavakkol et al., FAST 2018 (names of the orders).

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Allocator, Context, Order};

/// Parameters of static allocation.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Striping order.
    pub order: Order,
}

impl Params {
    /// Build the policy.
    ///
    /// # Errors
    /// When the order is not a permutation of CWDP.
    pub fn build(&self, context: &Context) -> Result<Allocator, ConfigError> {
        let stripe = self.order.stripe(&context.geometry);
        Ok(Allocator::new(stripe.map_err(|e| e.within("static"))?, None))
    }
}

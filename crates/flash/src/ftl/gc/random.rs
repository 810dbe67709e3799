//! Random victim selection: any full block.
//!
//! # What it models
//! The lower bound of victim selection: no knowledge at all.
//! With a mapping whose table is loaded on demand, a block that would take more pages for its moves
//! and for the map pages they change than it frees gives way to the emptiest one.
//!
//! # Equation
//! Under uniform random writes `WAF = 1 / (1 - rho)`, rho being live pages over pages in sealed
//! blocks.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Everything it could know about the block.
//!
//! # Validated against
//! The equation (`docs/measured/closed-forms.md`).
//!
//! # References
//! Van Houdt, SIGMETRICS 2013 (d = 1).

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Rng;

use super::{Context, Gc, random_sealed};
use crate::ftl::flash::Flash;

/// Random has no parameters.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {}

impl Params {
    /// Build the policy.
    pub fn build(&self, context: &Context) -> Box<dyn Gc> {
        Box::new(Random { rng: context.rng })
    }
}

#[derive(Clone)]
struct Random {
    rng: Rng,
}

sim::snapshot_fields!(Random { rng });

impl Gc for Random {
    fn pick(&mut self, _pool: u32, blocks: Range<u32>, flash: &Flash) -> Option<u32> {
        random_sealed(&mut self.rng, &blocks, flash)
    }

    fn boxed_clone(&self) -> Box<dyn Gc> {
        Box::new(self.clone())
    }
}

//! d-choices victim selection: the best of d random blocks.
//!
//! # What it models
//! Greedy without the search: draw `d` full blocks at random (with replacement) and empty the one
//! with the fewest valid pages. d = 1 is random, large d approaches greedy.
//!
//! # Equation
//! `x_i = (K / i)(1 - s_i^d)`, `s_i = s_(i+1) + x_i` for i = b down to 1, K fixed by
//! `sum i x_i = rho b`; `WAF = K / rho`.
//!
//! # Parameters
//! `d`: blocks drawn.
//!
//! # What it leaves out
//! Age and wear.
//!
//! # Validated against
//! The equation for d = 10 (`docs/measured/closed-forms.md`).
//!
//! # References
//! Van Houdt, SIGMETRICS 2013.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Rng;

use super::{Context, Gc, random_sealed};
use crate::ftl::flash::Flash;

/// Parameters of d-choices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Blocks drawn for each victim; 0 counts as 1.
    pub d: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { d: 10 }
    }
}

impl Params {
    /// Build the policy.
    pub fn build(&self, context: &Context) -> Box<dyn Gc> {
        Box::new(DChoices { d: self.d.max(1), rng: context.rng })
    }
}

#[derive(Clone)]
struct DChoices {
    d: u32,
    rng: Rng,
}

sim::snapshot_fields!(DChoices { rng });

impl Gc for DChoices {
    fn pick(&mut self, _pool: u32, blocks: Range<u32>, flash: &Flash) -> Option<u32> {
        let mut best = random_sealed(&mut self.rng, &blocks, flash)?;
        for _ in 1..self.d {
            let other = random_sealed(&mut self.rng, &blocks, flash)?;
            if flash.valid(other) < flash.valid(best) {
                best = other;
            }
        }
        Some(best)
    }

    fn boxed_clone(&self) -> Box<dyn Gc> {
        Box::new(self.clone())
    }
}

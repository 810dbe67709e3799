//! Greedy victim selection: the block with the fewest valid pages.
//!
//! # What it models
//! The collector's most common policy: empty the block that costs least to empty. Of several
//! equally good blocks the lowest-numbered is taken.
//!
//! # Equation
//! With many blocks under uniform random writes the steady flow makes the number of blocks with
//! `i` valid pages proportional to `1/i`. With `j` integer, `q` in [0, 1] and victim valid count
//! `v = j - q`: `H_b - H_j + q/j = (b - j + q) / (rho b)`, `WAF = b / (b - v)`.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Age and wear: cold blocks with many valid pages are never chosen, so use a wear policy.
//!
//! # Validated against
//! The equation, for b = 64, 128 and 256 (`docs/measured/closed-forms.md`).
//!
//! # References
//! Bux and Iliadis, Performance Evaluation 2010; Desnoyers, SYSTOR 2012.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Gc};
use crate::ftl::flash::Flash;

/// Greedy has no parameters.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {}

impl Params {
    /// Build the policy.
    pub fn build(&self, _context: &Context) -> Box<dyn Gc> {
        Box::new(Greedy)
    }
}

#[derive(Clone)]
struct Greedy;

sim::snapshot_fields!(Greedy {});

impl Gc for Greedy {
    fn pick(&mut self, _pool: u32, blocks: Range<u32>, flash: &Flash) -> Option<u32> {
        flash.least_valid(blocks)
    }

    fn boxed_clone(&self) -> Box<dyn Gc> {
        Box::new(self.clone())
    }
}

//! Cost-benefit victim selection: free space gained times age, over the cost of gaining it.
//!
//! # What it models
//! The log-structured file system's cleaner: a cold block is worth collecting at a higher valid
//! count than a hot one, because its free space will stay free longer.
//!
//! # Equation
//! Take the block with the greatest `age (1 - u) / (2 u)`, where `u` is its valid share and age
//! counts the blocks sealed since it was.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Wear (the variant of Chiang, Lee and Chang adds it). Victim search is linear in the pool.
//!
//! # Validated against
//! Its order on hand-made blocks; equals FIFO-like behaviour for equal valid counts.
//!
//! # References
//! Rosenblum and Ousterhout, ACM TOCS 1992; Kawaguchi, Nishioka and Motoda, USENIX 1995.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Gc};
use crate::ftl::flash::Flash;

/// Cost-benefit has no parameters.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {}

impl Params {
    /// Build the policy.
    pub fn build(&self, _context: &Context) -> Box<dyn Gc> {
        Box::new(CostBenefit)
    }
}

#[derive(Clone)]
struct CostBenefit;

sim::snapshot_fields!(CostBenefit {});

impl Gc for CostBenefit {
    fn pick(&mut self, _pool: u32, blocks: Range<u32>, flash: &Flash) -> Option<u32> {
        let newest = flash.seals();
        let pages = u64::from(flash.geometry.pages_per_block.get());
        // Integers keep the choice identical on every machine: 32 fraction bits of the ratio.
        let score = |block: u32| {
            let valid = u64::from(flash.valid(block));
            let age = u64::from(newest - flash.block(block).sealed_at) + 1;
            match valid {
                0 => u128::MAX,
                _ => (u128::from(age * (pages - valid)) << 32) / u128::from(2 * valid),
            }
        };
        // On a tie the lowest-numbered block, as greedy does: max_by_key keeps the last of equals.
        blocks.rev().filter(|&block| flash.is_sealed(block)).max_by_key(|&block| score(block))
    }

    fn boxed_clone(&self) -> Box<dyn Gc> {
        Box::new(self.clone())
    }
}

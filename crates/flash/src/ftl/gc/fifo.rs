//! FIFO victim selection: the block that was filled longest ago.
//!
//! # What it models
//! Cleaning in the order of writing, as a circular log does. It levels wear perfectly.
//! With a mapping whose table is loaded on demand, a block that would take more pages for its moves
//! and for the map pages they change than it frees gives way to the emptiest one.
//!
//! # Equation
//! Under uniform random writes, with `alpha = 1/rho` and the principal Lambert function W0:
//! `WAF = alpha / (alpha + W0(-alpha e^-alpha))`.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! How much the block costs to empty.
//!
//! # Validated against
//! The equation (`docs/measured/closed-forms.md`).
//!
//! # References
//! Robinson; Menon; Desnoyers, SYSTOR 2012; Xiang and Kurkoski, arXiv 1110.4245.

use std::collections::VecDeque;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Gc};
use crate::ftl::flash::Flash;

/// FIFO has no parameters.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {}

impl Params {
    /// Build the policy.
    pub fn build(&self, context: &Context) -> Box<dyn Gc> {
        Box::new(Fifo { order: vec![VecDeque::new(); context.pools as usize] })
    }
}

#[derive(Clone)]
struct Fifo {
    /// Sealed blocks per pool, oldest first.
    order: Vec<VecDeque<u32>>,
}

sim::snapshot_fields!(Fifo { order });

impl Gc for Fifo {
    fn sealed(&mut self, pool: u32, block: u32) {
        self.order[pool as usize].push_back(block);
    }

    fn withdrawn(&mut self, pool: u32, block: u32) {
        self.order[pool as usize].retain(|&other| other != block);
    }

    fn pick(&mut self, pool: u32, _blocks: Range<u32>, flash: &Flash) -> Option<u32> {
        // Wear levelling may have collected a block out of turn: such entries are dropped.
        let order = &mut self.order[pool as usize];
        std::iter::from_fn(|| order.pop_front()).find(|&block| flash.is_sealed(block))
    }

    fn boxed_clone(&self) -> Box<dyn Gc> {
        Box::new(self.clone())
    }
}

//! Windowed greedy: the block with the fewest valid pages among the w oldest.
//!
//! # What it models
//! A compromise between FIFO (w = 1) and greedy (w = all): blocks get time to lose valid pages,
//! and old blocks are not passed over for ever.
//!
//! # Equation
//! None in closed form; write amplification lies between FIFO's and greedy's.
//!
//! # Parameters
//! `window`: blocks considered, oldest first, per pool.
//!
//! # What it leaves out
//! Wear.
//!
//! # Validated against
//! FIFO and greedy at the ends, independent simulation between (`docs/measured/closed-forms.md`).
//!
//! # References
//! Hu et al., SYSTOR 2009.

use std::collections::VecDeque;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Gc};
use crate::ftl::flash::Flash;

/// Parameters of windowed greedy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Blocks considered, oldest first; 0 counts as 1.
    pub window: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { window: 64 }
    }
}

impl Params {
    /// Build the policy.
    pub fn build(&self, context: &Context) -> Box<dyn Gc> {
        let order = vec![VecDeque::new(); context.pools as usize];
        Box::new(Windowed { window: self.window.max(1) as usize, order })
    }
}

#[derive(Clone)]
struct Windowed {
    window: usize,
    /// Sealed blocks per pool, oldest first.
    order: Vec<VecDeque<u32>>,
}

sim::snapshot_fields!(Windowed { order });

impl Gc for Windowed {
    fn sealed(&mut self, pool: u32, block: u32) {
        self.order[pool as usize].push_back(block);
    }

    fn withdrawn(&mut self, pool: u32, block: u32) {
        self.order[pool as usize].retain(|&other| other != block);
    }

    fn pick(&mut self, pool: u32, _blocks: Range<u32>, flash: &Flash) -> Option<u32> {
        let order = &mut self.order[pool as usize];
        loop {
            let candidates = order.iter().take(self.window).enumerate();
            let best = candidates.min_by_key(|&(_, &block)| match flash.is_sealed(block) {
                true => flash.valid(block),
                // Collected out of turn by wear levelling: comes out first and is dropped.
                false => 0,
            });
            let (index, _) = best?;
            let block = order.remove(index)?;
            if flash.is_sealed(block) {
                return Some(block);
            }
        }
    }

    fn boxed_clone(&self) -> Box<dyn Gc> {
        Box::new(self.clone())
    }
}

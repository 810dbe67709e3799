//! Victim selection: which block the collector empties next. One file per policy.

use std::ops::Range;

use sim::{Rng, Snapshot};

use super::flash::Flash;

sim::registry! {
    /// Which block the collector empties next.
    pub enum GcPolicy("gc"): Context => Box<dyn Gc> = {
        Greedy = "greedy" => greedy,
        Fifo = "fifo" => fifo,
        Random = "random" => random,
        DChoices = "d-choices" => d_choices,
        Windowed = "windowed" => windowed,
        CostBenefit = "cost-benefit" => cost_benefit,
    }
}

/// What a policy is built with besides its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The policy's random stream.
    pub rng: Rng,
    /// Pools it chooses from: one per plane, or one for the whole drive.
    pub pools: u32,
}

/// A victim policy.
///
/// The collector tells it about every sealed block and asks for a victim when a pool runs low.
/// A block counts as a candidate while [`Flash::is_sealed`] says so.
pub trait Gc: Snapshot + Send {
    /// A block of `pool` was filled and may be chosen from now on.
    fn sealed(&mut self, pool: u32, block: u32) {
        let _ = (pool, block);
    }

    /// A sealed block of `pool` is collected though it was not picked.
    fn withdrawn(&mut self, pool: u32, block: u32) {
        let _ = (pool, block);
    }

    /// Choose a sealed block of `pool`, which holds the block numbers `blocks`; `None` when none
    /// is sealed.
    fn pick(&mut self, pool: u32, blocks: Range<u32>, flash: &Flash) -> Option<u32>;

    /// A copy that will choose the same.
    fn boxed_clone(&self) -> Box<dyn Gc>;
}

impl Clone for Box<dyn Gc> {
    fn clone(&self) -> Box<dyn Gc> {
        self.boxed_clone()
    }
}

/// A uniformly random sealed block of the range. Most blocks of a full drive are sealed, so trying
/// at random ends soon; a nearly empty range is searched from a random start instead.
pub(crate) fn random_sealed(rng: &mut Rng, blocks: &Range<u32>, flash: &Flash) -> Option<u32> {
    let length = blocks.end - blocks.start;
    for _ in 0..32 {
        let block = blocks.start + rng.below(u64::from(length)) as u32;
        if flash.is_sealed(block) {
            return Some(block);
        }
    }
    let start = rng.below(u64::from(length)) as u32;
    (0..length).map(|i| blocks.start + (start + i) % length).find(|&b| flash.is_sealed(b))
}

#[cfg(test)]
mod tests;

//! Wear levelling: which block to wear next, and which cold block to move. One file per policy.

use sim::Snapshot;

use super::flash::Flash;

sim::registry! {
    /// How wear is levelled.
    pub enum WearPolicy("wear"): Context => Box<dyn Wear> = {
        None = "none" => none,
        Dynamic = "dynamic" => wear_dynamic,
        Static = "static" => wear_static,
    }
}

/// What a policy is built with besides its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Planes of the drive.
    pub planes: u32,
}

/// A wear-levelling policy.
pub trait Wear: Snapshot + Send {
    /// True to open the least worn free block instead of the one that has been free longest.
    fn levels_free_blocks(&self) -> bool;

    /// Asked after every erase in `plane`: a sealed block whose data should move because the
    /// block is worn too little, or `None`.
    fn cold_victim(&mut self, plane: u32, flash: &Flash) -> Option<u32> {
        let _ = (plane, flash);
        None
    }

    /// A copy that will choose the same.
    fn boxed_clone(&self) -> Box<dyn Wear>;
}

impl Clone for Box<dyn Wear> {
    fn clone(&self) -> Box<dyn Wear> {
        self.boxed_clone()
    }
}

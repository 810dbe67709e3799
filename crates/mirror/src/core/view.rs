//! What people may see of a running array.

use super::Core;
use super::member::State;
use crate::format::Superblock;
use crate::types::{DEVICES, LEGS, Mode, Slot};

impl Core {
    /// Which legs count as frozen and owe an answer: one that nobody asks anything keeps its pace,
    /// whatever that was.
    pub fn frozen(&self) -> [bool; LEGS] {
        std::array::from_fn(|leg| {
            self.members[leg].pace.lagging && self.members[leg].outstanding > 0
        })
    }

    /// The mode it is about to run in.
    pub fn mode_wanted(&self) -> Option<Mode> {
        self.superblocks.mode_wanted.map(|(mode, _)| mode)
    }

    /// While a scrub goes on: the block it has come to.
    pub fn scrub_position(&self) -> Option<u64> {
        self.scrub.position()
    }

    /// Single blocks of each leg that are known to be wrong and not repaired yet.
    pub fn wrong_blocks(&self) -> [u64; LEGS] {
        std::array::from_fn(|leg| self.members[leg].bad.len() as u64)
    }

    /// Pages of each device's log that hold something that is needed.
    pub fn log_pages_used(&self) -> [u64; DEVICES] {
        std::array::from_fn(|slot| self.logs[slot].used())
    }

    /// What was written last to the device as its superblock; `None` for one that was not there at
    /// the start and was not taken in since.
    pub fn superblock(&self, slot: Slot) -> Option<&Superblock> {
        self.superblocks.own(slot)
    }

    /// Requests to a device that was left out which may still do something there.
    pub fn unanswered(&self, slot: Slot) -> u32 {
        self.members[slot].zombies
    }

    /// May this device be left out: is there a leg that goes on without it?
    pub fn spares(&self, slot: Slot) -> bool {
        (0..LEGS).all(|leg| leg == slot || self.members[leg].state == State::Member)
    }
}

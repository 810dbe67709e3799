//! What people may see of a running array.

use super::Core;
use super::event::Io;
use super::io::Purpose;
use super::member::State;
use crate::format::Superblock;
use crate::policy::lag::LagRules;
use crate::types::{Block, DEVICES, LEGS, Mode, Slot, Span};

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

    /// How many blocks are lost.
    pub fn lost(&self) -> u64 {
        self.table.lost()
    }

    /// The first ranges of them.
    pub fn lost_ranges(&self, most: usize) -> Vec<Span> {
        self.table.lost_ranges(most)
    }

    /// Is it lost?
    pub fn is_lost(&self, block: Block) -> bool {
        self.table.is_lost(block)
    }

    /// When a device is too late.
    pub fn lag(&self) -> &LagRules {
        &self.config.lag
    }

    /// Does any device owe an answer?
    pub fn is_busy(&self) -> bool {
        self.members.iter().any(|member| member.outstanding > 0)
    }

    /// Where in the data a device request is, if it is about data.
    pub fn span_of(&self, io: Io) -> Option<Span> {
        match self.ios.get(io).filter(|out| !out.zombie)?.purpose {
            Purpose::Home { write, .. } => {
                Some(self.writes.slab.get(write as usize)?.as_ref()?.span)
            }
            Purpose::Part { part } => self.reads.span(part),
            Purpose::CopyRead { copy } => self.copies.span(copy),
            Purpose::Scrub { turn } => self.scrub.span(turn),
            Purpose::Look { block } => Some(Span::new(block, 1)),
            _ => None,
        }
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

    /// The number of the newest superblock that the device is known to hold: what was written to
    /// it later may have failed.
    pub fn superblock_there(&self, slot: Slot) -> u64 {
        self.superblocks.there(slot)
    }

    /// Does a device that was left out come back by itself when it has answered in time?
    pub fn returns(&self, slot: Slot) -> bool {
        self.members[slot].returns
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

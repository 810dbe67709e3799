//! Replies that a fault holds back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::clock::Wall;
use crate::fault::FaultId;

/// Slots that wait for a moment, or for a fault to be lifted.
#[derive(Default, Debug)]
pub(crate) struct Delayed {
    /// (moment, sequence, slot): ties in the order of their completion.
    heap: BinaryHeap<Reverse<(Wall, u64, u32)>>,
    sequence: u64,
    hung: BTreeMap<FaultId, Vec<u32>>,
}

impl Delayed {
    /// Hold `slot` back until `due`.
    pub(crate) fn until(&mut self, due: Wall, slot: u32) {
        self.heap.push(Reverse((due, self.sequence, slot)));
        self.sequence += 1;
    }

    /// Hold `slot` back until `fault` is lifted.
    pub(crate) fn hang(&mut self, fault: FaultId, slot: u32) {
        self.hung.entry(fault).or_default().push(slot);
    }

    /// The slots that `fault` held back.
    pub(crate) fn release(&mut self, fault: FaultId) -> Vec<u32> {
        self.hung.remove(&fault).unwrap_or_default()
    }

    /// The earliest moment.
    pub(crate) fn next(&self) -> Option<Wall> {
        self.heap.peek().map(|&Reverse((due, ..))| due)
    }

    /// The next slot that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Wall) -> Option<u32> {
        let &Reverse((due, _, slot)) = self.heap.peek()?;
        if due > now {
            return None;
        }
        self.heap.pop();
        Some(slot)
    }
}

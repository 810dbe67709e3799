//! The event heap: earliest first, ties in the order of insertion.

use crate::snapshot::{Loader, Saver, Snapshot, SnapshotError};
use crate::units::Nanos;

/// Children per node: four keys share a cache line pair, so a sift reads fewer lines than in a
/// binary heap.
const ARITY: usize = 4;

/// A min-heap of (time, sequence) with a 32-bit payload.
///
/// The sequence number makes the order total, so a run does not depend on the heap's shape.
#[derive(Clone, Default, Debug)]
pub struct EventHeap {
    /// (time, sequence << 32 | payload): compared as a pair.
    nodes: Vec<(u64, u64)>,
    sequence: u32,
}

impl EventHeap {
    /// An empty heap.
    pub fn new() -> EventHeap {
        EventHeap::default()
    }

    /// Number of events waiting.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True when no event waits.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Time of the earliest event.
    #[inline]
    pub fn next_time(&self) -> Option<Nanos> {
        self.nodes.first().map(|node| Nanos(node.0))
    }

    /// Add an event at `time`.
    #[inline]
    pub fn push(&mut self, time: Nanos, payload: u32) {
        if self.sequence == u32::MAX {
            self.renumber();
        }
        let node = (time.0, u64::from(self.sequence) << 32 | u64::from(payload));
        self.sequence += 1;
        let mut hole = self.nodes.len();
        self.nodes.push(node);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.nodes[parent] <= node {
                break;
            }
            self.nodes[hole] = self.nodes[parent];
            hole = parent;
        }
        self.nodes[hole] = node;
    }

    /// Remove and return the earliest event if it is due at `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, u32)> {
        match self.nodes.first() {
            Some(node) if node.0 <= now.0 => self.pop(),
            _ => None,
        }
    }

    /// Remove and return the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, u32)> {
        let &(time, rest) = self.nodes.first()?;
        let last = self.nodes.pop().expect("the heap has a first node, so it has a last one");
        if !self.nodes.is_empty() {
            self.sift_down(last);
        }
        Some((Nanos(time), rest as u32))
    }

    /// Remove every event.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.sequence = 0;
    }

    #[inline]
    fn sift_down(&mut self, node: (u64, u64)) {
        let length = self.nodes.len();
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            if first >= length {
                break;
            }
            let end = (first + ARITY).min(length);
            let mut least = first;
            for child in first + 1..end {
                if self.nodes[child] < self.nodes[least] {
                    least = child;
                }
            }
            if node <= self.nodes[least] {
                break;
            }
            self.nodes[hole] = self.nodes[least];
            hole = least;
        }
        self.nodes[hole] = node;
    }

    /// Give the waiting events fresh sequence numbers in their present order: needed once in four
    /// thousand million events. A sorted array is a valid heap.
    #[cold]
    fn renumber(&mut self) {
        self.nodes.sort_unstable();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            node.1 = (index as u64) << 32 | node.1 & 0xffff_ffff;
        }
        self.sequence = self.nodes.len() as u32;
    }
}

impl Snapshot for EventHeap {
    fn save(&self, to: &mut Saver) {
        let mut sorted = self.nodes.clone();
        sorted.sort_unstable();
        sorted.save(to);
        self.sequence.save(to);
    }

    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.nodes.restore(from)?;
        self.sequence.restore(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn pops_in_time_order_and_ties_in_insertion_order() {
        let mut heap = EventHeap::new();
        let mut rng = Rng::new(3, "heap");
        let mut expected = Vec::new();
        for payload in 0..2_000u32 {
            let time = rng.below(50);
            heap.push(Nanos(time), payload);
            expected.push((Nanos(time), payload));
        }
        expected.sort_by_key(|&(time, payload)| (time, payload));
        let popped: Vec<_> = std::iter::from_fn(|| heap.pop()).collect();
        assert_eq!(popped, expected);
    }

    #[test]
    fn renumbering_keeps_the_order() {
        let mut heap = EventHeap { sequence: u32::MAX - 2, ..EventHeap::default() };
        for payload in 0..6 {
            heap.push(Nanos(9), payload);
        }
        let popped: Vec<_> = std::iter::from_fn(|| heap.pop()).map(|(_, p)| p).collect();
        assert_eq!(popped, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn pop_due_leaves_the_future() {
        let mut heap = EventHeap::new();
        heap.push(Nanos(10), 1);
        assert_eq!(heap.pop_due(Nanos(9)), None);
        assert_eq!(heap.pop_due(Nanos(10)), Some((Nanos(10), 1)));
    }
}

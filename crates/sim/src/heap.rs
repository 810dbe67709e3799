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
    /// time << 64 | sequence << 32 | payload: one comparison orders all of it.
    nodes: Vec<u128>,
    sequence: u32,
    /// The root was popped and its place is not filled yet: most events are followed by another
    /// one of the same unit, which then needs one sift instead of two.
    hole: bool,
}

impl EventHeap {
    /// An empty heap.
    pub fn new() -> EventHeap {
        EventHeap::default()
    }

    /// Number of events waiting.
    pub fn len(&self) -> usize {
        self.nodes.len() - usize::from(self.hole)
    }

    /// True when no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Time of the earliest event.
    #[inline]
    pub fn next_time(&self) -> Option<Nanos> {
        if self.hole {
            // Only between a pop and the next call: the least of the root's children.
            return self.nodes[1..].iter().take(ARITY).min().map(|&node| time_of(node));
        }
        self.nodes.first().map(|&node| time_of(node))
    }

    /// Add an event at `time`.
    #[inline]
    pub fn push(&mut self, time: Nanos, payload: u32) {
        if self.sequence == u32::MAX {
            self.renumber();
        }
        let low = u64::from(self.sequence) << 32 | u64::from(payload);
        let node = u128::from(time.0) << 64 | u128::from(low);
        self.sequence += 1;
        if self.hole {
            self.hole = false;
            self.sift_down(node);
            return;
        }
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
        self.fill_hole();
        match self.nodes.first() {
            Some(&node) if time_of(node) <= now => {
                self.hole = true;
                Some((time_of(node), node as u32))
            }
            _ => None,
        }
    }

    /// Remove and return the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, u32)> {
        self.pop_due(Nanos::MAX)
    }

    /// Remove every event.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.sequence = 0;
        self.hole = false;
    }

    #[inline]
    fn fill_hole(&mut self) {
        if self.hole {
            self.hole = false;
            let last = self.nodes.pop().expect("the heap holds at least its hole");
            if !self.nodes.is_empty() {
                self.sift_down(last);
            }
        }
    }

    /// Put `node` in the place of the root and restore the order.
    #[inline]
    fn sift_down(&mut self, node: u128) {
        let nodes = self.nodes.as_mut_slice();
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            let (least, value) = match nodes.get(first..first + ARITY) {
                Some(&[a, b, c, d]) => {
                    let (ab, ab_at) = if b < a { (b, first + 1) } else { (a, first) };
                    let (cd, cd_at) = if d < c { (d, first + 3) } else { (c, first + 2) };
                    if cd < ab { (cd_at, cd) } else { (ab_at, ab) }
                }
                _ => {
                    let rest = nodes.get(first..).unwrap_or(&[]);
                    match rest.iter().enumerate().min_by_key(|&(_, &value)| value) {
                        Some((offset, &value)) => (first + offset, value),
                        None => break,
                    }
                }
            };
            if node <= value {
                break;
            }
            nodes[hole] = value;
            hole = least;
        }
        nodes[hole] = node;
    }

    /// Give the waiting events fresh sequence numbers in their present order: needed once in four
    /// thousand million events. A sorted array is a valid heap.
    #[cold]
    fn renumber(&mut self) {
        self.fill_hole();
        self.nodes.sort_unstable();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let sequence_bits = u128::from(u32::MAX) << 32;
            *node = *node & !sequence_bits | (index as u128) << 32;
        }
        self.sequence = self.nodes.len() as u32;
    }
}

#[inline]
fn time_of(node: u128) -> Nanos {
    Nanos((node >> 64) as u64)
}

impl Snapshot for EventHeap {
    fn save(&self, to: &mut Saver) {
        let mut sorted = self.nodes[usize::from(self.hole)..].to_vec();
        sorted.sort_unstable();
        sorted.save(to);
        self.sequence.save(to);
    }

    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.nodes.restore(from)?;
        self.hole = false;
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
    fn pushes_between_pops_keep_the_order() {
        let (mut heap, mut rng) = (EventHeap::new(), Rng::new(5, "mixed"));
        let mut expected = std::collections::BTreeSet::new();
        for payload in 0..5_000u32 {
            let time = rng.below(1_000);
            heap.push(Nanos(time), payload);
            expected.insert((time, payload));
            if rng.below(3) > 0 {
                let (time, payload) = heap.pop().unwrap();
                assert_eq!(expected.pop_first(), Some((time.0, payload)));
                assert_eq!(heap.next_time().map(|t| t.0), expected.first().map(|e| e.0));
                assert_eq!(heap.len(), expected.len());
            }
        }
    }

    #[test]
    fn pop_due_leaves_the_future() {
        let mut heap = EventHeap::new();
        heap.push(Nanos(10), 1);
        assert_eq!(heap.pop_due(Nanos(9)), None);
        assert_eq!(heap.pop_due(Nanos(10)), Some((Nanos(10), 1)));
    }
}

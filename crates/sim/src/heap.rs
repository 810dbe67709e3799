//! The event heap: earliest first, ties in the order of insertion.

use std::collections::VecDeque;

use crate::snapshot::{Loader, Saver, Snapshot, SnapshotError};
use crate::units::Nanos;

/// Children per node: a level of four children is read together.
const ARITY: usize = 4;

/// Lanes for events that are pushed in rising order of time.
const LANES: usize = 4;

/// Later than any event: no event happens at [`Nanos::MAX`].
const NEVER: u128 = u128::MAX;

/// Events by (time, sequence) with a 32-bit payload.
///
/// The sequence number makes the order total, so a run does not depend on the shape of the queue.
/// Most events of a device lie a constant time ahead (a transfer, a page read), so those of one
/// kind come in rising order: each kind gets a *lane*, a plain queue whose front is its earliest.
/// Whatever does not fit a lane goes to a heap. The next event is the least of a few fronts.
#[derive(Clone, Debug)]
pub struct EventHeap {
    lanes: [VecDeque<u128>; LANES],
    /// time << 64 | sequence << 32 | payload: one comparison orders all of it.
    heap: Vec<u128>,
    /// Front of each lane, then of the heap; [`NEVER`] where there is none.
    fronts: [u128; LANES + 1],
    /// Least of `fronts`.
    least: usize,
    sequence: u32,
}

impl Default for EventHeap {
    fn default() -> EventHeap {
        EventHeap {
            lanes: Default::default(),
            heap: Vec::new(),
            fronts: [NEVER; LANES + 1],
            least: 0,
            sequence: 0,
        }
    }
}

impl EventHeap {
    /// No events.
    pub fn new() -> EventHeap {
        EventHeap::default()
    }

    /// Number of events waiting.
    pub fn len(&self) -> usize {
        self.heap.len() + self.lanes.iter().map(VecDeque::len).sum::<usize>()
    }

    /// True when no event waits.
    pub fn is_empty(&self) -> bool {
        self.fronts[self.least] == NEVER
    }

    /// Time of the earliest event.
    #[inline]
    pub fn next_time(&self) -> Option<Nanos> {
        let time = time_of(self.fronts[self.least]);
        (time != Nanos::MAX).then_some(time)
    }

    /// Add an event at `time`.
    #[inline]
    pub fn push(&mut self, time: Nanos, payload: u32) {
        let node = self.node(time, payload);
        self.push_heap(node);
    }

    /// Add an event at `time` of a kind whose events mostly come in rising order; `lane` is taken
    /// modulo the number of lanes. The order of events does not depend on the lane.
    #[inline]
    pub fn push_lane(&mut self, lane: usize, time: Nanos, payload: u32) {
        let node = self.node(time, payload);
        let lane = lane % LANES;
        match self.lanes[lane].back() {
            Some(&back) if back > node => self.push_heap(node),
            Some(_) => self.lanes[lane].push_back(node),
            None => {
                self.lanes[lane].push_back(node);
                self.new_front(lane, node);
            }
        }
    }

    /// Remove and return the earliest event if it is due at `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, u32)> {
        let from = self.least;
        let node = self.fronts[from];
        // Looking at half of the node is enough, and does not wait for the whole to be stored.
        if time_of(node) > now || time_of(node) == Nanos::MAX {
            return None;
        }
        self.fronts[from] = match self.lanes.get_mut(from) {
            Some(lane) => {
                lane.pop_front();
                lane.front().copied().unwrap_or(NEVER)
            }
            None => self.pop_heap(),
        };
        let (mut least, mut earliest) = (0, self.fronts[0]);
        for (index, &front) in self.fronts.iter().enumerate().skip(1) {
            if front < earliest {
                (least, earliest) = (index, front);
            }
        }
        self.least = least;
        Some((time_of(node), node as u32))
    }

    /// Remove and return the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, u32)> {
        self.pop_due(Nanos::MAX)
    }

    /// Remove the events for which `keep` is false; the order of the others stays.
    pub fn retain(&mut self, mut keep: impl FnMut(Nanos, u32) -> bool) {
        let mut heap = self.sorted();
        heap.retain(|&node| keep(time_of(node), node as u32));
        *self = EventHeap { sequence: self.sequence, least: LANES, ..EventHeap::default() };
        // What is in order is a heap, and the lanes are open for what comes.
        self.fronts[LANES] = heap.first().copied().unwrap_or(NEVER);
        self.heap = heap;
    }

    /// Remove every event.
    pub fn clear(&mut self) {
        *self = EventHeap::default();
    }

    #[inline]
    fn node(&mut self, time: Nanos, payload: u32) -> u128 {
        if self.sequence == u32::MAX {
            self.renumber();
        }
        let low = u64::from(self.sequence) << 32 | u64::from(payload);
        self.sequence += 1;
        u128::from(time.0) << 64 | u128::from(low)
    }

    #[inline]
    fn new_front(&mut self, index: usize, node: u128) {
        self.fronts[index] = node;
        if node < self.fronts[self.least] {
            self.least = index;
        }
    }

    fn push_heap(&mut self, node: u128) {
        let mut hole = self.heap.len();
        self.heap.push(node);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.heap[parent] <= node {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = node;
        if hole == 0 {
            self.new_front(LANES, node);
        }
    }

    /// Drop the heap's root; returns the new one.
    fn pop_heap(&mut self) -> u128 {
        let last = self.heap.pop().expect("the heap's front is in the heap");
        if self.heap.is_empty() {
            return NEVER;
        }
        let heap = self.heap.as_mut_slice();
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            let end = (first + ARITY).min(heap.len());
            let children = heap.get(first..end).unwrap_or(&[]);
            let least = children.iter().enumerate().min_by_key(|&(_, &node)| node);
            let Some((offset, &node)) = least.filter(|&(_, &node)| node < last) else { break };
            heap[hole] = node;
            hole = first + offset;
        }
        heap[hole] = last;
        heap[0]
    }

    /// All events in order.
    fn sorted(&self) -> Vec<u128> {
        let mut all = self.heap.clone();
        self.lanes.iter().for_each(|lane| all.extend(lane));
        all.sort_unstable();
        all
    }

    /// Give the waiting events fresh sequence numbers in their present order: needed once in four
    /// thousand million events.
    #[cold]
    fn renumber(&mut self) {
        let all = self.sorted();
        self.clear();
        for node in all {
            self.push_lane(0, time_of(node), node as u32);
        }
    }
}

#[inline]
fn time_of(node: u128) -> Nanos {
    Nanos((node >> 64) as u64)
}

impl Snapshot for EventHeap {
    fn save(&self, to: &mut Saver) {
        self.sorted().save(to);
        self.sequence.save(to);
    }

    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.clear();
        let mut all: Vec<u128> = Vec::new();
        all.restore(from)?;
        if !all.is_sorted() {
            return Err(SnapshotError::Damaged("its events are out of order".into()));
        }
        self.fronts[0] = all.first().copied().unwrap_or(NEVER);
        self.lanes[0] = all.into();
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
            match payload % 2 {
                0 => heap.push(Nanos(time), payload),
                _ => heap.push_lane(1, Nanos(time), payload),
            }
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
            let time = rng.below(1_000) + u64::from(payload);
            heap.push_lane(payload as usize % 3, Nanos(time), payload);
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
    fn what_is_retained_keeps_its_order() {
        let (mut heap, mut expected) = (EventHeap::new(), Vec::new());
        let mut rng = Rng::new(7, "retain");
        for payload in 0..2_000u32 {
            let time = Nanos(rng.below(50));
            heap.push_lane(payload as usize % 5, time, payload);
            if payload % 100 == 0 {
                heap.retain(|_, payload| payload % 3 > 0);
                expected.retain(|&(_, payload)| payload % 3 > 0);
            }
            expected.push((time, payload));
        }
        heap.retain(|time, payload| time.0 < 40 && payload % 3 > 0);
        expected.retain(|&(time, payload)| time.0 < 40 && payload % 3 > 0);
        expected.sort_by_key(|&(time, payload)| (time, payload));
        assert_eq!((heap.len(), heap.next_time()), (expected.len(), Some(expected[0].0)));
        let popped: Vec<_> = std::iter::from_fn(|| heap.pop()).collect();
        assert_eq!(popped, expected);
        heap.retain(|_, _| false);
        assert!(heap.is_empty() && heap.next_time().is_none());
    }

    #[test]
    fn pop_due_leaves_the_future() {
        let mut heap = EventHeap::new();
        heap.push(Nanos(10), 1);
        assert_eq!(heap.pop_due(Nanos(9)), None);
        assert_eq!(heap.pop_due(Nanos(10)), Some((Nanos(10), 1)));
    }
}

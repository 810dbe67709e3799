//! A heap over numbered things whose keys change.

use sim::snapshot_fields;

use crate::ssd::plan::NONE;

/// Numbers with keys; the one with the least key is at hand, of several the least number.
#[derive(Clone, Debug)]
pub struct Heap {
    /// (key, number); no parent is greater than its two children.
    heap: Vec<(u64, u32)>,
    /// Place of each number in the heap, or [`NONE`].
    places: Vec<u32>,
}

snapshot_fields!(Heap { heap, places });

impl Heap {
    /// None of the numbers `0..count`.
    pub fn new(count: u32) -> Heap {
        Heap { heap: Vec::new(), places: vec![NONE; count as usize] }
    }

    /// Numbers inside.
    pub fn len(&self) -> u32 {
        self.heap.len() as u32
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The number with the least key.
    pub fn least(&self) -> Option<u32> {
        self.heap.first().map(|&(_, number)| number)
    }

    /// Give a number a key, whether it had one or not.
    pub fn set(&mut self, number: u32, key: u64) {
        let mut place = self.places[number as usize] as usize;
        if place == NONE as usize {
            place = self.heap.len();
            self.heap.push((key, number));
        }
        self.heap[place] = (key, number);
        self.sift(place);
    }

    /// Take a number out, if it is inside.
    pub fn remove(&mut self, number: u32) {
        let place = std::mem::replace(&mut self.places[number as usize], NONE);
        if place == NONE {
            return;
        }
        let last = self.heap.pop().expect("the number is inside");
        if last.1 != number {
            self.heap[place as usize] = last;
            self.sift(place as usize);
        }
    }

    /// Forget every number.
    pub fn clear(&mut self) {
        self.heap.clear();
        self.places.fill(NONE);
    }

    /// Move what is at `place` to where its key belongs.
    fn sift(&mut self, mut place: usize) {
        let item = self.heap[place];
        while place > 0 && item < self.heap[(place - 1) / 2] {
            self.put(place, self.heap[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        loop {
            let mut child = 2 * place + 1;
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if child >= self.heap.len() || item <= self.heap[child] {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, item);
    }

    fn put(&mut self, place: usize, item: (u64, u32)) {
        self.heap[place] = item;
        self.places[item.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_at_hand_whatever_changes() {
        let mut heap = Heap::new(50);
        let mut keys = std::collections::BTreeMap::new();
        let mut rng = sim::Rng::new(1, "heap");
        for _ in 0..5_000 {
            let number = rng.below(50) as u32;
            if rng.below(3) == 0 {
                heap.remove(number);
                keys.remove(&number);
            } else {
                let key = rng.below(100);
                heap.set(number, key);
                keys.insert(number, key);
            }
            let least = keys.iter().map(|(&number, &key)| (key, number)).min();
            assert_eq!(heap.least(), least.map(|(_, number)| number));
            assert_eq!(heap.len() as usize, keys.len());
        }
    }
}

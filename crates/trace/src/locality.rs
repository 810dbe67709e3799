//! How a trace moves through its addresses and through time: reuse, overwrites, arrivals, depth.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde::Serialize;
use sim::{Nanos, Op};

use crate::Record;
use crate::summary::BlockSet;

/// Values above half of `max` and up to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Class {
    /// Largest value, a power of two; 0 for the value 0.
    pub max: u64,
    /// How many.
    pub count: u64,
}

/// Locality and arrivals of a trace.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Locality {
    /// Size of a region in bytes.
    pub region_bytes: u64,
    /// Regions touched at least once. At 4,194,304 the measuring of regions stops.
    pub regions: u64,
    /// First touches of a region.
    pub cold: u64,
    /// LRU stack distances: other regions touched between two touches of a region. A cache of
    /// `n` regions hits every distance below `n`.
    pub stack_distances: Vec<Class>,
    /// Written bytes, in 4 KiB blocks.
    pub written_bytes: u64,
    /// Share of them that overwrote a block written before; absent when they are spread over more
    /// places than the meter holds.
    pub overwrite_share: Option<f64>,
    /// Times between requests in nanoseconds.
    pub inter_arrival_ns: Vec<Class>,
    /// Mean time between requests in microseconds.
    pub inter_arrival_mean_us: Option<f64>,
    /// Requests in flight that a request found on arrival; empty without responses.
    pub queue_depths: Vec<Class>,
    /// Their mean.
    pub queue_depth_mean: Option<f64>,
}

/// Bounds memory; 4 TiB of regions of 1 MiB.
const REGIONS_MAX: usize = 1 << 22;

/// Counts of powers of two.
#[derive(Clone, Debug)]
struct Powers {
    counts: [u64; 66],
    sum: u128,
    total: u64,
}

impl Default for Powers {
    fn default() -> Powers {
        Powers { counts: [0; 66], sum: 0, total: 0 }
    }
}

impl Powers {
    fn add(&mut self, value: u64) {
        let class = if value == 0 { 0 } else { 65 - (value - 1).leading_zeros() as usize };
        self.counts[class] += 1;
        self.sum += u128::from(value);
        self.total += 1;
    }

    fn classes(&self) -> Vec<Class> {
        let max = |class: usize| match class {
            0 => 0,
            65 => u64::MAX,
            _ => 1 << (class - 1),
        };
        let all = self.counts.iter().enumerate().filter(|entry| *entry.1 > 0);
        all.map(|(class, &count)| Class { max: max(class), count }).collect()
    }

    fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }
}

/// Measures a [`Locality`]; memory grows with the regions touched and the requests in flight.
pub struct LocalityMeter {
    region_sectors: u64,
    stack: Stack,
    cold: u64,
    distances: Powers,
    written: BlockSet,
    written_blocks: u64,
    overwritten_blocks: u64,
    arrivals: Powers,
    last: Option<Nanos>,
    in_flight: BinaryHeap<Reverse<u64>>,
    depths: Powers,
}

impl LocalityMeter {
    /// Measure over regions of `region_bytes`, a multiple of the sector size.
    pub fn new(region_bytes: u64) -> LocalityMeter {
        LocalityMeter {
            region_sectors: (region_bytes / sim::SECTOR_BYTES).max(1),
            stack: Stack::default(),
            cold: 0,
            distances: Powers::default(),
            written: BlockSet::default(),
            written_blocks: 0,
            overwritten_blocks: 0,
            arrivals: Powers::default(),
            last: None,
            in_flight: BinaryHeap::new(),
            depths: Powers::default(),
        }
    }

    /// One more record.
    pub fn add(&mut self, record: &Record) {
        let request = &record.request;
        if let Some(time) = record.time {
            self.arrive(time, record.response);
        }
        if !matches!(request.op, Op::Read | Op::Write) {
            return;
        }
        let last = request.end().0 - 1;
        for region in request.lba.0 / self.region_sectors..=last / self.region_sectors {
            if self.stack.last.len() >= REGIONS_MAX {
                break;
            }
            // Regions of different devices are different regions.
            match self.stack.touch((record.device, region)) {
                Some(distance) => self.distances.add(distance),
                None => self.cold += 1,
            }
        }
        if request.op == Op::Write {
            let (first, last) = (request.lba.0 / 8, last / 8);
            self.overwritten_blocks += self.written.insert(record.device, first, last);
            self.written_blocks += last - first + 1;
        }
    }

    fn arrive(&mut self, time: Nanos, response: Option<Nanos>) {
        if let Some(last) = self.last {
            self.arrivals.add(time.since(last).0);
        }
        self.last = self.last.max(Some(time));
        let Some(response) = response else { return };
        while self.in_flight.peek().is_some_and(|&Reverse(end)| end <= time.0) {
            self.in_flight.pop();
        }
        self.depths.add(self.in_flight.len() as u64);
        self.in_flight.push(Reverse(time.saturating_add(response).0));
    }

    /// The measurements.
    pub fn finish(self) -> Locality {
        Locality {
            region_bytes: self.region_sectors * sim::SECTOR_BYTES,
            regions: self.stack.last.len() as u64,
            cold: self.cold,
            stack_distances: self.distances.classes(),
            written_bytes: self.written_blocks * 4096,
            overwrite_share: self
                .written
                .len()
                .map(|_| self.overwritten_blocks as f64 / self.written_blocks.max(1) as f64),
            inter_arrival_ns: self.arrivals.classes(),
            inter_arrival_mean_us: self.arrivals.mean().map(|ns| ns / 1e3),
            queue_depths: self.depths.classes(),
            queue_depth_mean: self.depths.mean(),
        }
    }
}

/// LRU stack distances by a Fenwick tree over the moments of the last touches (Bennett, Kruskal,
/// 1975). Moments are renumbered when the tree is full, so it stays twice the number of keys.
#[derive(Default)]
struct Stack {
    last: BTreeMap<(u32, u64), usize>,
    /// 1 at every moment that is some key's last; moments count from 1.
    tree: Vec<u32>,
    now: usize,
}

impl Stack {
    /// Touch `key`: how many other keys were touched since the last time.
    fn touch(&mut self, key: (u32, u64)) -> Option<u64> {
        if self.now + 1 >= self.tree.len() {
            self.renumber();
        }
        self.now += 1;
        let before = self.last.insert(key, self.now);
        let distance = before.map(|moment| {
            let later = self.last.len() as u64 - self.sum(moment);
            self.add(moment, u32::MAX);
            later
        });
        self.add(self.now, 1);
        distance
    }

    fn renumber(&mut self) {
        let mut moments: Vec<&mut usize> = self.last.values_mut().collect();
        moments.sort_unstable();
        self.now = moments.len();
        (1..).zip(moments).for_each(|(number, moment)| *moment = number);
        let size = (self.now * 2).max(1024);
        self.tree = vec![0; size + 1];
        (1..=self.now).for_each(|moment| self.add(moment, 1));
    }

    /// Add `value` (`u32::MAX` is -1) at `moment`.
    fn add(&mut self, moment: usize, value: u32) {
        let mut at = moment;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(value);
            at += at & at.wrapping_neg();
        }
    }

    /// Keys last touched at `moment` or before.
    fn sum(&self, moment: usize) -> u64 {
        let (mut at, mut sum) = (moment, 0);
        while at > 0 {
            sum += u64::from(self.tree[at]);
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Lba, Request, Rng};

    #[test]
    fn stack_distances_agree_with_a_list() {
        let (mut stack, mut list, mut rng) = (Stack::default(), Vec::new(), Rng::new(3, "lru"));
        for _ in 0..20_000 {
            let bound = 1 + rng.below(700);
            let key = (0, rng.below(bound));
            let expected = list.iter().position(|&other| other == key);
            assert_eq!(stack.touch(key), expected.map(|p| p as u64));
            expected.map(|position| list.remove(position));
            list.insert(0, key);
        }
    }

    #[test]
    fn overwrites_that_are_no_longer_counted_have_no_share() {
        let record = Record {
            time: None,
            request: Request::write(Lba(8), 8),
            device: 0,
            response: None,
            plugged: Nanos::ZERO,
            place: 1,
        };
        let measured = |written: BlockSet| {
            let mut meter = LocalityMeter { written, ..LocalityMeter::new(1 << 20) };
            (0..4).for_each(|_| meter.add(&record));
            let all = meter.finish();
            (all.written_bytes, all.overwrite_share)
        };
        assert_eq!(measured(BlockSet::default()), (4 * 4096, Some(0.75)));
        assert_eq!(measured(BlockSet::filled()), (4 * 4096, None));
    }

    #[test]
    fn classes_are_powers_of_two() {
        let mut powers = Powers::default();
        [0, 1, 2, 3, 4, 5, u64::MAX].into_iter().for_each(|value| powers.add(value));
        let classes: Vec<_> = powers.classes().iter().map(|c| (c.max, c.count)).collect();
        assert_eq!(classes, [(0, 1), (1, 1), (2, 1), (4, 2), (8, 1), (u64::MAX, 1)]);
    }
}

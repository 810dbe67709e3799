//! The volatile write cache: acknowledged writes on their way to the medium.

use std::collections::{BTreeMap, VecDeque};

use sim::{Loader, LostWrite, Nanos, RequestId, Saver, Snapshot, SnapshotError, snapshot_fields};

use crate::geometry::SectorPosition;
use crate::mechanics::{Arm, Mechanics};
use crate::params::{Scheduler, WriteCacheParams};
use crate::queue::Queue;

/// A cached write.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Dirty {
    /// The request it came with.
    pub id: u64,
    /// First sector.
    pub lba: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Order of arrival.
    pub sequence: u64,
    /// Its data begins to arrive: the arm may set out.
    pub started: Nanos,
    /// Its data is in the cache from here on, and it is acknowledged then.
    pub acknowledged: Nanos,
    /// Its run: the order of arrival of that one's first write.
    pub run: u64,
    /// Where it begins.
    pub place: SectorPosition,
}

snapshot_fields!(Dirty { id, lba, sectors, sequence, started, acknowledged, run, place });

impl Dirty {
    /// First sector behind it.
    pub fn end(&self) -> u64 {
        self.lba + u64::from(self.sectors)
    }

    fn key(&self) -> (u64, u64) {
        (self.lba, self.sequence)
    }

    fn covers(&self, other: &Dirty) -> bool {
        self.lba <= other.lba && other.end() <= self.end()
    }

    fn overlaps(&self, other: &Dirty) -> bool {
        self.lba < other.end() && other.lba < self.end()
    }
}

/// Writes the arm chooses among: the oldest ones. Firmware bounds this search as well.
const WINDOW: usize = 64;

/// The write cache.
#[derive(Clone, Debug)]
pub struct WriteCache {
    window: Queue<Dirty>,
    backlog: VecDeque<Dirty>,
    /// The write that is going to the medium.
    writing: Option<Dirty>,
    /// (first sector, number) of every cached write, and its end.
    index: BTreeMap<(u64, u64), u64>,
    /// No cached write is longer.
    longest: u64,
    sectors: u64,
    /// The runs that have cached writes, and how many.
    runs: BTreeMap<u64, u32>,
    newest_run: u64,
    sequence: u64,
    newest_end: u64,
    sectors_max: u64,
    runs_max: u64,
}

impl Snapshot for WriteCache {
    fn save(&self, to: &mut Saver) {
        self.window.save(to);
        self.backlog.save(to);
        self.writing.save(to);
        [self.longest, self.sectors, self.newest_run, self.sequence, self.newest_end].save(to);
    }

    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.window.restore(from)?;
        self.backlog.restore(from)?;
        self.writing.restore(from)?;
        let mut numbers = [0u64; 5];
        numbers.restore(from)?;
        [self.longest, self.sectors, self.newest_run, self.sequence, self.newest_end] = numbers;
        self.index = self.all().map(|dirty| (dirty.key(), dirty.end())).collect();
        let mut runs = BTreeMap::new();
        self.all().for_each(|dirty| *runs.entry(dirty.run).or_default() += 1);
        self.runs = runs;
        Ok(())
    }
}

impl WriteCache {
    /// An empty cache.
    pub fn new(params: &WriteCacheParams) -> WriteCache {
        WriteCache {
            window: Queue::default(),
            backlog: VecDeque::new(),
            writing: None,
            index: BTreeMap::new(),
            longest: 0,
            sectors: 0,
            runs: BTreeMap::new(),
            newest_run: 0,
            sequence: 0,
            newest_end: u64::MAX,
            sectors_max: params.size.0.sectors(),
            runs_max: u64::from(params.runs),
        }
    }

    /// True when nothing waits for the arm; one write may still be on its way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.window.is_empty()
    }

    /// Nanoseconds until the head reaches the write that it reaches first; `None` when none waits.
    pub fn nearest_ns(&self, mechanics: &Mechanics, arm: Arm, now: Nanos) -> Option<u64> {
        self.window.nearest_ns(mechanics, arm, now)
    }

    /// True when everything is on the medium.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.window.is_empty() && self.writing.is_none()
    }

    /// True when a write of this size can never be cached.
    pub fn is_too_large(&self, sectors: u32) -> bool {
        u64::from(sectors) > self.sectors_max
    }

    /// True when a write from `lba` would continue the newest cached one.
    pub fn continues(&self, lba: u64) -> bool {
        self.newest_end == lba && !self.is_clean()
    }

    /// True when there is room for a write now.
    pub fn has_room(&self, lba: u64, sectors: u32) -> bool {
        self.sectors + u64::from(sectors) <= self.sectors_max
            && ((self.runs.len() as u64) < self.runs_max || self.continues(lba))
    }

    /// Number that every write cached so far is below.
    pub fn next_sequence(&self) -> u64 {
        self.sequence
    }

    /// Take a write in; it fits. Its number and its run are set here.
    pub fn insert(&mut self, mut dirty: Dirty) {
        if !self.continues(dirty.lba) {
            self.newest_run = self.sequence;
        }
        (dirty.run, dirty.sequence) = (self.newest_run, self.sequence);
        *self.runs.entry(dirty.run).or_default() += 1;
        self.sequence += 1;
        self.sectors += u64::from(dirty.sectors);
        self.newest_end = dirty.end();
        self.index.insert(dirty.key(), dirty.end());
        self.longest = self.longest.max(dirty.sectors.into());
        self.backlog.push_back(dirty);
        self.refill();
    }

    fn refill(&mut self) {
        while self.window.len() < WINDOW
            && let Some(dirty) = self.backlog.pop_front()
        {
            self.window.push(&dirty.place, true, dirty.started, dirty);
        }
    }

    /// Begin to write the best of the oldest writes; `None` when none waits.
    pub fn begin(
        &mut self,
        scheduler: Scheduler,
        mechanics: &Mechanics,
        arm: Arm,
        now: Nanos,
    ) -> Option<Dirty> {
        let best = self.window.choose(scheduler, mechanics, arm, now)?;
        let index = if self.overlaps_another(&self.window.items()[best]) {
            self.in_order(best)
        } else {
            best
        };
        let dirty = self.window.remove(index);
        self.writing = Some(dirty);
        self.refill();
        Some(dirty)
    }

    /// Which write to begin instead of `chosen`, which overlaps others: the newest that covers
    /// it, so that several writes of one place cost one. A write that is covered only in part
    /// reaches the medium before any newer one.
    fn in_order(&self, mut chosen: usize) -> usize {
        let items = self.window.items();
        let covers = |(_, newer): &(usize, &Dirty)| newer.covers(&items[chosen]);
        let newest = items.iter().enumerate().filter(covers).max_by_key(|(_, d)| d.sequence);
        chosen = newest.map_or(chosen, |(index, _)| index);
        loop {
            let dirty = &items[chosen];
            let before = |(_, old): &(usize, &Dirty)| {
                old.sequence < dirty.sequence && old.overlaps(dirty) && !dirty.covers(old)
            };
            let older = items.iter().enumerate().filter(before).min_by_key(|(_, d)| d.sequence);
            match older {
                Some((index, _)) => chosen = index,
                None => return chosen,
            }
        }
    }

    /// The write begun last is on the medium. Older writes that it covers are clean as well.
    pub fn finish(&mut self) -> Option<Dirty> {
        let done = self.writing.take()?;
        let overlaps = self.overlaps_another(&done);
        self.leave(&done);
        let mut index = if overlaps { 0 } else { self.window.len() };
        while index < self.window.len() {
            let old = self.window.items()[index];
            if old.sequence < done.sequence && done.covers(&old) {
                self.leave(&old);
                self.window.remove(index);
            } else {
                index += 1;
            }
        }
        self.refill();
        Some(done)
    }

    /// Cached writes that may touch sectors from `lba` to `end`, as (number, first sector, end).
    #[inline]
    fn touching(&self, lba: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let from = (lba.saturating_sub(self.longest), 0);
        let range = self.index.range(from..(end, 0));
        range.map(|(&(start, number), &stop)| (number, start, stop))
    }

    fn overlaps_another(&self, dirty: &Dirty) -> bool {
        let mut touching = self.touching(dirty.lba, dirty.end());
        touching.any(|(number, _, end)| number != dirty.sequence && end > dirty.lba)
    }

    fn leave(&mut self, dirty: &Dirty) {
        self.index.remove(&dirty.key());
        self.sectors -= u64::from(dirty.sectors);
        if let Some(writes) = self.runs.get_mut(&dirty.run) {
            *writes -= 1;
            if *writes == 0 {
                self.runs.remove(&dirty.run);
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = &Dirty> {
        self.writing.iter().chain(self.window.items()).chain(&self.backlog)
    }

    /// True when every write numbered below `sequence` is on the medium.
    pub fn is_clean_below(&self, sequence: u64) -> bool {
        // The window holds the oldest ones.
        let oldest = self.writing.iter().chain(self.window.items());
        !oldest.into_iter().any(|dirty| dirty.sequence < sequence)
    }

    /// True when cached writes hold all of this range, one of them or several together.
    #[inline]
    pub fn holds(&self, lba: u64, end: u64) -> bool {
        if self.is_clean() {
            return false;
        }
        // They come by their first sector, so a gap is not filled by a later one.
        let mut held = lba;
        for (_, start, stop) in self.touching(lba, end) {
            if start > held || held >= end {
                break;
            }
            held = held.max(stop);
        }
        held >= end
    }

    /// Lose everything; returns the writes that were acknowledged, in the order of that.
    pub fn power_fail(&mut self, is_acknowledged: impl Fn(u64) -> bool) -> Vec<LostWrite> {
        let mut lost: Vec<Dirty> = self.all().filter(|d| is_acknowledged(d.id)).copied().collect();
        lost.sort_by_key(|dirty| (dirty.acknowledged, dirty.sequence));
        self.window.clear();
        self.backlog.clear();
        self.writing = None;
        self.index.clear();
        self.runs.clear();
        (self.sectors, self.newest_end) = (0, u64::MAX);
        let report =
            |d: &Dirty| LostWrite { id: RequestId(d.id), lba: sim::Lba(d.lba), sectors: d.sectors };
        lost.iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Params;

    #[test]
    fn a_run_is_there_until_its_last_write_has_left() {
        let params = Params::default();
        let mechanics = params.mechanics().unwrap();
        let limit = WriteCacheParams { runs: 1, ..params.write_cache.clone() };
        let mut cache = WriteCache::new(&limit);
        let dirty = |lba: u64| Dirty {
            id: lba,
            lba,
            sectors: 8,
            place: mechanics.geometry.place(lba),
            ..Dirty::default()
        };
        let elsewhere = 1_000_000;
        let order = Scheduler::Fifo;
        for first in [0, 1000] {
            for lba in [first, first + 8, first + 16] {
                assert!(cache.has_room(lba, 8) && (lba == first || !cache.has_room(elsewhere, 8)));
                cache.insert(dirty(lba));
            }
            for left in [2, 1, 0] {
                cache.begin(order, &mechanics, Arm::default(), Nanos::ZERO).unwrap();
                cache.finish().unwrap();
                assert_eq!(cache.has_room(elsewhere, 8), left == 0, "{left} are dirty");
            }
        }
        // Of a cache that was stored and read again.
        [0, 8].into_iter().for_each(|lba| cache.insert(dirty(lba)));
        cache.begin(order, &mechanics, Arm::default(), Nanos::ZERO).unwrap();
        cache.finish().unwrap();
        let mut blobs = Vec::new();
        let mut saver = Saver::new(&mut blobs);
        cache.save(&mut saver);
        let stored = saver.finish().unwrap();
        let mut again = WriteCache::new(&limit);
        again.restore(&mut Loader::new(&stored, std::sync::Arc::new(blobs))).unwrap();
        assert!(!again.has_room(elsewhere, 8));
    }
}

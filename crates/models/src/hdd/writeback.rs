//! The volatile write cache: acknowledged writes on their way to the medium.

use std::collections::VecDeque;

use sim::{LostWrite, Nanos, RequestId, snapshot_fields};

use crate::hdd::geometry::Place;
use crate::hdd::mechanics::{Arm, Mechanics};
use crate::hdd::params::{Scheduler, WriteCacheParams};
use crate::hdd::queue::Queue;

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
    /// It continues the write before it, so both are one run.
    pub continues: bool,
    /// Where it begins.
    pub place: Place,
}

snapshot_fields!(Dirty { id, lba, sectors, sequence, started, acknowledged, continues, place });

impl Dirty {
    /// First sector behind it.
    pub fn end(&self) -> u64 {
        self.lba + u64::from(self.sectors)
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
    sectors: u64,
    runs: u64,
    sequence: u64,
    newest_end: u64,
    sectors_max: u64,
    runs_max: u64,
}

snapshot_fields!(WriteCache { window, backlog, writing, sectors, runs, sequence, newest_end });

impl WriteCache {
    /// An empty cache.
    pub fn new(params: &WriteCacheParams) -> WriteCache {
        WriteCache {
            window: Queue::default(),
            backlog: VecDeque::new(),
            writing: None,
            sectors: 0,
            runs: 0,
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
            && (self.runs < self.runs_max || self.continues(lba))
    }

    /// Number that every write cached so far is below.
    pub fn next_sequence(&self) -> u64 {
        self.sequence
    }

    /// Take a write in; it fits. Its number and whether it continues the last one are set here.
    pub fn insert(&mut self, mut dirty: Dirty) {
        dirty.continues = self.continues(dirty.lba);
        dirty.sequence = self.sequence;
        self.sequence += 1;
        self.sectors += u64::from(dirty.sectors);
        self.runs += u64::from(!dirty.continues);
        self.newest_end = dirty.end();
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

    /// Begin to write the best of the oldest writes; `None` when none waits. Overlapping writes
    /// reach the medium in the order they came.
    pub fn begin(
        &mut self,
        scheduler: Scheduler,
        mechanics: &Mechanics,
        arm: Arm,
        now: Nanos,
    ) -> Option<Dirty> {
        let mut chosen = self.window.choose(scheduler, mechanics, arm, now)?;
        loop {
            let dirty = self.window.items()[chosen];
            // An older write that this one covers is dropped with it; a partly covered one not.
            let before = |old: &Dirty| {
                old.sequence < dirty.sequence && old.overlaps(&dirty) && !dirty.covers(old)
            };
            let older = self.window.items().iter().enumerate().filter(|(_, old)| before(old));
            match older.min_by_key(|(_, old)| old.sequence) {
                Some((index, _)) => chosen = index,
                None => break,
            }
        }
        let dirty = self.window.remove(chosen);
        self.writing = Some(dirty);
        self.refill();
        Some(dirty)
    }

    /// The write begun last is on the medium. Older writes that it covers are clean as well.
    pub fn finish(&mut self) -> Option<Dirty> {
        let done = self.writing.take()?;
        self.leave(&done);
        let mut index = 0;
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

    fn leave(&mut self, dirty: &Dirty) {
        self.sectors -= u64::from(dirty.sectors);
        self.runs -= u64::from(!dirty.continues);
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

    /// True when one cached write holds all of this range.
    #[inline]
    pub fn holds(&self, lba: u64, end: u64) -> bool {
        !self.is_clean() && self.all().any(|dirty| dirty.lba <= lba && end <= dirty.end())
    }

    /// Lose everything; returns the writes that were acknowledged, in the order of that.
    pub fn power_fail(&mut self, is_acknowledged: impl Fn(u64) -> bool) -> Vec<LostWrite> {
        let mut lost: Vec<Dirty> = self.all().filter(|d| is_acknowledged(d.id)).copied().collect();
        lost.sort_by_key(|dirty| (dirty.acknowledged, dirty.sequence));
        self.window.clear();
        self.backlog.clear();
        self.writing = None;
        (self.sectors, self.runs, self.newest_end) = (0, 0, u64::MAX);
        let report =
            |d: &Dirty| LostWrite { id: RequestId(d.id), lba: sim::Lba(d.lba), sectors: d.sectors };
        lost.iter().map(report).collect()
    }
}

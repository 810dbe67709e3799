//! The activity log: which extents may differ between the legs after a power cut.
//!
//! A write to a cold extent waits, on each leg, until that leg has recorded the extent as hot. One
//! leg's record would do to make the legs the same again, but a leg that is left alone must also
//! know which of its own recorded checksums may be outdated. An extent goes cold by a checkpoint:
//! its checksums, and what a left-out leg lacks of it, are written first.

use std::collections::{BTreeMap, BTreeSet};

use sim::snapshot_fields;

use super::Core;
use super::event::{Action, Meta};
use super::io::Purpose;
use super::member::State;
use super::table::Table;
use crate::format::maps::{Activity, BITS_PER_PAGE, Bitmap, SUMS_PER_PAGE, TablePage};
use crate::mutant::planted;
use crate::policy::Rules;
use crate::policy::expect::Work;
use crate::types::{DEVICES, LEGS, Slot, Span};

/// Pages of maps that a checkpoint writes to a leg at once, but for one large extent.
const CHECKPOINT_PAGES_MAX: usize = 64;

#[derive(Clone, Copy, Default, Debug)]
struct Hot {
    /// The version that records it.
    version: u64,
    /// Live writes in it.
    live: u32,
    /// When it was last touched, in touches.
    touched: u64,
}

#[derive(Clone, Default, Debug)]
struct Checkpoint {
    number: u64,
    /// The extents that go cold; none when the marks of lost blocks are recorded.
    extents: Vec<u32>,
    /// Pages that are not written yet on each leg.
    pending: [u32; LEGS],
    /// A write came in between, or a leg left: they stay hot.
    void: bool,
}

#[derive(Clone, Debug)]
pub(super) struct ActivityLog {
    hot: BTreeMap<u32, Hot>,
    version: u64,
    written: [u64; LEGS],
    in_flight: [bool; LEGS],
    /// The version that was written last to the leg.
    last: [u64; LEGS],
    /// The version that is on a member leg.
    pub(super) durable: u64,
    touches: u64,
    wants_room: bool,
    /// Room is wanted and every extent has live writes: the legs should be flushed.
    pub(super) pressed: bool,
    checkpoint: Option<Checkpoint>,
    checkpoints: u64,
}

snapshot_fields!(Hot { version, live, touched });
snapshot_fields!(Checkpoint { number, extents, pending, void });
snapshot_fields!(ActivityLog {
    hot,
    version,
    written,
    in_flight,
    last,
    durable,
    touches,
    wants_room,
    pressed,
    checkpoint,
    checkpoints,
});

impl ActivityLog {
    /// A leg that is no member at the start may have no log, or an old one: nothing counts as
    /// written there until it joins.
    pub(super) fn new(version: u64, last: [u64; LEGS], state: &[State; DEVICES]) -> ActivityLog {
        let written = |leg: Slot| if state[leg] == State::Member { version } else { 0 };
        ActivityLog {
            hot: BTreeMap::new(),
            version,
            written: std::array::from_fn(written),
            in_flight: [false; LEGS],
            last,
            durable: version,
            touches: 0,
            wants_room: false,
            pressed: false,
            checkpoint: None,
            checkpoints: 0,
        }
    }

    /// A leg left: its copy of the log counts no more, and what it was writing comes to nothing.
    pub(super) fn leave(&mut self, rules: &Rules, leg: Slot) {
        (self.written[leg], self.in_flight[leg]) = (0, false);
        // What is out on the other leg must land before the next one begins: that goes to the
        // pages' other slots, and a power cut could tear both.
        if let Some(checkpoint) = &mut self.checkpoint {
            (checkpoint.pending[leg], checkpoint.void) = (0, true);
        }
        if planted!(rules, BothSlots) {
            self.checkpoint = None;
        }
    }

    /// Are pages of maps being written to the legs?
    pub(super) fn in_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }

    pub(super) fn is_cold(&self) -> bool {
        self.hot.is_empty() && self.checkpoint.is_none()
    }
}

impl Core {
    fn extents(&self, span: Span) -> std::ops::RangeInclusive<u32> {
        let size = u64::from(self.geometry.extent_blocks);
        (span.start / size) as u32..=((span.end() - 1) / size) as u32
    }

    /// Make the extents of a write hot. The version that must be durable before it is issued;
    /// `None` while there is no room.
    pub(super) fn touch(&mut self, span: Span) -> Option<u64> {
        let extents = self.extents(span);
        let log = &mut self.activity;
        let cold = extents.clone().filter(|extent| !log.hot.contains_key(extent)).count();
        if log.hot.len() + cold > self.config.hot_max && !log.hot.is_empty() {
            log.wants_room = true;
            self.again |= log.checkpoint.is_none() && !log.pressed;
            return None;
        }
        log.touches += 1;
        if cold > 0 {
            log.version += 1;
        }
        let mut needed = 0;
        for extent in extents {
            if let Some(checkpoint) = &mut log.checkpoint
                && checkpoint.extents.contains(&extent)
                && !planted!(self.config.rules, CoolWhileWritten)
            {
                checkpoint.void = true;
            }
            let fresh = Hot { version: log.version, live: 0, touched: 0 };
            let hot = log.hot.entry(extent).or_insert(fresh);
            hot.live += 1;
            hot.touched = log.touches;
            needed = needed.max(hot.version);
        }
        Some(needed)
    }

    /// A write in these extents is forgotten.
    pub(super) fn cool(&mut self, span: Span) {
        for extent in self.extents(span) {
            if let Some(hot) = self.activity.hot.get_mut(&extent) {
                hot.live -= 1;
            }
        }
    }

    pub(super) fn pump_activity(&mut self) {
        if self.activity.checkpoint.is_none() {
            if !self.marks.is_empty() {
                self.record_marks();
            } else if self.activity.wants_room || (self.stopping && self.drained()) {
                self.checkpoint();
            }
        }
        if self.activity.checkpoint.as_ref().is_some_and(|all| all.pending == [0; LEGS]) {
            self.checkpoint_end();
        }
        for leg in 0..LEGS {
            let log = &self.activity;
            if !self.keeps_maps(leg) || log.in_flight[leg] || log.written[leg] >= log.version {
                continue;
            }
            let log = &mut self.activity;
            // The last one on this leg stays whole until this one is.
            log.version += u64::from(log.version % 2 == log.last[leg] % 2);
            let version = log.version;
            let activity = Activity { version, hot: log.hot.keys().copied().collect() };
            (log.in_flight[leg], log.last[leg]) = (true, version);
            let meta = Meta::Activity(activity);
            self.write_meta(leg, Purpose::Activity { version }, meta);
        }
    }

    /// Are the maps of this leg kept up to date?
    fn keeps_maps(&self, leg: Slot) -> bool {
        matches!(self.members[leg].state, State::Member | State::Joining)
    }

    /// The version of the activity log that allows writes to this leg. A leg that is being filled
    /// is not believed after a power cut, so its source's will do.
    pub(super) fn activity_for(&self, leg: Slot) -> u64 {
        if self.keeps_maps(leg) { self.activity.written[leg] } else { self.activity.durable }
    }

    /// Has the leg recorded every hot extent?
    pub(super) fn activity_complete(&self, leg: Slot) -> bool {
        self.activity.written[leg] >= self.activity.version
    }

    fn write_meta(&mut self, slot: Slot, purpose: Purpose, meta: Meta) {
        let io = self.issue(slot, purpose, Work::Write, Span::new(0, 1));
        self.out.push(Action::Meta { io, slot, meta });
    }

    pub(super) fn activity_done(&mut self, leg: Slot, version: u64) {
        self.activity.in_flight[leg] = false;
        self.activity.written[leg] = version;
        self.activity_durable();
    }

    /// Which version is on a member leg?
    pub(super) fn activity_durable(&mut self) {
        let members = (0..LEGS).filter(|&leg| self.members[leg].state == State::Member);
        self.activity.durable = members.map(|leg| self.activity.written[leg]).max().unwrap_or(0);
        self.again = true;
    }

    /// Record which blocks are lost, and which no longer are.
    fn record_marks(&mut self) {
        let pages = self.marks.record();
        let metas = pages.into_iter().filter_map(|page| self.table_page(page)).collect();
        self.begin_checkpoint(Vec::new(), metas);
    }

    /// Begin to make the extent cold that was touched longest ago; a stop takes as many as a
    /// checkpoint has pages for.
    fn checkpoint(&mut self) {
        let idle = self.activity.hot.iter().filter(|(_, hot)| hot.live == 0);
        let mut idle: Vec<(u64, u32)> = idle.map(|(&extent, hot)| (hot.touched, extent)).collect();
        if idle.is_empty() {
            self.again |= !self.activity.pressed && !self.activity.hot.is_empty();
            self.activity.pressed = !self.activity.hot.is_empty();
            return;
        }
        self.activity.pressed = false;
        idle.sort_unstable();
        let (mut extents, mut pages, mut bits) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for (_, extent) in idle {
            let (mut more, mut more_bits) = self.pages_of(extent);
            more.retain(|page| !pages.contains(page));
            more_bits.retain(|page| !bits.contains(page));
            let out = pages.len() + bits.len() + more.len() + more_bits.len();
            if !extents.is_empty() && (!self.stopping || out > CHECKPOINT_PAGES_MAX) {
                break;
            }
            extents.push(extent);
            pages.extend(more);
            bits.extend(more_bits);
        }
        let mut metas: Vec<Meta> =
            pages.into_iter().filter_map(|page| self.table_page(page)).collect();
        if !planted!(self.config.rules, CoolWithoutBitmap) {
            metas.extend(self.bitmap_pages(bits));
        }
        self.begin_checkpoint(extents, metas);
    }

    /// The pages of the table, and of the bitmap when a leg lacks anything, that say what an extent
    /// holds.
    fn pages_of(&self, extent: u32) -> (Vec<u64>, Vec<u64>) {
        let size = u64::from(self.geometry.extent_blocks);
        let start = u64::from(extent) * size;
        let last = (start + size).min(self.geometry.blocks) - 1;
        let pages = Table::page_of(start)..=Table::page_of(last);
        let pages = pages.filter(|&page| self.table.page(page).is_some()).collect();
        let bits = |block: u64| block / u64::from(self.geometry.region_blocks) / BITS_PER_PAGE;
        let lacks = (0..LEGS).any(|leg| self.members[leg].state.lacks());
        (pages, if lacks { (bits(start)..=bits(last)).collect() } else { Vec::new() })
    }

    /// Write pages of maps to every leg that keeps them.
    fn begin_checkpoint(&mut self, extents: Vec<u32>, metas: Vec<Meta>) {
        self.activity.checkpoints += 1;
        let number = self.activity.checkpoints;
        let mut pending = [0; LEGS];
        for (leg, pending) in pending.iter_mut().enumerate() {
            if !self.keeps_maps(leg) {
                continue;
            }
            for meta in metas.clone() {
                self.write_meta(leg, Purpose::Checkpoint { number }, meta);
                *pending += 1;
            }
        }
        self.activity.checkpoint = Some(Checkpoint { number, extents, pending, void: false });
    }

    fn map_version(&mut self, bitmap: bool, index: u64) -> u64 {
        let last = self.map_slots.get(&(bitmap, index)).copied();
        self.map_version += 1;
        if last.is_some_and(|last| last % 2 == self.map_version % 2) {
            self.map_version += 1;
        }
        self.map_slots.insert((bitmap, index), self.map_version);
        self.map_version
    }

    /// A page of the table for a leg that joins. Its slot is the one that is newest on the other
    /// leg, so that the next version of both goes to the other slot.
    pub(super) fn table_page_again(&mut self, index: u64) -> Option<Meta> {
        if !planted!(self.config.rules, JoinSlots)
            && let Some(&last) = self.map_slots.get(&(false, index))
        {
            self.map_version += 1 + u64::from(self.map_version % 2 == last % 2);
            self.map_slots.insert((false, index), self.map_version);
            let sums = self.table.page(index)?.to_vec();
            return Some(Meta::Table(TablePage { version: self.map_version, index, sums }));
        }
        self.table_page(index)
    }

    fn table_page(&mut self, index: u64) -> Option<Meta> {
        let sums = self.table.page(index)?.to_vec();
        let version = self.map_version(false, index);
        debug_assert_eq!(sums.len() as u64, SUMS_PER_PAGE);
        Some(Meta::Table(TablePage { version, index, sums }))
    }

    /// These pages of the bitmap of the leg that lacks anything.
    fn bitmap_pages(&mut self, pages: BTreeSet<u64>) -> Vec<Meta> {
        let Some(leg) = (0..LEGS).find(|&leg| self.members[leg].state.lacks()) else {
            return Vec::new();
        };
        let words = (BITS_PER_PAGE / 64) as usize;
        { pages.into_iter() }
            .map(|index| {
                let version = self.map_version(true, index);
                let regions = &self.members[leg].out_of_sync;
                let mut words = regions.words(index as usize * words, words);
                words.resize((BITS_PER_PAGE / 64) as usize, 0);
                Meta::Bitmap(Bitmap { version, index, words })
            })
            .collect()
    }

    pub(super) fn checkpoint_done(&mut self, leg: Slot, number: u64) {
        let checkpoint = self.activity.checkpoint.as_mut();
        if let Some(checkpoint) = checkpoint.filter(|checkpoint| checkpoint.number == number) {
            checkpoint.pending[leg] -= 1;
        }
    }

    fn checkpoint_end(&mut self) {
        let Some(checkpoint) = self.activity.checkpoint.take() else { return };
        self.again = true;
        if checkpoint.extents.is_empty() {
            return self.marks_done();
        }
        self.activity.wants_room = false;
        if !checkpoint.void {
            self.stats.checkpoints += checkpoint.extents.len() as u64;
            self.activity.hot.retain(|extent, _| !checkpoint.extents.contains(extent));
            // The next transaction records it; until then it counts as hot, which is harmless.
            if self.stopping {
                self.activity.version += 1;
            }
        }
    }
}

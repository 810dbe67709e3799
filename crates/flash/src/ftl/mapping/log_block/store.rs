//! The tables: where every page is, which block is whose home, what is to be merged and erased.

use std::collections::VecDeque;

use sim::{CowVec, snapshot_fields};

use super::dead::Dead;
use super::layout::{Layout, Striping};
use super::tally::{Merge, Tally};
use crate::ftl::flash::Flash;
use crate::ftl::mapping::{Context, bits};
use crate::ssd::geometry::Geometry;
use crate::ssd::plan::NONE;

/// Set in the tag of a block that was taken as a log block; the rest is the logical block it
/// belongs to, or all ones.
pub(super) const LOG: u32 = 1 << 31;

/// The tag of a log block: of one logical block, or of any ([`NONE`]).
pub(crate) fn log_tag(lbn: u32) -> u32 {
    lbn | LOG
}

/// A log block to be emptied.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Job {
    /// The log block.
    pub(crate) log: u32,
    /// The logical block that all its pages belong to, or [`NONE`] when they are mixed.
    pub(crate) lbn: u32,
}

snapshot_fields!(Job { log, lbn });

/// What a pool has to do.
#[derive(Clone, Default, Debug)]
pub(super) struct Work {
    pub(super) job: Option<Job>,
    /// Logical blocks merged for the present job.
    pub(super) merged: u32,
    /// (logical block, its former home) of merges that a power failure interrupted.
    pub(super) unfinished: VecDeque<(u32, u32)>,
    /// Blocks without valid pages, to be erased.
    pub(super) dead: Dead,
}

snapshot_fields!(Work { job, merged, unfinished, dead });

/// The tables that every scheme with log blocks has.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) layout: Layout,
    pub(crate) geometry: Geometry,
    /// Free blocks of a plane that only merges may take.
    pub(crate) reserve: u32,
    pub(super) copy_back: bool,
    /// Where each logical page is. In a real controller this is the block table, the page tables
    /// of the log blocks and arithmetic.
    pub(super) place: CowVec<u32>,
    /// The data block of each logical block.
    pub(super) home: Vec<u32>,
    pub(super) work: Vec<Work>,
    /// One pool for the whole drive instead of one per plane.
    pub(super) global: bool,
    pub(crate) tally: Tally,
    /// Scratch: (to, from, lpn) of the step being planned, and the planes it merges in.
    pub(super) moves: Vec<(u32, u32, u32)>,
    pub(super) busy: Vec<u32>,
}

snapshot_fields!(Store { place, home, work, tally });

impl Store {
    /// Tables of an empty drive, cleaned in one pool (`global`) or in one per plane.
    pub(crate) fn new(context: &Context, striping: Striping, global: bool) -> Store {
        let layout = Layout::new(context, striping);
        let pools = if global { 1 } else { context.geometry.planes() };
        Store {
            place: CowVec::new(context.logical_pages as usize, NONE),
            home: vec![NONE; layout.blocks as usize],
            work: vec![Work::default(); pools as usize],
            layout,
            geometry: context.geometry,
            reserve: context.reserve.max(1),
            copy_back: context.copy_back,
            global,
            tally: Tally::default(),
            moves: Vec::new(),
            busy: Vec::new(),
        }
    }

    /// Pools that are cleaned one by one.
    pub(crate) fn pools(&self) -> u32 {
        self.work.len() as u32
    }

    /// The pool of a plane.
    #[inline]
    pub(crate) fn pool(&self, plane: u32) -> usize {
        if self.global { 0 } else { plane as usize }
    }

    /// Where a logical page is, or [`NONE`].
    #[inline]
    pub(crate) fn place(&mut self, lpn: u32) -> u32 {
        self.place.get(lpn as usize)
    }

    /// The data block of a logical block, or [`NONE`].
    #[inline]
    pub(crate) fn home(&self, lbn: u32) -> u32 {
        self.home[lbn as usize]
    }

    /// Bits of the table of data blocks.
    pub(crate) fn home_bits(&self) -> u64 {
        u64::from(self.layout.blocks) * u64::from(bits(self.geometry.blocks()))
    }

    /// Take a block of a plane for log pages of `lbn` (or of any: [`NONE`]), unless that would
    /// touch what merges need.
    pub(crate) fn take_log(&self, flash: &mut Flash, plane: u32, lbn: u32) -> Option<u32> {
        flash.take_block(plane, log_tag(lbn), self.reserve)
    }

    /// True when the home of a logical block can take a page at `offset`.
    #[inline]
    pub(super) fn home_takes(&self, flash: &Flash, lbn: u32, offset: u32) -> bool {
        let home = self.home[lbn as usize];
        home == NONE || offset >= u32::from(flash.block(home).written)
    }

    /// The page of its home that a write may go to; `None` when it was written or skipped.
    /// `Some(None)`: there is no block for a new home.
    #[inline]
    pub(super) fn home_page(
        &mut self,
        flash: &mut Flash,
        lbn: u32,
        offset: u32,
        lpn: u32,
    ) -> Option<Option<u32>> {
        let mut home = self.home[lbn as usize];
        if home == NONE {
            match flash.take_block(self.layout.plane(lbn), lbn, self.reserve) {
                Some(block) => home = block,
                None => return Some(None),
            }
            self.home[lbn as usize] = home;
        }
        let free = offset >= u32::from(flash.block(home).written);
        free.then(|| Some(flash.allocate_at(home, offset, lpn)))
    }

    /// The log block holds the whole logical block in order: it is the data block from now on.
    pub(crate) fn switch(&mut self, flash: &Flash, lbn: u32, log: u32) {
        self.tally.merged(Merge::Switch);
        self.move_home(flash, lbn, log);
    }

    /// Give a logical block another home; the old one must hold nothing valid.
    pub(super) fn move_home(&mut self, flash: &Flash, lbn: u32, block: u32) {
        let old = std::mem::replace(&mut self.home[lbn as usize], block);
        if old != NONE {
            self.bury(flash, old);
        }
    }

    /// True when a logical block has a home, no page anywhere, and no merge to go on with: after a
    /// power failure its next home can be told from the present one by its age.
    pub(super) fn is_forgotten(&mut self, flash: &Flash, lbn: u32) -> bool {
        let home = self.home[lbn as usize];
        if home == NONE || flash.valid(home) > 0 {
            return false;
        }
        let pool = self.pool(self.layout.plane(lbn));
        let unfinished = self.work[pool].unfinished.iter().any(|&(other, _)| other == lbn);
        !unfinished
            && (0..self.geometry.pages_per_block.get()).all(|offset| {
                let lpn = self.layout.lpn(lbn, offset);
                lpn >= self.layout.logical_pages || self.place.get(lpn as usize) == NONE
            })
    }

    /// A block without valid pages can be erased.
    pub(crate) fn bury(&mut self, flash: &Flash, block: u32) {
        let pool = self.pool(self.geometry.plane_of_block(block));
        self.work[pool].dead.push(flash, block);
    }

    /// True when a block of the pool is going to be erased without anybody asking for it.
    pub(super) fn is_freeing(&self, flash: &Flash, pool: usize) -> bool {
        let Work { job, dead, .. } = &self.work[pool];
        job.is_some() || dead.is_freeing(flash)
    }

    /// True when every page of the block was written in order from offset 0, all are still valid,
    /// and all belong to `lbn`.
    pub(crate) fn is_clean_prefix(&self, flash: &mut Flash, lbn: u32, log: u32) -> bool {
        let written = u32::from(flash.block(log).written);
        let first = self.geometry.first_ppn(log);
        flash.valid(log) == written
            && (0..written).all(|page| flash.spare(first + page) == self.layout.lpn(lbn, page))
    }

    /// True when the log block can become the data block as it is.
    pub(crate) fn is_switchable(&self, flash: &mut Flash, lbn: u32, log: u32) -> bool {
        flash.room_in(log) == 0 && self.is_clean_prefix(flash, lbn, log)
    }

    /// The logical blocks that have valid pages in a log block, in order of arrival.
    pub(crate) fn mixed(&self, flash: &mut Flash, log: u32) -> Vec<u32> {
        let first = self.geometry.first_ppn(log);
        let mut found = Vec::new();
        for ppn in first..first + u32::from(flash.block(log).written) {
            if flash.is_valid(ppn) {
                let (lbn, _) = self.layout.split(flash.spare(ppn));
                if !found.contains(&lbn) {
                    found.push(lbn);
                }
            }
        }
        found
    }
}

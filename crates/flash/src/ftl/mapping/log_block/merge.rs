//! Merges, one step at a time.

use super::store::{Job, Store};
use super::tally::Merge;
use crate::ftl::flash::Flash;
use crate::ftl::mapping::HostPage;
use crate::ssd::geometry::Geometry;
use crate::ssd::plan::{Cause, FlashOp, NONE, Plan};

/// Plan copies, each (to, from, lpn). A page that has to cross the bus is read first; all others
/// wait for the reads, because the pages of a block are programmed in order. Page `written` (or
/// [`NONE`]) comes from the host.
pub(crate) fn plan_copies(
    geometry: &Geometry,
    copy_back: bool,
    flash: &Flash,
    copies: &[(u32, u32, u32)],
    written: u32,
    plan: &mut Plan,
) {
    let sectors = geometry.page_sectors;
    let in_place = |to: u32, from: u32| {
        from != NONE && copy_back && geometry.plane_of(to) == geometry.plane_of(from)
    };
    for &(to, from, lpn) in copies {
        if lpn != written && !in_place(to, from) && flash.is_programmed(from) {
            plan.push(FlashOp::read(Cause::Merge, from, lpn, sectors));
        }
    }
    plan.then();
    for &(to, from, lpn) in copies {
        plan.push(match in_place(to, from) {
            _ if lpn == written => FlashOp::program(Cause::Host, to, from, lpn, sectors),
            true => FlashOp::copy_back(Cause::Merge, to, from, lpn),
            false => FlashOp::program(Cause::Merge, to, from, lpn, sectors),
        });
    }
}

impl Store {
    /// Copy what `lbn` has beyond the last page of `target` to there, and make room for `written`,
    /// a page of it that the host writes; the page count. The operations are planned by
    /// [`Store::plan_moves`].
    fn copy_rest(&mut self, flash: &mut Flash, lbn: u32, target: u32, written: u32) -> u32 {
        let from_offset = u32::from(flash.block(target).written);
        let mut copied = 0;
        for offset in from_offset..self.geometry.pages_per_block.get() {
            let lpn = self.layout.lpn(lbn, offset);
            if lpn >= self.layout.logical_pages {
                break;
            }
            let from = self.place.get(lpn as usize);
            if from == NONE && lpn != written {
                continue;
            }
            let to = flash.allocate_at(target, offset, lpn);
            if from != NONE {
                flash.invalidate(from);
            }
            self.place.set(lpn as usize, to);
            self.moves.push((to, from, lpn));
            copied += 1;
        }
        copied
    }

    /// Plan the copies collected so far.
    pub(super) fn plan_moves(&mut self, flash: &Flash, plan: &mut Plan) {
        self.plan_moves_with(flash, NONE, plan);
    }

    /// The same, where page `written` comes from the host.
    fn plan_moves_with(&mut self, flash: &Flash, written: u32, plan: &mut Plan) {
        plan_copies(&self.geometry, self.copy_back, flash, &self.moves, written, plan);
        self.moves.clear();
    }

    /// Full merge: every page of the logical block goes to a free block.
    pub(super) fn gather(&mut self, flash: &mut Flash, lbn: u32) {
        let target = flash
            .take_block(self.layout.plane(lbn), lbn, 0)
            .expect("every plane keeps a free block for merges");
        let copied = self.copy_rest(flash, lbn, target, NONE);
        debug_assert!(copied > 0, "a merge of logical block {lbn} without pages");
        self.tally.merged(Merge::Full);
        self.move_home(flash, lbn, target);
    }

    /// Merge a log block of one logical block: by switch or partial merge if it is a clean prefix
    /// (and the scheme has `switches`). Returns false when nothing had to be copied.
    pub(super) fn close(&mut self, flash: &mut Flash, job: Job, switches: bool) -> bool {
        let Job { log, lbn } = job;
        if flash.valid(log) == 0 {
            return false;
        }
        if !switches || !self.is_clean_prefix(flash, lbn, log) {
            self.gather(flash, lbn);
            return true;
        }
        let copied = self.copy_rest(flash, lbn, log, NONE);
        self.tally.merged(if copied == 0 { Merge::Switch } else { Merge::Partial });
        self.move_home(flash, lbn, log);
        copied > 0
    }

    /// Merge the logical blocks of the next valid pages of a log block: one, or one in each plane.
    /// They are told to `merged`. Returns false when nothing is left.
    pub(super) fn drain(
        &mut self,
        flash: &mut Flash,
        log: u32,
        one_per_plane: bool,
        mut merged: impl FnMut(&mut Store, &mut Flash, u32),
    ) -> bool {
        self.busy.clear();
        let first = self.geometry.first_ppn(log);
        for page in 0..u32::from(flash.block(log).written) {
            if flash.valid(log) == 0 {
                break;
            }
            if !flash.is_valid(first + page) {
                continue;
            }
            let (lbn, _) = self.layout.split(flash.spare(first + page));
            let plane = self.layout.plane(lbn);
            if self.busy.contains(&plane) {
                continue;
            }
            self.gather(flash, lbn);
            debug_assert!(!flash.is_valid(first + page), "page {} stayed valid", first + page);
            merged(self, flash, lbn);
            self.busy.push(plane);
            if !one_per_plane {
                break;
            }
        }
        !self.busy.is_empty()
    }

    /// Go on with a merge that a power failure interrupted; false when there is none.
    pub(super) fn resume(&mut self, flash: &mut Flash, pool: usize) -> bool {
        let Some((lbn, former)) = self.work[pool].unfinished.pop_front() else { return false };
        self.copy_rest(flash, lbn, self.home[lbn as usize], NONE);
        self.bury(flash, former);
        true
    }

    /// Write a page by copying its whole logical block to a free block with the page in its
    /// place; false when there is no free block.
    pub(super) fn rewrite(
        &mut self,
        flash: &mut Flash,
        page: HostPage,
        lbn: u32,
        plan: &mut Plan,
    ) -> bool {
        let plane = self.layout.plane(lbn);
        let Some(target) = flash.take_block(plane, lbn, self.reserve) else { return false };
        let old = self.place.get(page.lpn as usize);
        self.tally.update(old != NONE);
        self.tally.merged(Merge::Full);
        self.copy_rest(flash, lbn, target, page.lpn);
        self.move_home(flash, lbn, target);
        page.plan_rest(old, &self.geometry, plan);
        self.plan_moves_with(flash, page.lpn, plan);
        true
    }
}

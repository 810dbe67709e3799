//! The collector: frees blocks by moving their valid pages away, one step at a time.
//!
//! A step moves a few pages or erases the emptied victim. Whoever times the flash asks for the
//! next step when the one before is done, so host requests get in between.

use sim::snapshot_fields;

use super::flash::{Flash, Frontier, Move};
use super::gc::Gc;
use super::mapping::{CleaningStep, Mapping, Needs};
use super::wear::Wear;
use crate::ssd::geometry::Divisor;
use crate::ssd::plan::{Cause, FlashOp, Kind, Plan};

/// When and how blocks are collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Collect when a pool's free blocks are at or below this.
    pub start_free: u32,
    /// Having begun, go on while they are at or below this; at least `start_free`.
    pub stop_free: u32,
    /// Collect at any price when they are at or below this.
    pub urgent_free: u32,
    /// In the background, also collect when they are at or below this.
    pub background_free: u32,
    /// Pages moved in a step.
    pub step_pages: u32,
    /// Moved pages get open blocks of their own.
    pub separate: bool,
    /// Move pages by copy-back.
    pub copy_back: bool,
    /// Choose victims over the whole drive instead of per plane.
    pub global: bool,
    /// Map pages that may have to be written for one collected block.
    pub before_erase_pages: u32,
    /// Placement handles whose moved pages stay among themselves.
    pub isolated: u8,
    /// Pools of a mapping that frees blocks itself; 0 when the collector does.
    pub own_pools: u32,
}

impl Rules {
    /// Keep what a mapping needs, besides the `reserve` blocks of every drive.
    pub fn raise(&mut self, needs: Needs, reserve: u32) {
        let least = reserve + needs.reserve;
        self.start_free = self.start_free.max(least);
        self.stop_free = self.stop_free.max(least);
        self.urgent_free = self.urgent_free.max(least);
        (self.before_erase_pages, self.own_pools) = (needs.before_erase_pages, needs.pools);
        self.isolated = needs.isolated;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct PoolState {
    /// Collecting until enough blocks are free.
    active: bool,
    /// Collecting up to the background level, because the drive is idle.
    background: bool,
    has_victim: bool,
    victim: u32,
    /// The victim was chosen to level wear.
    wear: bool,
    /// A cold block to move next, plus one; 0 when there is none.
    cold: u32,
}

snapshot_fields!(PoolState { active, background, has_victim, victim, wear, cold });

/// Collection state of the whole drive.
#[derive(Clone)]
pub struct Collector {
    /// When and how.
    pub rules: Rules,
    gc: Box<dyn Gc>,
    wear: Box<dyn Wear>,
    pools: Vec<PoolState>,
    planes_per_pool: Divisor,
    /// Scratch: the pages that the step being planned moves.
    moves: Vec<Move>,
}

snapshot_fields!(Collector { gc, wear, pools });

impl Collector {
    /// A collector over `planes` planes.
    pub fn new(rules: Rules, gc: Box<dyn Gc>, wear: Box<dyn Wear>, planes: u32) -> Collector {
        let planes_per_pool = match (rules.own_pools, rules.global) {
            (0, true) => planes,
            (0, false) => 1,
            (pools, _) => planes / pools,
        };
        let pools = vec![PoolState::default(); (planes / planes_per_pool) as usize];
        let planes_per_pool = Divisor::new(planes_per_pool);
        Collector { rules, gc, wear, pools, planes_per_pool, moves: Vec::new() }
    }

    /// Number of pools.
    pub fn pools(&self) -> u32 {
        self.pools.len() as u32
    }

    /// The pool of a plane.
    #[inline]
    pub fn pool_of(&self, plane: u32) -> u32 {
        self.planes_per_pool.div(plane)
    }

    fn planes(&self, pool: u32) -> std::ops::Range<u32> {
        let count = self.planes_per_pool.get();
        pool * count..(pool + 1) * count
    }

    /// True while the pool is being collected.
    #[inline]
    pub fn is_active(&self, pool: u32) -> bool {
        self.pools[pool as usize].active
    }

    /// True while the pool is being collected because the drive was idle.
    #[inline]
    pub fn is_at_rest(&self, pool: u32) -> bool {
        self.pools[pool as usize].background
    }

    /// The host uses the pool's flash again. What was begun is ended, as the drive's time allows.
    #[inline]
    pub fn end_rest(&mut self, pool: u32) {
        self.pools[pool as usize].background = false;
    }

    fn at_most(&self, pool: u32, flash: &Flash, per_plane: u32) -> bool {
        let planes = self.planes(pool);
        let limit = per_plane * planes.len() as u32;
        planes.map(|plane| flash.free_blocks(plane)).sum::<u32>() <= limit
    }

    /// A free block of the pool was taken: start collecting if few are left.
    pub fn check(&mut self, pool: u32, flash: &Flash, mapping: &dyn Mapping) -> bool {
        if !self.pools[pool as usize].active {
            self.pools[pool as usize].active = match self.rules.own_pools {
                0 => self.at_most(pool, flash, self.rules.start_free),
                _ => mapping.wants_cleaning(flash, pool),
            };
        }
        self.pools[pool as usize].active
    }

    /// The drive is idle: start collecting in the background if that is wanted.
    pub fn check_background(&mut self, pool: u32, flash: &Flash) -> bool {
        let collects = self.rules.own_pools == 0;
        let wanted = collects
            && (self.at_most(pool, flash, self.rules.background_free)
                || self.oldest_pslc(pool, flash).is_some());
        let state = &mut self.pools[pool as usize];
        state.background |= wanted;
        state.active |= wanted;
        state.active
    }

    /// True when collection must not wait for host requests.
    pub fn is_urgent(&self, pool: u32, flash: &Flash) -> bool {
        self.rules.own_pools > 0
            || self.planes(pool).any(|plane| flash.free_blocks(plane) <= self.rules.urgent_free)
    }

    /// The plane the pool's next step works on.
    pub fn working_plane(&self, pool: u32, flash: &Flash) -> u32 {
        match self.pools[pool as usize] {
            PoolState { has_victim: true, victim, .. } => flash.geometry.plane_of_block(victim),
            _ => self.planes(pool).start,
        }
    }

    /// Plan the next step of a pool, moving at most `pages` pages.
    pub fn step(
        &mut self,
        pool: u32,
        pages: u32,
        flash: &mut Flash,
        mapping: &mut dyn Mapping,
        plan: &mut Plan,
    ) -> CleaningStep {
        if self.rules.own_pools > 0 {
            let step = mapping.clean(flash, pool, plan);
            self.pools[pool as usize].active = step != CleaningStep::Idle;
            return step;
        }
        if !self.pools[pool as usize].has_victim && !self.choose(pool, flash, mapping) {
            let state = &mut self.pools[pool as usize];
            (state.active, state.background) = (false, false);
            return CleaningStep::Idle;
        }
        if self.move_pages(pool, pages, flash, mapping, plan) {
            return CleaningStep::Planned;
        }
        let state = &mut self.pools[pool as usize];
        if mapping.before_erase(flash, flash.geometry.plane_of_block(state.victim), plan) {
            return CleaningStep::Planned;
        }
        if flash.is_pinned(state.victim) {
            return CleaningStep::Blocked;
        }
        state.has_victim = false;
        let cause = if state.wear { Cause::Wear } else { Cause::Gc };
        plan.push(FlashOp::erase(cause, flash.geometry.first_ppn(state.victim)));
        CleaningStep::Planned
    }

    /// Tell the victim policy about blocks that were sealed.
    fn tell_sealed(&mut self, flash: &mut Flash) {
        for block in std::mem::take(&mut flash.newly_sealed) {
            let owner = self.planes_per_pool.div(flash.geometry.plane_of_block(block));
            self.gc.sealed(owner, block);
        }
    }

    /// Choose a victim; false when none is needed or none would help.
    fn choose(&mut self, pool: u32, flash: &mut Flash, mapping: &mut dyn Mapping) -> bool {
        self.tell_sealed(flash);
        let cold = std::mem::take(&mut self.pools[pool as usize].cold);
        let wear = cold != 0 && flash.is_sealed(cold - 1) && self.fits(cold - 1, flash);
        let mut chosen =
            if wear { Some(cold - 1) } else { self.choose_garbage(pool, flash, mapping) };
        if chosen.is_none() && self.offer_withheld(pool, flash) {
            chosen = self.choose_garbage(pool, flash, mapping);
        }
        let Some(victim) = chosen else { return false };
        flash.begin_collection(victim);
        let state = &mut self.pools[pool as usize];
        (state.victim, state.has_victim, state.wear) = (victim, true, wear);
        true
    }

    /// Let map blocks be victims that are not to be, if space is needed and nothing else gains it.
    fn offer_withheld(&mut self, pool: u32, flash: &mut Flash) -> bool {
        let needed =
            flash.map_victim_pages.is_some() && self.at_most(pool, flash, self.level(pool));
        let mut offered = false;
        if needed {
            // Of every plane, also after the first that has one.
            self.planes(pool).for_each(|plane| offered |= flash.offer_withheld(plane));
        }
        self.tell_sealed(flash);
        offered
    }

    /// Free blocks per plane beyond which a pool is not collected.
    fn level(&self, pool: u32) -> u32 {
        if self.pools[pool as usize].background {
            self.rules.background_free.max(self.rules.stop_free)
        } else {
            self.rules.stop_free
        }
    }

    /// The block to collect next for its space, if space is needed and can be gained.
    fn choose_garbage(
        &mut self,
        pool: u32,
        flash: &mut Flash,
        mapping: &mut dyn Mapping,
    ) -> Option<u32> {
        if !self.at_most(pool, flash, self.level(pool)) {
            let rests = self.pools[pool as usize].background;
            let oldest = self.oldest_pslc(pool, flash).filter(|_| rests);
            return oldest.filter(|&block| self.fits(block, flash));
        }
        let planes = self.planes(pool);
        let blocks = flash.geometry.blocks_of_plane(planes.start).start
            ..flash.geometry.blocks_of_plane(planes.end - 1).end;
        let picked = self.gc.pick(pool, blocks.clone(), flash)?;
        // A power failure can leave a plane half way through a collection, without its reserve.
        // Then only the emptiest block is sure to fit into what is open.
        let broke = planes.clone().find(|&plane| flash.free_blocks(plane) == 0);
        let best = flash.least_valid(blocks)?;
        let chosen = match broke {
            None if self.fits(picked, flash) => {
                let loses = self.fits(best, flash) && self.loses(picked, best, flash, mapping);
                Some(if loses { best } else { picked })
            }
            _ => {
                let plane = broke.unwrap_or(flash.geometry.plane_of_block(picked));
                self.emptiest_that_fits(plane, flash)
            }
        };
        if chosen != Some(picked) {
            self.gc.sealed(pool, picked);
        }
        let victim = chosen?;
        if victim != picked {
            self.gc.withdrawn(pool, victim);
        }
        // A pool whose every sealed block is fully valid cannot be helped. A policy that does not
        // look at valid counts may choose a full block while emptier ones exist.
        let full = flash.geometry.pages_per_block.get();
        if flash.valid(best) == full || !self.fits(victim, flash) {
            self.gc.sealed(pool, victim);
            return None;
        }
        Some(victim)
    }

    /// True when a block takes more pages than it frees while there is an emptier one, `best`. A
    /// policy that does not look at valid counts could go round in such blocks for ever: it would
    /// only make map pages out of date, in blocks that it comes to last.
    fn loses(&self, block: u32, best: u32, flash: &mut Flash, mapping: &mut dyn Mapping) -> bool {
        let (valid, full) = (flash.valid(block), flash.geometry.pages_per_block.get());
        let most = valid.min(self.rules.before_erase_pages);
        let may = valid > flash.valid(best) && valid + most > full;
        may && self.frontier(block, flash) != Frontier::MAP
            && valid + most.min(mapping.map_pages_to_change(flash, block)) > full
    }

    /// The block to fold next: one used as pSLC, when the drive rests.
    fn oldest_pslc(&self, pool: u32, flash: &Flash) -> Option<u32> {
        self.planes(pool).find_map(|plane| flash.oldest_pslc(plane))
    }

    /// The block of a plane with the fewest valid pages; where open blocks are kept apart, of
    /// those whose pages have a place to go.
    fn emptiest_that_fits(&self, plane: u32, flash: &Flash) -> Option<u32> {
        let blocks = flash.geometry.blocks_of_plane(plane);
        let emptiest = flash.least_valid(blocks.clone())?;
        if self.rules.isolated == 0 || self.fits(emptiest, flash) {
            return Some(emptiest);
        }
        let mut fitting = blocks.filter(|&b| flash.is_sealed(b) && self.fits(b, flash));
        let first = fitting.next()?;
        Some(fitting.fold(first, |a, b| if flash.valid(b) < flash.valid(a) { b } else { a }))
    }

    /// Which open block takes the pages of a victim.
    fn frontier(&self, victim: u32, flash: &Flash) -> Frontier {
        match flash.block(victim).frontier() {
            Frontier::MAP => Frontier::MAP,
            frontier if self.rules.isolated > 0 => frontier.moved_of(self.rules.isolated),
            _ if self.rules.separate => Frontier::MOVED,
            _ => Frontier::HOST,
        }
    }

    /// True when the block's valid pages, and the map pages that tell where they went, have a
    /// place to go.
    fn fits(&self, block: u32, flash: &Flash) -> bool {
        let (frontier, plane) = (self.frontier(block, flash), flash.geometry.plane_of_block(block));
        let valid = flash.valid(block);
        if self.rules.before_erase_pages == 0 || frontier == Frontier::MAP {
            return valid <= flash.room(plane, frontier);
        }
        let map_pages = valid.min(self.rules.before_erase_pages);
        let blocks = |pages: u32, frontier| {
            let beyond = pages.saturating_sub(flash.room_in_open(plane, frontier));
            beyond.div_ceil(flash.geometry.pages_per_block.get())
        };
        blocks(valid, frontier) + blocks(map_pages, Frontier::MAP) <= flash.free_blocks(plane)
    }

    /// Plan the moves of a step; false when the victim holds nothing valid any more.
    fn move_pages(
        &mut self,
        pool: u32,
        pages: u32,
        flash: &mut Flash,
        mapping: &mut dyn Mapping,
        plan: &mut Plan,
    ) -> bool {
        let PoolState { victim, wear, .. } = self.pools[pool as usize];
        let cause = if wear { Cause::Wear } else { Cause::Gc };
        let frontier = self.frontier(victim, flash);
        let plane = flash.geometry.plane_of_block(victim);
        if flash.valid(victim) == 0 {
            // A victim that cannot be erased yet is asked for again and again.
            if frontier == Frontier::HOST {
                flash.set_owed(plane, 0);
            }
            return false;
        }
        let sectors = flash.geometry.page_sectors;
        let mut moves = std::mem::take(&mut self.moves);
        flash.take_valid(victim, pages, &mut moves);
        flash.allocate_all(plane, frontier, &mut moves);
        mapping.relocated_all(flash, &moves);
        if self.rules.copy_back {
            let ops = moves.iter().map(|m| FlashOp::copy_back(cause, m.to, m.from, m.id));
            plan.push_all(Kind::CopyBack, cause, ops);
        } else if !moves.is_empty() {
            // The reads are the first stage and the programs the second. What is not programmed yet
            // is still in the controller.
            let programmed = flash.geometry.first_ppn(victim) + flash.pages_programmed(victim);
            let sensed = moves.partition_point(|page| page.from < programmed);
            let reads = moves[..sensed].iter().map(|m| FlashOp::read(cause, m.from, m.id, sectors));
            plan.push_all(Kind::Read, cause, reads);
            plan.then();
            let programs =
                moves.iter().map(|m| FlashOp::program(cause, m.to, m.from, m.id, sectors));
            plan.push_all(Kind::Program, cause, programs);
        }
        let any = !moves.is_empty();
        moves.clear();
        self.moves = moves;
        if frontier == Frontier::HOST {
            // Host writes share the open block: they must leave room for the rest.
            flash.set_owed(plane, flash.valid(victim));
        }
        any
    }

    /// A block was erased: is another one worn too little?
    pub fn erased(&mut self, block: u32, flash: &Flash) {
        let plane = flash.geometry.plane_of_block(block);
        let pool = self.pool_of(plane);
        if let Some(cold) = self.wear.cold_victim(plane, flash) {
            let state = &mut self.pools[pool as usize];
            state.cold = cold + 1;
            state.active = true;
        }
    }

    /// Power failed: victims are ordinary sealed blocks again.
    pub fn power_fail(&mut self, flash: &mut Flash) {
        self.pools.iter_mut().for_each(|pool| *pool = PoolState::default());
        if self.rules.separate {
            return;
        }
        for plane in 0..flash.geometry.planes() {
            if flash.free_blocks(plane) == 0 {
                // What is left of the open block is for the pages of a victim that was half
                // emptied, not for the host. Choosing a victim puts this right.
                flash.set_owed(plane, u32::MAX);
            }
        }
    }
}

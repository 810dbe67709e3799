//! The mapping table on flash, and what schemes that load it on demand have in common.
//!
//! The table has one *position* per logical page, in an order that the scheme chooses; `entries`
//! consecutive positions make a map page. What each map page on flash says is kept for real, apart
//! from what the scheme holds in RAM: who looks up a page without loading it gets what flash says.

use config::ConfigError;
use sim::{CowVec, snapshot_fields};

use super::{Context, next_page};
use crate::ftl::flash::{Flash, Frontier};
use crate::ssd::geometry::Divisor;
use crate::ssd::plan::{Cause, FlashOp, Kind, NONE, Plan, Rebuilt};

pub mod entries;
pub mod frames;
pub mod heap;
pub mod lru;
mod moved;
pub mod scheme;
mod size;

use moved::Moved;
pub use size::CacheSize;

/// Free blocks per plane that host writes leave for map pages. A collected block may need one for
/// the pages it moves and one for the map pages that tell where they went; each map page written
/// makes another one invalid, so that map blocks soon are the cheapest to collect.
pub const MAP_RESERVE: u32 = 3;

/// Free blocks that a collection may need at most: for the pages it moves, and for map pages.
pub const COLLECTION_RESERVE: u32 = 2;

/// Bytes of a PPN in a map page, where a scheme has no layout of its own.
const ENTRY_BYTES: u64 = 4;

/// The mapping table on flash.
#[derive(Clone, Debug)]
pub struct MapStore {
    /// Position to PPN, as the map pages on flash say.
    contents: CowVec<u32>,
    /// Map page to PPN (the directory in RAM), [`NONE`] before it is first written.
    directory: Vec<u32>,
    entries: Divisor,
    /// The id of map page 0.
    first_id: u32,
    page_sectors: u32,
    /// What the collector moved and [`MapStore::write_moved`] has to write.
    moved: Moved,
    /// Scratch of `write_moved`.
    moved_scratch: Vec<(u32, u32)>,
    /// The planes map pages go to by turns; empty when they stay where the pages they map are.
    homes: Vec<u32>,
}

snapshot_fields!(MapStore { contents, directory, moved });

impl MapStore {
    /// The table of a drive: `positions` in map pages of `entries`.
    pub fn new(context: &Context, positions: u32, entries: u32) -> MapStore {
        let pages = positions.div_ceil(entries);
        MapStore {
            contents: CowVec::new(pages as usize * entries as usize, NONE),
            directory: vec![NONE; pages as usize],
            entries: Divisor::new(entries),
            first_id: context.logical_pages,
            page_sectors: context.geometry.page_sectors,
            moved: Moved::new(pages, context.geometry.planes()),
            moved_scratch: Vec::new(),
            homes: Vec::new(),
        }
    }

    /// The same for a table in the order of logical pages: each map page tells of pages in every
    /// plane, so that map pages go over the planes by turns.
    pub fn striped(context: &Context, entries: u32) -> MapStore {
        let homes = context.allocator.stripe().to_vec();
        MapStore { homes, ..MapStore::new(context, context.logical_pages, entries) }
    }

    /// Map pages of the table.
    pub fn pages(&self) -> u32 {
        self.directory.len() as u32
    }

    /// Entries of a map page.
    pub fn entries(&self) -> u32 {
        self.entries.get()
    }

    /// Bytes of a map page in RAM, at 4 bytes for each entry.
    pub fn page_bytes(&self) -> u64 {
        u64::from(self.entries.get()) * ENTRY_BYTES
    }

    /// The map page of a position.
    #[inline]
    pub fn page_of(&self, position: u32) -> u32 {
        self.entries.div(position)
    }

    /// The positions of a map page.
    pub fn positions(&self, page: u32) -> std::ops::Range<u32> {
        page * self.entries.get()..(page + 1) * self.entries.get()
    }

    /// Logical pages of the drive: the ids of map pages follow.
    pub fn first_id(&self) -> u32 {
        self.first_id
    }

    /// The map page with that id, if the id is not a logical page.
    #[inline]
    pub fn page_with_id(&self, id: u32) -> Option<u32> {
        id.checked_sub(self.first_id)
    }

    /// Where a map page is, or [`NONE`].
    #[inline]
    pub fn ppn(&self, page: u32) -> u32 {
        self.directory[page as usize]
    }

    /// What flash says about a position.
    #[inline]
    pub fn get(&mut self, position: u32) -> u32 {
        self.contents.get(position as usize)
    }

    /// Change what the map page says; the caller plans its program.
    #[inline]
    pub fn set(&mut self, position: u32, ppn: u32) {
        self.contents.set(position as usize, ppn);
    }

    /// Copy a map page into RAM, with what was moved since it was written. Returns true when that
    /// made the copy newer than the page on flash.
    pub fn load(&mut self, page: u32, to: &mut [u32]) -> bool {
        let first = page * self.entries.get();
        self.contents.copy_out(first as usize, to);
        self.moved.take_page(page, |position, ppn| to[(position - first) as usize] = ppn)
    }

    /// As [`MapStore::load`], but only looks.
    pub fn peek_page(&mut self, page: u32, to: &mut [u32]) {
        let first = page * self.entries.get();
        self.contents.copy_out(first as usize, to);
        self.moved.peek_page(page, |position, ppn| to[(position - first) as usize] = ppn);
    }

    /// What the table says about one position, with what was moved since its map page was
    /// written; the flag tells that it was moved, and that it is now for the caller to write down.
    #[inline]
    pub fn take(&mut self, position: u32) -> (u32, bool) {
        match self.moved.take(position, self.entries.div(position)) {
            Some(ppn) => (ppn, true),
            None => (self.get(position), false),
        }
    }

    /// As [`MapStore::take`], but only looks.
    pub fn peek(&mut self, position: u32) -> u32 {
        let moved = self.moved.get(position, self.entries.div(position));
        moved.unwrap_or_else(|| self.contents.get(position as usize))
    }

    /// Replace a whole map page in RAM by `from`; the caller plans its program.
    pub fn store(&mut self, page: u32, from: &[u32]) {
        self.contents.copy_in((page * self.entries.get()) as usize, from);
    }

    /// Plan the read of a map page; false when it was never written.
    pub fn plan_read(&mut self, page: u32, plan: &mut Plan) -> bool {
        let ppn = self.ppn(page);
        if ppn != NONE {
            plan.push(FlashOp::read(Cause::Map, ppn, self.first_id + page, self.page_sectors));
        }
        ppn != NONE
    }

    /// Plan the program of a map page in a plane that keeps `reserve` free blocks; false when
    /// there is no room, and nothing has changed.
    pub fn plan_write(
        &mut self,
        page: u32,
        flash: &mut Flash,
        plane: u32,
        reserve: u32,
        plan: &mut Plan,
    ) -> bool {
        let id = self.first_id + page;
        let Some(ppn) = next_page(flash, plane, Frontier::MAP, id, reserve, plan) else {
            return false;
        };
        let old = std::mem::replace(&mut self.directory[page as usize], ppn);
        if old != NONE {
            flash.invalidate(old);
        }
        plan.push(FlashOp::program(Cause::Map, ppn, old, id, self.page_sectors));
        true
    }

    /// As [`MapStore::plan_write`], in the map page's own plane or the next one with room.
    pub fn plan_write_home(
        &mut self,
        page: u32,
        flash: &mut Flash,
        reserve: u32,
        plan: &mut Plan,
    ) -> bool {
        let roomy = self.home_with_room(page, flash, reserve);
        roomy.is_some_and(|plane| self.plan_write(page, flash, plane, reserve, plan))
    }

    /// The plane [`MapStore::plan_write_home`] would choose.
    pub fn home_with_room(&self, page: u32, flash: &Flash, reserve: u32) -> Option<u32> {
        let home = page as usize % self.homes.len();
        let turns = self.homes[home..].iter().chain(&self.homes[..home]);
        turns.copied().find(|&plane| MapStore::has_room(flash, plane, reserve))
    }

    /// True when a plane has room for a map page, apart from what its collection may count on.
    pub fn has_room(flash: &Flash, plane: u32, reserve: u32) -> bool {
        flash.free_blocks(plane) >= COLLECTION_RESERVE
            && flash.has_room(plane, Frontier::MAP, reserve)
    }

    /// The plane a map page goes to while it has room.
    pub fn home(&self, page: u32) -> u32 {
        self.homes[page as usize % self.homes.len()]
    }

    /// The collector moved a page of this id within `plane`, and no copy of its entry is in RAM.
    pub fn relocated(&mut self, id: u32, position: u32, plane: u32, to: u32) {
        match self.page_with_id(id) {
            Some(page) => self.directory[page as usize] = to,
            None => self.moved.insert(position, self.entries.div(position), plane, to),
        }
    }

    /// Write down where the pages of a collected block of `plane` went: each map page concerned
    /// is read, changed and written again, at home if it has one with room, else in this plane.
    /// Returns false when none is.
    pub fn write_moved(&mut self, flash: &mut Flash, plane: u32, plan: &mut Plan) -> bool {
        let entries = self.entries;
        let mut moved = std::mem::take(&mut self.moved_scratch);
        self.moved.drain_plane(plane, |position| entries.div(position), &mut moved);
        moved.sort_unstable();
        let same = |a: &(u32, u32), b: &(u32, u32)| entries.div(a.0) == entries.div(b.0);
        for group in moved.chunk_by(same) {
            self.plan_read(entries.div(group[0].0), plan);
        }
        plan.then();
        for group in moved.chunk_by(same) {
            group.iter().for_each(|&(position, ppn)| self.set(position, ppn));
            self.plan_moved_page(entries.div(group[0].0), flash, plane, plan);
        }
        let some = !moved.is_empty();
        moved.clear();
        self.moved_scratch = moved;
        some
    }

    /// Map pages that tell where the pages of a block are, of those that `position` gives one of.
    pub fn pages_about(
        &self,
        flash: &mut Flash,
        block: u32,
        mut position: impl FnMut(u32) -> Option<u32>,
    ) -> u32 {
        let first = flash.geometry.first_ppn(block);
        let mut pages: Vec<u32> = (first..first + u32::from(flash.block(block).written))
            .filter_map(|ppn| Some(flash.owner(ppn)).filter(|&id| id < self.first_id))
            .filter_map(|id| position(id).map(|position| self.page_of(position)))
            .collect();
        pages.sort_unstable();
        pages.dedup();
        pages.len() as u32
    }

    /// As [`MapStore::write_moved`] where the map pages `pages` are those of the plane, and `keep`
    /// moves may stay in RAM: the map pages that most of them concern are written.
    pub fn write_moved_beyond(
        &mut self,
        keep: u32,
        pages: std::ops::Range<u32>,
        flash: &mut Flash,
        plane: u32,
        plan: &mut Plan,
    ) -> bool {
        self.moved.compact(plane);
        let mut left: u32 = pages.clone().map(|page| self.moved.count(page)).sum();
        if left <= keep {
            return false;
        }
        let mut fullest: Vec<u32> = pages.filter(|&page| self.moved.count(page) > 0).collect();
        fullest.sort_by_key(|&page| std::cmp::Reverse(self.moved.count(page)));
        let needed = fullest.iter().take_while(|&&page| {
            let before = left;
            left = left.saturating_sub(self.moved.count(page));
            before > keep
        });
        let needed = needed.count();
        for &page in &fullest[..needed] {
            self.plan_read(page, plan);
        }
        plan.then();
        for &page in &fullest[..needed] {
            let contents = &mut self.contents;
            self.moved.take_page(page, |position, ppn| contents.set(position as usize, ppn));
            self.plan_moved_page(page, flash, plane, plan);
        }
        true
    }

    fn plan_moved_page(&mut self, page: u32, flash: &mut Flash, plane: u32, plan: &mut Plan) {
        let written = if self.homes.is_empty() {
            self.plan_write(page, flash, plane, 0, plan)
        } else {
            let home = self.home(page);
            MapStore::has_room(flash, home, COLLECTION_RESERVE)
                && self.plan_write(page, flash, home, COLLECTION_RESERVE, plan)
                || self.plan_write(page, flash, plane, 0, plan)
                || self.plan_write_home(page, flash, COLLECTION_RESERVE, plan)
        };
        assert!(written, "a victim is chosen when the map pages it changes fit");
    }

    /// Take over what is on flash after a power failure; `position` is the place of a logical page
    /// in the table. Map pages that flash has in an older version are read and written again.
    pub fn rebuild(&mut self, flash: &mut Flash, position: impl Fn(u32) -> u32) -> Rebuilt {
        let first = self.first_id as usize;
        let mut newest = flash.find_newest(self.first_id + self.pages());
        let mut stale = vec![false; self.directory.len()];
        for lpn in 0..self.first_id {
            let (position, ppn) = (position(lpn), newest.get(lpn as usize));
            let page = self.page_of(position) as usize;
            let unwritten = newest.get(first + page) == NONE && ppn != NONE;
            if self.get(position) != ppn || unwritten {
                self.set(position, ppn);
                stale[page] = true;
            }
        }
        newest.copy_out(first, &mut self.directory);
        self.moved.clear();
        let stale = stale.iter().filter(|&&stale| stale).count() as u64;
        Rebuilt { spare_reads: flash.programmed_pages(), page_reads: stale, page_writes: stale }
    }

    /// A pristine drive was filled: the table says so too, and its first `pages` pages are on
    /// flash, each in the plane that `plane` gives.
    pub fn fill(
        &mut self,
        flash: &mut Flash,
        count: u32,
        ppn: impl Fn(u32) -> u32,
        position: impl Fn(u32) -> u32,
        plane: impl Fn(u32) -> u32,
        plan: &mut Plan,
    ) {
        let mut used = vec![false; self.directory.len()];
        for lpn in 0..count {
            let position = position(lpn);
            self.set(position, ppn(lpn));
            used[self.page_of(position) as usize] = true;
        }
        for page in (0..self.pages()).filter(|&page| used[page as usize]) {
            let id = self.first_id + page;
            let (ppn, _) = flash
                .allocate(plane(page), Frontier::MAP, id, 0)
                .expect("the scheme checked that the drive has room for its map pages");
            flash.programmed(ppn, NONE);
            self.directory[page as usize] = ppn;
            plan.counts.0[Kind::Program as usize][Cause::Map as usize] += 1;
        }
    }

    /// Prepare for cheap clones.
    pub fn freeze(&mut self) {
        self.contents.freeze();
    }
}

/// Refuse a drive whose planes have no room for `map_pages` map pages each, besides the logical
/// pages, the reserves, and what open blocks and collection need.
///
/// # Errors
/// Says how many logical pages would fit.
pub fn check_room(context: &Context, map_pages: u32) -> Result<(), ConfigError> {
    let geometry = &context.geometry;
    let spare = context.reserve + MAP_RESERVE + u32::from(Frontier::COMMON) + 1;
    let blocks = geometry.blocks_per_plane.get().saturating_sub(spare);
    let pages = u64::from(blocks) * u64::from(geometry.pages_per_block.get());
    let most = pages.saturating_sub(u64::from(map_pages)) * u64::from(geometry.planes());
    if u64::from(context.logical_pages) <= most {
        return Ok(());
    }
    let message = format!(
        "{} logical pages leave no room for the mapping table: with {map_pages} map pages and \
         {spare} spare blocks in each plane, at most {most} of {} pages can be logical; leave \
         more over_provisioning",
        context.logical_pages,
        geometry.pages()
    );
    Err(ConfigError::new("", message))
}

//! The mapping table on flash, and what schemes that load it on demand have in common.
//!
//! The table has one *position* per logical page, in an order that the scheme chooses; `entries`
//! consecutive positions make a map page. What each map page on flash says is kept for real, apart
//! from what the scheme holds in RAM: who looks up a page without loading it gets what flash says.

use sim::{CowVec, snapshot_fields};

use super::Context;
use crate::config::ConfigError;
use crate::ftl::flash::{Flash, Slot};
use crate::ssd::geometry::Divisor;
use crate::ssd::plan::{Cause, FlashOp, Kind, NONE, Plan};

pub mod lru;

/// Free blocks per plane that host writes leave for map pages. A collected block may need one for
/// the pages it moves and one for the map pages that tell where they went; each map page written
/// makes another one invalid, so that map blocks soon are the cheapest to collect.
pub const MAP_RESERVE: u32 = 3;

/// A page that the collector moved while its table entry was on flash only.
type Moved = (u32, u32);

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
    /// Per plane, what the collector moved and [`MapStore::settle`] has to write: (position, PPN).
    moved: Vec<Vec<Moved>>,
    moved_count: u32,
    /// Scratch of `settle`.
    settling: Vec<Moved>,
}

snapshot_fields!(MapStore { contents, directory, moved, moved_count });

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
            moved: vec![Vec::new(); context.geometry.planes() as usize],
            moved_count: 0,
            settling: Vec::new(),
        }
    }

    /// Map pages of the table.
    pub fn pages(&self) -> u32 {
        self.directory.len() as u32
    }

    /// Entries of a map page.
    pub fn entries(&self) -> u32 {
        self.entries.get()
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
    pub fn load(&mut self, page: u32, planes: std::ops::Range<u32>, to: &mut [u32]) -> bool {
        let first = page * self.entries.get();
        self.contents.copy_out(first as usize, to);
        let mut newer = false;
        if self.moved_count > 0 {
            let entries = self.entries;
            for moved in &mut self.moved[planes.start as usize..planes.end as usize] {
                let before = moved.len();
                moved.retain(|&(position, ppn)| {
                    let other = entries.div(position) != page;
                    if !other {
                        to[(position - first) as usize] = ppn;
                    }
                    other
                });
                self.moved_count -= (before - moved.len()) as u32;
                newer |= before != moved.len();
            }
        }
        newer
    }

    /// What the table says about one position, with what was moved since its map page was
    /// written; the flag tells that it was moved, and that it is now for the caller to write down.
    pub fn take(&mut self, position: u32) -> (u32, bool) {
        if self.moved_count > 0 {
            for moved in &mut self.moved {
                if let Some(index) = moved.iter().position(|&(at, _)| at == position) {
                    self.moved_count -= 1;
                    return (moved.swap_remove(index).1, true);
                }
            }
        }
        (self.get(position), false)
    }

    /// As [`MapStore::take`], but only looks.
    pub fn peek(&mut self, position: u32) -> u32 {
        let moved = self.moved.iter().flatten().find(|&&(at, _)| at == position);
        moved.map_or_else(|| self.contents.get(position as usize), |&(_, ppn)| ppn)
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
        let Some((ppn, opened)) = flash.allocate(plane, Slot::MAP, id, reserve) else {
            return false;
        };
        if opened {
            plan.collect.push(plane);
        }
        let old = std::mem::replace(&mut self.directory[page as usize], ppn);
        if old != NONE {
            flash.invalidate(old);
        }
        plan.push(FlashOp::program(Cause::Map, ppn, old, id, self.page_sectors));
        true
    }

    /// The collector moved a page of this id within `plane`, and no copy of its entry is in RAM.
    pub fn relocated(&mut self, id: u32, position: u32, plane: u32, to: u32) {
        match self.page_with_id(id) {
            Some(page) => self.directory[page as usize] = to,
            None => {
                self.moved[plane as usize].push((position, to));
                self.moved_count += 1;
            }
        }
    }

    /// Write down where the pages of a collected block of `plane` went: each map page concerned
    /// is read, changed and written again, in the same plane. Returns false when none is.
    pub fn settle(&mut self, flash: &mut Flash, plane: u32, plan: &mut Plan) -> bool {
        std::mem::swap(&mut self.settling, &mut self.moved[plane as usize]);
        if self.settling.is_empty() {
            return false;
        }
        self.moved_count -= self.settling.len() as u32;
        let mut moved = std::mem::take(&mut self.settling);
        moved.sort_unstable();
        let entries = self.entries;
        let same = |a: &Moved, b: &Moved| entries.div(a.0) == entries.div(b.0);
        for group in moved.chunk_by(same) {
            self.plan_read(entries.div(group[0].0), plan);
        }
        plan.then();
        for group in moved.chunk_by(same) {
            group.iter().for_each(|&(position, ppn)| self.set(position, ppn));
            let written = self.plan_write(entries.div(group[0].0), flash, plane, 0, plan);
            assert!(written, "a victim is chosen when the map pages it changes fit");
        }
        moved.clear();
        self.settling = moved;
        true
    }

    /// Take over what is on flash after a power failure: `newest` is the PPN of every id,
    /// `position` the place of a logical page in the table. Returns the map pages that flash has
    /// in an older version.
    pub fn rebuild(&mut self, newest: &[u32], position: impl Fn(u32) -> u32) -> u64 {
        let mut stale = vec![false; self.directory.len()];
        for (lpn, &ppn) in newest[..self.first_id as usize].iter().enumerate() {
            let position = position(lpn as u32);
            let page = self.page_of(position) as usize;
            let unwritten = newest[self.first_id as usize + page] == NONE && ppn != NONE;
            if self.get(position) != ppn || unwritten {
                self.set(position, ppn);
                stale[page] = true;
            }
        }
        self.directory.copy_from_slice(&newest[self.first_id as usize..]);
        self.moved.iter_mut().for_each(Vec::clear);
        self.moved_count = 0;
        stale.iter().filter(|&&stale| stale).count() as u64
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
                .allocate(plane(page), Slot::MAP, id, 0)
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
    let spare = context.reserve + MAP_RESERVE + u32::from(Slot::COMMON) + 1;
    let blocks = geometry.blocks_per_plane.get().saturating_sub(spare);
    let pages = u64::from(blocks) * u64::from(geometry.pages_per_block.get());
    let most = pages.saturating_sub(u64::from(map_pages)) * u64::from(geometry.planes());
    if u64::from(context.logical_pages) <= most {
        return Ok(());
    }
    let message = format!(
        "{} logical pages leave no room for the mapping table: with {map_pages} map pages and \
         {spare} spare blocks in each plane, at most {most} of {} pages can be logical; lower \
         over_provisioning.live_percent",
        context.logical_pages,
        geometry.pages()
    );
    Err(ConfigError::new("", message))
}

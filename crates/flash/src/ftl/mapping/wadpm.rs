//! WADPM: page mapping per plane, through a window on a table that lives on flash.
//!
//! ```text
//!   LPN -> plane PN = LPN mod planes, LPI = LPN div planes       (a page never leaves its plane)
//!
//!   RAM    window, LRU:   [chunk 7*][chunk 0 ][chunk 31*]  ...      * dirty
//!          directory:     chunk -> where its map page is
//!   flash  plane PN:      | data blocks: pages with their LPI | map blocks: one chunk per page |
//! ```
//!
//! # What it models
//! Every plane has its own table LPI -> PPI, cut into chunks of one flash page. Chunks are loaded
//! whole when an entry is needed, kept in least-recently-used order in a window of limited size,
//! and written back when they leave it changed. The window may follow the workload: it grows while
//! too many lookups miss and shrinks slowly while they hit.
//!
//! The write path:
//! 1. find the chunk of the LPI; when it is not in the window, throw out the least recently used
//!    one (if it changed, its map page is written while the request goes on; when its plane has no
//!    room for that, a write waits for a free block, and a read uses the entry and forgets it), and
//!    read the map page;
//! 2. take the next page of the plane's open block, or wait until one is collected;
//! 3. a page written in part: read the rest of it;
//! 4. program it, mark the old page invalid, change the entry, mark the chunk dirty;
//! 5. at the end of an interval, resize the window.
//!
//! # Equation
//! With K entries per chunk, C of M chunks in the window and write fraction w, uniform accesses
//! hit with h = C / M; of the chunks thrown out w / (1 - h (1 - w)) are dirty; each access costs
//! (1 - h) (R + X) + (1 - h) dirty (X + P) of map traffic. A sequential stream hits 1 - 1/K of the
//! time if the window holds one chunk per plane, else never.
//! `RAM <= window + chunks x bits(pages of a plane) + deferred`.
//!
//! # Parameters
//! `window` (fixed, hill-climb as in figure 8, or mrc), `layout`, `loading`, `lru`,
//! `gc_map_update` (batched, free as the paper counts, or deferred in RAM of a size). The device's
//! `collection.map_victim_percent` spares blocks of map pages that are not yet nearly empty.
//!
//! # What it leaves out
//! A request that misses a chunk which another request is just loading does not wait for it. The
//! RAM that holds a chunk while it is being written back, at most one per page under way. The
//! checkpoint that would shorten a rebuild: all spare areas are read. After a rebuild, map pages
//! that are out of date count as rewritten in its time, not in the wear.
//!
//! # Validated against
//! The closed forms above, the controller vectors of the paper's figure 8, the page map with a
//! full window; the NAND oracle. `docs/measured/wadpm.md` sets the study beside the paper.
//!
//! # References
//! Ha, Cho and Eom, J. KIISE: Systems and Theory 37(4), 2010.

use config::{ConfigError, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, snapshot_fields};

use super::demand::scheme::programs_last;
use super::demand::{COLLECTION_RESERVE, MAP_RESERVE, MapStore, check_room};
use super::fill::fill;
use super::{Built, Context, Full, HostPage, MapStats, Mapping, Needs, bits, next_page};
use crate::ftl::allocation::Allocator;
use crate::ftl::flash::{Flash, Frontier};
use crate::ssd::geometry::{Divisor, Geometry};
use crate::ssd::plan::{NONE, Plan, Rebuilt};

mod cache;
mod mrc;
mod share;
#[cfg(test)]
mod tests;
mod window;

use cache::Cache;
pub use mrc::MrcParams;
use window::Window;
pub use window::{HillClimbParams, WindowParams};

/// How an entry is laid out in a map page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// LPI and PPI, each in as many bits as it needs: 34 in the paper's device.
    #[default]
    Pair,
    /// PPI only: 17 bits in the paper's device. The chunk has one key.
    Ppi,
    /// PPI in 32 bits.
    Aligned32,
    /// LPI and PPI in 32 bits each.
    Aligned64,
}

/// What is loaded after a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loading {
    /// The whole chunk; the window is a list of chunks.
    #[default]
    Chunk,
    /// The missing entry; the window is a list of entries.
    Entry,
    /// The missing entry and those after it in the chunk, that many in all.
    ReadAhead(u32),
}

/// Over what the least recently used chunk is sought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LruScope {
    /// The whole drive.
    #[default]
    Global,
    /// Each plane has its share of the window.
    PerPlane,
}

/// What it costs when the collector moves a page whose chunk is not in the window.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GcMapUpdate {
    /// One map read and one map write per chunk concerned and collected block.
    #[default]
    Batched,
    /// Nothing, as the paper counts.
    Free,
    /// Beyond the paper: the entries wait in that much RAM, an equal share for each plane. When
    /// the share has no room for those of one more block, the chunks that most of them concern are
    /// read and written.
    Deferred(Size),
}

/// Parameters of WADPM.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// How much of the table is in RAM.
    pub window: WindowParams,
    /// How an entry is laid out.
    pub layout: Layout,
    /// What is loaded after a miss.
    pub loading: Loading,
    /// Over what the least recently used is sought.
    pub lru: LruScope,
    /// What the moves of the collector cost in map traffic.
    pub gc_map_update: GcMapUpdate,
}

impl Params {
    /// Build the mapping.
    ///
    /// # Errors
    /// Names the value that cannot be used: a window smaller than a chunk, a dynamic allocation, a
    /// drive without room for the map pages.
    pub fn build(&self, context: &Context) -> Built {
        if !context.allocator.is_static() {
            let message = "a page never leaves its plane: use allocation = \"static\"";
            return Err(ConfigError::new("", message));
        }
        let geometry = &context.geometry;
        let planes = geometry.planes();
        let lpis = context.logical_pages.div_ceil(planes);
        let ppi_bits = bits(geometry.pages_per_plane());
        let entry_bits = match self.layout {
            Layout::Pair => bits(lpis) + ppi_bits,
            Layout::Ppi => ppi_bits,
            Layout::Aligned32 => 32,
            Layout::Aligned64 => 64,
        };
        let chunk_bytes = geometry.page_bytes();
        let entries = (chunk_bytes * 8 / u64::from(entry_bits)).min(u64::from(lpis)) as u32;
        let chunks_per_plane = lpis.div_ceil(entries);
        check_room(context, chunks_per_plane)?;
        let chunks = chunks_per_plane * planes;
        let table = u64::from(context.logical_pages) * u64::from(bits(geometry.pages())) / 8;
        let window = self.window.build(table, chunk_bytes, chunks);
        let window = window.map_err(|error| error.within("window"))?;
        self.check_least(table, chunk_bytes, planes)?;
        let unit = match self.loading {
            Loading::Chunk => chunk_bytes * 8,
            Loading::Entry | Loading::ReadAhead(_) => u64::from(entry_bits),
        };
        let deferred = match self.gc_map_update {
            GcMapUpdate::Deferred(size) => Some(deferred(size, bits(lpis) + ppi_bits, geometry)?),
            GcMapUpdate::Batched | GcMapUpdate::Free => None,
        };
        let store = MapStore::new(context, chunks * entries, entries);
        Ok(Box::new(Wadpm {
            cache: Cache::new(self, chunks, chunks_per_plane, entries, unit),
            store,
            window,
            allocator: context.allocator.clone(),
            planes: Divisor::new(planes),
            chunks_per_plane: Divisor::new(chunks_per_plane),
            reserve: context.reserve + MAP_RESERVE,
            directory_bits: u64::from(chunks) * u64::from(ppi_bits),
            gc_map_update: self.gc_map_update,
            deferred,
            over: false,
            stats: MapStats::default(),
        }))
    }

    fn check_least(&self, table: u64, chunk: u64, planes: u32) -> Result<(), ConfigError> {
        let (key, percent) = self.window.least();
        let shares = if self.lru == LruScope::PerPlane { u64::from(planes) } else { 1 };
        let least = (table as f64 * percent / 100.0) as u64;
        if least >= chunk * shares {
            return Ok(());
        }
        let needed = (chunk * shares) as f64 * 100.0 / table as f64;
        let message = format!(
            "{percent} % of a page table is {least} bytes, less than {shares} chunk(s) of {chunk} \
             bytes: expected at least {:.3}",
            (needed * 1000.0).ceil() / 1000.0
        );
        if needed > 100.0 {
            let message = format!("{message}; the drive is too small for a window: use \"page\"");
            return Err(ConfigError::new(format!("window.{key}"), message));
        }
        Err(ConfigError::new(format!("window.{key}"), message))
    }
}

/// Entries of `entry_bits` that may wait in each plane's share of `size`, less those of one block.
///
/// # Errors
/// When the share is smaller than that.
fn deferred(size: Size, entry_bits: u32, geometry: &Geometry) -> Result<u32, ConfigError> {
    let (block, planes) = (geometry.pages_per_block.get(), u64::from(geometry.planes()));
    let entries = size.0.0 * 8 / planes / u64::from(entry_bits);
    let keep = (entries.min(u64::from(u32::MAX)) as u32).checked_sub(block);
    keep.ok_or_else(|| {
        let least = (u64::from(block * entry_bits) * planes).div_ceil(8);
        let message = format!(
            "{} hold {entries} moved entries in each of {planes} planes, fewer than a block has \
             pages ({block}): expected at least {least} B",
            size.0
        );
        ConfigError::new("gc_map_update.deferred", message)
    })
}

#[derive(Clone)]
struct Wadpm {
    cache: Cache,
    store: MapStore,
    window: Window,
    allocator: Allocator,
    planes: Divisor,
    chunks_per_plane: Divisor,
    reserve: u32,
    directory_bits: u64,
    gc_map_update: GcMapUpdate,
    /// Moved entries of a plane that may wait after a block was collected.
    deferred: Option<u32>,
    /// The window shrank, and flash had no room yet for all that must leave it.
    over: bool,
    stats: MapStats,
}

snapshot_fields!(Wadpm { cache, store, window, over, stats });

/// Position of a logical page in a table of `per_plane` positions for each plane.
#[inline]
fn place(planes: Divisor, per_plane: u32, lpn: u32) -> u32 {
    let (lpi, turn) = planes.split(lpn);
    turn * per_plane + lpi
}

impl Wadpm {
    /// Position of a logical page in the table: plane after plane in stripe order.
    #[inline]
    fn position(&self, lpn: u32) -> u32 {
        place(self.planes, self.chunks_per_plane.get() * self.store.entries(), lpn)
    }

    /// The plane of a chunk.
    fn plane_of_chunk(&self, chunk: u32) -> u32 {
        self.allocator.stripe()[self.chunks_per_plane.div(chunk) as usize]
    }

    /// Throw out until what a miss of `position` loads has room, if it is one. Returns false when
    /// what must go has changed and finds no room on flash; it stays.
    fn make_room(&mut self, position: u32, flash: &mut Flash, plan: &mut Plan) -> bool {
        let chunk = self.store.page_of(position);
        self.cache.get(position, chunk).is_some()
            || self.evict(self.cache.list(chunk), true, flash, plan)
    }

    /// Have the entry of `position`, for which there is room, in the window: read its chunk in a
    /// stage of its own, and leave what has to be written beside the operations that the caller
    /// adds. True when its chunk is read from flash.
    fn load(&mut self, position: u32, flash: &mut Flash, plan: &mut Plan) -> bool {
        let chunk = self.store.page_of(position);
        let hit = self.cache.touch(position, chunk);
        self.count(chunk, hit);
        let mut read = false;
        if !hit {
            read = self.store.plan_read(chunk, plan);
            self.cache.insert(position, chunk, &mut self.store);
        }
        if self.over {
            self.over = false;
            for list in 0..self.cache.lists() {
                self.over |= !self.evict(list, false, flash, plan);
            }
        }
        if !plan.ops.is_empty() {
            programs_last(plan);
        }
        read
    }

    /// Read an entry that has no room in the window, and forget it. True as of [`Wadpm::load`].
    #[cold]
    fn pass(&mut self, position: u32, plan: &mut Plan) -> (u32, bool) {
        let chunk = self.store.page_of(position);
        self.count(chunk, false);
        let read = self.store.plan_read(chunk, plan);
        programs_last(plan);
        (self.store.peek(position), read)
    }

    /// An entry of `chunk` was looked up.
    #[inline]
    fn count(&mut self, chunk: u32, hit: bool) {
        self.stats.lookups += 1;
        self.stats.hits += u64::from(hit);
        self.over |= self.window.accessed(chunk, hit);
    }

    /// Throw out of a list what no longer fits, with `more` when something is to come. What changed
    /// but finds no room on flash stays, and something used later goes instead. Returns false when
    /// that is not enough.
    fn evict(&mut self, list: u32, more: bool, flash: &mut Flash, plan: &mut Plan) -> bool {
        while let Some(oldest) = self.cache.victim(self.window.bytes, list, more) {
            let Some(victim) = self.removable(oldest, more, flash) else { return false };
            if self.cache.is_dirty(victim) {
                let page = self.cache.chunk_of(victim);
                if !self.cache.holds_chunks() {
                    // The rest of the map page is not in RAM.
                    self.store.plan_read(page, plan);
                    plan.then();
                }
                self.cache.write_back(victim, page, &mut self.store);
                let (plane, reserve) = (self.plane_of_chunk(page), self.map_reserve());
                let written = self.store.plan_write(page, flash, plane, reserve, plan);
                debug_assert!(written, "room was checked");
            }
            self.cache.remove(victim);
        }
        true
    }

    /// The least recently used unit from `oldest` on that need not be written or has room to be.
    /// Without a miss (`more`) the most recently used one is in use.
    fn removable(&self, oldest: u32, more: bool, flash: &Flash) -> Option<u32> {
        let reserve = self.map_reserve();
        let mut units = std::iter::successors(Some(oldest), |&unit| self.cache.newer(unit));
        units.find(|&unit| {
            let plane = self.plane_of_chunk(self.cache.chunk_of(unit));
            (more || self.cache.newer(unit).is_some())
                && (!self.cache.is_dirty(unit) || MapStore::has_room(flash, plane, reserve))
        })
    }

    /// Free blocks of a plane that map pages leave which make room in the window. One less than
    /// host pages: these wait for the room, and would take every block that is freed.
    fn map_reserve(&self) -> u32 {
        self.reserve - 1
    }

    /// What has no room in the window until a block is erased there: the plane of what was not used
    /// for longest.
    fn full(&self, position: u32) -> Full {
        let list = self.cache.list(self.store.page_of(position));
        let oldest = self.cache.victim(self.window.bytes, list, true);
        Full(oldest.map(|unit| self.plane_of_chunk(self.cache.chunk_of(unit))))
    }
}

impl Mapping for Wadpm {
    fn lookup(&mut self, _flash: &mut Flash, lpn: u32) -> u32 {
        if let Some(page) = self.store.page_with_id(lpn) {
            return self.store.ppn(page);
        }
        let position = self.position(lpn);
        let cached = self.cache.get(position, self.store.page_of(position));
        cached.unwrap_or_else(|| self.store.peek(position))
    }

    fn read(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) {
        let position = self.position(page.lpn);
        let (ppn, read) = if self.make_room(position, flash, plan) {
            let read = self.load(position, flash, plan);
            let cached = self.cache.get(position, self.store.page_of(position));
            (cached.expect("it was loaded"), read)
        } else {
            self.pass(position, plan)
        };
        self.stats.double_reads += u64::from(read);
        page.plan_read(ppn, plan);
    }

    fn write(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) -> Result<(), Full> {
        let (lpn, reserve) = (page.lpn, self.reserve);
        let position = self.position(lpn);
        if !self.make_room(position, flash, plan) {
            return Err(self.full(position));
        }
        let plane = self.allocator.choose(Frontier::HOST, lpn, flash, reserve).map_err(Full)?;
        let ppn = next_page(flash, plane, Frontier::HOST, lpn, reserve, plan)
            .expect("the allocator chose a plane with room");
        self.load(position, flash, plan);
        let old = self.cache.set(position, self.store.page_of(position), ppn);
        page.plan_program(old, ppn, flash, plan);
        Ok(())
    }

    fn discard(&mut self, flash: &mut Flash, lpn: u32, plan: &mut Plan) -> Result<(), Full> {
        let position = self.position(lpn);
        if !self.make_room(position, flash, plan) {
            return Err(self.full(position));
        }
        self.load(position, flash, plan);
        let chunk = self.store.page_of(position);
        let old = self.cache.get(position, chunk).expect("it was loaded");
        if old != NONE {
            flash.invalidate(old);
            self.cache.set(position, chunk, NONE);
        }
        Ok(())
    }

    fn relocated(&mut self, flash: &mut Flash, id: u32, from: u32, to: u32) {
        if self.store.page_with_id(id).is_some() {
            self.store.relocated(id, 0, 0, to);
            return;
        }
        let position = self.position(id);
        let chunk = self.store.page_of(position);
        if self.cache.get(position, chunk).is_some() {
            self.cache.set(position, chunk, to);
        } else if self.gc_map_update == GcMapUpdate::Free {
            self.store.set(position, to);
        } else {
            self.store.relocated(id, position, flash.geometry.plane_of(from), to);
        }
    }

    fn before_erase(&mut self, flash: &mut Flash, plane: u32, plan: &mut Plan) -> bool {
        let Some(keep) = self.deferred else { return self.store.write_moved(flash, plane, plan) };
        let turn = self.allocator.stripe().iter().position(|&other| other == plane);
        let turn = turn.expect("every plane is in the stripe") as u32;
        let per_plane = self.chunks_per_plane.get();
        let chunks = turn * per_plane..(turn + 1) * per_plane;
        self.store.write_moved_beyond(keep, chunks, flash, plane, plan)
    }

    fn map_pages_to_change(&mut self, flash: &mut Flash, block: u32) -> u32 {
        let (planes, entries) = (self.planes, self.store.entries());
        let (per_plane, cache) = (self.chunks_per_plane.get() * entries, &mut self.cache);
        self.store.pages_about(flash, block, |lpn| {
            let position = place(planes, per_plane, lpn);
            cache.get(position, position / entries).is_none().then_some(position)
        })
    }

    fn rebuild(&mut self, flash: &mut Flash) -> Rebuilt {
        self.cache.clear();
        self.over = false;
        let (planes, per_plane) = (self.planes, self.chunks_per_plane.get() * self.store.entries());
        self.store.rebuild(flash, |lpn| place(planes, per_plane, lpn))
    }

    fn fill(&mut self, flash: &mut Flash, count: u32, plan: &mut Plan) -> bool {
        let more = self.chunks_per_plane.get() + flash.geometry.pages_per_block.get();
        let allocator = &mut self.allocator;
        let Some(filled) = fill(flash, allocator, count, self.reserve, more, plan) else {
            return false;
        };
        let (planes, per_plane) = (self.planes, self.chunks_per_plane.get() * self.store.entries());
        let position = |lpn| place(planes, per_plane, lpn);
        let (stripe, chunks) = (self.allocator.stripe(), self.chunks_per_plane);
        let plane = |chunk| stripe[chunks.div(chunk) as usize];
        self.store.fill(flash, count, |lpn| filled.ppn(lpn), position, plane, plan);
        true
    }

    fn needs(&self) -> Needs {
        let updates = self.gc_map_update != GcMapUpdate::Free;
        Needs {
            reserve: MAP_RESERVE,
            map_pages: self.store.pages(),
            before_erase_pages: if updates { self.chunks_per_plane.get() } else { 0 },
            kept_for_collection: if updates { COLLECTION_RESERVE } else { 0 },
            ..Needs::default()
        }
    }

    fn ram(&self) -> Bytes {
        let waiting = match self.gc_map_update {
            GcMapUpdate::Deferred(size) => size.0.0,
            GcMapUpdate::Batched | GcMapUpdate::Free => 0,
        };
        let table = self.cache.ram() + self.directory_bits.div_ceil(8);
        Bytes(table + self.window.ram() + waiting)
    }

    fn stats(&self) -> Option<MapStats> {
        Some(self.stats)
    }

    fn freeze(&mut self) {
        self.store.freeze();
        self.cache.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Mapping> {
        Box::new(self.clone())
    }
}

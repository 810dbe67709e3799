//! CDFTL: single table entries cached over whole map pages.
//!
//! ```text
//!   RAM    entries, LRU:    [LPN 7, PPN]* [LPN 90, PPN] [LPN 3, PPN]* ...      * changed
//!          map pages, LRU:  [map page 0: all its PPNs]* [map page 4]  ...
//!          directory:       map page -> where it is
//!   flash  | data blocks: pages with their LPN | map blocks: pages of consecutive PPNs |
//! ```
//!
//! # What it models
//! The complete table is on flash, as in DFTL. A first cache holds single entries (for pages used
//! again soon), a second one whole map pages (for pages used near one another). An entry comes
//! into the first cache from the second.
//!
//! The write path:
//! 1. take the next page of the open block, or wait until one is collected;
//! 2. find the entry in the first cache; else in the second; else throw out the least recently
//!    used map page (write it if it changed, with every changed entry of it) and read the wanted
//!    one;
//! 3. room for the entry: throw out the least recently used one that did not change or whose map
//!    page is in RAM, which takes the change over; if the last 16 cannot go, read the map page of
//!    the last;
//! 4. a page written in part: read the rest of it;
//! 5. program it, mark the old page invalid, change the cached entry.
//!
//! When flash has no room for what must leave RAM, a write waits until a block is collected, and a
//! read uses the entry and forgets it: the RAM is never exceeded.
//!
//! The collector changes cached entries and map pages in RAM; for other pages it reads and writes
//! each map page concerned once per collected block.
//!
//! # Equation
//! Uniform accesses to U pages with C cached entries and P of M map pages hit with
//! C / U + (1 - C / U) P / M; each miss costs a map read, and a map write if the map page thrown
//! out changed. `RAM = 8 C + page size x P + M x bits(pages)`.
//!
//! # Parameters
//! `cache`: RAM for both. `pages_percent`: share of it for whole map pages.
//!
//! # What it leaves out
//! The shares do not adapt (the journal version moves them). A request that misses an entry which
//! another request is just loading does not wait for it. After a power failure all spare areas are
//! read; map pages that are out of date count as rewritten in the time of the rebuild, not in the
//! wear.
//!
//! # Validated against
//! The equation above within 5 %, exact costs of short sequences; the NAND oracle.
//!
//! # References
//! Qin, Wang, Liu, Shao, RTAS 2011; the same with Guan, ACM TODAES 22(1), 2016.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, snapshot_fields};

use super::demand::CacheSize;
use super::demand::entries::Entries;
use super::demand::frames::Frames;
use super::demand::lru::Lists;
use super::demand::scheme::{Cache, Demand, Io, store};
use super::{Built, Context, HostPage};
use crate::ssd::geometry::Divisor;

/// Bytes of a cached entry: LPN and PPN.
const ENTRY_BYTES: u64 = 8;

/// Entries that are tried before a map page is read for the sake of a changed one.
const TRIES: u32 = 16;

/// Parameters of CDFTL.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// RAM for entries and map pages: `"64KiB"`, or `"10%"` of a complete page map's.
    pub cache: CacheSize,
    /// Share of the cache for whole map pages, in percent.
    pub pages_percent: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { cache: CacheSize::default(), pages_percent: 50 }
    }
}

impl Params {
    /// Build the mapping.
    ///
    /// # Errors
    /// Names the value that cannot be used: a cache without room for a map page and two entries, a
    /// drive without room for the map pages.
    pub fn build(&self, context: &Context) -> Built {
        if !(1..=99).contains(&self.pages_percent) {
            let message = format!("expected 1 to 99, got {}", self.pages_percent);
            return Err(ConfigError::new("pages_percent", message));
        }
        let share = u64::from(self.pages_percent);
        let store = store(context)?;
        let page_bytes = store.page_bytes();
        let least = (page_bytes * 100).div_ceil(share);
        let least = least.max((2 * ENTRY_BYTES * 100).div_ceil(100 - share));
        let what = format!(
            "a map page of {page_bytes} bytes in {share} % of it (pages_percent) and two entries \
             of 8 bytes in the rest"
        );
        let bytes = self.cache.bytes(context, least, &what)?;
        let for_pages = bytes * share / 100;
        let pages = (for_pages / page_bytes).min(u64::from(store.pages()));
        let entries = ((bytes - for_pages) / ENTRY_BYTES).min(u64::from(context.logical_pages));
        let cache = TwoLevels {
            entries: Entries::new(&store, 1),
            frames: Frames::new(store.pages(), store.entries()),
            changed: vec![false; store.pages() as usize],
            recency: Lists::new(store.pages(), 1),
            page_entries: Divisor::new(store.entries()),
            page_bytes,
            entry_capacity: entries as u32,
            page_capacity: pages as u32,
        };
        Ok(Box::new(Demand::new(cache, store, context)))
    }
}

/// Both caches.
#[derive(Clone)]
struct TwoLevels {
    /// The first cache, in list 0 of its `order`.
    entries: Entries,
    /// The second cache.
    frames: Frames,
    /// Map pages in RAM that flash does not have as they are there.
    changed: Vec<bool>,
    /// Order of use of the map pages in RAM.
    recency: Lists,
    page_entries: Divisor,
    page_bytes: u64,
    entry_capacity: u32,
    page_capacity: u32,
}

snapshot_fields!(TwoLevels { entries, frames, changed, recency });

impl TwoLevels {
    /// Put a changed entry into its map page, which is in RAM.
    fn fold(&mut self, slot: u32, page: u32) {
        let ppn = self.entries.clean(slot, page);
        self.frames.set(self.entries.position(slot), page, ppn);
        self.changed[page as usize] = true;
    }

    /// Throw a map page out if one more would be too much; false when flash has no room for it.
    fn make_room_for_page(&mut self, io: &mut Io) -> bool {
        if self.recency.len(0) >= self.page_capacity {
            let victim = self.recency.tail(0).expect("there is room for a map page at least");
            if self.changed[victim as usize] {
                if !io.has_room(victim) {
                    return false;
                }
                while let Some(slot) = self.entries.any_dirty_of(victim) {
                    self.fold(slot, victim);
                }
                io.store.store(victim, self.frames.of(victim));
                io.write(victim);
            }
            self.recency.remove(0, victim);
            self.frames.remove(victim);
        }
        true
    }

    /// Read a map page into the second cache, which has room.
    fn load_page(&mut self, page: u32, io: &mut Io) {
        io.read(page);
        self.changed[page as usize] = self.frames.load(page, io.store);
        self.recency.push(0, page);
    }

    /// An entry that can be thrown out without reading flash.
    fn easy_victim(&self) -> Option<u32> {
        let mut slot = self.entries.order.tail(0)?;
        for _ in 0..TRIES {
            let page = self.page_entries.div(self.entries.position(slot));
            if !self.entries.is_dirty(slot) || self.frames.holds(page) {
                return Some(slot);
            }
            slot = self.entries.order.newer(slot)?;
        }
        None
    }

    /// Throw an entry out if one more would be too much; false when it belongs into a map page
    /// for which there is no room.
    fn make_room_for_entry(&mut self, io: &mut Io) -> bool {
        if self.entries.len() < self.entry_capacity {
            return true;
        }
        let easy = self.easy_victim();
        let slot = easy.or(self.entries.order.tail(0)).expect("the cache is full");
        let page = self.page_entries.div(self.entries.position(slot));
        if easy.is_none() {
            if !self.make_room_for_page(io) {
                return false;
            }
            self.load_page(page, io);
        }
        if self.entries.is_dirty(slot) {
            self.fold(slot, page);
        }
        self.entries.order.remove(0, slot);
        self.entries.remove(slot);
        true
    }
}

impl Cache for TwoLevels {
    fn make_room(&mut self, page: HostPage, io: &mut Io) -> bool {
        if self.entries.find(page.lpn).is_some() {
            return true;
        }
        let map_page = self.page_entries.div(page.lpn);
        // An entry that finds no room is used where it is in its map page.
        let fits = self.make_room_for_entry(io);
        self.frames.holds(map_page) || fits && self.make_room_for_page(io)
    }

    fn load(&mut self, page: HostPage, io: &mut Io) -> bool {
        if let Some(slot) = self.entries.find(page.lpn) {
            self.entries.order.touch(0, slot);
            return true;
        }
        let map_page = self.page_entries.div(page.lpn);
        let hit = self.frames.holds(map_page);
        if hit {
            self.recency.touch(0, map_page)
        } else {
            self.load_page(map_page, io)
        }
        if self.entries.len() < self.entry_capacity {
            let ppn = self.frames.get(page.lpn, map_page).expect("the map page was loaded");
            let slot = self.entries.insert(page.lpn, map_page, ppn, false);
            self.entries.order.push(0, slot);
        }
        hit
    }

    #[inline]
    fn get(&mut self, lpn: u32) -> Option<u32> {
        self.entries.get(lpn).or_else(|| self.frames.get(lpn, self.page_entries.div(lpn)))
    }

    fn set(&mut self, lpn: u32, ppn: u32) -> u32 {
        let page = self.page_entries.div(lpn);
        match self.entries.find(lpn) {
            Some(slot) => self.entries.set(slot, page, ppn),
            None => {
                self.changed[page as usize] = true;
                self.frames.set(lpn, page, ppn)
            }
        }
    }

    fn ram(&self) -> Bytes {
        let entries = u64::from(self.entries.len()) * ENTRY_BYTES;
        Bytes(entries + u64::from(self.recency.len(0)) * self.page_bytes)
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.frames.clear();
        self.changed.fill(false);
        self.recency.clear();
    }

    fn freeze(&mut self) {
        self.entries.freeze();
    }
}

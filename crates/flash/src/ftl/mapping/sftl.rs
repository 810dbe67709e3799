//! S-FTL: whole map pages in RAM, made small where logical neighbours are physical neighbours.
//!
//! ```text
//!   RAM    map pages, LRU:  [map page 4: head bits 1000 0010.., PPNs of the heads]*   * changed
//!          dirty buffer:    map page 7: (LPN, PPN) (LPN, PPN)   map page 1: (LPN, PPN)
//!          directory:       map page -> where it is
//!   flash  | data blocks: pages with their LPN | map blocks: pages of consecutive PPNs |
//! ```
//!
//! # What it models
//! The complete table is on flash, as in DFTL. Map pages are cached whole, each as a bit per entry
//! that tells whether a run of consecutive PPNs begins there, and the PPNs of those heads; a map
//! page without runs is kept as it is. A map page thrown out with few changes leaves them in the
//! dirty buffer and is written later with more. On a drive of several planes the pages of a run are
//! one stripe apart: a sequential stream leaves one run per plane.
//!
//! The write path:
//! 1. take the next page of the open block, or wait until one is collected;
//! 2. find the map page in RAM or the entry in the dirty buffer; else read the map page and take
//!    what the dirty buffer has of it;
//! 3. the cache is too big: throw out the least recently used map page; if it changed in more than
//!    `sparse` entries write it, else put them into the dirty buffer, from which the map page with
//!    most entries is read and written to make room;
//! 4. a page written in part: read the rest of it;
//! 5. program it, mark the old page invalid, change the entry: its run may break in three.
//!
//! When flash has no room for what must leave RAM, a write waits until a block is collected, and a
//! read uses the entry and forgets it: the RAM is never exceeded.
//!
//! The collector changes what is in RAM; for other pages it reads and writes each map page
//! concerned once per collected block.
//!
//! # Equation
//! A map page of n entries with h run heads takes min(4 n, n / 8 + 4 h) bytes.
//! `RAM = map pages + 8 x entries in the dirty buffer + M x bits(pages)`; the first two stay within
//! `cache`, and 8 bytes for each page that the collector has moved since the last access: it may
//! break a run in three.
//!
//! # Parameters
//! `cache`: RAM for everything but the directory. `buffer_percent`: share of the dirty buffer.
//! `sparse`: changes that a map page may leave there.
//!
//! # What it leaves out
//! A request that misses a map page which another request is just loading does not wait for it. The
//! time to expand a map page. After a power failure all spare areas are read; map pages that are
//! out of date count as rewritten in the time of the rebuild, not in the wear.
//!
//! # Validated against
//! The equation above and exact costs of short sequences; the NAND oracle.
//!
//! # References
//! Jiang, Zhang, Yuan, Hu, Feng, MSST 2011. The defaults of `buffer_percent` and `sparse` are ours.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, CowVec, snapshot_fields};

use super::demand::CacheSize;
use super::demand::entries::Entries;
use super::demand::frames::Frames;
use super::demand::heap::Heap;
use super::demand::lru::Lists;
use super::demand::scheme::{Cache, Demand, Io, store};
use super::{Built, Context, HostPage};
use crate::ssd::geometry::Divisor;
use crate::ssd::plan::NONE;

/// Bytes of an entry in the dirty buffer: LPN and PPN.
const BUFFERED_BYTES: u64 = 8;
/// Bytes of a PPN.
const PPN_BYTES: u64 = 4;

/// Parameters of S-FTL.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// RAM for map pages and the dirty buffer: `"64KiB"`, or `"10%"` of a complete page map's.
    pub cache: CacheSize,
    /// Share of the cache for the dirty buffer, in percent; 0 does without.
    pub buffer_percent: u32,
    /// Changed entries with which a map page goes to the dirty buffer at most.
    pub sparse: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { cache: CacheSize::default(), buffer_percent: 10, sparse: 8 }
    }
}

impl Params {
    /// Build the mapping.
    ///
    /// # Errors
    /// Names the value that cannot be used: a cache without room for a map page without runs, a
    /// drive without room for the map pages.
    pub fn build(&self, context: &Context) -> Built {
        if self.buffer_percent > 90 {
            let message = format!("expected 0 to 90, got {}", self.buffer_percent);
            return Err(ConfigError::new("buffer_percent", message));
        }
        let store = store(context)?;
        let (page, share) = (store.page_bytes(), u64::from(self.buffer_percent));
        let what = format!(
            "a map page of {page} bytes besides {share} % for the dirty buffer (buffer_percent)"
        );
        let least = (page * 100).div_ceil(100 - share);
        let bytes = self.cache.bytes(context, least, &what)?;
        let for_buffer = bytes * share / 100;
        let words = store.entries().div_ceil(64);
        let cache = Runs {
            frames: Frames::new(store.pages(), store.entries()),
            pages: vec![Page::default(); store.pages() as usize],
            changed: CowVec::new((store.pages() * words) as usize, 0),
            words,
            recency: Lists::new(store.pages(), 1),
            used: 0,
            buffer: Entries::new(&store, 0),
            fullest: Heap::new(store.pages()),
            page_entries: Divisor::new(store.entries()),
            stripe: context.geometry.planes() as usize,
            bytes: bytes - for_buffer,
            buffer_capacity: (for_buffer / BUFFERED_BYTES) as u32,
            sparse: self.sparse.min(store.entries()),
            to_load: Vec::new(),
        };
        Ok(Box::new(Demand::new(cache, store, context)))
    }
}

/// What is known of a map page in RAM besides its entries.
#[derive(Clone, Copy, Default, Debug)]
struct Page {
    /// Entries that begin a run.
    heads: u32,
    /// Entries that flash does not have as they are in RAM.
    changed: u32,
}

snapshot_fields!(Page { heads, changed });

/// The cache.
#[derive(Clone)]
struct Runs {
    frames: Frames,
    pages: Vec<Page>,
    /// A bit for each changed entry of the map pages in RAM.
    changed: CowVec<u64>,
    /// Words of `changed` for each map page.
    words: u32,
    recency: Lists,
    /// Bytes of the map pages in RAM, runs made small.
    used: u64,
    /// The dirty buffer; nothing of a map page that is in RAM.
    buffer: Entries,
    /// Map pages by entries in the dirty buffer.
    fullest: Heap,
    page_entries: Divisor,
    /// Logical pages from one page of a run to the next.
    stripe: usize,
    bytes: u64,
    buffer_capacity: u32,
    sparse: u32,
    /// Scratch: a map page that is to be loaded.
    to_load: Vec<u32>,
}

snapshot_fields!(Runs { frames, pages, changed, recency, used, buffer, fullest });

/// True when entry `at` of a map page begins a run.
#[inline]
fn is_head(entries: &[u32], at: usize, stripe: usize) -> bool {
    let Some(before) = at.checked_sub(stripe) else { return true };
    let next = if entries[before] == NONE { NONE } else { entries[before] + 1 };
    entries[at] != next
}

impl Runs {
    /// Bytes of a map page in RAM.
    fn size(&self, page: u32) -> u64 {
        self.size_with(self.pages[page as usize].heads)
    }

    /// Bytes of a map page with so many heads.
    fn size_with(&self, heads: u32) -> u64 {
        let entries = u64::from(self.page_entries.get());
        (entries.div_ceil(8) + u64::from(heads) * PPN_BYTES).min(entries * PPN_BYTES)
    }

    /// Heads among an entry and the one that would continue its run.
    fn heads_at(&self, page: u32, at: usize) -> u32 {
        let entries = self.frames.of(page);
        let next = at + self.stripe;
        let next_is = next < entries.len() && is_head(entries, next, self.stripe);
        u32::from(is_head(entries, at, self.stripe)) + u32::from(next_is)
    }

    /// Change an entry of a map page in RAM. Returns what it was.
    fn change(&mut self, position: u32, page: u32, ppn: u32) -> u32 {
        let at = position - page * self.page_entries.get();
        self.used -= self.size(page);
        let before = self.heads_at(page, at as usize);
        let old = self.frames.set(position, page, ppn);
        let after = self.heads_at(page, at as usize);
        let state = &mut self.pages[page as usize];
        state.heads = state.heads + after - before;
        self.used += self.size(page);
        let word = (page * self.words + at / 64) as usize;
        let bits = self.changed.get(word);
        let bit = 1 << (at % 64);
        if bits & bit == 0 {
            self.changed.set(word, bits | bit);
            self.pages[page as usize].changed += 1;
        }
        old
    }

    /// Read a map page and take what the dirty buffer has of it.
    fn load_page(&mut self, page: u32, io: &mut Io) {
        io.read(page);
        let moved = self.frames.load(page, io.store);
        let entries = self.frames.of(page);
        let heads = (0..entries.len()).filter(|&at| is_head(entries, at, self.stripe)).count();
        // What the collector moved is in no map page yet, and which entries those are is not
        // known here: such a map page is written whole when it leaves.
        let changed = if moved { self.sparse + 1 } else { 0 };
        self.pages[page as usize] = Page { heads: heads as u32, changed };
        self.used += self.size(page);
        self.recency.push(0, page);
        while let Some(slot) = self.buffer.any_dirty_of(page) {
            let ppn = self.buffer.clean(slot, page);
            self.change(self.buffer.position(slot), page, ppn);
            self.buffer.remove(slot);
        }
        self.fullest.remove(page);
    }

    /// Bytes that a map page in RAM may take after the access under way: the largest size, or
    /// what it takes now and a run broken in three.
    fn size_after(&self, size: u64) -> u64 {
        (size + 2 * PPN_BYTES).min(u64::from(self.page_entries.get()) * PPN_BYTES)
    }

    /// Bytes that a map page would take when it is loaded.
    fn size_to_load(&mut self, page: u32, io: &mut Io) -> u64 {
        let mut entries = std::mem::take(&mut self.to_load);
        entries.resize(self.page_entries.get() as usize, NONE);
        io.store.peek_page(page, &mut entries);
        for slot in self.buffer.dirty_slots(page) {
            let at = self.buffer.position(slot) - page * self.page_entries.get();
            entries[at as usize] = self.buffer.ppn(slot);
        }
        let heads = (0..entries.len()).filter(|&at| is_head(&entries, at, self.stripe)).count();
        self.to_load = entries;
        self.size_with(heads as u32)
    }

    /// Throw out what is too much besides `more` bytes, but not the map page in use; false when
    /// flash has no room for what changed.
    fn shrink(&mut self, keep: u32, more: u64, io: &mut Io) -> bool {
        while self.used + more > self.bytes {
            let Some(victim) = self.recency.tail(0).filter(|&page| page != keep) else { break };
            let changed = self.pages[victim as usize].changed;
            let leaves = changed == 0 || changed <= self.sparse && self.buffer(victim, io);
            if !leaves {
                if !io.has_room(victim) {
                    return false;
                }
                io.store.store(victim, self.frames.of(victim));
                io.write(victim);
            }
            self.used -= self.size(victim);
            (0..self.words).for_each(|w| self.changed.set((victim * self.words + w) as usize, 0));
            self.recency.remove(0, victim);
            self.frames.remove(victim);
        }
        true
    }

    /// Put the changes of a map page into the dirty buffer; false when they find no room.
    fn buffer(&mut self, page: u32, io: &mut Io) -> bool {
        let count = self.pages[page as usize].changed;
        if count > self.buffer_capacity {
            return false;
        }
        while self.buffer.len() + count > self.buffer_capacity {
            let fullest = self.fullest.least().expect("the dirty buffer is not empty");
            if !io.has_room(fullest) {
                return false;
            }
            io.read(fullest);
            while let Some(slot) = self.buffer.write_back_oldest(fullest, io.store) {
                self.buffer.remove(slot);
            }
            io.write(fullest);
            self.fullest.remove(fullest);
        }
        for word in 0..self.words {
            let mut bits = self.changed.get((page * self.words + word) as usize);
            while bits != 0 {
                let at = word * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let position = page * self.page_entries.get() + at;
                let ppn = self.frames.get(position, page).expect("the map page is in RAM");
                self.buffer.insert(position, page, ppn, true);
            }
        }
        self.fullest.set(page, u64::MAX - u64::from(count));
        true
    }
}

impl Cache for Runs {
    fn make_room(&mut self, page: HostPage, io: &mut Io) -> bool {
        let map_page = self.page_entries.div(page.lpn);
        let more = if self.frames.holds(map_page) {
            self.recency.touch(0, map_page);
            self.size_after(self.size(map_page)) - self.size(map_page)
        } else if self.buffer.find(page.lpn).is_some() {
            return true;
        } else {
            let size = self.size_to_load(map_page, io);
            self.size_after(size)
        };
        self.shrink(map_page, more, io)
    }

    fn load(&mut self, page: HostPage, io: &mut Io) -> bool {
        let map_page = self.page_entries.div(page.lpn);
        let cached = self.frames.holds(map_page) || self.buffer.find(page.lpn).is_some();
        if !cached {
            self.load_page(map_page, io);
        }
        cached
    }

    #[inline]
    fn get(&mut self, lpn: u32) -> Option<u32> {
        let cached = self.frames.get(lpn, self.page_entries.div(lpn));
        cached.or_else(|| self.buffer.get(lpn))
    }

    fn set(&mut self, lpn: u32, ppn: u32) -> u32 {
        let page = self.page_entries.div(lpn);
        if self.frames.holds(page) {
            return self.change(lpn, page, ppn);
        }
        let slot = self.buffer.find(lpn).expect("the entry is in RAM");
        self.buffer.set(slot, page, ppn)
    }

    fn ram(&self) -> Bytes {
        Bytes(self.used + u64::from(self.buffer.len()) * BUFFERED_BYTES)
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.pages.fill(Page::default());
        self.changed = CowVec::new(self.changed.len(), 0);
        self.recency.clear();
        self.used = 0;
        self.buffer.clear();
        self.fullest.clear();
    }

    fn freeze(&mut self) {
        self.changed.freeze();
        self.buffer.freeze();
    }
}

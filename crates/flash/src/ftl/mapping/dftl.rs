//! DFTL: page mapping with single table entries loaded on demand.
//!
//! ```text
//!   RAM    cached entries:  protected  [LPN 7, PPN]* [LPN 90, PPN]  ...      * dirty
//!                           probation  [LPN 3, PPN]  [LPN 41, PPN]* ...
//!          directory:       map page -> where it is
//!   flash  | data blocks: pages with their LPN | map blocks: pages of consecutive PPNs |
//! ```
//!
//! # What it models
//! The complete table is on flash, in pages of 4-byte PPNs in the order of logical pages. Entries
//! are cached one by one in a segmented least-recently-used list: an entry comes into the
//! probationary segment and moves to the protected one when it is used again.
//!
//! The write path:
//! 1. take the next page of the open block, or wait until one is collected;
//! 2. find the entry; when it is not cached, throw out the least recently used one and read the
//!    map page of the wanted one;
//! 3. an entry thrown out changed: read its map page, put every changed entry of that page into it
//!    (batching), write it;
//! 4. a page written in part: read the rest of it;
//! 5. program it, mark the old page invalid, change the cached entry.
//!
//! When flash has no room for what must leave RAM, a write waits until a block is collected, and a
//! read uses the entry and forgets it: the RAM is never exceeded.
//!
//! The collector changes cached entries of moved pages in RAM only (lazy copying); for the others
//! it reads and writes each map page concerned once per collected block.
//!
//! # Equation
//! Uniform accesses to U pages with C cached entries, M map pages and write share w hit with C / U.
//! Each miss costs a map read, and a map read and a map write more with probability
//! f = M / (M / w + C) in a plain LRU; a protected segment leaves its share out of C there.
//! `RAM = 8 C + M x bits(pages)`.
//!
//! # Parameters
//! `cache`: RAM for entries of 8 bytes. `protected_percent`: share of the protected segment; 0
//! makes the list a plain LRU.
//!
//! # What it leaves out
//! A request that misses an entry which another request is just loading does not wait for it. After
//! a power failure all spare areas are read; map pages that are out of date count as rewritten in
//! the time of the rebuild, not in the wear.
//!
//! # Validated against
//! The equations above within 3 %; the NAND oracle.
//!
//! # References
//! Gupta, Kim, Urgaonkar, ASPLOS 2009.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, snapshot_fields};

use super::demand::CacheSize;
use super::demand::entries::Entries;
use super::demand::scheme::{Cache, Demand, Io, store};
use super::{Built, Context, HostPage};
use crate::ssd::geometry::Divisor;

/// Bytes of a cached entry: LPN and PPN.
const ENTRY_BYTES: u64 = 8;

/// Parameters of DFTL.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// RAM for cached entries, 8 bytes each: `"64KiB"`, or `"10%"` of a complete page map's.
    pub cache: CacheSize,
    /// Share of the cache for entries used more than once, in percent, below 100.
    pub protected_percent: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { cache: CacheSize::default(), protected_percent: 50 }
    }
}

impl Params {
    /// Build the mapping.
    ///
    /// # Errors
    /// Names the value that cannot be used: a cache without room for two entries, a drive without
    /// room for the map pages.
    pub fn build(&self, context: &Context) -> Built {
        if self.protected_percent >= 100 {
            let message = format!("expected 0 to 99, got {}", self.protected_percent);
            return Err(ConfigError::new("protected_percent", message));
        }
        let bytes = self.cache.bytes(context, 2 * ENTRY_BYTES, "two entries of 8 bytes")?;
        let store = store(context)?;
        let capacity = (bytes / ENTRY_BYTES).min(u64::from(context.logical_pages)) as u32;
        let protected = u64::from(capacity) * u64::from(self.protected_percent) / 100;
        let cache = Cmt {
            entries: Entries::new(&store, 2),
            page_entries: Divisor::new(store.entries()),
            protected: Vec::new(),
            capacity,
            protected_capacity: protected as u32,
        };
        Ok(Box::new(Demand::new(cache, store, context)))
    }
}

/// The lists of [`Entries::order`].
const PROBATION: u32 = 0;
const PROTECTED: u32 = 1;

/// The cached mapping table.
#[derive(Clone)]
struct Cmt {
    entries: Entries,
    page_entries: Divisor,
    /// The list each slot is in.
    protected: Vec<bool>,
    capacity: u32,
    protected_capacity: u32,
}

snapshot_fields!(Cmt { entries, protected });

impl Cmt {
    /// An entry was used again.
    #[inline]
    fn touch(&mut self, slot: u32) {
        let order = &mut self.entries.order;
        if self.protected[slot as usize] {
            order.touch(PROTECTED, slot);
            return;
        }
        if self.protected_capacity == 0 {
            order.touch(PROBATION, slot);
            return;
        }
        order.remove(PROBATION, slot);
        order.push(PROTECTED, slot);
        self.protected[slot as usize] = true;
        if order.len(PROTECTED) > self.protected_capacity {
            let oldest = order.tail(PROTECTED).expect("the segment is over its size");
            order.remove(PROTECTED, oldest);
            order.push(PROBATION, oldest);
            self.protected[oldest as usize] = false;
        }
    }

    /// Throw an entry out; false when flash has no room for what changed.
    #[inline]
    fn evict(&mut self, io: &mut Io) -> bool {
        let victim = self.entries.order.tail(PROBATION);
        let victim = victim.expect("the protected segment is smaller than the full cache");
        if self.entries.is_dirty(victim) {
            let page = self.page_entries.div(self.entries.position(victim));
            if !io.has_room(page) {
                return false;
            }
            io.read(page);
            self.entries.write_back(page, io.store);
            io.write(page);
        }
        self.entries.order.remove(PROBATION, victim);
        self.entries.remove(victim);
        true
    }
}

impl Cache for Cmt {
    #[inline]
    fn make_room(&mut self, page: HostPage, io: &mut Io) -> bool {
        self.entries.len() < self.capacity
            || self.entries.find(page.lpn).is_some()
            || self.evict(io)
    }

    #[inline]
    fn load(&mut self, page: HostPage, io: &mut Io) -> bool {
        if let Some(slot) = self.entries.find(page.lpn) {
            self.touch(slot);
            return true;
        }
        let map_page = self.page_entries.div(page.lpn);
        io.read(map_page);
        let slot = self.entries.load(page.lpn, map_page, io.store);
        self.entries.order.push(PROBATION, slot);
        self.protected.resize(self.protected.len().max(slot as usize + 1), false);
        self.protected[slot as usize] = false;
        false
    }

    #[inline]
    fn get(&mut self, lpn: u32) -> Option<u32> {
        self.entries.get(lpn)
    }

    #[inline]
    fn set(&mut self, lpn: u32, ppn: u32) -> u32 {
        let slot = self.entries.find(lpn).expect("the entry is in RAM");
        self.entries.set(slot, self.page_entries.div(lpn), ppn)
    }

    fn ram(&self) -> Bytes {
        Bytes(u64::from(self.entries.len()) * ENTRY_BYTES)
    }

    fn clear(&mut self) {
        self.entries.clear();
    }

    fn freeze(&mut self) {
        self.entries.freeze();
    }
}

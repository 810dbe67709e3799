//! TPFTL: single table entries, kept by map page, loaded ahead and written back together.
//!
//! ```text
//!   RAM    node of map page 3, hottest:   [10, PPN] [11, PPN]* [12, PPN]       * changed
//!          node of map page 0:            [7, PPN]*
//!          node of map page 9, coldest:   [1, PPN] [300, PPN]* ...
//!          directory: map page -> where it is
//!   flash  | data blocks: pages with their LPN | map blocks: pages of consecutive PPNs |
//! ```
//!
//! # What it models
//! The complete table is on flash, as in DFTL. Cached entries belong to a node for their map page,
//! so that an entry needs its offset there only. Nodes are ordered by the mean time of the last use
//! of their entries. A miss loads what the rest of the request needs from the same map page, and
//! while the workload looks sequential (the number of nodes falls) as many entries as are cached
//! right before the wanted one; never more than fits when one node is emptied.
//!
//! The write path:
//! 1. take the next page of the open block, or wait until one is collected;
//! 2. find the entry; when it is not cached, throw entries out of the coldest node, unchanged ones
//!    first, and read the map page of the wanted one;
//! 3. only changed ones left there: read their map page, put all of them into it, write it;
//! 4. a page written in part: read the rest of it;
//! 5. program it, mark the old page invalid, change the cached entry.
//!
//! When flash has no room for what must leave RAM, a write waits until a block is collected, and a
//! read uses the entry and forgets it: the RAM is never exceeded.
//!
//! The collector changes cached entries of moved pages in RAM; for the others it reads and writes
//! each map page concerned once per collected block.
//!
//! # Equation
//! Uniform accesses to U pages with C cached entries hit with C / U. A request of n pages misses
//! once per map page. `RAM = 6 C + 8 nodes + M x bits(pages)`.
//!
//! # Parameters
//! `cache`: RAM for entries of 6 bytes and nodes of 8. `request_prefetch`, `selective_prefetch`:
//! the two ways of loading ahead.
//!
//! # What it leaves out
//! A request that misses an entry which another request is just loading does not wait for it. After
//! a power failure all spare areas are read; map pages that are out of date count as rewritten in
//! the time of the rebuild, not in the wear. Behind a write buffer, which gives it page by
//! page, nothing is loaded ahead for the rest of a written request.
//!
//! # Validated against
//! The equation above within 3 %, exact costs of short sequences; the NAND oracle.
//!
//! # References
//! Zhou, Wu, Huang, He, Xie, Zhou, EuroSys 2015. The threshold of 3 nodes is from there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, snapshot_fields};

use super::demand::CacheSize;
use super::demand::entries::Entries;
use super::demand::heap::Heap;
use super::demand::scheme::{Cache, Demand, Io, store};
use super::{Built, Context, HostPage};
use crate::ssd::geometry::Divisor;

/// Bytes of a cached entry: offset in the map page and PPN.
const ENTRY_BYTES: u64 = 6;
/// Bytes of a node: its map page and its lists.
const NODE_BYTES: u64 = 8;
/// That many nodes less (more) and the workload looks sequential (random).
const THRESHOLD: i64 = 3;

/// Parameters of TPFTL.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// RAM for cached entries, 6 bytes each and 8 for each map page concerned: `"64KiB"`, or
    /// `"10%"` of a complete page map's.
    pub cache: CacheSize,
    /// A miss loads the entries of the rest of the request too.
    pub request_prefetch: bool,
    /// A miss in a sequential phase loads as many entries as are cached right before it.
    pub selective_prefetch: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params { cache: CacheSize::default(), request_prefetch: true, selective_prefetch: true }
    }
}

impl Params {
    /// Build the mapping.
    ///
    /// # Errors
    /// Names the value that cannot be used: a cache without room for a node with two entries, a
    /// drive without room for the map pages.
    pub fn build(&self, context: &Context) -> Built {
        let least = NODE_BYTES + 2 * ENTRY_BYTES;
        let what = "a node of 8 bytes with two entries of 6";
        let bytes = self.cache.bytes(context, least, what)?;
        let store = store(context)?;
        let cache = Nodes {
            entries: Entries::new(&store, store.pages()),
            page_entries: Divisor::new(store.entries()),
            coldest: Heap::new(store.pages()),
            nodes: vec![Node::default(); store.pages() as usize],
            used: Vec::new(),
            clock: 0,
            trend: 0,
            sequential: false,
            bytes,
            params: self.clone(),
            wanted: 1,
        };
        Ok(Box::new(Demand::new(cache, store, context)))
    }
}

/// The cached entries of a map page.
#[derive(Clone, Copy, Default, Debug)]
struct Node {
    entries: u32,
    /// Sum of the times of their last use.
    used: u64,
}

snapshot_fields!(Node { entries, used });

/// The cache.
#[derive(Clone)]
struct Nodes {
    /// The unchanged entries of each map page are in its list of `order`.
    entries: Entries,
    page_entries: Divisor,
    /// Nodes by mean time of last use.
    coldest: Heap,
    nodes: Vec<Node>,
    /// Time of last use of each slot.
    used: Vec<u64>,
    /// Accesses so far.
    clock: u64,
    /// Nodes that came less those that went, since `sequential` was last decided.
    trend: i64,
    sequential: bool,
    bytes: u64,
    params: Params,
    /// Scratch: entries that the next load is to take.
    wanted: u32,
}

snapshot_fields!(Nodes { entries, coldest, nodes, used, clock, trend, sequential });

impl Nodes {
    /// RAM with so many more entries of a map page.
    fn bytes_with(&self, page: u32, more: u32) -> u64 {
        let new_node = more > 0 && self.nodes[page as usize].entries == 0;
        let nodes = u64::from(self.coldest.len()) + u64::from(new_node);
        u64::from(self.entries.len() + more) * ENTRY_BYTES + nodes * NODE_BYTES
    }

    /// Put a node where its entries' last uses belong.
    #[inline]
    fn reorder(&mut self, page: u32) {
        let Node { entries, used } = self.nodes[page as usize];
        self.coldest.set(page, used / u64::from(entries));
    }

    /// A node came or went.
    fn count_node(&mut self, change: i64) {
        self.trend += change;
        if self.trend.abs() >= THRESHOLD {
            self.sequential = self.trend < 0;
            self.trend = 0;
        }
    }

    #[inline]
    fn touch(&mut self, slot: u32, page: u32) {
        if self.entries.is_dirty(slot) {
            self.entries.touch_dirty(slot, page)
        } else {
            self.entries.order.touch(page, slot)
        }
        let before = std::mem::replace(&mut self.used[slot as usize], self.clock);
        self.nodes[page as usize].used += self.clock - before;
        self.reorder(page);
    }

    fn insert(&mut self, position: u32, page: u32, io: &mut Io) {
        let slot = self.entries.load(position, page, io.store);
        if !self.entries.is_dirty(slot) {
            self.entries.order.push(page, slot);
        }
        self.used.resize(self.used.len().max(slot as usize + 1), 0);
        self.used[slot as usize] = self.clock;
        let node = &mut self.nodes[page as usize];
        (node.entries, node.used) = (node.entries + 1, node.used + self.clock);
        if node.entries == 1 {
            self.count_node(1);
        }
        self.reorder(page);
    }

    /// Throw an entry of the coldest node out; false when flash has no room for what changed.
    fn evict(&mut self, io: &mut Io) -> bool {
        let Some(page) = self.coldest.least() else { return false };
        if self.entries.order.len(page) == 0 {
            if !io.has_room(page) {
                return false;
            }
            io.read(page);
            while let Some(slot) = self.entries.write_back_oldest(page, io.store) {
                self.entries.order.push(page, slot);
            }
            io.write(page);
        }
        let slot = self.entries.order.tail(page).expect("every entry is changed or not");
        self.entries.order.remove(page, slot);
        self.entries.remove(slot);
        let node = &mut self.nodes[page as usize];
        node.entries -= 1;
        node.used -= self.used[slot as usize];
        if node.entries > 0 {
            self.reorder(page);
        } else {
            self.coldest.remove(page);
            self.count_node(-1);
        }
        true
    }

    /// Entries to load from `page.lpn` on, in its map page.
    fn wanted(&mut self, page: HostPage, map_page: u32, io: &Io) -> u32 {
        let positions = io.store.positions(map_page);
        let mut wanted = 1;
        if self.params.request_prefetch {
            wanted = page.of - page.index;
        }
        if self.params.selective_prefetch && self.sequential {
            let before = (positions.start..page.lpn).rev();
            let cached = before.take_while(|&lpn| self.entries.find(lpn).is_some());
            wanted = wanted.max(1 + cached.count() as u32);
        }
        // What is free, and what emptying the coldest node frees.
        let coldest = self.coldest.least().map_or(0, |node| {
            NODE_BYTES + u64::from(self.nodes[node as usize].entries) * ENTRY_BYTES
        });
        let used = self.bytes_with(map_page, 1) - ENTRY_BYTES;
        let room = (self.bytes + coldest).saturating_sub(used) / ENTRY_BYTES;
        let end = positions.end.min(io.store.first_id());
        wanted.min(end - page.lpn).min(room.max(1) as u32)
    }
}

impl Cache for Nodes {
    fn make_room(&mut self, page: HostPage, io: &mut Io) -> bool {
        if self.entries.find(page.lpn).is_some() {
            return true;
        }
        let map_page = self.page_entries.div(page.lpn);
        self.wanted = self.wanted(page, map_page, io);
        let wanted = page.lpn..page.lpn + self.wanted;
        let count = wanted.filter(|&lpn| self.entries.find(lpn).is_none()).count();
        while self.bytes_with(map_page, count as u32) > self.bytes && self.evict(io) {}
        self.bytes_with(map_page, 1) <= self.bytes
    }

    fn load(&mut self, page: HostPage, io: &mut Io) -> bool {
        self.clock += 1;
        let map_page = self.page_entries.div(page.lpn);
        if let Some(slot) = self.entries.find(page.lpn) {
            self.touch(slot, map_page);
            return true;
        }
        io.read(map_page);
        self.insert(page.lpn, map_page, io);
        for lpn in page.lpn + 1..page.lpn + self.wanted {
            let fits = self.bytes_with(map_page, 1) <= self.bytes;
            if fits && self.entries.find(lpn).is_none() {
                self.insert(lpn, map_page, io);
            }
        }
        false
    }

    #[inline]
    fn get(&mut self, lpn: u32) -> Option<u32> {
        self.entries.get(lpn)
    }

    fn set(&mut self, lpn: u32, ppn: u32) -> u32 {
        let page = self.page_entries.div(lpn);
        let slot = self.entries.find(lpn).expect("the entry is in RAM");
        if !self.entries.is_dirty(slot) {
            self.entries.order.remove(page, slot);
        }
        self.entries.set(slot, page, ppn)
    }

    fn ram(&self) -> Bytes {
        let nodes = u64::from(self.coldest.len()) * NODE_BYTES;
        Bytes(u64::from(self.entries.len()) * ENTRY_BYTES + nodes)
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.coldest.clear();
        self.nodes.fill(Node::default());
        (self.trend, self.sequential) = (0, false);
    }

    fn freeze(&mut self) {
        self.entries.freeze();
    }
}

//! One flash package ("element") of the DiskSim SSD extension: its page map, its cleaning and its
//! rounds of service.
//!
//! Blocks are numbered across the planes (block b lies in plane b mod planes). The last page of
//! each block holds a summary and no data.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{CowVec, Loader, Saver, Snapshot, SnapshotError, snapshot_fields};

/// Where a write may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AllocationPool {
    /// To the plane of the package with the most free pages.
    #[default]
    Element,
    /// To the plane that held the page before.
    Plane,
}

/// Shape and rules of an element, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Planes.
    pub planes: u32,
    /// Blocks in a plane.
    pub blocks_per_plane: u32,
    /// Pages in a block, the summary page included.
    pub pages_per_block: u32,
    /// Groups of planes that work at the same time.
    pub units: u32,
    /// Blocks of a plane that hold no data at the start.
    pub reserved: u32,
    /// Clean a plane when this many of its blocks, or fewer, are free.
    pub low: u32,
    /// Where a write may go.
    pub pool: AllocationPool,
}

impl Shape {
    /// Logical pages of an element.
    pub fn logical_pages(&self) -> u32 {
        self.planes * (self.blocks_per_plane - self.reserved) * self.data_pages()
    }

    fn data_pages(&self) -> u32 {
        self.pages_per_block - 1
    }

    fn unit_of(&self, plane: u32) -> u32 {
        plane / (self.planes / self.units)
    }
}

/// Times, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// Cell array to page register.
    pub read: u64,
    /// Page register to cell array.
    pub program: u64,
    /// Erasing a block.
    pub erase: u64,
    /// Moving a page over the package's pins.
    pub page: u64,
    /// Moving a summary (one sector) over the package's pins.
    pub summary: u64,
}

/// Pages of one host request that wait for or are in service.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Part {
    /// The request's slot.
    pub slot: u32,
    /// Logical page inside the element.
    pub lpn: u32,
    /// Read or write.
    pub read: bool,
}

snapshot_fields!(Part { slot, lpn, read });

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Plane {
    /// Next physical page to write; a block's last page means that the block is full.
    active: u32,
    free_blocks: u32,
    /// Where the search for a free block starts, counted inside the plane.
    search: u32,
    /// Valid pages.
    live: u32,
}

snapshot_fields!(Plane { active, free_blocks, search, live });

const FREE: u8 = 0;
const OPEN: u8 = 1;
const SEALED: u8 = 2;

/// Page table entry of a physical page without valid data.
const NOBODY: u32 = u32::MAX;

/// Most parts served together when the element has several parallel units.
const BATCH: usize = 100;

/// What an element counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Pages read for the host.
    pub reads: u64,
    /// Pages written for the host.
    pub writes: u64,
    /// Summary pages written.
    pub summaries: u64,
    /// Valid pages moved by cleaning.
    pub moved: u64,
    /// Blocks cleaned.
    pub cleaned: u64,
    /// Time spent cleaning, in nanoseconds.
    pub clean_ns: u64,
    /// Time spent serving, in nanoseconds.
    pub serve_ns: u64,
}

snapshot_fields!(Counts { reads, writes, summaries, moved, cleaned, clean_ns, serve_ns });

/// A package.
#[derive(Clone)]
pub struct Element {
    shape: Shape,
    times: Times,
    /// Logical to physical page.
    map: CowVec<u32>,
    /// Physical to logical page.
    owner: CowVec<u32>,
    valid: Vec<u32>,
    state: Vec<u8>,
    /// When a block was opened, as a number that only grows; 0 for free blocks.
    opened: Vec<u64>,
    last_opened: u64,
    planes: Vec<Plane>,
    next_write_plane: u32,
    /// Per parallel unit: the plane whose turn to be cleaned it is.
    next_clean_plane: Vec<u32>,
    /// Parts that wait.
    pub queue: VecDeque<Part>,
    /// Parts in service.
    pub in_service: u32,
    /// Serving or cleaning.
    pub busy: bool,
    /// What was counted.
    pub counts: Counts,
}

impl Snapshot for Element {
    fn save(&self, to: &mut Saver) {
        self.map.save(to);
        self.owner.save(to);
        self.valid.save(to);
        self.state.save(to);
        self.opened.save(to);
        self.last_opened.save(to);
        self.planes.save(to);
        self.next_write_plane.save(to);
        self.next_clean_plane.save(to);
        self.queue.save(to);
        self.in_service.save(to);
        self.busy.save(to);
        self.counts.save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.map.restore(from)?;
        self.owner.restore(from)?;
        self.valid.restore(from)?;
        self.state.restore(from)?;
        self.opened.restore(from)?;
        self.last_opened.restore(from)?;
        self.planes.restore(from)?;
        self.next_write_plane.restore(from)?;
        self.next_clean_plane.restore(from)?;
        self.queue.restore(from)?;
        self.in_service.restore(from)?;
        self.busy.restore(from)?;
        self.counts.restore(from)
    }
}

impl Element {
    /// An element whose logical pages are all mapped, in order, and whose planes have just opened
    /// their first reserved block.
    pub fn new(shape: Shape, times: Times) -> Element {
        let blocks = (shape.planes * shape.blocks_per_plane) as usize;
        let (pages, data) = (shape.pages_per_block as usize, shape.data_pages() as usize);
        let used = blocks - (shape.planes * shape.reserved) as usize;
        let mut map = CowVec::new(shape.logical_pages() as usize, 0);
        map.fill_with(0, used * data, |lpn| (lpn / data * pages + lpn % data) as u32);
        let mut owner = CowVec::new(blocks * pages, NOBODY);
        owner.fill_with(0, used * pages, |page| match page % pages {
            offset if offset < data => (page / pages * data + offset) as u32,
            _ => NOBODY,
        });
        let mut element = Element {
            shape,
            times,
            map,
            owner,
            valid: (0..blocks).map(|b| if b < used { shape.data_pages() } else { 0 }).collect(),
            // The original seals a mapped block on its way to the next one, so the last it never
            // seals, and never cleans: the element has lost it.
            state: (0..blocks)
                .map(|b| match b + 1 {
                    next if next < used => SEALED,
                    next if next == used => OPEN,
                    _ => FREE,
                })
                .collect(),
            opened: (0..blocks).map(|b| if b < used { b as u64 + 1 } else { 0 }).collect(),
            last_opened: used as u64,
            planes: vec![
                Plane {
                    active: 0,
                    free_blocks: shape.reserved,
                    search: 0,
                    live: shape.logical_pages() / shape.planes,
                };
                shape.planes as usize
            ],
            next_write_plane: 0,
            next_clean_plane: (0..shape.units).map(|u| u * shape.planes / shape.units).collect(),
            queue: VecDeque::new(),
            in_service: 0,
            busy: false,
            counts: Counts::default(),
        };
        for plane in 0..shape.planes {
            element.open_block(plane);
            element.planes[plane as usize].search = 0;
        }
        element
    }

    fn block_of(&self, page: u32) -> usize {
        (page / self.shape.pages_per_block) as usize
    }

    fn plane_of(&self, page: u32) -> u32 {
        page / self.shape.pages_per_block % self.shape.planes
    }

    fn is_full(&self, plane: u32) -> bool {
        self.planes[plane as usize].active % self.shape.pages_per_block == self.shape.data_pages()
    }

    /// Open the next free block of a plane in cyclic order. There always is one: see
    /// [`Element::program`].
    fn open_block(&mut self, plane: u32) {
        let Shape { planes, blocks_per_plane, pages_per_block, .. } = self.shape;
        let from = self.planes[plane as usize].search;
        let mut order = (from..blocks_per_plane).chain(0..from);
        let index = order.find(|i| self.state[(i * planes + plane) as usize] == FREE);
        let index = index.expect("the last free block is only opened to clean into it");
        let block = index * planes + plane;
        self.last_opened += 1;
        self.state[block as usize] = OPEN;
        self.opened[block as usize] = self.last_opened;
        let state = &mut self.planes[plane as usize];
        state.search = (index + 1) % blocks_per_plane;
        state.free_blocks -= 1;
        state.active = block * pages_per_block;
    }

    /// Write a logical page to a plane's open block; returns the time in the cell array, and of the
    /// summary if that block is now full.
    fn write_page(&mut self, plane: u32, lpn: u32) -> u64 {
        let page = self.planes[plane as usize].active;
        let block = self.block_of(page);
        let old = self.map.get(lpn as usize);
        let old_block = self.block_of(old);
        self.owner.set(old as usize, NOBODY);
        self.valid[old_block] -= 1;
        let old_plane = self.plane_of(old) as usize;
        self.planes[old_plane].live -= 1;
        self.planes[plane as usize].live += 1;
        self.map.set(lpn as usize, page);
        self.owner.set(page as usize, lpn);
        self.valid[block] += 1;
        self.planes[plane as usize].active += 1;
        if !self.is_full(plane) {
            return self.times.program;
        }
        self.state[block] = SEALED;
        self.counts.summaries += 1;
        2 * self.times.program + self.times.summary
    }

    /// Clean one block in each parallel unit that needs it; returns how long that takes, 0 when
    /// nothing is to be done.
    pub fn clean(&mut self) -> u64 {
        let mut longest = 0;
        for unit in 0..self.shape.units {
            let size = self.shape.planes / self.shape.units;
            let first = self.next_clean_plane[unit as usize];
            let turn = |i: u32| unit * size + (first + i) % size;
            let needy = |&plane: &u32| self.planes[plane as usize].free_blocks <= self.shape.low;
            let Some(plane) = (0..size).map(turn).find(needy) else { continue };
            self.next_clean_plane[unit as usize] = unit * size + (plane + 1) % size;
            longest = longest.max(self.clean_plane(plane));
        }
        self.counts.clean_ns += longest;
        longest
    }

    /// Clean the block of a plane with the fewest valid pages; returns how long that takes, 0 when
    /// every block is full of valid pages.
    fn clean_plane(&mut self, plane: u32) -> u64 {
        let Shape { planes, blocks_per_plane, pages_per_block, .. } = self.shape;
        let blocks = (0..blocks_per_plane).map(|i| i * planes + plane);
        let sealed = blocks.filter(|&b| self.state[b as usize] == SEALED);
        // Of equals the last one is taken.
        let victim = sealed.rev().min_by_key(|&b| self.valid[b as usize]);
        let Some(victim) = victim else { return 0 };
        if self.valid[victim as usize] == self.shape.data_pages() {
            return 0;
        }
        let mut cost = 0;
        for page in victim * pages_per_block..(victim + 1) * pages_per_block {
            let lpn = self.owner.get(page as usize);
            if lpn == NOBODY {
                continue;
            }
            if self.is_full(plane) {
                self.open_block(plane);
            }
            cost += self.times.read + self.write_page(plane, lpn);
            self.counts.moved += 1;
        }
        self.state[victim as usize] = FREE;
        self.opened[victim as usize] = 0;
        self.planes[plane as usize].free_blocks += 1;
        self.counts.cleaned += 1;
        cost + self.times.erase
    }

    /// Take the parts that are served together from the queue: reads, then writes. Parts that
    /// repeat another one are in the third list: they are done at once.
    pub fn take_batch(&mut self) -> [Vec<Part>; 3] {
        let most = if self.shape.units == 1 { 1 } else { BATCH };
        let [mut reads, mut writes, mut repeated] = [const { Vec::new() }; 3];
        while reads.len() < most && writes.len() < most {
            let Some(part) = self.queue.pop_front() else { break };
            let list = if part.read { &mut reads } else { &mut writes };
            let known = list.iter().any(|p: &Part| p.lpn == part.lpn);
            if known { repeated.push(part) } else { list.push(part) }
        }
        [reads, writes, repeated]
    }

    /// Serve parts of one kind in rounds of one per parallel unit: a round begins when the one
    /// before has ended. Reports each part with the time of its end; returns that of the last.
    pub fn serve(&mut self, parts: &[Part], mut ended: impl FnMut(Part, u64)) -> u64 {
        let mut waiting = self.assign(parts);
        let mut round_start = 0;
        while waiting.iter().any(|unit| !unit.is_empty()) {
            let (mut position, mut round_end) = (0, round_start);
            for unit in &mut waiting {
                let Some((part, plane)) = unit.pop_front() else { continue };
                position += 1;
                let array = if part.read { self.times.read } else { self.program(plane, part.lpn) };
                let end = round_start + position * self.times.page + array;
                round_end = round_end.max(end);
                ended(part, end);
            }
            round_start = round_end;
        }
        let (reads, writes) = match parts.first() {
            Some(part) if part.read => (parts.len(), 0),
            _ => (0, parts.len()),
        };
        self.counts.reads += reads as u64;
        self.counts.writes += writes as u64;
        self.counts.serve_ns += round_start;
        round_start
    }

    /// Write a page for the host. When that takes the last free block of the plane, a block is
    /// cleaned into it at once; some block has a page to gain, because no plane holds more valid
    /// pages than fill all but two of its blocks, the lost one not counted. The original has no
    /// such rule: it exits when a plane has no free block.
    fn program(&mut self, plane: u32, lpn: u32) -> u64 {
        let mut cost = 0;
        if self.is_full(plane) {
            self.open_block(plane);
            if self.planes[plane as usize].free_blocks == 0 {
                cost = self.clean_plane(plane);
            }
        }
        cost + self.write_page(plane, lpn)
    }

    /// Per parallel unit: parts with their planes.
    fn assign(&mut self, parts: &[Part]) -> Vec<VecDeque<(Part, u32)>> {
        let mut units = vec![VecDeque::new(); self.shape.units as usize];
        let mut chosen = vec![0u32; self.shape.planes as usize];
        for &part in parts {
            let before = self.map.get(part.lpn as usize);
            let plane = match (part.read, self.shape.pool) {
                (true, _) => self.plane_of(before),
                (false, AllocationPool::Plane) => self.plane_of(before),
                (false, AllocationPool::Element) => self.most_free(before, &chosen),
            };
            if !part.read {
                self.next_write_plane = (plane + 1) % self.shape.planes;
                chosen[plane as usize] += 1;
            }
            units[self.shape.unit_of(plane) as usize].push_back((part, plane));
        }
        units
    }

    /// The plane with the most free pages, from the one whose turn it is on; only planes whose open
    /// block is younger than the page's old copy count, so that the youngest copy can be told, and
    /// that have room for another valid page. The plane of the old copy always has.
    fn most_free(&self, before: u32, chosen: &[u32]) -> u32 {
        let old = (self.opened[self.block_of(before)], before);
        let size = i64::from(self.shape.pages_per_block);
        let mut best = None;
        for i in 0..self.shape.planes {
            let plane = (self.next_write_plane + i) % self.shape.planes;
            let Plane { active, free_blocks, live, .. } = self.planes[plane as usize];
            let is_younger = (self.opened[self.block_of(active)], active) > old;
            let lost = u32::from(plane + 1 == self.shape.planes);
            let most_live = (self.shape.blocks_per_plane - lost - 2) * self.shape.data_pages();
            if !is_younger || live + chosen[plane as usize] >= most_live {
                continue;
            }
            let open = size - i64::from(active) % size - i64::from(chosen[plane as usize]);
            let free = i64::from(free_blocks) * size + open;
            if best.is_none_or(|(most, _)| free > most) {
                best = Some((free, plane));
            }
        }
        best.map_or(self.plane_of(before), |(_, plane)| plane)
    }

    /// Share the tables with later clones.
    pub fn freeze(&mut self) {
        self.map.freeze();
        self.owner.freeze();
    }
}

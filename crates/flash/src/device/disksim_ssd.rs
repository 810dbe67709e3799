//! The SSD of DiskSim's SSD extension: a yardstick, rule for rule, not a model of a modern drive.
//!
//! # What it models
//! Packages ("elements") behind one host channel. Page `p` lives in package `p mod n`, is written
//! to the youngest block of a plane and moved by greedy cleaning. A package serves one page at a
//! time, or, with several parallel units, all that waits, in rounds of one page per unit that end
//! together. Cleaning one block per low plane comes before the next service. Every logical page is
//! mapped from the start. The last block mapped in a package is never sealed and so never cleaned.
//!
//! # Equation
//! With X the time of a page on the pins (528 bytes per sector), the k-th page of a round ends
//! k X + tR, or k X + tPROG, after its start. The last page of each block is a summary: whoever
//! fills a block waits another tPROG + X / sectors. Cleaning m valid pages costs
//! m (tR + tPROG) + tBERS.
//!
//! # Parameters
//! `packages`, `planes_per_package`, `blocks_per_plane`, `pages_per_block`, `page`,
//! `parallel_units`, `pool`, `reserve_percent`, `clean_free_percent`, `read`, `program`, `erase`,
//! `pins`, `host`, `queue_depth_max`.
//!
//! # What it leaves out
//! Of the original: gangs, background cleaning, wear-aware cleaning and end of life, cleaning
//! without copy-back, block layouts other than fully striped planes. Requests are rounded out to
//! whole pages, where the original stops with an error; a plane about to run out of free blocks is
//! cleaned within a write, where the original exits. Discards have no effect.
//!
//! # Validated against
//! The original's printed results (`docs/measured/golden-disksim.md`).
//!
//! # References
//! Agrawal, Prabhakaran, Wobber, Davis, Manasse and Panigrahy, USENIX ATC 2008, and its extension
//! of DiskSim 4.0 (Bucy, Schindler, Schlosser and Ganger, 2008).

use std::collections::VecDeque;

use config::device::Context;
use config::{ConfigError, Duration, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::metric::Counted;
use sim::{
    Busy, Bytes, Completions, Counters, Device, EventHeap, Limits, Loader, Nanos, Op, Request,
    RequestId, SECTOR_BYTES, Saver, Snapshot, SnapshotError, Survivors, Unit, snapshot_fields,
};

use crate::disksim::element::{AllocationPool, Element, Part, Shape, Times};
use crate::ssd::counted::{FLASH, part};

/// The text of this file: its comment is the page of the model.
pub const SOURCE: &str = include_str!("disksim_ssd.rs");

/// The cause that only this drive has.
static SUMMARIES: Counted = Counted {
    counters: &[],
    metrics: &[part(
        "waf_summary",
        "flash_bytes_programmed.summary",
        "the part of `waf` caused by the summary pages of DiskSim's model",
    )],
};

/// Parameters of the DiskSim SSD.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Flash packages, 1 to 64.
    pub packages: u32,
    /// Planes in a package.
    pub planes_per_package: u32,
    /// Blocks in a plane.
    pub blocks_per_plane: u32,
    /// Pages in a block, its summary page included.
    pub pages_per_block: u32,
    /// Data bytes in a page.
    pub page: Size,
    /// Groups of planes of a package that work at the same time; divides the planes.
    pub parallel_units: u32,
    /// Where a write may go.
    pub pool: AllocationPool,
    /// Share of a plane's blocks that the host does not see, in percent.
    pub reserve_percent: u32,
    /// Clean a plane when this share of its blocks, or less, is free, in percent.
    pub clean_free_percent: u32,
    /// tR.
    pub read: Duration,
    /// tPROG.
    pub program: Duration,
    /// tBERS.
    pub erase: Duration,
    /// Rate of a package's pins.
    pub pins: Rate,
    /// Rate of the host channel; absent: data takes no time on it.
    pub host: Option<Rate>,
    /// Requests accepted at once.
    pub queue_depth_max: u32,
}

impl Default for Params {
    /// The geometry of Ha, Cho and Eom (2010) with the extension's reserves.
    fn default() -> Params {
        Params {
            packages: 4,
            planes_per_package: 4,
            blocks_per_plane: 2048,
            pages_per_block: 64,
            page: Size(Bytes::from_kib(2)),
            parallel_units: 1,
            pool: AllocationPool::Element,
            reserve_percent: 15,
            clean_free_percent: 5,
            read: Duration(Nanos::from_micros(25)),
            program: Duration(Nanos::from_micros(200)),
            erase: Duration(Nanos::from_millis(2)),
            pins: Rate(40_000_000),
            host: None,
            queue_depth_max: 20,
        }
    }
}

/// Data and spare bytes of a sector on the pins.
const SECTOR_ON_PINS: u64 = SECTOR_BYTES + 16;

fn nanos(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64
}

impl Params {
    /// What a drive counts, summary pages besides.
    pub const COUNTED: sim::metric::Declarations = &[&FLASH, &SUMMARIES];

    /// Build the device.
    ///
    /// # Errors
    /// Names the first value that cannot be used and its range.
    pub fn build(&self, _context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        let shape = self.shape()?;
        let sectors = self.page.0.sectors();
        if self.page.0.0 == 0 || self.page.0.0 != sectors * SECTOR_BYTES || sectors > 1024 {
            let message = format!("expected a multiple of 512B up to 512KiB, got {}", self.page);
            return Err(ConfigError::new("page", message));
        }
        for (key, rate) in [("pins", Some(self.pins)), ("host", self.host)] {
            if rate == Some(Rate(0)) {
                return Err(ConfigError::new(key, "expected a rate above 0, got 0B/s"));
            }
        }
        let times = Times {
            read: self.read.0.0,
            program: self.program.0.0,
            erase: self.erase.0.0,
            page: nanos(sectors * SECTOR_ON_PINS, self.pins.0),
            summary: nanos(SECTOR_ON_PINS, self.pins.0),
        };
        let pages = u64::from(shape.logical_pages()) * u64::from(self.packages);
        let limits = Limits {
            capacity: Bytes(pages * self.page.0.0),
            block_bytes: self.page.0.0 as u32,
            queue_depth_max: self.queue_depth_max,
            rotational: false,
            write_cache: false,
            discard: false,
        };
        Ok(Box::new(DisksimSsd {
            limits,
            host: self.host,
            elements: vec![Element::new(shape, times); self.packages as usize],
            requests: Vec::new(),
            free: Vec::new(),
            inside: 0,
            bytes_written: 0,
            arrived: VecDeque::new(),
            finished: VecDeque::new(),
            channel: NONE,
            events: EventHeap::new(),
        }))
    }

    fn shape(&self) -> Result<Shape, ConfigError> {
        let ranges = [
            ("packages", self.packages, 1, 64),
            ("planes_per_package", self.planes_per_package, 1, 16),
            ("blocks_per_plane", self.blocks_per_plane, 8, 1 << 16),
            ("pages_per_block", self.pages_per_block, 2, 1 << 10),
            ("reserve_percent", self.reserve_percent, 1, 50),
            ("clean_free_percent", self.clean_free_percent, 0, 49),
            ("queue_depth_max", self.queue_depth_max, 1, 1 << 20),
            ("parallel_units", self.parallel_units, 1, self.planes_per_package),
        ];
        for (key, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                let message = format!("expected {least} to {most}, got {value}");
                return Err(ConfigError::new(key, message));
            }
        }
        if !self.planes_per_package.is_multiple_of(self.parallel_units) {
            let message = format!(
                "expected a divisor of {} planes, got {}",
                self.planes_per_package, self.parallel_units
            );
            return Err(ConfigError::new("parallel_units", message));
        }
        let share = |percent: u32| self.blocks_per_plane * percent / 100;
        let (reserved, low) = (share(self.reserve_percent), share(self.clean_free_percent));
        if reserved < low + 3 {
            let message = format!(
                "{reserved} of {} blocks are too few: cleaning keeps {low} free and needs 3 more",
                self.blocks_per_plane
            );
            return Err(ConfigError::new("reserve_percent", message));
        }
        Ok(Shape {
            planes: self.planes_per_package,
            blocks_per_plane: self.blocks_per_plane,
            pages_per_block: self.pages_per_block,
            units: self.parallel_units,
            reserved,
            low,
            pool: self.pool,
        })
    }
}

/// Event payloads: two bits say what, then the package (6 bits), then the request's slot.
const TRANSFERRED: u32 = 0;
const SERVED: u32 = 1 << 30;
const CLEANED: u32 = 2 << 30;
const EMPTY: u32 = 3 << 30;
const ELEMENT_SHIFT: u32 = 24;
const SLOT: u32 = (1 << ELEMENT_SHIFT) - 1;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Default, Debug)]
struct Pending {
    id: u64,
    /// First page, pages, and pages not yet served.
    first: u64,
    pages: u32,
    left: u32,
    sectors: u32,
    read: bool,
}

snapshot_fields!(Pending { id, first, pages, left, sectors, read });

#[derive(Clone)]
struct DisksimSsd {
    limits: Limits,
    host: Option<Rate>,
    elements: Vec<Element>,
    requests: Vec<Pending>,
    free: Vec<u32>,
    inside: u32,
    /// Bytes the host asked to write.
    bytes_written: u64,
    /// Requests that wait for the channel, and served ones that wait for it.
    arrived: VecDeque<u32>,
    finished: VecDeque<u32>,
    /// The request that holds the host channel.
    channel: u32,
    events: EventHeap,
}

impl Snapshot for DisksimSsd {
    fn save(&self, to: &mut Saver) {
        self.elements.iter().for_each(|element| element.save(to));
        self.requests.save(to);
        self.free.save(to);
        self.inside.save(to);
        self.bytes_written.save(to);
        self.arrived.save(to);
        self.finished.save(to);
        self.channel.save(to);
        self.events.save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.elements.iter_mut().try_for_each(|element| element.restore(from))?;
        self.requests.restore(from)?;
        self.free.restore(from)?;
        self.inside.restore(from)?;
        self.bytes_written.restore(from)?;
        self.arrived.restore(from)?;
        self.finished.restore(from)?;
        self.channel.restore(from)?;
        self.events.restore(from)
    }
}

impl DisksimSsd {
    /// Give the free channel to whoever is next: served requests first.
    fn next_on_channel(&mut self, now: Nanos) {
        while self.channel == NONE {
            let slot = match self.finished.pop_front() {
                Some(slot) => slot,
                None => {
                    let Some(slot) = self.arrived.pop_front() else { return };
                    if self.requests[slot as usize].read {
                        // A read's command takes no time on the channel.
                        self.access(slot, now);
                        continue;
                    }
                    slot
                }
            };
            let Pending { read, left, sectors, .. } = self.requests[slot as usize];
            // The data of a read goes out last, that of a write comes in first.
            let moves = read == (left == 0);
            let bytes = if moves { u64::from(sectors) * SECTOR_BYTES } else { 0 };
            let time = self.host.map_or(0, |rate| nanos(bytes, rate.0));
            self.channel = slot;
            self.events.push(now + Nanos(time), TRANSFERRED | slot);
        }
    }

    /// Queue a request's pages at their packages; each package may start at once.
    fn access(&mut self, slot: u32, now: Nanos) {
        let Pending { first, pages, read, .. } = self.requests[slot as usize];
        let count = self.elements.len() as u64;
        for page in first..first + u64::from(pages) {
            let element = (page % count) as usize;
            let part = Part { slot, lpn: (page / count) as u32, read };
            self.elements[element].queue.push_back(part);
            self.activate(element, now);
        }
    }

    /// Let an idle package clean, or else serve what waits for it.
    fn activate(&mut self, index: usize, now: Nanos) {
        let element = &mut self.elements[index];
        if element.busy || element.queue.is_empty() {
            return;
        }
        let bits = (index as u32) << ELEMENT_SHIFT;
        element.busy = true;
        let cleaning = element.clean();
        if cleaning > 0 {
            self.events.push(now + Nanos(cleaning), CLEANED | bits);
            return;
        }
        let [reads, writes, repeated] = element.take_batch();
        element.in_service = (reads.len() + writes.len() + repeated.len()) as u32;
        for part in repeated {
            self.events.push(now, SERVED | bits | part.slot);
        }
        let mut start = now;
        for parts in [reads, writes] {
            let events = &mut self.events;
            let time = element.serve(&parts, |part, end| {
                events.push(start + Nanos(end), SERVED | bits | part.slot);
            });
            start += Nanos(time);
        }
    }

    fn served(&mut self, index: usize, slot: u32, now: Nanos) {
        let element = &mut self.elements[index];
        element.in_service -= 1;
        element.busy = element.in_service > 0;
        self.requests[slot as usize].left -= 1;
        if self.requests[slot as usize].left == 0 {
            self.finished.push_back(slot);
            self.next_on_channel(now);
        }
        self.activate(index, now);
    }

    fn transferred(&mut self, slot: u32, now: Nanos, out: &mut Completions) {
        self.channel = NONE;
        if self.requests[slot as usize].left == 0 {
            self.complete(slot, now, out);
        } else {
            self.access(slot, now);
        }
        self.next_on_channel(now);
    }

    fn complete(&mut self, slot: u32, now: Nanos, out: &mut Completions) {
        out.complete(RequestId(self.requests[slot as usize].id), now);
        self.free.push(slot);
        self.inside -= 1;
    }

    fn pages(&self, request: &Request) -> std::ops::Range<u64> {
        let sectors = u64::from(self.limits.block_bytes) / SECTOR_BYTES;
        request.lba.0 / sectors..request.end().0.div_ceil(sectors)
    }
}

impl Device for DisksimSsd {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.inside == self.limits.queue_depth_max {
            return Err(Busy);
        }
        self.inside += 1;
        let pages = self.pages(&request);
        let count = (pages.end - pages.start) as u32;
        let pending = Pending {
            id: request.id.0,
            first: pages.start,
            pages: count,
            left: count,
            sectors: request.sectors,
            read: request.op == Op::Read,
        };
        let slot = self.free.pop().unwrap_or(self.requests.len() as u32);
        match self.requests.get_mut(slot as usize) {
            Some(place) => *place = pending,
            None => self.requests.push(pending),
        }
        if request.op == Op::Write {
            self.bytes_written += u64::from(request.sectors) * SECTOR_BYTES;
        }
        match request.op {
            Op::Read | Op::Write => {
                self.arrived.push_back(slot);
                self.next_on_channel(now);
            }
            // Completed writes are on flash; nothing is ever unmapped.
            Op::Flush | Op::Discard => self.events.push(now, EMPTY | slot),
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.events.next_time()
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        while let Some((at, event)) = self.events.pop_due(now) {
            let index = (event >> ELEMENT_SHIFT & 63) as usize;
            let slot = event & SLOT;
            match event & (3 << 30) {
                TRANSFERRED => self.transferred(slot, at, out),
                SERVED => self.served(index, slot, at),
                CLEANED => {
                    self.elements[index].busy = false;
                    self.activate(index, at);
                }
                _ => self.complete(slot, at, out),
            }
        }
    }

    fn power_fail(&mut self, _now: Nanos) -> Survivors {
        for element in &mut self.elements {
            element.queue.clear();
            element.in_service = 0;
            element.busy = false;
        }
        self.requests.clear();
        self.free.clear();
        self.inside = 0;
        self.arrived.clear();
        self.finished.clear();
        self.channel = NONE;
        self.events = EventHeap::new();
        Survivors::default()
    }

    fn apply(&mut self, request: &Request) {
        if request.op != Op::Write {
            return;
        }
        self.bytes_written += u64::from(request.sectors) * SECTOR_BYTES;
        let count = self.elements.len() as u64;
        for page in self.pages(request) {
            let element = &mut self.elements[(page % count) as usize];
            while element.clean() > 0 {}
            let part = Part { slot: 0, lpn: (page / count) as u32, read: false };
            element.serve(&[part], |_, _| {});
        }
    }

    fn counters(&self, out: &mut Counters) {
        let sum = |count: fn(&Element) -> u64| self.elements.iter().map(count).sum::<u64>();
        let (reads, writes) = (sum(|e| e.counts.reads), sum(|e| e.counts.writes));
        let (moved, cleaned) = (sum(|e| e.counts.moved), sum(|e| e.counts.cleaned));
        out.add("host_reads", reads);
        out.add("host_writes", writes);
        out.add("host_bytes_written", self.bytes_written);
        out.add("flash_reads.host", reads);
        let summaries = sum(|e| e.counts.summaries);
        for (cause, pages) in [("host", writes), ("gc", moved), ("summary", summaries)] {
            let bytes = pages * u64::from(self.limits.block_bytes);
            out.add(format!("flash_programs.{cause}"), pages);
            out.add(format!("flash_bytes_programmed.{cause}"), bytes);
        }
        out.add("flash_erases.gc", cleaned);
        out.add("gc_pages_moved", moved);
        out.add("gc_blocks_collected", cleaned);
        for (index, element) in self.elements.iter().enumerate() {
            let busy = vec![
                ("host", Nanos(element.counts.serve_ns)),
                ("gc", Nanos(element.counts.clean_ns)),
            ];
            out.units.push(Unit::medium(format!("package{index}"), busy));
        }
    }

    fn freeze(&mut self) {
        self.elements.iter_mut().for_each(Element::freeze);
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

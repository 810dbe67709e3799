//! The disk: zones, an arm, rotation, a segmented read cache, a volatile write cache and NCQ.
//!
//! # What it models
//! One arm over spinning platters. A command costs controller overhead, a seek, the wait until
//! its first sector comes round, and the transfer with its track and cylinder skews. Reads go on
//! as read-ahead into a cache segment until it is full or the arm is wanted elsewhere; reads from
//! a segment, or from the stream that is filling it, cost no positioning. Writes are acknowledged
//! when the write cache has their data, and reach the medium when the arm has nothing to read; a
//! full cache, a flush and FUA make the host wait, and the arm then serves commands and cached
//! writes in turns, or whichever is nearest (`write_cache.turns`). Waiting commands are served by
//! shortest positioning time or in order. Discards complete without effect.
//!
//! # Equation
//! `T = 60 s / rpm`, `u` = sector times from the zone's start, skews counted:
//!
//! `service = overhead + seek(d) + settle + wait + transfer`
//!
//! `seek(d) = a + b sqrt(d)` for `d <= knee`, else `c + e d`; at least the head switch
//!
//! `angle(u) = origin + floor(u T / sectors_per_track) mod T`
//!
//! `wait = (angle - arrival) mod T`
//!
//! `transfer = floor(u_end T / spt) - floor(u_start T / spt)`
//!
//! `read completion = max(last sector off the medium + 1 sector, first sector + n sectors)`,
//! sectors of interface time behind each `+`.
//!
//! Times are whole nanoseconds; a float shapes the seek table once, before the run.
//!
//! # Parameters
//! `geometry` (`sectors`, `heads`, `zones` or `zone`), `rpm`, `seek` (`formula` or `points`),
//! `head_switch`, `write_settle`, `interface`, `overhead`, `queue_depth_max`, `scheduler`,
//! `cache`, `write_cache`.
//!
//! # What it leaves out
//! Media defects and remapping, thermal recalibration, rotation speed error, an ageing rule in
//! `sptf`, arbitration between a media transfer and cache hits on the interface, read-ahead
//! across a zone boundary, power states. A read of which the write cache holds only a part is
//! read from the platters as a whole, without writing that part first.
//!
//! # Validated against
//! Closed forms (mean seek, rotation, sustained rates per zone, random IOPS) and the measured
//! drives published with DiskSim: see `xtask score-disks` and docs/models/device-hdd.md.
//!
//! # References
//! Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994.
//! Bucy, Schindler, Schlosser, Ganger, "The DiskSim simulation environment version 4.0",
//! CMU-PDL-08-101, 2008. Jacobson and Wilkes, "Disk scheduling algorithms based on rotational
//! position", HPL-CSP-91-7, 1991.

mod reading;
mod writing;

use std::collections::VecDeque;
use std::sync::Arc;

use sim::metric::{Counted, Counter, Formula, Metric};
use sim::{
    Busy, Bytes, Completions, Counters, Device, EventHeap, Limits, Nanos, Op, Request, RequestId,
    SECTOR_BYTES, Span, Survivors, Unit, snapshot_fields,
};

use crate::cache::Segments;
use crate::divisor::Divisor;
use crate::geometry::SectorPosition;
use crate::mechanics::{Arm, Mechanics};
use crate::params::ArmTurns;
pub use crate::params::Params;
use config::ConfigError;
use config::device::Context;

use crate::queue::Queue;
use crate::writeback::WriteCache;

/// The text of this file: its comment is the page of the model.
pub const SOURCE: &str = include_str!("hdd.rs");

/// What a disk counts.
static DISK: Counted = Counted {
    counters: &[
        Counter::new("reads", "requests", "reads of a disk"),
        Counter::new("read_hits", "requests", "those of them that its buffer answered"),
        Counter::new("writes", "requests", "writes of a disk"),
        Counter::new("media_writes", "requests", "writes that reached the platters"),
    ],
    metrics: &[Metric {
        name: "disk_read_hit_ratio",
        unit: "share",
        meaning: "share of a disk's reads that its buffer answered",
        formula: Formula::Ratio("read_hits", &["reads"]),
    }],
};

impl Params {
    /// What a disk counts.
    pub const COUNTED: sim::metric::Declarations = &[&DISK];

    /// Build the device.
    ///
    /// # Errors
    /// Names the key whose value is out of range, the value and the range.
    pub fn build(&self, _context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        Ok(Box::new(Hdd::new(self)?))
    }
}

/// A command that waits for the arm.
#[derive(Clone, Copy, Default, Debug)]
struct Waiting {
    id: u64,
    lba: u64,
    sectors: u32,
    write: bool,
    ready: Nanos,
    place: SectorPosition,
}

snapshot_fields!(Waiting { id, lba, sectors, write, ready, place });

/// The run the head reads along, into `segment`, until `limit`.
#[derive(Clone, Copy, Default, Debug)]
struct Stream {
    active: bool,
    segment: usize,
    lba: u64,
    place: SectorPosition,
    start: Nanos,
    limit: u64,
}

snapshot_fields!(Stream { active, segment, lba, place, start, limit });

/// What the arm did for one command: set out, arrived on the track, began, ended.
#[derive(Clone, Copy, Default, Debug)]
struct Service {
    times: [Nanos; 4],
    destage: bool,
}

snapshot_fields!(Service { times, destage });

#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    reads: u64,
    read_hits: u64,
    writes: u64,
    media_writes: u64,
    seek_ns: u64,
    rotate_ns: u64,
    transfer_ns: u64,
}

snapshot_fields!(Counts {
    reads,
    read_hits,
    writes,
    media_writes,
    seek_ns,
    rotate_ns,
    transfer_ns
});

/// What does not change during a run.
struct Fixed {
    params: Params,
    mechanics: Mechanics,
    overhead: [u64; 8],
    interface: Divisor,
    read_ahead: u64,
    segment: u64,
}

#[derive(Clone)]
struct Hdd {
    fixed: Arc<Fixed>,
    arm: Arm,
    /// When it is there: it cannot turn on its way to where it reads ahead.
    arrives: Nanos,
    stream: Stream,
    segments: Segments,
    queue: Queue<Waiting>,
    writes: WriteCache,
    /// Writes that wait for room in the write cache.
    stalled: VecDeque<Waiting>,
    /// (id, number): flushes that wait until every cached write below that number is written.
    flushes: VecDeque<(u64, u64)>,
    completions: EventHeap,
    /// Id of the completion in each slot, and the slots that are free.
    ids: Vec<u64>,
    free: Vec<u32>,
    inside: u32,
    /// The arm works for a command until then; read-ahead does not count.
    busy_until: Nanos,
    interface_free: Nanos,
    last_was_write: bool,
    /// The host's commands had the arm last, while writes from the cache were urgent.
    host_had_turn: bool,
    /// Services begun since the last `advance`, for its spans.
    services: Vec<Service>,
    counts: Counts,
}

snapshot_fields!(Hdd {
    arm,
    arrives,
    stream,
    segments,
    queue,
    writes,
    stalled,
    flushes,
    completions,
    ids,
    free,
    inside,
    busy_until,
    interface_free,
    last_was_write,
    host_had_turn,
    services,
    counts,
});

impl Hdd {
    fn new(params: &Params) -> Result<Hdd, ConfigError> {
        let segment = params.cache.segment.0.sectors();
        let fixed = Fixed {
            mechanics: params.mechanics()?,
            overhead: params.overhead.table(),
            interface: Divisor::new(params.interface.0),
            read_ahead: params.cache.read_ahead.0.sectors(),
            segment,
            params: params.clone(),
        };
        Ok(Hdd {
            fixed: Arc::new(fixed),
            arm: Arm::default(),
            arrives: Nanos::ZERO,
            stream: Stream::default(),
            segments: Segments::new(params.cache.segments, segment),
            queue: Queue::default(),
            writes: WriteCache::new(&params.write_cache),
            stalled: VecDeque::new(),
            flushes: VecDeque::new(),
            completions: EventHeap::new(),
            ids: Vec::new(),
            free: Vec::new(),
            inside: 0,
            busy_until: Nanos::ZERO,
            interface_free: Nanos::ZERO,
            last_was_write: false,
            host_had_turn: false,
            services: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// Time on the interface for `sectors` sectors.
    #[inline]
    fn interface_ns(&self, sectors: u64) -> u64 {
        let rate = &self.fixed.interface;
        if sectors < 1 << 24 {
            rate.quotient(sectors * SECTOR_BYTES * 1_000_000_000)
        } else {
            let scaled = u128::from(sectors) * u128::from(SECTOR_BYTES) * 1_000_000_000;
            (scaled / u128::from(rate.value())) as u64
        }
    }

    #[inline]
    fn overhead(&self, write: bool, hit: bool) -> Nanos {
        let case = usize::from(write) << 2 | usize::from(!hit) << 1;
        Nanos(self.fixed.overhead[case | usize::from(self.last_was_write)])
    }

    #[inline]
    fn complete(&mut self, id: u64, at: Nanos) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.ids.push(0);
            self.ids.len() as u32 - 1
        });
        self.ids[slot as usize] = id;
        self.completions.push(at, slot);
    }

    /// Put `sectors` sectors on the interface at `ready` or when it is free; returns (begin, end).
    #[inline]
    fn reserve_interface(&mut self, ready: Nanos, sectors: u64) -> (Nanos, Nanos) {
        let begin = ready.max(self.interface_free);
        self.interface_free = begin + Nanos(self.interface_ns(sectors));
        (begin, self.interface_free)
    }

    /// When the arm is next free with something to do.
    #[inline]
    fn arm_event(&self) -> Option<Nanos> {
        let waiting = !self.queue.is_empty() || !self.writes.is_clean();
        waiting.then_some(self.busy_until)
    }

    #[inline]
    fn is_idle(&self, now: Nanos) -> bool {
        self.busy_until <= now && self.arm_event().is_none()
    }

    fn serve_or_queue(&mut self, now: Nanos, waiting: Waiting) {
        if self.is_idle(now) {
            self.serve(now, waiting)
        } else {
            self.queue.push(&waiting.place, waiting.write, waiting.ready, waiting)
        }
    }

    /// The arm is free at `now`: finish what it did and give it the next piece of work.
    fn arm_free(&mut self, now: Nanos) {
        if let Some(done) = self.writes.finish() {
            if !self.segments.is_off() && self.fixed.params.cache.read_hits_on_written {
                self.segments.keep_written(done.lba, done.end());
            }
            while let Some(&(id, number)) = self.flushes.front()
                && self.writes.is_clean_below(number)
            {
                self.flushes.pop_front();
                self.complete(id, now);
            }
            while let Some(&first) = self.stalled.front()
                && self.writes.has_room(first.lba, first.sectors)
            {
                self.stalled.pop_front();
                self.admit(&Waiting { ready: first.ready.max(now), ..first });
            }
        }
        self.start(now);
    }

    /// Do the host's commands go first? They do, but while a flush or a full write cache waits for
    /// cached writes.
    fn host_first(&self, now: Nanos) -> bool {
        let urgent = !self.flushes.is_empty() || !self.stalled.is_empty();
        if !urgent || self.writes.is_idle() {
            return true;
        }
        let fixed = &*self.fixed;
        match fixed.params.write_cache.turns {
            ArmTurns::Alternate => !self.host_had_turn,
            ArmTurns::Nearest => {
                let commands = self.queue.nearest_ns(&fixed.mechanics, self.arm, now);
                commands <= self.writes.nearest_ns(&fixed.mechanics, self.arm, now)
            }
        }
    }

    /// Choose and begin the next piece of work, if there is any.
    fn start(&mut self, now: Nanos) {
        let now = now.max(self.arrives);
        if !self.queue.is_empty() && self.host_first(now) {
            self.host_had_turn = true;
            self.stop_stream(now);
            let fixed = &*self.fixed;
            let (scheduler, mechanics) = (fixed.params.scheduler, &fixed.mechanics);
            if let Some(index) = self.queue.choose(scheduler, mechanics, self.arm, now) {
                let waiting = self.queue.remove(index);
                self.serve(now, waiting);
            }
        } else if !self.writes.is_idle() {
            self.host_had_turn = false;
            self.stop_stream(now);
            let fixed = &*self.fixed;
            let (scheduler, mechanics) = (fixed.params.scheduler, &fixed.mechanics);
            if let Some(dirty) = self.writes.begin(scheduler, mechanics, self.arm, now) {
                let from = now.max(dirty.started);
                let sectors = dirty.sectors.into();
                self.write_medium(from, dirty.acknowledged, dirty.lba, sectors, &dirty.place, true);
            }
        }
    }

    /// Begin a host's command on an arm that is free at `now`.
    #[inline]
    fn serve(&mut self, now: Nanos, w: Waiting) {
        let from = now.max(w.ready).max(self.arrives);
        self.stop_stream(from);
        if w.write { self.serve_write(from, &w) } else { self.serve_read(from, &w) }
    }

    #[inline]
    fn record(&mut self, times: [Nanos; 4], destage: bool) {
        self.counts.seek_ns += (times[1] - times[0]).0;
        self.counts.rotate_ns += (times[2] - times[1]).0;
        self.counts.transfer_ns += (times[3] - times[2]).0;
        self.services.push(Service { times, destage });
    }

    fn report(&mut self, out: &mut Completions) {
        for service in self.services.drain(..) {
            let cause = if service.destage { "destage" } else { "host" };
            for (index, what) in ["seek", "rotate", "transfer"].into_iter().enumerate() {
                let (start, end) = (service.times[index], service.times[index + 1]);
                if end > start {
                    out.span(|| Span { unit: 0, what, cause, start, end });
                }
            }
        }
    }
}

impl Device for Hdd {
    fn limits(&self) -> Limits {
        let fixed = &*self.fixed;
        Limits {
            capacity: Bytes(fixed.mechanics.geometry.sectors() * SECTOR_BYTES),
            block_bytes: SECTOR_BYTES as u32,
            queue_depth_max: fixed.params.queue_depth_max,
            rotational: true,
            write_cache: fixed.params.write_cache.enabled,
            discard: false,
        }
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.inside >= self.fixed.params.queue_depth_max {
            return Err(Busy);
        }
        self.inside += 1;
        match request.op {
            Op::Read => self.read(now, request.id.0, request.lba.0, request.sectors),
            Op::Write => self.write(now, &request),
            Op::Flush => self.flush(now, request.id.0),
            Op::Discard => {
                self.complete(request.id.0, now + self.fixed.params.overhead.command.0);
            }
        }
        Ok(())
    }

    #[inline]
    fn next_event(&self) -> Option<Nanos> {
        match (self.completions.next_time(), self.arm_event()) {
            (Some(completion), Some(arm)) => Some(completion.min(arm)),
            (completion, arm) => completion.or(arm),
        }
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        while let Some(next) = self.next_event().filter(|&next| next <= now) {
            if self.arm_event() == Some(next) {
                self.arm_free(next);
            } else if let Some((at, slot)) = self.completions.pop_due(next) {
                out.complete(RequestId(self.ids[slot as usize]), at);
                self.free.push(slot);
                self.inside -= 1;
            }
        }
        self.report(out);
    }

    fn power_fail(&mut self, now: Nanos) -> Survivors {
        let mut unreported = std::collections::BTreeSet::new();
        while let Some((_, slot)) = self.completions.pop() {
            unreported.insert(self.ids[slot as usize]);
        }
        let lost = self.writes.power_fail(|id| !unreported.contains(&id));
        self.stop_stream(now);
        self.segments.clear();
        self.queue.clear();
        self.stalled.clear();
        self.flushes.clear();
        self.completions.clear();
        self.ids.clear();
        self.free.clear();
        self.services.clear();
        self.inside = 0;
        self.busy_until = now;
        self.arrives = now;
        self.interface_free = now;
        self.last_was_write = false;
        Survivors { lost }
    }

    fn counters(&self, out: &mut Counters) {
        let c = &self.counts;
        out.add("reads", c.reads);
        out.add("read_hits", c.read_hits);
        out.add("writes", c.writes);
        out.add("media_writes", c.media_writes);
        let busy = vec![
            ("seek", Nanos(c.seek_ns)),
            ("rotate", Nanos(c.rotate_ns)),
            ("transfer", Nanos(c.transfer_ns)),
        ];
        out.units.push(Unit::medium("arm", busy));
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

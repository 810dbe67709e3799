//! The controller: takes requests apart into pages, has the FTL plan them and the NAND model time
//! them, and lets the collector work when nobody else wants the die.

use std::collections::VecDeque;

use sim::{
    Busy, Completions, EventHeap, Lba, Nanos, Op, Part, Request, RequestId, Survivors,
    snapshot_fields,
};

use super::buffer::{Buffer, Offer};
use super::event::Event;
use super::geometry::{Divisor, Geometry};
use super::host::{HostPath, HostQueues};
use super::nand::{Class, Finished, Nand};
use super::oracle::Oracle;
use super::pace::Pace;
use super::plan::{Cause, FlashOp, Kind, NONE, Plan};
use super::throttle::{Beside, Throttle};
use crate::ftl::collector::Collector;
use crate::ftl::flash::Flash;
use crate::ftl::mapping::{CleaningStep, Full, HostPage, Mapping};

mod admission;
mod background;
mod discard;
mod instant;
mod jobs;
mod reading;
mod turns;
mod waiter;

use jobs::Jobs;
use turns::Turns;
use waiter::Waiter;

/// Lane of the event queue for the host link, beside those of the NAND model.
const HOST_LANE: usize = 3;

/// A request inside the controller.
#[derive(Clone, Copy, Default, Debug)]
struct Pending {
    id: u64,
    lba: u64,
    sectors: u32,
    /// Pages and operations still to be done, plus one while it is being taken apart.
    remaining: u32,
    op: u8,
    fua: bool,
    stream: u16,
    used: bool,
}

snapshot_fields!(Pending { id, lba, sectors, remaining, op, fua, stream, used });

impl Pending {
    fn request(&self) -> Request {
        Request {
            id: RequestId(self.id),
            fua: self.fua,
            stream: self.stream,
            ..Request::new(Op::ALL[usize::from(self.op & 3)], Lba(self.lba), self.sectors)
        }
    }
}

/// A page write that waits for room, on flash or in the buffer.
#[derive(Clone, Copy, Default, Debug)]
struct Waiting {
    slot: u32,
    lpn: u32,
    sectors: u16,
    stream: u16,
    lba: u64,
    /// Which page of the request this is, and of how many.
    index: u32,
    of: u32,
}

snapshot_fields!(Waiting { slot, lpn, sectors, stream, lba, index, of });

/// How the controller behaves; the rest is in its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Requests taken at once.
    pub queue_depth_max: u32,
    /// Flash operations take no time: only write amplification is of interest.
    pub instant: bool,
    /// How long a die must rest before it is collected in the background.
    pub rest: Option<Nanos>,
    /// Programs are not suspended while writes wait for room in the buffer.
    pub hold_when_full: bool,
    /// Nor while so many pages wait for their pace; 0 when that does not matter.
    pub hold_at_waiting: u32,
    /// Host pages after which the collector has its turn; 0 when they share the dies.
    pub turn_pages: u32,
}

/// The parts of a controller.
#[derive(Clone)]
pub struct Parts {
    /// Times flash operations.
    pub nand: Nand,
    /// Keeps the books.
    pub flash: Flash,
    /// Finds pages.
    pub mapping: Box<dyn Mapping>,
    /// Frees blocks.
    pub collector: Collector,
    /// Holds writes, if there is one.
    pub buffer: Option<Buffer>,
    /// The pace at which it takes pages in, if there is one.
    pub pace: Option<Pace>,
    /// What it takes in while the drive catches up with collection, if that shows.
    pub throttle: Option<Throttle>,
    /// Host link.
    pub host: HostPath,
    /// What the controller has not fetched, if it does not fetch whatever comes.
    pub queues: Option<HostQueues>,
    /// Checks every operation, if asked to.
    pub oracle: Option<Box<Oracle>>,
}

/// The whole drive at work.
#[derive(Clone)]
pub struct Controller {
    settings: Settings,
    geometry: Geometry,
    page_sectors: Divisor,
    nand: Nand,
    flash: Flash,
    mapping: Box<dyn Mapping>,
    collector: Collector,
    buffer: Part<Buffer>,
    pace: Part<Pace>,
    throttle: Part<Throttle>,
    host: HostPath,
    queues: Part<HostQueues>,
    oracle: Part<Box<Oracle>>,
    plan: Plan,
    events: EventHeap,
    requests: Vec<Pending>,
    free_requests: Vec<u32>,
    inside: u32,
    jobs: Jobs,
    /// Page writes and discards waiting for a free block: one queue per plane and one for "any
    /// plane".
    stalled: Vec<VecDeque<Waiting>>,
    stalled_count: u32,
    /// Page writes waiting for room in the buffer.
    unbuffered: VecDeque<Waiting>,
    /// Flushes and FUA writes waiting until the buffer is clean up to a count.
    flushing: Vec<(u32, u64)>,
    /// Operations under way in the present step of each pool.
    in_step: Vec<u32>,
    turns: Turns,
    /// Pools whose victim waits for programs in flight.
    blocked_pools: Vec<u32>,
    rested_at: Vec<Nanos>,
    /// Ends of rests that wait in `events`.
    rests_told: u32,
    /// Pages the host read and wrote, wholly or in part, and the sectors that it wrote.
    pages_read: u64,
    /// Of these, pages of which there is nothing on flash.
    pages_read_unwritten: u64,
    pages_written: u64,
    sectors_written: u64,
    /// How long the mapping took to rebuild after the last power failure.
    rebuild_ns: u64,
    /// Scratch, empty between calls.
    finished: Vec<Finished>,
    kicks: Vec<u32>,
    pumped_pools: Vec<u32>,
    /// Pages of requests that come soon; means nothing to the model.
    named: VecDeque<u32>,
}

snapshot_fields!(Controller {
    nand,
    flash,
    mapping,
    collector,
    buffer,
    pace,
    throttle,
    host,
    queues,
    plan,
    events,
    requests,
    free_requests,
    inside,
    jobs,
    stalled,
    stalled_count,
    unbuffered,
    flushing,
    in_step,
    turns,
    blocked_pools,
    rested_at,
    rests_told,
    oracle,
    pages_read,
    pages_read_unwritten,
    pages_written,
    sectors_written,
    rebuild_ns,
});

impl Controller {
    /// A controller of an idle drive.
    pub fn new(settings: Settings, parts: Parts) -> Controller {
        let Parts { nand, flash, mapping, collector, buffer, pace, .. } = parts;
        let Parts { throttle, host, queues, oracle, .. } = parts;
        let geometry = flash.geometry;
        Controller {
            settings,
            geometry,
            page_sectors: Divisor::new(geometry.page_sectors),
            stalled: vec![VecDeque::new(); geometry.planes() as usize + 1],
            stalled_count: 0,
            in_step: vec![0; collector.pools() as usize],
            rested_at: vec![Nanos::ZERO; geometry.dies() as usize],
            turns: Turns::new(settings.turn_pages, collector.pools()),
            nand,
            flash,
            mapping,
            collector,
            buffer: Part(buffer),
            pace: Part(pace),
            throttle: Part(throttle),
            host,
            queues: Part(queues),
            oracle: Part(oracle),
            plan: Plan::default(),
            events: EventHeap::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            inside: 0,
            jobs: Jobs::default(),
            unbuffered: VecDeque::new(),
            flushing: Vec::new(),
            blocked_pools: Vec::new(),
            rests_told: 0,
            pages_read: 0,
            pages_read_unwritten: 0,
            pages_written: 0,
            sectors_written: 0,
            rebuild_ns: 0,
            finished: Vec::new(),
            kicks: Vec::new(),
            pumped_pools: Vec::new(),
            named: VecDeque::new(),
        }
    }

    /// When the drive next changes by itself.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        self.events.next_time()
    }

    /// Take a request.
    ///
    /// # Errors
    /// [`Busy`] when the queue is full.
    #[inline]
    pub fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.inside >= self.settings.queue_depth_max {
            return Err(Busy);
        }
        self.inside += 1;
        let pending = Pending {
            id: request.id.0,
            lba: request.lba.0,
            sectors: request.sectors,
            remaining: 1,
            op: request.op as u8,
            fua: request.fua,
            stream: request.stream,
            used: true,
        };
        let slot = match self.free_requests.pop() {
            Some(slot) => {
                self.requests[slot as usize] = pending;
                slot
            }
            None => {
                self.requests.push(pending);
                self.requests.len() as u32 - 1
            }
        };
        let submitted = self.host.submitted(now, request.process);
        if let Some(queues) = &mut self.queues.0
            && !queues.come(request.process, slot, submitted)
        {
            return Ok(());
        }
        let arrival = self.host.arrival(submitted, &request);
        if arrival > now {
            self.mapping.prefetch(self.locate(request.lba.0).0);
            self.events.push_lane(HOST_LANE, arrival, Event::Fetched(slot).pack());
        } else {
            self.begin(slot, pending, now);
            if self.requests[slot as usize].remaining == 0 {
                // Completions are handed out in `advance` only.
                let at = self.host.delivery(now, &request);
                self.events.push(at, Event::Done(slot).pack());
            }
        }
        Ok(())
    }

    /// Do everything due at `now`.
    #[inline]
    pub fn advance(&mut self, now: Nanos, out: &mut Completions) {
        while let Some((_, payload)) = self.events.pop_due(now) {
            match Event::unpack(payload) {
                Event::Array { die, generation } => {
                    let (events, finished) = (&mut self.events, &mut self.finished);
                    let what = (die, generation);
                    let idle = self.nand.array_ended(what, now, events, finished, out);
                    self.nand_went_on(idle, now, out);
                }
                Event::Transfer(channel) => {
                    let (events, finished) = (&mut self.events, &mut self.finished);
                    let idle = self.nand.transfer_ended(channel, now, events, finished, out);
                    self.nand_went_on(idle, now, out);
                }
                Event::Fetched(slot) => {
                    self.begin(slot, self.requests[slot as usize], now);
                    self.complete_if_done(slot, now, out);
                }
                Event::Done(slot) => self.deliver(slot, now, out),
                Event::PageServed(slot) => self.part_done(slot, now, out),
                Event::DieRested(die) => self.die_rested(die, now),
                Event::Admit => {
                    self.admit(now);
                    self.kick_all(now);
                }
            }
        }
    }

    /// Do everything due by `until`, but nothing later than what is answered first; returns when
    /// the last of it was due.
    pub fn advance_until(&mut self, until: Nanos, out: &mut Completions) -> Option<Nanos> {
        let mut last = None;
        while out.done.is_empty()
            && let Some(next) = self.next_event().filter(|&next| next <= until)
        {
            self.advance(next, out);
            last = Some(next);
        }
        last
    }

    /// Operations may have ended, and a die may have become idle.
    #[inline]
    fn nand_went_on(&mut self, idle: Option<u32>, now: Nanos, out: &mut Completions) {
        for index in 0..self.finished.len() {
            let Finished { op, target } = self.finished[index];
            self.flash_op_ended(op, Waiter::unpack(target), now, out);
        }
        self.finished.clear();
        if let Some(die) = idle {
            self.die_free(die, now);
        }
    }

    /// Take a request apart. Its `remaining` is then what it waits for.
    #[inline]
    fn begin(&mut self, slot: u32, pending: Pending, now: Nanos) {
        match Op::ALL[usize::from(pending.op & 3)] {
            Op::Read => self.each_page(slot, pending, now, Self::read_page),
            Op::Write => {
                self.each_page(slot, pending, now, Self::write_page);
                if pending.fua {
                    self.wait_for_buffer(slot, now);
                }
            }
            Op::Flush => self.wait_for_buffer(slot, now),
            Op::Discard => self.discard(slot, pending, now),
        }
        self.kick_all(now);
        self.requests[slot as usize].remaining -= 1;
    }

    #[inline]
    fn each_page(
        &mut self,
        slot: u32,
        pending: Pending,
        now: Nanos,
        handle: fn(&mut Self, Waiting, Nanos),
    ) {
        let size = u64::from(self.geometry.page_sectors);
        let end = pending.lba + u64::from(pending.sectors);
        let mut lba = pending.lba;
        let (mut lpn, mut offset) = self.locate(lba);
        let of = (offset + u64::from(pending.sectors)).div_ceil(size) as u32;
        for index in 0..of {
            let sectors = (size - offset).min(end - lba);
            let (stream, sectors16) = (pending.stream, sectors as u16);
            let part = Waiting { slot, lpn, sectors: sectors16, stream, lba, index, of };
            handle(self, part, now);
            lba += sectors;
            (lpn, offset) = (lpn + 1, 0);
        }
    }

    /// The logical page of a sector and the sector's place in it.
    #[inline]
    fn locate(&self, lba: u64) -> (u32, u64) {
        if lba <= u64::from(u32::MAX) {
            let (lpn, offset) = self.page_sectors.split(lba as u32);
            return (lpn, u64::from(offset));
        }
        let size = u64::from(self.geometry.page_sectors);
        ((lba / size) as u32, lba % size)
    }

    fn host_page(&self, part: &Waiting) -> HostPage {
        let whole = u32::from(part.sectors) == self.geometry.page_sectors;
        let Waiting { lpn, sectors, stream, index, of, .. } = *part;
        HostPage { lpn, sectors, whole, stream, index, of }
    }

    /// Collect where the present plan took a free block, if few are left there.
    #[inline]
    fn check_planned(&mut self) {
        if self.plan.collect.is_empty() {
            return;
        }
        // Collecting makes plans of its own.
        let mut planes = std::mem::take(&mut self.plan.collect);
        planes.iter().for_each(|&plane| self.check_pool(plane));
        planes.clear();
        self.plan.collect = planes;
    }

    #[inline]
    fn write_page(&mut self, part: Waiting, now: Nanos) {
        if self.settings.instant {
            self.sectors_written += u64::from(part.sectors);
            let sectors = self.geometry.page_sectors as u16;
            self.write_now(HostPage { sectors, whole: true, ..self.host_page(&part) });
            return;
        }
        match self.buffer.0 {
            Some(_) => self.buffer_page(part, now),
            None => self.program_page(part),
        }
    }

    /// Program (or discard) a host page now, or let it wait for a free block.
    #[inline]
    fn program_page(&mut self, part: Waiting) {
        self.requests[part.slot as usize].remaining += 1;
        if self.try_program(&part).is_err() {
            self.stalled_count += 1;
        }
    }

    /// Plan the program (or discard) of a waiting page, or let it wait (again).
    ///
    /// # Errors
    /// At the end of which queue it waits.
    #[inline]
    fn try_program(&mut self, part: &Waiting) -> Result<(), usize> {
        self.plan.clear();
        let page = self.host_page(part);
        let discards = self.requests[part.slot as usize].op == Op::Discard as u8;
        let planned = if discards {
            self.plan_discard(part.lpn)
        } else {
            self.mapping.write(&mut self.flash, page, &mut self.plan)
        };
        self.submit_plan(Waiter::Request(part.slot), part.lpn, false);
        match planned {
            Ok(()) => {
                // The place held for this page is replaced by its operations.
                self.requests[part.slot as usize].remaining -= 1;
                if !discards {
                    self.taken_in(part);
                }
                self.check_planned();
                Ok(())
            }
            Err(Full(plane)) => {
                let queue = plane.unwrap_or(self.geometry.planes()) as usize;
                self.stalled[queue].push_back(*part);
                self.check_planned();
                self.wake_collectors(plane);
                Err(queue)
            }
        }
    }

    /// Let a flush or FUA write wait until all that is in the buffer now is on flash.
    fn wait_for_buffer(&mut self, slot: u32, now: Nanos) {
        let Some(buffer) = self.buffer.0.as_mut().filter(|buffer| buffer.waits_for_flush()) else {
            return;
        };
        let fua = self.requests[slot as usize].fua;
        if fua && self.unbuffered.iter().any(|part| part.slot == slot) {
            // Its data is not even in the buffer: asked again when the last page is.
            return;
        }
        let count = buffer.begin_flush();
        if !buffer.is_clean_to(count) {
            self.requests[slot as usize].remaining += 1;
            self.flushing.push((slot, count));
        }
        self.destage();
        self.kick_all(now);
    }

    /// Program what the buffer wants to get rid of.
    fn destage(&mut self) {
        while self.hosts_pages_go_on() {
            let Some(buffer) = self.buffer.0.as_mut() else { break };
            let Some((lpn, sectors, stream)) = buffer.next_destage() else { break };
            let whole = sectors >= self.geometry.page_sectors;
            let sectors = sectors.min(self.geometry.page_sectors) as u16;
            self.plan.clear();
            let page = HostPage { lpn, sectors, whole, stream, index: 0, of: 1 };
            match self.mapping.write(&mut self.flash, page, &mut self.plan) {
                Ok(()) => {
                    self.submit_plan(Waiter::Buffer, lpn, false);
                    self.check_planned();
                    self.page_of_the_host();
                }
                Err(Full(plane)) => {
                    buffer.put_back(lpn);
                    self.submit_plan(Waiter::Buffer, NONE, false);
                    self.check_planned();
                    self.wake_collectors(plane);
                    break;
                }
            }
        }
    }

    /// One of the things a request waits for is done.
    #[inline]
    fn part_done(&mut self, slot: u32, now: Nanos, out: &mut Completions) {
        self.requests[slot as usize].remaining -= 1;
        self.complete_if_done(slot, now, out);
    }

    /// Complete the request if it waits for nothing any more.
    #[inline]
    fn complete_if_done(&mut self, slot: u32, now: Nanos, out: &mut Completions) {
        let pending = &self.requests[slot as usize];
        if pending.remaining > 0 {
            return;
        }
        let at = self.host.delivery(now, &pending.request());
        if at > now {
            self.events.push_lane(HOST_LANE, at, Event::Done(slot).pack())
        } else {
            self.deliver(slot, now, out)
        }
    }

    #[inline]
    fn deliver(&mut self, slot: u32, now: Nanos, out: &mut Completions) {
        let pending = &mut self.requests[slot as usize];
        pending.used = false;
        out.complete(RequestId(pending.id), now);
        self.free_requests.push(slot);
        self.inside -= 1;
        self.fetch_next(now);
    }
}

//! The engine under every frontend: arrival stamp, model, data moved at arrival, reply when due.
//! (A frontend may take the data of long reads later and by itself, see [`crate::target`].)
//!
//! It reads no clock: the caller says when a request arrived and what time it is, so a test can
//! turn the clock by hand. Latency is the model's alone; the engine only adds what a fault asks
//! for. A reply is never early: it leaves [`Engine::advance`] when the wall has reached the
//! modelled completion.

use std::collections::{BTreeSet, VecDeque};

use sim::{Busy, Completions, Device, Limits, LostWrite, Nanos, Op, Request, RequestId, Rng};

use study::Failure;

use crate::buffer_pool::BufferPool;
use crate::clock::{Timeline, Wall};
use crate::data::{Data, WriteSink};
use crate::delayed::Delayed;
use crate::fault::{FaultId, Faults, Rule, Verdict};
use crate::order::{Command, Order, Refusal, Reply, Submitter, Timing, inside};
use crate::patch::Patch;
use crate::record::Recorder;
use crate::statistics::Statistics;
use crate::store::Store;
use crate::volatile::{Fate, WriteTicket};

struct InFlight {
    order: Order,
    request: Request,
    arrived: Wall,
    stamped: Nanos,
    due: Wall,
    /// How long the model took, in wall nanoseconds; `None` until it has said so.
    modelled_ns: Option<u64>,
    verdict: Verdict,
    result: Result<Vec<u8>, Refusal>,
}

/// One device, its data and what goes wrong with it.
pub struct Engine {
    device: Box<dyn Device>,
    limits: Limits,
    timeline: Timeline,
    /// How much earlier than its arrival a request is stamped, in wall nanoseconds.
    compensation_ns: u64,
    /// The device's present moment.
    latest: Nanos,
    next_id: u64,
    /// Slots of the requests the device has, by id from `window_start` on.
    window: VecDeque<Option<u32>>,
    window_start: u64,
    /// Waiting for room in the device.
    held: VecDeque<u32>,
    slots: Vec<Option<InFlight>>,
    free: Vec<u32>,
    delayed: Delayed,
    out: Completions,
    finished: VecDeque<u32>,
    /// Reads bypass the model and take this long: the transport is being calibrated.
    bypass_ns: Option<u64>,
    data: Data,
    statistics: Statistics,
    recorder: Option<Recorder>,
}

impl Engine {
    /// An engine for `device`, whose ids go on from `next_id`.
    pub fn new(device: Box<dyn Device>, store: Store, timeline: Timeline, next_id: u64) -> Engine {
        let limits = device.limits();
        Engine {
            limits,
            timeline,
            compensation_ns: 0,
            latest: timeline.start,
            next_id,
            window: VecDeque::new(),
            window_start: next_id,
            held: VecDeque::new(),
            slots: Vec::new(),
            free: Vec::new(),
            delayed: Delayed::default(),
            out: Completions::new(),
            finished: VecDeque::new(),
            bypass_ns: None,
            data: Data::new(store, limits.capacity.0, Rng::new(1, "faults")),
            statistics: Statistics::default(),
            recorder: None,
            device,
        }
    }

    /// What the device can take.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How modelled time runs along the wall.
    pub fn timeline(&self) -> Timeline {
        self.timeline
    }

    /// The device; for counters.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// The device's present moment.
    pub fn moment(&self) -> Nanos {
        self.latest
    }

    /// The id of the next request.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// What was measured so far.
    pub fn statistics(&mut self) -> &mut Statistics {
        &mut self.statistics
    }

    /// The payload.
    pub fn data(&mut self) -> &mut Data {
        &mut self.data
    }

    /// Stamp requests this much before their arrival: the transport's share of a round trip.
    pub fn compensate(&mut self, ns: u64) {
        self.compensation_ns = ns;
    }

    /// The declared compensation in nanoseconds.
    pub fn compensation_ns(&self) -> u64 {
        self.compensation_ns
    }

    /// Answer reads after so many nanoseconds and count none, or go back to the model. What changes
    /// data is the device's in any case: a block device is there while its path is measured.
    pub fn set_bypass(&mut self, bypass_ns: Option<u64>) {
        self.bypass_ns = bypass_ns;
    }

    /// Write every request from now on to a trace.
    pub fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// Requests of clients that are not answered yet.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Begin a write, whose data then comes to [`Data::write`], perhaps in pieces.
    ///
    /// # Errors
    /// When the range does not lie on the device.
    pub fn begin_write(&mut self, offset: u64, bytes: u32) -> Result<WriteSink, Refusal> {
        inside(&self.limits, offset, bytes)?;
        Ok(self.data.begin_write(offset, bytes))
    }

    /// Take a request that arrived at `arrived`: its data moves now, its reply comes out of
    /// [`Engine::advance`] when it is due. `sink` is what [`Engine::begin_write`] gave for a write.
    pub fn submit(
        &mut self,
        arrived: Wall,
        order: Order,
        sink: Option<WriteSink>,
        pool: &mut BufferPool,
    ) {
        let ticket = sink.as_ref().map(|sink| sink.ticket());
        if let Some(log) = &mut self.data.requests {
            log.submitted(arrived, order, ticket);
        }
        let mut request = request_of(&order, &self.limits);
        let (offset, bytes) = (order.offset, u64::from(order.bytes));
        let inside = inside(&self.limits, offset, order.bytes);
        let mut verdict = sink.as_ref().map(WriteSink::verdict).unwrap_or_default();
        if inside.is_ok() && sink.is_none() && !self.data.faults.is_empty() {
            verdict = self.data.faults.verdict(request.op, offset, bytes);
        }
        let moved = inside.and_then(|()| self.move_data(&order, sink, verdict, pool));
        let passes = moved.is_err() || request.sectors == 0 && request.op != Op::Flush;
        let (mut result, mut replaced) = (Err(Refusal::Io), None);
        match moved {
            Ok(_) if verdict.error => request.fua = false,
            Ok((data, kept)) => (result, replaced) = (Ok(data), kept),
            Err(why) => result = Err(why),
        }
        let index = self.keep(InFlight {
            order,
            request,
            arrived,
            stamped: self.latest,
            due: arrived,
            modelled_ns: None,
            verdict,
            result,
        });
        // What the device never sees is answered at once.
        if passes {
            self.finished.push_back(index);
            return;
        }
        // A flush that fails makes nothing durable, nor does a write by FUA but what it writes.
        if verdict.error && request.op == Op::Flush {
            self.hold_back(index, arrived);
            return;
        }
        if let (Some(ns), Op::Read) = (self.bypass_ns, request.op) {
            let due = arrived.plus(ns);
            self.slot(index).due = due;
            self.delayed.until(due, index);
            return;
        }
        self.enter(arrived, index);
        let id = self.slot(index).request.id;
        if let Some(ticket) = replaced {
            self.data.submitted(ticket, id);
        }
        if order.command == Command::Flush {
            self.data.flush_came(id);
        }
    }

    /// Move the data of a request: what was read, and the name of what is kept of what it replaced.
    /// What a fault makes fail is not done, but the device takes its time over it.
    fn move_data(
        &mut self,
        order: &Order,
        sink: Option<WriteSink>,
        verdict: Verdict,
        pool: &mut BufferPool,
    ) -> Result<(Vec<u8>, Option<WriteTicket>), Refusal> {
        match sink {
            Some(sink) => {
                let ticket = sink.ticket();
                sink.finish().map(|()| (Vec::new(), Some(ticket)))
            }
            None if verdict.error => Ok((Vec::new(), None)),
            None => self.data.perform(order, pool),
        }
    }

    fn keep(&mut self, slot: InFlight) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(slot);
                index
            }
            None => {
                self.slots.push(Some(slot));
                (self.slots.len() - 1) as u32
            }
        }
    }

    fn slot(&mut self, index: u32) -> &mut InFlight {
        self.slots[index as usize].as_mut().expect("the slot is in use")
    }

    /// Give a request to the device.
    fn enter(&mut self, arrived: Wall, index: u32) {
        // Time never goes back: a stamp before the device's latest event becomes that event's.
        let stamp = self.timeline.device(arrived.minus(self.compensation_ns)).max(self.latest);
        // What one request sets off at its own moment comes behind all requests of that moment, as
        // it does in `simulate`: those that are kept back in a plug meet there.
        if stamp > self.latest {
            self.run_until(stamp);
            self.latest = stamp;
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let slot = self.slot(index);
        slot.stamped = stamp;
        slot.request.id = id;
        let request = slot.request;
        if let Some(recorder) = &mut self.recorder {
            recorder.add(stamp, request);
        }
        self.window.push_back(Some(index));
        // Later requests never overtake one that waits for room.
        if !self.held.is_empty() || self.device.submit(stamp, request) == Err(Busy) {
            self.held.push_back(index);
        }
    }

    /// Do all the device has to do up to and including `time`.
    fn run_until(&mut self, time: Nanos) {
        while let Some(next) = self.device.next_event().filter(|&next| next <= time) {
            self.latest = self.latest.max(next);
            self.device.advance(next, &mut self.out);
            if self.out.done.is_empty() {
                continue;
            }
            let mut done = std::mem::take(&mut self.out.done);
            for completion in done.drain(..) {
                self.complete(completion.id, completion.at);
            }
            self.out.done = done;
            self.let_in(next);
        }
    }

    fn let_in(&mut self, now: Nanos) {
        while let Some(&index) = self.held.front() {
            let request = self.slot(index).request;
            if self.device.submit(now, request) == Err(Busy) {
                break;
            }
            self.held.pop_front();
        }
    }

    fn complete(&mut self, id: RequestId, at: Nanos) {
        let position = (id.0 - self.window_start) as usize;
        let index = self.window[position].take();
        let index = index.expect("a device completes each request exactly once");
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.window_start += 1;
        }
        let wall = self.timeline.wall(at);
        let dilation = self.timeline.dilation;
        let slot = self.slot(index);
        slot.modelled_ns = Some(at.since(slot.stamped).0.saturating_mul(dilation));
        self.hold_back(index, wall);
    }

    /// A request is done at `wall`: answer it then, or when a fault lets it go.
    fn hold_back(&mut self, index: u32, wall: Wall) {
        let slot = self.slot(index);
        slot.due = slot.verdict.due(wall);
        let (due, verdict) = (slot.due, slot.verdict);
        // One that was lifted while the device was busy holds nothing back: nobody would lift it.
        match verdict.hang.filter(|&fault| self.data.faults.holds(fault)) {
            Some(fault) => self.delayed.hang(fault, index),
            None if verdict.slow_ns > 0 => self.delayed.until(due, index),
            None => self.finished.push_back(index),
        }
    }

    /// When [`Engine::advance`] has something to do; [`Wall::NEVER`] when only a request can
    /// change anything.
    #[inline]
    pub fn next_due(&self) -> Wall {
        if !self.finished.is_empty() {
            return Wall(0);
        }
        let device = self.device.next_event().map_or(Wall::NEVER, |at| self.timeline.wall(at));
        device.min(self.delayed.next().unwrap_or(Wall::NEVER))
    }

    /// Do all that is due at `now`; every reply that is due goes to `replies`.
    pub fn advance(&mut self, now: Wall, replies: &mut Vec<Reply>) {
        if self.data.requests.is_some() && self.next_due() <= now {
            self.data.requests.iter_mut().for_each(|log| log.advanced(now));
        }
        self.run_until(self.timeline.device(now));
        while let Some(index) = self.delayed.pop_due(now) {
            self.finished.push_back(index);
        }
        while let Some(index) = self.finished.pop_front() {
            self.answer(index, replies);
        }
    }

    fn answer(&mut self, index: u32, replies: &mut Vec<Reply>) {
        let slot = self.slots[index as usize].take().expect("the slot is in use");
        self.free.push(index);
        if slot.result.is_ok() {
            self.data.acknowledged(slot.request.id, slot.order.command);
        }
        let timing = Timing {
            op: slot.request.op,
            arrived: slot.arrived,
            due: slot.due,
            modelled_ns: slot.modelled_ns,
        };
        replies.push(Reply { order: slot.order, timing, result: slot.result });
    }

    /// Inject a fault at `now`.
    pub fn inject(&mut self, rule: Rule, now: Wall) -> FaultId {
        self.data.requests.iter_mut().for_each(|log| log.injected(now, &rule));
        self.data.faults.inject(rule)
    }

    /// Lift a fault and answer what it held back, at `now`; false when there is none.
    pub fn lift(&mut self, id: FaultId, now: Wall) -> bool {
        self.data.requests.iter_mut().for_each(|log| log.lifted(now, id));
        for index in self.delayed.release(id) {
            self.slot(index).due = now;
            self.finished.push_back(index);
        }
        self.data.faults.lift(id)
    }

    /// Every injected fault.
    pub fn faults(&self) -> &Faults {
        &self.data.faults
    }

    /// Lose power at `now` and come back: requests inside are forgotten without an answer, and
    /// data that the model lost is taken back. Returns how many acknowledged writes were lost.
    ///
    /// # Errors
    /// Those of the store.
    pub fn power_cut(&mut self, now: Wall) -> std::io::Result<PowerCut> {
        let time = self.timeline.device(now).max(self.latest);
        self.run_until(time);
        self.latest = time;
        let survivors = self.device.power_fail(time);
        self.data.power_cut(&survivors.lost)?;
        let forgotten: Vec<Order> = self.slots.iter().flatten().map(|slot| slot.order).collect();
        self.slots.clear();
        self.free.clear();
        self.held.clear();
        self.finished.clear();
        self.delayed = Delayed::default();
        self.window.clear();
        self.window_start = self.next_id;
        Ok(PowerCut { lost_writes: writes(&survivors.lost), forgotten })
    }

    /// What a power cut at the present moment leaves, without one: the device, and what is
    /// different of the data. With `fates`, those of the writes at risk by the contract of flush
    /// and FUA, the data is as they say, whatever the model does.
    pub(crate) fn after_power_cut(&mut self, fates: Option<&[Fate]>) -> Result<AfterCut, Failure> {
        let mut device = self.device.boxed_clone();
        let lost = device.power_fail(self.latest).lost;
        let unanswered = self.unanswered_writes();
        let Some(fates) = fates else {
            self.data.prune(&lost);
            let patch = self.data.after_power_cut(|log, data| log.power_cut(data, &lost))?;
            return Ok(AfterCut { device, patch, lost_writes: writes(&lost), unanswered });
        };
        let patch = self.data.after_power_cut(|log, data| log.power_cut_as(data, fates))?;
        let lost_writes = fates.iter().filter(|fate| **fate != Fate::Kept).count();
        Ok(AfterCut { device, patch, lost_writes, unanswered })
    }

    /// Writes that the device was asked and has not answered.
    fn unanswered_writes(&self) -> usize {
        let writes = |slot: &&InFlight| {
            matches!(slot.order.command, Command::Write { .. } | Command::WriteZeroes { .. })
        };
        self.slots.iter().flatten().filter(writes).count()
    }

    /// Writes that a power cut at the present moment would undo though they may have been answered:
    /// by the contract where that is kept, else by the model.
    pub(crate) fn exposed(&self) -> BTreeSet<RequestId> {
        let by_model = || {
            let lost = self.device.boxed_clone().power_fail(self.latest).lost;
            lost.iter().map(|lost| lost.id).collect()
        };
        self.data.exposed().unwrap_or_else(by_model)
    }

    /// Forget durable writes when much is kept; called between requests.
    pub fn tidy(&mut self) {
        if self.data.wants_pruning() {
            let lost = self.device.boxed_clone().power_fail(self.latest).lost;
            self.data.prune(&lost);
        }
    }

    /// The device as it will be when it has come to rest, and when that is: what is saved. Requests
    /// inside are done, but nobody is told.
    pub fn at_rest(&self) -> (Box<dyn Device>, Nanos) {
        /// A device that is never done has background work; it may stop anywhere.
        const EVENTS_MAX: u32 = 50_000_000;
        let (mut device, mut moment) = (self.device.boxed_clone(), self.latest);
        let mut held = self.held.iter().filter_map(|&index| self.slots[index as usize].as_ref());
        let mut next = held.next();
        let mut out = Completions::new();
        for _ in 0..EVENTS_MAX {
            while let Some(slot) = next
                && device.submit(moment, slot.request).is_ok()
            {
                next = held.next();
            }
            let Some(time) = device.next_event() else { break };
            moment = moment.max(time);
            device.advance(time, &mut out);
            out.done.clear();
        }
        (device, moment)
    }

    /// Close the trace that is being recorded.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn finish_recording(&mut self) -> Result<(), study::Failure> {
        self.recorder.take().map_or(Ok(()), Recorder::finish)
    }
}

/// What a power cut leaves.
pub(crate) struct AfterCut {
    pub(crate) device: Box<dyn Device>,
    /// To the data as it is before the cut.
    pub(crate) patch: Patch,
    /// Acknowledged writes that were lost.
    pub(crate) lost_writes: usize,
    /// Writes that had not been answered.
    pub(crate) unanswered: usize,
}

/// How many writes have lost something: a device may tell of each in many parts.
fn writes(lost: &[LostWrite]) -> usize {
    lost.iter().map(|part| part.id).collect::<BTreeSet<_>>().len()
}

/// What a power cut did.
#[derive(Debug)]
pub struct PowerCut {
    /// Acknowledged writes that were lost.
    pub lost_writes: usize,
    /// Requests that were inside.
    pub forgotten: Vec<Order>,
}

/// What the device sees of an order: the sectors it touches.
fn request_of(order: &Order, limits: &Limits) -> Request {
    let first = order.offset / sim::SECTOR_BYTES;
    let last = (order.offset.saturating_add(u64::from(order.bytes))).div_ceil(sim::SECTOR_BYTES);
    let (lba, sectors) = (sim::Lba(first), (last - first) as u32);
    let Submitter { process, sync, priority } = order.submitter;
    let plain = match order.command {
        Command::Read => Request::read(lba, sectors),
        Command::Write { fua: true } => Request::write(lba, sectors).with_fua(),
        Command::Write { fua: false } => Request::write(lba, sectors),
        Command::Flush => Request::flush(),
        Command::Discard => Request::discard(lba, sectors),
        Command::WriteZeroes { fua: false, may_discard: true } if limits.discard => {
            Request::discard(lba, sectors)
        }
        Command::WriteZeroes { fua, .. } => Request { fua, ..Request::write(lba, sectors) },
    };
    Request { process, sync, priority, ..plain }
}

#[cfg(test)]
mod tests;

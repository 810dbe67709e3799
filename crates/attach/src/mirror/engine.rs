//! The engine of a served mirror: the protocol's core, the clients' payloads, and the threads.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use mirror::core::{
    self, Action, Config, Content, Core, Event, HostId, Io, IoError, Opened, Piece, Source,
};
use mirror::format::record::Record;
use mirror::format::{Geometry, Layout, PAGE_BYTES, Place};
use mirror::policy::lag::LagRules;
use mirror::policy::running::Running;
use mirror::{DEVICES, Slot, Span};
use sim::{Bytes as Size, Limits, Nanos, Op};

use super::device::PAGE;
use super::history::History;
use super::media::{Devices, layout_of, meta_pages};
use super::mutant::planted;
use super::room::Room;
use super::troubles::{About, Troubles};
#[cfg(test)]
use super::work::Outcome;
use super::work::{Bytes, Done, Work, sums};
use super::worker::Workers;
use crate::clock::Wall;
use crate::order::{Command, Order, Refusal, Reply, Timing};

/// The core sees no larger requests: each must fit into a log record.
const PIECE_BLOCKS: u64 = 128;

/// A request that the core is given: a piece of a client's order.
struct CoreRequest {
    order: u64,
    span: Span,
    payload: Payload,
}

enum Payload {
    Read,
    Flush,
    Zeros,
    Data(Bytes),
    /// A write of less than its blocks: what they hold, what comes over it, and where.
    Part {
        old: Vec<u8>,
        new: Bytes,
        at: usize,
    },
}

/// A client's order that is not answered.
struct PendingOrder {
    order: Order,
    arrived: Wall,
    pieces: u32,
    failed: bool,
    /// Whole blocks for a read.
    buffer: Vec<u8>,
}

/// A mirror that runs.
pub(super) struct MirrorEngine {
    pub(super) core: Core,
    id: u128,
    geometry: Geometry,
    /// Where each device is.
    pub(super) paths: [Option<PathBuf>; DEVICES],
    pub(super) limits: Limits,
    layouts: [Layout; DEVICES],
    pub(super) workers: Workers,
    pub(super) history: History,
    pub(super) room: Room,
    /// What reads of the devices read, while the core may still want it.
    buffers: BTreeMap<Io, Bytes>,
    requests: BTreeMap<HostId, CoreRequest>,
    orders: BTreeMap<u64, PendingOrder>,
    next_id: u64,
    merges: VecDeque<HostId>,
    replies: Vec<Reply>,
    pub(super) notices: Vec<String>,
    troubles: Troubles,
    running: Running,
    /// The time that it ran: what the core is told.
    pub(super) latest: Nanos,
    stopped: bool,
    pub(super) failed: bool,
    /// In tests: blocks of each leg that cannot be read until they are written.
    #[cfg(test)]
    pub(super) unreadable: [std::collections::BTreeSet<u64>; mirror::LEGS],
}

impl MirrorEngine {
    /// Go on from where the recovery left off.
    pub(super) fn new(
        devices: Devices,
        opened: Opened,
        lag: LagRules,
        now: Wall,
    ) -> io::Result<MirrorEngine> {
        let (id, geometry) = (devices.array, devices.geometry);
        let capacity = Size(geometry.blocks * PAGE);
        let latest = Nanos(now.0);
        let compared_all = opened.compared_all;
        let config = Config { lag, ..Config::new(opened.superblock.mode) };
        let running = Running::new(config.rules, latest);
        let core = Core::new(config, opened, latest);
        let paths = devices
            .slots
            .each_ref()
            .map(|device| device.as_ref().map(|device| device.path().to_path_buf()));
        let mut array = MirrorEngine {
            core,
            id,
            geometry,
            paths,
            limits: Limits {
                capacity,
                block_bytes: PAGE_BYTES as u32,
                queue_depth_max: 128,
                rotational: false,
                write_cache: true,
                discard: true,
            },
            layouts: std::array::from_fn(|slot| layout_of(slot, &geometry)),
            workers: Workers::new(devices.slots, id)?,
            history: History::new(latest),
            room: Room::default(),
            buffers: BTreeMap::new(),
            requests: BTreeMap::new(),
            orders: BTreeMap::new(),
            next_id: 0,
            merges: VecDeque::new(),
            replies: Vec::new(),
            notices: devices.left_out.into_iter().collect(),
            troubles: Troubles::default(),
            running,
            latest,
            stopped: false,
            failed: false,
            #[cfg(test)]
            unreadable: Default::default(),
        };
        (0..DEVICES).for_each(|slot| array.warn_of_cache(slot));
        if compared_all {
            let text = "a leg's log of hot extents could not be read after a stop out of order: \
                        every block was compared";
            array.notices.push(text.into());
        }
        array.act();
        Ok(array)
    }

    /// The core takes a device for as quick as the page cache: it sees freezes of flushes only.
    pub(super) fn warn_of_cache(&mut self, slot: Slot) {
        if self.workers.is_cached(slot) {
            let name = super::NAMES[slot];
            self.notices.push(format!(
                "{name}: no direct I/O by io_uring here, so it goes through the page cache"
            ));
        }
    }

    pub(super) fn id(&self) -> u128 {
        self.id
    }

    pub(super) fn layout(&self, slot: Slot) -> Layout {
        self.layouts[slot]
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What the host is offered.
    pub(super) fn bytes(&self) -> u64 {
        self.limits.capacity.0
    }

    /// A log.
    pub(super) fn log_bytes(&self) -> u64 {
        u64::from(self.geometry.log_pages) * PAGE
    }

    /// What one bit of [`Core::out_of_sync`] stands for.
    pub(super) fn region_bytes(&self) -> u64 {
        u64::from(self.geometry.region_blocks) * PAGE
    }

    /// Becomes readable when [`MirrorEngine::advance`] has something to do.
    pub(super) fn wakeup(&self) -> BorrowedFd<'_> {
        self.workers.wakeup()
    }

    /// When [`MirrorEngine::advance`] has something to do though nothing was signalled.
    /// Nothing else may be done before it is waited for.
    pub(super) fn next_due(&mut self) -> Wall {
        let due = if self.replies.is_empty() && self.notices.is_empty() {
            let room = self.room.retry_at();
            let due = self.core.next_timer().into_iter().chain(self.troubles.due());
            due.chain(room).min()
        } else {
            Some(Nanos::ZERO)
        };
        let due = due.map_or(Nanos(Wall::NEVER.0), |at| self.running.on_clock(at));
        Wall(self.running.sleep(due, self.core.is_busy()).0)
    }

    /// Look at the clock.
    pub(super) fn look(&mut self, now: Wall) {
        self.latest = self.running.look(Nanos(now.0));
    }

    /// What a moment on the clock is in the time that the server ran.
    pub(super) fn ran(&self, now: Wall) -> Nanos {
        self.latest.max(self.running.at(Nanos(now.0)))
    }

    /// How long it did not run although it wanted to.
    pub(super) fn missed(&self) -> Nanos {
        self.running.missed()
    }

    /// Take what the devices have done, and do what is due.
    pub(super) fn advance(&mut self, now: Wall, replies: &mut Vec<Reply>) {
        self.workers.clear_wakeup();
        self.look(now);
        let mut idle = true;
        while let Some(done) = self.workers.take() {
            idle = false;
            self.done(done);
        }
        if idle {
            self.tell(Event::Tick);
        }
        self.observe();
        self.look_for_room();
        self.workers.submit();
        replies.append(&mut self.replies);
    }

    /// Say who lacks room, and try again from time to time.
    fn look_for_room(&mut self) {
        let full = std::array::from_fn(|slot| self.workers.is_full(slot));
        for (slot, full) in self.room.changed(full) {
            let name = super::NAMES[slot];
            let path = self.paths[slot].as_ref().map_or(String::new(), |p| p.display().to_string());
            let text = if full {
                format!(
                    "{name}: no space left for {path}, so writes to it wait: make room on its \
                     file system"
                )
            } else {
                format!("{name}: its writes wait no longer for room")
            };
            self.history.changed(&text);
            self.notices.push(text);
        }
        if self.room.is_due(self.latest) {
            self.workers.retry();
        }
    }

    /// What a person should know.
    pub(super) fn notices(&mut self) -> Vec<String> {
        let all = self.over();
        self.notices.extend(self.troubles.lines(self.latest, all));
        std::mem::take(&mut self.notices)
    }

    /// Something is wrong with some blocks.
    pub(super) fn trouble(&mut self, about: About, span: Span) {
        self.troubles.note(self.latest, about, span);
    }

    /// Begin to stop in order: [`MirrorEngine::over`] says when that is done.
    pub(super) fn stop(&mut self) {
        self.tell(Event::Command(core::Command::Stop));
    }

    /// Stopped in order, or beyond hope.
    pub(super) fn over(&self) -> bool {
        self.stopped || self.failed
    }

    /// Every leg has failed.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    /// In tests: buffers of reads, pieces and orders that are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> [usize; 3] {
        [self.buffers.len(), self.requests.len(), self.orders.len()]
    }

    fn done(&mut self, Done { medium, io, outcome }: Done) {
        let span = self.core.span_of(io);
        #[cfg(test)]
        let outcome = self.spoilt(medium.slot, span, outcome);
        match outcome {
            Ok((bytes, sums)) => {
                if !sums.is_empty() {
                    self.buffers.insert(io, Bytes::all(bytes));
                }
                self.tell(Event::Done { io, result: Ok(&sums) });
            }
            Err(why) => {
                match span {
                    Some(span) => self.trouble(About::Failed(medium.slot, why.to_string()), span),
                    None => self.notices.push(format!("{}: {why}", super::NAMES[medium.slot])),
                }
                self.tell(Event::Done { io, result: Err(IoError) });
            }
        }
    }

    /// In tests: what comes of a request to blocks that cannot be read.
    #[cfg(test)]
    fn spoilt(&mut self, slot: Slot, span: Option<Span>, outcome: Outcome) -> Outcome {
        let (Some(span), Ok((bytes, sums))) = (span, &outcome) else { return outcome };
        let bad = &mut self.unreadable[slot];
        match bytes.is_empty() && sums.is_empty() {
            true => bad.retain(|block| !span.iter().contains(block)),
            false if span.iter().any(|block| bad.contains(&block)) => {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            false => {}
        }
        outcome
    }

    pub(super) fn tell(&mut self, event: Event<'_>) {
        self.core.handle(self.latest, event);
        self.act();
    }

    /// Do all that the core wants.
    fn act(&mut self) {
        loop {
            let actions: Vec<Action> = self.core.actions().collect();
            for action in actions {
                self.perform(action);
            }
            let Some(id) = self.merges.pop_front() else { return };
            let Some(sums) = self.merge(id) else { continue };
            self.core.handle(self.latest, Event::Merged { id, sums: &sums });
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Read { io, slot, span } => {
                let page = self.layouts[slot].data + span.start;
                let work = Work::Read { page, block: span.start, blocks: span.blocks };
                self.workers.send(slot, io, work);
            }
            Action::Write { io, slot, span, from, fua, .. } => {
                // What is under way is bounded, so this is the pace at which it ends, too.
                self.history.progress.written[slot] += u64::from(span.blocks) * PAGE;
                let page = self.layouts[slot].data + span.start;
                let work = match self.content(from, span.blocks) {
                    Some(bytes) => Work::Write { page, bytes, durable: fua },
                    None => Work::Zero { page, pages: span.blocks.into(), durable: fua },
                };
                self.workers.send(slot, io, work);
            }
            Action::Record { io, slot, page, record, payload } => {
                let work = self.record(slot, page, &record, &payload);
                self.workers.send(slot, io, work);
            }
            Action::Meta { io, slot, meta } => {
                let (page, bytes) = meta_pages(&meta, slot, self.id, &self.layouts[slot]);
                let work = Work::Write { page, bytes: Bytes::all(bytes), durable: true };
                self.workers.send(slot, io, work);
            }
            Action::Flush { io, slot } => self.workers.send(slot, io, Work::Flush),
            Action::Deliver { id, offset, blocks, from } => {
                let content = self.content(from, blocks);
                self.deliver(id, offset, blocks, content.as_ref());
            }
            Action::Merge { id } => self.merges.push_back(id),
            Action::Reply { id, result } => self.reply(id, result.is_ok()),
            Action::Free { id } => drop(self.requests.remove(&id)),
            Action::Drop { io } => drop(self.buffers.remove(&io)),
            Action::Notice(notice) => self.notice(notice),
            Action::Stopped => self.stopped = true,
        }
    }

    /// `blocks` blocks of what the core names; `None` for zeros.
    fn content(&self, from: Source, blocks: u32) -> Option<Bytes> {
        match from {
            Source::Read { io, offset } => Some(self.buffers[&io].blocks(offset, blocks)),
            Source::Host { id, offset } => match &self.requests[&id].payload {
                Payload::Data(bytes) => Some(bytes.blocks(offset, blocks)),
                _ => None,
            },
        }
    }

    fn record(&self, slot: Slot, page: u64, record: &Record, payload: &[Piece]) -> Work {
        let page = self.layouts[slot].log + page;
        let place = Place { device: slot as u8, page };
        let mut bytes = record.encode(self.id, place).to_vec();
        for piece in payload {
            match self.content(Source::Host { id: piece.id, offset: 0 }, piece.span.blocks) {
                Some(data) => bytes.extend_from_slice(data.get()),
                None => bytes.resize(bytes.len() + piece.span.blocks as usize * PAGE_BYTES, 0),
            }
        }
        Work::Write { page, bytes: Bytes::all(bytes), durable: true }
    }

    fn deliver(&mut self, id: HostId, offset: u32, blocks: u32, content: Option<&Bytes>) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let (buffer, first) = match &mut request.payload {
            Payload::Part { old, .. } => (old, 0),
            _ => {
                let Some(pending) = self.orders.get_mut(&request.order) else { return };
                (&mut pending.buffer, request.span.start - pending.order.offset / PAGE)
            }
        };
        let start = (first + u64::from(offset)) as usize * PAGE_BYTES;
        let into = &mut buffer[start..start + blocks as usize * PAGE_BYTES];
        match content {
            Some(bytes) => into.copy_from_slice(bytes.get()),
            None => into.fill(0),
        }
    }

    /// Lay a partial write over what its blocks hold.
    fn merge(&mut self, id: HostId) -> Option<Vec<u32>> {
        let request = self.requests.get_mut(&id)?;
        let Payload::Part { old, new, at } = &mut request.payload else { return None };
        old[*at..*at + new.range.len()].copy_from_slice(new.get());
        let whole = std::mem::take(old);
        let sums = sums(self.id, request.span.start, &whole);
        request.payload = Payload::Data(Bytes::all(whole));
        Some(sums)
    }

    /// A piece of an order is done.
    fn reply(&mut self, id: HostId, ok: bool) {
        let Some(request) = self.requests.get(&id) else { return };
        let order = request.order;
        // Only a write's payload is still needed.
        if matches!(request.payload, Payload::Read | Payload::Flush) {
            self.requests.remove(&id);
        }
        let Some(pending) = self.orders.get_mut(&order) else { return };
        pending.failed |= !ok && !planted!(PieceErrorForgotten);
        pending.pieces -= 1;
        if pending.pieces == 0
            && let Some(pending) = self.orders.remove(&order)
        {
            self.finish(pending);
        }
    }

    fn finish(&mut self, pending: PendingOrder) {
        let PendingOrder { order, arrived, failed, mut buffer, .. } = pending;
        let result = match (failed, order.command) {
            (true, _) => Err(Refusal::Io),
            (false, Command::Read) => {
                buffer.drain(..(order.offset % PAGE) as usize);
                buffer.truncate(order.bytes as usize);
                Ok(buffer)
            }
            (false, _) => Ok(Vec::new()),
        };
        self.answer(order, arrived, result);
    }

    pub(super) fn answer(&mut self, order: Order, arrived: Wall, result: Result<Vec<u8>, Refusal>) {
        let op = match order.command {
            Command::Read => Op::Read,
            Command::Flush => Op::Flush,
            Command::Discard => Op::Discard,
            Command::Write { .. } | Command::WriteZeroes { .. } => Op::Write,
        };
        let timing = Timing {
            op,
            arrived,
            due: Wall(self.running.on_clock(self.latest).0),
            modelled_ns: None,
        };
        self.replies.push(Reply { order, timing, result });
    }

    /// The pieces of a range that the core is given: whole blocks, and what is less than a block.
    fn pieces(mut at: u64, end: u64) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        while at < end {
            let block = at / PAGE * PAGE;
            let whole = end / PAGE * PAGE;
            let next = if at != block || whole <= at {
                (block + PAGE).min(end)
            } else {
                let piece = PIECE_BLOCKS * PAGE;
                (at / piece * piece + piece).min(whole)
            };
            pieces.push((at, next));
            at = next;
        }
        pieces
    }

    /// Begin an order: `data` is what a write writes, `None` for zeros.
    pub(super) fn begin(&mut self, arrived: Wall, order: Order, data: Option<Vec<u8>>) {
        let (mut from, mut end) = (order.offset, order.offset + u64::from(order.bytes));
        if order.command == Command::Discard {
            // The rest of a block was not given up.
            (from, end) = (from.next_multiple_of(PAGE), end / PAGE * PAGE);
        }
        if order.command == Command::Read {
            (from, end) = (from / PAGE * PAGE, end.next_multiple_of(PAGE));
        }
        let pieces = MirrorEngine::pieces(from, end);
        let flush = order.command == Command::Flush;
        if pieces.is_empty() && !flush {
            return self.answer(order, arrived, Ok(Vec::new()));
        }
        let buffer = match order.command {
            Command::Read => vec![0; (end - from) as usize],
            _ => Vec::new(),
        };
        self.next_id += 1;
        let name = self.next_id;
        let count = pieces.len().max(1) as u32;
        self.orders
            .insert(name, PendingOrder { order, arrived, pieces: count, failed: false, buffer });
        if flush {
            let id = self.new_request(name, Span::new(0, 1), Payload::Flush);
            return self.tell(Event::Flush { id });
        }
        let data = data.map(Arc::new);
        for (at, next) in pieces {
            self.piece(name, &order, (at, next), data.as_ref());
        }
    }

    fn new_request(&mut self, order: u64, span: Span, payload: Payload) -> HostId {
        self.next_id += 1;
        self.requests.insert(self.next_id, CoreRequest { order, span, payload });
        self.next_id
    }

    fn piece(
        &mut self,
        name: u64,
        order: &Order,
        (at, next): (u64, u64),
        data: Option<&Arc<Vec<u8>>>,
    ) {
        let first = at / PAGE;
        let span = Span::new(first, (next.div_ceil(PAGE) - first) as u32);
        let fua = match order.command {
            Command::Read => {
                let id = self.new_request(name, span, Payload::Read);
                return self.tell(Event::Read { id, span });
            }
            Command::Write { fua } | Command::WriteZeroes { fua, .. } => fua,
            Command::Flush | Command::Discard => false,
        };
        let fua = fua && !planted!(FuaAsPlain);
        let range = (at - order.offset) as usize..(next - order.offset) as usize;
        let bytes = data.map(|data| Bytes { data: Arc::clone(data), range });
        let length = (next - at) as usize;
        if at % PAGE != 0 || next % PAGE != 0 {
            let old = vec![0; span.blocks as usize * PAGE_BYTES];
            let new = bytes.unwrap_or_else(|| Bytes::all(vec![0; length]));
            let at = (at % PAGE) as usize;
            let id = self.new_request(name, span, Payload::Part { old, new, at });
            return self.tell(Event::WritePart { id, span, fua });
        }
        let (content, payload, sums) = match bytes {
            Some(bytes) => {
                let sums = sums(self.id, first, bytes.get());
                (Content::Data, Payload::Data(bytes), sums)
            }
            None => (Content::Zeros, Payload::Zeros, sums(self.id, first, &vec![0; length])),
        };
        let id = self.new_request(name, span, payload);
        self.tell(Event::Write { id, span, content, fua, sums: &sums });
    }

    pub(super) fn check(&self, offset: u64, bytes: u32) -> Result<(), Refusal> {
        let end = offset.checked_add(u64::from(bytes));
        if end.is_some_and(|end| end <= self.limits.capacity.0) {
            Ok(())
        } else {
            Err(Refusal::BeyondEnd)
        }
    }
}

//! The engine of a served mirror: does what the protocol's core decides.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use mirror::core::{self, Action, Config, Core, Event, HostId, IoError, Opened, Piece, Source};
use mirror::format::record::Record;
use mirror::format::{Geometry, Layout, PAGE_BYTES, PageAddress};
use mirror::policy::lag::LagRules;
use mirror::policy::running::Running;
use mirror::{DEVICES, Slot, Span};
use sim::{Bytes as Size, Limits, Nanos, Op};

use super::device::PAGE;
use super::history::History;
use super::media::{Devices, layout_of, meta_pages};
use super::orders::Orders;
use super::room::Room;
use super::troubles::{About, Troubles};
#[cfg(test)]
use super::work::Outcome;
use super::work::{Bytes, Done, Work};
use super::worker::Workers;
use crate::clock::Wall;
use crate::order::{Command, Order, Refusal, Reply, Timing};

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
    orders: Orders,
    merges: VecDeque<HostId>,
    replies: Vec<Reply>,
    pub(super) notices: Vec<String>,
    troubles: Troubles,
    running: Running,
    /// The time that it ran: what the core is told.
    pub(super) latest: Nanos,
    /// Requests that the devices have done.
    requests_done: u64,
    stop_wanted: bool,
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
        let (id, geometry, sums) = (devices.array, devices.geometry, devices.sums);
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
            workers: Workers::new(devices.slots, sums)?,
            history: History::new(latest),
            room: Room::default(),
            orders: Orders::new(sums),
            merges: VecDeque::new(),
            replies: Vec::new(),
            notices: devices.notes,
            troubles: Troubles::default(),
            running,
            latest,
            requests_done: 0,
            stop_wanted: false,
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

    /// Begin to stop in order, once the core has been given all that was begun:
    /// [`MirrorEngine::over`] says when that is done.
    pub(super) fn stop(&mut self) {
        self.stop_wanted = true;
        self.act();
    }

    /// Stopped in order, or beyond hope.
    pub(super) fn over(&self) -> bool {
        self.stopped || self.failed
    }

    /// Requests that the devices have done since the start.
    pub(super) fn requests_done(&self) -> u64 {
        self.requests_done
    }

    /// Every leg has failed.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    /// In tests: reads, pieces and orders that are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> [usize; 3] {
        self.orders.kept()
    }

    pub(super) fn done(&mut self, Done { medium, io, outcome }: Done) {
        let span = self.core.span_of(io);
        #[cfg(test)]
        let outcome = self.spoilt(medium.slot, span, outcome);
        match outcome {
            Ok((bytes, sums)) => {
                self.requests_done += 1;
                if !sums.is_empty() {
                    self.orders.keep(io, bytes);
                }
                self.tell(Event::Done { io, result: Ok(&sums) });
            }
            Err(why) => {
                match span {
                    Some(span) => self.trouble(About::Failed(medium.slot, why.to_string()), span),
                    None => {
                        let why = why.to_string();
                        let line = self.troubles.request(self.latest, medium.slot, why);
                        self.notices.extend(line);
                    }
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
            if let Some(id) = self.merges.pop_front() {
                let Some(sums) = self.orders.merge(id) else { continue };
                self.core.handle(self.latest, Event::Merged { id, sums: &sums });
            } else if let Some(piece) = self.orders.more() {
                self.core.handle(self.latest, piece.event());
            } else if self.stop_wanted && self.orders.all_given() {
                self.stop_wanted = false;
                self.core.handle(self.latest, Event::Command(core::Command::Stop));
            } else {
                return;
            }
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
                let work = match self.orders.content(from, span.blocks) {
                    // It may be tried again, so it must not cost what was written before.
                    Some(bytes) if fua => Work::WriteAndFlush { page, bytes },
                    Some(bytes) => Work::Write { page, bytes, durable: false },
                    None => {
                        let (pages, keep) = (span.blocks.into(), self.orders.keeps_room(from));
                        Work::Zero { page, pages, durable: fua, keep }
                    }
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
                self.orders.deliver(id, offset, blocks, from);
            }
            Action::Merge { id } => self.merges.push_back(id),
            Action::Reply { id, result } => {
                if let Some(done) = self.orders.reply(id, result.is_ok()) {
                    self.answer(done.order, done.arrived, done.result);
                }
            }
            Action::Free { id } => self.orders.forget_request(id),
            Action::Drop { io } => self.orders.forget_read(io),
            Action::Notice(notice) => self.notice(notice),
            Action::Stopped => self.stopped = true,
        }
    }

    fn record(&self, slot: Slot, page: u64, record: &Record, payload: &[Piece]) -> Work {
        let page = self.layouts[slot].log + page;
        let place = PageAddress { device: slot as u8, page };
        let mut bytes = record.encode(self.id, place).to_vec();
        for piece in payload {
            match self.orders.content(Source::Host { id: piece.id, offset: 0 }, piece.span.blocks) {
                Some(data) => bytes.extend_from_slice(data.get()),
                None => bytes.resize(bytes.len() + piece.span.blocks as usize * PAGE_BYTES, 0),
            }
        }
        Work::Write { page, bytes: Bytes::all(bytes), durable: true }
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

    /// Begin an order: `data` is what a write writes, `None` for zeros.
    pub(super) fn begin(&mut self, arrived: Wall, order: Order, data: Option<Vec<u8>>) {
        let Some(pieces) = self.orders.begin(arrived, order, data) else {
            return self.answer(order, arrived, Ok(Vec::new()));
        };
        for piece in &pieces {
            self.tell(piece.event());
        }
        self.act();
    }
}

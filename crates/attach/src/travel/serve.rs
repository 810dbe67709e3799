//! The one thread that has the clock: it serves the guest's calendar and its disks.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::inotify;
use sim::{Counters, Digest, Nanos};
use study::Failure;

use crate::clock::Wall;
use crate::order::{Refusal, Reply};
use crate::poll::{Event, Interest, Poll};
use crate::shared_state::SharedState;
use crate::signals::Signals;
use crate::vhost_user::backend::{Answer, Backend, Passed};
use crate::vhost_user::inbox::{Filled, Inbox};
use crate::vhost_user::message::{CALL_REPLY_BYTES, Malformed, check_call_reply, vring_call};

use super::calendar::{Calendar, MESSAGE_BYTES, Message, Next};
use super::faults::Faults;
use super::free_cpu::FreeCpu;
use super::guest;
use super::phases::Phases;
use super::plan;
use super::standstill::Standstill;

const LISTEN_CALENDAR: u64 = 1;
const CALENDAR: u64 = 2;
const MARKS: u64 = 3;
const STOP: u64 = 4;
const CHILD: u64 = 5;
/// From here on: listener, connection and channel of each disk.
const DISKS: u64 = 16;
const PER_DISK: u64 = 4;

/// One disk and its sockets.
struct Disk {
    backend: Backend,
    listener: UnixListener,
    connection: Option<UnixStream>,
    channel: Option<UnixStream>,
    inbox: Inbox,
    /// Calls that it has not answered.
    calls: u32,
}

/// Why serving ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The guest is gone.
    GuestGone,
    /// The guest boots a second time.
    Rebooted,
    /// The guest's kernel cannot tell an elevator who asks.
    OldKernel,
    /// Somebody wants it to end.
    Interrupted,
    /// The guest sleeps for ever.
    Deadlock,
    /// The virtual time that was given has passed.
    Limit,
    /// It computes while its time stands still.
    Computes,
    /// There is no room for the data of this disk.
    NoRoom(usize),
}

/// Calendar, disks, and everything that wakes them.
pub(super) struct Server {
    calendar: Calendar,
    calendar_listener: UnixListener,
    guest: Option<UnixStream>,
    /// The beginning of a message whose rest has not come.
    partial: Vec<u8>,
    /// Messages for the guest, sent all at once before its next ones are read.
    outbox: Vec<u8>,
    pub(super) shared: SharedState,
    disks: Vec<Disk>,
    poll: Poll,
    events: Vec<Event>,
    replies: Vec<Reply>,
    calls: Vec<u32>,
    marks: OwnedFd,
    pub(super) signals: Signals,
    pub(super) phases: Vec<Phases>,
    pub(super) free_cpu: FreeCpu,
    standstill: Standstill,
    pub(super) faults: Faults,
    pub(super) digest: Digest,
    ended: Option<End>,
}

fn broken(why: Malformed) -> Failure {
    Failure::bug(format!("the guest broke the protocol: {why}"))
}

fn unusable(why: impl std::fmt::Display) -> Failure {
    Failure::machine(format!("cannot serve the guest: {why}"))
}

impl Server {
    /// Listen for a guest on sockets in `folder`; its time ends at `limit`, and it may compute for
    /// `compute_limit` while its time stands still. The devices that are `elevators` get whole
    /// bios.
    pub(super) fn new(
        shared: SharedState,
        elevators: &[bool],
        (folder, control): (&Path, &Path),
        (limit, compute_limit): (Nanos, config::Duration),
    ) -> Result<Server, Failure> {
        let poll = Poll::new()?;
        let listen = |name: &str, token| -> Result<UnixListener, Failure> {
            let listener = UnixListener::bind(folder.join(name)).map_err(unusable)?;
            poll.add(&listener, token, Interest::READ).map_err(unusable)?;
            Ok(listener)
        };
        let calendar_listener = listen(guest::CALENDAR, LISTEN_CALENDAR)?;
        let mut all = Vec::new();
        for (index, (export, elevator)) in shared.exports.iter().zip(elevators).enumerate() {
            let token = DISKS + index as u64 * PER_DISK;
            let (limits, read_only) = (*export.engine.limits(), export.read_only);
            let backend =
                Backend::new(index as u32, &export.identity.serial, limits, 1, read_only, true);
            let offered =
                |plain: Backend| if *elevator { plain.offer_submitters() } else { Ok(plain) };
            let backend = backend.and_then(offered).map_err(broken)?;
            all.push(Disk {
                backend: backend.presents(&export.identity),
                listener: listen(&guest::socket(index), token)?,
                connection: None,
                channel: None,
                inbox: Inbox::new(),
                calls: 0,
            });
        }
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let marks = inotify::init(flags).map_err(unusable)?;
        inotify::add_watch(&marks, control, inotify::WatchFlags::CREATE).map_err(unusable)?;
        poll.add(&marks, MARKS, Interest::READ).map_err(unusable)?;
        let signals = Signals::new(&poll, STOP, CHILD)?;
        let phases = shared.exports.iter().map(|_| Phases::default()).collect();
        Ok(Server {
            calendar: Calendar::with_limit(limit),
            calendar_listener,
            guest: None,
            partial: Vec::new(),
            outbox: Vec::new(),
            shared,
            disks: all,
            poll,
            events: Vec::new(),
            replies: Vec::new(),
            calls: Vec::new(),
            marks,
            signals,
            phases,
            free_cpu: FreeCpu::default(),
            standstill: Standstill::new(std::time::Duration::from_nanos(compute_limit.0.0)),
            faults: Faults::new(Vec::new()),
            digest: Digest::default(),
            ended: None,
        })
    }

    /// The present moment.
    pub(super) fn now(&self) -> Nanos {
        self.calendar.now()
    }

    /// Serve until the guest is gone. `tick` is called now and then; true when the guest's process
    /// has ended.
    pub(super) fn serve(&mut self, mut tick: impl FnMut(&Signals) -> bool) -> Result<End, Failure> {
        /// What lies between two ticks, which cost some system calls. A turn takes 10 us, or up to
        /// 100 ms of a guest that computes.
        const TICK: std::time::Duration = std::time::Duration::from_millis(20);
        let mut ticked = std::time::Instant::now();
        loop {
            if ticked.elapsed() > TICK {
                if tick(&self.signals) {
                    return Ok(End::GuestGone);
                }
                ticked = std::time::Instant::now();
            }
            if let Some(end) = self.ended {
                return Ok(end);
            }
            match self.calendar.next(self.next_due()) {
                Next::Listen => self.listen(&mut tick)?,
                Next::Devices(at) => self.devices(at, &mut tick)?,
                Next::Guest(at) => {
                    let due = self.next_due();
                    let messages = self.calendar.run(at, due);
                    self.queue(messages);
                }
                Next::Deadlock => return Ok(End::Deadlock),
                Next::Limit => return Ok(End::Limit),
            }
        }
    }

    /// When the next device has something to do.
    fn next_due(&self) -> Option<Nanos> {
        let mut earliest = Wall::NEVER;
        for (export, disk) in self.shared.exports.iter().zip(&self.disks) {
            let due = if disk.backend.has_immediate() { Wall(0) } else { export.engine.next_due() };
            earliest = earliest.min(due);
        }
        let devices = (earliest != Wall::NEVER).then_some(Nanos(earliest.0));
        let due = devices.into_iter().chain(self.faults.due()).min();
        due.map(|at| at.max(self.calendar.now()))
    }

    fn queue(&mut self, messages: impl IntoIterator<Item = Message>) {
        self.outbox.extend(messages.into_iter().flat_map(|message| message.bytes()));
    }

    /// Send the queued messages. Each time costs the guest a scheduling turn.
    fn send(&mut self) {
        if let Some(guest) = &mut self.guest
            && !self.outbox.is_empty()
            && guest.write_all(&self.outbox).is_err()
        {
            self.ended = Some(End::GuestGone);
        }
        self.outbox.clear();
    }

    /// Wait for something, and take it.
    fn listen(&mut self, tick: &mut impl FnMut(&Signals) -> bool) -> Result<(), Failure> {
        /// A guest may compute for long; its output is looked at meanwhile.
        const LOOK_EVERY_NS: u64 = 100_000_000;
        self.send();
        self.poll.wait(LOOK_EVERY_NS, &mut self.events);
        if self.events.is_empty() {
            let (now, cpu) = (self.calendar.now(), &self.free_cpu);
            if tick(&self.signals) {
                self.ended = Some(End::GuestGone);
            } else if self.standstill.is_over(now, || cpu.so_far_s()) {
                self.ended = Some(End::Computes);
            }
        }
        let mut events = std::mem::take(&mut self.events);
        // A mark was made before anything the guest says afterwards, and its time comes before
        // what it asks of a disk.
        events.sort_unstable_by_key(|event| (event.token != MARKS, event.token));
        for &event in &events {
            match event.token {
                LISTEN_CALENDAR => self.accept_guest()?,
                CALENDAR => self.read_calendar()?,
                MARKS => self.marked(),
                STOP if self.signals.take_stop() => self.ended = Some(End::Interrupted),
                STOP => {}
                CHILD => {
                    if self.signals.take_child() && tick(&self.signals) {
                        self.ended = Some(End::GuestGone);
                    }
                }
                token => {
                    let index = ((token - DISKS) / PER_DISK) as usize;
                    match (token - DISKS) % PER_DISK {
                        0 => self.connect(index)?,
                        1 => self.asked(index)?,
                        _ => self.answered(index)?,
                    }
                }
            }
        }
        self.events = events;
        Ok(())
    }

    fn accept_guest(&mut self) -> Result<(), Failure> {
        let (stream, _) = self.calendar_listener.accept().map_err(unusable)?;
        if self.guest.is_some() {
            self.ended = Some(End::Rebooted);
            return Ok(());
        }
        self.poll.add(&stream, CALENDAR, Interest::READ).map_err(unusable)?;
        self.guest = Some(stream);
        Ok(())
    }

    fn connect(&mut self, index: usize) -> Result<(), Failure> {
        let (stream, _) = self.disks[index].listener.accept().map_err(unusable)?;
        let token = DISKS + index as u64 * PER_DISK + 1;
        self.poll.add(&stream, token, Interest::READ).map_err(unusable)?;
        self.disks[index].connection = Some(stream);
        Ok(())
    }

    /// Read the guest's messages to the calendar.
    fn read_calendar(&mut self) -> Result<(), Failure> {
        let Some(guest) = &mut self.guest else { return Ok(()) };
        let mut buffer = [0; 64 * MESSAGE_BYTES];
        let kept = self.partial.len();
        buffer[..kept].copy_from_slice(&self.partial);
        let bytes = match guest.read(&mut buffer[kept..]) {
            Ok(0) => {
                self.ended = Some(End::GuestGone);
                return Ok(());
            }
            Ok(bytes) => kept + bytes,
            Err(why) if why.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(_) => {
                self.ended = Some(End::GuestGone);
                return Ok(());
            }
        };
        let whole = buffer[..bytes].chunks_exact(MESSAGE_BYTES);
        self.partial.clear();
        self.partial.extend(whole.remainder());
        for message in whole {
            let message = Message::parse(message.try_into().expect("chunks of a message"));
            let answer = self.calendar.take(message).map_err(broken)?;
            if message.is_update() {
                self.look_ahead()?;
            }
            self.queue(answer);
        }
        Ok(())
    }

    /// The guest is about to kick, and its queue is filled: with the requests taken now, what it
    /// has to know of them comes along with the answer, which saves a turn.
    fn look_ahead(&mut self) -> Result<(), Failure> {
        let now = Wall(self.calendar.now().0);
        self.faults.apply(self.calendar.now(), &mut self.shared.exports);
        for disk in &mut self.disks {
            disk.backend.kicked(0, now, &mut self.shared).map_err(broken)?;
        }
        self.note_busy();
        let due = self.next_due();
        let moved = self.calendar.moved(due);
        self.queue(moved);
        Ok(())
    }

    fn marked(&mut self) {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.marks, &mut buffer);
        let mut marks = Vec::new();
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
            match name.as_deref() {
                Some(plan::BEGUN) => marks.push(0),
                Some(plan::ENDED) => marks.push(1),
                Some(plan::SYNCED) => marks.push(2),
                Some(other) => {
                    let at = other.strip_prefix(plan::BEGUN_AT).and_then(|ns| ns.parse().ok());
                    at.into_iter().for_each(|ns| self.faults.begin(Nanos(ns)));
                }
                None => {}
            }
        }
        for mark in marks {
            self.free_cpu.mark(mark);
            self.end_phase(mark + 1);
        }
    }

    /// Put away what was measured so far; `next` begins.
    pub(super) fn end_phase(&mut self, next: usize) {
        let now = self.now();
        for (export, phases) in self.shared.exports.iter_mut().zip(&mut self.phases) {
            let mut counters = Counters::default();
            export.engine.device().counters(&mut counters);
            phases.end(now, std::mem::take(export.engine.statistics()), counters, next);
        }
    }

    /// Requests have come or gone.
    fn note_busy(&mut self) {
        let now = self.now();
        for (export, phases) in self.shared.exports.iter().zip(&mut self.phases) {
            phases.set_busy(now, export.engine.in_flight() > 0);
        }
    }

    /// Take what a disk is asked.
    fn asked(&mut self, index: usize) -> Result<(), Failure> {
        let disk = &mut self.disks[index];
        let Some(connection) = &disk.connection else { return Ok(()) };
        if disk.inbox.fill(connection).map_err(broken)? == Filled::End {
            // The guest closes its disks when it goes; its calendar ends the session.
            self.poll.remove(connection);
            disk.connection = None;
            disk.backend.disconnected();
            return Ok(());
        }
        // It may wait for the answer to a kick, and goes on by itself when it has it.
        self.catch_up()?;
        while let Some((header, message, files)) = self.disks[index].inbox.next().map_err(broken)? {
            let disk = &mut self.disks[index];
            let (answer, passed) = disk.backend.take(message, files).map_err(broken)?;
            if disk.backend.misses_submitters() {
                self.ended = Some(End::OldKernel);
            }
            if let Some(Passed::Channel(file)) = passed {
                let stream = UnixStream::from(OwnedFd::from(file));
                let token = DISKS + index as u64 * PER_DISK + 2;
                self.poll.add(&stream, token, Interest::READ).map_err(unusable)?;
                disk.channel = Some(stream);
            }
            let payload = match answer {
                Answer::Payload(payload) => Some(payload),
                Answer::Kicked(ring) => {
                    self.kicked(index, ring)?;
                    None
                }
                Answer::Done => None,
            };
            let disk = &mut self.disks[index];
            let reply = disk.backend.reply_to(&header, payload);
            if let (Some(reply), Some(connection)) = (reply, &mut disk.connection)
                && connection.write_all(&reply).is_err()
            {
                self.ended = Some(End::GuestGone);
            }
        }
        Ok(())
    }

    /// There is work in a queue. The guest stands still until it has its answer.
    fn kicked(&mut self, index: usize, ring: u32) -> Result<(), Failure> {
        let now = Wall(self.calendar.now().0);
        self.faults.apply(self.calendar.now(), &mut self.shared.exports);
        let (disk, shared) = (&mut self.disks[index], &mut self.shared);
        let taken = disk.backend.kicked(ring, now, shared);
        taken.map_err(broken)?;
        self.note_busy();
        // It may go on by itself, so it must know of an earlier event before it does.
        let due = self.next_due();
        if let Some(message) = self.calendar.moved(due) {
            self.queue([message]);
            self.wait_acknowledged()?;
        }
        Ok(())
    }

    /// Serve the calendar alone until the guest has acknowledged every message.
    fn wait_acknowledged(&mut self) -> Result<(), Failure> {
        self.send();
        while !self.calendar.is_acknowledged() && self.ended.is_none() {
            self.read_calendar()?;
        }
        Ok(())
    }

    /// Have the guest read every message.
    fn catch_up(&mut self) -> Result<(), Failure> {
        if self.calendar.is_ahead() {
            let due = self.next_due();
            let message = self.calendar.catch_up(due);
            self.queue([message]);
        }
        self.wait_acknowledged()?;
        self.calendar.caught_up();
        Ok(())
    }

    /// Let the devices do what is due at `at`, and call the guest.
    fn devices(
        &mut self,
        at: Nanos,
        tick: &mut impl FnMut(&Signals) -> bool,
    ) -> Result<(), Failure> {
        self.calendar.advance(at);
        self.faults.apply(at, &mut self.shared.exports);
        let wall = Wall(at.0);
        for index in 0..self.disks.len() {
            self.device(index, wall)?;
            self.note_busy();
            let mut calls = std::mem::take(&mut self.calls);
            for ring in calls.drain(..) {
                self.call(index, ring, tick)?;
            }
            self.calls = calls;
        }
        Ok(())
    }

    fn device(&mut self, index: usize, wall: Wall) -> Result<(), Failure> {
        let (disk, shared) = (&mut self.disks[index], &mut self.shared);
        disk.backend.finish_immediate(&mut self.calls).map_err(broken)?;
        let engine = &mut shared.exports[index].engine;
        if engine.next_due() > wall {
            return Ok(());
        }
        engine.advance(wall, &mut self.replies);
        engine.tidy();
        for reply in self.replies.drain(..) {
            let (order, timing) = (&reply.order, &reply.timing);
            for value in [
                index as u64,
                timing.op as u64,
                order.offset,
                u64::from(order.bytes),
                timing.arrived.0,
                timing.due.0,
            ] {
                self.digest.add(value);
            }
            if matches!(reply.result, Err(Refusal::NoSpace)) {
                self.ended = Some(End::NoRoom(index));
            }
            engine.statistics().replied(timing, reply.moved(), wall);
            let (pool, budget) = (&mut shared.pool, &mut shared.budget);
            disk.backend.reply(reply, pool, budget, &mut self.calls).map_err(broken)?;
        }
        Ok(())
    }

    /// Tell the guest that a queue has something for it, and wait until it knows. Meanwhile it
    /// asks the calendar when its interrupt may run.
    fn call(
        &mut self,
        index: usize,
        ring: u32,
        tick: &mut impl FnMut(&Signals) -> bool,
    ) -> Result<(), Failure> {
        // A signal must not reach the guest while it waits for an answer.
        self.wait_for_call_answers(tick)?;
        self.catch_up()?;
        let disk = &mut self.disks[index];
        let Some(channel) = &mut disk.channel else { return Ok(()) };
        self.calendar.interrupt();
        if channel.write_all(&vring_call(ring)).is_err() {
            return Ok(());
        }
        disk.calls += 1;
        // Its answer to the call itself says nothing new when it has planned its interrupt.
        while self.disks[index].calls > 0 && !self.calendar.is_interrupted() && self.ended.is_none()
        {
            self.listen(tick)?;
        }
        Ok(())
    }

    /// Send every answer, and wait for the guest's answer to every call.
    fn wait_for_call_answers(
        &mut self,
        tick: &mut impl FnMut(&Signals) -> bool,
    ) -> Result<(), Failure> {
        self.send();
        while self.disks.iter().any(|disk| disk.calls > 0) && self.ended.is_none() {
            self.listen(tick)?;
        }
        Ok(())
    }

    fn answered(&mut self, index: usize) -> Result<(), Failure> {
        let disk = &mut self.disks[index];
        let Some(channel) = &mut disk.channel else { return Ok(()) };
        let mut answer = [0; CALL_REPLY_BYTES];
        match channel.read_exact(&mut answer) {
            Ok(()) => check_call_reply(&answer).map_err(broken)?,
            Err(_) => {
                // The guest closed it: it is going.
                self.poll.remove(channel);
                disk.channel = None;
                disk.calls = 1;
            }
        }
        disk.calls = disk.calls.saturating_sub(1);
        Ok(())
    }
}

//! One client: its socket, what came from it, what goes to it.

use std::io;
use std::os::fd::OwnedFd;

use crate::clock::Wall;
use crate::order::{Command, Order, Refusal, Reply, Ticket};
use crate::poll::{Interest, Poll};
use crate::shared_state::{Budget, SharedState};
use crate::target::Target;

use super::handshake::ExportInfo;
use super::machine::{Ask, Machine, Parsed, Request};
use super::out::Out;

/// Room for what came in: little until a client shows that it needs much.
const INPUT_MIN: usize = 16 << 10;
const INPUT_MAX: usize = 256 << 10;
/// Receives before the next client has its turn.
const TURNS: usize = 4;
/// Requests of one client that are answered at a time.
const REQUESTS_MAX: usize = 4096;
/// Bytes that one client may have coming to it.
const OWED_MAX: u64 = 64 << 20;
/// What a request costs besides its data, here, in the engine and in the device.
const REQUEST_BYTES: u64 = 512;
/// Extents in one answer.
const EXTENTS_MAX: usize = 1024;

/// Whether a connection goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Lives,
    Ends,
}

pub(super) struct Connection<S> {
    socket: OwnedFd,
    token: u64,
    number: u32,
    pub(super) generation: u32,
    machine: Machine,
    /// Empty while nothing has come: most clients are idle most of the time.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// How much is read at a time.
    wanted: usize,
    /// What of the budget the input takes.
    kept: u64,
    out: Out,
    /// The write whose data is coming.
    sink: Option<(Request, S)>,
    /// A request that waits for room for its reply.
    waiting: Option<Request>,
    in_flight: usize,
    /// Promised to replies that are not in `out` yet.
    promised: u64,
    watched: Interest,
    /// When it came.
    pub(super) began: Wall,
    /// It needs [`Connection::flush`].
    pub(super) dirty: bool,
}

impl<S> Connection<S> {
    pub(super) fn new(
        socket: OwnedFd,
        token: u64,
        number: u32,
        generation: u32,
        shared: &mut SharedState<impl Target<Sink = S>>,
        poll: &Poll,
    ) -> io::Result<Connection<S>> {
        poll.add(&socket, token, Interest::READ)?;
        let mut out = Out::default();
        let machine = out.append(&mut shared.pool, Machine::new);
        shared.budget.add(out.len() as u64);
        Ok(Connection {
            socket,
            token,
            number,
            generation,
            machine,
            input: Vec::new(),
            start: 0,
            end: 0,
            wanted: INPUT_MIN,
            kept: 0,
            began: shared.clock.now(),
            out,
            sink: None,
            waiting: None,
            in_flight: 0,
            promised: 0,
            watched: Interest::READ,
            dirty: true,
        })
    }

    /// True when it holds back input until there is room for a reply.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// True when it is not read, because there is no room for replies.
    pub(super) fn is_paused(&self, budget: &Budget) -> bool {
        self.waiting.is_some() || self.owes_much(budget)
    }

    /// A client that asks and never reads is not read either.
    fn owes_much(&self, budget: &Budget) -> bool {
        let owed = self.out.len() as u64;
        owed > OWED_MAX || !budget.is_fair(owed)
    }

    /// True when client and server have agreed on an export.
    pub(super) fn agreed(&self) -> bool {
        self.machine.agreed()
    }

    /// Whether there is a place for it once it has come to an agreement.
    pub(super) fn set_full(&mut self, full: bool) {
        self.machine.set_full(full);
    }

    /// True when the client has chosen `export`.
    pub(super) fn uses(&self, export: usize) -> bool {
        self.machine.agreed() && self.machine.agreement().export == export
    }

    /// The socket has something.
    pub(super) fn receive(
        &mut self,
        exports: &[ExportInfo],
        shared: &mut SharedState<impl Target<Sink = S>>,
    ) -> Fate {
        for _ in 0..TURNS {
            if self.is_paused(&shared.budget) {
                break;
            }
            self.take_room(shared);
            let room = &mut self.input[self.end..];
            let wanted = room.len();
            let got = match rustix::io::read(&self.socket, room) {
                Ok(0) => return Fate::Ends,
                Ok(got) => got,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return Fate::Ends,
            };
            self.end += got;
            let arrived = shared.clock.now();
            if self.process(arrived, exports, shared) == Fate::Ends {
                return Fate::Ends;
            }
            if got < wanted {
                break;
            }
            // There was more than room for it, so there will be next time.
            self.wanted = INPUT_MAX;
        }
        self.give_room(shared);
        Fate::Lives
    }

    /// Have room to read into.
    fn take_room(&mut self, shared: &mut SharedState<impl Target<Sink = S>>) {
        let fits = shared.budget.is_fair(INPUT_MAX as u64);
        let bytes = match self.end == self.input.len() && self.end > 0 {
            // What came in is one long message.
            true => INPUT_MAX,
            false if fits => self.wanted,
            false => INPUT_MIN,
        };
        self.resize_input(bytes.max(self.input.len()), shared);
    }

    /// Keep no more room than what has come in needs.
    fn give_room(&mut self, shared: &mut SharedState<impl Target<Sink = S>>) {
        let bytes = match self.end {
            0 => 0,
            1..=INPUT_MIN => INPUT_MIN,
            _ => INPUT_MAX,
        };
        self.resize_input(bytes, shared);
        let kept = self.input.len().saturating_sub(INPUT_MIN) as u64;
        shared.budget.add(kept);
        shared.budget.release(std::mem::replace(&mut self.kept, kept));
    }

    fn resize_input(&mut self, bytes: usize, shared: &mut SharedState<impl Target<Sink = S>>) {
        if self.input.len() == bytes {
            return;
        }
        let mut input = if bytes > 0 { shared.pool.take(bytes) } else { Vec::new() };
        input[..self.end].copy_from_slice(&self.input[..self.end]);
        shared.pool.put(std::mem::replace(&mut self.input, input));
    }

    /// Work through what came in.
    fn process(
        &mut self,
        arrived: Wall,
        exports: &[ExportInfo],
        shared: &mut SharedState<impl Target<Sink = S>>,
    ) -> Fate {
        loop {
            if let Some(request) = self.waiting.take()
                && !self.begin(arrived, request, shared)
            {
                break;
            }
            let (machine, input) = (&mut self.machine, &self.input[self.start..self.end]);
            let before = self.out.len();
            let step = self.out.append(&mut shared.pool, |out| machine.step(input, exports, out));
            let answered = self.out.len() - before;
            shared.budget.add(answered as u64);
            self.dirty |= answered > 0;
            match step {
                Parsed::Need => break,
                Parsed::Used(bytes) | Parsed::Agreed(bytes) => self.start += bytes,
                Parsed::Request(bytes, request) => {
                    self.start += bytes;
                    self.waiting = Some(request);
                }
                Parsed::Payload { bytes, complete } => {
                    self.payload(arrived, bytes, complete, shared)
                }
                Parsed::Over => {
                    // An answer may still be on its way.
                    let sent = self.out.send(&self.socket, &mut shared.pool).unwrap_or(0);
                    shared.budget.release(sent as u64);
                    return Fate::Ends;
                }
            }
            if self.owes_much(&shared.budget) {
                break;
            }
        }
        self.make_room();
        Fate::Lives
    }

    /// Move what is left to the front.
    fn make_room(&mut self) {
        self.input.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }

    /// Start on a request; false when there is no room for its reply yet.
    fn begin(
        &mut self,
        arrived: Wall,
        request: Request,
        shared: &mut SharedState<impl Target<Sink = S>>,
    ) -> bool {
        let cost = cost(&request);
        let owed = self.promised + self.out.len() as u64;
        let room = self.in_flight < REQUESTS_MAX && (owed == 0 || owed + cost <= OWED_MAX);
        if !room || !shared.budget.share(owed, cost) {
            self.waiting = Some(request);
            return false;
        }
        self.promised += cost;
        self.in_flight += 1;
        match request.ask {
            Ask::Write => {
                let export = self.machine.agreement().export;
                let engine = &mut shared.exports[export].engine;
                match engine.begin_write(request.offset, request.bytes) {
                    Ok(sink) => self.sink = Some((request, sink)),
                    Err(why) => {
                        self.release_promise(cost, shared);
                        self.machine.refuse_payload(&request, why);
                    }
                }
            }
            Ask::BlockStatus => {
                self.release_promise(cost, shared);
                self.block_status(&request, shared);
            }
            _ => self.submit(arrived, &request, None, shared),
        }
        true
    }

    /// A promised reply is no longer one.
    fn release_promise(&mut self, cost: u64, shared: &mut SharedState<impl Target<Sink = S>>) {
        self.promised -= cost;
        self.in_flight -= 1;
        shared.budget.release(cost);
    }

    fn submit(
        &mut self,
        arrived: Wall,
        request: &Request,
        sink: Option<S>,
        shared: &mut SharedState<impl Target<Sink = S>>,
    ) {
        let command = match request.ask {
            Ask::Read => Command::Read,
            Ask::Write => Command::Write { fua: request.fua },
            Ask::Trim => Command::Discard,
            Ask::WriteZeroes => {
                Command::WriteZeroes { fua: request.fua, may_discard: !request.no_hole }
            }
            Ask::Flush | Ask::BlockStatus => Command::Flush,
        };
        let ticket =
            Ticket { connection: self.number, generation: self.generation, tag: request.cookie };
        let offset = if request.ask == Ask::Flush { 0 } else { request.offset };
        let order = Order::new(ticket, command, offset, request.bytes);
        let engine = &mut shared.exports[self.machine.agreement().export].engine;
        engine.submit(arrived, order, sink, &mut shared.pool);
    }

    fn payload(
        &mut self,
        arrived: Wall,
        bytes: usize,
        complete: bool,
        shared: &mut SharedState<impl Target<Sink = S>>,
    ) {
        let piece = &self.input[self.start..self.start + bytes];
        self.start += bytes;
        let Some((request, mut sink)) = self.sink.take() else { return };
        let engine = &mut shared.exports[self.machine.agreement().export].engine;
        engine.write(&mut sink, piece, &mut shared.pool);
        if complete {
            // What was kept of it is with the device now, unless that has only the memory it is in.
            if !engine.keeps_writes() {
                self.promised -= u64::from(request.bytes);
                shared.budget.release(u64::from(request.bytes));
            }
            self.submit(arrived, &request, Some(sink), shared);
        } else {
            self.sink = Some((request, sink))
        }
    }

    /// Where the data is takes the device no time.
    fn block_status(&mut self, request: &Request, shared: &mut SharedState<impl Target<Sink = S>>) {
        let most = if request.one_extent { 1 } else { EXTENTS_MAX };
        let engine = &mut shared.exports[self.machine.agreement().export].engine;
        let found = engine.extents(request.offset, u64::from(request.bytes), most);
        let (machine, cookie) = (&self.machine, request.cookie);
        put(&mut self.out, shared, |out| match found {
            Ok(extents) => machine.block_status(cookie, &extents, out),
            Err(_) => machine.done(cookie, Err(Refusal::Io), out),
        });
        self.dirty = true;
    }

    /// An answer of the engine.
    pub(super) fn reply(&mut self, reply: Reply, shared: &mut SharedState<impl Target<Sink = S>>) {
        let Order { command, offset, bytes, ticket, .. } = reply.order;
        let is_read = command == Command::Read;
        let engine = &shared.exports[self.machine.agreement().export].engine;
        self.release_promise(kept_for(&reply.order, engine), shared);
        let (machine, cookie) = (&self.machine, ticket.tag);
        match reply.result {
            Ok(data) if is_read => {
                put(&mut self.out, shared, |out| machine.before_data(cookie, offset, bytes, out));
                shared.budget.add(data.len() as u64);
                self.out.push(data, &mut shared.pool);
            }
            result => {
                put(&mut self.out, shared, |out| machine.done(cookie, result.map(drop), out));
            }
        }
        self.dirty = true;
    }

    /// Send what waits, go on with what came in, and watch for what is needed next.
    pub(super) fn flush(
        &mut self,
        exports: &[ExportInfo],
        shared: &mut SharedState<impl Target<Sink = S>>,
        poll: &Poll,
    ) -> Fate {
        self.dirty = false;
        match self.out.send(&self.socket, &mut shared.pool) {
            Ok(sent) => shared.budget.release(sent as u64),
            Err(_) => return Fate::Ends,
        }
        if !self.owes_much(&shared.budget)
            && (self.waiting.is_some() || self.start < self.end || self.end > 0)
        {
            let arrived = shared.clock.now();
            if self.process(arrived, exports, shared) == Fate::Ends {
                return Fate::Ends;
            }
            self.give_room(shared);
        }
        let wanted = Interest { read: !self.is_paused(&shared.budget), write: self.out.len() > 0 };
        if wanted != self.watched {
            self.watched = wanted;
            if poll.modify(&self.socket, self.token, wanted).is_err() {
                return Fate::Ends;
            }
        }
        Fate::Lives
    }

    /// Forget everything about the client; requests inside are answered to nobody. What the engine
    /// keeps for them is [released](kept_for) when it has answered.
    pub(super) fn close(mut self, shared: &mut SharedState<impl Target<Sink = S>>, poll: &Poll) {
        poll.remove(&self.socket);
        if let Some((request, sink)) = self.sink.take() {
            let engine = &mut shared.exports[self.machine.agreement().export].engine;
            engine.abandon(sink, &mut shared.pool);
            shared.budget.release(cost(&request));
        }
        shared.budget.release(self.kept + self.out.len() as u64);
        shared.pool.put(self.input);
        self.out.clear(&mut shared.pool);
    }
}

fn put(out: &mut Out, shared: &mut SharedState<impl Target>, write: impl FnOnce(&mut Vec<u8>)) {
    let before = out.len();
    out.append(&mut shared.pool, write);
    shared.budget.add((out.len() - before) as u64);
}

/// What is promised for a request that the engine has, until it has answered.
pub(super) fn kept_for(order: &Order, engine: &impl Target) -> u64 {
    let data = match order.command {
        Command::Read => true,
        Command::Write { .. } => engine.keeps_writes(),
        _ => false,
    };
    REQUEST_BYTES + if data { u64::from(order.bytes) } else { 0 }
}

/// What a request promises.
fn cost(request: &Request) -> u64 {
    match request.ask {
        Ask::Read | Ask::Write => REQUEST_BYTES + u64::from(request.bytes),
        _ => REQUEST_BYTES,
    }
}

use super::wire::{self, be16, be32, be64};
use std::os::unix::net::UnixStream;

use super::*;
use crate::clock::Clock;
use crate::data::WriteSink;
use crate::engine::Engine;
use crate::order::Refusal;

fn exports() -> Vec<ExportInfo> {
    let export = |name: &str, read_only| ExportInfo {
        name: name.into(),
        description: "a drive".into(),
        bytes: 1 << 20,
        minimum: 512,
        preferred: 4096,
        maximum: 1 << 20,
        discard: true,
        rotational: false,
        read_only,
    };
    vec![export("a", false), export("b", true)]
}

/// A client at the other end of the state machine.
struct Peer {
    machine: Machine,
    out: Vec<u8>,
}

impl Peer {
    fn new() -> Peer {
        let mut out = Vec::new();
        let machine = Machine::new(&mut out);
        Peer { machine, out }
    }

    /// Feed bytes one by one if need be; every step but `Need` and `Used` is returned.
    fn feed(&mut self, mut input: &[u8]) -> Vec<Parsed> {
        let (exports, mut steps) = (exports(), Vec::new());
        loop {
            let step = self.machine.step(input, &exports, &mut self.out);
            match step {
                Parsed::Need => return steps,
                Parsed::Used(bytes) => input = &input[bytes..],
                Parsed::Agreed(bytes) | Parsed::Request(bytes, _) => {
                    input = &input[bytes..];
                    steps.push(step);
                }
                Parsed::Payload { bytes, .. } => {
                    input = &input[bytes..];
                    steps.push(step);
                }
                Parsed::Over => {
                    steps.push(step);
                    return steps;
                }
            }
        }
    }

    fn option(&mut self, option: u32, data: &[u8]) -> Vec<Parsed> {
        let mut bytes = wire::IHAVEOPT.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.out.clear();
        self.feed(&bytes)
    }

    /// The kinds of the option replies that were sent.
    fn answers(&self) -> Vec<u32> {
        let (mut kinds, mut at) = (Vec::new(), 0);
        while at < self.out.len() {
            assert_eq!(be64(&self.out, at), wire::OPTION_REPLY_MAGIC);
            kinds.push(be32(&self.out, at + 12));
            at += 20 + be32(&self.out, at + 16) as usize;
        }
        kinds
    }

    fn transmitting(structured: bool) -> Peer {
        let mut peer = Peer::new();
        peer.feed(&3u32.to_be_bytes());
        if structured {
            peer.option(wire::option::STRUCTURED_REPLY, b"");
            let mut query = vec![0, 0, 0, 1, b'a', 0, 0, 0, 1, 0, 0, 0, 15];
            query.extend(wire::ALLOCATION.as_bytes());
            peer.option(wire::option::SET_META_CONTEXT, &query);
            assert_eq!(peer.answers(), [wire::answer::META_CONTEXT, wire::answer::ACK]);
        }
        let steps = peer.option(wire::option::GO, &[0, 0, 0, 1, b'a', 0, 0]);
        assert!(matches!(steps[..], [Parsed::Agreed(_)]));
        peer.out.clear();
        peer
    }
}

fn request(kind: u16, flags: u16, offset: u64, bytes: u32) -> Vec<u8> {
    let mut out = wire::REQUEST_MAGIC.to_be_bytes().to_vec();
    out.extend(flags.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(77u64.to_be_bytes());
    out.extend(offset.to_be_bytes());
    out.extend(bytes.to_be_bytes());
    out
}

#[test]
fn the_negotiation_offers_what_there_is() {
    let mut peer = Peer::new();
    assert_eq!(peer.out.len(), 18);
    assert!(peer.feed(&3u32.to_be_bytes()).is_empty());
    peer.option(wire::option::LIST, b"");
    assert_eq!(peer.answers(), [wire::answer::SERVER, wire::answer::SERVER, wire::answer::ACK]);
    peer.option(5, b"");
    assert_eq!(peer.answers(), [wire::answer::UNSUPPORTED], "no TLS");
    peer.option(wire::option::INFO, &[0, 0, 0, 1, b'x', 0, 0]);
    assert_eq!(peer.answers(), [wire::answer::UNKNOWN]);
    for damaged in [&[][..], &[0, 0, 0, 9, b'a'], &[0, 0, 0, 1, b'a', 0, 3, 0]] {
        peer.option(wire::option::GO, damaged);
        assert_eq!(peer.answers(), [wire::answer::INVALID]);
    }
    peer.option(wire::option::SET_META_CONTEXT, &[0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(peer.answers(), [wire::answer::INVALID], "structured replies come first");
    let steps = peer.option(wire::option::GO, &[0, 0, 0, 1, b'b', 0, 0]);
    assert!(matches!(steps[..], [Parsed::Agreed(_)]));
    let agreed = Agreement { export: 1, structured: false, block_status: false };
    assert_eq!(peer.machine.agreement(), agreed);
    let flags = be16(&peer.out, 30);
    assert!(flags & wire::flag::READ_ONLY != 0 && flags & wire::flag::CAN_MULTI_CONN != 0);
}

#[test]
fn one_too_many_is_told_and_may_ask_again() {
    let mut peer = Peer::new();
    peer.feed(&3u32.to_be_bytes());
    peer.machine.set_full(true);
    let go = [0, 0, 0, 1, b'a', 0, 0];
    assert!(peer.option(wire::option::GO, &go).is_empty());
    assert_eq!(peer.answers(), [wire::answer::POLICY]);
    assert!(peer.out.ends_with(wire::FULL));
    assert!(wire::FULL.starts_with(CONNECTIONS_MAX.to_string().as_bytes()));
    peer.machine.set_full(false);
    assert!(matches!(peer.option(wire::option::GO, &go)[..], [Parsed::Agreed(_)]));
    let mut old = Peer::new();
    old.feed(&1u32.to_be_bytes());
    old.machine.set_full(true);
    assert_eq!(old.option(wire::option::EXPORT_NAME, b"a"), [Parsed::Over]);
}

/// A server, and what it works on; its clients' ends are pairs of sockets.
struct Served {
    nbd: Nbd<WriteSink>,
    shared: SharedState<Engine>,
    poll: Poll,
    ends: Vec<UnixStream>,
}

impl Served {
    fn new() -> Served {
        let nbd = Nbd::new(Options::default(), exports());
        let shared = SharedState::new(Vec::new(), Clock::start());
        Served { nbd, shared, poll: Poll::new().unwrap(), ends: Vec::new() }
    }

    fn connect(&mut self) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        self.nbd.admit(theirs.into(), &mut self.shared, &self.poll);
        self.ends.push(ours);
    }

    /// Which of the clients are still there.
    fn there(&self) -> Vec<bool> {
        self.nbd.clients.iter().map(Option::is_some).collect()
    }
}

#[test]
fn who_negotiates_for_too_long_is_let_go_and_who_has_agreed_stays() {
    use std::io::Write;
    let mut served = Served::new();
    (0..3).for_each(|_| served.connect());
    let mut hello = 3u32.to_be_bytes().to_vec();
    hello.extend(wire::IHAVEOPT.to_be_bytes());
    hello.extend([wire::option::EXPORT_NAME.to_be_bytes(), 0u32.to_be_bytes()].concat());
    served.ends[1].write_all(&hello).unwrap();
    let event = Event { token: FIRST_CLIENT + 1, read: true, write: false, hang_up: false };
    served.nbd.ready(event, &mut served.shared, &served.poll);
    let due = Frontend::<Engine>::due(&served.nbd);
    assert!(due >= Wall(NEGOTIATION_NS_MAX) && due != Wall::NEVER);
    let Served { nbd, shared, poll, .. } = &mut served;
    nbd.expire(due.minus(1), shared, poll);
    assert_eq!(served.there(), [true; 3]);
    let Served { nbd, shared, poll, .. } = &mut served;
    nbd.expire(due.plus(NEGOTIATION_NS_MAX), shared, poll);
    assert_eq!(served.there(), [false, true, false]);
    assert_eq!(Frontend::<Engine>::due(&served.nbd), Wall::NEVER);
}

#[test]
fn a_read_whose_client_has_left_takes_its_room_until_the_device_is_done() {
    use std::io::Write;
    const ALL: u64 = 512 << 20;
    for cut in [false, true] {
        let device = Box::new(sim::testing::FixedDelay::new(sim::Nanos(1 << 40), 32));
        let limits = sim::Device::limits(&*device);
        let store = crate::store::Store::memory(limits.capacity).unwrap();
        let line = crate::clock::Timeline { start: sim::Nanos(0), dilation: 1 };
        let engine = Engine::new(device, store, line, 0);
        let block = study::Block::default();
        let identity = crate::identity::Identity::of(&block, &limits, "null", "null");
        let export = Export { name: "a".into(), identity, read_only: false, engine };
        let mut served = Served::new();
        served.shared.exports.push(export);
        served.connect();
        let mut asked = 3u32.to_be_bytes().to_vec();
        asked.extend(wire::IHAVEOPT.to_be_bytes());
        asked.extend([wire::option::EXPORT_NAME.to_be_bytes(), 1u32.to_be_bytes()].concat());
        asked.push(b'a');
        asked.extend(request(wire::command::READ, 0, 0, 1 << 16));
        served.ends[0].write_all(&asked).unwrap();
        let event = Event { token: FIRST_CLIENT, read: true, write: false, hang_up: false };
        let Served { nbd, shared, poll, .. } = &mut served;
        nbd.ready(event, shared, poll);
        let mut replies = Vec::new();
        if cut {
            let cut = shared.exports[0].engine.power_cut(Wall(0)).unwrap();
            assert_eq!(cut.forgotten.len(), 1);
            nbd.power_cut(0, &cut.forgotten, shared, poll);
        } else {
            nbd.end(0, shared, poll);
            assert!(!shared.budget.take(ALL), "the engine has a buffer of it");
            shared.exports[0].engine.advance(Wall(1 << 50), &mut replies);
            assert_eq!(replies.len(), 1);
        }
        replies.drain(..).for_each(|reply| nbd.reply(0, reply, shared));
        assert!(nbd.clients[0].is_none() && shared.budget.take(ALL));
    }
}

/// Nothing but the memory that a write came in, until it is answered: a mirror whose legs hang.
struct Keeps {
    limits: sim::Limits,
    orders: Vec<Order>,
}

impl Target for Keeps {
    type Sink = u64;

    fn limits(&self) -> &sim::Limits {
        &self.limits
    }

    fn begin_write(&mut self, _: u64, _: u32) -> Result<u64, Refusal> {
        Ok(0)
    }

    fn write(&mut self, sink: &mut u64, piece: &[u8], _: &mut crate::buffer_pool::BufferPool) {
        *sink += piece.len() as u64;
    }

    fn abandon(&mut self, _: u64, _: &mut crate::buffer_pool::BufferPool) {}

    fn extents(&mut self, _: u64, _: u64, _: usize) -> std::io::Result<Vec<crate::store::Extent>> {
        Ok(Vec::new())
    }

    fn keeps_writes(&self) -> bool {
        true
    }

    fn submit(
        &mut self,
        _: Wall,
        order: Order,
        sink: Option<u64>,
        _: &mut crate::buffer_pool::BufferPool,
    ) {
        assert_eq!(sink, Some(order.bytes.into()));
        self.orders.push(order);
    }
}

#[test]
fn a_write_that_the_target_keeps_takes_its_room_until_it_is_answered() {
    use std::io::Write;
    const ALL: u64 = 512 << 20;
    let (capacity, block_bytes) = (sim::Bytes(1 << 20), 4096);
    let limits = sim::Limits {
        capacity,
        block_bytes,
        queue_depth_max: 128,
        rotational: false,
        write_cache: true,
        discard: true,
    };
    let block = study::Block::default();
    let identity = crate::identity::Identity::of(&block, &limits, "null", "null");
    let engine = Keeps { limits, orders: Vec::new() };
    let export = Export { name: "a".into(), identity, read_only: false, engine };
    let mut nbd = Nbd::<u64>::new(Options::default(), exports());
    let mut shared = SharedState::new(vec![export], Clock::start());
    let poll = Poll::new().unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    ours.set_nonblocking(true).unwrap();
    nbd.admit(theirs.into(), &mut shared, &poll);
    let mut asked = 3u32.to_be_bytes().to_vec();
    asked.extend(wire::IHAVEOPT.to_be_bytes());
    asked.extend([wire::option::EXPORT_NAME.to_be_bytes(), 1u32.to_be_bytes()].concat());
    asked.push(b'a');
    for _ in 0..100 {
        asked.extend(request(wire::command::WRITE, 0, 0, 1 << 20));
        asked.resize(asked.len() + (1 << 20), 7);
    }
    let (mut sent, mut idle) = (0, 0);
    while sent < asked.len() && idle < 100 {
        match ours.write(&asked[sent..]) {
            Ok(bytes) => (sent, idle) = (sent + bytes, 0),
            Err(_) => idle += 1,
        }
        let event = Event { token: FIRST_CLIENT, read: true, write: false, hang_up: false };
        nbd.ready(event, &mut shared, &poll);
        Frontend::<Keeps>::flush(&mut nbd, &mut shared, &poll);
    }
    let orders = std::mem::take(&mut shared.exports[0].engine.orders);
    assert!((16..=64).contains(&orders.len()), "{} MiB are kept", orders.len());
    // Some are answered to nobody.
    let half = orders.len() / 2;
    for (nth, order) in orders.into_iter().enumerate() {
        if nth == half {
            nbd.end(0, &mut shared, &poll);
        }
        let (arrived, due, op) = (Wall(0), Wall(0), sim::Op::Write);
        let timing = crate::order::Timing { op, arrived, due, modelled_ns: None };
        nbd.reply(0, Reply { order, timing, result: Ok(Vec::new()) }, &mut shared);
    }
    assert!(shared.budget.take(ALL), "some room was not given back");
}

#[test]
fn the_newest_takes_the_place_of_the_oldest_who_has_not_agreed() {
    let mut served = Served::new();
    (0..NEGOTIATING_MAX).for_each(|_| served.connect());
    assert_eq!(served.there(), [true; NEGOTIATING_MAX]);
    let oldest = served.nbd.clients[0].as_ref().unwrap().generation;
    served.connect();
    assert_eq!(served.there(), [true; NEGOTIATING_MAX]);
    let mut all = served.nbd.clients.iter().flatten();
    assert!(all.all(|client| client.generation != oldest));
}

#[test]
fn an_option_too_long_is_skipped_and_the_old_way_in_is_open() {
    let mut peer = Peer::new();
    peer.feed(&1u32.to_be_bytes());
    peer.option(wire::option::LIST, &vec![0; 100_000]);
    assert_eq!(peer.answers(), [wire::answer::TOO_BIG]);
    let steps = peer.option(wire::option::EXPORT_NAME, b"a");
    assert!(matches!(steps[..], [Parsed::Agreed(_)]));
    assert_eq!((peer.out.len(), be64(&peer.out, 0)), (134, 1 << 20));
    let mut lost = Peer::new();
    lost.feed(&1u32.to_be_bytes());
    assert_eq!(lost.option(wire::option::EXPORT_NAME, b"nobody"), [Parsed::Over]);
    assert_eq!(Peer::new().feed(&[0xff; 4]), [Parsed::Over]);
}

#[test]
fn bytes_may_come_one_at_a_time() {
    let mut whole = Peer::transmitting(true);
    let mut bytes = request(wire::command::WRITE, 1, 4096, 8);
    bytes.extend([5; 8]);
    bytes.extend(request(wire::command::READ, 0, 0, 512));
    let steps = whole.feed(&bytes);
    assert_eq!(steps.len(), 3);
    let (mut slow, mut buffer, mut seen) = (Peer::transmitting(true), Vec::new(), Vec::new());
    for byte in bytes {
        buffer.push(byte);
        let found = slow.feed(&buffer);
        let used: usize = found
            .iter()
            .map(|step| match step {
                Parsed::Request(bytes, _) | Parsed::Payload { bytes, .. } => *bytes,
                _ => 0,
            })
            .sum();
        buffer.drain(..used);
        seen.extend(found);
    }
    assert!(buffer.is_empty());
    let requests = |steps: &[Parsed]| -> Vec<Request> {
        let request = |step: &Parsed| match step {
            Parsed::Request(_, request) => Some(*request),
            _ => None,
        };
        steps.iter().filter_map(request).collect()
    };
    assert_eq!(requests(&seen), requests(&steps));
    assert!(requests(&steps)[0].fua);
}

#[test]
fn what_cannot_be_done_is_refused_and_the_stream_stays_in_step() {
    use wire::{command, errno};
    for structured in [false, true] {
        let mut peer = Peer::transmitting(structured);
        let mut refused = |bytes: &[u8], expected: u32| {
            peer.out.clear();
            assert!(peer.feed(bytes).is_empty());
            let (magic, error) =
                (be32(&peer.out, 0), be32(&peer.out, if structured { 20 } else { 4 }));
            let known = if structured { wire::CHUNK_MAGIC } else { wire::SIMPLE_REPLY_MAGIC };
            assert_eq!((magic, error), (known, expected));
        };
        refused(&request(8, 0, 1 << 30, 0), errno::INVALID); // resize
        refused(&request(99, 0, 0, 0), errno::INVALID);
        refused(&request(command::READ, 0, (1 << 20) - 1, 2), errno::INVALID);
        refused(&request(command::READ, 0, u64::MAX, 2), errno::INVALID);
        refused(&request(command::READ, 0, 0, 0), errno::INVALID);
        refused(&request(command::READ, 1 << 9, 0, 512), errno::INVALID);
        refused(&request(command::READ, 0, 0, (64 << 20) + 1), errno::OVERFLOW);
        let mut write = request(command::WRITE, 0, 1 << 20, 3);
        write.extend([1, 2, 3]);
        refused(&write, errno::NO_SPACE);
        if !structured {
            refused(&request(command::BLOCK_STATUS, 0, 0, 512), errno::INVALID);
        }
        let after = peer.feed(&request(command::FLUSH, 0, 9, 9));
        assert!(matches!(after[..], [Parsed::Request(28, Request { ask: Ask::Flush, .. })]));
        assert_eq!(peer.feed(&request(command::DISCONNECT, 0, 0, 0)), [Parsed::Over]);
        assert_eq!(Peer::transmitting(structured).feed(&[0; 28]), [Parsed::Over]);
    }
}

#[test]
fn a_payload_that_is_not_wanted_is_swallowed() {
    let mut peer = Peer::transmitting(false);
    let header = request(wire::command::WRITE, 0, 0, 6);
    let steps = peer.feed(&header);
    let [Parsed::Request(_, write)] = steps[..] else { panic!("{steps:?}") };
    peer.machine.refuse_payload(&write, Refusal::NoSpace);
    assert!(peer.feed(&[1, 2, 3]).is_empty() && peer.out.is_empty());
    assert!(peer.feed(&[4, 5, 6]).is_empty());
    assert_eq!(be32(&peer.out, 4), wire::errno::NO_SPACE);
}

#[test]
fn a_socket_path_in_an_address_is_escaped() {
    assert_eq!(escaped("/x/a b&c.sock"), "/x/a%20b%26c.sock");
}

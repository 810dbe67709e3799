//! What a virtual machine can say to its disk and to its calendar.

use std::fs::File;
use std::os::unix::fs::FileExt;

use attach::travel::calendar::{Calendar, MESSAGE_BYTES, Message as Moment, Next};
use attach::vhost_user::backend::{Answer, Backend};
use attach::vhost_user::block::feature;
use attach::vhost_user::message::{HEADER_BYTES, Header, Message, Region, RingAddresses};
use attach::{Clock, Engine, Export, Identity, SharedState, Store, Timeline, Wall};
use sim::testing::FixedDelay;
use sim::{Device, Nanos};
use study::Block;

/// Memory of the guest; seen by its driver's side at [`USER`].
const GUEST_BYTES: u64 = 1 << 16;
const USER: u64 = 1 << 32;
const DEVICE_BYTES: u64 = 1 << 20;

fn shared() -> SharedState {
    let device = Box::new(FixedDelay::new(Nanos(1000), 8));
    let limits = device.limits();
    let store = Store::memory(limits.capacity).expect("memory");
    let line = Timeline { start: Nanos(0), dilation: 1 };
    let engine = Engine::new(device, store, line, 0);
    let identity = Identity::of(&Block::default(), &limits, "fuzz", "fuzz");
    let export = Export { name: String::new(), identity, read_only: false, engine };
    SharedState::new(vec![export], Clock::start())
}

fn memory(bytes: &[u8]) -> File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = File::from(rustix::fs::memfd_create("guest", flags).expect("memory"));
    file.set_len(GUEST_BYTES).expect("memory");
    let room = bytes.len().min(GUEST_BYTES as usize);
    file.write_all_at(&bytes[..room], 0).expect("memory");
    file
}

/// Let everything be done that was begun; every request is answered exactly once.
fn finish(backend: &mut Backend, shared: &mut SharedState) {
    let mut calls = Vec::new();
    if backend.finish_immediate(&mut calls).is_err() {
        return;
    }
    let mut replies = Vec::new();
    shared.exports[0].engine.advance(Wall(1 << 40), &mut replies);
    for reply in replies {
        if backend.reply(reply, &mut shared.pool, &mut shared.budget, &mut calls).is_err() {
            return;
        }
    }
    assert_eq!(backend.in_flight(), 0, "a request has no answer");
    assert!(shared.budget.take(512 << 20), "promised bytes were not given back");
    shared.budget.release(512 << 20);
}

/// Messages one after the other, as they come off the socket.
pub fn converse(mut bytes: &[u8]) {
    let mut shared = shared();
    let limits = *shared.exports[0].engine.limits();
    let backend = Backend::new(0, "fuzz", limits, 2, false, true);
    let mut backend = backend.and_then(Backend::offer_submitters).expect("two queues");
    while let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let Ok(header) = Header::parse(head) else { return };
        let Some((payload, rest)) = rest.split_at_checked(header.payload_bytes) else { return };
        bytes = rest;
        let Ok(message) = Message::parse(&header, payload) else { return };
        let files = (0..message.descriptors()).map(|_| memory(payload)).collect();
        match backend.take(message, files) {
            Ok((Answer::Kicked(ring), _)) => {
                if backend.kicked(ring, Wall(0), &mut shared).is_err() {
                    return;
                }
                finish(&mut backend, &mut shared);
            }
            Ok((Answer::Payload(payload), _)) => assert!(payload.len() <= 12 + 256),
            Ok((Answer::Done, _)) => {}
            Err(_) => return,
        }
    }
}

/// The first bytes say how the queue lies, the others are the memory it lies in.
pub fn kick(bytes: &[u8]) {
    let Some((shape, memory_bytes)) = bytes.split_first_chunk::<4>() else { return };
    let mut shared = shared();
    let limits = *shared.exports[0].engine.limits();
    assert!(limits.capacity.0 >= DEVICE_BYTES);
    let mut backend = Backend::new(0, "fuzz", limits, 1, false, true).expect("one queue");
    let mut submitter = 0;
    // Half of the guests say on whose behalf they ask.
    if shape[0] & 2 != 0 {
        backend = backend.offer_submitters().expect("one queue");
        submitter = feature::SUBMITTER;
    }
    let region = Region { guest: 0, bytes: GUEST_BYTES, user: USER, offset: 0 };
    let event_index = if shape[0] & 1 != 0 { 1 << 29 } else { 0 };
    let size = 1u32 << (shape[1] % 9);
    let addresses = RingAddresses {
        descriptors: USER + u64::from(shape[2]) * 16,
        available: USER + 0x2000 + u64::from(shape[3]) * 2,
        used: USER + 0x4000,
    };
    let agreed = [
        Message::SetFeatures(1 << 32 | 1 << 30 | 1 << 28 | event_index | submitter),
        Message::SetProtocolFeatures(u64::MAX),
        Message::SetMemTable(vec![region]),
        Message::SetVringNum { index: 0, num: size },
        Message::SetVringAddr { index: 0, addresses },
        Message::SetVringEnable { index: 0, enabled: true },
    ];
    for message in agreed {
        let files = (0..message.descriptors()).map(|_| memory(memory_bytes)).collect();
        if backend.take(message, files).is_err() {
            return;
        }
    }
    for moment in 0..3 {
        if backend.kicked(0, Wall(moment << 41), &mut shared).is_err() {
            return;
        }
        finish(&mut backend, &mut shared);
    }
}

/// A guest's messages, between devices' events of the fuzzer's choice.
pub fn keep_time(bytes: &[u8]) {
    let limit = Nanos(1 << 50);
    let mut calendar = Calendar::with_limit(limit);
    let mut sequence = 0u32;
    for chunk in bytes.chunks(MESSAGE_BYTES + 1) {
        let Some((&event, message)) = chunk.split_first() else { return };
        let Ok(message) = <&[u8; MESSAGE_BYTES]>::try_from(message) else { return };
        let before = calendar.now();
        let mut message = *message;
        // Most guests count.
        if message[0] != 0 && event & 2 == 0 {
            sequence = sequence.wrapping_add(1);
            message[4..8].copy_from_slice(&sequence.to_le_bytes());
        }
        if calendar.take(Moment::parse(&message)).is_err() {
            return;
        }
        assert_eq!(Moment::parse(&message).bytes(), message);
        let due = (event & 1 != 0).then(|| Nanos(before.0.saturating_add(u64::from(event) << 20)));
        match calendar.next(due) {
            Next::Listen => drop(calendar.moved(due)),
            Next::Devices(at) => {
                calendar.advance(at);
                calendar.caught_up();
                calendar.interrupt();
            }
            Next::Guest(at) => {
                assert!(!calendar.is_interrupted() || at == calendar.now(), "planned for later");
                let _ = calendar.run(at, due);
            }
            Next::Deadlock | Next::Limit => {}
        }
        assert!(calendar.now() >= before, "time went back");
        assert!(calendar.now() <= limit, "time went beyond its limit");
    }
}

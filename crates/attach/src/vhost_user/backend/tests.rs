use sim::testing::FixedDelay;
use sim::{Bytes, Device, Nanos};
use study::Block;

use super::*;
use crate::clock::{Clock, Timeline};
use crate::engine::Engine;
use crate::identity::Identity;
use crate::order::Submitter;
use crate::shared_state::Export;
use crate::store::Store;
use crate::vhost_user::message::Region;

const RING: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const HEADERS: u64 = 0x4000;
const DATA: u64 = 0x8000;

/// A driver by hand: memory, one queue of 16 entries, and a device of 1 MiB behind it.
struct Driver {
    backend: Backend,
    shared: SharedState,
    file: File,
    available: u16,
}

impl Driver {
    fn new() -> Driver {
        Driver::with(|plain| plain, 0)
    }

    /// It agrees to `features` beside the usual ones with what `offer` makes of a plain backend.
    fn with(offer: fn(Backend) -> Backend, features: u64) -> Driver {
        let device = Box::new(FixedDelay::new(Nanos(10_000), 32));
        let limits = device.limits();
        let store = Store::memory(limits.capacity).unwrap();
        let line = Timeline { start: Nanos(0), dilation: 1 };
        let engine = Engine::new(device, store, line, 0);
        let identity = Identity::of(&Block::default(), &limits, "null", "null");
        let export = Export { name: String::new(), identity, read_only: false, engine };
        let shared = SharedState::new(vec![export], Clock::start());
        let mut backend = offer(Backend::new(0, "null", limits, 1, false, true).unwrap());
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create("guest", flags).unwrap());
        file.set_len(1 << 20).unwrap();
        let region = Region { guest: 0, bytes: 1 << 20, user: 0x7000_0000, offset: 0 };
        let user = |at: u64| 0x7000_0000 + at;
        let addresses =
            RingAddresses { descriptors: user(RING), used: user(USED), available: user(AVAILABLE) };
        let mut tell = |message, files| backend.take(message, files).unwrap();
        tell(Message::SetFeatures(feature::VERSION_1 | feature::PROTOCOL | features), vec![]);
        tell(Message::SetProtocolFeatures(u64::MAX), vec![]);
        tell(Message::SetMemTable(vec![region]), vec![file.try_clone().unwrap()]);
        tell(Message::SetVringNum { index: 0, num: 16 }, vec![]);
        tell(Message::SetVringAddr { index: 0, addresses }, vec![]);
        tell(Message::SetVringBase { index: 0, num: 0 }, vec![]);
        tell(Message::SetVringEnable { index: 0, enabled: true }, vec![]);
        Driver { backend, shared, file, available: 0 }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, at).unwrap();
    }

    fn get(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        std::os::unix::fs::FileExt::read_exact_at(&self.file, &mut buffer, at).unwrap();
        buffer
    }

    fn descriptor(&self, index: u16, address: u64, bytes: u32, flags: u16, next: u16) {
        let mut raw = address.to_le_bytes().to_vec();
        raw.extend(bytes.to_le_bytes());
        raw.extend([flags.to_le_bytes(), next.to_le_bytes()].concat());
        self.put(RING + u64::from(index) * 16, &raw);
    }

    /// A request of header, data and status, in descriptors from `first` on.
    fn request(&mut self, first: u16, kind: u32, sector: u64, bytes: u32, writable: bool) {
        let header_at = HEADERS + u64::from(first) * 64;
        let mut header = kind.to_le_bytes().to_vec();
        header.extend([0; 4]);
        header.extend(sector.to_le_bytes());
        self.put(header_at, &header);
        self.put(header_at + 32, &[0xff]);
        self.descriptor(first, header_at, 16, 1, first + 1);
        let flags = 1 | if writable { 2 } else { 0 };
        self.descriptor(first + 1, DATA, bytes, flags, first + 2);
        self.descriptor(first + 2, header_at + 32, 1, 2, 0);
        self.offer(first);
    }

    fn offer(&mut self, head: u16) {
        let at = AVAILABLE + 4 + u64::from(self.available % 16) * 2;
        self.put(at, &head.to_le_bytes());
        self.available += 1;
        self.put(AVAILABLE + 2, &self.available.to_le_bytes());
    }

    /// Kick at 0 and let everything be done; the queues to call.
    fn kick(&mut self) -> Result<Vec<u32>, Malformed> {
        self.backend.kicked(0, Wall(0), &mut self.shared)?;
        let mut calls = Vec::new();
        self.backend.finish_immediate(&mut calls)?;
        self.let_out(&mut calls)?;
        Ok(calls)
    }

    /// Let everything that the engine has be done.
    fn let_out(&mut self, calls: &mut Vec<u32>) -> Result<(), Malformed> {
        let mut replies = Vec::new();
        self.shared.exports[0].engine.advance(Wall(1_000_000), &mut replies);
        for reply in replies {
            let (pool, budget) = (&mut self.shared.pool, &mut self.shared.budget);
            self.backend.reply(reply, pool, budget, calls)?;
        }
        Ok(())
    }

    /// One that has 7 at sector 8, and has asked for it.
    fn reading() -> Driver {
        let mut driver = Driver::new();
        driver.put(DATA, &[7; 4096]);
        driver.request(0, 1, 8, 4096, false);
        driver.kick().unwrap();
        driver.put(DATA, &[0; 4096]);
        driver.request(3, 0, 8, 4096, true);
        driver.backend.kicked(0, Wall(0), &mut driver.shared).unwrap();
        driver
    }

    fn tell(&mut self, message: Message) -> Answer {
        self.backend.take(message, vec![]).unwrap().0
    }

    fn status(&self, first: u16) -> u8 {
        self.get(HEADERS + u64::from(first) * 64 + 32, 1)[0]
    }

    fn used(&self) -> u16 {
        u16::from_le_bytes(self.get(USED + 2, 2).try_into().unwrap())
    }
}

#[test]
fn what_is_written_is_read() {
    let mut driver = Driver::new();
    driver.put(DATA, &[7; 4096]);
    driver.request(0, 1, 8, 4096, false);
    assert_eq!(driver.kick().unwrap(), [0]);
    assert_eq!((driver.status(0), driver.used()), (0, 1));
    driver.put(DATA, &[0; 4096]);
    driver.request(3, 0, 8, 4096, true);
    driver.kick().unwrap();
    assert_eq!((driver.status(3), driver.used()), (0, 2));
    assert_eq!(driver.get(DATA, 4096), [7; 4096]);
    assert_eq!(driver.backend.in_flight(), 0);
    assert!(driver.shared.budget.take(512 << 20), "every promised byte was given back");
}

#[test]
fn the_name_has_twenty_bytes_and_the_unknown_is_unsupported() {
    let mut driver = Driver::new();
    driver.request(0, 8, 0, 20, true);
    driver.request(3, 77, 0, 512, true);
    driver.request(6, 0, 1 << 40, 512, true);
    driver.kick().unwrap();
    assert_eq!(driver.get(DATA, 5), b"null\0");
    assert_eq!([driver.status(0), driver.status(3), driver.status(6)], [0, 2, 1]);
    assert_eq!(driver.used(), 3);
}

#[test]
fn who_submitted_is_told_where_both_sides_want_it() {
    fn offer(plain: Backend) -> Backend {
        plain.offer_submitters().unwrap()
    }
    let told = |mut driver: Driver| {
        driver.request(0, 1, 8, 512, false);
        driver.put(HEADERS + 4, &(77u32 << 6 | 1 << 5 | 3 << 3).to_le_bytes());
        driver.backend.kicked(0, Wall(0), &mut driver.shared).unwrap();
        let mut replies = Vec::new();
        driver.shared.exports[0].engine.advance(Wall(1_000_000), &mut replies);
        replies[0].order.submitter
    };
    let idle = sim::Priority::new(sim::PriorityClass::Idle, 0);
    let expected = Submitter { process: 77, sync: true, priority: idle };
    let willing = Driver::with(offer, feature::SUBMITTER);
    assert!(!willing.backend.misses_submitters());
    assert_eq!(told(willing), expected);
    // One that does not know of it puts a priority there, and is found out.
    let old = Driver::with(offer, 0);
    assert!(old.backend.misses_submitters());
    assert_eq!(told(old), Submitter::default());
    let plain = Driver::new();
    assert!(!plain.backend.misses_submitters());
    assert_eq!(told(plain), Submitter::default());
    let device = FixedDelay::new(Nanos(1), 1);
    let limits = &device.limits();
    let silent = offer(Backend::new(0, "null", *limits, 1, false, true).unwrap());
    assert!(!silent.misses_submitters(), "nothing was agreed yet");
}

#[test]
fn broken_chains_are_refused() {
    type Wreck = fn(&mut Driver);
    let wrecks: [(&str, Wreck); 6] = [
        ("does not end", |d| d.descriptor(1, DATA, 512, 1 | 2, 1)),
        ("does not end", |d| d.descriptor(1, DATA, 512, 1 | 2, 99)),
        ("are not memory", |d| d.descriptor(1, 1 << 40, 512, 1 | 2, 2)),
        ("are not memory", |d| d.descriptor(1, DATA, 0, 1 | 2, 2)),
        ("goes back", |d| d.descriptor(2, DATA, 1, 0, 0)),
        ("no header", |d| d.descriptor(0, HEADERS, 8, 1, 1)),
    ];
    for (expected, wreck) in wrecks {
        let mut driver = Driver::new();
        driver.request(0, 0, 0, 512, true);
        wreck(&mut driver);
        let error = driver.kick().unwrap_err();
        assert!(error.0.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn an_absurd_ring_is_refused() {
    let mut driver = Driver::new();
    driver.put(AVAILABLE + 2, &500u16.to_le_bytes());
    assert!(driver.kick().is_err());
    let mut driver = Driver::new();
    let tell = |driver: &mut Driver, message| driver.backend.take(message, vec![]);
    assert!(tell(&mut driver, Message::SetVringNum { index: 0, num: 3 }).is_err());
    assert!(tell(&mut driver, Message::SetVringNum { index: 5, num: 16 }).is_err());
    let lost = RingAddresses { descriptors: 1, used: 2, available: 3 };
    let message = Message::SetVringAddr { index: 0, addresses: lost };
    assert!(tell(&mut driver, message).unwrap_err().0.contains("not memory"));
    assert!(tell(&mut driver, Message::SetFeatures(1 << 50)).is_err());
    assert!(tell(&mut driver, Message::SetConfig { offset: 0, content: vec![1] }).is_err());
}

#[test]
fn a_cache_that_is_off_makes_writes_durable() {
    let limits = Limits {
        capacity: Bytes::from_mib(1),
        block_bytes: 512,
        queue_depth_max: 1,
        rotational: true,
        write_cache: true,
        discard: false,
    };
    let mut backend = Backend::new(0, "disk", limits, 1, false, false).unwrap();
    let off = Message::SetConfig { offset: block::WRITEBACK_AT, content: vec![0] };
    backend.take(off, vec![]).unwrap();
    let (answer, _) = backend.take(Message::GetConfig { offset: 32, bytes: 1 }, vec![]).unwrap();
    let Answer::Payload(payload) = answer else { panic!("{answer:?}") };
    assert_eq!(payload.last(), Some(&0));
    let (answer, _) = backend.take(Message::GetProtocolFeatures, vec![]).unwrap();
    let Answer::Payload(payload) = answer else { panic!("{answer:?}") };
    let offered = u64::from_le_bytes(payload.try_into().unwrap());
    assert_eq!(offered & protocol::INBAND, 0, "QEMU would take it and not know it");
}

const STOP: Message = Message::GetVringBase { index: 0 };

#[test]
fn a_queue_that_was_stopped_touches_no_memory() {
    let mut driver = Driver::reading();
    let base = [0u32.to_le_bytes(), 2u32.to_le_bytes()].concat();
    assert_eq!(driver.tell(STOP), Answer::Payload(base));
    let mut calls = Vec::new();
    driver.let_out(&mut calls).unwrap();
    assert_eq!((driver.get(DATA, 8), driver.used()), (vec![0; 8], 1));
    assert_eq!((driver.status(3), calls), (0xff, vec![]));
    assert_eq!(driver.backend.in_flight(), 0);
    assert!(driver.shared.budget.take(512 << 20), "every promised byte was given back");
}

#[test]
fn a_queue_that_is_being_stopped_waits_for_what_is_inside_and_takes_nothing_new() {
    let mut driver = Driver::reading();
    assert!(driver.backend.must_wait(&STOP));
    driver.request(6, 0, 8, 512, true);
    driver.backend.kicked(0, Wall(0), &mut driver.shared).unwrap();
    driver.let_out(&mut Vec::new()).unwrap();
    assert!(!driver.backend.must_wait(&STOP));
    assert_eq!((driver.get(DATA, 8), driver.used()), (vec![7; 8], 2));
    let base = [0u32.to_le_bytes(), 2u32.to_le_bytes()].concat();
    assert_eq!(driver.tell(STOP), Answer::Payload(base));
}

#[test]
fn what_holds_up_a_queues_end_for_too_long_fails() {
    let mut driver = Driver::reading();
    let mut calls = Vec::new();
    driver.backend.abandon(0, &mut calls).unwrap();
    assert!(!driver.backend.must_wait(&STOP));
    assert_eq!((driver.status(3), driver.used(), &calls[..]), (1, 2, &[0][..]));
    driver.let_out(&mut calls).unwrap();
    assert_eq!((driver.get(DATA, 8), driver.used()), (vec![0; 8], 2));
    assert_eq!(driver.backend.in_flight(), 0);
}

#[test]
fn a_firmware_without_flushes_leaves_the_cache_to_the_next_driver() {
    fn cached(plain: Backend) -> Backend {
        let limits = Limits { write_cache: true, ..plain.limits };
        Backend::new(0, "null", limits, 1, false, true).unwrap()
    }
    let mut driver = Driver::with(cached, 0);
    let mut written = |features: u64| {
        driver.tell(Message::SetFeatures(feature::VERSION_1 | feature::PROTOCOL | features));
        driver.request(0, 1, 8, 512, false);
        driver.backend.kicked(0, Wall(0), &mut driver.shared).unwrap();
        let mut replies = Vec::new();
        driver.shared.exports[0].engine.advance(Wall(1_000_000), &mut replies);
        replies[0].order.command
    };
    assert_eq!(written(0), Command::Write { fua: true });
    let both = feature::FLUSH | feature::CONFIG_WCE;
    assert_eq!(written(both), Command::Write { fua: false });
    let off = Message::SetConfig { offset: block::WRITEBACK_AT, content: vec![0] };
    driver.tell(off);
    driver.request(0, 1, 8, 512, false);
    driver.backend.kicked(0, Wall(0), &mut driver.shared).unwrap();
    let mut replies = Vec::new();
    driver.shared.exports[0].engine.advance(Wall(1_000_000), &mut replies);
    assert_eq!(replies[0].order.command, Command::Write { fua: true });
}

#[test]
fn a_queue_has_no_more_requests_inside_than_entries() {
    let mut driver = Driver::new();
    driver.request(0, 0, 0, 512, true);
    for taken in 0..16 {
        let kicked = driver.backend.kicked(0, Wall(0), &mut driver.shared);
        kicked.unwrap_or_else(|why| panic!("after {taken}: {why}"));
        driver.offer(0);
    }
    let error = driver.backend.kicked(0, Wall(0), &mut driver.shared).unwrap_err();
    assert!(error.0.contains("16 requests are inside"), "{error}");
}

#[test]
fn what_was_offered_to_a_disabled_queue_is_taken_when_it_is_enabled() {
    let mut driver = Driver::new();
    driver.tell(Message::SetProtocolFeatures(protocol::REPLY_ACK));
    driver.tell(Message::SetVringEnable { index: 0, enabled: false });
    driver.request(0, 0, 0, 512, true);
    driver.kick().unwrap();
    assert_eq!(driver.used(), 0);
    // Whoever has the sockets looks as if it had been kicked.
    let answer = driver.tell(Message::SetVringEnable { index: 0, enabled: true });
    assert_eq!(answer, Answer::Kicked(0));
    driver.kick().unwrap();
    assert_eq!(driver.used(), 1);
}

#[test]
fn the_longest_request_is_offered_where_the_part_says_it() {
    let limits = FixedDelay::new(Nanos(1), 1).limits();
    let offered = |block: Block| {
        let identity = Identity::of(&block, &limits, "null", "null");
        let plain = Backend::new(0, "null", limits, 1, false, false).unwrap();
        let mut backend = plain.presents(&identity);
        let message = Message::GetConfig { offset: 8, bytes: 8 };
        let (answer, _) = backend.take(message, vec![]).unwrap();
        let Answer::Payload(payload) = answer else { panic!("{answer:?}") };
        (backend.features & feature::SIZE_MAX != 0, payload[12..].to_vec())
    };
    let sizes = |size: u32, segments: u32| [size.to_le_bytes(), segments.to_le_bytes()].concat();
    assert_eq!(offered(Block::default()), (false, sizes(0, 254)));
    let block = Block { request_max: Some(config::Size(Bytes::from_kib(128))), ..Block::default() };
    assert_eq!(offered(block), (true, sizes(4096, 32)));
}

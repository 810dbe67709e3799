use std::os::unix::fs::FileExt;

use sim::testing::FixedDelay;
use sim::{Device, Nanos};

use super::*;
use crate::clock::{Clock, Timeline};
use crate::engine::Engine;
use crate::identity::Identity;
use crate::store::Store;
use crate::vhost_user::block::feature;
use crate::vhost_user::message::{Region, RingAddresses};

const RING: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const HEADER: u64 = 0x4000;
const STATUS: u64 = 0x5000;
const GET_VRING_BASE: u32 = 11;

/// A disk with a flush inside, its guest's memory, and the other end of its connection.
struct Served {
    all: VhostUser,
    shared: SharedState,
    poll: Poll,
    memory: File,
    end: UnixStream,
}

impl Served {
    fn new() -> Served {
        let device = Box::new(FixedDelay::new(Nanos(10_000), 32));
        let limits = device.limits();
        let store = Store::memory(limits.capacity).unwrap();
        let engine = Engine::new(device, store, Timeline { start: Nanos(0), dilation: 1 }, 0);
        let identity = Identity::of(&study::Block::default(), &limits, "null", "null");
        let export = Export { name: String::new(), identity, read_only: false, engine };
        let mut shared = SharedState::new(vec![export], Clock::start());
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let memory = File::from(rustix::fs::memfd_create("guest", flags).unwrap());
        memory.set_len(1 << 20).unwrap();
        let put = |at: u64, bytes: &[u8]| memory.write_all_at(bytes, at).unwrap();
        let descriptor = |index: u64, at: u64, bytes: u32, flags: u16, next: u16| {
            let tail = [flags.to_le_bytes(), next.to_le_bytes()].concat();
            put(RING + index * 16, &[&at.to_le_bytes()[..], &bytes.to_le_bytes(), &tail].concat());
        };
        descriptor(0, HEADER, 16, 1, 1);
        descriptor(1, STATUS, 1, 2, 0);
        put(HEADER, &4u32.to_le_bytes());
        put(STATUS, &[0xff]);
        put(AVAILABLE + 2, &1u16.to_le_bytes());
        let mut backend = Backend::new(0, "null", limits, 1, false, false).unwrap();
        let region = Region { guest: 0, bytes: 1 << 20, user: 0, offset: 0 };
        let addresses = RingAddresses { descriptors: RING, used: USED, available: AVAILABLE };
        let mut tell = |message, files| backend.take(message, files).map(drop).unwrap();
        tell(Message::SetFeatures(feature::VERSION_1), vec![]);
        tell(Message::SetMemTable(vec![region]), vec![memory.try_clone().unwrap()]);
        tell(Message::SetVringNum { index: 0, num: 16 }, vec![]);
        tell(Message::SetVringAddr { index: 0, addresses }, vec![]);
        tell(Message::SetVringKick { index: 0, descriptor: false }, vec![]);
        backend.kicked(0, Wall(0), &mut shared).unwrap();
        let (end, ours) = UnixStream::pair().unwrap();
        end.set_nonblocking(true).unwrap();
        ours.set_nonblocking(true).unwrap();
        let poll = Poll::new().unwrap();
        poll.add(&ours, 1, Interest::READ).unwrap();
        let disk = Disk {
            backend,
            listener: None,
            path: PathBuf::new(),
            connection: Some(ours),
            inbox: Inbox::new(),
            kicks: vec![None],
            calls: vec![None],
            waiting: Vec::new(),
            held: None,
        };
        Served { all: VhostUser { disks: vec![disk], _folder: None }, shared, poll, memory, end }
    }

    /// Ask for the queue's end.
    fn stop(&mut self) {
        let words = [GET_VRING_BASE, 1, 8, 0, 0];
        self.end.write_all(&words.map(u32::to_le_bytes).concat()).unwrap();
        let event = Event { token: 1, read: true, write: false, hang_up: false };
        self.all.ready(event, &mut self.shared, &self.poll);
        self.all.flush(&mut self.shared, &self.poll);
    }

    /// The entry at which the queue ended, when that is answered.
    fn base(&mut self) -> Option<u32> {
        let mut bytes = [0; 20];
        match self.end.read(&mut bytes) {
            Ok(20) => Some(u32::from_le_bytes(*bytes.last_chunk().unwrap())),
            Ok(got) => panic!("{got} bytes"),
            Err(why) => {
                assert_eq!(why.kind(), ErrorKind::WouldBlock);
                None
            }
        }
    }

    fn status(&self) -> u8 {
        let mut byte = [0];
        self.memory.read_exact_at(&mut byte, STATUS).unwrap();
        byte[0]
    }
}

#[test]
fn a_queues_end_is_answered_when_its_requests_are() {
    let mut served = Served::new();
    served.stop();
    assert_eq!((served.base(), served.status()), (None, 0xff));
    let mut replies = Vec::new();
    served.shared.exports[0].engine.advance(Wall(1_000_000), &mut replies);
    for reply in replies {
        served.all.reply(0, reply, &mut served.shared);
    }
    served.all.flush(&mut served.shared, &served.poll);
    assert_eq!((served.base(), served.status()), (Some(1), 0));
    // The next message is taken as ever.
    served.stop();
    assert_eq!(served.base(), Some(1));
}

#[test]
fn a_queues_end_waits_for_a_request_that_hangs_only_so_long() {
    let mut served = Served::new();
    served.stop();
    let due = Frontend::<Engine>::due(&served.all);
    assert!(due >= Wall(STOP_NS_MAX) && due != Wall::NEVER);
    served.all.disks[0].held.as_mut().unwrap().until = Wall(0);
    served.all.flush(&mut served.shared, &served.poll);
    assert_eq!((served.base(), served.status()), (Some(1), 1));
    assert_eq!(Frontend::<Engine>::due(&served.all), Wall::NEVER);
}

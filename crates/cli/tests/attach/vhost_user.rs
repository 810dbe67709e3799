//! A driver's side of vhost-user that does what none should: it is let go, and the next one is
//! served.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::support::{Folder, Session, until};

const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_KICK: u32 = 12;

const MEMORY_BYTES: u64 = 1 << 20;
/// Where the driver sees its memory.
const USER: u64 = 0x1000_0000;

fn served(folder: &Folder) -> (Session, PathBuf) {
    let args = ["part.toml", "--as", "vhost-user", "--socket", "s.sock", "--compensate", "off"];
    (folder.serve(&args), folder.path("s.sock"))
}

struct Driver(UnixStream);

impl Driver {
    fn new(socket: &PathBuf) -> Driver {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Driver(stream)
    }

    fn message(request: u32, payload: &[u64]) -> Vec<u8> {
        let head = [request, 1, payload.len() as u32 * 8].map(u32::to_le_bytes).concat();
        [head, payload.iter().flat_map(|word| word.to_le_bytes()).collect()].concat()
    }

    fn send(&self, request: u32, payload: &[u64], files: &[BorrowedFd<'_>]) {
        let message = Driver::message(request, payload);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(files)));
        let whole = [IoSlice::new(&message)];
        sendmsg(&self.0, &whole, &mut control, SendFlags::empty()).unwrap();
    }

    /// One queue in `memory`, with this kick.
    fn begin(&self, memory: impl AsFd, kick: impl AsFd) {
        self.send(SET_FEATURES, &[1 << 32], &[]);
        self.send(SET_MEM_TABLE, &[1, 0, MEMORY_BYTES, USER, 0], &[memory.as_fd()]);
        self.send(SET_VRING_NUM, &[16 << 32], &[]);
        self.send(SET_VRING_ADDR, &[0, USER, USER + 0x8000, USER + 0x4000, 0], &[]);
        self.send(SET_VRING_KICK, &[0], &[kick.as_fd()]);
    }

    fn is_answered(&mut self) -> bool {
        self.send(GET_FEATURES, &[], &[]);
        self.0.read_exact(&mut [0; 20]).is_ok()
    }

    fn is_let_go(&mut self) -> bool {
        match self.0.read(&mut [0; 64]) {
            Ok(bytes) => bytes == 0,
            Err(why) => why.kind() == ErrorKind::ConnectionReset,
        }
    }
}

fn memory(flags: MemfdFlags) -> File {
    let file = File::from(memfd_create("guest", flags).unwrap());
    file.set_len(MEMORY_BYTES).unwrap();
    file
}

fn never_kicks() -> OwnedFd {
    eventfd(0, EventfdFlags::empty()).unwrap()
}

#[test]
fn one_that_reads_no_answers_stops_nobody() {
    let folder = Folder::new();
    let (mut session, socket) = served(&folder);
    let greedy = Driver::new(&socket);
    greedy.0.set_nonblocking(true).unwrap();
    let questions = Driver::message(GET_FEATURES, &[]).repeat(100);
    let mut sent = 0;
    until("it is let go", || match (&greedy.0).write(&questions[sent..]) {
        Ok(bytes) => {
            sent = (sent + bytes) % questions.len();
            false
        }
        Err(why) => why.kind() != ErrorKind::WouldBlock,
    });
    assert!(Driver::new(&socket).is_answered());
    session.end();
}

#[test]
fn a_kick_that_ended_is_no_kick() {
    let folder = Folder::new();
    let (mut session, socket) = served(&folder);
    let (kick, other) = rustix::pipe::pipe().unwrap();
    let mut driver = Driver::new(&socket);
    driver.begin(memory(MemfdFlags::empty()), kick);
    assert!(driver.is_answered());
    drop(other);
    assert!(driver.is_let_go());
    assert!(Driver::new(&socket).is_answered());
    session.end();
}

#[test]
fn memory_that_is_cut_off_ends_its_connection_only() {
    let folder = Folder::new();
    let (mut session, socket) = served(&folder);
    for flags in [MemfdFlags::empty(), MemfdFlags::ALLOW_SEALING] {
        let (mut driver, memory, kick) = (Driver::new(&socket), memory(flags), never_kicks());
        driver.begin(&memory, &kick);
        assert!(driver.is_answered());
        // What may be sealed was.
        let cut = memory.set_len(0).is_ok();
        assert_eq!(cut, flags == MemfdFlags::empty());
        rustix::io::write(&kick, &1u64.to_ne_bytes()).unwrap();
        assert!(if cut { driver.is_let_go() } else { driver.is_answered() });
    }
    until("the next is served", || Driver::new(&socket).is_answered());
    session.end();
}

#[test]
fn a_second_socket_that_is_somebodys_leaves_nothing_of_the_first() {
    let folder = Folder::new();
    std::fs::write(folder.path("s.sock.1"), "mine").unwrap();
    let two = ["a=part.toml", "b=part.toml", "--as", "vhost-user", "--socket", "s.sock"];
    let refused = folder.captive(&two, "true");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("cannot listen on s.sock.1"), "{}", refused.stderr);
    assert!(!folder.path("s.sock").exists());
    assert_eq!(std::fs::read_to_string(folder.path("s.sock.1")).unwrap(), "mine");
}

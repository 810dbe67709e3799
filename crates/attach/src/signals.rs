//! Signals as descriptors.

use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use signal_hook::SigId;
use signal_hook::consts::SIGCHLD;
use signal_hook::low_level::{pipe, unregister};
use study::Failure;

use crate::poll::{Interest, Poll};

/// Signals that end the session, and those that tell of a child.
pub(crate) struct Signals {
    stop: UnixStream,
    /// A signal to end has come.
    asked: bool,
    child: UnixStream,
    registered: Vec<SigId>,
}

impl Signals {
    pub(crate) fn new(poll: &Poll, stop_token: u64, child_token: u64) -> Result<Signals, Failure> {
        let build = || -> std::io::Result<Signals> {
            let mut registered = Vec::new();
            let mut listen = |signals: &[i32], token| -> std::io::Result<UnixStream> {
                let (from, to) = UnixStream::pair()?;
                from.set_nonblocking(true)?;
                for &signal in signals {
                    registered.push(pipe::register(signal, to.try_clone()?)?);
                }
                poll.add(&from, token, Interest::READ)?;
                Ok(from)
            };
            let stop = listen(&study::ending_signals(), stop_token)?;
            let child = listen(&[SIGCHLD], child_token)?;
            Ok(Signals { stop, asked: false, child, registered })
        };
        build().map_err(|why| Failure::machine(format!("cannot watch for signals: {why}")))
    }

    /// True when a signal to end has come.
    pub(crate) fn take_stop(&mut self) -> bool {
        let asked = drain(&mut self.stop);
        self.asked |= asked;
        asked
    }

    /// Wait until `sink` takes bytes. False when a signal to end comes first, or came before and it
    /// takes none soon.
    pub(crate) fn room(&self, sink: BorrowedFd<'_>) -> bool {
        const SOON: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut both = [PollFd::new(&sink, PollFlags::OUT), PollFd::new(&self.stop, PollFlags::IN)];
        let polled = retry_on_intr(|| poll(&mut both, self.asked.then_some(&SOON)));
        polled.is_ok_and(|ready| ready > 0) && both[1].revents().is_empty()
    }

    /// True when a child may have ended.
    pub(crate) fn take_child(&mut self) -> bool {
        drain(&mut self.child)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

fn drain(from: &mut UnixStream) -> bool {
    let mut some = false;
    while matches!(from.read(&mut [0; 64]), Ok(1..)) {
        some = true;
    }
    some
}

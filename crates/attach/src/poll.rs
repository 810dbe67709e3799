//! Waiting for descriptors, to the nanosecond.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use study::Failure;

/// What a descriptor is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Interest {
    /// Something can be read.
    pub read: bool,
    /// Something can be written.
    pub write: bool,
}

impl Interest {
    /// Reading only.
    pub const READ: Interest = Interest { read: true, write: false };

    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, self.read);
        flags.set(epoll::EventFlags::OUT, self.write);
        flags
    }
}

/// What happened to a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The number it was added with.
    pub token: u64,
    /// It can be read.
    pub read: bool,
    /// It can be written.
    pub write: bool,
    /// The other side is gone.
    pub hang_up: bool,
}

/// In tests: wait until `source` is readable, at most so long.
#[cfg(test)]
pub(crate) fn wait_readable(source: impl AsFd, at_most: Duration) {
    use rustix::event::{PollFd, PollFlags, poll};
    let timeout = Timespec::try_from(at_most).unwrap();
    // A signal ends it early: whoever waits looks again anyway.
    let _ = poll(&mut [PollFd::new(&source, PollFlags::IN)], Some(&timeout));
}

/// A set of watched descriptors.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// Events taken at a time.
const EVENTS: usize = 256;

impl Poll {
    /// Watch nothing.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> Result<Poll, Failure> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|why| Failure::machine(format!("cannot wait for events: {why}")))?;
        Ok(Poll { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Watch `source`.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> std::io::Result<()> {
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), interest.flags())?)
    }

    /// Watch `source` for something else.
    ///
    /// # Errors
    /// When it is not watched.
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> std::io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, epoll::EventData::new_u64(token), interest.flags())?)
    }

    /// Watch `source` no longer.
    pub fn remove(&self, source: impl AsFd) {
        // One that is not watched is as good as removed.
        let _ = epoll::delete(&self.epoll, source);
    }

    /// Wait until something happens, at most `timeout_ns`; without an end when it is `u64::MAX`.
    /// True when all of that time has passed.
    pub fn wait(&mut self, timeout_ns: u64, out: &mut Vec<Event>) -> bool {
        let timeout = (timeout_ns != u64::MAX)
            .then(|| Timespec::try_from(Duration::from_nanos(timeout_ns)).unwrap_or_default());
        self.events.clear();
        out.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        if epoll::wait(&self.epoll, buffer, timeout.as_ref()).is_err() {
            // A signal, or the kernel's work on a ring: what it means has its own descriptor.
            return false;
        }
        use epoll::EventFlags as Flags;
        out.extend(self.events.iter().map(|event| {
            let flags = event.flags;
            Event {
                token: event.data.u64(),
                read: flags.contains(Flags::IN),
                write: flags.contains(Flags::OUT),
                hang_up: flags.intersects(Flags::HUP | Flags::ERR),
            }
        }));
        out.is_empty()
    }
}

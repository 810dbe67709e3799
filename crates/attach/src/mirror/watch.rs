//! Where requests leave the process: a test sees what the kernel is asked for and what it answers,
//! and may answer in its place. In the product nothing of this is left.

use std::io;
use std::os::fd::RawFd;

use io_uring::squeue;
#[cfg(test)]
use rustix::io::Errno;

#[cfg(test)]
use super::torture::machine::{self, Ticket};

/// What the kernel is asked for.
#[cfg_attr(not(test), allow(dead_code))]
#[derive(Debug)]
pub(super) enum Asked<'b> {
    Read {
        at: u64,
        bytes: u64,
    },
    Write {
        at: u64,
        bytes: &'b [u8],
        /// With `RWF_DSYNC`.
        durable: bool,
    },
    Zeros {
        at: u64,
        bytes: u64,
    },
    Sync,
}

/// Ask the kernel by `work`, which answers with bytes moved.
pub(super) fn ask(
    fd: RawFd,
    asked: Asked<'_>,
    work: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    #[cfg(not(test))]
    {
        let _ = (fd, asked);
        work()
    }
    #[cfg(test)]
    {
        machine::dawdle();
        let ticket = machine::began(fd, asked);
        machine::dawdle();
        let answer = match work() {
            Ok(moved) => moved as i32,
            Err(why) => -why.raw_os_error().unwrap_or(libc::EIO),
        };
        machine::dawdle();
        let answer = ticket.map_or(answer, |ticket| ticket.ended(answer));
        machine::dawdle();
        match u32::try_from(answer) {
            Ok(moved) => Ok(moved as usize),
            Err(_) => Err(Errno::from_raw_os_error(-answer).into()),
        }
    }
}

/// A request of the ring that is out.
#[derive(Default)]
pub(super) struct Watched {
    #[cfg(test)]
    ticket: Option<Ticket>,
}

impl Watched {
    /// The kernel is given this entry.
    pub(super) fn new(entry: &squeue::Entry) -> Watched {
        #[cfg(not(test))]
        {
            let _ = entry;
            Watched {}
        }
        #[cfg(test)]
        {
            let (fd, asked) = decoded(entry);
            Watched { ticket: asked.and_then(|asked| machine::began(fd, asked)) }
        }
    }

    /// The kernel has answered; what is made of that.
    pub(super) fn ended(self, answer: i32) -> i32 {
        #[cfg(test)]
        return self.ticket.map_or(answer, |ticket| ticket.ended(answer));
        #[cfg(not(test))]
        answer
    }
}

/// What the kernel will read in an entry, by the layout of `struct io_uring_sqe`.
#[cfg(test)]
fn decoded(entry: &squeue::Entry) -> (RawFd, Option<Asked<'_>>) {
    const _: () = assert!(size_of::<squeue::Entry>() == 64);
    // SAFETY: an entry is 64 bytes that the kernel reads, without padding.
    let raw: &[u8; 64] = unsafe { &*std::ptr::from_ref(entry).cast() };
    let word = |at: usize| u32::from_ne_bytes(raw[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_ne_bytes(raw[at..at + 8].try_into().expect("eight bytes"));
    let (at, address, length, flags) = (long(8), long(16), word(24), word(28));
    const FSYNC: u8 = 3;
    const FALLOCATE: u8 = 17;
    const READ: u8 = 22;
    const WRITE: u8 = 23;
    let asked = match raw[0] {
        READ => Some(Asked::Read { at, bytes: length.into() }),
        WRITE => {
            let (start, length) = (address as *const u8, length as usize);
            // SAFETY: the ring keeps the buffer that an entry names until the kernel has answered.
            let bytes = unsafe { std::slice::from_raw_parts(start, length) };
            let durable = flags & libc::RWF_DSYNC as u32 != 0;
            Some(Asked::Write { at, bytes, durable })
        }
        FALLOCATE => Some(Asked::Zeros { at, bytes: address }),
        FSYNC => Some(Asked::Sync),
        _ => None,
    };
    (word(4) as RawFd, asked)
}

//! The ring: requests to devices past the page cache, many at a time, without threads.
//!
//! A device's own time is what its client sees then, and what the core calls a freeze is one.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};
use mirror::Block;
use mirror::core::Io;
use mirror::format::PAGE_BYTES;

use super::device::{Device, PAGE, PUNCH, step};
use super::worker::{Done, NOTHING, Outcome, Place, Work, sums};
use crate::aligned::Aligned;

/// Requests that the kernel is given at a time; more wait here.
const ENTRIES: u32 = 256;
/// Zeros are written so many pages at a time where the device cannot make them by itself.
const ZERO_PAGES: usize = 64;
/// Buffers that are kept for the next requests.
const SPARE: usize = 64;

/// What is done at the moment.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read {
        block: Block,
    },
    Write,
    /// Let the device make zeros by itself.
    Punch,
    Zeros,
    Sync,
}

/// A request that has not ended.
struct Flight {
    place: Place,
    io: Io,
    device: Arc<Device>,
    step: Step,
    /// Its end means that something is durable.
    durable: bool,
    buffer: Aligned,
    /// On the device, in bytes.
    at: u64,
    end: u64,
    start: u64,
}

impl Flight {
    /// What the kernel is asked for next.
    fn entry(&mut self) -> Option<squeue::Entry> {
        let fd = types::Fd(self.device.direct()?);
        let left = (self.end - self.at) as usize;
        let skip = (self.at - self.start) as usize;
        let dsync = if self.durable { libc::RWF_DSYNC } else { 0 };
        Some(match self.step {
            Step::Read { .. } => {
                let into = &mut self.buffer.bytes_mut()[skip..];
                opcode::Read::new(fd, into.as_mut_ptr(), left as u32).offset(self.at).build()
            }
            Step::Write => {
                let from = &self.buffer.bytes()[skip..];
                let write = opcode::Write::new(fd, from.as_ptr(), left as u32).offset(self.at);
                write.rw_flags(dsync).build()
            }
            Step::Punch => {
                let punch = opcode::Fallocate::new(fd, left as u64).offset(self.at);
                punch.mode(PUNCH.bits() as i32).build()
            }
            Step::Zeros => {
                let zeros = &self.buffer.bytes()[..left.min(ZERO_PAGES * PAGE_BYTES)];
                let length = zeros.len() as u32;
                opcode::Write::new(fd, zeros.as_ptr(), length).offset(self.at).build()
            }
            Step::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        })
    }

    /// The kernel has answered. `None` when there is more to do.
    fn answered(&mut self, result: i32, array: u128) -> Option<Outcome> {
        let moved = match u64::try_from(result) {
            Ok(moved) => moved,
            Err(_) => {
                let why = io::Error::from_raw_os_error(-result);
                return match (self.step, why.kind()) {
                    (_, io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => None,
                    // It cannot.
                    (Step::Punch, _) => {
                        let pages = ((self.end - self.at) / PAGE) as usize;
                        self.buffer = Aligned::new(pages.min(ZERO_PAGES));
                        self.step = Step::Zeros;
                        None
                    }
                    _ => Some(Err(why)),
                };
            }
        };
        match self.step {
            Step::Sync => return Some(Ok(NOTHING)),
            Step::Punch => self.at = self.end,
            _ if moved == 0 => return Some(Err(io::ErrorKind::UnexpectedEof.into())),
            _ => self.at += moved,
        }
        match self.step {
            _ if self.at < self.end => None,
            Step::Read { block } => {
                let bytes = self.buffer.bytes().to_vec();
                let sums = sums(array, block, &bytes);
                Some(Ok((bytes, sums)))
            }
            Step::Punch | Step::Zeros if self.durable => {
                self.step = Step::Sync;
                None
            }
            _ => Some(Ok(NOTHING)),
        }
    }
}

/// An io_uring, and what is in it.
pub(super) struct Ring {
    array: u128,
    ring: IoUring,
    /// By the number that the kernel knows each by.
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// Those that the kernel has not been told of.
    waiting: VecDeque<usize>,
    spare: Vec<Aligned>,
}

impl Ring {
    /// It rings `bell` when something has ended.
    pub(super) fn new(array: u128, bell: &OwnedFd) -> io::Result<Ring> {
        let ring = IoUring::new(ENTRIES)?;
        ring.submitter().register_eventfd(bell.as_raw_fd())?;
        let (flights, free, spare) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Ring { array, ring, flights, free, waiting: VecDeque::new(), spare })
    }

    fn buffer(&mut self, pages: usize) -> Aligned {
        let mut buffer = self.spare.pop().unwrap_or_else(|| Aligned::new(0));
        buffer.resize(pages);
        buffer
    }

    /// Do something at a device that has [`Device::direct`]; it begins with [`Ring::submit`].
    pub(super) fn begin(&mut self, place: Place, io: Io, device: &Arc<Device>, work: Work) {
        let (step, durable, page, pages, buffer) = match work {
            Work::Read { page, block, blocks } => {
                let buffer = self.buffer(blocks as usize);
                (Step::Read { block }, false, page, blocks.into(), buffer)
            }
            Work::Write { page, bytes, durable } => {
                let mut buffer = self.buffer(bytes.get().len() / PAGE_BYTES);
                buffer.bytes_mut().copy_from_slice(bytes.get());
                (Step::Write, durable, page, buffer.pages(), buffer)
            }
            Work::Zero { page, pages, durable } => {
                (Step::Punch, durable, page, pages, self.buffer(0))
            }
            Work::Flush => (Step::Sync, true, 0, 0, self.buffer(0)),
        };
        let (start, end) = (page * PAGE, (page + pages) * PAGE);
        let device = Arc::clone(device);
        let flight = Flight { place, io, device, step, durable, buffer, at: start, end, start };
        let index = self.free.pop().unwrap_or(self.flights.len());
        match self.flights.get_mut(index) {
            Some(free) => *free = Some(flight),
            None => self.flights.push(Some(flight)),
        }
        self.waiting.push_back(index);
    }

    /// Tell the kernel of all that waits. What fails at once is in `ended`, and true is returned
    /// when there is something to look at though the bell does not ring.
    pub(super) fn submit(&mut self, ended: &mut VecDeque<Done>) -> bool {
        let before = ended.len();
        for _ in 0..self.waiting.len() {
            let Some(index) = self.waiting.pop_front() else { break };
            let Some(flight) = &mut self.flights[index] else { continue };
            if flight.device.is_frozen() {
                self.waiting.push_back(index);
                continue;
            }
            if let Err(why) = may_begin(flight) {
                self.end(index, Err(why), ended);
                continue;
            }
            if !matches!(flight.step, Step::Read { .. }) {
                step();
            }
            let Some(entry) = flight.entry() else { continue };
            let entry = entry.user_data(index as u64);
            // SAFETY: the buffer and the device live in the flight until the kernel has answered,
            // or for ever.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                self.waiting.push_front(index);
                if self.ring.submit().is_err() {
                    break;
                }
            }
        }
        let refused = !self.ring.submission().is_empty() && self.ring.submit().is_err();
        refused || ended.len() > before
    }

    /// All that has ended.
    pub(super) fn take(&mut self, ended: &mut VecDeque<Done>) {
        loop {
            let next = self.ring.completion().next();
            let Some(answer) = next else { return };
            let index = answer.user_data() as usize;
            let Some(flight) = self.flights.get_mut(index).and_then(Option::as_mut) else {
                continue;
            };
            match flight.answered(answer.result(), self.array) {
                None => self.waiting.push_back(index),
                Some(outcome) => self.end(index, outcome, ended),
            }
        }
    }

    fn end(&mut self, index: usize, outcome: Outcome, ended: &mut VecDeque<Done>) {
        let Some(flight) = self.flights[index].take() else { return };
        self.free.push(index);
        if outcome.is_err() && flight.durable {
            flight.device.distrust();
        }
        let Flight { place, io, buffer, .. } = flight;
        if self.spare.len() < SPARE {
            self.spare.push(buffer);
        }
        ended.push_back(Done { place, io, outcome });
    }

    /// Nobody wants to hear of this medium any more: what has not begun never does.
    pub(super) fn forget(&mut self, place: Place) {
        let flights = &mut self.flights;
        let free = &mut self.free;
        self.waiting.retain(|&index| {
            let here = flights[index].as_ref().is_some_and(|flight| flight.place == place);
            if here {
                flights[index] = None;
                free.push(index);
            }
            !here
        });
    }
}

fn may_begin(flight: &Flight) -> io::Result<()> {
    flight.device.works()?;
    match flight.durable {
        true => flight.device.is_trusted(),
        false => Ok(()),
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // What a device still does may write to its buffer at any time: it is never used again.
        let out = self.flights.drain(..).flatten();
        out.for_each(|flight| std::mem::forget(flight.buffer));
    }
}

//! The ring: requests to devices past the page cache, many at a time, without threads.
//!
//! A device's own time is what its client sees then, and what the core calls a freeze is one.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};
use mirror::Block;
use mirror::core::Io;
use mirror::format::PAGE_BYTES;
use mirror::format::sums::BlockSums;

use super::device::{Device, PAGE, is_full, step};
use super::mutant::planted;
use super::watch::Watched;
use super::work::{Done, MediumId, NOTHING, Outcome, Work, sums};
use crate::aligned::Aligned;
use crate::zeroes::{PUNCH, ZERO};

/// Requests that the kernel is told of in one call.
const ENTRIES: u32 = 256;
/// Requests of one medium that the kernel has at a time; more wait here. One that hangs holds up
/// no other.
const DEPTH: usize = 256;
/// Answers that the kernel has room for. It is never given more requests than that: answers
/// beyond it would stay in the kernel until somebody enters it again.
const ANSWERS: usize = 16 * DEPTH;
/// Zeros are written so many pages at a time where the device cannot make them by itself.
const ZERO_PAGES: usize = 64;
/// A ring that goes waits so long for what the kernel was given.
const PARTING: Duration = Duration::from_secs(1);
/// Buffers that are kept for the next requests.
const SPARE: usize = 64;

/// What is done at the moment.
#[derive(Clone, Copy, Debug)]
enum RingOp {
    Read {
        block: Block,
    },
    Write,
    /// A write that a flush follows.
    WriteAndFlush,
    /// Let the device make zeros by itself; they take room or not.
    Punch {
        keep: bool,
    },
    Zeros,
    Sync,
}

/// The requests of one medium.
struct Lane {
    medium: MediumId,
    /// Those that the kernel has not been told of.
    waiting: VecDeque<usize>,
    /// Writes that found no room, until [`Ring::retry`].
    full: VecDeque<usize>,
    /// How many the kernel has.
    given: usize,
}

/// A request that has not ended.
struct Flight {
    medium: MediumId,
    lane: usize,
    io: Io,
    device: Arc<Device>,
    step: RingOp,
    /// Its end means that something is durable.
    durable: bool,
    /// There was no room for it the last time.
    full: bool,
    buffer: Aligned,
    /// On the device, in bytes.
    at: u64,
    end: u64,
    start: u64,
    watched: Watched,
}

impl Flight {
    /// What the kernel is asked for next.
    fn entry(&mut self) -> Option<squeue::Entry> {
        let fd = types::Fd(self.device.direct()?);
        let left = (self.end - self.at) as usize;
        let skip = (self.at - self.start) as usize;
        let dsync = self.durable && !planted!(RingWithoutDsync);
        let dsync = if dsync { libc::RWF_DSYNC } else { 0 };
        Some(match self.step {
            RingOp::Read { .. } => {
                let into = &mut self.buffer.bytes_mut()[skip..];
                opcode::Read::new(fd, into.as_mut_ptr(), left as u32).offset(self.at).build()
            }
            RingOp::Write | RingOp::WriteAndFlush => {
                let from = &self.buffer.bytes()[skip..];
                let write = opcode::Write::new(fd, from.as_ptr(), left as u32).offset(self.at);
                let flushed = matches!(self.step, RingOp::WriteAndFlush);
                write.rw_flags(if flushed { 0 } else { dsync }).build()
            }
            RingOp::Punch { keep } => {
                let how = if keep { ZERO } else { PUNCH };
                let punch = opcode::Fallocate::new(fd, left as u64).offset(self.at);
                punch.mode(how.bits() as i32).build()
            }
            RingOp::Zeros => {
                let zeros = &self.buffer.bytes()[..left.min(ZERO_PAGES * PAGE_BYTES)];
                let length = zeros.len() as u32;
                opcode::Write::new(fd, zeros.as_ptr(), length).offset(self.at).build()
            }
            RingOp::Sync if planted!(RingWithoutFsync) => opcode::Nop::new().build(),
            RingOp::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        })
    }

    /// The kernel has answered. `None` when there is more to do.
    fn answered(&mut self, result: i32, sums_of: BlockSums) -> Option<Outcome> {
        let moved = match u64::try_from(result) {
            Ok(moved) => moved,
            Err(_) => {
                let why = io::Error::from_raw_os_error(-result);
                return match (self.step, why.kind()) {
                    (_, io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => None,
                    // It cannot.
                    (RingOp::Punch { .. }, _) => {
                        let pages = ((self.end - self.at) / PAGE) as usize;
                        self.buffer = Aligned::new(pages.min(ZERO_PAGES));
                        self.step = RingOp::Zeros;
                        None
                    }
                    (RingOp::Write | RingOp::WriteAndFlush | RingOp::Zeros, _) if is_full(&why) => {
                        self.full = true;
                        self.device.found_room(false);
                        None
                    }
                    _ => Some(Err(why)),
                };
            }
        };
        match self.step {
            RingOp::Sync => return Some(Ok(NOTHING)),
            RingOp::Punch { .. } => self.at = self.end,
            _ if moved == 0 => return Some(Err(io::ErrorKind::UnexpectedEof.into())),
            RingOp::Read { .. } => self.at += moved,
            RingOp::Write | RingOp::WriteAndFlush | RingOp::Zeros => {
                self.at += moved;
                if std::mem::take(&mut self.full) {
                    self.device.found_room(true);
                }
            }
        }
        match self.step {
            _ if self.at < self.end => None,
            RingOp::Read { block } => {
                let bytes = self.buffer.bytes().to_vec();
                let sums = sums(sums_of, block, &bytes);
                Some(Ok((bytes, sums)))
            }
            RingOp::WriteAndFlush | RingOp::Punch { .. } | RingOp::Zeros if self.durable => {
                self.step = RingOp::Sync;
                None
            }
            _ => Some(Ok(NOTHING)),
        }
    }
}

/// An io_uring, and what is in it.
pub(super) struct Ring {
    sums_of: BlockSums,
    ring: IoUring,
    /// By the number that the kernel knows each by.
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// One for each medium that there was.
    lanes: Vec<Lane>,
    spare: Vec<Aligned>,
}

impl Ring {
    /// It signals the eventfd `wakeup` when something has ended.
    pub(super) fn new(sums_of: BlockSums, wakeup: &OwnedFd) -> io::Result<Ring> {
        let ring = IoUring::builder().setup_cqsize(ANSWERS as u32).build(ENTRIES)?;
        ring.submitter().register_eventfd(wakeup.as_raw_fd())?;
        // What a device cannot begin at once, as a discard, takes a thread of the kernel until it
        // ends. All are had by one that hangs, unless there may be one for each request. A kernel
        // before 5.15 has no such call, and its own bound.
        let _ = ring.submitter().register_iowq_max_workers(&mut [ANSWERS as u32, 0]);
        let (flights, free, spare) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Ring { sums_of, ring, flights, free, lanes: Vec::new(), spare })
    }

    fn lane(&mut self, medium: MediumId) -> usize {
        let known = self.lanes.iter().position(|lane| lane.medium == medium);
        known.unwrap_or_else(|| {
            let (waiting, full) = (VecDeque::new(), VecDeque::new());
            self.lanes.push(Lane { medium, waiting, full, given: 0 });
            self.lanes.len() - 1
        })
    }

    fn buffer(&mut self, pages: usize) -> Aligned {
        let mut buffer = self.spare.pop().unwrap_or_else(|| Aligned::new(0));
        buffer.resize(pages);
        buffer
    }

    /// Do something at a device that has [`Device::direct`]; it begins with [`Ring::submit`].
    pub(super) fn begin(&mut self, medium: MediumId, io: Io, device: &Arc<Device>, work: Work) {
        let (step, durable, page, pages, buffer) = match work {
            Work::Read { page, block, blocks } => {
                let buffer = self.buffer(blocks as usize);
                (RingOp::Read { block }, false, page, blocks.into(), buffer)
            }
            Work::Write { page, bytes, durable } => {
                let mut buffer = self.buffer(bytes.get().len() / PAGE_BYTES);
                buffer.bytes_mut().copy_from_slice(bytes.get());
                (RingOp::Write, durable, page, buffer.pages(), buffer)
            }
            Work::WriteAndFlush { page, bytes } => {
                let mut buffer = self.buffer(bytes.get().len() / PAGE_BYTES);
                buffer.bytes_mut().copy_from_slice(bytes.get());
                (RingOp::WriteAndFlush, true, page, buffer.pages(), buffer)
            }
            Work::Zero { page, pages, durable, keep } => {
                (RingOp::Punch { keep }, durable, page, pages, self.buffer(0))
            }
            Work::Flush => (RingOp::Sync, true, 0, 0, self.buffer(0)),
        };
        let (start, end) = (page * PAGE, (page + pages) * PAGE);
        let (device, lane) = (Arc::clone(device), self.lane(medium));
        let flight = Flight {
            medium,
            lane,
            io,
            device,
            step,
            durable,
            full: false,
            buffer,
            at: start,
            end,
            start,
            watched: Watched::default(),
        };
        let index = self.free.pop().unwrap_or(self.flights.len());
        match self.flights.get_mut(index) {
            Some(free) => *free = Some(flight),
            None => self.flights.push(Some(flight)),
        }
        self.lanes[lane].waiting.push_back(index);
    }

    /// Tell the kernel of what waits, as far as it is given so many. What fails at once is in
    /// `ended`, and true is returned when there is something to look at though `wakeup` is not
    /// signalled.
    pub(super) fn submit(&mut self, ended: &mut VecDeque<Done>) -> bool {
        let before = ended.len();
        let mut given: usize = self.lanes.iter().map(|lane| lane.given).sum();
        for lane in 0..self.lanes.len() {
            while given < ANSWERS && self.lanes[lane].given < DEPTH {
                let Some(index) = self.lanes[lane].waiting.pop_front() else { break };
                match self.give(index, ended) {
                    Given::Yes => {
                        given += 1;
                        self.lanes[lane].given += 1;
                    }
                    Given::Ended => {}
                    Given::Later => {
                        self.lanes[lane].waiting.push_front(index);
                        break;
                    }
                }
            }
        }
        let refused = !self.ring.submission().is_empty() && self.ring.submit().is_err();
        refused || ended.len() > before
    }

    fn give(&mut self, index: usize, ended: &mut VecDeque<Done>) -> Given {
        let Some(flight) = &mut self.flights[index] else { return Given::Ended };
        if flight.device.is_frozen() {
            return Given::Later;
        }
        // Nothing else is told to a kernel that takes no more.
        if self.ring.submission().is_full() && self.ring.submit().is_err() {
            return Given::Later;
        }
        if let Err(why) = may_begin(flight) {
            self.end(index, Err(why), ended);
            return Given::Ended;
        }
        if !matches!(flight.step, RingOp::Read { .. }) {
            step();
        }
        let Some(entry) = flight.entry() else { return Given::Ended };
        let entry = entry.user_data(index as u64);
        flight.watched = Watched::new(&entry);
        // SAFETY: the buffer and the device live in the flight until the kernel has answered,
        // or for ever.
        match unsafe { self.ring.submission().push(&entry) } {
            Ok(()) => Given::Yes,
            Err(_) => Given::Later,
        }
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
            let lane = &mut self.lanes[flight.lane];
            lane.given -= 1;
            let result = std::mem::take(&mut flight.watched).ended(answer.result());
            match flight.answered(result, self.sums_of) {
                None if flight.full => lane.full.push_back(index),
                None => lane.waiting.push_back(index),
                Some(outcome) => self.end(index, outcome, ended),
            }
        }
    }

    fn end(&mut self, index: usize, outcome: Outcome, ended: &mut VecDeque<Done>) {
        let Some(flight) = self.flights[index].take() else { return };
        self.free.push(index);
        // By itself, or by its flush? A write or a hole before a flush leaves no doubt of others.
        let makes_durable = matches!(flight.step, RingOp::Sync | RingOp::Write);
        if outcome.is_err() && flight.durable && makes_durable {
            flight.device.distrust();
        }
        let Flight { medium, io, buffer, .. } = flight;
        if self.spare.len() < SPARE {
            self.spare.push(buffer);
        }
        ended.push_back(Done { medium, io, outcome });
    }

    /// Try again what found no room.
    pub(super) fn retry(&mut self) {
        for lane in &mut self.lanes {
            lane.waiting.append(&mut lane.full);
        }
    }

    /// Nobody wants to hear of this medium any more: what has not begun never does.
    pub(super) fn forget(&mut self, medium: MediumId) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.medium == medium) {
            for index in lane.waiting.drain(..).chain(lane.full.drain(..)) {
                self.flights[index] = None;
                self.free.push(index);
            }
        }
    }
}

/// Was the kernel told of a request?
enum Given {
    Yes,
    /// No: it has ended.
    Ended,
    /// Not yet.
    Later,
}

fn may_begin(flight: &Flight) -> io::Result<()> {
    flight.device.works()?;
    if flight.durable { flight.device.is_trusted() } else { Ok(()) }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            for index in lane.waiting.drain(..).chain(lane.full.drain(..)) {
                self.flights[index] = None;
            }
        }
        let end = Instant::now() + PARTING;
        while self.flights.iter().any(Option::is_some) {
            let left = types::Timespec::from(end.saturating_duration_since(Instant::now()));
            let args = types::SubmitArgs::new().timespec(&left);
            if self.ring.submitter().submit_with_args(1, &args).is_err() || Instant::now() >= end {
                break;
            }
            for answer in self.ring.completion() {
                self.flights[answer.user_data() as usize] = None;
            }
        }
        // What a device that hangs still does may write to its buffer at any time, and the kernel
        // may look its file up by number only then: neither is ever used again.
        self.flights.drain(..).flatten().for_each(std::mem::forget);
    }
}

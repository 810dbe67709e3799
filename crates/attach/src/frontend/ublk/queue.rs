//! The one queue of a device: requests come out of a ring, answers go back through it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use io_uring::{IoUring, opcode, squeue, types};

use super::wire::{self, DESCRIPTION_BYTES, command};
use crate::mapped::Mapped;

/// What the kernel writes about each request: memory that it shares with us, for reading only.
struct Descriptions {
    memory: Mapped,
    count: u16,
}

impl Descriptions {
    fn map(file: &File, count: u16) -> io::Result<Descriptions> {
        let bytes = (usize::from(count) * DESCRIPTION_BYTES).next_multiple_of(4096);
        Ok(Descriptions { memory: Mapped::new(file, bytes)?, count })
    }

    /// The description of a request that the kernel has handed over and not taken back.
    fn read(&self, tag: u16) -> [u8; DESCRIPTION_BYTES] {
        assert!(tag < self.count, "the kernel knows the queue's depth");
        let start = self.memory.place().0.cast_const().cast::<[u8; DESCRIPTION_BYTES]>();
        // SAFETY: the place lies in the mapping. Another side may write it, hence volatile; an
        // array of bytes has no invalid value.
        unsafe { start.add(usize::from(tag)).read_volatile() }
    }
}

/// What came out of the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) tag: u16,
    /// 0 for a request; otherwise the queue is being closed.
    pub(super) result: i32,
}

/// Whether a ring can be made, tried out.
///
/// # Errors
/// What the kernel, or what filters a container's system calls, answered.
pub fn io_uring_permitted() -> io::Result<()> {
    IoUring::new(1).map(drop)
}

/// The server's side of a queue. The thread that makes it must be the one that serves it.
pub(super) struct Queue {
    ring: IoUring,
    file: File,
    descriptions: Descriptions,
}

impl Queue {
    /// Open the device's file, and ask for the first request of every tag.
    pub(super) fn open(path: &Path, depth: u16) -> io::Result<Queue> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let descriptions = Descriptions::map(&file, depth)?;
        let ring = IoUring::builder().build(u32::from(depth).next_power_of_two())?;
        let mut queue = Queue { ring, file, descriptions };
        for tag in 0..depth {
            queue.push(command::FETCH, tag, 0);
        }
        queue.submit()?;
        Ok(queue)
    }

    fn push(&mut self, code: u32, tag: u16, result: i32) {
        let fd = types::Fd(self.file.as_raw_fd());
        let entry: squeue::Entry =
            opcode::UringCmd16::new(fd, code).cmd(wire::io(tag, result)).build();
        let entry = entry.user_data(u64::from(tag));
        // SAFETY: the entry refers to no memory, and the file lives as long as the ring.
        let full = unsafe { self.ring.submission().push(&entry) }.is_err();
        assert!(!full, "there is an entry for each tag");
    }

    /// Answer request `tag`, and ask for the next one; it goes with [`Queue::submit`].
    pub(super) fn answer(&mut self, tag: u16, result: i32) {
        self.push(command::COMMIT_AND_FETCH, tag, result);
    }

    /// Send what waits.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.ring.submit().map(drop)
    }

    /// Everything that has come.
    pub(super) fn take(&mut self, came: &mut Vec<Came>) {
        let entry = |done: io_uring::cqueue::Entry| Came {
            tag: done.user_data() as u16,
            result: done.result(),
        };
        came.extend(self.ring.completion().map(entry));
    }

    pub(super) fn description(&self, tag: u16) -> [u8; DESCRIPTION_BYTES] {
        self.descriptions.read(tag)
    }

    /// The data of a write.
    pub(super) fn read_data(&self, tag: u16, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, wire::data_offset(tag))
    }

    /// The data for a read.
    pub(super) fn write_data(&self, tag: u16, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, wire::data_offset(tag))
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns its descriptor and outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

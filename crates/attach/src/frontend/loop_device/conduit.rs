//! Long reads go from the store to the kernel through a pipe. What moves in it is pages, not
//! bytes, so the kernel's own copy is the only one.

use std::fs::File;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::param::page_size;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::wire;
use crate::order::Order;

/// What is shorter is copied sooner.
const SHORTEST: u32 = 16 << 10;

/// A pipe for one answer at a time.
pub(super) struct Conduit {
    entrance: OwnedFd,
    exit: OwnedFd,
    longest: u32,
}

impl Conduit {
    /// `None` where the kernel gives no pipe that is worth it.
    pub(super) fn new() -> Option<Conduit> {
        let (exit, entrance) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let most = wire::DATA_MAX as usize;
        // Room for more than a megabyte is a privilege.
        let mut rooms = [2 * most, most].into_iter();
        let room = rooms.find_map(|room| fcntl_setpipe_size(&entrance, room).ok())?;
        // A page is the head's, and data that begins within a page ends within one more.
        let longest = most.min(room - 2 * page_size()) as u32;
        Some(Conduit { entrance, exit, longest })
    }

    /// How long a read may be.
    pub(super) fn lengths(&self) -> RangeInclusive<u32> {
        SHORTEST..=self.longest
    }

    /// Answer a read with what `source` has. `None` when it does not give it that way: nothing was
    /// sent. Unless all went well this conduit is spent.
    pub(super) fn send(
        &self,
        read: &Order,
        source: &File,
        connection: impl AsFd,
    ) -> Option<Result<(), Errno>> {
        let (flags, bytes) = (SpliceFlags::empty(), read.bytes as usize);
        let head = wire::header(read.ticket.tag, bytes, 0);
        rustix::io::write(&self.entrance, &head).ok()?;
        let (mut offset, mut left) = (read.offset, bytes);
        while left > 0 {
            match splice(source, Some(&mut offset), &self.entrance, None, left, flags) {
                Ok(0) => return None,
                Ok(put) => left -= put,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        let sent = splice(&self.exit, None, connection, None, head.len() + bytes, flags);
        Some(sent.map(|_| ()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use sim::Bytes;

    use super::*;
    use crate::order::{Command, Ticket};
    use crate::store::Store;

    #[test]
    fn what_the_store_has_goes_through_and_a_hole_stays_one() {
        let store = Store::memory(Bytes::from_mib(4)).unwrap();
        store.write(1 << 20, &[7; 300_000]).unwrap();
        let there = Store::memory(Bytes::from_mib(4)).unwrap();
        let conduit = Conduit::new().unwrap();
        let ticket = Ticket { tag: 5, ..Ticket::default() };
        let bytes = *conduit.lengths().end();
        // From within a page of the hole to within a page behind the data.
        let read = Order::new(ticket, Command::Read, (1 << 20) - 1000, bytes);
        assert_eq!(conduit.send(&read, store.source(), there.source()), Some(Ok(())));
        let mut answer = vec![1; wire::REPLY_HEADER_BYTES + bytes as usize];
        there.source().read_exact_at(&mut answer, 0).unwrap();
        let (head, data) = answer.split_at(wire::REPLY_HEADER_BYTES);
        assert_eq!(head, wire::header(5, bytes as usize, 0));
        let mut expected = vec![0; bytes as usize];
        expected[1000..301_000].fill(7);
        assert!(data == expected);
        assert!(store.extents(0, 1 << 20, 9).unwrap().iter().all(|extent| extent.hole));
    }

    #[test]
    fn what_is_not_there_is_not_sent() {
        let store = Store::memory(Bytes::from_mib(1)).unwrap();
        let there = Store::memory(Bytes::from_mib(1)).unwrap();
        let conduit = Conduit::new().unwrap();
        let (ticket, command) = (Ticket::default(), Command::Read);
        let read = Order::new(ticket, command, (1 << 20) - 4096, 65536);
        assert_eq!(conduit.send(&read, store.source(), there.source()), None);
    }
}

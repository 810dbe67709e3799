//! What clients ask, and what they are answered.

use sim::{Limits, Op, Priority};

use crate::clock::Wall;

/// What a client asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Read a range.
    Read,
    /// Write a range; durable at the reply when `fua`.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// Make durable what was acknowledged.
    Flush,
    /// The range's data is no longer needed.
    Discard,
    /// Make a range read as zeroes.
    WriteZeroes {
        /// Force unit access.
        fua: bool,
        /// The device may forget the range instead of writing it.
        may_discard: bool,
    },
}

/// Who asked, in the frontend's own terms.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ticket {
    /// Which of the frontend's connections.
    pub connection: u32,
    /// Tells connections apart that had the same number one after the other.
    pub generation: u32,
    /// The client's name for the request.
    pub tag: u64,
}

/// On whose behalf a client asks, where it says so.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Submitter {
    /// The process; 0 when unknown.
    pub process: u32,
    /// It waits for what it writes.
    pub sync: bool,
    /// Its I/O priority.
    pub priority: Priority,
}

/// One request of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Who asked.
    pub ticket: Ticket,
    /// For what.
    pub command: Command,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; 0 for a flush.
    pub bytes: u32,
    /// On whose behalf.
    pub submitter: Submitter,
}

impl Order {
    /// On behalf of nobody known.
    pub fn new(ticket: Ticket, command: Command, offset: u64, bytes: u32) -> Order {
        Order { ticket, command, offset, bytes, submitter: Submitter::default() }
    }
}

/// A request failed; what the client is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Read or write error.
    Io,
    /// The range does not lie on the device.
    BeyondEnd,
    /// The host has no room for the data.
    NoSpace,
}

impl Refusal {
    pub(crate) const ALL: [Refusal; 3] = [Refusal::Io, Refusal::BeyondEnd, Refusal::NoSpace];

    /// For people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Refusal::Io => "I/O error",
            Refusal::BeyondEnd => "beyond the end",
            Refusal::NoSpace => "no room on the host",
        }
    }
}

/// Refuse a range that does not lie on the device.
pub(crate) fn inside(limits: &Limits, offset: u64, bytes: u32) -> Result<(), Refusal> {
    let end = offset.checked_add(u64::from(bytes));
    if end.is_some_and(|end| end <= limits.capacity.0) { Ok(()) } else { Err(Refusal::BeyondEnd) }
}

/// The moments of one request.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The operation, as the model saw it.
    pub op: Op,
    /// When it arrived.
    pub arrived: Wall,
    /// When its reply was due.
    pub due: Wall,
    /// How long the model took, in wall nanoseconds; `None` when the model was not asked.
    pub modelled_ns: Option<u64>,
}

/// An answer that is due.
#[derive(Debug)]
pub struct Reply {
    /// What is answered.
    pub order: Order,
    /// When it was due, and what that is measured against.
    pub timing: Timing,
    /// What a read found, unless it was left in its place ([`crate::target::Target::leave_reads`]);
    /// empty for everything else.
    pub result: Result<Vec<u8>, Refusal>,
}

impl Reply {
    /// Bytes that were read or written: none of a request that failed, of which nothing is done.
    pub(crate) fn moved(&self) -> u32 {
        if self.result.is_ok() { self.order.bytes } else { 0 }
    }
}

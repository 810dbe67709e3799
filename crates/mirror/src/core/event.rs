//! What goes into the core and what comes out of it.

use std::ops::Range;

use crate::format::maps::{Activity, Bitmap, TablePage};
use crate::format::record::Record;
use crate::format::{Layout, Superblock};
use crate::types::{Mode, Slot, Span};

/// A host request's number, chosen by the shell.
pub type HostId = u64;

/// A device request's number, chosen by the core: each is answered by exactly one [`Event::Done`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Io(pub u64);

sim::snapshot_fields!(Io { 0 });

/// What a write writes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Content {
    /// The request's payload.
    #[default]
    Data,
    /// Zeros: a write-zeroes or a discard, which reads as zeros from either leg.
    Zeros,
}

sim::snapshot_enum!(Content { Data, Zeros });

/// A device request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoError;

/// Something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// The host writes whole blocks; `sums` has a checksum for each. The payload must stay
    /// readable and unchanged until [`Action::Free`].
    Write {
        /// The request.
        id: HostId,
        /// Where.
        span: Span,
        /// What.
        content: Content,
        /// Durable before it is answered.
        fua: bool,
        /// One [`crate::format::crc::block_sum`] per block.
        sums: &'a [u32],
    },
    /// The host writes a part of the blocks of `span`. The core reads them first, then asks the
    /// shell to [`Action::Merge`].
    WritePart {
        /// The request.
        id: HostId,
        /// Every block that it touches.
        span: Span,
        /// Durable before it is answered.
        fua: bool,
    },
    /// The shell has merged a partial write: it is a whole one now.
    Merged {
        /// The request.
        id: HostId,
        /// One checksum per block.
        sums: &'a [u32],
    },
    /// The host reads.
    Read {
        /// The request.
        id: HostId,
        /// Where.
        span: Span,
    },
    /// The host wants everything acknowledged so far to be durable.
    Flush {
        /// The request.
        id: HostId,
    },
    /// A device request ended. A read gives one checksum per block.
    Done {
        /// The request.
        io: Io,
        /// Checksums of what was read; empty for anything else.
        result: Result<&'a [u32], IoError>,
    },
    /// Nothing but time passed.
    Tick,
    /// A device that failed or vanished since the start answers again. One that was not there at
    /// the start is not taken back this way: start again with it, or wipe it and say
    /// [`Command::Replace`].
    Returned(Slot),
    /// The operator wants something.
    Command(Command),
}

/// What an operator may want.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Leave this device out.
    Fail(Slot),
    /// The medium in this slot is new, or its superblocks are wiped: copy everything to it.
    Replace(Slot),
    /// Compare both legs from the first block to the last.
    Scrub,
    /// Run in another mode.
    SetMode(Mode),
    /// Stop in order: nothing to recover at the next start.
    Stop,
}

/// A metadata page to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meta {
    /// A superblock, as copy number `copy`.
    Superblock {
        /// Which of the four copies.
        copy: u64,
        /// The content.
        superblock: Box<Superblock>,
    },
    /// The hot extents: both pages of the slot of its version's lowest bit, in one request.
    Activity(Activity),
    /// A page of the bitmap; the slot is its version's lowest bit.
    Bitmap(Bitmap),
    /// A page of the checksum table; the slot is its version's lowest bit.
    Table(TablePage),
}

impl Meta {
    /// The pages of a device with this layout that it is written to.
    pub fn pages(&self, layout: &Layout) -> Range<u64> {
        let (first, count) = match self {
            Meta::Superblock { copy, .. } => (layout.superblock(*copy), 1),
            Meta::Activity(activity) => (layout.activity + 2 * (activity.version % 2), 2),
            Meta::Bitmap(page) => (layout.bitmap_slots(page.index).start + page.version % 2, 1),
            Meta::Table(page) => (layout.table_slots(page.index).start + page.version % 2, 1),
        };
        first..first + count
    }
}

/// Where the bytes of a device write or of a delivery come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The payload of a host write, from this block of it on.
    Host {
        /// The write.
        id: HostId,
        /// Blocks to skip.
        offset: u32,
    },
    /// What a device read read, from this block of it on.
    Read {
        /// The read.
        io: Io,
        /// Blocks to skip.
        offset: u32,
    },
}

/// A piece of payload of a log record, in order after the head page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The host write whose payload it is.
    pub id: HostId,
    /// Its blocks.
    pub span: Span,
}

/// Why a device is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A write, a flush or a metadata write failed.
    Failed,
    /// It was asked for.
    Asked,
    /// It did not answer a request for too long.
    Stuck,
    /// A flush or the acknowledgement of a write waited too long for it alone.
    HeldBack,
    /// It was slow, and the other leg was not, for too large a share of the time.
    Slow,
}

impl Why {
    /// Was it late, rather than wrong or unwanted?
    pub const fn is_late(self) -> bool {
        matches!(self, Why::Stuck | Why::HeldBack | Why::Slow)
    }
}

/// What happened that people want to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The leg counts as frozen, or no longer.
    Frozen(Slot, bool),
    /// The device is being left out.
    Left(Slot, Why),
    /// The leg is being filled.
    Filling(Slot),
    /// The leg is a full member again.
    Joined(Slot),
    /// A copy of this block was wrong and is being repaired.
    Mismatch(Slot, u64),
    /// The copies of this block differ and nothing says which is right, or both are wrong alike.
    Undecided(u64),
    /// The content of this block could be read from no leg: it is lost until it is written.
    Lost(u64),
    /// The host was told of an error: this block could not be read.
    Unreadable(u64),
    /// A scrub went through.
    Scrubbed,
    /// No leg is left: every request fails.
    Failed,
}

/// Something to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Read data blocks into a buffer named after `io`.
    Read {
        /// The request.
        io: Io,
        /// The leg.
        slot: Slot,
        /// Where.
        span: Span,
    },
    /// Write data blocks.
    Write {
        /// The request.
        io: Io,
        /// The leg.
        slot: Slot,
        /// Where.
        span: Span,
        /// Zeros or data.
        content: Content,
        /// The data; for zeros, the request they belong to.
        from: Source,
        /// Durable on completion.
        fua: bool,
    },
    /// Append a log record at page `page` of the ring, durable on completion.
    Record {
        /// The request.
        io: Io,
        /// The device.
        slot: Slot,
        /// Page of the ring where the head goes; the payload follows.
        page: u64,
        /// The head.
        record: Box<Record>,
        /// The payload.
        payload: Vec<Piece>,
    },
    /// Write a metadata page, durable on completion.
    Meta {
        /// The request.
        io: Io,
        /// The device.
        slot: Slot,
        /// The page.
        meta: Meta,
    },
    /// Make all completed writes of the device durable.
    Flush {
        /// The request.
        io: Io,
        /// The device.
        slot: Slot,
    },
    /// Copy blocks into the buffer of a host read (or of a partial write).
    Deliver {
        /// The host read.
        id: HostId,
        /// First block of it to fill.
        offset: u32,
        /// How many blocks.
        blocks: u32,
        /// From where.
        from: Source,
    },
    /// Lay the partial write `id` over the blocks delivered to it, then say [`Event::Merged`].
    Merge {
        /// The request.
        id: HostId,
    },
    /// Answer the host.
    Reply {
        /// The request.
        id: HostId,
        /// The outcome.
        result: Result<(), IoError>,
    },
    /// The payload of this write is no longer needed.
    Free {
        /// The request.
        id: HostId,
    },
    /// The buffer of this read is no longer needed.
    Drop {
        /// The request.
        io: Io,
    },
    /// Tell whoever watches.
    Notice(Notice),
    /// Stopped in order.
    Stopped,
}

//! What a host asks of a block device.

use crate::priority::Priority;
use crate::units::{Bytes, Lba, SECTOR_BYTES};

/// Names one request for its whole life. The driver hands out ids in submission order, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct RequestId(pub u64);

/// The operation of a [`Request`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Op {
    /// Transfer data from the device.
    #[default]
    Read,
    /// Transfer data to the device.
    Write,
    /// Make every write that completed before this request was submitted durable.
    Flush,
    /// Tell the device that the data of a range is no longer needed (TRIM, deallocate).
    Discard,
}

impl Op {
    /// Every operation, in the order used for tables indexed by `op as usize`.
    pub const ALL: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

    /// The name used in metrics and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
        }
    }
}

/// One request to a block device. Payload bytes live elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Request {
    /// The driver's name for this request.
    pub id: RequestId,
    /// First sector.
    pub lba: Lba,
    /// Length in sectors; 0 for a flush.
    pub sectors: u32,
    /// What to do.
    pub op: Op,
    /// Force unit access: a write that must be durable when it completes.
    pub fua: bool,
    /// Stream or placement hint of the host; 0 when it gave none.
    pub stream: u16,
    /// Process that caused the request; 0 when unknown.
    pub process: u32,
    /// Somebody waits for this write, as after `O_SYNC` or `O_DIRECT`. A reader always waits.
    pub sync: bool,
    /// I/O priority of that process.
    pub priority: Priority,
}

// It is copied in every hot loop.
const _: () = assert!(size_of::<Request>() == 32);

crate::snapshot_enum!(Op { Read, Write, Flush, Discard });
crate::snapshot_fields!(RequestId { 0 });
crate::snapshot_fields!(Request { id, lba, sectors, op, fua, stream, process, sync, priority });

impl Request {
    /// A read of `sectors` sectors from `lba`.
    pub const fn read(lba: Lba, sectors: u32) -> Request {
        Request::new(Op::Read, lba, sectors)
    }

    /// A write of `sectors` sectors to `lba`.
    pub const fn write(lba: Lba, sectors: u32) -> Request {
        Request::new(Op::Write, lba, sectors)
    }

    /// A flush of the whole device.
    pub const fn flush() -> Request {
        Request::new(Op::Flush, Lba(0), 0)
    }

    /// A discard of `sectors` sectors from `lba`.
    pub const fn discard(lba: Lba, sectors: u32) -> Request {
        Request::new(Op::Discard, lba, sectors)
    }

    /// A request without flags, stream, process or priority.
    pub const fn new(op: Op, lba: Lba, sectors: u32) -> Request {
        Request {
            id: RequestId(0),
            lba,
            sectors,
            op,
            fua: false,
            stream: 0,
            process: 0,
            sync: false,
            priority: Priority::NONE,
        }
    }

    /// Does somebody wait for it? Of writes only those that say so; of the rest all.
    pub const fn is_sync(&self) -> bool {
        self.sync || !matches!(self.op, Op::Write | Op::Discard)
    }

    /// The same request with force unit access.
    pub const fn with_fua(mut self) -> Request {
        self.fua = true;
        self
    }

    /// Length in bytes.
    pub const fn bytes(&self) -> Bytes {
        Bytes(self.sectors as u64 * SECTOR_BYTES)
    }

    /// First sector past the end.
    pub const fn end(&self) -> Lba {
        Lba(self.lba.0 + self.sectors as u64)
    }
}

//! vscsi: SCSI commands of virtual machines (CloudPhysics), versions 1 and 2.
//!
//! # What it models
//! One request per read or write command; a cache synchronisation is a flush. The record itself
//! says its version.
//!
//! # Equation
//! Little-endian. Version 1, 32 bytes: serial u32, bytes u32, segments u32, command u16, version
//! u16, block u64, microseconds u64. Version 2, 40 bytes: command u16, version u16, serial u32,
//! bytes u32, segments u32, block u64, microseconds u64, response in microseconds u64.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Commands that move no blocks; unmap, whose ranges are not in the record.
//!
//! # Validated against
//! The CloudPhysics trace published with libCacheSim: 113,664 records, 58.7 % writes, mean
//! 36.1 KiB.
//!
//! # References
//! Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015; T10 SBC-4 for the
//! command codes.

use sim::{Lba, Nanos, Op, Request, SECTOR_BYTES};

use crate::binary::{Binary, BinaryParser, Wrong, field};
use crate::cursor::SECTOR;
use crate::sink::Sink;

without_parameters! {
    /// vscsi has no parameters.
    Params => Binary(Vscsi { version: 0 })
}

const V1_BYTES: usize = 32;
const V2_BYTES: usize = 40;
const US: u64 = 1_000;

#[derive(Clone)]
struct Vscsi {
    /// 0 until the first record was read.
    version: u16,
}

/// The fields both versions have.
struct Command {
    code: u16,
    version_at: u64,
    version: u16,
    bytes: u32,
    block: u64,
    block_at: u64,
    time_us: u64,
    response_us: Option<u64>,
}

impl Command {
    fn v1(bytes: &[u8]) -> Command {
        Command {
            code: u16::from_le_bytes(field(bytes, 12)),
            version_at: 14,
            version: u16::from_le_bytes(field(bytes, 14)),
            bytes: u32::from_le_bytes(field(bytes, 4)),
            block: u64::from_le_bytes(field(bytes, 16)),
            block_at: 16,
            time_us: u64::from_le_bytes(field(bytes, 24)),
            response_us: None,
        }
    }

    fn v2(bytes: &[u8]) -> Command {
        Command {
            code: u16::from_le_bytes(field(bytes, 0)),
            version_at: 2,
            version: u16::from_le_bytes(field(bytes, 2)),
            bytes: u32::from_le_bytes(field(bytes, 8)),
            block: u64::from_le_bytes(field(bytes, 16)),
            block_at: 16,
            time_us: u64::from_le_bytes(field(bytes, 24)),
            response_us: Some(u64::from_le_bytes(field(bytes, 32))),
        }
    }

    fn op(&self) -> Option<Op> {
        match self.code {
            // READ and WRITE with 6, 10, 12 and 16 bytes; SYNCHRONIZE CACHE with 10 and 16.
            0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
            0x0a | 0x2a | 0xaa | 0x8a => Some(Op::Write),
            0x35 | 0x91 => Some(Op::Flush),
            _ => None,
        }
    }
}

impl Vscsi {
    /// Which version the first record has; 0 when it is neither or cut off.
    fn version_of(bytes: &[u8]) -> u16 {
        let v1 = bytes.len() >= V1_BYTES && Command::v1(bytes).version >> 8 == 1;
        let v2 = bytes.len() >= V2_BYTES && Command::v2(bytes).version >> 8 == 2;
        match (v1, v2) {
            (true, _) => 1,
            (false, true) => 2,
            (false, false) => 0,
        }
    }
}

impl BinaryParser for Vscsi {
    const FORMAT: &'static str = "vscsi";
    const RECORD: &'static str = "a vscsi record of 32 or 40 bytes";
    const CERTAINTY: u8 = 85;

    fn record(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<Option<usize>, Wrong> {
        if self.version == 0 {
            self.version = Vscsi::version_of(bytes);
            if self.version == 0 && bytes.len() >= V2_BYTES {
                let value = format!("bytes {:02x?}", &bytes[..16]);
                return Err(Wrong { at: 0, value, expected: "a vscsi record of version 1 or 2" });
            }
        }
        let length = if self.version == 1 { V1_BYTES } else { V2_BYTES };
        if bytes.len() < length || self.version == 0 {
            return Ok(None);
        }
        let command = if self.version == 1 { Command::v1(bytes) } else { Command::v2(bytes) };
        self.request(&command, sink)?;
        Ok(Some(length))
    }
}

impl Vscsi {
    fn request(&self, command: &Command, sink: &mut Sink<'_>) -> Result<(), Wrong> {
        if command.version >> 8 != self.version {
            return Err(Wrong {
                at: command.version_at,
                value: format!("version {:#06x}", command.version),
                expected: "the same version as in the first record",
            });
        }
        let Some(op) = command.op() else {
            sink.remarks.skip("SCSI commands that move no blocks");
            return Ok(());
        };
        let too_late = || Wrong {
            at: command.block_at + 8,
            value: format!("time {} us", command.time_us),
            expected: "a time below 584 years",
        };
        let time = command.time_us.checked_mul(US).ok_or_else(too_late)?;
        if command.block >= 1 << 54 {
            let value = format!("block {}", command.block);
            return Err(Wrong { at: command.block_at, value, expected: SECTOR });
        }
        let sectors = u64::from(command.bytes).div_ceil(SECTOR_BYTES) as u32;
        let request = match op {
            Op::Flush => Request::flush(),
            _ => Request::new(op, Lba(command.block), sectors),
        };
        let before = sink.out.len();
        sink.push(Some(time), 0, request);
        if let Some(response) = command.response_us {
            sink.respond(before, Nanos(response.saturating_mul(US)).0);
        }
        Ok(())
    }
}

//! MSR Cambridge CSV: one week of enterprise servers, as published by SNIA.
//!
//! # What it models
//! One request per line, with its measured response time.
//!
//! # Equation
//! Line: `time,host,disk,Read|Write,byte offset,bytes,response`; time and response in ticks of
//! 100 ns, time as a Windows file time.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! The host name: the device is the disk number. A response of 0 is none: of a format without
//! responses that is what is written.
//!
//! # Validated against
//! The published column description; hand-made lines.
//!
//! # References
//! Narayanan, Donnelly, Rowstron, "Write Off-Loading", FAST 2008; SNIA IOTTA trace 388.

use std::io::Write as _;

use sim::{Op, SECTOR_BYTES};

use crate::cursor::Cursor;
use crate::error::Fault;
use crate::lines::{LineParser, Text};
use crate::sink::Sink;
use crate::{Carries, Record, Writer};

without_parameters! {
    /// MSR CSV has no parameters.
    Params => Text(Msr)
}

/// Nanoseconds in one tick of a Windows file time.
const TICK_NS: u64 = 100;
const HEADER: &[u8] = b"Timestamp,Hostname";

#[derive(Clone)]
struct Msr;

impl LineParser for Msr {
    const FORMAT: &'static str = "msr";
    const CERTAINTY: u8 = 95;
    const LAST_FIELD_CAN_BE_CUT: bool = true;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.is_blank() || line.rest().starts_with(HEADER) {
            return Ok(());
        }
        let time = line.ticks_to(b',', TICK_NS, "a time in ticks of 100 ns")?;
        line.cell("a host name")?;
        let disk = line.number_u32_to(b',', "a disk number")?;
        let at = line.at();
        let op = match line.cell("Read or Write")? {
            b"Read" => Op::Read,
            b"Write" => Op::Write,
            _ => return line.fault(at, "Read or Write"),
        };
        let extent = line.bytes_to(b',')?;
        let response = line.ticks_at_end(TICK_NS, "a response time in ticks of 100 ns")?;
        let before = sink.out.len();
        sink.push_io(time, disk, op, extent);
        // No drive answers within a tick: whoever wrote this had no response.
        if response > 0 {
            sink.respond(before, response);
        }
        Ok(())
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Print))
    }
}

struct Print;

impl Writer for Print {
    fn carries(&self) -> Carries {
        Carries {
            time_ns: Some(TICK_NS),
            device: true,
            numbers_devices: true,
            response: true,
            needs_response: true,
            ..Carries::NOTHING
        }
    }

    fn record(&mut self, record: &Record, _: Option<&str>, out: &mut Vec<u8>) {
        let request = &record.request;
        let time = record.time.unwrap_or_default().0 / TICK_NS;
        let response = record.response.unwrap_or_default().0 / TICK_NS;
        let op = if request.op == Op::Read { "Read" } else { "Write" };
        let (disk, offset) = (record.device, request.lba.0 * SECTOR_BYTES);
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        // Writing into memory cannot fail.
        let _ = writeln!(out, "{time},blocklab,{disk},{op},{offset},{bytes},{response}");
    }
}

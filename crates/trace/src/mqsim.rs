//! MQSim and SSDSim ASCII: five columns, times in nanoseconds.
//!
//! # What it models
//! One request per line.
//!
//! # Equation
//! Line: `time_ns device sector sectors op`, op 1 = read, 0 = write.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Nothing; the format has no flushes, discards, processes or responses.
//!
//! # Validated against
//! The two traces published with MQSim: 6,999 requests, 62.6 % reads; 24,783, 99.98 % reads.
//!
//! # References
//! Tavakkol et al., FAST 2018 (MQSim); Hu et al., ICS 2011 (SSDSim).

use std::io::Write as _;

use sim::Op;

use crate::cursor::Cursor;
use crate::error::Fault;
use crate::lines::{LineParser, Text};
use crate::sink::Sink;
use crate::{Carries, Record, Writer};

without_parameters! {
    /// MQSim ASCII has no parameters.
    Params => Text(Mqsim)
}

#[derive(Clone)]
struct Mqsim;

impl LineParser for Mqsim {
    const FORMAT: &'static str = "mqsim";
    const CERTAINTY: u8 = 60;
    // The last column is one digit.
    const LAST_FIELD_CAN_BE_CUT: bool = false;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.is_blank() {
            return Ok(());
        }
        let time = line.number("a time in whole nanoseconds")?;
        let device = line.number_u32("a device number")?;
        let extent = (line.sector()?, line.sectors()?);
        line.skip_blanks();
        let op = match line.peek() {
            b'0' => Op::Write,
            b'1' => Op::Read,
            _ => return line.fault_here("0 for a write or 1 for a read"),
        };
        line.skip(1);
        line.end()?;
        sink.push_io(time, device, op, extent);
        Ok(())
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Columns { millis: false }))
    }
}

/// Five columns; DiskSim's are the same but for the unit of time.
pub(crate) struct Columns {
    pub(crate) millis: bool,
}

impl Writer for Columns {
    fn carries(&self) -> Carries {
        Carries { time_ns: Some(1), device: true, numbers_devices: true, ..Carries::NOTHING }
    }

    fn record(&mut self, record: &Record, _: Option<&str>, out: &mut Vec<u8>) {
        let request = &record.request;
        let time = record.time.unwrap_or_default().0;
        let read = u8::from(request.op == Op::Read);
        let (device, lba, sectors) = (record.device, request.lba.0, request.sectors);
        // Writing into memory cannot fail.
        let _ = if self.millis {
            write!(out, "{}.{:06}", time / 1_000_000, time % 1_000_000)
        } else {
            write!(out, "{time}")
        };
        let _ = writeln!(out, " {device} {lba} {sectors} {read}");
    }
}

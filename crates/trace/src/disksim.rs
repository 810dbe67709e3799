//! DiskSim ASCII: five columns, times in milliseconds.
//!
//! # What it models
//! One request per line.
//!
//! # Equation
//! Line: `time_ms device sector sectors flags`, flags in hexadecimal, bit 0 set = read.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! The other bits of the flags (asynchronous, critical, ...); times below a nanosecond.
//!
//! # Validated against
//! The Postmark trace published with the SSD extension: 62,257 requests, 10,477 of them writes.
//!
//! # References
//! Bucy et al., "The DiskSim Simulation Environment Version 4.0", 2008, section 3.5.

use sim::Op;

use crate::Writer;
use crate::cursor::Cursor;
use crate::error::Fault;
use crate::lines::{LineParser, Text};
use crate::mqsim::Columns;
use crate::sink::Sink;

without_parameters! {
    /// DiskSim ASCII has no parameters.
    Params => Text(Disksim)
}

#[derive(Clone)]
struct Disksim;

impl LineParser for Disksim {
    const FORMAT: &'static str = "disksim";
    const CERTAINTY: u8 = 60;
    // Flags are one digit in every published trace; two digits may be cut.
    const LAST_FIELD_CAN_BE_CUT: bool = false;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.is_blank() {
            return Ok(());
        }
        let time = line.decimal(6, "a time in milliseconds")?;
        let device = line.number_u32("a device number")?;
        let extent = (line.sector()?, line.sectors()?);
        line.skip_blanks();
        let at = line.at();
        let flags = line.word("flags in hexadecimal")?;
        let op = match flags.last().and_then(|&b| (b as char).to_digit(16)) {
            Some(digit) if flags.len() <= 8 && flags.iter().all(u8::is_ascii_hexdigit) => {
                if digit & 1 == 1 { Op::Read } else { Op::Write }
            }
            _ => return line.fault(at, "flags in hexadecimal, bit 0 set for a read"),
        };
        line.end()?;
        sink.push_io(time, device, op, extent);
        Ok(())
    }

    fn doubt(&self, head: &[u8]) -> u8 {
        // Whole numbers only: far likelier nanoseconds than milliseconds. The first one may be 0 in
        // either.
        let first = |line: &[u8]| {
            let mut words = line.split(u8::is_ascii_whitespace);
            words.find(|word| !word.is_empty()).is_some_and(|word| word.contains(&b'.'))
        };
        if head.split(|b| *b == b'\n').any(first) { 0 } else { 50 }
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Columns { millis: true }))
    }
}

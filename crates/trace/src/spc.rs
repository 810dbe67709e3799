//! SPC: the trace format of the Storage Performance Council (Financial1, WebSearch1, ...).
//!
//! # What it models
//! One request per line.
//!
//! # Equation
//! Line: `unit,sector,bytes,op,seconds[,...]`; op `r` or `w` in either case; the unit (ASU) is the
//! device.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Optional columns behind the fifth.
//!
//! # Validated against
//! The published column description; hand-made lines.
//!
//! # References
//! "SPC Trace File Format Specification", revision 1.0.1, 2002; UMass Trace Repository.

use sim::SECTOR_BYTES;

use crate::cursor::{Cursor, LENGTH, SECTOR, sectors_of};
use crate::error::Fault;
use crate::lines::{LineParser, Text};
use crate::sink::Sink;

without_parameters! {
    /// SPC has no parameters.
    Params => Text(Spc)
}

#[derive(Clone)]
struct Spc;

impl LineParser for Spc {
    const FORMAT: &'static str = "spc";
    const CERTAINTY: u8 = 80;
    const LAST_FIELD_CAN_BE_CUT: bool = true;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.is_blank() {
            return Ok(());
        }
        let unit = line.number_u32_to(b',', "a unit (ASU) number")?;
        let at = line.at();
        let sector = line.number_to(b',', SECTOR)?;
        let Some(offset) = sector.checked_mul(SECTOR_BYTES) else {
            return line.fault(at, SECTOR);
        };
        let length_at = line.at();
        let bytes = line.number_to(b',', LENGTH)?;
        let extent = sectors_of(offset, bytes).or_else(|why| match why {
            LENGTH => line.fault(length_at, LENGTH),
            _ => line.fault(at, SECTOR),
        })?;
        let op = line.letter_to(b',')?;
        let time = line.decimal(9, "a time in seconds")?;
        if line.peek() != b',' {
            line.end()?;
        }
        sink.push_io(time, unit, op, extent);
        Ok(())
    }
}

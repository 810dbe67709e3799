//! SYSTOR '17 CSV: a year of virtual desktops.
//!
//! # What it models
//! One request per line, with its measured response time where the trace has one.
//!
//! # Equation
//! Line: `seconds,response seconds,R|W,LUN,byte offset,bytes`; the LUN is the device.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Nothing; a request without a response time has none here either.
//!
//! # Validated against
//! The published column description; hand-made lines.
//!
//! # References
//! Lee et al., "Understanding Storage Traffic Characteristics on Enterprise Virtual Desktop
//! Infrastructure", SYSTOR 2017; SNIA IOTTA trace 4964.

use crate::cursor::Cursor;
use crate::error::Fault;
use crate::lines::{LineParser, Text};
use crate::sink::Sink;

without_parameters! {
    /// SYSTOR '17 CSV has no parameters.
    Params => Text(Systor)
}

const HEADER: &[u8] = b"Timestamp,Response,";

#[derive(Clone)]
struct Systor;

impl LineParser for Systor {
    const FORMAT: &'static str = "systor";
    const CERTAINTY: u8 = 95;
    const LAST_FIELD_CAN_BE_CUT: bool = true;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.is_blank() || line.rest().starts_with(HEADER) {
            return Ok(());
        }
        let time = line.decimal(9, "a time in seconds")?;
        line.byte(b',', "a comma")?;
        let response = match line.peek() {
            b',' => None,
            _ => Some(line.decimal(9, "a response time in seconds, or nothing")?),
        };
        line.byte(b',', "a comma")?;
        let op = line.letter_to(b',')?;
        let lun = line.number_u32_to(b',', "a LUN")?;
        let extent = line.bytes_at_end()?;
        let before = sink.out.len();
        sink.push_io(time, lun, op, extent);
        if let Some(response) = response {
            sink.respond(before, response);
        }
        Ok(())
    }
}

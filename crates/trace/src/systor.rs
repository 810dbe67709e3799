//! SYSTOR '17 CSV: a year of virtual desktops.
//!
//! # What it models
//! One request per line, with its measured response time where the trace has one.
//!
//! # Equation
//! Line: `seconds,response seconds,type,LUN,byte offset,bytes`; the type is `R`, `W` or nothing,
//! the LUN is the device.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Requests of no type: no answer to them was seen, and so it was not recorded whether they read or
//! write. A request without a response time has none here either.
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
const TYPE: &str = "R, W or nothing";

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
        let op = match line.peek() {
            b',' => line.byte(b',', "a comma").map(|()| None)?,
            _ => {
                line.letter_to(b',').map(Some).map_err(|fault| Fault { expected: TYPE, ..fault })?
            }
        };
        let lun = line.number_u32_to(b',', "a LUN")?;
        let extent = line.bytes_at_end()?;
        let Some(op) = op else {
            sink.remarks.skip("requests without an answer, whose kind is not recorded");
            return Ok(());
        };
        let before = sink.out.len();
        sink.push_io(time, lun, op, extent);
        if let Some(response) = response {
            sink.respond(before, response);
        }
        Ok(())
    }
}

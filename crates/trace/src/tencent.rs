//! Tencent CBS CSV: ten days of cloud volumes.
//!
//! # What it models
//! One request per line.
//!
//! # Equation
//! Line: `seconds,sector,sectors,op,volume`; op 0 = read, 1 = write. The volume is the device.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Nothing; the format has no flushes, discards, processes or responses. Its times are whole
//! seconds: all requests of a second come at once.
//!
//! # Validated against
//! The published column description; hand-made lines.
//!
//! # References
//! Zhang et al., "OSCA: An Online-Model Based Cache Allocation Scheme in Cloud Block Storage
//! Systems", USENIX ATC 2020; SNIA IOTTA trace 27917.

use sim::Op;

use crate::cursor::Cursor;
use crate::error::Fault;
use crate::lines::{LineParser, Text};
use crate::sink::Sink;

without_parameters! {
    /// Tencent CSV has no parameters.
    Params => Text(Tencent)
}

#[derive(Clone)]
struct Tencent;

impl LineParser for Tencent {
    const FORMAT: &'static str = "tencent";
    const CERTAINTY: u8 = 80;
    const LAST_FIELD_CAN_BE_CUT: bool = true;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.is_blank() {
            return Ok(());
        }
        let time = line.ticks_to(b',', 1_000_000_000, "a time in whole seconds")?;
        let extent = line.sectors_to(b',')?;
        let at = line.at();
        let op = match line.cell("0 or 1")? {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return line.fault(at, "0 for a read or 1 for a write"),
        };
        let volume = line.number_u32("a volume number")?;
        line.end()?;
        sink.push_io(time, volume, op, extent);
        Ok(())
    }
}

//! Alibaba block CSV: a month of cloud volumes.
//!
//! # What it models
//! One request per line.
//!
//! # Equation
//! Line: `device,R|W,byte offset,bytes,time`; time in microseconds.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Nothing; the format has no flushes, discards, processes or responses.
//!
//! # Validated against
//! The published column description; hand-made lines.
//!
//! # References
//! Li et al., "An In-Depth Analysis of Cloud Block Storage Workloads in Large-Scale Production",
//! IISWC 2020.

use crate::cursor::Cursor;
use crate::error::Fault;
use crate::lines::{LineParser, Text};
use crate::sink::Sink;

without_parameters! {
    /// Alibaba CSV has no parameters.
    Params => Text(Alibaba)
}

const HEADER: &[u8] = b"device_id,";

#[derive(Clone)]
struct Alibaba;

impl LineParser for Alibaba {
    const FORMAT: &'static str = "alibaba";
    const CERTAINTY: u8 = 80;
    const LAST_FIELD_CAN_BE_CUT: bool = true;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.is_blank() || line.rest().starts_with(HEADER) {
            return Ok(());
        }
        let device = line.number_u32_to(b',', "a device number")?;
        let op = line.letter_to(b',')?;
        let extent = line.bytes_to(b',')?;
        let time = line.ticks_at_end(1_000, "a time in microseconds")?;
        sink.push_io(time, device, op, extent);
        Ok(())
    }
}

//! FIU: weeks of a department's servers, with a hash of each block's content.
//!
//! # What it models
//! One request per line. The process is the line's pid.
//!
//! # Equation
//! Line: `time pid process sector sectors R|W major minor md5`; time in nanoseconds.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! The process's name, and the MD5 hash of the content: a model holds no data.
//!
//! # Validated against
//! The published column description; hand-made lines.
//!
//! # References
//! Koller, Rangaswami, "I/O Deduplication: Utilizing Content Similarity to Improve I/O
//! Performance", FAST 2010; SNIA IOTTA trace 390.

use sim::{Lba, Op, Request};

use crate::blkparse::{device_name, device_number};
use crate::cursor::Cursor;
use crate::error::Fault;
use crate::lines::{LineParser, Text};
use crate::sink::Sink;

without_parameters! {
    /// The FIU format has no parameters.
    Params => Text(Fiu)
}

const HASH: &str = "an MD5 hash of 32 hexadecimal digits";
const MAJOR: &str = "a device's major number below 2^12";

#[derive(Clone)]
struct Fiu;

impl LineParser for Fiu {
    const FORMAT: &'static str = "fiu";
    const CERTAINTY: u8 = 95;
    // The last column has as many letters in each line.
    const LAST_FIELD_CAN_BE_CUT: bool = false;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.is_blank() {
            return Ok(());
        }
        let time = line.number("a time in whole nanoseconds")?;
        let process = line.number_u32("a process id")?;
        line.word("a process's name")?;
        let (sector, sectors) = (line.sector()?, line.sectors()?);
        line.skip_blanks();
        let at = line.at();
        let op = match line.word("R or W")? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return line.fault(at, "R or W"),
        };
        line.skip_blanks();
        let at = line.at();
        let (major, minor) = (line.number_u32(MAJOR)?, line.number_u32("a minor number")?);
        let Some(device) = device_number(major, minor) else { return line.fault(at, MAJOR) };
        line.skip_blanks();
        let at = line.at();
        let hash = line.word(HASH)?;
        if hash.len() != 32 || !hash.iter().all(u8::is_ascii_hexdigit) {
            return line.fault(at, HASH);
        }
        line.end()?;
        let request = Request { process, ..Request::new(op, Lba(sector), sectors) };
        sink.push(Some(time), device, request);
        Ok(())
    }

    fn device_name(&self, device: u32) -> String {
        device_name(device)
    }
}

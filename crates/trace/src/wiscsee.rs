//! WiscSee events: pairs of issue and completion with measured latencies.
//!
//! # What it models
//! One request per issue (`D`). The process is the event's pid.
//!
//! # Equation
//! Line: `pid D|C op byte-offset bytes seconds latency sync`. With `responses`, a request's
//! response is the time of the completions that cover its last sector minus its own.
//!
//! # Parameters
//! `responses`.
//!
//! # What it leaves out
//! The sync flag; the printed latency, which is recomputed from the times.
//!
//! # Validated against
//! The published SQLite WAL trace on ext4: 10,000 events, 5,003 writes issued.
//!
//! # References
//! He et al., "The Unwritten Contract of Solid State Drives", EuroSys 2017.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Lba, Op, Request};

use crate::cursor::{Cursor, LENGTH, OFFSET, sectors_of};
use crate::error::Fault;
use crate::events::Events;
use crate::lines::{LineParser, Text};
use crate::sink::Sink;
use crate::{Context, Format};

/// Parameters of the WiscSee format.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Look up each request's completion to learn its response time.
    pub responses: bool,
}

impl Params {
    /// Build the format.
    pub fn build(&self, context: &Context) -> Box<dyn Format> {
        Box::new(Text(Wiscsee { events: Events::new(self.responses || context.responses) }))
    }
}

#[derive(Clone)]
struct Wiscsee {
    events: Events,
}

impl LineParser for Wiscsee {
    const FORMAT: &'static str = "wiscsee";
    const CERTAINTY: u8 = 95;
    const LAST_FIELD_CAN_BE_CUT: bool = false;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.is_blank() {
            return Ok(());
        }
        let process = line.number_u32("a process id")?;
        line.skip_blanks();
        let at = line.at();
        let issue = match line.word("D or C")? {
            b"D" => true,
            b"C" => false,
            _ => return line.fault(at, "D for an issue or C for a completion"),
        };
        line.skip_blanks();
        let at = line.at();
        let op = match line.word("an operation")? {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"discard" => Op::Discard,
            b"flush" => Op::Flush,
            _ => return line.fault(at, "read, write, discard or flush"),
        };
        line.skip_blanks();
        let at = line.at();
        let offset = line.number(OFFSET)?;
        let bytes = line.number(LENGTH)?;
        let (lba, sectors) = sectors_of(offset, bytes).or_else(|why| line.fault(at, why))?;
        let time = line.decimal(9, "a time in seconds")?;
        line.decimal(9, "a latency in seconds")?;
        line.skip_blanks();
        let at = line.at();
        if !matches!(line.word("True or False")?, b"True" | b"False") {
            return line.fault(at, "True or False");
        }
        line.end()?;
        let request = match op {
            Op::Flush => Request::flush(),
            _ => Request::new(op, Lba(lba), sectors),
        };
        if issue {
            self.events.issue(sink, time, 0, Request { process, ..request })
        } else {
            self.events.complete(sink, time, 0, request)
        }
        Ok(())
    }

    fn finish(&mut self, sink: &mut Sink<'_>) {
        self.events.finish(sink);
    }
}

//! ARC `.lis`: the block numbers of workstations and servers from the ARC paper.
//!
//! # What it models
//! One request per line. The format has neither times nor a read/write flag: every request is a
//! read, unless `write_share` makes a seeded random share of them writes.
//!
//! # Equation
//! Line: `first block, blocks, ignored, number`.
//!
//! # Parameters
//! `block`, `write_share`.
//!
//! # What it leaves out
//! The third and fourth columns.
//!
//! # Validated against
//! The published P12 trace: 547,147 requests, mean 12.1 KB.
//!
//! # References
//! Megiddo, Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003.

use config::Size;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use sim::{Bytes, Lba, Op, Request, Rng, SECTOR_BYTES};

use crate::cursor::{Cursor, LENGTH, SECTOR, sectors_of};
use crate::error::Fault;
use crate::lines::{LineParser, Text};
use crate::sink::Sink;
use crate::{Context, Format};

/// Parameters of the ARC format.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Size of one block of the trace.
    pub block: Size,
    /// Share of requests, drawn at random, that are writes; between 0 and 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    #[serde(deserialize_with = "share")]
    pub write_share: f64,
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(from)?;
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    Err(D::Error::custom(format!("`{share}`, expected a share from 0 to 1")))
}

impl Default for Params {
    fn default() -> Params {
        Params { block: Size(Bytes(SECTOR_BYTES)), write_share: 0.0 }
    }
}

impl Params {
    /// Build the format.
    pub fn build(&self, context: &Context) -> Box<dyn Format> {
        let rng = context.rng.split("arc");
        let block_bytes = self.block.0.0.max(1);
        Box::new(Text(Arc { rng, block_bytes, write_share: self.write_share }))
    }
}

#[derive(Clone)]
struct Arc {
    rng: Rng,
    block_bytes: u64,
    write_share: f64,
}

impl LineParser for Arc {
    const FORMAT: &'static str = "arc";
    const CERTAINTY: u8 = 40;
    const LAST_FIELD_CAN_BE_CUT: bool = true;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.is_blank() {
            return Ok(());
        }
        line.skip_blanks();
        let start_at = line.at();
        let start = line.sector()?;
        line.skip_blanks();
        let count_at = line.at();
        let count = line.sectors()?;
        line.number("a number, which is ignored")?;
        line.number("a request number")?;
        line.end()?;
        let offset = start.checked_mul(self.block_bytes);
        let bytes = u64::from(count).checked_mul(self.block_bytes);
        let (Some(offset), Some(bytes)) = (offset, bytes) else {
            return line.fault(start_at, SECTOR);
        };
        let (lba, sectors) = sectors_of(offset, bytes).or_else(|why| match why {
            LENGTH => line.fault(count_at, LENGTH),
            _ => line.fault(start_at, SECTOR),
        })?;
        let write = self.write_share > 0.0 && self.rng.chance(self.write_share);
        let op = if write { Op::Write } else { Op::Read };
        sink.push(None, 0, Request::new(op, Lba(lba), sectors));
        Ok(())
    }

    fn remarks(&self) -> Vec<String> {
        let share = self.write_share;
        vec![if share > 0.0 {
            format!("the trace has no read/write flag: a seeded {share} are writes")
        } else {
            "the trace has no read/write flag: every request is a read \
                      (format.arc.write_share makes writes)"
                .into()
        }]
    }
}

//! Binary blktrace: what the kernel hands to `blktrace`, one file per CPU or merged.
//!
//! # What it models
//! One request per event of the chosen action, as in the `blkparse` format.
//!
//! # Equation
//! Events of 48 bytes and a payload, in the byte order of the recording machine: magic
//! 0x65617407 u32, sequence u32, nanoseconds u64, sector u64, bytes u32, action u32 (categories in
//! the upper half), pid u32, device u32, cpu u32, error u16, payload length u16.
//!
//! # Parameters
//! `action`, `responses`.
//!
//! # What it leaves out
//! Process names and other payloads; passthrough commands. Merge the files of several CPUs first
//! (`blkparse -i sda -d sda.bin -O`): alone, each is a part of the requests.
//!
//! # Validated against
//! Hand-made events in both byte orders; the same requests through the `blkparse` format.
//!
//! # References
//! Linux `include/uapi/linux/blktrace_api.h`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Lba, Op, Request, SECTOR_BYTES};

use crate::binary::{Binary, BinaryParser, Wrong, field};
use crate::blkparse::{Action, device_name};
use crate::cursor::SECTOR;
use crate::error::Absent;
use crate::events::Events;
use crate::sink::Sink;
use crate::{Context, Format};

/// Parameters of the blktrace format.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The event that makes a request.
    pub action: Action,
    /// Look up each request's completion to learn its response time.
    pub responses: bool,
}

impl Params {
    /// Build the format.
    pub fn build(&self, context: &Context) -> Box<dyn Format> {
        let events = Events::new(self.responses || context.responses);
        let (wanted, action) = (self.action, number(self.action));
        Box::new(Binary(Blktrace { wanted, action, seen: 0, events, swapped: None }))
    }
}

fn number(action: Action) -> u32 {
    match action {
        Action::Q => QUEUE,
        Action::G => 4,
        Action::I => 12,
        Action::D => 7,
        Action::C => COMPLETE,
    }
}

const HEADER_BYTES: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const QUEUE: u32 = 1;
const COMPLETE: u32 = 8;
const PLUG: u32 = 9;
const UNPLUG: u32 = 10;
const UNPLUG_LATE: u32 = 11;

const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const PASSTHROUGH: u32 = 1 << 9;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

#[derive(Clone)]
struct Blktrace {
    wanted: Action,
    /// Its number.
    action: u32,
    /// The numbers that are some event's action, a bit each.
    seen: u32,
    events: Events,
    /// True when the recording machine was big-endian.
    swapped: Option<bool>,
}

/// Reads fields in the trace's byte order.
#[derive(Clone, Copy)]
struct Fields<'a> {
    bytes: &'a [u8],
    swapped: bool,
}

impl Fields<'_> {
    fn u16(self, at: usize) -> u16 {
        let value = u16::from_le_bytes(field(self.bytes, at));
        if self.swapped { value.swap_bytes() } else { value }
    }

    fn u32(self, at: usize) -> u32 {
        let value = u32::from_le_bytes(field(self.bytes, at));
        if self.swapped { value.swap_bytes() } else { value }
    }

    fn u64(self, at: usize) -> u64 {
        let value = u64::from_le_bytes(field(self.bytes, at));
        if self.swapped { value.swap_bytes() } else { value }
    }
}

impl BinaryParser for Blktrace {
    const FORMAT: &'static str = "blktrace";
    const RECORD: &'static str = "a blktrace event of 48 bytes and its payload";
    const CERTAINTY: u8 = 100;

    fn record(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<Option<usize>, Wrong> {
        if bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        let plain = u32::from_le_bytes(field(bytes, 0));
        let swapped = *self.swapped.get_or_insert(plain.swap_bytes() & !0xff == MAGIC);
        let fields = Fields { bytes, swapped };
        let magic = fields.u32(0);
        if magic & !0xff != MAGIC || magic & 0xff != 7 {
            return Err(Wrong {
                at: 0,
                value: format!("magic {magic:#010x}"),
                expected: "blktrace's magic 0x65617407 at the start of an event",
            });
        }
        let length = HEADER_BYTES + usize::from(fields.u16(46));
        if bytes.len() < length {
            return Ok(None);
        }
        self.event(fields, sink)?;
        Ok(Some(length))
    }

    fn finish(&mut self, sink: &mut Sink<'_>) {
        self.events.finish(sink);
    }

    fn absent(&self) -> Option<Absent> {
        self.wanted.absent(|action| self.seen & 1 << number(action) != 0)
    }

    fn device_name(&self, device: u32) -> String {
        device_name(device)
    }
}

impl Blktrace {
    fn event(&mut self, fields: Fields<'_>, sink: &mut Sink<'_>) -> Result<(), Wrong> {
        let word = fields.u32(28);
        // Bit 8 marks a cgroup id in the payload.
        let (action, category) = (word & 0xff, word >> 16);
        let wanted = action == self.action;
        if category & NOTIFY == 0 {
            self.seen |= 1_u32.checked_shl(action).unwrap_or_default();
        }
        if self.events.pairs() && self.action == QUEUE && category & NOTIFY == 0 {
            match action {
                PLUG => self.events.plug(fields.u32(32)),
                UNPLUG | UNPLUG_LATE => self.events.unplug(fields.u32(32), fields.u64(8)),
                _ => {}
            }
        }
        if category & NOTIFY != 0 || !(wanted || action == COMPLETE && self.events.pairs()) {
            return Ok(());
        }
        if category & PASSTHROUGH != 0 {
            sink.remarks.skip("passthrough commands");
            return Ok(());
        }
        let (time, sector, bytes) = (fields.u64(8), fields.u64(16), fields.u32(24));
        let (process, device) = (fields.u32(32), fields.u32(36));
        let preflush = category & FLUSH != 0;
        if bytes == 0 && preflush {
            let flush = Request { process, ..Request::flush() };
            return self.hand_on(sink, time, device, flush, wanted);
        }
        if bytes > 0 && sector >= 1 << 54 {
            return Err(Wrong { at: 16, value: format!("sector {sector}"), expected: SECTOR });
        }
        let op = match category {
            c if c & DISCARD != 0 => Op::Discard,
            c if c & WRITE != 0 => Op::Write,
            _ => Op::Read,
        };
        let sectors = u64::from(bytes).div_ceil(SECTOR_BYTES) as u32;
        let request = Request::new(op, Lba(if bytes > 0 { sector } else { 0 }), sectors);
        let is = |flag| op == Op::Write && category & flag != 0;
        let request = Request { process, fua: is(FUA), sync: is(SYNC), ..request };
        if preflush && wanted {
            let flush = Request { process, ..Request::flush() };
            self.hand_on(sink, time, device, flush, true)?;
        }
        self.hand_on(sink, time, device, request, wanted)
    }

    fn hand_on(
        &mut self,
        sink: &mut Sink<'_>,
        time: u64,
        device: u32,
        request: Request,
        wanted: bool,
    ) -> Result<(), Wrong> {
        if wanted {
            self.events.issue(sink, time, device, request)
        } else {
            self.events.complete(sink, time, device, request)
        }
        Ok(())
    }
}

//! Traces: recorded requests, streamed from text or binary, plain or compressed.
//!
//! One file per format. A [`Format`] recognises itself by content and opens a [`Reader`], which
//! fills batches of [`Record`]s; memory does not depend on the length of the trace. Every length
//! and address is in 512-byte sectors; a range given in bytes becomes the sectors it touches.

/// The parameters of a format that has none, after the sentence that says so, and the format.
macro_rules! without_parameters {
    ($(#[$sentence:meta])* Params => $format:expr) => {
        $(#[$sentence])*
        #[derive(
            Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize,
            schemars::JsonSchema,
        )]
        #[serde(deny_unknown_fields, default)]
        pub struct Params {}

        impl Params {
            /// Build the format.
            pub fn build(&self, _context: &crate::Context) -> Box<dyn crate::Format> {
                Box::new($format)
            }
        }
    };
}

mod binary;
mod cursor;
mod detect;
mod error;
mod events;
mod gzip;
mod input;
mod lines;
mod locality;
mod queue_events;
mod sink;
mod summary;
mod write;

use sim::{Nanos, Request, Rng};

pub use detect::{Begun, Trace, open};
pub use error::{TraceError, TracePlace};
pub use input::Input;
pub use locality::{Locality, LocalityMeter};
pub use queue_events::{QueueAction, QueueEvent, queue_events};
pub use summary::{Summary, SummaryMeter};
pub use write::{Carries, DeviceNumbers, Writer};

sim::registry! {
    /// A trace format. Of formats that recognise a trace with equal certainty, the first wins.
    pub enum TraceFormat("trace"): Context => Box<dyn Format> = {
        Blkparse = "blkparse" => blkparse,
        Blktrace = "blktrace" => blktrace,
        Iolog = "iolog" => iolog,
        Msr = "msr" => msr,
        Spc = "spc" => spc,
        Disksim = "disksim" => disksim,
        Mqsim = "mqsim" => mqsim,
        Systor = "systor" => systor,
        Alibaba = "alibaba" => alibaba,
        Vscsi = "vscsi" => vscsi,
        Arc = "arc" => arc,
        Wiscsee = "wiscsee" => wiscsee,
        Tencent = "tencent" => tencent,
        Fiu = "fiu" => fiu,
    }
}

/// Records a reader hands out at a time, about.
pub const BATCH: usize = 1024;

/// One recorded request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When it was issued, as the trace counts time; `None` where the format has no times.
    pub time: Option<Nanos>,
    /// What was asked.
    pub request: Request,
    /// The trace's number of the device; see [`Reader::device_name`].
    pub device: u32,
    /// How long it took, where the trace says so.
    pub response: Option<Nanos>,
    /// How long its task kept it back in a plug, where responses are looked up and the trace says
    /// so; part of the response.
    pub plugged: Nanos,
    /// Line number, from 1, in a text trace; byte offset in a binary one.
    pub place: u64,
}

/// What a format is built with besides its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The root of the random streams of formats that lack something.
    pub rng: Rng,
    /// Look up response times also where the parameters do not ask for it.
    pub responses: bool,
}

/// The first bytes of a decompressed trace.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// At most 64 KiB or so.
    pub bytes: &'a [u8],
    /// True when nothing follows.
    pub whole: bool,
}

/// A trace format.
pub trait Format {
    /// How sure it is that this is its own: 0 not at all, 100 certain.
    fn detect(&self, head: Head<'_>) -> u8;

    /// Read a trace of this format.
    fn open(self: Box<Self>, input: Input) -> Box<dyn Reader>;

    /// Write a trace of this format; `None` where blocklab only reads it.
    fn writer(&self) -> Option<Box<dyn Writer>> {
        None
    }
}

/// A trace being read.
pub trait Reader: Send {
    /// Append about [`BATCH`] records; false when there are no more.
    ///
    /// # Errors
    /// When the trace is damaged: what, where, and what was expected.
    fn fill(&mut self, out: &mut Vec<Record>) -> Result<bool, TraceError>;

    /// What users call this device.
    fn device_name(&self, device: u32) -> String {
        device.to_string()
    }

    /// What the process was called, where the trace says so.
    fn process_name(&self, process: u32) -> Option<String> {
        let _ = process;
        None
    }

    /// What a user must know about what was read so far, one sentence each.
    fn remarks(&self) -> Vec<String>;
}

/// Counts of what was left out.
#[derive(Clone, Default, Debug)]
pub(crate) struct Remarks {
    skipped: Vec<(&'static str, u64)>,
    kept: Vec<(&'static str, u64)>,
}

impl Remarks {
    #[cold]
    pub(crate) fn skip(&mut self, what: &'static str) {
        match self.skipped.iter_mut().find(|entry| entry.0 == what) {
            Some(entry) => entry.1 += 1,
            None => self.skipped.push((what, 1)),
        }
    }

    /// Something worth a remark that was kept.
    #[cold]
    pub(crate) fn count(&mut self, what: &'static str) {
        match self.kept.iter_mut().find(|entry| entry.0 == what) {
            Some(entry) => entry.1 += 1,
            None => self.kept.push((what, 1)),
        }
    }

    pub(crate) fn say(&self) -> impl Iterator<Item = String> {
        let skipped = self.skipped.iter().map(|(what, count)| format!("left out {count} {what}"));
        skipped.chain(self.kept.iter().map(|(what, count)| format!("{count} {what}")))
    }
}

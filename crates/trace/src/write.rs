//! Writing traces.

use sim::{Op, Request};

use crate::Record;

/// What a format can carry, so that a conversion can say what is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carries {
    /// Resolution of its times in nanoseconds; `None` when it has none.
    pub time_ns: Option<u64>,
    /// Flushes.
    pub flush: bool,
    /// Discards.
    pub discard: bool,
    /// Force unit access.
    pub fua: bool,
    /// Which process asked.
    pub process: bool,
    /// How long it took.
    pub response: bool,
    /// Which device it went to.
    pub device: bool,
}

impl Carries {
    /// Reads and writes only: what every format can carry.
    pub(crate) const NOTHING: Carries = Carries {
        time_ns: None,
        flush: false,
        discard: false,
        fua: false,
        process: false,
        response: false,
        device: false,
    };

    /// All there is.
    pub const EVERYTHING: Carries = Carries {
        time_ns: Some(1),
        flush: true,
        discard: true,
        fua: true,
        process: true,
        response: true,
        device: true,
    };

    /// Whether a request of this kind can be written at all.
    pub fn takes(&self, request: &Request) -> bool {
        match request.op {
            Op::Read | Op::Write => true,
            Op::Flush => self.flush,
            Op::Discard => self.discard,
        }
    }
}

/// Writes one text format.
pub trait Writer {
    /// What the format can carry. Requests it cannot take must not be given to it.
    fn carries(&self) -> Carries;

    /// The lines before the first record.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// The lines of one record; `process` is what its process is called, where that is known.
    fn record(&mut self, record: &Record, process: Option<&str>, out: &mut Vec<u8>);

    /// The lines after the last record.
    fn end(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }
}

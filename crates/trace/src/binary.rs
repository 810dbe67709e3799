//! Binary formats: a stream of records, split once for all of them.

use crate::error::{Absent, TraceError, TracePlace};
use crate::input::Input;
use crate::sink::Sink;
use crate::{BATCH, Format, Head, Reader, Record, Remarks};

/// The parser of one binary format.
pub(crate) trait BinaryParser: Clone + Send + 'static {
    /// The name in the registry.
    const FORMAT: &'static str;
    /// What one record is called.
    const RECORD: &'static str;
    /// How sure detection may be when the records of the head parse.
    const CERTAINTY: u8;

    /// Read the record at the start of `bytes`: its length, or `None` when `bytes` is too short.
    fn record(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<Option<usize>, Wrong>;

    /// Hand out what is still held back at the end of the trace.
    fn finish(&mut self, sink: &mut Sink<'_>) {
        let _ = sink;
    }

    /// What was asked for and never came, at the end of the trace.
    fn absent(&self) -> Option<Absent> {
        None
    }

    /// What users call this device.
    fn device_name(&self, device: u32) -> String {
        device.to_string()
    }
}

/// A field that cannot be right.
pub(crate) struct Wrong {
    /// Offset of the field in its record.
    pub(crate) at: u64,
    /// Its value.
    pub(crate) value: String,
    /// What should be there.
    pub(crate) expected: &'static str,
}

/// A binary format as a whole.
pub(crate) struct Binary<P>(pub(crate) P);

/// Records that detection looks at.
const DETECTION_RECORDS: usize = 32;

impl<P: BinaryParser> Format for Binary<P> {
    fn detect(&self, head: Head<'_>) -> u8 {
        let (mut parser, mut out, mut remarks) = (self.0.clone(), Vec::new(), Remarks::default());
        let (mut rest, mut good) = (head.bytes, 0);
        while good < DETECTION_RECORDS && !rest.is_empty() {
            let mut sink = Sink { out: &mut out, remarks: &mut remarks, place: 0 };
            match parser.record(rest, &mut sink) {
                Ok(Some(length)) => rest = &rest[length..],
                Ok(None) => break,
                // A damaged record further down: the format is still the likeliest one.
                Err(_) => return if good == 0 { 0 } else { (P::CERTAINTY / 4).max(1) },
            }
            good += 1;
        }
        if good == 0 { 0 } else { P::CERTAINTY }
    }

    fn open(self: Box<Self>, input: Input) -> Box<dyn Reader> {
        Box::new(Records { parser: self.0, input, remarks: Remarks::default(), finished: false })
    }
}

struct Records<P> {
    parser: P,
    input: Input,
    remarks: Remarks,
    finished: bool,
}

impl<P: BinaryParser> Records<P> {
    #[cold]
    fn error(&self, at: u64, message: String, expected: &str) -> TraceError {
        TraceError {
            file: self.input.name().into(),
            format: P::FORMAT,
            place: TracePlace::Byte(self.input.offset() + at),
            message,
            expected: expected.into(),
        }
    }

    /// Nothing follows what is pending.
    fn last(&mut self, out: &mut Vec<Record>) -> Result<(), TraceError> {
        let left = self.input.pending().len();
        if left > 0 {
            let message = format!("the file ends {left} bytes into {}", P::RECORD);
            return Err(self.error(left as u64, message, "a complete file; copy it again"));
        }
        let place = self.input.offset();
        self.parser.finish(&mut Sink { out, remarks: &mut self.remarks, place });
        self.finished = true;
        match self.parser.absent() {
            Some(absent) => Err(absent.describe(self.input.name(), P::FORMAT)),
            None => Ok(()),
        }
    }
}

impl<P: BinaryParser> Reader for Records<P> {
    fn fill(&mut self, out: &mut Vec<Record>) -> Result<bool, TraceError> {
        let before = out.len();
        while out.len() - before < BATCH && !self.finished {
            let place = self.input.offset();
            let mut sink = Sink { out, remarks: &mut self.remarks, place };
            match self.parser.record(self.input.pending(), &mut sink) {
                Ok(Some(length)) => self.input.consume(length),
                Ok(None) if self.more()? => {}
                Ok(None) => self.last(out)?,
                Err(wrong) => return Err(self.error(wrong.at, wrong.value, wrong.expected)),
            }
        }
        Ok(out.len() > before)
    }

    fn device_name(&self, device: u32) -> String {
        self.parser.device_name(device)
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.say().collect()
    }
}

impl<P: BinaryParser> Records<P> {
    fn more(&mut self) -> Result<bool, TraceError> {
        self.input.more().map_err(|error| TraceError { format: P::FORMAT, ..error })
    }
}

/// `N` bytes at `at`; the caller has checked the length.
#[inline]
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

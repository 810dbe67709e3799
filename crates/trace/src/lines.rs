//! Text formats: splitting a big buffer into lines, once for all of them.

use memchr::memchr;

use crate::cursor::Cursor;
use crate::error::{Absent, Fault, TraceError, TracePlace, printable};
use crate::input::{Input, RECORD_BYTES_MAX};
use crate::sink::Sink;
use crate::{BATCH, Format, Head, Reader, Record, Remarks, Writer};

/// The parser of one text format.
pub(crate) trait LineParser: Clone + Send + 'static {
    /// The name in the registry.
    const FORMAT: &'static str;
    /// How sure detection may be when every line of the head parses: more for formats with more
    /// columns and keywords.
    const CERTAINTY: u8;
    /// True when a line cut short inside its last field still reads as a whole line; then a last
    /// line without a newline is an error.
    const LAST_FIELD_CAN_BE_CUT: bool;

    /// Read one line, without its line end.
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault>;

    /// Hand out what is still held back at the end of the trace.
    fn finish(&mut self, sink: &mut Sink<'_>) {
        let _ = sink;
    }

    /// What was asked for and never came, at the end of the trace.
    fn absent(&self) -> Option<Absent> {
        None
    }

    /// More evidence for or against this format in a head whose lines all parse.
    fn doubt(&self, head: &[u8]) -> u8 {
        let _ = head;
        0
    }

    /// What users call this device.
    fn device_name(&self, device: u32) -> String {
        device.to_string()
    }

    /// What the process was called.
    fn process_name(&self, process: u32) -> Option<String> {
        let _ = process;
        None
    }

    /// What a user must know about the reading itself.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// How to write this format.
    fn writer(&self) -> Option<Box<dyn Writer>> {
        None
    }
}

/// A text format as a whole.
pub(crate) struct Text<P>(pub(crate) P);

/// Lines that detection looks at.
const DETECTION_LINES: usize = 32;

impl<P: LineParser> Format for Text<P> {
    fn detect(&self, head: Head<'_>) -> u8 {
        let (mut parser, mut out, mut remarks) = (self.0.clone(), Vec::new(), Remarks::default());
        let (mut rest, mut good) = (head.bytes, 0);
        while good < DETECTION_LINES && !rest.is_empty() {
            let (line, after) = match memchr(b'\n', rest) {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None if head.whole => (rest, &rest[rest.len()..]),
                None => break,
            };
            let mut sink = Sink { out: &mut out, remarks: &mut remarks, place: 0 };
            if parser.line(&mut Cursor::new(without_return(line)), &mut sink).is_err() {
                // A damaged line further down: the format is still the likeliest one.
                return if good == 0 { 0 } else { (self.certainty(head) / 4).max(1) };
            }
            rest = after;
            good += usize::from(!line.is_empty());
        }
        if good == 0 { 0 } else { self.certainty(head) }
    }

    fn open(self: Box<Self>, input: Input) -> Box<dyn Reader> {
        let remarks = Remarks::default();
        Box::new(Lines { parser: self.0, input, remarks, line: 0, finished: false })
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        self.0.writer()
    }
}

impl<P: LineParser> Text<P> {
    fn certainty(&self, head: Head<'_>) -> u8 {
        P::CERTAINTY.saturating_sub(self.0.doubt(head.bytes)).max(1)
    }
}

struct Lines<P> {
    parser: P,
    input: Input,
    remarks: Remarks,
    /// Lines consumed so far.
    line: u64,
    finished: bool,
}

impl<P: LineParser> Lines<P> {
    /// Parse the next `bytes` bytes as a line.
    #[inline]
    fn parse(&mut self, bytes: usize, out: &mut Vec<Record>) -> Result<(), TraceError> {
        self.line += 1;
        let line = without_return(&self.input.pending()[..bytes]);
        let mut sink = Sink { out, remarks: &mut self.remarks, place: self.line };
        self.parser
            .line(&mut Cursor::new(line), &mut sink)
            .map_err(|fault| fault.describe(self.input.name(), P::FORMAT, self.line, line))
    }

    #[cold]
    fn too_long(&self) -> TraceError {
        self.error(1, format!("a line longer than {RECORD_BYTES_MAX} bytes"), "a text trace")
    }

    #[cold]
    fn cut_off(&self, length: usize) -> TraceError {
        let expected = "a newline at the end of the file; \
                        if nothing is missing, add one, else copy the file again";
        self.error(length + 1, "the last line is cut off".into(), expected)
    }

    fn error(&self, column: usize, message: String, expected: &str) -> TraceError {
        let pending = self.input.pending();
        let quote = printable(&pending[..pending.len().min(column.max(80)).min(160)]);
        TraceError {
            file: self.input.name().into(),
            format: P::FORMAT,
            place: TracePlace::Text { line: self.line + 1, column, length: 1, quote },
            message,
            expected: expected.into(),
        }
    }

    /// What is left without a newline at the end of the trace.
    fn last(&mut self, out: &mut Vec<Record>) -> Result<(), TraceError> {
        let length = self.input.pending().len();
        if length > 0 {
            self.parse(length, out)?;
            if P::LAST_FIELD_CAN_BE_CUT {
                self.line -= 1;
                return Err(self.cut_off(length));
            }
            self.input.consume(length);
        }
        let mut sink = Sink { out, remarks: &mut self.remarks, place: self.line };
        self.parser.finish(&mut sink);
        self.finished = true;
        match self.parser.absent() {
            Some(absent) => Err(absent.describe(self.input.name(), P::FORMAT)),
            None => Ok(()),
        }
    }
}

impl<P: LineParser> Reader for Lines<P> {
    fn fill(&mut self, out: &mut Vec<Record>) -> Result<bool, TraceError> {
        let before = out.len();
        while out.len() - before < BATCH && !self.finished {
            if let Some(length) = memchr(b'\n', self.input.pending()) {
                if length > RECORD_BYTES_MAX {
                    return Err(self.too_long());
                }
                self.parse(length, out)?;
                self.input.consume(length + 1);
            } else if self.input.pending().len() > RECORD_BYTES_MAX {
                return Err(self.too_long());
            } else if !self.input.more().map_err(|e| TraceError { format: P::FORMAT, ..e })? {
                self.last(out)?;
            }
        }
        Ok(out.len() > before)
    }

    fn device_name(&self, device: u32) -> String {
        self.parser.device_name(device)
    }

    fn process_name(&self, process: u32) -> Option<String> {
        self.parser.process_name(process)
    }

    fn remarks(&self) -> Vec<String> {
        let mut all = self.parser.remarks();
        all.extend(self.remarks.say());
        all
    }
}

/// Read a whole trace with a parser that keeps what it reads.
pub(crate) fn read_whole<P: LineParser>(parser: P, input: Input) -> Result<P, TraceError> {
    let remarks = Remarks::default();
    let mut lines = Lines { parser, input, remarks, line: 0, finished: false };
    let mut none = Vec::new();
    while !lines.finished {
        lines.fill(&mut none)?;
    }
    Ok(lines.parser)
}

#[inline]
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

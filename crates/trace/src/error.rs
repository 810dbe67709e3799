//! What is wrong with a trace, and where.

use std::fmt;

/// Where in the (decompressed) trace an error lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TracePlace {
    /// The file as a whole.
    Whole,
    /// A field of a text trace.
    Text {
        /// Line, from 1.
        line: u64,
        /// Column in bytes, from 1.
        column: usize,
        /// Length of the field in bytes.
        length: usize,
        /// The line, shortened when it is long; control characters are replaced.
        quote: String,
    },
    /// A byte of a binary trace, or of a compressed stream after decompression.
    Byte(u64),
}

/// A trace that cannot be read on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The file as the user named it.
    pub file: String,
    /// The format it was read as; empty when it is not known yet.
    pub format: &'static str,
    /// Where.
    pub place: TracePlace,
    /// What is wrong, with the value.
    pub message: String,
    /// What was expected there; may be empty.
    pub expected: String,
}

impl TraceError {
    /// An error about the file as a whole.
    pub fn file(file: &str, message: impl Into<String>) -> TraceError {
        TraceError {
            file: file.into(),
            format: "",
            place: TracePlace::Whole,
            message: message.into(),
            expected: String::new(),
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match &self.place {
            TracePlace::Whole => {}
            TracePlace::Text { line, column, .. } => write!(f, ":{line}:{column}")?,
            TracePlace::Byte(byte) => write!(f, ", byte {byte}")?,
        }
        write!(f, ": {}", self.message)?;
        if !self.expected.is_empty() {
            write!(f, "; expected {}", self.expected)?;
        }
        match self.format {
            "" => Ok(()),
            format => write!(f, " (format {format})"),
        }
    }
}

impl std::error::Error for TraceError {}

/// What is asked for, and nowhere in the trace.
pub(crate) struct Absent {
    /// What there is none of.
    pub(crate) message: String,
    /// What there is instead.
    pub(crate) expected: String,
}

impl Absent {
    /// The error a person sees.
    #[cold]
    pub(crate) fn describe(self, file: &str, format: &'static str) -> TraceError {
        TraceError { format, expected: self.expected, ..TraceError::file(file, self.message) }
    }
}

/// What a parser found wrong in a line: small, because every parsed field may return one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// Byte offset of the field in its line.
    pub(crate) at: u32,
    /// What should be there.
    pub(crate) expected: &'static str,
}

/// The longest part of a line an error quotes.
const QUOTE_BYTES: usize = 160;

impl Fault {
    /// The error a person sees.
    #[cold]
    pub(crate) fn describe(
        self,
        file: &str,
        format: &'static str,
        number: u64,
        line: &[u8],
    ) -> TraceError {
        let at = (self.at as usize).min(line.len());
        let rest = &line[at..];
        let length = rest.iter().position(|b| b" \t,".contains(b)).unwrap_or(rest.len());
        let message = match length {
            0 if rest.is_empty() => "the line ends too early".to_string(),
            0 => "an empty field".to_string(),
            _ => format!("\"{}\"", printable(&rest[..length.min(QUOTE_BYTES)])),
        };
        let from = if at + length > QUOTE_BYTES { at.saturating_sub(QUOTE_BYTES / 2) } else { 0 };
        // A quote that does not start at column 1 would underline the wrong place.
        let quote = match from {
            0 => printable(&line[..line.len().min(QUOTE_BYTES)]),
            _ => String::new(),
        };
        TraceError {
            file: file.into(),
            format,
            place: TracePlace::Text { line: number, column: at + 1, length: length.max(1), quote },
            message,
            expected: self.expected.into(),
        }
    }
}

/// Bytes as one line of text, with one character per byte.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let show = |&b: &u8| if (0x20..0x7f).contains(&b) { b as char } else { '\u{fffd}' };
    bytes.iter().map(show).collect()
}

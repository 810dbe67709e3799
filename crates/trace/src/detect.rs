//! Opening a trace: decompression, the format by content or by name, times from the first record.

use std::io::Read;

use config::Duration;
use config::bounded::is_utf_16;
use sim::Nanos;

use crate::TraceFormat;
use crate::error::{TraceError, TracePlace, printable};
use crate::input::Input;
use crate::{Context, Head, Reader, Record};

/// An open trace of any format.
pub struct Trace {
    reader: Box<dyn Reader>,
    format: TraceFormat,
    compression: Option<&'static str>,
    origin: Option<Nanos>,
    /// Records whose time lay before the first one's.
    early: u64,
    /// Records with a time.
    timed: u64,
    backward: Backward,
}

/// Records that lie before an earlier one in time.
#[derive(Default)]
struct Backward {
    latest: Nanos,
    records: u64,
    /// The furthest of them.
    by: Nanos,
}

/// Some requests may well come at once.
const ENOUGH: u64 = 100;
/// No drive that was recorded was asked more often.
const GAP_MIN: Nanos = Nanos::from_micros(1);

/// Events of several CPUs may lie as far before each other: nobody's order depends on it.
const JITTER: Nanos = Nanos::from_millis(1);

impl Backward {
    #[inline]
    fn see(&mut self, time: Nanos) {
        if time < self.latest {
            self.records += 1;
            self.by = self.by.max(self.latest.since(time));
        }
        self.latest = self.latest.max(time);
    }

    fn remark(&self) -> Option<String> {
        (self.by > JITTER).then(|| {
            format!(
                "{} requests lie before an earlier one in time, by up to {}; a replay by times \
                 issues them all at once, so sort the trace by time, or take one volume of it",
                self.records,
                Duration(self.by)
            )
        })
    }
}

/// Open the trace `read`; `name` is what errors call it. Without a `format` the content decides.
///
/// # Errors
/// When it cannot be read or its format cannot be told.
pub fn open(
    name: &str,
    read: Box<dyn Read + Send>,
    format: Option<&TraceFormat>,
    context: &Context,
) -> Result<Trace, TraceError> {
    let begun = Begun::new(name, read)?;
    let format = match format {
        Some(format) => format.clone(),
        None => begun.recognise(context)?,
    };
    Ok(begun.read_as(format, context))
}

/// A trace of which the beginning was read, whose format is still to be chosen.
pub struct Begun(Input);

impl Begun {
    /// Read the beginning of `read`; `name` is what errors call it.
    ///
    /// # Errors
    /// When it cannot be read, or is empty.
    pub fn new(name: &str, read: Box<dyn Read + Send>) -> Result<Begun, TraceError> {
        let input = Input::open(name, read)?;
        if input.pending().is_empty() {
            Err(TraceError::file(name, "the file is empty: it holds no trace"))
        } else {
            Ok(Begun(input))
        }
    }

    /// The format that the content says, with default parameters.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn recognise(&self, context: &Context) -> Result<TraceFormat, TraceError> {
        let head = Head { bytes: self.0.pending(), whole: self.0.ended() };
        recognise(head, context).ok_or_else(|| unknown(self.0.name(), head))
    }

    /// Go on as a trace of this format.
    pub fn read_as(self, format: TraceFormat, context: &Context) -> Trace {
        let compression = self.0.compression();
        let reader = format.build(context).open(self.0);
        let backward = Backward::default();
        Trace { reader, format, compression, origin: None, early: 0, timed: 0, backward }
    }
}

/// The format that is surest of itself; of equals, the first in the registry.
fn recognise(head: Head<'_>, context: &Context) -> Option<TraceFormat> {
    let mut best = (0, None);
    for name in TraceFormat::NAMES {
        let format = TraceFormat::from_name(name)?;
        let certainty = format.build(context).detect(head);
        if certainty > best.0 {
            best = (certainty, Some(format));
        }
    }
    best.1
}

#[cold]
fn unknown(name: &str, head: Head<'_>) -> TraceError {
    let line = head.bytes.split(|&b| b == b'\n').next().unwrap_or_default();
    let shown = printable(&line[..line.len().min(80)]);
    let expected = format!("one of {}; format = NAME forces one", TraceFormat::NAMES.join(", "));
    if is_utf_16(head.bytes) {
        let message = "this is text of UTF-16, as Windows' programs write it";
        let expected = "a text of UTF-8; iconv -f UTF-16 -t UTF-8 makes one".into();
        return TraceError { expected, ..TraceError::file(name, message) };
    }
    if shown.contains('\u{fffd}') {
        let message =
            "the format cannot be told: this is no text, nor a binary trace that is known";
        return TraceError { expected, ..TraceError::file(name, message) };
    }
    TraceError {
        file: name.into(),
        format: "",
        place: TracePlace::Text { line: 1, column: 1, length: shown.len(), quote: shown.clone() },
        message: format!("the format cannot be told from \"{shown}\""),
        expected,
    }
}

impl Trace {
    /// The format it is read as.
    pub fn format(&self) -> &TraceFormat {
        &self.format
    }

    /// How the file is compressed.
    pub fn compression(&self) -> Option<&'static str> {
        self.compression
    }

    /// The time of the first record as the trace counts it; the records' times start from it.
    pub fn origin(&self) -> Option<Nanos> {
        self.origin
    }

    /// Append a batch of records; false when there are no more. Times count from the first
    /// record; a record that lies before it gets time 0 and is counted in the remarks.
    ///
    /// # Errors
    /// When the trace is damaged.
    pub fn fill(&mut self, out: &mut Vec<Record>) -> Result<bool, TraceError> {
        let before = out.len();
        let more = self.reader.fill(out)?;
        for record in &mut out[before..] {
            if let Some(time) = record.time {
                let origin = *self.origin.get_or_insert(time);
                self.early += u64::from(time < origin);
                self.timed += 1;
                self.backward.see(time);
                record.time = Some(time.since(origin));
            }
        }
        Ok(more)
    }

    /// What a [`Record::place`] counts.
    pub fn unit_of_place(&self) -> &'static str {
        match self.format {
            TraceFormat::Blktrace(_) | TraceFormat::Vscsi(_) => "byte",
            _ => "line",
        }
    }

    /// What users call this device.
    pub fn device_name(&self, device: u32) -> String {
        self.reader.device_name(device)
    }

    /// What the process was called, where the trace says so.
    pub fn process_name(&self, process: u32) -> Option<String> {
        self.reader.process_name(process)
    }

    /// What a user must know about what was read so far, one sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let mut all = self.reader.remarks();
        if self.early > 0 {
            all.push(format!(
                "{} requests lie before the first one in time; they count as simultaneous with it",
                self.early
            ));
        }
        all.extend(self.backward.remark());
        all.extend(self.too_quick());
        all
    }

    /// Whole milliseconds of DiskSim's, taken for nanoseconds.
    fn too_quick(&self) -> Option<String> {
        let span = self.backward.latest.since(self.origin?);
        let dense = self.timed >= ENOUGH && span.0 < (self.timed - 1) * GAP_MIN.0;
        let nanoseconds = matches!(self.format, TraceFormat::Mqsim(_));
        (nanoseconds && dense).then(|| {
            format!(
                "{} requests come in {span}: where these times are milliseconds, the format is \
                 disksim, whose lines look alike: name it",
                self.timed
            )
        })
    }
}

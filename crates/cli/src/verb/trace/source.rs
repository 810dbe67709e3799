//! The trace a command reads: a file, perhaps a forced format, and how far it is.

use std::fs::File;
use std::io::{IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use study::Failure;
use trace::{Begun, Context, Record, Trace, TraceError, TraceFormat, TracePlace};

/// Which trace to read, and as what.
#[derive(clap::Args)]
pub(super) struct Source {
    /// The trace: plain, gzip or zstd; `-` is standard input
    pub(super) file: PathBuf,
    /// Read it as this format instead of recognising it
    #[arg(long)]
    pub(super) format: Option<String>,
    /// Set a parameter of the format, such as action=D or write_share=0.3
    #[arg(long = "with", value_name = "KEY=VALUE")]
    pub(super) parameters: Vec<String>,
    /// Seed of what the trace lacks
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

impl Source {
    /// Open the trace. With `responses`, formats that can look up response times do.
    pub(super) fn open(&self, responses: bool) -> Result<Reading, Failure> {
        let named = self.named_format()?;
        let (read, length) = open_file(&self.file)?;
        let done = Arc::new(AtomicU64::new(0));
        let read = Box::new(Counted { read, done: done.clone() });
        let wrong = |error| failure(&self.file, error);
        // A pipe can be read only once, so the format is recognised on the way.
        let begun = Begun::new(&self.file.to_string_lossy(), read).map_err(wrong)?;
        let context = Context { rng: sim::Rng::new(self.seed, "trace"), responses };
        let format = match named {
            Some(format) => format,
            None => begun.recognise(&context).map_err(wrong)?,
        };
        let trace = begun.read_as(self.configured(&format)?, &context);
        Ok(Reading { trace, file: self.file.clone(), progress: Progress::new(length, done) })
    }

    fn named_format(&self) -> Result<Option<TraceFormat>, Failure> {
        let Some(name) = &self.format else { return Ok(None) };
        let format = TraceFormat::from_name(name).ok_or_else(|| {
            Failure::input(format!("there is no trace format \"{name}\""))
                .expected(TraceFormat::NAMES.join(", "))
        })?;
        Ok(Some(format))
    }

    fn configured(&self, format: &TraceFormat) -> Result<TraceFormat, Failure> {
        let wrong = |error: serde_json::Error| {
            Failure::input(format!("--with does not suit the format: {error}"))
                .help(format!("blocklab explain trace.{}", format.name()))
        };
        let mut value = serde_json::to_value(format).map_err(wrong)?;
        let table = value[format.name()].as_object_mut().map(std::mem::take);
        let mut table: Map<String, Value> = table.unwrap_or_default();
        set_all(&mut table, &self.parameters)?;
        value[format.name()] = table.into();
        serde_json::from_value(value).map_err(wrong)
    }
}

/// Put `KEY=VALUE`s into a table.
pub(super) fn set_all(table: &mut Map<String, Value>, pairs: &[String]) -> Result<(), Failure> {
    for pair in pairs {
        let (key, text) = pair.split_once('=').ok_or_else(|| {
            Failure::input(format!("--with {pair} sets nothing")).expected("KEY=VALUE")
        })?;
        let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        table.insert(key.into(), value);
    }
    Ok(())
}

/// An open trace.
pub(super) struct Reading {
    pub(super) trace: Trace,
    file: PathBuf,
    progress: Progress,
}

impl Reading {
    /// Hand every record to `each`.
    pub(super) fn for_each(
        &mut self,
        mut each: impl FnMut(&Record, &Trace) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut batch = Vec::new();
        loop {
            let more = self.trace.fill(&mut batch).map_err(|e| failure(&self.file, e))?;
            if !more {
                self.progress.clear();
                return Ok(());
            }
            for record in batch.drain(..) {
                each(&record, &self.trace)?;
            }
            self.progress.show();
        }
    }

    /// What a user must know, on stderr.
    pub(super) fn say_remarks(&self) {
        self.trace.remarks().iter().for_each(|remark| crate::warn(format!("note: {remark}")));
    }
}

/// The bytes of a trace, and how many there are, where that is known; `-` is standard input.
pub(super) fn open_file(path: &Path) -> Result<(Box<dyn Read + Send>, u64), Failure> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(std::io::stdin()), 0));
    }
    let file = File::open(path)
        .map_err(|error| Failure::input(format!("cannot open {}: {error}", path.display())))?;
    let length = file.metadata().map_or(0, |about| about.len());
    Ok((Box::new(file), length))
}

/// The failure a person sees.
pub(super) fn failure(file: &Path, error: TraceError) -> Failure {
    let place =
        |line_column, byte, quote| study::FilePlace { file: file.into(), line_column, byte, quote };
    let failure = match error.format {
        "" if !error.expected.is_empty() && !matches!(error.place, TracePlace::Byte(_)) => {
            Failure::input(error.message).help("--format NAME reads it as that format")
        }
        "" => Failure::input(error.message),
        format => Failure::input(format!("{} (read as {format})", error.message)),
    };
    let failure = failure.at(match error.place {
        TracePlace::Whole => place(None, None, None),
        TracePlace::Byte(byte) => place(None, Some(byte), None),
        TracePlace::Text { line, column, length, quote } => {
            let quote = (!quote.is_empty()).then_some((quote, length));
            place(Some((line as usize, column)), None, quote)
        }
    });
    if error.expected.is_empty() { failure } else { failure.expected(error.expected) }
}

/// Counts the bytes taken from the file.
struct Counted {
    read: Box<dyn Read + Send>,
    done: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.read.read(buffer)?;
        self.done.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// A line on stderr for anything over a second, where a person watches.
struct Progress {
    length: u64,
    done: Arc<AtomicU64>,
    start: Instant,
    shown: Option<Instant>,
    watched: bool,
}

impl Progress {
    fn new(length: u64, done: Arc<AtomicU64>) -> Progress {
        let watched = std::io::stderr().is_terminal() && length > 0;
        Progress { length, done, start: Instant::now(), shown: None, watched }
    }

    fn show(&mut self) {
        let latest = self.shown.unwrap_or(self.start + Duration::from_millis(900));
        if !self.watched || Instant::now() < latest + Duration::from_millis(100) {
            return;
        }
        self.shown = Some(Instant::now());
        let share = self.done.load(Ordering::Relaxed) as f64 / self.length as f64;
        let left = self.start.elapsed().as_secs_f64() * (1.0 / share.max(1e-6) - 1.0);
        let percent = share.min(1.0) * 100.0;
        let _ = write!(std::io::stderr(), "\r{percent:3.0} % read, {left:.0} s left  ");
    }

    fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r{:40}\r", "");
        }
    }
}

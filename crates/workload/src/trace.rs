//! Trace replay: a recorded workload.
//!
//! # What it models
//! The requests of a trace in their order, at the pace that `replay` chooses. The file may be
//! plain, gzip or zstd; its format is recognised by content unless `format` names one.
//!
//! # Equation
//! Addresses beyond the device: `wrap` takes them modulo the device's size, `scale` multiplies
//! every address by device size / trace span, `refuse` ends the run. Both keep the alignment
//! within 4 KiB and move a request that would cross the end back until it fits.
//!
//! # Parameters
//! `file`, `format` (with its own parameters), `replay`, `remap`, `device`, `first`, `requests`.
//!
//! # What it leaves out
//! Dependencies between requests; what was in the recording machine's page cache. Traces of
//! several devices are laid over each other unless `device` picks one. `scale` breaks up
//! sequential runs.
//!
//! # Validated against
//! Issue times to the nanosecond and every remapped address, in tests.
//!
//! # References
//! Anderson et al., "Buttress", FAST 2004; Tarasov et al., "Extracting Flexible, Replayable
//! Models from Large Block Traces", FAST 2012.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Completion, Demand, Lba, Nanos, Op, Request, Workload, WorkloadError};

use config::ConfigError;
use trace::{self, Record, Trace, TraceFormat};

use crate::Context;
use crate::replay::Replay;
use crate::replay::{Pace, Turn};

/// Parameters of trace replay.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The trace, relative to the study's file.
    pub file: String,
    /// Its format; recognised by content when absent.
    pub format: Option<TraceFormat>,
    /// When requests are issued.
    pub replay: Replay,
    /// What happens to addresses beyond the device.
    pub remap: Remap,
    /// Replay only this device of the trace, as `blocklab trace info` names it.
    pub device: Option<String>,
    /// Requests to pass over first.
    pub first: u64,
    /// Requests to replay at most.
    pub requests: Option<u64>,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            file: String::new(),
            format: None,
            replay: Replay::Timestamps(Default::default()),
            remap: Remap::default(),
            device: None,
            first: 0,
            requests: None,
        }
    }
}

/// What happens to addresses beyond the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Remap {
    /// They wrap around.
    #[default]
    Wrap,
    /// All addresses shrink so that the trace's span fits; nothing changes when it fits already.
    Scale,
    /// They are an error.
    Refuse,
}

impl Params {
    /// Build the workload: opens the trace and reads its first records.
    ///
    /// # Errors
    /// When the trace cannot be opened, is damaged at its start, or has no times and needs them.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Workload + Send>, ConfigError> {
        if self.file.is_empty() {
            return Err(ConfigError::new("file", "expected the name of a trace file"));
        }
        let pace = self.replay.build(&()).map_err(|e| e.within("replay"))?;
        let device_sectors = context.limits.sectors();
        let span = match self.remap {
            Remap::Scale => self.span(context)?.max(device_sectors),
            _ => device_sectors,
        };
        let mut replay = TraceReplay {
            params: self.clone(),
            trace: self.open(context)?,
            pace,
            batch: Vec::new(),
            cursor: 0,
            base: None,
            time: Nanos::ZERO,
            in_flight: 0,
            completed: Nanos::ZERO,
            taken: 0,
            passed_over: 0,
            device_sectors,
            span,
            chosen: None,
            seen_device: None,
            several: false,
            remapped: 0,
            highest: 0,
        };
        replay.refill().map_err(|e| ConfigError::new("file", e.0))?;
        replay.check_start()?;
        Ok(Box::new(replay))
    }

    fn open(&self, context: &Context) -> Result<Trace, ConfigError> {
        let read = (context.open)(&self.file).map_err(|error| {
            ConfigError::new("file", format!("cannot open \"{}\": {error}", self.file))
        })?;
        let formats = trace::Context { rng: context.rng.split("trace") };
        trace::open(&self.file, read, self.format.as_ref(), &formats)
            .map_err(|error| ConfigError::new("file", error.to_string()))
    }

    /// The first sector past everything the trace touches: one pass over the whole trace.
    fn span(&self, context: &Context) -> Result<u64, ConfigError> {
        let mut trace = self.open(context)?;
        let (mut batch, mut span) = (Vec::new(), 0);
        while trace.fill(&mut batch).map_err(|e| ConfigError::new("file", e.to_string()))? {
            for record in batch.drain(..) {
                let chosen = match &self.device {
                    Some(device) => trace.device_name(record.device) == *device,
                    None => true,
                };
                if chosen && record.request.op != Op::Flush {
                    span = span.max(record.request.end().0);
                }
            }
        }
        Ok(span)
    }
}

struct TraceReplay {
    params: Params,
    trace: Trace,
    pace: Box<dyn Pace>,
    batch: Vec<Record>,
    /// The next record of the batch.
    cursor: usize,
    /// When the replay began, and the trace's time of its first request.
    base: Option<(Nanos, Nanos)>,
    /// The trace's time of the latest request; one without a time counts as simultaneous.
    time: Nanos,
    in_flight: u64,
    completed: Nanos,
    taken: u64,
    passed_over: u64,
    device_sectors: u64,
    /// What `scale` maps onto the device.
    span: u64,
    /// The number of the device that `device` picks, once it was seen.
    chosen: Option<u32>,
    seen_device: Option<u32>,
    several: bool,
    remapped: u64,
    /// First sector past everything asked for.
    highest: u64,
}

/// Remapped addresses keep their place within this many sectors (4 KiB).
const ALIGNMENT: u64 = 8;

impl TraceReplay {
    /// The next batch that is not empty; false at the end of the trace.
    fn refill(&mut self) -> Result<bool, WorkloadError> {
        self.batch.clear();
        self.cursor = 0;
        self.trace.fill(&mut self.batch).map_err(|error| WorkloadError(error.to_string()))
    }

    fn check_start(&self) -> Result<(), ConfigError> {
        let file = &self.params.file;
        if self.batch.is_empty() {
            let what = format!("{file}: the trace holds no requests");
            let remarks = self.trace.remarks().join("; ");
            let why = if remarks.is_empty() { what } else { format!("{what} ({remarks})") };
            return Err(ConfigError::new("file", why));
        }
        let has_times = self.batch.iter().any(|record| record.time.is_some());
        if self.pace.needs_times() && !has_times {
            let message = format!(
                "{file}: the trace has no times, so it cannot be replayed by timestamps; \
                 choose \"closed-loop\" or \"back-to-back\""
            );
            return Err(ConfigError::new("replay", message));
        }
        Ok(())
    }

    /// The record to issue next; `None` at the end.
    #[inline]
    fn peek(&mut self) -> Result<Option<Record>, WorkloadError> {
        if self.params.requests.is_some_and(|limit| self.taken >= limit) {
            return Ok(None);
        }
        loop {
            if self.cursor == self.batch.len() && !self.refill()? {
                return self.end().map(|()| None);
            }
            let record = self.batch[self.cursor];
            if self.params.device.is_some() && !self.is_chosen(record.device) {
                self.cursor += 1;
                continue;
            }
            if self.passed_over < self.params.first {
                self.passed_over += 1;
                self.cursor += 1;
                continue;
            }
            return Ok(Some(record));
        }
    }

    /// A replay that never issued anything is a mistake, not a result.
    #[cold]
    fn end(&self) -> Result<(), WorkloadError> {
        if self.taken > 0 {
            return Ok(());
        }
        let file = &self.params.file;
        Err(WorkloadError(match &self.params.device {
            Some(device) if self.passed_over == 0 => format!(
                "{file}: no request goes to device \"{device}\"; \
                 `blocklab trace info` lists the devices of a trace"
            ),
            _ => format!(
                "{file}: the trace ends after {} requests, before `first` = {}",
                self.passed_over, self.params.first
            ),
        }))
    }

    #[inline]
    fn is_chosen(&mut self, device: u32) -> bool {
        if self.chosen.is_some() || self.seen_device == Some(device) {
            return self.chosen == Some(device);
        }
        self.seen_device = Some(device);
        if self.params.device.as_deref() == Some(&self.trace.device_name(device)) {
            self.chosen = Some(device);
        }
        self.chosen == Some(device)
    }

    /// The request as the device gets it.
    #[inline]
    fn place(&mut self, record: &Record) -> Result<Request, WorkloadError> {
        if self.params.device.is_none() {
            self.several |= *self.seen_device.get_or_insert(record.device) != record.device;
        }
        let mut request = record.request;
        if request.op == Op::Flush {
            return Ok(request);
        }
        self.highest = self.highest.max(request.end().0);
        let fits = request.end().0 <= self.device_sectors && self.span <= self.device_sectors;
        if !fits {
            request.lba = self.remap(record)?;
        }
        Ok(request)
    }

    #[cold]
    fn remap(&mut self, record: &Record) -> Result<Lba, WorkloadError> {
        let request = &record.request;
        let (size, sectors) = (self.device_sectors, u64::from(request.sectors));
        if self.params.remap == Remap::Refuse || sectors > size {
            return Err(self.beyond(record));
        }
        self.remapped += 1;
        let within = request.lba.0 % ALIGNMENT;
        let blocks = (size / ALIGNMENT).max(1);
        let block = request.lba.0 / ALIGNMENT;
        let moved = match self.params.remap {
            Remap::Scale => {
                let span = self.span.div_ceil(ALIGNMENT);
                (u128::from(block) * u128::from(blocks) / u128::from(span)) as u64
            }
            _ => block % blocks,
        };
        let lba = moved * ALIGNMENT + within;
        // Back by whole alignment units until it fits; a request almost as large as the device
        // may have to give up its alignment.
        let over = (lba + sectors).saturating_sub(size).next_multiple_of(ALIGNMENT);
        Ok(Lba(lba.checked_sub(over).unwrap_or(size - sectors)))
    }

    #[cold]
    fn beyond(&self, record: &Record) -> WorkloadError {
        let (lba, sectors) = (record.request.lba.0, record.request.sectors);
        WorkloadError(format!(
            "{}, record at {} {}: sector {lba} + {sectors} lies beyond the device's end at sector \
             {}; take a larger device, or remap = \"wrap\" or \"scale\"",
            self.params.file,
            self.trace.unit_of_place(),
            record.place,
            self.device_sectors,
        ))
    }
}

impl Workload for TraceReplay {
    #[inline]
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        let Some(record) = self.peek()? else {
            return Ok(Demand::End);
        };
        let time = record.time.unwrap_or(self.time).max(self.time);
        let (start, first) = *self.base.get_or_insert((now, time));
        let turn = self.pace.turn(
            now.since(start),
            time.since(first),
            self.in_flight,
            self.completed.since(start),
        );
        match turn {
            Turn::At(at) => return Ok(Demand::At(start.saturating_add(at))),
            Turn::Wait => return Ok(Demand::Wait),
            Turn::Now => {}
        }
        let request = self.place(&record)?;
        self.time = time;
        self.cursor += 1;
        self.taken += 1;
        self.in_flight += 1;
        Ok(Demand::Issue(request))
    }

    #[inline]
    fn complete(&mut self, _request: &Request, completion: Completion) {
        self.in_flight -= 1;
        self.completed = completion.at;
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.trace.remarks();
        if self.several {
            notes.push("requests of several devices were laid over each other on one".into());
        }
        if self.remapped > 0 {
            let (how, so) = match self.params.remap {
                Remap::Scale => {
                    ("scaled down", "sequential runs are broken up; take a larger device")
                }
                _ => (
                    "wrapped around",
                    "places far apart became one; take a larger device, or remap = \"scale\"",
                ),
            };
            notes.push(format!(
                "{} of {} addresses were {how}: the trace reaches to {}, the device ends at {}; \
                 {so}",
                self.remapped,
                self.taken,
                Lba(self.highest.max(self.span)).bytes(),
                Lba(self.device_sectors).bytes(),
            ));
        }
        let file = &self.params.file;
        notes.into_iter().map(|note| format!("{file}: {note}")).collect()
    }
}

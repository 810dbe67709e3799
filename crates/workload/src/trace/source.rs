//! Where the requests of a replay come from: the records of a trace, moved onto the device.

use config::{ConfigError, Duration};
use sim::{Lba, Nanos, Op, Request, WorkloadError};
use trace::{self, Record, Trace};

use super::{Params, Remap};
use crate::Context;
use crate::replay::Order;

/// A recording that counts from its own start does not pause longer before its first request.
const PAUSE_MAX: Nanos = Nanos(30 * 86_400 * 1_000_000_000);

impl Params {
    fn open(&self, context: &Context, responses: bool) -> Result<Trace, ConfigError> {
        let read = (context.open)(&self.file).map_err(|error| {
            ConfigError::new("file", format!("cannot open \"{}\": {error}", self.file))
        })?;
        let formats = trace::Context { rng: context.rng.split("trace"), responses };
        trace::open(&self.file, read, self.format.as_ref(), &formats)
            .map_err(|error| ConfigError::new("file", error.to_string()))
    }

    /// The first sector past everything the trace touches: one pass over the whole trace.
    fn span(&self, context: &Context) -> Result<u64, ConfigError> {
        let mut trace = self.open(context, false)?;
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

/// The records of a trace that are replayed, and where they go on the device.
pub(super) struct Source {
    params: Params,
    trace: Trace,
    batch: Vec<Record>,
    /// The next record of the batch.
    cursor: usize,
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

impl Source {
    /// A trace that was just opened. With `responses`, it is looked up when requests completed.
    pub(super) fn new(
        params: &Params,
        context: &Context,
        responses: bool,
    ) -> Result<Source, ConfigError> {
        let device_sectors = context.limits.sectors();
        let span = match params.remap {
            Remap::Scale => params.span(context)?.max(device_sectors),
            _ => device_sectors,
        };
        Ok(Source {
            params: params.clone(),
            trace: params.open(context, responses)?,
            batch: Vec::new(),
            cursor: 0,
            taken: 0,
            passed_over: 0,
            device_sectors,
            span,
            chosen: None,
            seen_device: None,
            several: false,
            remapped: 0,
            highest: 0,
        })
    }

    /// The name of the trace.
    pub(super) fn file(&self) -> &str {
        &self.params.file
    }

    /// What a process was called, as far as the trace was read.
    pub(super) fn process_name(&self, process: u32) -> Option<String> {
        self.trace.process_name(process)
    }

    /// The next batch that is not empty; false at the end of the trace.
    pub(super) fn refill(&mut self) -> Result<bool, WorkloadError> {
        self.batch.clear();
        self.cursor = 0;
        self.trace.fill(&mut self.batch).map_err(|error| WorkloadError(error.to_string()))
    }

    /// Between the recording's time 0 and its first request.
    #[inline]
    pub(super) fn origin(&self) -> Nanos {
        self.trace.origin().unwrap_or_default()
    }

    pub(super) fn check_start(&self, order: &Order) -> Result<(), ConfigError> {
        let file = &self.params.file;
        if self.batch.is_empty() {
            let what = format!("{file}: the trace holds no requests");
            let remarks = self.trace.remarks().join("; ");
            let why = if remarks.is_empty() { what } else { format!("{what} ({remarks})") };
            return Err(ConfigError::new("file", why));
        }
        let has_times = self.batch.iter().any(|record| record.time.is_some());
        if order.needs_times() && !has_times {
            let message = format!(
                "{file}: the trace has no times, so it cannot be replayed by them; \
                 choose \"closed-loop\" or \"back-to-back\""
            );
            return Err(ConfigError::new("replay", message));
        }
        if order.counts_from_start() && self.origin() > PAUSE_MAX {
            let message = format!(
                "{file}: the first request comes {} after the trace's time 0, so its times do not \
                 count from its own start: expected at most {}, or leave it out",
                Duration(self.origin()),
                Duration(PAUSE_MAX)
            );
            return Err(ConfigError::new("replay.timestamps.from_start", message));
        }
        Ok(())
    }

    /// Go on behind the record that [`Source::peek`] gave.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.cursor += 1;
        self.taken += 1;
    }

    /// The record to issue next; `None` at the end.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<Record>, WorkloadError> {
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
    pub(super) fn place(&mut self, record: &Record) -> Result<Request, WorkloadError> {
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

    /// A request comes too late for a replay.
    #[cold]
    pub(super) fn late(&self, record: &Record) -> WorkloadError {
        WorkloadError(format!(
            "{}: it comes more than 100 years after the first; take times that are right, or a \
             smaller replay.timestamps.scale",
            self.name(record)
        ))
    }

    fn name(&self, record: &Record) -> String {
        let unit = self.trace.unit_of_place();
        format!("{}, record at {unit} {}", self.params.file, record.place)
    }

    #[cold]
    fn beyond(&self, record: &Record) -> WorkloadError {
        let (lba, sectors) = (record.request.lba.0, record.request.sectors);
        WorkloadError(format!(
            "{}: sector {lba} + {sectors} lies beyond the device's end at sector \
             {}; take a larger device, or remap = \"wrap\" or \"scale\"",
            self.name(record),
            self.device_sectors,
        ))
    }

    /// What a user must know about what was replayed.
    pub(super) fn notes(&self) -> Vec<String> {
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

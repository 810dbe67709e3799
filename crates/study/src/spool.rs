//! What a run writes while it goes on: every request, and what the media did.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use sim::{Completion, Counters, Device, Nanos, Probe, Request, Span};

use crate::perfetto::Perfetto;
use crate::records::Records;
use crate::run::Options;

/// The spool of a run's requests.
pub(crate) fn records(directory: &Path, run: usize) -> PathBuf {
    directory.join(format!(".requests-{run}"))
}

/// The spool of a run's part of the Perfetto trace.
pub(crate) fn perfetto(directory: &Path, run: usize) -> PathBuf {
    directory.join(format!(".perfetto-{run}"))
}

/// Join files, which are removed.
pub(crate) fn concatenate(parts: &[PathBuf], to: &Path) -> io::Result<()> {
    let mut to = BufWriter::new(File::create(to)?);
    for part in parts {
        io::copy(&mut File::open(part)?, &mut to)?;
        std::fs::remove_file(part)?;
    }
    to.flush()
}

/// The spools that were asked for.
#[derive(Default)]
pub(crate) struct Spools {
    records: Option<Records>,
    perfetto: Option<Perfetto<BufWriter<File>>>,
}

impl Spools {
    /// Begin the spools of run `index`; times count from `start`.
    pub(crate) fn begin(
        options: &Options,
        directory: &Path,
        (index, label): (u32, &str),
        device: &dyn Device,
        start: Nanos,
    ) -> io::Result<Spools> {
        let number = index as usize;
        let mut spools = Spools::default();
        if options.records {
            spools.records = Some(Records::begin(&records(directory, number), start)?);
        }
        if options.perfetto {
            let mut counters = Counters::default();
            device.counters(&mut counters);
            let units: Vec<String> = counters.units.into_iter().map(|unit| unit.name).collect();
            let path = perfetto(directory, number);
            spools.perfetto = Some(Perfetto::create(&path, index, label, &units, start)?);
        }
        Ok(spools)
    }

    /// True when nothing was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_none() && self.perfetto.is_none()
    }

    /// Write what is left; returns what a reader must know.
    pub(crate) fn finish(self) -> io::Result<Option<String>> {
        if let Some(records) = self.records {
            records.finish()?;
        }
        self.perfetto.map_or(Ok(None), Perfetto::finish)
    }
}

impl Probe for Spools {
    fn wants_spans(&self) -> bool {
        self.perfetto.is_some()
    }
    fn on_issue(&mut self, now: Nanos, request: &Request) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.on_issue(now, request);
        }
    }
    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        if let Some(records) = &mut self.records {
            records.on_complete(request, issued, completion);
        }
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.on_complete(request, issued, completion);
        }
    }
    fn on_span(&mut self, span: &Span) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.on_span(span);
        }
    }
}

//! What a run writes while it goes on, when asked: every request, what the media did, and what fio
//! would have reported.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use sim::{Completion, Counters, Device, Nanos, Probe, Request, Span};
use workload::fio;

use crate::options::Options;
use crate::perfetto::Perfetto;
use crate::planned::PlannedRun;
use crate::records::Records;

/// The spool of a run's requests.
pub(crate) fn records(directory: &Path, run: usize) -> PathBuf {
    directory.join(format!(".requests-{run}"))
}

/// The spool of a run's part of the Perfetto trace.
pub(crate) fn perfetto(directory: &Path, run: usize) -> PathBuf {
    directory.join(format!(".perfetto-{run}"))
}

/// fio's report of a run; a study of one run has `fio.json`.
pub(crate) fn fio(directory: &Path, run: usize, runs: usize) -> PathBuf {
    match runs {
        1 => directory.join("fio.json"),
        _ => directory.join(format!("fio-{run}.json")),
    }
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
pub struct Spools {
    records: Option<Records>,
    perfetto: Option<Perfetto<BufWriter<File>>>,
    /// fio's report, the device's name in it, and where it goes.
    fio: Option<(fio::Recorder, String, PathBuf)>,
}

impl Spools {
    /// Begin the spools of `run`, the one with this number of so many; times count from `start`.
    pub(crate) fn begin(
        options: &Options,
        directory: &Path,
        run: &PlannedRun,
        (index, runs): (u32, usize),
        device: &dyn Device,
        start: Nanos,
        fio: Option<fio::Recorder>,
    ) -> io::Result<Spools> {
        let number = index as usize;
        let mut spools = Spools::default();
        if options.records {
            spools.records = Some(Records::begin(&records(directory, number), start)?);
        }
        let path = self::fio(directory, number, runs);
        let model = run.point.device.name();
        spools.fio = fio.map(|recorder| (recorder, model.to_string(), path));
        if options.perfetto {
            let mut counters = Counters::default();
            device.counters(&mut counters);
            let units: Vec<String> = counters.units.into_iter().map(|unit| unit.name).collect();
            let path = perfetto(directory, number);
            spools.perfetto = Some(Perfetto::create(&path, index, &run.label, &units, start)?);
        }
        Ok(spools)
    }

    /// True when nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.records.is_none() && self.perfetto.is_none() && self.fio.is_none()
    }

    /// The run ended at `end`; when each of its jobs was at work is what fio's rates are of.
    pub(crate) fn ended(&mut self, at_work: &[(Nanos, Nanos)], end: Nanos) {
        if let Some((fio, ..)) = &mut self.fio {
            fio.ended(at_work, end);
        }
    }

    /// Write what is left; returns what a reader must know.
    pub(crate) fn finish(self) -> io::Result<Option<String>> {
        if let Some(records) = self.records {
            records.finish()?;
        }
        if let Some((recorder, device, path)) = self.fio {
            // The time of day would make two equal runs differ.
            let output = recorder.output(&device, 0);
            let mut file = BufWriter::new(File::create(path)?);
            serde_json::to_writer_pretty(&mut file, &output)?;
            file.flush()?;
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
        if let Some((fio, ..)) = &mut self.fio {
            fio.on_issue(now, request);
        }
    }
    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        if let Some(records) = &mut self.records {
            records.on_complete(request, issued, completion);
        }
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.on_complete(request, issued, completion);
        }
        if let Some((fio, ..)) = &mut self.fio {
            fio.on_complete(request, issued, completion);
        }
    }
    fn on_span(&mut self, span: &Span) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.on_span(span);
        }
    }
}

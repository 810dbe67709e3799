//! `blocklab trace convert`: the same requests in another text format, or as a table.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;
use sim::Op;
use study::{Failure, TraceTable};
use trace::{Carries, Context, DeviceNumbers, Record, Trace, TraceFormat, Writer};

use crate::interrupt;

use super::output::Output;
use super::source::{Reading, Source};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    /// The file to write; .gz and .zst compress
    output: PathBuf,
    /// The format to write; `parquet` is a table with a row per request
    #[arg(long)]
    to: String,
    /// Replace OUTPUT when it exists
    #[arg(long)]
    overwrite: bool,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// Bytes collected before they are written.
const CHUNK_BYTES: usize = 64 << 10;

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let unfinished = Output::unfinished(&self.output).ok();
        let tidy = |signal| {
            // It may not exist yet, or have its name already.
            let _ = unfinished.map(std::fs::remove_file);
            interrupt::end_by(signal);
        };
        interrupt::during(tidy, || self.convert())
    }

    fn convert(&self) -> Result<u8, Failure> {
        let (reading, lost, numbers) = self.written()?;
        reading.say_remarks();
        let numbers = numbers.say();
        numbers.iter().for_each(crate::warn);
        let losses = lost.say();
        losses.iter().for_each(|loss| crate::warn(format!("lost: {loss}")));
        let from = reading.trace.format().name();
        let (output, written) = (self.output.display().to_string(), lost.written);
        if self.json {
            let notes: Vec<String> = reading.trace.remarks().into_iter().chain(numbers).collect();
            super::say_json(&json!({
                "file": self.source.file.display().to_string(), "format": from,
                "output": output, "to": self.to, "requests": written,
                "lost": losses, "notes": notes,
            }))?
        } else {
            super::say(&format!("{output}: {written} requests, {from} to {}\n", self.to))?
        }
        Ok(0)
    }

    fn written(&self) -> Result<(Reading, Lost, DeviceNumbers), Failure> {
        let target = Target::named(&self.to)?;
        if self.output.as_os_str() == "-" {
            return Err(Failure::input("`-` is no name of an output")
                .expected("a file")
                .help("/dev/stdout is the standard output; ./- is a file of that name"));
        }
        study::check_overwrite(&self.output, || self.overwrite).map_err(|failure| {
            match self.output.is_dir() {
                true => failure,
                false => failure.help("choose another name, or say --overwrite"),
            }
        })?;
        study::check_output(&self.output, || true)?;
        let carries = target.carries();
        let mut reading = self.source.open(carries.response)?;
        let cannot = |error: io::Error| cannot_write(&self.output, &error);
        let (mut lost, mut numbers) = (Lost::default(), DeviceNumbers::default());
        let output = Output::create(&self.output).map_err(cannot)?;
        let mut sink = target.open(output).map_err(cannot)?;
        reading.for_each(|record, trace| {
            if !lost.takes(record, &carries) {
                return Ok(());
            }
            let mut record = *record;
            if carries.numbers_devices {
                let name = || trace.device_name(record.device);
                record.device = numbers.of(record.device, name);
            }
            sink.add(&record, trace).map_err(cannot)
        })?;
        sink.finish(&reading.trace).and_then(Output::finish).map_err(cannot)?;
        Ok((reading, lost, numbers))
    }
}

/// `file` as a table in the new file `to`, for Python; returns what a user must know.
///
/// # Errors
/// What is wrong with the trace, or keeps the table from being written.
pub fn trace_table(
    file: PathBuf,
    format: Option<String>,
    parameters: Vec<String>,
    to: PathBuf,
) -> Result<Vec<String>, Failure> {
    let source = Source { file, format, parameters, seed: 1 };
    let to_table = Args { source, output: to, to: TABLE.into(), overwrite: false, json: false };
    to_table.written().map(|(reading, ..)| reading.trace.remarks())
}

/// A Parquet table, in place of a format's name.
const TABLE: &str = "parquet";

/// What is written.
enum Target {
    Text(Box<dyn Writer>),
    Table,
}

impl Target {
    fn named(name: &str) -> Result<Target, Failure> {
        if name == TABLE {
            return Ok(Target::Table);
        }
        // Writers draw nothing at random.
        let context = Context { rng: sim::Rng::new(0, "convert"), responses: false };
        let writer = |name: &str| TraceFormat::from_name(name)?.build(&context).writer();
        writer(name).map(Target::Text).ok_or_else(|| {
            let names = TraceFormat::NAMES.iter().filter(|name| writer(name).is_some());
            let names: Vec<&str> = names.copied().chain([TABLE]).collect();
            Failure::input(format!("cannot write traces in the format \"{name}\""))
                .expected(names.join(", "))
        })
    }

    fn carries(&self) -> Carries {
        match self {
            Target::Text(writer) => writer.carries(),
            Target::Table => Carries::EVERYTHING,
        }
    }

    fn open(self, output: Output) -> io::Result<Sink> {
        Ok(match self {
            Target::Text(mut writer) => {
                let mut text = Vec::with_capacity(CHUNK_BYTES + 4096);
                writer.begin(&mut text);
                Sink::Text { writer, text, output }
            }
            Target::Table => Sink::Table(TraceTable::new(output)?),
        })
    }
}

/// Where it is written to.
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Sink {
    Text { writer: Box<dyn Writer>, text: Vec<u8>, output: Output },
    Table(TraceTable<Output>),
}

impl Sink {
    fn add(&mut self, record: &Record, trace: &Trace) -> io::Result<()> {
        match self {
            Sink::Table(table) => table.add(record, trace),
            Sink::Text { writer, text, output } => {
                let process = record.request.process;
                let called = writer.carries().process.then(|| trace.process_name(process));
                writer.record(record, called.flatten().as_deref(), text);
                if text.len() >= CHUNK_BYTES {
                    output.write_all(text)?;
                    text.clear();
                }
                Ok(())
            }
        }
    }

    fn finish(self, trace: &Trace) -> io::Result<Output> {
        match self {
            Sink::Table(table) => table.finish(trace),
            Sink::Text { text, mut output, .. } => {
                output.write_all(&text)?;
                Ok(output)
            }
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot write {}: {error}", path.display());
    if study::is_full(error) { Failure::machine(what) } else { Failure::input(what) }
        .help("nothing was left behind; make room or choose another place, then run it again")
}

/// What the target format could not carry.
#[derive(Default)]
struct Lost {
    written: u64,
    flushes: u64,
    discards: u64,
    fua: u64,
    processes: u64,
    responses: u64,
    no_response: u64,
    rounded: u64,
    no_time: u64,
    times: u64,
    /// The device seen first, and requests to others.
    device: Option<u32>,
    other_devices: u64,
}

impl Lost {
    /// Count what is lost of this record; false when it cannot be written at all.
    fn takes(&mut self, record: &Record, carries: &Carries) -> bool {
        let request = &record.request;
        if !carries.takes(request) {
            self.flushes += u64::from(request.op == Op::Flush);
            self.discards += u64::from(request.op == Op::Discard);
            return false;
        }
        self.written += 1;
        self.fua += u64::from(request.fua && !carries.fua);
        self.processes += u64::from(request.process != 0 && !carries.process);
        self.responses += u64::from(record.response.is_some() && !carries.response);
        self.no_response += u64::from(record.response.is_none() && carries.needs_response);
        let first = *self.device.get_or_insert(record.device);
        self.other_devices += u64::from(record.device != first && !carries.device);
        match (record.time, carries.time_ns) {
            (None, Some(_)) => self.no_time += 1,
            (Some(time), Some(unit)) => self.rounded += u64::from(time.0 % unit != 0),
            (Some(_), None) => self.times += 1,
            (None, None) => {}
        }
        true
    }

    fn say(&self) -> Vec<String> {
        let all = [
            (self.flushes, "flushes were left out"),
            (self.discards, "discards were left out"),
            (self.fua, "FUA writes became plain writes"),
            (self.processes, "requests lost their process"),
            (self.responses, "requests lost their response time"),
            (self.no_response, "requests had no response time and got 0"),
            (self.rounded, "times were cut to the format's resolution"),
            (self.times, "requests lost their time"),
            (self.no_time, "requests had no time and got 0"),
            (self.other_devices, "requests to other devices were laid over the first device"),
        ];
        all.iter().filter(|loss| loss.0 > 0).map(|(n, what)| format!("{n} {what}")).collect()
    }
}

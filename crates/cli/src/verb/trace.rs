//! `blocklab trace`: describe, convert and measure recorded traces.

mod beside;
mod convert;
mod info;
mod output;
mod record_stats;
mod source;

use std::io::{ErrorKind, Write as _};

use study::Failure;

pub use convert::trace_table;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: TraceVerb,
}

#[derive(clap::Subcommand)]
enum TraceVerb {
    /// Describe a trace: requests, sizes, span, footprint, processes
    Info(info::Args),
    /// Write a trace in another text format or as a table, compressed by the name's end (.gz, .zst)
    Convert(convert::Args),
    /// Give a recorded queue to a modelled elevator and compare what each made of it
    Beside(beside::Args),
    /// Measure reuse, overwrites, arrivals and queue depths, as JSON
    RecordStats(record_stats::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.verb {
            TraceVerb::Info(args) => args.run(),
            TraceVerb::Convert(args) => args.run(),
            TraceVerb::Beside(args) => args.run(),
            TraceVerb::RecordStats(args) => args.run(),
        }
    }
}

/// An answer on stdout. A reader that stops early, such as `head`, is no failure.
fn say(answer: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(answer.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::machine(format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

/// One JSON object on stdout.
fn say_json(value: &serde_json::Value) -> Result<(), Failure> {
    say(&format!("{value:#}\n"))
}

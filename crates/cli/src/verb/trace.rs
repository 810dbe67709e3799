//! `blocklab trace`: describe, convert and measure recorded traces.

mod convert;
mod info;
mod output;
mod record_stats;
mod source;

use study::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Describe a trace: requests, sizes, span, footprint, processes
    Info(info::Args),
    /// Write a trace in another text format, compressed by the name's end (.gz, .zst)
    Convert(convert::Args),
    /// Measure reuse, overwrites, arrivals and queue depths, as JSON
    RecordStats(record_stats::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.what {
            What::Info(args) => args.run(),
            What::Convert(args) => args.run(),
            What::RecordStats(args) => args.run(),
        }
    }
}

/// One JSON object on stdout.
fn print_json(value: &serde_json::Value) {
    println!("{value:#}");
}

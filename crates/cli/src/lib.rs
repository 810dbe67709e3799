//! The command line as a library: `run(argv) -> exit code`. One file per verb under `verb/`.
//!
//! Exit codes: 0 ok, 1 an expectation failed, 2 usage or bad input, 3 the machine lacks something.

mod answer;
mod progress;
mod python;
mod verb;

use std::ffi::OsString;

use clap::Parser;

/// A laboratory for Linux storage on flash.
#[derive(Parser)]
#[command(name = "blocklab", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    verb: verb::Verb,
}

/// Run one command line, program name first; returns the exit code.
pub fn run<I, T>(argv: I) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let arguments = match Arguments::try_parse_from(argv) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are answers, not errors; clap prints them on stdout.
            let _ = error.print();
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    match arguments.verb.run() {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

/// Print a line on stdout. Whoever closed it early, as `head` does, has seen enough.
pub(crate) fn say(line: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
}

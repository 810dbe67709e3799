//! The command line as a library: `run(argv) -> exit code`. One file per verb under `verb/`.
//!
//! With `--json` a failure is told twice: for people on stderr, as one object on stdout.
//! Exit codes: 0 ok, 1 an expectation failed, 2 usage or bad input, 3 the machine lacks something.

mod answer;
mod interrupt;
mod progress;
mod python;
mod verb;

use std::ffi::OsString;

use clap::Parser;
use study::Failure;

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
    let argv: Vec<OsString> = argv.into_iter().map(Into::into).collect();
    let json = argv.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let arguments = match Arguments::try_parse_from(argv) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are answers, not errors; clap prints them on stdout.
            let _ = error.print();
            if error.use_stderr() && json {
                let text = error.to_string();
                let message = text.lines().next().unwrap_or_default();
                say(Failure::input(message.trim_start_matches("error: ")).to_json());
            }
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    match arguments.verb.run() {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("{failure}");
            if json {
                say(failure.to_json());
            }
            failure.exit_code()
        }
    }
}

/// Print a line on stdout. Whoever closed it early, as `head` does, has seen enough.
pub(crate) fn say(line: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
}

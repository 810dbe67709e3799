//! The command line as a library: `run(argv) -> exit code`. One file per verb under `verb/`.
//!
//! With `--json` a failure is told twice: for people on stderr, as one object on stdout.
//! Exit codes: 0 ok, 1 an expectation failed, 2 usage or bad input, 3 the machine lacks something.

// What is told goes through `say` and `warn`: a closed terminal must not end the program.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod answer;
#[cfg(feature = "linux")]
mod binary;
mod interrupt;
#[cfg(test)]
#[path = "../tests/cli/paths.rs"]
mod paths;
mod progress;
mod python;
mod table;
mod verb;
mod write;

pub use verb::trace_table;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;

use clap::Parser;
use config::unwritten;
pub(crate) use config::{say, warn};
use sim::SnapshotError;
use study::Failure;

/// A laboratory for Linux storage on flash.
#[derive(Parser)]
#[command(name = "blocklab", version, long_version = version(), about)]
#[command(arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    verb: verb::Verb,
}

/// The version, the commit (of an optimised build), and the digest of all code that numbers
/// depend on.
fn version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let commit = option_env!("BLOCKLAB_COMMIT").map(|commit| format!("\ncommit {commit}"));
        let (version, commit) = (env!("CARGO_PKG_VERSION"), commit.unwrap_or_default());
        format!("{version}{commit}\nresults of code {}", study::CODE_VERSION)
    });
    &TEXT
}

/// All that the command line knows.
pub(crate) fn command() -> clap::Command {
    <Arguments as clap::CommandFactory>::command()
}

/// Be the binary `blocklab`: run the command line of this process; returns the exit code.
pub fn main() -> u8 {
    #[cfg(feature = "linux")]
    binary::runs();
    interrupt::outlive_file_limits();
    run(std::env::args_os())
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
        // Help and version are answers, not errors; clap prints them on stdout.
        Err(answer) if !answer.use_stderr() => {
            return match answer.print() {
                Err(why) if why.kind() != ErrorKind::BrokenPipe => {
                    let failure = not_whole(&why);
                    warn(&failure);
                    failure.exit_code()
                }
                _ => 0,
            };
        }
        Err(error) => {
            let _ = error.print();
            if json {
                let text = error.to_string();
                let message = text.lines().next().unwrap_or_default();
                say(Failure::input(message.trim_start_matches("error: ")).to_json());
            }
            return 2;
        }
    };
    let whole = |code| match unwritten() {
        Some(why) if code == 0 => Err(not_whole(&why)),
        _ => Ok(code),
    };
    match attempt(|| arguments.verb.run()).and_then(whole) {
        Ok(code) => code,
        Err(failure) => {
            warn(&failure);
            if json {
                say(failure.to_json());
            }
            failure.exit_code()
        }
    }
}

/// Standard output took a part of an answer.
fn not_whole(why: &dyn std::fmt::Display) -> Failure {
    Failure::machine(format!("standard output: {why}"))
        .help("what it has is not whole: make room and run the command again")
}

/// Run it. What finds that a saved drive is damaged or cannot be read, in the middle of its work,
/// unwinds to here.
fn attempt(verb: impl FnOnce() -> Result<u8, Failure>) -> Result<u8, Failure> {
    catch_unwind(AssertUnwindSafe(verb)).unwrap_or_else(|payload| {
        match payload.downcast::<SnapshotError>() {
            Ok(why) => Err(saved_drive(&why)
                .help("what was done since it was read is not in it: go on with a copy of before")),
            Err(other) => resume_unwind(other),
        }
    })
}

fn saved_drive(why: &SnapshotError) -> Failure {
    match why {
        SnapshotError::Damaged(why) => Failure::machine(format!("a saved drive is damaged: {why}"))
            .expected("a state that nothing writes to while it is in use"),
        SnapshotError::Unread(why) => Failure::machine(format!("a saved drive: {why}"))
            .expected("a file that can be read as long as it is in use"),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory, ValueHint};

    use super::{Arguments, paths};

    /// Without `--json`, and why.
    const EXCEPTIONS: [(&str, &str); 4] = [
        ("blocklab travel-guest", "the first process of a guest, which nobody calls"),
        ("blocklab travel-ack", "what stands in a guest as `blocklab-ack`, and says nothing"),
        ("blocklab completions", "a script for a shell"),
        ("blocklab man", "pages for people"),
    ];

    /// Names of all that does something, below `command` and itself, that `--json` is nothing to.
    fn without_json(command: &Command, above: &str) -> Vec<String> {
        let name = format!("{above}{}", command.get_name());
        let below = command.get_subcommands();
        let mut found: Vec<_> =
            below.flat_map(|verb| without_json(verb, &format!("{name} "))).collect();
        let json = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
        // What needs a verb of its own does nothing by itself.
        if !json && !command.is_subcommand_required_set() {
            found.push(name);
        }
        found
    }

    /// Each argument of a verb below `command` that is a path: the verb, and the argument's name.
    fn path_arguments(command: &Command, verb: &str) -> Vec<(String, String)> {
        let paths =
            command.get_arguments().filter(|one| one.get_value_hint() == ValueHint::AnyPath);
        let mut found: Vec<_> =
            paths.map(|one| (verb.to_string(), one.get_id().to_string())).collect();
        for below in command.get_subcommands() {
            let name = format!("{verb} {}", below.get_name());
            found.extend(path_arguments(below, name.trim()));
        }
        found
    }

    #[test]
    fn what_becomes_of_every_path_is_known() {
        let mut found = path_arguments(&Arguments::command(), "");
        let mut known: Vec<_> = paths::PATHS
            .iter()
            .map(|(verb, name, _)| (verb.to_string(), name.to_string()))
            .collect();
        found.sort();
        known.sort();
        assert_eq!(found, known, "tests/cli/paths.rs is a list of all of them");
    }

    #[test]
    fn every_verb_has_json() {
        let excepted = EXCEPTIONS.map(|(name, _)| name);
        assert_eq!(without_json(&Arguments::command(), ""), excepted);
        let planted = Command::new("a").subcommand_required(true).subcommand(Command::new("b"));
        assert_eq!(without_json(&planted, ""), ["a b"]);
    }
}

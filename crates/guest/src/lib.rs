//! What runs inside a guest, or on a machine that is to be measured: one static program of 1.3 MB
//! with a verb for each task, built by the build script of `boot`, which carries it.

// What is told goes through `tell` and `warn`: a closed terminal must not end the program.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

mod boot;
mod enter;
mod first_process;
mod lab;
mod policy;
mod read_ahead;
pub mod record;
mod suspend;
mod swap;
mod why;

pub use boot::RECORD_SERIAL;
pub use why::Why;

/// Bytes of a page.
const PAGE_BYTES: u64 = resume::PAGE_BYTES as u64;

/// What a verb is given and what it answers: its arguments, and the program's exit code.
type Verb = fn(&[String]) -> Result<u8, Why>;

/// The verbs, one file and one line each.
const VERBS: [(&str, &str, Verb); 10] = [
    ("boot", "of an initramfs: becomes the recorder of a root", |words| Ok(boot::run(words)?)),
    ("convert", "an image that a kernel made by itself, for the loader", suspend::convert_verb),
    ("cycles", "the processor's clock, which counts instructions where a machine does", lab::count),
    ("enter", "becomes the init of a root, as process 1 of a namespace", |words| {
        Ok(enter::run(words)?)
    }),
    ("lab-program", "a program that `snapshot-lab` starts", |words| Ok(lab::app::verb(words)?)),
    ("mark", "tells a recorder what is reached", |words| Ok(record::mark(words)?)),
    ("read-ahead", "reads the files of a list", |words| Ok(read_ahead::run(words)?)),
    ("record", "starts an init and records who waits for what", |words| Ok(record::run(words)?)),
    ("suspend", "the machine into an image that the loader resumes", suspend::verb),
    (
        "snapshot-lab",
        "as the first process: suspend, and show that what comes back is what was",
        |words| Ok(lab::verb(words)?),
    ),
];

/// Run the verb that `arguments` begin with; 2 for bad input, 3 for what the machine does not do.
pub fn run(arguments: &[String]) -> u8 {
    let (verb, rest) = arguments.split_first().map_or(("", arguments), |(v, rest)| (v, rest));
    let Some((_, _, verb)) = VERBS.iter().find(|(name, ..)| *name == verb) else {
        let known = VERBS.map(|(name, does, _)| format!("  {name}  {does}")).join("\n");
        warn(format!("blocklab-guest: no verb `{verb}`; it knows\n{known}"));
        return 2;
    };
    verb(rest).unwrap_or_else(|why| {
        warn(format!("error: {why}"));
        why.code()
    })
}

/// Tell people. Where nobody listens any more, as after a resume whose session is gone, what is to
/// be done is done all the same: `println!` would end the program.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The same of what went wrong.
pub(crate) fn warn(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The processor's clock, which counts instructions where a machine runs by them.
pub(crate) fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Does this policy of which pages leave memory have to know what earlier resumes touched?
///
/// # Errors
/// When there is no such policy: what is wrong with `text`, and what was expected.
pub fn policy_learns(text: &str) -> Result<bool, String> {
    policy::find(text).map(|policy| policy.learns())
}

/// Make an image of ours in `target` of the one that a kernel made by itself in `swap`; `disks` are
/// the others of its machine. `target` was prepared by `suspend --prepare` on that machine. Returns
/// what is in it, as `name=number` pairs.
///
/// # Errors
/// What is wrong with either of them.
pub fn convert(swap: &Path, target: &Path, disks: &[PathBuf]) -> Result<String, Why> {
    suspend::convert(swap, target, disks).map(|report| report.to_string())
}

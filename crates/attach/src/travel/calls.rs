//! System calls of a program in a guest, by strace: it costs no virtual time, for code is free.

use std::path::Path;

use sim::Nanos;
use study::Failure;

use super::calendar::TIME_OF_DAY_NS;
use super::file_system::find_program;
use super::{inside, plan};

/// Those that make something durable, or visible under another name.
const TRACED: &str = "trace=fsync,fdatasync,sync,syncfs,sync_file_range,msync,rename,renameat,\
                      renameat2,link,linkat,unlink,unlinkat,truncate,ftruncate";

/// A call that took less is told once.
const SHORT_NS: u64 = 1_000;

/// A system call began, or returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) at: Nanos,
    /// With the process's number in front.
    pub(crate) text: String,
}

/// `command` under strace, which writes where `plan::CALLS` says.
///
/// # Errors
/// When there is no strace.
pub(crate) fn traced(command: Vec<String>) -> Result<Vec<String>, Failure> {
    let strace = find_program("strace", Path::new("/")).ok_or_else(|| {
        Failure::machine("strace is not installed; the guest has this machine's files")
            .help("sudo apt-get install strace")
    })?;
    let output = format!("{}/{}", inside::CONTROL, plan::CALLS);
    let strace = strace.display().to_string();
    let own = [
        &strace,
        "-f",
        "-qq",
        "-y",
        "--seccomp-bpf",
        "-e",
        TRACED,
        "-e",
        "signal=none",
        "--absolute-timestamps=format:unix,precision:ns",
        "--syscall-times=ns",
        "-o",
        &output,
        "--",
    ];
    Ok(own.into_iter().map(String::from).chain(command).collect())
}

/// What strace wrote, oldest first. Lines that are no system call are left out.
pub(crate) fn parse(text: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = text.lines().filter_map(line).flatten().collect();
    calls.sort_by_key(|call| call.at);
    calls
}

/// `PROCESS SECONDS.NANOSECONDS CALL(...) = RESULT <SECONDS>`: one that took time began, too.
fn line(line: &str) -> Option<impl Iterator<Item = Call> + use<>> {
    let (process, rest) = line.trim().split_once(' ')?;
    let (at, text) = rest.trim_start().split_once(' ')?;
    let at = nanos(at)?.checked_sub(TIME_OF_DAY_NS)?;
    if text.starts_with("+++") || text.starts_with("---") {
        return None;
    }
    let call = |at: u64, text: &str| Call { at: Nanos(at), text: format!("[{process}] {text}") };
    let resumed = text.starts_with("<...");
    let timed = text.strip_suffix('>').and_then(|text| text.rsplit_once(" <"));
    let timed = timed.and_then(|(text, took)| Some((text, nanos(took)?)));
    let both = match timed {
        None => [Some(call(at, text)), None],
        // The moment of a call that was resumed is that of its return.
        Some((text, took)) if resumed || took < SHORT_NS => [Some(call(at, text)), None],
        Some((text, took)) => {
            let began = text.rsplit_once(" = ").map_or(text, |(call, _)| call.trim_end());
            [Some(call(at, began)), Some(call(at.checked_add(took)?, text))]
        }
    };
    Some(both.into_iter().flatten())
}

/// `SECONDS.NANOSECONDS`.
fn nanos(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let fraction = (fraction.len() == 9).then_some(fraction)?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_begin_and_return() {
        let text = "35    1767225602.885010123 fsync(3</mnt/t>) = 0 <0.004667000>\n\
                    36    1767225602.889703000 rename(\"t\", \"a\")   = 0 <0.000000512>\n\
                    7 1767225602.100000000 sync( <unfinished ...>\n\
                    7 1767225602.200000000 <... sync resumed>) = 0 <0.100000000>\n\
                    35 1767225602.889678000 +++ exited with 0 +++\n\
                    what is this\n1 2\n\n1 1.5 sync() = 0 <0.1>\n";
        let calls: Vec<(u64, String)> =
            parse(text).into_iter().map(|call| (call.at.0, call.text)).collect();
        let wanted = [
            (2_100_000_000, "[7] sync( <unfinished ...>"),
            (2_200_000_000, "[7] <... sync resumed>) = 0"),
            (2_885_010_123, "[35] fsync(3</mnt/t>)"),
            (2_889_677_123, "[35] fsync(3</mnt/t>) = 0"),
            (2_889_703_000, "[36] rename(\"t\", \"a\")   = 0"),
        ];
        assert_eq!(calls, wanted.map(|(at, text)| (at, text.to_string())));
        assert_eq!(parse("1 18446744073709551615.999999999 sync() = 0 <0.000000001>"), []);
    }
}

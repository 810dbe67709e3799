//! fio, one load at a time.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use serde_json::Value;
use study::Failure;

use super::plan::{Job, Length, RAMP_SECONDS};
use super::target::Target;
use crate::interrupt;
use workload::fio::SYNCHRONOUS;

pub(super) struct Fio {
    path: PathBuf,
    engine: String,
    runtime: u32,
}

/// One call of fio.
pub(super) struct Call<'a> {
    pub(super) job: &'a Job,
    /// Of the job, or of its round: it also says which addresses are random.
    pub(super) name: &'a str,
    /// Of the drive.
    pub(super) capacity: u64,
    /// Requests a second of steady state.
    pub(super) rate: Option<f64>,
}

/// What helps where a kernel has no io_uring for its user.
const OTHER_ENGINES: &str = "--engine libaio or posixaio, if this kernel has no io_uring for you";

impl Fio {
    /// # Errors
    /// There is no fio.
    pub(super) fn new(path: &Path, engine: &str, runtime: u32) -> Result<Fio, Failure> {
        if SYNCHRONOUS.contains(&engine) {
            let message = format!("--engine {engine} asks for one thing after the other");
            return Err(Failure::input(message)
                .expected("an engine that has as many requests under way as a load wants")
                .help(OTHER_ENGINES));
        }
        let works = Command::new(path).arg("--version").stdin(Stdio::null()).output();
        if !works.as_ref().is_ok_and(|out| out.stdout.starts_with(b"fio-")) {
            return Err(Failure::machine(format!("{}: fio is not here", path.display()))
                .help("apt install fio, or --fio PATH"));
        }
        let about = format!("--enghelp={engine}");
        let about = Command::new(path).arg(about).stdin(Stdio::null()).output();
        if about.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("not found")) {
            return Err(Failure::input(format!(
                "--engine {engine}: this fio has none of that name"
            ))
            .expected("one that `fio --enghelp` lists")
            .help(OTHER_ENGINES));
        }
        Ok(Fio { path: path.to_path_buf(), engine: engine.to_string(), runtime })
    }

    /// fio's output.
    ///
    /// # Errors
    /// What fio says; that it was interrupted.
    pub(super) fn run(&self, target: &Target, call: &Call) -> Result<String, Failure> {
        let job = call.job;
        let mut command = Command::new(&self.path);
        command.args(["--output-format=json", "--thread", "--norandommap"]);
        // Left to repeat them, fio takes no seed, and one that writes more than a drive holds the
        // same addresses again.
        command.arg("--randrepeat=0").arg(format!("--randseed={}", seed(call.name)));
        command.args(["--direct=1", "--group_reporting"]).arg(format!("--name={}", job.name));
        match target.is_nbd {
            true => command.arg("--ioengine=nbd").arg(format!("--uri={}", target.name)),
            // A colon parts names for fio.
            false => command
                .arg(format!("--ioengine={}", self.engine))
                .arg(format!("--filename={}", target.name.replace(':', "\\:"))),
        };
        if !job.writes {
            command.arg("--readonly");
        }
        // Left to itself fio asks the processor for the time, where that can be trusted.
        if in_virtual_time() {
            command.arg("--clocksource=clock_gettime");
        }
        command.args(job.options.iter().map(|option| format!("--{option}")));
        match &job.length {
            Length::Whole => {}
            Length::Time => {
                command.arg("--time_based").arg(format!("--runtime={}", self.runtime));
                command.arg(format!("--ramp_time={RAMP_SECONDS}"));
            }
            Length::Share(share) => {
                command.arg(format!("--io_size={}", share.bytes(call.capacity)));
                command.arg(format!("--runtime={}", share.seconds));
            }
        }
        if let (Some(percent), Some(rate)) = (job.load, call.rate) {
            let offered = (rate * f64::from(percent) / 100.0).max(1.0);
            command.arg(format!("--rate_iops={offered:.0}")).arg("--rate_process=poisson");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        attach::dies_with_us(&mut command);
        let child = command.spawn().map_err(|why| Failure::machine(format!("fio: {why}")))?;
        let help =
            if target.is_nbd { "does the server still answer there?" } else { OTHER_ENGINES };
        output(child, &job.name).map_err(|why| match why.kind {
            study::Kind::Interrupted => why,
            _ => why.help(help),
        })
    }
}

/// Another one for each name: what was read or written before, in the order of then, is the one
/// thing that a cache or a collector has an easy time with.
fn seed(name: &str) -> u32 {
    // FNV-1a.
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Wait for it, and end it if we are to end.
fn output(mut child: Child, name: &str) -> Result<String, Failure> {
    fn collect(from: Option<impl Read>) -> String {
        let mut bytes = Vec::new();
        // What could not be read is missing below.
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
    let signal = AtomicI32::new(0);
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (status, out, err) = std::thread::scope(|scope| {
        let out = scope.spawn(|| collect(out));
        let err = scope.spawn(|| collect(err));
        let status = interrupt::during(
            |number| signal.store(number, Ordering::Relaxed),
            || loop {
                if signal.load(Ordering::Relaxed) != 0 {
                    // It may have ended by itself.
                    let _ = child.kill();
                }
                match child.try_wait() {
                    Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                    Ok(Some(status)) => break Ok(status),
                    Err(why) => break Err(Failure::machine(format!("fio: {why}"))),
                }
            },
        );
        (status, out.join().unwrap_or_default(), err.join().unwrap_or_default())
    });
    if let number @ 1.. = signal.load(Ordering::Relaxed) {
        interrupt::end_by(number);
        return Err(Failure::machine("interrupted; the same command goes on"));
    }
    let status = status?;
    let said = |what: &str| {
        let line =
            err.lines().chain(out.lines()).find(|line| line.contains("fio")).unwrap_or_default();
        Err(Failure::machine(format!("fio, {name}: {what}: {line}")))
    };
    if !status.success() {
        return said(&format!("it ended with {status}"));
    }
    // Warnings may stand before it.
    let begin = out.find('{').unwrap_or(out.len());
    match iops(&out[begin..]) {
        Some(rate) if rate > 0.0 => Ok(out[begin..].to_string()),
        Some(_) => said("nothing was completed"),
        None => said("what it wrote is not its JSON"),
    }
}

/// Requests a second of fio's output.
pub(super) fn iops(text: &str) -> Option<f64> {
    let whole: Value = serde_json::from_str(text).ok()?;
    let job = whole.get("jobs")?.get(0)?;
    let of = |way: &str| job.get(way).and_then(|way| way.get("iops")).and_then(Value::as_f64);
    Some(["read", "write", "trim"].iter().filter_map(|way| of(way)).sum())
}

/// Bytes that were written, of fio's output.
pub(super) fn written(text: &str) -> Option<u64> {
    let whole: Value = serde_json::from_str(text).ok()?;
    whole.get("jobs")?.get(0)?.get("write")?.get("io_bytes")?.as_u64()
}

/// Whether this is a guest of `blocklab travel`, in which the processor's own clock stands still.
fn in_virtual_time() -> bool {
    let words = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    words.split_whitespace().any(|word| word.starts_with("time-travel"))
}

//! `blocklab travel`: a real Linux kernel in virtual time on modelled devices.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time;

use attach::DeviceOptions;
use attach::travel::{FILE_SYSTEMS, MEMORY_MIN_MIB, Options, Outcome, SCHEDULERS, Settings, Timed};
use config::{Duration, Size};
use sim::Bytes;
use study::Failure;

use super::kernel;
use super::results::{Results, check_data};

/// How long standard input may take before somebody is told.
const WAITS_QUIETLY: time::Duration = time::Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Part files, or names of shipped parts (`blocklab list parts`): /dev/vda, /dev/vdb, ...
    #[arg(value_name = "PART", required = true)]
    parts: Vec<String>,
    /// Change a key of every part, such as ssd.gc=greedy, or of its elevator, such as
    /// elevator.policy.cfq.quantum=8; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// A User-Mode Linux with time travel [default: the one `blocklab kernel build` made]
    #[arg(long, value_name = "PATH")]
    kernel: Option<PathBuf>,
    /// The guest's memory
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    mem: String,
    /// Charge code the time of this host's processor: a profile that is shipped (`blocklab list
    /// hosts`), or a file of `blocklab host measure`; none: code is free
    #[arg(long, value_name = "PROFILE", default_value = study::host::NONE)]
    host: String,
    /// Charge what the program itself computes between two of its system calls, on average, beside
    /// the host's code: its user time on the host by its number of calls (435ns)
    #[arg(long, value_name = "TIME")]
    between_calls: Option<String>,
    /// The I/O scheduler of every device [default: the kernel's]
    #[arg(long, value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(SCHEDULERS))]
    sched: Option<String>,
    /// Put an elevator of this policy before every part and let the kernel have no scheduler: noop,
    /// deadline, anticipatory, cfq, none, mq-deadline, kyber or bfq
    #[arg(long, value_name = "NAME", conflicts_with = "sched")]
    elevator: Option<String>,
    /// Read-ahead of the page cache [default: the kernel's, 128]
    #[arg(long, value_name = "KIB")]
    read_ahead: Option<u32>,
    /// Switch the devices' write cache [default: as the part says]
    #[arg(long, value_name = "HOW", value_parser = ["write-back", "write-through"])]
    cache: Option<String>,
    /// Make this file system on the first device, mount it on /mnt, and run CMD there
    #[arg(long, value_name = "FS",
          value_parser = clap::builder::PossibleValuesParser::new(FILE_SYSTEMS))]
    mkfs: Option<String>,
    /// Keep the data in this sparse file, and the device's state in FILE.state; once for each part,
    /// in their order, and none for the last ones: their data goes with the session
    /// [default: without a name, below TMPDIR or /var/tmp]
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,
    /// End a guest whose data takes more of this machine's disk; of each device that has no --data
    #[arg(long, value_name = "SIZE", default_value = "16GiB")]
    data_limit: String,
    /// Begin with drives of which every sector was written once
    #[arg(long)]
    fill: bool,
    /// Root of the device's random streams and of the guest's random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End a guest that is not done after so much virtual time
    #[arg(long, value_name = "TIME", default_value = "720h")]
    limit: String,
    /// End a guest that computes for so much of this machine's processor time while virtual time
    /// stands still
    #[arg(long, value_name = "TIME", default_value = "10min")]
    compute_limit: String,
    /// Write every request of the first device to a trace that `blocklab run` can replay
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write what the first device's queue was given, above the scheduler, to such a trace
    #[arg(long, value_name = "FILE")]
    record_queue: Option<PathBuf>,
    /// Let a drive fail while the program runs, such as 'error op=write at=2s for=100ms' or 'slow
    /// by=5ms one-in=100 disk=vdb'; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<String>,
    /// Where the measurements go
    #[arg(long, value_name = "DIR", default_value = "out/travel")]
    out: PathBuf,
    /// One JSON object on stdout at the end
    #[arg(long)]
    json: bool,
    /// The program to run in the guest, and its arguments
    #[arg(value_name = "CMD", required = true, last = true)]
    command: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let others = [
            ("--record", self.record.as_slice()),
            ("--record-queue", self.record_queue.as_slice()),
            ("--data", &self.data),
        ];
        let results = Results::prepare(&self.out, "travel.json", self.json, &others)?;
        let outcome = self.travel()?;
        results.write(&outcome.report, &outcome.report.lines())?;
        Ok(outcome.code)
    }

    fn travel(self) -> Result<Outcome, Failure> {
        check_data(&self.data, &self.parts)?;
        let memory_mib = memory(&self.mem)?;
        let time = |option: &str, text: &str| {
            Duration::parse(text).map_err(|why| {
                Failure::input(format!("{option} {text}: {why}"))
                    .expected("a time such as 435ns, 90s, 5min or 24h")
            })
        };
        let limit = time("--limit", &self.limit)?;
        let compute_limit = time("--compute-limit", &self.compute_limit)?;
        let between_calls = self.between_calls.as_deref();
        let between_calls = between_calls.map(|text| time("--between-calls", text)).transpose()?;
        let data_limit = data_limit(&self.data_limit)?;
        let mut devices = Vec::new();
        let mut data = self.data.into_iter();
        let elevator = self.elevator.as_deref();
        // In a kernel what was joined waits in few requests. Here each bio has to be taken, as many
        // as a guest can have on their way.
        let room = elevator.map(|_| format!("elevator.queue_depth_max={}", study::BIOS_MAX));
        let sets: Vec<String> = room.into_iter().chain(self.sets).collect();
        for (text, letter) in self.parts.iter().zip('a'..='z') {
            let part = study::build_part_behind(elevator, text, &sets, self.seed)?;
            let (name, data) = (format!("vd{letter}"), data.next());
            devices.push(DeviceOptions { name, part, data, start: None });
        }
        let options = Options {
            kernel: kernel::find(self.kernel)?,
            program: crate::binary::find()?,
            memory_mib,
            scheduler: self.sched,
            read_ahead_kib: self.read_ahead,
            write_back: self.cache.map(|how| how == "write-back"),
            mkfs: self.mkfs,
            fill: self.fill,
            seed: self.seed,
            limit: limit.0,
            compute_limit,
            data_limit,
            record: self.record,
            record_queue: self.record_queue,
            command: self.command,
            input: input()?,
            host: study::host::with_program(study::host(&self.host)?, between_calls)?,
            faults: faults(&self.faults)?,
            settings: Settings::default(),
        };
        attach::travel::travel(devices, options)
    }
}

/// What `--fault` says.
pub(super) fn faults(texts: &[String]) -> Result<Vec<Timed>, Failure> {
    let parsed = texts.iter().map(|text| {
        Timed::parse(text).map_err(|why| {
            Failure::input(format!("--fault '{text}': {why}"))
                .expected("such as 'error op=write at=2s for=100ms'")
                .help("docs/travel.md, Faults, has all of it")
        })
    });
    parsed.collect()
}

/// What the program is to read: all of standard input, because virtual time cannot wait for
/// somebody who types or for another program.
fn input() -> Result<Vec<u8>, Failure> {
    let mut input = std::io::stdin();
    let mut content = Vec::new();
    if input.is_terminal() {
        return Ok(content);
    }
    let (done, waits) = std::sync::mpsc::channel::<()>();
    let notice = std::thread::spawn(move || {
        if waits.recv_timeout(WAITS_QUIETLY) == Err(RecvTimeoutError::Timeout) {
            crate::warn("reading standard input to its end; `< /dev/null` gives the command none");
        }
    });
    let read = input.read_to_end(&mut content);
    drop(done);
    let _ = notice.join();
    match read {
        Ok(_) => Ok(content),
        Err(why) => Err(Failure::machine(format!("cannot read standard input: {why}"))
            .help("`< /dev/null` gives the command none")),
    }
}

pub(super) fn data_limit(text: &str) -> Result<Bytes, Failure> {
    let limit = Size::parse(text).map_err(|why| {
        Failure::input(format!("--data-limit {text}: {why}"))
            .expected("a size such as 500MiB or 64GiB")
    })?;
    Ok(limit.0)
}

/// 256M and 256MiB are the same here, as they are to the kernel.
pub(super) fn memory(text: &str) -> Result<u64, Failure> {
    let number = text.strip_suffix(['M', 'G']).unwrap_or("");
    let mib = match number.parse::<u64>() {
        Ok(value) if text.ends_with('G') => value.checked_mul(1024),
        Ok(value) => Some(value),
        Err(_) => Size::parse(text).ok().map(|size| size.0.0 >> 20),
    };
    match mib.filter(|&mib| mib >= MEMORY_MIN_MIB) {
        Some(mib) => Ok(mib),
        None => Err(Failure::input(format!("--mem {text}"))
            .expected(format!("a size from {MEMORY_MIN_MIB}M on, such as 256M or 1G"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_the_kernel_reads_it() {
        assert_eq!(memory("256M").unwrap(), 256);
        assert_eq!(memory("1G").unwrap(), 1024);
        assert_eq!(memory("512MiB").unwrap(), 512);
        for wrong in ["32M", "much", "", "G"] {
            assert!(memory(wrong).unwrap_err().expected.unwrap().contains("64M"), "{wrong}");
        }
    }
}

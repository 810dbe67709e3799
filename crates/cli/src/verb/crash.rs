//! `blocklab crash`: cut the power under a real kernel at many moments, and look at what is left.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{self, Instant};

use attach::crash::{Cuts, Media, Options, Progress, Report, Sweep};
use attach::travel::{self, Settings};
use config::{Duration, quoted};
use study::Failure;

use super::kernel;
use super::results::Results;
use super::travel::{data_limit, faults, memory};
use crate::interrupt;

/// Without a number: cuts.
const CUTS: usize = 100;
/// Progress is told this often.
const LINE_EVERY: time::Duration = time::Duration::from_secs(15);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The drive: a part file, or the name of a shipped part (`blocklab list parts`)
    #[arg(long, value_name = "PART")]
    part: String,
    /// Change a key of the part, such as ssd.buffer.power_loss_protection=true; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Make this file system and run CMD in it, on /mnt: ext2, ext3, ext4, xfs, btrfs
    #[arg(long, value_name = "FS")]
    mkfs: Option<String>,
    /// Options of mkfs, separated by blanks
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        allow_hyphen_values = true,
        requires = "mkfs"
    )]
    mkfs_options: String,
    /// Options of the mount, separated by commas, such as nobarrier
    #[arg(long, value_name = "OPTIONS", default_value = "", requires = "mkfs")]
    mount_options: String,
    /// So many cuts, spread over the moments at which something changes [default: 100]
    #[arg(long, value_name = "N", group = "when",
          value_parser = clap::value_parser!(u32).range(1..))]
    cuts: Option<u32>,
    /// A cut in every such stretch of virtual time
    #[arg(long, value_name = "TIME", group = "when")]
    every: Option<String>,
    /// Cuts when a flush comes, and just before and when it is done
    #[arg(long, group = "when")]
    at_flush: bool,
    /// One cut, at this moment of virtual time
    #[arg(long, value_name = "TIME", group = "when")]
    at: Option<String>,
    /// Look not at what the drive's model leaves, but at N of the subsets of unsafe writes (whole,
    /// torn, lost) that the contract of flush and FUA allows at each cut
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    subsets: Option<u32>,
    /// Of these subsets the one with this number
    #[arg(long, value_name = "NUMBER", requires = "at", conflicts_with = "subsets")]
    subset: Option<u32>,
    /// Let the kernel die, not the power: the drive does all that it was asked
    #[arg(long, conflicts_with_all = ["subsets", "subset"])]
    panic: bool,
    /// Let the drive fail while the command runs, as `blocklab travel --fault` does, not while
    /// somebody looks at what is left; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<String>,
    /// What looks at what is left, a line for the shell; fails when something is missing. What was
    /// acknowledged before the cut is in the file $BLOCKLAB_ACKS, a line each
    #[arg(long, value_name = "CMD")]
    check: Option<String>,
    /// Trace the command's system calls that sync, rename and remove (by strace), for the time line
    #[arg(long)]
    calls: bool,
    /// Guests at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    guests: Option<u32>,
    /// A User-Mode Linux with time travel [default: the one `blocklab kernel build` made]
    #[arg(long, value_name = "PATH")]
    kernel: Option<PathBuf>,
    /// The guests' memory
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    mem: String,
    /// Charge code the time of this host's processor: a profile that is shipped (`blocklab list
    /// hosts`), or a file of `blocklab host measure`; none: code is free
    #[arg(long, value_name = "PROFILE", default_value = study::host::NONE)]
    host: String,
    /// Root of the device's random streams and of the guests' random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End a guest that is not done after so much virtual time
    #[arg(long, value_name = "TIME", default_value = "24h")]
    limit: String,
    /// End a guest that computes for so much of this machine's processor time while virtual time
    /// stands still
    #[arg(long, value_name = "TIME", default_value = "10min")]
    compute_limit: String,
    /// Give up when a guest looks at a cut for more of this machine's time
    #[arg(long, value_name = "TIME", default_value = "1h")]
    wall_limit: String,
    /// End a guest whose data takes more of this machine's disk
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    data_limit: String,
    /// Where the table of all cuts goes
    #[arg(long, value_name = "DIR", default_value = "out/crash")]
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
        let results = Results::prepare(&self.out, "crash.json", self.json, &[])?;
        let asked = self.cuts;
        let options = self.options()?;
        let progress = Progress::default();
        let stop = |_| progress.stopped.store(true, Ordering::Relaxed);
        let Sweep { report, ended, .. } = interrupt::during(stop, || {
            told(&progress, || attach::crash::crash(options, &progress))
        })?;
        let mut lines = report.lines();
        lines.push(format!(
            "slowest medium {:.1} ms of processor time",
            report.build_ns_max as f64 / 1e6
        ));
        let all_looked_at = report.ended_early.is_none();
        if all_looked_at && asked.is_some_and(|asked| report.moments() < asked as usize) {
            lines.push("there are no more moments at which a cut leaves something else".into());
        }
        lines.extend(repeat(&report));
        results.write(&report, &lines)?;
        ended.map_or(Ok(()), Err)?;
        Ok(u8::from(report.first_failure().is_some()))
    }

    fn options(self) -> Result<Options, Failure> {
        let cuts = self.cuts()?;
        let part = study::build_part_behind(None, &self.part, &self.sets, self.seed)?;
        let data_limit = data_limit(&self.data_limit)?;
        let limit = time("--limit", &self.limit)?;
        let compute_limit = time("--compute-limit", &self.compute_limit)?;
        let wall_limit = time("--wall-limit", &self.wall_limit)?;
        let media = match (self.subsets, self.subset) {
            (Some(count), _) => Media::Subsets(count),
            (None, Some(number)) => Media::Subset(number),
            (None, None) if self.panic => Media::Panicked,
            (None, None) => Media::Modelled,
        };
        let program = crate::binary::find;
        let usual = travel::Options::new(kernel::find(self.kernel)?, program()?, self.command);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Options {
            part,
            start: None,
            cuts,
            media,
            check: self.check,
            calls: self.calls,
            wall_limit: time::Duration::from_nanos(wall_limit.0.0),
            guests: self.guests.map_or(cores, |number| number as usize),
            travel: travel::Options {
                memory_mib: memory(&self.mem)?,
                mkfs: self.mkfs,
                seed: self.seed,
                limit: limit.0,
                compute_limit,
                data_limit,
                host: study::host(&self.host)?,
                faults: faults(&self.faults)?,
                settings: Settings {
                    mkfs_options: self.mkfs_options.split_whitespace().map(String::from).collect(),
                    mount_options: self.mount_options,
                    ..Settings::default()
                },
                ..usual
            },
        })
    }

    fn cuts(&self) -> Result<Cuts, Failure> {
        if let Some(text) = &self.every {
            let every = time("--every", text)?.0;
            return match every.0 {
                0 => Err(Failure::input("--every 0: no time passes").expected("such as 1ms")),
                _ => Ok(Cuts::Every(every)),
            };
        }
        if let Some(text) = &self.at {
            return Ok(Cuts::At(time("--at", text)?.0));
        }
        let number = self.cuts.map_or(CUTS, |number| number as usize);
        Ok(if self.at_flush { Cuts::AtFlush } else { Cuts::Number(number) })
    }
}

fn time(option: &str, text: &str) -> Result<Duration, Failure> {
    Duration::parse(text).map_err(|why| {
        Failure::input(format!("{option} {text}: {why}"))
            .expected("a time such as 90s, 5min or 1234567ns")
    })
}

/// The command that repeats the first failure: this one, with its cut alone.
fn repeat(report: &Report) -> Option<String> {
    let failure = report.first_failure()?;
    let mut words: Vec<String> = std::env::args().collect();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut index = 1;
    let mut end_now = end;
    while index < end_now {
        let word = words[index].clone();
        const REPLACED: [&str; 5] = ["--cuts", "--every", "--at", "--subsets", "--subset"];
        let takes_next = REPLACED.contains(&word.as_str());
        let joined = word.split_once('=').is_some_and(|(name, _)| REPLACED.contains(&name));
        let drop = if takes_next { 2 } else { usize::from(joined || word == "--at-flush") };
        words.drain(index..(index + drop).min(end_now));
        end_now -= drop.min(end_now - index);
        index += usize::from(drop == 0);
    }
    words.insert(end_now, format!("--at={}ns", failure.at_ns));
    if let Some(number) = failure.subset {
        words.insert(end_now + 1, format!("--subset={number}"));
    }
    words[0] = "blocklab".into();
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    Some(format!("again: {}", words.join(" ")))
}

/// Tell how far `work` is while it is done.
fn told<T>(progress: &Progress, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (stop, stopped) = channel::<()>();
        scope.spawn(move || {
            let every = if std::io::stderr().is_terminal() { LINE_EVERY / 15 } else { LINE_EVERY };
            let mut began = None;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
                let done = progress.done.load(Ordering::Relaxed);
                let all = progress.all.load(Ordering::Relaxed);
                if all == 0 {
                    crate::warn("the command runs");
                    continue;
                }
                let (since, before) = *began.get_or_insert((Instant::now(), done));
                let pace =
                    since.elapsed().as_secs_f64() / done.saturating_sub(before).max(1) as f64;
                let left = (all - done.min(all)) as f64 * pace;
                let left =
                    if done > before { format!(", {left:.0} s left") } else { String::new() };
                crate::warn(format!("{done}/{all} cuts{left}"));
            }
        });
        let _stop = stop; // dropped when the work is done, or panics
        work()
    })
}

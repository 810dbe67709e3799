//! A distribution's boot on a modelled device, in virtual time, recorded.

use std::path::{Path, PathBuf};

use attach::travel::{self, Disk, Options, Report};
use config::{Duration, Failure};
use sim::Nanos;
use study::HostProfile;

use super::record::{Record, Travelled};
use crate::GUEST_PROGRAM;

/// The usual file system of a root.
pub const FILE_SYSTEM: &str = "ext4";
/// Unpack the tar file `$0`. A machine without a number would be set up at its first boot; files
/// that nobody has read since have the time 0.
const UNPACK: &str = "tar --numeric-owner -xpf \"$0\" && \
                      echo 0123456789abcdef0123456789abcdef > etc/machine-id && \
                      find . -xdev -type f -exec touch -a -d @0 {} +";
/// Take the guest's program of `$0` bytes and a list of files from standard input, into memory, and
/// run it.
const RUN: &str = "cd / && head -c $0 > run/blocklab-guest && cat > run/files && \
                   chmod +x run/blocklab-guest && exec run/blocklab-guest \"$@\"";
/// Longest name of a unit.
const UNIT_BYTES_MAX: usize = 200;

/// What to boot, and how.
#[derive(Clone)]
pub struct Boot {
    /// The device: a part.
    pub device: String,
    /// The tar file of the root.
    pub root: PathBuf,
    /// The file system that it is unpacked into.
    pub file_system: String,
    /// The I/O scheduler; `None` for the kernel's choice.
    pub scheduler: Option<String>,
    /// Read-ahead of the page cache; `None` for the kernel's choice.
    pub read_ahead_kib: Option<u32>,
    /// Requests that the device may be given at a time; `None` for as many as it takes.
    pub queue_depth: Option<u32>,
    /// Units that are not started.
    pub mask: Vec<String>,
    /// Until this unit of systemd is active.
    pub until: String,
    /// Virtual time that it may take.
    pub limit: Duration,
    /// What code is charged as; `None`: it is free.
    pub host: Option<HostProfile>,
    /// The guest's memory.
    pub memory_mib: u64,
    /// How often to look what every process used, for pictures; `None` for never.
    pub slice: Option<Duration>,
    /// How often to read every process's stat, as the paper does; `None` for never.
    pub sample: Option<Duration>,
    /// Find out which files are read; it makes the kernel write down when.
    pub files: bool,
    /// A program reads these first.
    pub read_ahead: Vec<String>,
    /// Keep what was asked of the device, by whom and after what, in this new file.
    pub queue: Option<PathBuf>,
    /// Root of the device's random streams and of the guest's random numbers.
    pub seed: u64,
    /// The guest's kernel.
    pub kernel: PathBuf,
    /// The guest's first process.
    pub program: PathBuf,
}

/// What came of it.
pub struct Booted {
    /// The record, as it is kept.
    pub text: String,
    /// The same, read.
    pub record: Record,
    /// What was measured of the device.
    pub report: Report,
}

/// Prepare the disk, boot, and record.
///
/// # Errors
/// When the unit is not reached, or something of the machine or of the input does not fit.
pub fn record(boot: &Boot) -> Result<Booted, Failure> {
    let part = || study::build_part(&boot.device, &[], boot.seed);
    let root = boot.root.display().to_string();
    let mut unpack = boot.options(["/bin/sh", "-c", UNPACK, &root].map(String::from).into());
    unpack.mkfs = Some(boot.file_system.clone());
    if boot.file_system == FILE_SYSTEM {
        // Otherwise the kernel goes on making the file system while the root boots.
        let at_once = ["-E", "lazy_itable_init=0,lazy_journal_init=0"];
        unpack.settings.mkfs_options = at_once.map(String::from).into();
    }
    let disk = Disk::prepared(part()?, unpack)?;

    let mut options = boot.options(boot.command());
    options.input = GUEST_PROGRAM.to_vec();
    options.input.extend(boot.read_ahead.iter().flat_map(|path| format!("{path}\n").into_bytes()));
    if boot.files {
        options.settings.mount_options = "strictatime".into();
    }
    options.host.clone_from(&boot.host);
    options.record_queue.clone_from(&boot.queue);
    options.settings.mount = Some(boot.file_system.clone());
    options.scheduler.clone_from(&boot.scheduler);
    options.read_ahead_kib = boot.read_ahead_kib;
    options.settings.queue_depth = boot.queue_depth;
    // Delays of the kernel's own threads, too, and all to the nanosecond.
    options.settings.kernel_words = ["delayacct", "host.clock=1"].map(String::from).into();
    let heard = disk.travel(part()?, options)?;
    if heard.code == travel::INTERRUPTED {
        return Err(Failure::interrupted());
    }
    if heard.code != 0 {
        let [_, complaints] = &heard.said;
        return Err(Failure::machine(format!("nothing was recorded: {}", complaints.trim())));
    }
    let travelled = Travelled::of(&heard.report);
    let line = serde_json::to_string(&serde_json::json!({ "travelled": travelled }))
        .map_err(|why| Failure::bug(why.to_string()))?;
    // What waits for the recorder hears an empty line first.
    let text = format!("{}\n{line}\n", heard.said[0].trim());
    let record = Record::parse(&text)
        .map_err(|why| Failure::bug(format!("the guest's record cannot be read: {why}")))?;
    if let Some(queue) = &boot.queue {
        super::queue::cut(queue, record.window_ns().1)?;
    }
    if record.head.reached {
        Ok(Booted { text, record, report: heard.report })
    } else {
        Err(unreached(boot, &record, &heard.said[1]))
    }
}

fn unreached(boot: &Boot, record: &Record, complaints: &str) -> Failure {
    let why = record.head.incomplete.as_deref().unwrap_or("it said nothing");
    let failure = Failure::machine(format!("{} was not reached: {why}", boot.until));
    // What comes before the init says there why there is none: more time would not help.
    if let Some(last) = complaints.trim().lines().last() {
        let complaint = last.trim_start_matches("error: ");
        return Failure { message: format!("{}: {complaint}", failure.message), ..failure };
    }
    failure
        .expected(format!("a unit that is active after at most {} of virtual time", boot.limit))
        .help("--until multi-user.target; --limit 10min gives it longer")
}

/// What systemd takes for a unit's name, and no path of it.
///
/// # Errors
/// When it is none.
pub fn check_unit(option: &str, name: &str) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:\\".contains(c);
    if name.contains('.') && name.len() <= UNIT_BYTES_MAX && name.chars().all(plain) {
        return Ok(());
    }
    Err(Failure::input(format!("{option} {name}: no name of a unit"))
        .expected("a unit of systemd with its kind, such as multi-user.target or ssh.service"))
}

/// What a recorder in a guest is told, wherever that runs.
pub(crate) struct RecorderOptions<'a> {
    pub(crate) until: &'a str,
    pub(crate) limit: Duration,
    pub(crate) slice: Option<Duration>,
    pub(crate) sample: Option<Duration>,
    pub(crate) files: bool,
    pub(crate) mask: &'a [String],
}

impl RecorderOptions<'_> {
    /// As its command line has them.
    pub(crate) fn words(&self) -> Vec<String> {
        let seconds = self.limit.0.0.div_ceil(1_000_000_000).to_string();
        let mut all = vec!["--until".into(), self.until.into(), "--limit".into(), seconds];
        if let Some(slice) = self.slice {
            all.extend(["--slice".into(), (slice.0.0 / 1000).to_string()]);
        }
        if let Some(sample) = self.sample {
            all.extend(["--sample".into(), (sample.0.0 / 1_000_000).to_string()]);
        }
        if self.files {
            all.extend(["--files", "yes"].map(String::from));
        }
        all.extend(self.mask.iter().flat_map(|unit| ["--mask".into(), unit.clone()]));
        all
    }
}

impl Boot {
    fn command(&self) -> Vec<String> {
        let bytes = GUEST_PROGRAM.len().to_string();
        let mut all =
            ["/bin/sh", "-c", RUN, &bytes, "record", "--root", "/mnt"].map(String::from).to_vec();
        let options = RecorderOptions {
            until: &self.until,
            limit: self.limit,
            slice: self.slice,
            sample: self.sample,
            files: self.files,
            mask: &self.mask,
        };
        all.extend(options.words());
        if !self.read_ahead.is_empty() {
            all.extend(["--read-ahead", "/run/files"].map(String::from));
        }
        all.extend(["--", "/lib/systemd/systemd"].map(String::from));
        all
    }

    fn options(&self, command: Vec<String>) -> Options {
        Options {
            memory_mib: self.memory_mib,
            seed: self.seed,
            // The recorder ends by itself, and says why.
            limit: Nanos(self.limit.0.0.saturating_mul(2)) + Nanos::from_secs(3600),
            ..Options::new(self.kernel.clone(), self.program.clone(), command)
        }
    }
}

/// The name of the record of a boot on `device`.
pub fn file_name(device: &str) -> String {
    let stem = Path::new(device).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    format!("{stem}.record")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_units_name_is_no_path() {
        for good in ["multi-user.target", "user@0.service", "dev-vda.device"] {
            assert_eq!(check_unit("--until", good), Ok(()), "{good}");
        }
        for wrong in ["", "multi-user", "../x.target", "a b.service", "a/b.service"] {
            assert!(check_unit("--until", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_record_is_called_as_its_device() {
        assert_eq!(file_name("wd-80g-5400"), "wd-80g-5400.record");
        assert_eq!(file_name("./mine/ssd.toml"), "ssd.record");
    }
}

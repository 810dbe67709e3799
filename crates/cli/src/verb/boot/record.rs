//! `blocklab boot root`, `record` and `report`: who waits for what until a unit is reached.

use std::io::Read;
use std::path::{Path, PathBuf};

use boot::machine::{self, MachineBoot};
use boot::timeline::ranking::{self, Row};
use boot::timeline::record::{Record, Unreadable};
use boot::timeline::root::{self, Kind};
use boot::timeline::session::{self, Boot};
use boot::timeline::{difference, foreign, page, perfetto, units};
use config::Duration;
use serde_json::{Value, json};
use study::Failure;

use crate::interrupt;
use crate::say;
use crate::verb::results::NewFolders;
use crate::verb::{kernel, travel};
use crate::write::replace;

/// Whose time code is charged by default.
pub(super) const HOST: &str = "server-vm-2026";
/// Seconds of this machine for a boot in real time.
const WALL_LIMIT_S: u64 = 300;
/// Longest record that is read.
const RECORD_BYTES_MAX: u64 = 256 << 20;
/// The first bytes of what gzip packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

#[derive(clap::Args)]
pub(super) struct Root {
    /// With Debian's kernel and its modules, for `boot record --in qemu`
    #[arg(long)]
    with_kernel: bool,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(super) struct Args {
    /// A part to boot from; may be given several times
    #[arg(long, value_name = "PART", default_values = ["wd-80g-5400", "mlc-970pro-like"])]
    device: Vec<String>,
    /// travel: in virtual time, the same again each time; qemu: in real time, a whole machine with
    /// Debian's kernel, an initramfs, udev and a screen
    #[arg(long = "in", value_name = "PLACE", default_value = "travel")]
    place: RecordedIn,
    /// The tar file of a root file system with systemd [default: the one of `boot root`]
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// Record until this unit is active
    #[arg(long, value_name = "UNIT", default_value = "multi-user.target")]
    until: String,
    /// Do not start this unit; may be given several times
    #[arg(long, value_name = "UNIT")]
    mask: Vec<String>,
    /// Keep the records in this folder, as PART.record
    #[arg(long, value_name = "DIR", default_value = "out/boot")]
    out: PathBuf,
    /// A page of the first two records, as `boot report` makes it
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// travel: charge code the time of this host's processor (`blocklab list hosts`); none: code is
    /// free [default: server-vm-2026]
    #[arg(long, value_name = "PROFILE")]
    host: Option<String>,
    /// The guest's memory
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    mem: String,
    /// Look this often what every process used, for pictures; 0ms: never [default: 20ms in travel,
    /// 200ms in qemu]
    #[arg(long, value_name = "TIME")]
    slice: Option<String>,
    /// Beside it, read every process's stat this often, as the paper does
    #[arg(long, value_name = "TIME")]
    sample: Option<String>,
    /// Keep in the record which files are read, and how much of each for which process
    #[arg(long)]
    files: bool,
    /// Let a program, readahead-list, read the files of this record first
    #[arg(long, value_name = "RECORD", conflicts_with = "files")]
    read_ahead: Option<PathBuf>,
    /// travel: keep the requests, too, as PART.blk: to replay the boot on other devices
    #[arg(long)]
    queue: bool,
    /// Root of the device's random streams and of the guest's random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End a boot that is not done after so much time of the guest
    #[arg(long, value_name = "TIME", default_value = "2min")]
    limit: String,
    /// qemu: seconds of this machine that a boot may take [default: 300]
    #[arg(long, value_name = "SECONDS")]
    wall_limit: Option<u64>,
    /// qemu: the device takes N times its time, for a guest that computes so much slower than a
    /// machine would [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    dilate: Option<u64>,
    /// Places of the ranking that are shown
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    rows: usize,
    /// travel: a User-Mode Linux with time travel [default: the one `blocklab kernel build` made];
    /// qemu: a vmlinuz [default: the root's own]
    #[arg(long, value_name = "PATH")]
    kernel: Option<PathBuf>,
    /// qemu: the folder of the kernel's modules [default: found beside it]
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// Where a boot is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum RecordedIn {
    Travel,
    Qemu,
}

#[derive(clap::Args)]
pub(super) struct Report {
    /// A record, and one to compare it with
    #[arg(value_name = "RECORD", required = true, num_args = 1..=2)]
    records: Vec<PathBuf>,
    /// The page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The first record as a trace for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Places of the ranking that are shown
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    rows: usize,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Root {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let kind = if self.with_kernel { Kind::WithKernel } else { Kind::Plain };
        let path = root::make(kind)?;
        if self.json {
            say(json!({ "root": path.display().to_string() }))
        } else {
            say(path.display().to_string())
        }
        Ok(())
    }
}

/// The root of `boot root`, which is made where it is not there yet.
pub(super) fn cached_root(kind: Kind, quiet: bool) -> Result<PathBuf, Failure> {
    if !quiet && !root::cached(kind)?.is_file() {
        crate::warn("making the root file system of a small Debian, once, some minutes");
    }
    root::make(kind)
}

pub(super) fn time(option: &str, text: &str) -> Result<Duration, Failure> {
    Duration::parse(text).map_err(|why| {
        Failure::input(format!("{option} {text}: {why}"))
            .expected("a time such as 20ms, 90s or 2min")
    })
}

/// The recorder counts in seconds.
pub(super) fn whole_seconds(option: &str, text: &str) -> Result<Duration, Failure> {
    let time = time(option, text)?;
    if time.0.0.is_multiple_of(1_000_000_000) {
        return Ok(time);
    }
    Err(Failure::input(format!("{option} {text}")).expected("whole seconds"))
}

/// The intervals of looks have a least one: a look takes the guest's time.
fn interval(option: &str, text: &str) -> Result<Option<Duration>, Failure> {
    let every = time(option, text)?;
    match every.0.0 {
        0 => Ok(None),
        ns if ns < 1_000_000 => {
            Err(Failure::input(format!("{option} {text}")).expected("1ms or more, or 0ms"))
        }
        _ => Ok(Some(every)),
    }
}

/// A boot that is ready to be recorded on one device after the other.
enum Ready {
    Travel(Box<Boot>),
    Machine(Box<machine::Ready>),
}

impl Ready {
    /// The record, as it is kept and as it is read.
    fn record(
        &self,
        device: &str,
        queue: Option<PathBuf>,
        out: &NewFolders,
    ) -> Result<(String, Record), Failure> {
        match self {
            Ready::Travel(usual) => {
                let boot = Boot { device: device.into(), queue, ..usual.as_ref().clone() };
                let booted = session::record(&boot)?;
                Ok((booted.text, booted.record))
            }
            Ready::Machine(ready) => {
                let disk = tidily(out, || ready.disk(device))?;
                let recorded = ready.record(disk)?;
                Ok((recorded.text, recorded.record))
            }
        }
    }
}

/// Do `work`; a signal to end meanwhile leaves nothing of it, and no empty folder for records.
fn tidily<T>(out: &NewFolders, work: impl FnOnce() -> T) -> T {
    let tidy = |signal| {
        out.go();
        attach::remove_unfinished();
        interrupt::end_by(signal);
    };
    interrupt::during(tidy, work)
}

impl Args {
    pub(super) fn run(&self) -> Result<(), Failure> {
        self.check_place()?;
        // A wrong part, and what is in the way of an output, is told before anything boots.
        for device in &self.device {
            study::build_part(device, &[], self.seed)?;
        }
        session::check_unit("--until", &self.until)?;
        self.mask.iter().try_for_each(|unit| session::check_unit("--mask", unit))?;
        self.recorded(&NewFolders::of(&self.out))
    }

    fn recorded(&self, out: &NewFolders) -> Result<(), Failure> {
        let ready = match self.place {
            RecordedIn::Travel => self.travel()?,
            RecordedIn::Qemu => self.machine(out)?,
        };
        let (mut all, mut shown) = (Vec::new(), Vec::new());
        for (device, (path, queue)) in self.device.iter().zip(self.places()?) {
            let (text, record) = ready.record(device, queue, out)?;
            if !self.json {
                ranking::lines(&record, self.rows).into_iter().for_each(say);
                if let Some(travelled) = &record.travelled {
                    let (digest, wall_s) = (&travelled.digest, travelled.wall_s);
                    say(format!("digest {digest}, {wall_s:.1} s of wall time"));
                }
            }
            // What was seen is told, too, if there is no room for it.
            replace(&path, text.as_bytes())?;
            if !self.json {
                say(format!("record {}\n", path.display()));
            }
            all.push(told(&path, &record));
            shown.push((device.clone(), record));
        }
        if !self.json {
            say_difference(&shown, self.rows);
        }
        if let Some(path) = &self.html {
            shown.truncate(2);
            write(path, &page::page(&shown))?;
        }
        if self.json {
            say(json!({ "boots": all, "difference": differs(&shown) }));
        }
        Ok(())
    }

    /// Refuse what the place of the boot does not have.
    fn check_place(&self) -> Result<(), Failure> {
        let (place, given) = match self.place {
            RecordedIn::Travel => (
                "travel",
                vec![
                    ("--wall-limit", self.wall_limit.is_some()),
                    ("--modules", self.modules.is_some()),
                    ("--dilate", self.dilate.is_some()),
                ],
            ),
            RecordedIn::Qemu => {
                ("qemu", vec![("--host", self.host.is_some()), ("--queue", self.queue)])
            }
        };
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => {
                let other = if self.place == RecordedIn::Qemu { "travel" } else { "qemu" };
                Err(Failure::input(format!("{option}, but the boot is recorded in {place}"))
                    .expected(format!("it with --in {other}"))
                    .help("leave it out"))
            }
        }
    }

    fn times(&self) -> Result<Times, Failure> {
        // In real time a look takes the boot's own.
        let usual = if self.place == RecordedIn::Travel { "20ms" } else { "200ms" };
        let sample = self.sample.as_deref().map(|text| interval("--sample", text)).transpose()?;
        Ok(Times {
            limit: whole_seconds("--limit", &self.limit)?,
            slice: interval("--slice", self.slice.as_deref().unwrap_or(usual))?,
            sample: sample.flatten(),
        })
    }

    fn travel(&self) -> Result<Ready, Failure> {
        let Times { limit, slice, sample } = self.times()?;
        let read_ahead = self.read_ahead.as_deref().map_or(Ok(Vec::new()), files)?;
        let memory_mib = travel::memory(&self.mem)?;
        let host = study::host(self.host.as_deref().unwrap_or(HOST))?;
        self.places()?;
        let wanted = self.root.as_deref().map(|file| root::find(Some(file))).transpose()?;
        let kernel = kernel::find_or_build(self.kernel.clone())?;
        let root = wanted.map_or_else(|| cached_root(Kind::Plain, self.json), Ok)?;
        Ok(Ready::Travel(Box::new(Boot {
            queue: None,
            file_system: session::FILE_SYSTEM.into(),
            scheduler: None,
            read_ahead_kib: None,
            queue_depth: None,
            mask: self.mask.clone(),
            device: String::new(),
            root,
            until: self.until.clone(),
            limit,
            host,
            memory_mib,
            slice,
            sample,
            files: self.files,
            read_ahead,
            seed: self.seed,
            kernel,
            program: crate::binary::find()?,
        })))
    }

    fn machine(&self, out: &NewFolders) -> Result<Ready, Failure> {
        let Times { limit, slice, sample } = self.times()?;
        let read_ahead = self.read_ahead.as_deref().map_or(Ok(Vec::new()), files)?;
        let memory_mib = travel::memory(&self.mem)?;
        self.places()?;
        let wanted = self.root.as_deref().map(root::there).transpose()?;
        let root = wanted.map_or_else(|| cached_root(Kind::WithKernel, self.json), Ok)?;
        let boot = MachineBoot {
            root,
            kernel: self.kernel.clone(),
            modules: self.modules.clone(),
            mask: self.mask.clone(),
            until: self.until.clone(),
            limit,
            wall: std::time::Duration::from_secs(self.wall_limit.unwrap_or(WALL_LIMIT_S)),
            memory_mib,
            slice,
            sample,
            files: self.files,
            read_ahead,
            dilation: self.dilate.unwrap_or(1),
            seed: self.seed,
        };
        let ready = tidily(out, || machine::Ready::new(boot))?;
        Ok(Ready::Machine(Box::new(ready)))
    }

    /// The record of each device, and its requests where they are asked for.
    fn places(&self) -> Result<Vec<(PathBuf, Option<PathBuf>)>, Failure> {
        std::fs::create_dir_all(&self.out).map_err(|why| {
            Failure::input(format!("--out {}: {why}", self.out.display()))
                .expected("a folder, or a name that is free")
        })?;
        let mut places = Vec::new();
        for device in &self.device {
            let path = self.out.join(session::file_name(device));
            if places.iter().any(|(other, _)| *other == path) {
                return Err(Failure::input(format!("--device {device}: {} again", path.display()))
                    .expected("devices of different names, as their records have them")
                    .help("record one of them with another --out"));
            }
            replaceable(&path)?;
            // One of an earlier boot would not be this record's, either.
            let queue = path.with_extension("blk");
            study::check_output(&queue, || false)
                .map_err(|why| why.help("name another place with --out"))?;
            places.push((path, self.queue.then_some(queue)));
        }
        if let Some(page) = &self.html {
            check_page(page)?;
        }
        Ok(places)
    }
}

/// What is looked at how often, and when it ends.
struct Times {
    limit: Duration,
    slice: Option<Duration>,
    sample: Option<Duration>,
}

/// How the second of two boots differs from the first, for programs; null but for two.
fn differs(boots: &[(String, Record)]) -> Value {
    let [(_, a), (_, b)] = boots else { return Value::Null };
    let boots = [a, b];
    json!({
        "processes": difference::of_processes(boots),
        "units": difference::of_units(boots),
    })
}

/// The same for a person.
fn say_difference(boots: &[(String, Record)], rows: usize) {
    if let [(first, a), (second, b)] = boots {
        difference::lines([first, second], [a, b], rows).into_iter().for_each(say);
    }
}

/// A record for programs.
pub(super) fn told(path: &Path, record: &Record) -> Value {
    let (start, end) = record.window_ns();
    let rows: Vec<Row> = ranking::ranking(record);
    json!({
        "record": path.display().to_string(),
        "head": record.head,
        "boot_ns": end - start,
        "milestones": record.milestones,
        "travelled": record.travelled,
        "machine": record.machine,
        "recorder_cpu_ns": record.recorder().map(|one| one.cpu_ns),
        "before_kernel": record.before_kernel,
        "ranking": rows,
        "files": ranking::files(record),
        "units": units::units(record),
        "chain": units::chain(record),
        "bias": ranking::bias(record, 5),
    })
}

/// A record may be replaced by the next one, nothing else.
pub(super) fn replaceable(path: &Path) -> Result<(), Failure> {
    study::check_output(path, || read_as(path, Record::parse).is_ok())
        .map_err(|why| why.help("name another place with --out"))
}

/// A page of ours may be replaced by the next one, nothing else.
fn check_page(path: &Path) -> Result<(), Failure> {
    study::check_output(path, || study::is_marked(path))
}

/// The same of a trace.
fn check_trace(path: &Path) -> Result<(), Failure> {
    study::check_output(path, || {
        let mut begin = vec![0; perfetto::BEGIN.len()];
        let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
        read.is_ok() && begin == perfetto::BEGIN.as_bytes()
    })
}

impl Report {
    pub(super) fn run(&self) -> Result<(), Failure> {
        self.html.as_deref().map_or(Ok(()), check_page)?;
        self.perfetto.as_deref().map_or(Ok(()), check_trace)?;
        if let (Some(page), true) = (&self.html, self.html == self.perfetto) {
            return Err(Failure::input(format!("--html and --perfetto are {}", page.display()))
                .expected("a file for each"));
        }
        let mut records = Vec::new();
        for path in &self.records {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            records.push((name, read(path)?));
        }
        if self.json {
            let all = self.records.iter().zip(&records);
            let all: Vec<Value> = all.map(|(path, (_, record))| told(path, record)).collect();
            say(json!({ "boots": all, "difference": differs(&records) }));
        } else {
            for (name, record) in &records {
                say(name);
                ranking::lines(record, self.rows).into_iter().for_each(say);
            }
            say_difference(&records, self.rows);
        }
        if let Some(path) = &self.html {
            write(path, &page::page(&records))?;
        }
        if let Some(path) = &self.perfetto {
            write(path, &perfetto::trace(&records[0].1).to_string())?;
        }
        Ok(())
    }
}

/// The files that a record names.
fn files(path: &Path) -> Result<Vec<String>, Failure> {
    let files = read(path)?.files;
    match files.is_empty() {
        false => Ok(files),
        true => Err(Failure::input(format!("--read-ahead {}: no files", path.display()))
            .expected("a record of `blocklab boot record --files`")),
    }
}

/// Write a page or a trace.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    replace(path, text.as_bytes())
        .map_err(|why| why.help("name a file in a folder that exists and has room"))
}

/// A record, or what another tool wrote of a boot.
fn read(path: &Path) -> Result<Record, Failure> {
    read_as(path, |text| foreign::parse(text).unwrap_or_else(|| Record::parse(text)))
}

pub(super) fn read_as(
    path: &Path,
    parse: impl Fn(&str) -> Result<Record, Unreadable>,
) -> Result<Record, Failure> {
    let shown = path.display();
    let wrong =
        |why: String| Failure::input(format!("record {shown}: {why}")).expected(foreign::KINDS);
    let text = study::read_text(path, RECORD_BYTES_MAX).map_err(|why| {
        let bytes = study::read_bytes(path, RECORD_BYTES_MAX).unwrap_or_default();
        if bytes.starts_with(&GZIP) {
            wrong("packed by gzip, which is not read, and no bootchart.tgz is".into())
        } else {
            wrong(why.to_string())
        }
    })?;
    parse(&text).map_err(|why| wrong(why.to_string()))
}

//! A real Linux kernel in virtual time on modelled devices.
//!
//! The guest is User-Mode Linux in time-travel mode, its disks are vhost-user devices, and the
//! calendar that says what time it is and the devices are one thread: one clock, no race.

pub(crate) mod ack;
pub mod calendar;
pub(crate) mod calls;
mod clock;
mod disk;
mod elevator;
pub(crate) mod ended;
mod faults;
pub(crate) mod file_system;
mod free_cpu;
mod guest;
mod inside;
pub mod kernel;
pub(crate) mod memory;
mod one_core;
mod output;
mod phases;
pub(crate) mod plan;
mod processor;
mod queue;
mod report;
mod serve;
mod settings;
mod standstill;

use std::path::{Path, PathBuf};
use std::time::Instant;

use config::Duration;
use sim::{Bytes, Nanos, Rng};
use study::{Failure, HostProfile};

use crate::clock::Clock;
use crate::private_folder::PrivateFolder;
use crate::record;
use crate::request_log::RequestLog;
use crate::session::DeviceOptions;
use crate::session::open::{self, Manner};
use crate::shared_state::{Export, SharedState};
use crate::statistics::Statistics;
use crate::vhost_user::backend::BIOS_MAX;

pub use ack::{TO as ACKS, acknowledge};
pub use disk::{Disk, Heard};
pub use elevator::{ElevatorReport, ShareReport};
pub use faults::{FaultReport, Timed};
pub use file_system::NAMES as FILE_SYSTEMS;
pub(crate) use inside::MOUNT;
pub(crate) use inside::PATH as PROGRAMS;
pub use inside::init;
pub use memory::MEMORY_MIN_MIB;
pub use report::{DiskReport, Report};
pub use settings::Settings;

use faults::Faults;
use file_system::find_program;
use guest::Boot;
use one_core::OneCore;
use output::Output;
use plan::{Findings, GuestPlan};
use processor::Charges;
use serve::{End, Server};

/// Exit code when the user ended it.
pub const INTERRUPTED: u8 = 130;
/// Memory for the record of the queue before it is copied to the host.
const QUEUE_KIB: u32 = 16 << 10;

/// Folders that a guest has of its own: what the host has there is not in it.
pub const COVERED: [&str; 5] = ["/tmp", "/run", "/mnt", "/dev", "/var/tmp"];

/// The block layer's own schedulers.
pub const SCHEDULERS: &[&str] = &["none", "mq-deadline", "kyber", "bfq"];

/// What to do with the devices.
#[derive(Clone)]
pub struct Options {
    /// The User-Mode Linux kernel.
    pub kernel: PathBuf,
    /// The guest's first process: a program that calls [`init`] with what follows `travel-guest`.
    pub program: PathBuf,
    /// The guest's memory.
    pub memory_mib: u64,
    /// The scheduler of every disk; the kernel's choice when `None`.
    pub scheduler: Option<String>,
    /// Read-ahead of the page cache.
    pub read_ahead_kib: Option<u32>,
    /// Switch the disks' write cache on or off.
    pub write_back: Option<bool>,
    /// Make this file system on the first disk and mount it.
    pub mkfs: Option<String>,
    /// Begin with every sector of a new device written; mkfs discards none of them.
    pub fill: bool,
    /// Root of the guest's random numbers.
    pub seed: u64,
    /// A guest that is not done at this moment of virtual time is ended.
    pub limit: Nanos,
    /// A guest that computes for so much of this machine's processor time, while virtual time
    /// stands still, is ended.
    pub compute_limit: Duration,
    /// What each device's data may take of this machine's disk, where it has no file.
    pub data_limit: Bytes,
    /// Write every request of the first device to this trace.
    pub record: Option<PathBuf>,
    /// Write what the first disk's queue was given to this trace.
    pub record_queue: Option<PathBuf>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What the program reads from its standard input.
    pub input: Vec<u8>,
    /// What code is charged as; `None`: it is free.
    pub host: Option<HostProfile>,
    /// What goes wrong with the devices while the program runs.
    pub faults: Vec<Timed>,
    /// What only studies set.
    pub settings: Settings,
}

impl Options {
    /// As the command line has it where nothing else is said.
    pub fn new(kernel: PathBuf, program: PathBuf, command: Vec<String>) -> Options {
        Options {
            kernel,
            program,
            memory_mib: 256,
            scheduler: None,
            read_ahead_kib: None,
            write_back: None,
            mkfs: None,
            fill: false,
            seed: 1,
            limit: Nanos::from_secs(720 * 3600),
            compute_limit: Duration(Nanos::from_secs(600)),
            data_limit: Bytes::from_gib(16),
            record: None,
            record_queue: None,
            command,
            input: Vec::new(),
            host: None,
            faults: Vec::new(),
            settings: Settings::default(),
        }
    }
}

/// How it ended.
#[derive(Debug)]
pub struct Outcome {
    /// What was measured.
    pub report: Report,
    /// The program's exit code.
    pub code: u8,
}

/// Boot the guest with `devices`, at least one, run the command in it, and measure. Output of the
/// command goes to this process's own as it comes.
///
/// # Errors
/// When something of the machine, of the options or of the guest does not fit.
pub fn travel(devices: Vec<DeviceOptions>, options: Options) -> Result<Outcome, Failure> {
    let companion = Companion { echo: true, ..Companion::default() };
    journey(devices, options, &companion).map(|left| left.outcome)
}

/// Who goes along with a session.
pub(crate) struct Companion<'a> {
    /// The program's output goes to this process's own as it comes.
    pub(crate) echo: bool,
    /// The device is wanted as the session leaves it.
    pub(crate) keeps_device: bool,
    /// All that the first disk is asked is kept, and what the program was promised.
    pub(crate) keeps_requests: bool,
    /// Asked now and then; a failure ends the session.
    pub(crate) check: &'a dyn Fn() -> Result<(), Failure>,
}

impl Default for Companion<'_> {
    fn default() -> Self {
        Companion { echo: false, keeps_device: false, keeps_requests: false, check: &|| Ok(()) }
    }
}

/// What a session leaves, of the first disk where nothing else is said.
pub(crate) struct Left {
    pub(crate) outcome: Outcome,
    /// What the program wrote, and what it said on stderr; empty when that was echoed.
    pub(crate) said: [String; 2],
    /// The last lines of the guest's kernel, which says only what is wrong.
    pub(crate) kernel_said: String,
    /// What the guest read back of its settings.
    pub(crate) settings: std::collections::BTreeMap<String, String>,
    /// Response times and bytes by operation, of the program and of writing back what it left.
    pub(crate) device_use: ([sim::Histogram; 4], [u64; 4]),
    /// Bytes by operation until the program's end.
    pub(crate) program_bytes: [u64; 4],
    /// The device's counters before and after that.
    pub(crate) counters: [sim::Counters; 2],
    /// Times in the block layer by operation, where the queue was recorded.
    pub(crate) queue: Option<[sim::Histogram; 4]>,
    /// When the program began, when it ended, and when its data was written back.
    pub(crate) moments: [Nanos; 3],
    /// Where [`Companion::keeps_requests`] says so.
    pub(crate) kept: Option<Kept>,
    /// The device at rest, when that is, and its next request's number.
    pub(crate) device: Option<(Box<dyn sim::Device>, Nanos, u64)>,
}

/// What is kept of a session.
pub(crate) struct Kept {
    /// What the first disk was asked.
    pub(crate) log: RequestLog,
    /// What the program was promised, a line each.
    pub(crate) acks: String,
    /// Its system calls, where they were traced.
    pub(crate) calls: String,
}

/// As [`travel`], in company.
pub(crate) fn journey(
    devices: Vec<DeviceOptions>,
    mut options: Options,
    companion: &Companion,
) -> Result<Left, Failure> {
    // The folder with the plan is best in memory: every line of output is synced.
    let (in_memory, private) = (PrivateFolder::in_memory()?, PrivateFolder::new()?);
    let (control, folder) = (in_memory.path.as_path(), private.path.as_path());
    instruct(&devices, &options, control)?;
    let traces = [("--record", &options.record), ("--record-queue", &options.record_queue)];
    open::check_places(&devices, &traces)?;
    let mut notes = Vec::new();
    let (exports, mut origins) = open::all(devices, manner(&options), &mut notes)?;
    notes.iter().for_each(config::warn);
    let mut shared = SharedState::new(exports, Clock::start());
    open::record(&mut shared.exports, options.record.as_deref())?;
    if companion.keeps_requests {
        keep_requests(&options, control, &mut shared.exports)?;
    }
    if let Some(path) = &options.record_queue {
        // What must not be wrong at the end is tried at the beginning.
        std::fs::File::create(path).map_err(|why| record::unwritable(path, &why))?;
    }
    let queue_depth = queue_depth(&shared.exports, options.settings.queue_depth);
    let boot = Boot {
        kernel: &options.kernel,
        program: &options.program,
        memory_mib: options.memory_mib,
        queue_depth,
        disks: origins.len(),
        words: &options.settings.kernel_words,
        control,
        folder,
    };
    let elevators: Vec<bool> = origins.iter().map(|origin| origin.elevator.is_some()).collect();
    let limits = (options.limit, options.compute_limit);
    let mut server = Server::new(shared, &elevators, (folder, control), limits)?;
    server.faults = Faults::new(std::mem::take(&mut options.faults));
    let began = Instant::now();
    // Only one of the two runs at a time: on one core, handing over costs a fraction.
    let _one = OneCore::take();
    let mut guest = boot.start()?;
    server.free_cpu.group = guest.group();
    open::mark(&mut origins)?;
    let end = accompany(&mut server, &mut guest, control, companion);
    let wall_s = began.elapsed().as_secs_f64();
    let exports = &mut server.shared.exports;
    let findings = end.and_then(|end| found(end, control, &guest, &options, exports));
    let findings = findings.map_err(|why| if companion.echo { why } else { unseen(why, control) });
    let kernel_said = guest.last_words();
    drop(guest);
    server.end_phase(3);
    // Whatever became of the guest.
    open::close(&mut server.shared.exports, &mut origins)?;
    let findings = findings.inspect_err(|_| unfinished(options.record.as_deref()))?;
    let convert = |path| queue::convert(&control.join(plan::QUEUE), path, &findings);
    let latencies = options.record_queue.as_deref().map_or(Ok(Vec::new()), convert)?;
    let asked = report::Asked {
        queue_depth,
        memory_mib: options.memory_mib,
        mkfs: options.mkfs,
        seed: options.seed,
        command: options.command,
        host: options.host,
    };
    let (found, asked) = ((findings, latencies), (asked, wall_s));
    let left = left(&mut server, &origins, found, asked, (control, companion));
    Ok(Left { kernel_said, ..left })
}

/// A session that came to nothing, with what its program had said: a study and the crash lab echo
/// none of it.
fn unseen(why: Failure, control: &Path) -> Failure {
    if why.cause != Some(config::Cause::GuestFailed) {
        return why;
    }
    let [out, err] = [plan::OUTPUT, plan::COMPLAINTS].map(|name| text_in(control, name));
    ended::with_output(why, [&out, &err])
}

/// A file of the folder with the plan, as text; empty where there is none.
fn text_in(control: &Path, name: &str) -> String {
    let bytes = std::fs::read(control.join(name)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn manner(options: &Options) -> Manner {
    Manner {
        dilation: 1,
        power_cuts: false,
        read_only: false,
        fill: options.fill,
        data_limit: Some(options.data_limit),
    }
}

/// What was recorded of a session that did not come to its end.
fn unfinished(recording: Option<&Path>) {
    if let Some(recording) = recording {
        let shown = recording.display();
        config::warn(format!("{shown} ends where the session did: it is no whole recording"));
    }
}

/// Requests that the driver may give out at a time: what each device takes, or less.
fn queue_depth(exports: &[Export], wanted: Option<u32>) -> u32 {
    let depths = exports.iter().map(|export| export.engine.limits().queue_depth_max);
    let depths = depths.chain(wanted.map(|depth| depth.max(1)));
    depths.min().unwrap_or(1).min(u32::from(BIOS_MAX))
}

/// Keep all that the first disk is asked, and what the program is promised.
fn keep_requests(options: &Options, control: &Path, exports: &mut [Export]) -> Result<(), Failure> {
    ack::prepare(control)?;
    exports[0].engine.data().requests = Some(RequestLog::new(options.data_limit)?);
    Ok(())
}

/// Serve the guest until it is gone.
fn accompany(
    server: &mut Server,
    guest: &mut guest::Guest,
    control: &Path,
    companion: &Companion,
) -> Result<End, Failure> {
    let mut output = Output::new(control, guest.log());
    let mut given_up = None;
    let end = server.serve(|signals| {
        if companion.echo {
            output.copy(guest, signals);
        }
        given_up = (companion.check)().and_then(|()| output.check()).err();
        given_up.is_some() || guest.has_ended()
    })?;
    if let Some(why) = given_up {
        return Err(why);
    }
    if end == End::GuestGone {
        guest.wait();
    }
    if companion.echo && !output.copy(guest, &server.signals) {
        return Err(Failure::interrupted());
    }
    Ok(end)
}

/// Put together what a session leaves.
fn left(
    server: &mut Server,
    origins: &[open::Origin],
    (findings, latencies): (Findings, Vec<queue::Latencies>),
    (asked, wall_s): (report::Asked, f64),
    (control, companion): (&Path, &Companion),
) -> Left {
    let text = |name: &str| text_in(control, name);
    let said = |name: &str| if companion.echo { String::new() } else { text(name) };
    let log = server.shared.exports[0].engine.data().requests.take();
    let kept = log.map(|log| Kept { log, acks: text(plan::ACKS), calls: text(plan::CALLS) });
    let [boot, program, sync, _] = &server.phases[0].all;
    let Findings { began_ns, ended_ns, synced_ns, .. } = findings;
    let moments = [began_ns, ended_ns, synced_ns].map(Nanos);
    let mut device_use = Statistics::default();
    [program, sync].iter().for_each(|phase| device_use.merge(&phase.statistics));
    let (times, bytes) = device_use.times();
    let engine = &server.shared.exports[0].engine;
    let at_rest = || {
        let (device, at) = engine.at_rest();
        (device, at, engine.next_id())
    };
    Left {
        moments,
        kept,
        said: [plan::OUTPUT, plan::COMPLAINTS].map(said),
        kernel_said: String::new(),
        device_use: (times.clone(), *bytes),
        program_bytes: *program.statistics.times().1,
        counters: [boot.counters.clone(), sync.counters.clone()],
        device: companion.keeps_device.then(at_rest),
        settings: findings.settings.clone(),
        queue: latencies.first().map(queue::Latencies::both),
        outcome: Outcome {
            code: findings.code.unwrap_or(INTERRUPTED),
            report: report::of(server, origins, (findings, latencies), asked, wall_s),
        },
    }
}

/// Write down what the guest is to do and to read.
fn instruct(devices: &[DeviceOptions], options: &Options, control: &Path) -> Result<(), Failure> {
    let plan = plan(devices, options)?;
    let text = serde_json::to_vec(&plan).map_err(|why| Failure::bug(why.to_string()))?;
    let write = |name: &str, content: &[u8]| {
        std::fs::write(control.join(name), content).map_err(|why| unwritable(control, &why))
    };
    write(plan::PLAN, &text)?;
    if options.input.is_empty() { Ok(()) } else { write(plan::INPUT, &options.input) }
}

fn unwritable(path: &Path, why: &std::io::Error) -> Failure {
    Failure::machine(format!("cannot write {}: {why}", path.display()))
        .help("name a file in a folder that exists and has room")
}

/// Where the command's program is on this machine.
fn program(command: &[String], here: &Path) -> Result<PathBuf, Failure> {
    let Some(name) = command.first() else {
        return Err(Failure::input("there is no command").help("blocklab travel PART -- COMMAND"));
    };
    clock::check(command, here)?;
    find_program(name, here).ok_or_else(|| {
        Failure::input(format!("`{name}`: no such program"))
            .expected("a program of this machine: the guest has its files")
    })
}

fn mkfs(options: &Options) -> Result<Option<plan::Mkfs>, Failure> {
    let more = &options.settings.mkfs_options;
    let discards = !options.fill && !options.settings.keep_fill;
    let command = |name: &String| file_system::command(name, more, discards);
    options.mkfs.as_ref().map(command).transpose()
}

fn plan(devices: &[DeviceOptions], options: &Options) -> Result<GuestPlan, Failure> {
    memory::check(options.memory_mib)?;
    if devices.is_empty() || devices.len() > 8 {
        return Err(Failure::input(format!("{} devices", devices.len())).expected("1 to 8 devices"));
    }
    if let (Some(scheduler), Some(device)) =
        (&options.scheduler, devices.iter().find(|device| device.part.elevator.is_some()))
    {
        return Err(Failure::input(format!(
            "--sched {scheduler}: {} has an elevator",
            device.name
        ))
        .expected("one of the two: an elevator gets what no scheduler has seen")
        .help("leave --sched out"));
    }
    if let Some(fault) = options.faults.iter().find(|it| it.disk() >= devices.len()) {
        let count = devices.len();
        return Err(Failure::input(format!("a fault of a disk that is not there: {fault}"))
            .expected(match count {
                1 => "vda: there is one disk".to_string(),
                _ => format!("one of {count}, of which vda is the first"),
            }));
    }
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let program = program(&options.command, &here)?;
    let mkfs = mkfs(options)?;
    let mount = options.mkfs.clone().or_else(|| options.settings.mount.clone());
    let folder = match &mount {
        Some(_) => inside::MOUNT.to_string(),
        None if COVERED.iter().any(|folder| here.starts_with(folder)) => "/".into(),
        None => here.display().to_string(),
    };
    let cache = |write_back| if write_back { "write back" } else { "write through" };
    let rotational = |device: &DeviceOptions| {
        let of_model = device.part.device.limits().rotational;
        device.part.block.rotational.unwrap_or(of_model)
    };
    let disks = devices.iter().zip('a'..).map(|(device, letter)| plan::Disk {
        name: format!("vd{letter}"),
        rotational: rotational(device),
        whole_bios: device.part.elevator.is_some(),
        scheduler: options.scheduler.clone(),
        read_ahead_kib: options.read_ahead_kib,
        // A device without a cache has no switch for one.
        cache: options
            .write_back
            .filter(|_| device.part.device.limits().write_cache)
            .map(|on| cache(on).to_string()),
    });
    let mut rng = Rng::new(options.seed, "guest entropy");
    Ok(GuestPlan {
        disks: disks.collect(),
        mount,
        mkfs,
        program: program.display().to_string(),
        arguments: options.command[1..].to_vec(),
        folder,
        entropy: (0..4).flat_map(|_| rng.next_u64().to_le_bytes()).collect(),
        record_queue_kib: options.record_queue.is_some().then_some(QUEUE_KIB),
        charges: options.host.as_ref().map(|host| Charges::of(&host.costs)),
        settings: options.settings.clone(),
    })
}

/// What the guest wrote down, or why it did not.
fn found(
    end: End,
    control: &Path,
    guest: &guest::Guest,
    options: &Options,
    exports: &mut [Export],
) -> Result<Findings, Failure> {
    let text = std::fs::read(control.join(plan::FINDINGS)).unwrap_or_default();
    let findings = serde_json::from_slice::<Findings>(&text);
    match (findings, end) {
        (Ok(Findings { failed: Some(why), .. }), _) => {
            Err(Failure::machine(format!("in the guest: {why}")))
        }
        (Ok(findings), _) => Ok(findings),
        (Err(_), End::OldKernel) => {
            Err(Failure::input("the guest's kernel does not say on whose behalf a request comes")
                .expected(
                    "one that `blocklab kernel build` makes today, where there is an elevator",
                )
                .help("blocklab kernel build, and travel without --kernel"))
        }
        (Err(_), End::NoRoom(disk)) => Err(exports[disk].engine.data().full()),
        (Err(_), End::Interrupted) => Err(Failure::interrupted()),
        (Err(_), end) => Err(ended::failed(end, (guest.killed(), &guest.last_words()), options)),
    }
}

//! `record`: who waits for what, from the start of a process 1 until a mark is reached.
//!
//! As process 1 it starts a child that records and becomes the real init. As any other process it
//! starts an init as process 1 of a namespace and records until it is done with it. What it finds
//! stays in memory; it is written at the end, in lines of JSON.

pub mod files;
mod netlink;
pub mod proc;
pub mod processes;
mod sampled;
pub mod taskstats;
pub mod units;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, mount};

use crate::read_ahead::read_since;
use files::Files;
use netlink::Taskstats;
use processes::{Processes, quoted};
use sampled::{Sampler, Slices};
use taskstats::Task;

/// The record's first line begins with this.
pub const FORMAT: &str = "blocklab boot record 1";
/// The socket that is told of milestones, in the abstract space.
const MARKS: &[u8] = b"blocklab-record";
/// A mark that ends with it is followed by what systemd says of its units.
const UNITS_FOLLOW: u8 = 0;
/// A message that begins with it is a part of that, and the last part has nothing else.
const PART: u8 = 1;
const DELAY_ACCOUNTING: &str = "/proc/sys/kernel/task_delayacct";

/// How to use it.
const USAGE: &str = "record [--to FILE] [--until MARK] [--limit SECONDS] [--sample MILLISECONDS] \
                     [--slice MICROSECONDS] [--root DIR] [--files yes] [--read-ahead LIST] \
                     [--mask UNIT] [--milestone NAME=NANOSECONDS] [--tell yes] \
                     [-- INIT ARGUMENT...]";

/// What to do.
struct Options {
    to: Option<String>,
    until: String,
    limit: Duration,
    sample: Option<Duration>,
    slice: Option<Duration>,
    root: Option<String>,
    /// Tell which files were read.
    files: bool,
    /// Let a program read the files of this list early.
    read_ahead: Option<String>,
    /// Units that are not to be started.
    mask: Vec<String>,
    /// What was reached before, and when.
    milestones: Vec<(String, u64)>,
    /// Say on the machine's console that the record is written.
    tells: bool,
    init: Vec<String>,
}

impl Options {
    fn root(&self) -> &str {
        self.root.as_deref().unwrap_or("/")
    }
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        to: None,
        until: "reached".into(),
        limit: Duration::from_secs(600),
        sample: None,
        slice: None,
        root: None,
        files: false,
        read_ahead: None,
        mask: Vec::new(),
        milestones: Vec::new(),
        tells: false,
        init: Vec::new(),
    };
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        if option == "--" {
            options.init = rest.cloned().collect();
            break;
        }
        let value = rest.next().ok_or(format!("{option} without a value; expected {USAGE}"))?;
        let number = || {
            let wrong = |_| format!("{option} {value}: not a whole number");
            value.parse::<u64>().map_err(wrong)
        };
        match option.as_str() {
            "--to" => options.to = Some(value.clone()),
            "--until" => options.until.clone_from(value),
            "--files" => options.files = value == "yes",
            "--read-ahead" => options.read_ahead = Some(value.clone()),
            "--mask" => options.mask.push(value.clone()),
            "--tell" => options.tells = value == "yes",
            "--milestone" => {
                let told = value
                    .split_once('=')
                    .and_then(|(name, at)| Some((name.to_string(), at.parse().ok()?)));
                let wrong = || format!("--milestone {value}: expected NAME=NANOSECONDS");
                options.milestones.push(told.ok_or_else(wrong)?);
            }
            "--root" => options.root = Some(value.clone()),
            "--limit" => options.limit = Duration::from_secs(number()?),
            "--sample" => options.sample = Some(Duration::from_millis(number()?.max(1))),
            "--slice" => options.slice = Some(Duration::from_micros(number()?.max(1))),
            _ => return Err(format!("no option {option}; expected {USAGE}")),
        }
    }
    Ok(options)
}

/// The verb.
pub(super) fn run(arguments: &[String]) -> Result<u8, String> {
    let options = options(arguments)?;
    if std::process::id() == 1 {
        return Err(before_init(arguments, &options));
    }
    let mut recorder = Recorder::new(&options)?;
    if let Some(to) = &options.to {
        // What must not be wrong at the end is tried at the beginning.
        File::create(to).map_err(|why| format!("cannot write {to}: {why}"))?;
    }
    // Whoever waits for it goes on.
    crate::tell("");
    let mut init = (!options.init.is_empty()).then(|| start(&options)).transpose()?;
    let reached = recorder.until(&options, init.as_mut());
    let record = recorder.finish(&options, init.as_ref().map(Child::id), reached)?;
    if let Some(mut init) = init {
        // With process 1 the whole namespace ends.
        let _ = init.kill();
        let _ = init.wait();
    }
    match &options.to {
        Some(to) => {
            write(to, record.as_bytes()).map_err(|why| format!("cannot write {to}: {why}"))?;
            if options.tells {
                tell(&format!("recorded {} at {}", record.len(), now_ns()));
            }
        }
        None => {
            let written = std::io::stdout().write_all(record.as_bytes());
            written.map_err(|why| format!("cannot write the record: {why}"))?;
        }
    }
    Ok(0)
}

/// Write all of it, and to a disk for good.
fn write(to: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(to)?;
    file.write_all(bytes)?;
    match file.sync_data() {
        // A pipe or the like has nothing to synchronise.
        Err(why) if why.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

/// Say something on the machine's console, whatever became of the terminals there.
pub(crate) fn tell(text: &str) {
    // As urgent, so that a kernel shows it that was told to be quiet.
    let line = format!("<1>blocklab-guest: {text}\n");
    let log = File::options().write(true).open("/dev/kmsg");
    // Where there is no such console nobody waits for it.
    let _ = log.and_then(|mut log| log.write_all(line.as_bytes()));
}

/// As process 1: leave a child that records, and become the init. Only a failure returns.
fn before_init(arguments: &[String], options: &Options) -> String {
    // It is there already where an initramfs ran before.
    let _ = mount("proc", "/proc", "proc", MountFlags::empty(), None);
    let Some((program, rest)) = options.init.split_first() else {
        return format!("as process 1 it needs an init; expected {USAGE}");
    };
    if options.to.is_none() {
        crate::warn("blocklab-guest: nothing is recorded: as process 1 it needs --to FILE");
        return become_init(program, rest);
    }
    // What lies in /run is seen as long as the machine runs, and needs no writable root.
    if let Err(why) = have_run() {
        crate::warn(format!("blocklab-guest: /run: {why}"));
    }
    let own = arguments.iter().take_while(|argument| *argument != "--");
    let child =
        Command::new("/proc/self/exe").arg("record").args(own).stdout(Stdio::piped()).spawn();
    match child {
        // An init without a recorder is better than none.
        Err(why) => crate::warn(format!("blocklab-guest: nothing is recorded: {why}")),
        // It listens when it has said something, or is gone.
        Ok(child) => {
            let _ = child.stdout.map(|mut said| said.read(&mut [0]));
        }
    }
    become_init(program, rest)
}

/// Mount /run, unless an initramfs did, and make the recorder's folder there. Systemd keeps it.
fn have_run() -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/")?.dev() == std::fs::metadata("/run")?.dev() {
        mount("tmpfs", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=755"))?;
    }
    std::fs::create_dir_all("/run/blocklab")
}

/// Only a failure returns.
fn become_init(program: &str, arguments: &[String]) -> String {
    format!("cannot run {program}: {}", Command::new(program).args(arguments).exec())
}

/// Start the init as process 1 of a namespace.
fn start(options: &Options) -> Result<Child, String> {
    // SAFETY: only children get another namespace; what this process has stays as it is.
    let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWPID) };
    unshared.map_err(|why| format!("no namespace for process 1: {why}"))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("enter").arg(options.root()).arg(&options.until);
    command.arg(options.read_ahead.as_deref().unwrap_or(""));
    command.arg(options.mask.join(" "));
    command.args(&options.init).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().map_err(|why| format!("cannot start process 1: {why}"))
}

/// Since the kernel's start.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

struct Recorder {
    taskstats: Taskstats,
    marks: UnixDatagram,
    milestones: Vec<(String, u64)>,
    processes: Processes,
    sampler: Option<Sampler>,
    slices: Option<Slices>,
    files: Option<Files>,
    /// Tasks that lived, and forks until then, when it began.
    began: (u64, u64),
    /// The same by the wall clock.
    began_at: SystemTime,
    trouble: Option<String>,
    /// Systemd is asked for its units, and the answer comes.
    units_follow: bool,
}

impl Recorder {
    fn new(options: &Options) -> Result<Recorder, String> {
        std::fs::write(DELAY_ACCOUNTING, "1").map_err(|why| {
            format!("{DELAY_ACCOUNTING}: {why}; it needs CONFIG_TASK_DELAY_ACCT, and root")
        })?;
        let address = SocketAddr::from_abstract_name(MARKS).map_err(|why| why.to_string())?;
        let marks = UnixDatagram::bind_addr(&address)
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .map_err(|why| format!("no socket for marks: {why}; does another recorder run?"))?;
        let mut taskstats = Taskstats::listen(proc::processors())?;
        let files = options.files.then(Files::begin).transpose()?;
        let mut slices = options.slice.map(|interval| Slices::every(interval, &mut taskstats));
        let alive = living_threads();
        let began = (alive.len() as u64, proc::forks());
        let mut processes = Processes::default();
        let own = std::process::id();
        let others: Vec<u32> = alive.into_iter().filter(|&pid| pid != own).collect();
        let others = taskstats.threads(&others);
        for task in others.iter().flatten().chain(&taskstats.itself(own)) {
            processes.lived_before(task);
        }
        slices.iter_mut().for_each(|slices| slices.begin(now_ns()));
        let mut milestones = options.milestones.clone();
        milestones.push(("recorder".into(), now_ns()));
        Ok(Recorder {
            taskstats,
            marks,
            milestones,
            processes,
            sampler: options.sample.map(Sampler::every),
            slices,
            files,
            began,
            began_at: SystemTime::now(),
            trouble: None,
            units_follow: false,
        })
    }

    /// Record until the mark, the init's end or the limit; true when the mark was reached.
    fn until(&mut self, options: &Options, mut init: Option<&mut Child>) -> bool {
        let limit_ns = now_ns() + options.limit.as_nanos() as u64;
        if init.is_some() {
            self.milestones.push(("init".into(), now_ns()));
        }
        loop {
            let dues = [
                Some(limit_ns),
                self.sampler.as_ref().map(Sampler::due_ns),
                self.slices.as_ref().map(Slices::due_ns),
            ];
            let due_ns = dues.into_iter().flatten().min().unwrap_or(limit_ns);
            let [exits, marks] = self.wait(due_ns.saturating_sub(now_ns()));
            if exits {
                self.take_exits();
            }
            if marks && self.take_marks(&options.until) {
                return true;
            }
            let now = now_ns();
            if let Some(sampler) = &mut self.sampler {
                sampler.look(now);
            }
            if let Some(slices) = &mut self.slices {
                let samples_ns = self.sampler.as_ref().map_or(0, |sampler| sampler.cpu_ns);
                slices.look(now, samples_ns, &mut self.taskstats, &mut self.processes);
            }
            let gone = init.as_mut().is_some_and(|init| !matches!(init.try_wait(), Ok(None)));
            if gone || now >= limit_ns {
                let why = if gone { "the init ended" } else { "the time was over" };
                self.trouble = Some(format!("{why} before {}", options.until));
                return false;
            }
        }
    }

    /// Until there is something, exits or marks, or so long.
    fn wait(&self, ns: u64) -> [bool; 2] {
        let mut fds = [
            PollFd::from_borrowed_fd(self.taskstats.told.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.marks.as_fd(), PollFlags::IN),
        ];
        let (sec, nsec) = (ns / 1_000_000_000, ns % 1_000_000_000);
        let timeout = Timespec { tv_sec: sec as i64, tv_nsec: nsec as i64 };
        // Interrupted, it is called again.
        let _ = poll(&mut fds, Some(&timeout));
        [0, 1].map(|index| !fds[index].revents().is_empty())
    }

    /// Take what was heard of exits; who exited.
    fn take_exits(&mut self) -> Vec<Task> {
        match self.taskstats.exits() {
            Ok(tasks) => {
                let now = now_ns();
                for task in &tasks {
                    self.processes.exited(task, now);
                    self.slices.iter_mut().for_each(|slices| slices.exited(task));
                }
                tasks
            }
            Err(why) => {
                self.trouble = Some(why.to_string());
                Vec::new()
            }
        }
    }

    /// True when the mark that ends the recording is among them.
    fn take_marks(&mut self, until: &str) -> bool {
        let mut name = [0; 256];
        let mut reached = false;
        while let Ok(bytes) = self.marks.recv(&mut name) {
            let said = &name[..bytes];
            let name = match said {
                // Parts of an answer that nobody waits for.
                [PART, ..] => continue,
                [name @ .., UNITS_FOLLOW] => name,
                name => name,
            };
            let units_follow = said.len() > name.len();
            let name = String::from_utf8_lossy(name).into_owned();
            self.milestones.push((name, now_ns()));
            if self.milestones.last().is_some_and(|(name, _)| name == until) {
                (reached, self.units_follow) = (true, units_follow);
                // What comes behind it is the answer.
                break;
            }
        }
        reached
    }

    /// Everything as text.
    fn finish(
        mut self,
        options: &Options,
        init: Option<u32>,
        reached: bool,
    ) -> Result<String, String> {
        let forks = proc::forks();
        let end_ns = now_ns();
        let read = self.files.take().map(Files::end);
        // What it did for the record, without what it does now that all is over.
        let own = std::process::id();
        let mut tasks = vec![self.taskstats.itself(own)];
        let alive = living_threads();
        let others: Vec<u32> = alive.iter().copied().filter(|&pid| pid != own).collect();
        tasks.extend(self.taskstats.threads(&others));
        // Whoever exited since is in both, and no longer lives.
        let exited = self.take_exits();
        let forks = forks.saturating_sub(self.began.1);
        let lost = lost(self.began.0, forks, self.processes.exits, alive.len() as u64);
        let living: Vec<Task> = tasks.into_iter().flatten().collect();
        for task in still_living(&living, &exited) {
            self.processes.lives(task, end_ns);
        }
        let lost_some = (lost > 0).then(|| format!("{lost} tasks were not heard of"));
        let overflow = self.taskstats.overflowed.then(|| "exit records did not fit".to_string());
        let incomplete = self.trouble.take().or(overflow).or(lost_some);
        let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut out = format!(
            "{{\"format\":{},\"kernel\":{},\"until\":{},\"reached\":{reached},\"incomplete\":{},\
             \"end_ns\":{end_ns},\"recorder\":{},\"init\":{},\"forks\":{forks},\"exits\":{},\
             \"lost\":{lost}}}\n",
            quoted(FORMAT),
            quoted(version.trim()),
            quoted(&options.until),
            incomplete.map_or("null".into(), |why| quoted(&why)),
            std::process::id(),
            init.unwrap_or(1),
            self.processes.exits,
        );
        for (name, at_ns) in &self.milestones {
            out.push_str(&format!("{{\"milestone\":{},\"at_ns\":{at_ns}}}\n", quoted(name)));
        }
        for (pid, process) in self.processes.in_order() {
            out.push_str(&process.line(pid));
        }
        out.extend(self.sampler.iter().map(Sampler::lines));
        out.extend(self.slices.iter().map(Slices::lines));
        if self.units_follow {
            out.push_str(&units::heard(&self.marks));
        }
        if let Some(read) = read {
            let (read, unknown) = match read {
                Ok(read) => (read, String::new()),
                Err(why) => (files::Read::new(), format!("{{\"unread\":{}}}\n", quoted(&why))),
            };
            let wanted = read.keys().map(|(_, device, inode)| (*device, *inode)).collect();
            let found = read_since(Path::new(options.root()), self.began_at, &wanted);
            let file = |path| format!("{{\"file\":{}}}\n", quoted(path));
            out.extend(found.list.iter().map(|path| file(path)));
            out.push_str(&files::lines(&read, &found.names, |task| self.processes.of_task(task)));
            out.push_str(&unknown);
        }
        Ok(out)
    }
}

/// Those of `living` that have not exited since they were asked.
fn still_living<'a>(living: &'a [Task], exited: &'a [Task]) -> impl Iterator<Item = &'a Task> {
    let exited: BTreeSet<u32> = exited.iter().map(|task| task.pid).collect();
    living.iter().filter(move |task| !exited.contains(&task.pid))
}

/// Tasks that were there or were started, and neither were heard to end nor live.
fn lost(before: u64, forks: u64, exits: u64, alive: u64) -> u64 {
    (before + forks).saturating_sub(exits + alive)
}

/// All threads that have not ended.
fn living_threads() -> Vec<u32> {
    let mut all = Vec::new();
    for pid in proc::numbers("/proc") {
        for thread in proc::numbers(&format!("/proc/{pid}/task")) {
            let stat = proc::stat_of(&format!("/proc/{pid}/task/{thread}"));
            if stat.is_some_and(|stat| !matches!(stat.state, 'Z' | 'X')) {
                all.push(thread);
            }
        }
    }
    all
}

/// Tell a recorder that something was reached; the verb `mark`.
pub(super) fn mark(arguments: &[String]) -> Result<u8, String> {
    let name = match arguments {
        [name] => name,
        [name, units] if units == "units" => return units::mark_with_units(name),
        _ => return Err("expected mark NAME [units]".into()),
    };
    let address = SocketAddr::from_abstract_name(MARKS).map_err(|why| why.to_string())?;
    let socket = UnixDatagram::unbound().map_err(|why| why.to_string())?;
    let sent = socket.send_to_addr(name.as_bytes(), &address);
    sent.map(|_| 0).map_err(|why| format!("no recorder listens: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Options, String> {
        options(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn a_task_that_was_not_heard_of_is_missed() {
        assert_eq!(lost(30, 64, 40, 54), 0);
        assert_eq!(lost(30, 64, 39, 54), 1);
        // One that ended while it was looked for is in both.
        assert_eq!(lost(30, 64, 41, 54), 0);
    }

    #[test]
    fn a_task_that_exits_at_the_end_is_counted_once() {
        let task = |pid: u32, io_ns: u64| {
            let usage = taskstats::Usage { io_ns, ..taskstats::Usage::default() };
            Task { pid, process: pid, parent: 1, name: "x".into(), elapsed_ns: 10, usage }
        };
        // It lived when it was asked, and was then heard to exit.
        let (living, exited) = ([task(7, 40), task(8, 3)], [task(7, 41)]);
        let mut all = Processes::default();
        exited.iter().for_each(|task| all.exited(task, 100));
        still_living(&living, &exited).for_each(|task| all.lives(task, 99));
        let found = all.in_order();
        let [(8, other), (7, gone)] = found[..] else { panic!("{all:?}") };
        assert_eq!((gone.usage.io_ns, gone.end_ns, gone.threads), (41, Some(100), 1));
        assert_eq!((other.usage.io_ns, other.end_ns), (3, None));
    }

    #[test]
    fn options_end_where_the_init_begins() {
        let options = read(&["--slice", "500", "--to", "f", "--", "/sbin/init", "--to"]).unwrap();
        assert_eq!(options.init, ["/sbin/init", "--to"]);
        assert_eq!(
            (options.to.as_deref(), options.slice),
            (Some("f"), Some(Duration::from_micros(500)))
        );
        let told = read(&["--milestone", "root mounted=7"]).unwrap().milestones;
        assert_eq!(told, [("root mounted".to_string(), 7)]);
        assert!(read(&["--milestone", "x"]).err().unwrap().contains("--milestone x"));
        assert!(read(&["--until"]).err().unwrap().contains("--until without a value"));
        assert!(read(&["--sample", "x"]).err().unwrap().contains("not a whole number"));
        assert!(read(&["--other", "x"]).err().unwrap().contains("no option --other"));
    }
}

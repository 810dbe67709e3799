//! What this machine's processor needs for its kernel's code, measured: a profile that `travel` can
//! charge a guest.
//!
//! What one task does is taken by its own processor time, which does not count while another runs.
//! Where there are batches it is their lower quartile, because other work of the machine only adds.
//! Calls about files are timed one by one ([`amid`]).

mod amid;

use std::fmt::Write as _;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use config::Duration;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::getppid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use sim::Nanos;
use study::Failure;
use study::host::{Cache, Calls, Copies, Costs, Processor, Requests};

use self::amid::Amid;
use crate::private_folder::PrivateFolder;

/// Batches of each figure.
const BATCHES: usize = 25;
/// Where a batch is long.
const LONG_BATCHES: usize = BATCHES / 5;
/// Calls in a batch where nothing else decides.
const CALLS: usize = 2000;
/// A page of a file.
const PAGE: usize = 4096;
/// Bytes of a read or write that mostly copies, and how many of them.
const LARGE: u64 = 64 << 10;
const LARGE_CALLS: usize = 256;
/// Pages that are touched in a batch.
const PAGES: usize = 4096;
/// Turns of two tasks, and processes that are started, in a batch.
const TURNS: usize = 1000;
const PROCESSES: usize = 100;
/// Syncs in a batch: a drive may take milliseconds for each.
const SYNCS: usize = 100;
/// Names in a folder that is listed.
const NAMES: usize = 16;

/// One request by scheduler, in nanoseconds: four billion of a second's I/Os on one core.
const REQUEST_NS: [u64; 4] = [2820, 3400, 3490, 4240];
const REQUEST_SOURCE: &str = "not measured: a second of one saturated core divided by its 4 KiB \
    random reads, fio on a Samsung 980 PRO (Ren et al., ICPE 2024, artefact on Zenodo 10599514)";

/// A profile of this machine.
#[derive(Debug)]
pub struct Measured {
    /// The values.
    pub costs: Costs,
    /// Where they were measured.
    folder: String,
}

/// Measure in `folder`, whose file system is part of what is measured.
///
/// # Errors
/// When nothing can be written there, or this machine lacks a program of POSIX.
pub fn measure(folder: &Path) -> Result<Measured, Failure> {
    let failed = |why: io::Error| {
        Failure::machine(format!("cannot measure in {}: {why}", folder.display()))
            .help("name a folder with room: --dir DIR")
    };
    let writable = "name a folder that can be written to: --dir DIR";
    let scratch = PrivateFolder::below(folder).map_err(|failure| failure.help(writable))?;
    let costs = costs(&scratch.path).map_err(failed)?;
    Ok(Measured { costs, folder: file_system(folder) })
}

fn costs(folder: &Path) -> io::Result<Costs> {
    let cpus = sched_getaffinity(None)?;
    // One core for all that follows: its caches stay warm, and tasks take turns.
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    sched_setaffinity(None, &one)?;
    let found = on_one_core(folder, cpus.count());
    sched_setaffinity(None, &cpus)?;
    found
}

fn on_one_core(folder: &Path, cores: u32) -> io::Result<Costs> {
    let other = calls(|| {
        black_box(getppid());
        Ok(())
    })?;
    let page_fault = page_faults()?;
    let [read, write] = bytes(folder)?;
    let amid = Amid::measure(folder)?;
    // A call, its pages, and each KiB: of a page and of many.
    let parts = |[page, large]: [u64; 2], byte: Duration| {
        let kib = large.saturating_sub(page) * 1024 / (LARGE - PAGE as u64);
        let pages = page.saturating_sub(byte.0.0 + kib * PAGE as u64 / 1024);
        (ns(kib), ns(pages))
    };
    let (to_program, found) = parts(amid.read, read);
    let (from_program, added) = parts(amid.write, write);
    let copy = Copies { to_program, from_program };
    let (fork, exec) = processes(page_fault)?;
    let file = File::open(folder.join("bytes"))?;
    Ok(Costs {
        processor: Processor { cores, context_switch: switches()?, page_fault },
        call: Calls {
            between: None,
            other,
            read,
            write,
            seek: calls(|| (&file).seek(SeekFrom::Start(1)).map(|_| ()))?,
            open: ns(amid.open),
            create: ns(amid.make.saturating_sub(amid.open)),
            close: ns(amid.close),
            stat: ns(amid.stat),
            fstat: ns(amid.fstat),
            remove: ns(amid.remove),
            rename: ns(amid.rename),
            list: listing(folder)?,
            sync: batches(LONG_BATCHES, SYNCS, || file.sync_data())?,
            fork,
            exec,
        },
        copy,
        cache: Cache { found, added },
        request: Requests {
            none: ns(REQUEST_NS[0]),
            mq_deadline: ns(REQUEST_NS[1]),
            kyber: ns(REQUEST_NS[2]),
            bfq: ns(REQUEST_NS[3]),
        },
    })
}

fn ns(ns: u64) -> Duration {
    // What was measured as nothing took something.
    Duration(Nanos(ns.max(1)))
}

/// The lower quartile.
fn quartile(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all[all.len() / 4]
}

/// What `work` gives, and the nanoseconds on `clock` that it takes.
fn timed<T>(clock: ClockId, work: impl FnOnce() -> io::Result<T>) -> io::Result<(T, u64)> {
    let now = || {
        let now = clock_gettime(clock);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let began = now();
    let done = work()?;
    Ok((done, now() - began))
}

/// This task's own time for `count` of what `work` does.
fn own(count: usize, mut work: impl FnMut() -> io::Result<()>) -> io::Result<u64> {
    let ((), took) = timed(ClockId::ThreadCPUTime, || (0..count).try_for_each(|_| work()))?;
    Ok(took / count as u64)
}

fn calls(call: impl FnMut() -> io::Result<()>) -> io::Result<Duration> {
    batches(BATCHES, CALLS, call)
}

/// Its own time for one of `count` in a batch.
fn batches(
    batches: usize,
    count: usize,
    mut call: impl FnMut() -> io::Result<()>,
) -> io::Result<Duration> {
    let batches = (0..batches).map(|_| own(count, &mut call)).collect::<io::Result<_>>()?;
    Ok(ns(quartile(batches)))
}

/// Reading and writing a byte, one after the other, as a program that does not buffer: most meet a
/// page that is there.
fn bytes(folder: &Path) -> io::Result<[Duration; 2]> {
    let mut byte = [1; 1];
    let path = folder.join("bytes");
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..BATCHES {
        let mut file = File::create(&path)?;
        file.write_all(&byte)?;
        times[1].push(own(CALLS, || file.write_all(&byte))?);
        let mut file = File::open(&path)?;
        times[0].push(own(CALLS, || file.read_exact(&mut byte))?);
    }
    Ok(times.map(|times| ns(quartile(times))))
}

/// One getdents of two: the first has all names, the second says that there are no more.
fn listing(folder: &Path) -> io::Result<Duration> {
    let folder = folder.join("names");
    std::fs::create_dir(&folder)?;
    for number in 0..NAMES {
        File::create(folder.join(number.to_string()))?;
    }
    let opened = File::open(&folder)?;
    let mut buffer = Vec::with_capacity(1 << 15);
    let whole = calls(|| {
        let mut names = rustix::fs::RawDir::new(&opened, buffer.spare_capacity_mut());
        while let Some(name) = names.next() {
            black_box(name?);
        }
        rustix::fs::seek(&opened, rustix::fs::SeekFrom::Start(0))?;
        Ok(())
    })?;
    Ok(ns(whole.0.0 / 2))
}

/// A page of memory that is touched for the first time.
fn page_faults() -> io::Result<Duration> {
    let bytes = PAGES * PAGE;
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE;
        // SAFETY: a new place, which nothing else has, and which is unmapped below.
        let place = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)? };
        // SAFETY: only how large its pages are changes.
        unsafe { madvise(place, bytes, Advice::LinuxNoHugepage)? };
        let mut at = 0;
        let touch = || {
            // SAFETY: `at` stays below the length of the mapping.
            unsafe { place.cast::<u8>().add(at).write_volatile(1) };
            at += PAGE;
            Ok(())
        };
        let took = own(PAGES, touch);
        // SAFETY: the mapping from above, whole, and nobody refers to it.
        unsafe { munmap(place, bytes)? };
        batches.push(took?);
    }
    Ok(ns(quartile(batches)))
}

/// A byte that another process sends back at once: two switches, beside two writes and two reads.
fn switches() -> io::Result<Duration> {
    let (mut near, mut far) = io::pipe()?;
    let mut byte = [0; 1];
    let alone = calls(|| {
        far.write_all(&[1])?;
        near.read_exact(&mut byte)
    })?;
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let gone = || io::Error::other("cat has no pipes");
    let mut to = cat.stdin.take().ok_or_else(gone)?;
    let mut from = cat.stdout.take().ok_or_else(gone)?;
    let mut turn = || -> io::Result<()> {
        to.write_all(&[1])?;
        from.read_exact(&mut byte)
    };
    turn()?;
    let mut turns = || timed(ClockId::Monotonic, || (0..TURNS).try_for_each(|_| turn()));
    let batches = (0..BATCHES).map(|_| Ok(turns()?.1)).collect::<io::Result<_>>();
    drop(to);
    cat.wait()?;
    let turn_ns = quartile(batches?) / TURNS as u64;
    Ok(ns(turn_ns.saturating_sub(2 * alone.0.0) / 2))
}

/// A shell that forks, and one that executes another program, without the pages that they touch.
fn processes(page_fault: Duration) -> io::Result<(Duration, Duration)> {
    let shell = |body: &str| -> io::Result<u64> {
        let script = format!("i=0; while [ $i -lt {PROCESSES} ]; do {body}; i=$((i+1)); done");
        let mut batches = Vec::new();
        for _ in 0..LONG_BATCHES {
            let faults = faults_of_children()?;
            let ((), took) = timed(ClockId::Monotonic, || {
                let status = Command::new("/bin/sh").args(["-c", &script]).status()?;
                let bad = || io::Error::other(format!("sh ended with {status}"));
                if status.success() { Ok(()) } else { Err(bad()) }
            })?;
            let faults = faults_of_children()? - faults;
            batches.push(took.saturating_sub(faults * page_fault.0.0));
        }
        Ok(quartile(batches) / PROCESSES as u64)
    };
    let (none, fork, exec) = (shell(":")?, shell("( : )")?, shell("/bin/true")?);
    Ok((ns(fork.saturating_sub(none)), ns(exec.saturating_sub(fork))))
}

/// Pages that ended children of this process touched for the first time.
fn faults_of_children() -> io::Result<u64> {
    // SAFETY: all zeros is a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage`.
    match unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } {
        0 => Ok(usage.ru_minflt as u64),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The kind of file system at `folder`, in words.
fn file_system(folder: &Path) -> String {
    let here = folder.canonicalize().unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?, words.next()?);
        here.starts_with(place).then(|| (place.len(), kind.to_string()))
    });
    mounted.max_by_key(|(length, _)| *length).map_or("unknown".into(), |(_, kind)| kind)
}

impl Measured {
    /// As a profile's file.
    pub fn toml(&self, name: &str) -> String {
        let release = rustix::system::uname();
        let linux = release.release().to_string_lossy().into_owned();
        let on = format!("Linux {linux}, {}", self.folder);
        let by = "blocklab host measure";
        let mut text = format!(
            "# Made by `{by}`. The file may be moved and its values changed; every one needs a \
             source.\n\n[host]\nname = {name:?}\ntitle = \"This machine: {on}\"\n\
             status = \"calibrated\"\n\n"
        );
        text.push_str(&self.costs.toml());
        text.push('\n');
        let batches = format!("lower quartile of {BATCHES} batches");
        let long_batches = format!("lower quartile of {LONG_BATCHES} batches");
        let amid = format!(
            "each on any of {} files of {} pages in turn with the others, mean without the \
             longest twentieth",
            amid::FILES,
            amid::PAGES_OF_FILE
        );
        let loops = "read and write of a byte, seek, list and other in loops of their own";
        let sources = [
            ("processor.cores", format!("{by}: those that it may run on")),
            (
                "processor.context_switch",
                format!("{by}: half a byte's way to `cat` on the same core and back; {batches}"),
            ),
            ("processor.page_fault", format!("{by}: new pages of memory, 4 KiB each; {batches}")),
            (
                "call",
                format!(
                    "{by} on {on}: {amid}; fork, exec and sync, {long_batches}; {loops}, {batches}"
                ),
            ),
            ("copy", format!("{by} on {on}: what 64 KiB take longer than 4 KiB, {amid}")),
            ("cache", format!("{by} on {on}: 4 KiB without the call and what is copied, {amid}")),
            ("request", REQUEST_SOURCE.into()),
        ];
        text.push_str("[source]\n");
        for (key, source) in sources {
            let _ = writeln!(text, "{key:?} = {source:?}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_sound_profile() {
        let folder = std::env::temp_dir();
        let measured = measure(&folder).unwrap();
        let path = folder.join(format!("blocklab-host-{}.toml", std::process::id()));
        std::fs::write(&path, measured.toml("mine")).unwrap();
        let read = study::host(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        let read = read.unwrap().unwrap();
        assert_eq!(read.costs, measured.costs, "what is written is what was measured");
        let Costs { call, processor, .. } = &read.costs;
        assert!(processor.cores >= 1);
        // Work that contains other work takes longer: the one is part of the other by construction.
        assert!(call.exec > call.other && call.fork > call.other, "{call:?}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let told = measure(Path::new("/no/such")).unwrap_err().to_string();
        assert!(told.contains("cannot make a folder in /no/such"), "{told}");
    }

    #[test]
    fn the_lower_quartile_leaves_out_what_other_work_added() {
        assert_eq!(quartile(vec![9, 5, 100, 4, 7, 6, 8, 50]), 6);
    }
}

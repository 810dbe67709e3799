//! The guest's first process: `blocklab` once more, as the kernel's init. It prepares what the plan
//! says, runs the program, writes down what it found, and turns the guest off.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use super::memory;
use super::plan::{self, BlockStatistics, Disk, Findings, GuestPlan, Mkfs};
use super::processor::{self, Charges};
use super::settings::{self, Settings};

/// Where the host's folder is mounted.
pub(super) const CONTROL: &str = "/run/blocklab";
/// Where the file system under test is mounted.
pub(crate) const MOUNT: &str = "/mnt";
const TRACING: &str = "/sys/kernel/tracing";
/// What programs are looked for in.
pub(crate) const PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games";

/// Be the guest's first process; `folder` is the host's folder with the plan. It never returns to
/// its caller in a guest.
pub fn init(folder: &Path) -> ! {
    let mut findings = Findings::default();
    if let Err(why) = prepare(folder).and_then(|()| follow(&mut findings)) {
        findings.failed = Some(why);
    }
    // Without a folder to write to there is only the console: the last words of the kernel's log.
    if let Some(why) = &findings.failed {
        config::warn(why);
    }
    if let Ok(text) = serde_json::to_vec(&findings) {
        let _ = write_through(plan::FINDINGS, &text);
    }
    rustix::fs::sync();
    let _ = reboot(RebootCommand::PowerOff);
    // It only returns when this is no guest.
    std::process::exit(2)
}

fn prepare(folder: &Path) -> Result<(), String> {
    if std::process::id() != 1 {
        return Err("this is for the first process of a guest".into());
    }
    for (source, target, kind) in [
        ("proc", "/proc", "proc"),
        ("sysfs", "/sys", "sysfs"),
        ("devtmpfs", "/dev", "devtmpfs"),
        ("tmpfs", "/tmp", "tmpfs"),
        ("tmpfs", "/run", "tmpfs"),
        ("tmpfs", MOUNT, "tmpfs"),
        ("tmpfs", "/var/tmp", "tmpfs"),
    ] {
        mounted(source, target, kind, None)?;
    }
    make_folder("/dev/shm")?;
    mounted("tmpfs", "/dev/shm", "tmpfs", None)?;
    make_folder(CONTROL)?;
    mounted("none", CONTROL, "hostfs", Some(folder))
}

fn make_folder(path: &str) -> Result<(), String> {
    std::fs::create_dir_all(path).map_err(|why| format!("cannot make {path}: {why}"))
}

fn mounted(source: &str, target: &str, kind: &str, data: Option<&Path>) -> Result<(), String> {
    let data = data.map(|path| CString::new(path.as_os_str().as_encoded_bytes()));
    let data = data.transpose().map_err(|why| why.to_string())?;
    match mount(source, target, kind, MountFlags::empty(), data.as_deref()) {
        // The kernel mounts /dev by itself when it is so configured.
        Ok(()) | Err(rustix::io::Errno::BUSY) => Ok(()),
        Err(why) => Err(format!("cannot mount {kind} on {target}: {why}")),
    }
}

/// Write a file in the host's folder; it is there when this returns.
fn write_through(name: &str, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(Path::new(CONTROL).join(name))?;
    file.write_all(content)?;
    file.sync_all()
}

fn follow(findings: &mut Findings) -> Result<(), String> {
    let text = std::fs::read(Path::new(CONTROL).join(plan::PLAN));
    let text = text.map_err(|why| format!("cannot read the plan: {why}"))?;
    let plan: GuestPlan = serde_json::from_slice(&text).map_err(|why| why.to_string())?;
    seed(&plan.entropy)?;
    findings.kernel = read("/proc/sys/kernel/osrelease");
    findings.memory_kib = memory::total_kib(&read("/proc/meminfo")).unwrap_or(0);
    for disk in &plan.disks {
        set(disk)?;
        throttle(disk)?;
        if disk.name == "vda" {
            set_more(&plan.settings)?;
        }
        findings.schedulers.push(scheduler(&disk.name));
        findings.numbers.push(read(&format!("/sys/block/{}/dev", disk.name)).replace(':', ","));
    }
    if let Some(mkfs) = &plan.mkfs {
        make_file_system(mkfs)?;
    }
    if let Some(kind) = &plan.mount {
        mount_disk(kind, &plan.settings.mount_options)?;
    }
    // Last of all: whatever else changes may raise it again.
    plan.disks.iter().try_for_each(set_read_ahead)?;
    findings.settings = read_back(&plan);
    // Everything before is on the medium, so that the program alone is measured.
    rustix::fs::sync();
    let recording =
        plan.record_queue_kib.map(|kib| Recording::start(kib, &plan.disks)).transpose()?;
    let before = statistics(&plan)?;
    mark(plan::BEGUN);
    findings.began_ns = now_ns();
    touch(&format!("{}{}", plan::BEGUN_AT, findings.began_ns));
    let mut charged_ns = None;
    let ended = command(&plan).and_then(|mut command| {
        // From here on it is the program's code.
        charged_ns = plan.charges.as_ref().map(Charges::begin).transpose()?;
        command.status().map_err(|why| format!("cannot run {}: {why}", plan.program))
    });
    findings.ended_ns = now_ns();
    findings.charged_ns = charged_ns.map(|before| processor::paid_ns() - before);
    let after = statistics(&plan)?;
    mark(plan::ENDED);
    rustix::fs::sync();
    findings.synced_ns = now_ns();
    let synced = statistics(&plan)?;
    mark(plan::SYNCED);
    charged_ns.map_or(Ok(()), |_| processor::end())?;
    if let Some(recording) = recording {
        findings.queue_lost = recording.stop()?;
    }
    for ((before, after), synced) in before.into_iter().zip(after).zip(synced) {
        findings.statistics.push([before, after, synced]);
    }
    let status = ended?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    findings.code = Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
    if plan.mount.is_some() {
        // A program that left something running keeps it busy; the data is written all the same.
        let _ = rustix::mount::unmount(MOUNT, rustix::mount::UnmountFlags::empty());
    }
    Ok(())
}

/// Seed the kernel's random numbers: it has no other source of them.
fn seed(entropy: &[u8]) -> Result<(), String> {
    /// `RNDADDENTROPY` of Linux's `random.h`.
    const ADD_ENTROPY: libc::c_ulong = 0x4008_5203;
    #[repr(C)]
    struct RandPoolInfo {
        bits: i32,
        bytes: i32,
        content: [u8; 32],
    }
    let mut pool = RandPoolInfo { bits: 256, bytes: 32, content: [0; 32] };
    pool.content.iter_mut().zip(entropy).for_each(|(to, from)| *to = *from);
    let file = OpenOptions::new().write(true).open("/dev/urandom");
    let file = file.map_err(|why| format!("cannot open /dev/urandom: {why}"))?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    // SAFETY: the kernel reads a `rand_pool_info` and the `bytes` bytes behind it.
    match unsafe { libc::ioctl(fd, ADD_ENTROPY, &raw const pool) } {
        0 => Ok(()),
        _ => Err(format!("cannot start the random numbers: {}", io::Error::last_os_error())),
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

/// The word in brackets.
fn chosen(shown: &str) -> &str {
    let inner = shown.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(shown, |(word, _)| word)
}

/// What keeps a kernel from joining, cutting or holding back what file systems submit: no
/// scheduler, no merging, no shorter request than the device takes, no throttling of writing back.
const WHOLE_BIOS: [(&str, &str); 4] = [
    ("queue/scheduler", "none"),
    ("queue/nomerges", "2"),
    ("queue/max_sectors_kb", "16384"),
    ("queue/wbt_lat_usec", "0"),
];

fn set(disk: &Disk) -> Result<(), String> {
    let Disk { name, rotational, whole_bios, scheduler, cache, .. } = disk;
    let mut settings = vec![
        ("queue/rotational", u8::from(*rotational).to_string()),
        ("queue/add_random", "0".to_string()),
    ];
    if *whole_bios {
        settings.extend(WHOLE_BIOS.map(|(key, value)| (key, value.to_string())));
    }
    settings.extend(scheduler.iter().map(|name| ("queue/scheduler", name.clone())));
    settings.extend(cache.iter().map(|cache| ("cache_type", cache.clone())));
    settings
        .into_iter()
        .try_for_each(|(key, value)| write(&format!("/sys/block/{name}/{key}"), &value))
}

/// The scheduler that throttles nothing but by itself: with it the kernel takes its throttling of
/// writing back away, until somebody asks for it.
const NO_THROTTLING: &str = "bfq";

fn scheduler(disk: &str) -> String {
    chosen(&read(&format!("/sys/block/{disk}/queue/scheduler"))).to_string()
}

/// Throttling of writing back as the kernel has it for a disk that turns, or one that does not: it
/// takes its latency when the disk is registered, before it knows which.
fn throttle(disk: &Disk) -> Result<(), String> {
    let path = format!("/sys/block/{}/queue/wbt_lat_usec", disk.name);
    // To say it is to ask for it.
    let is_free = scheduler(&disk.name) == NO_THROTTLING;
    // A kernel without throttling has nothing to read there.
    if disk.whole_bios || is_free || read(&path).is_empty() {
        return Ok(());
    }
    write(&path, "-1")
}

fn write(path: &str, value: &str) -> Result<(), String> {
    std::fs::write(path, value).map_err(|why| format!("cannot set {path} to `{value}`: {why}"))
}

fn set_read_ahead(disk: &Disk) -> Result<(), String> {
    let Some(kib) = disk.read_ahead_kib else { return Ok(()) };
    write(&format!("/sys/block/{}/queue/read_ahead_kb", disk.name), &kib.to_string())
}

/// What only a study sets: of the first disk, and of memory.
fn set_more(settings: &Settings) -> Result<(), String> {
    if settings.never_flush {
        write("/sys/block/vda/queue/write_cache", "write through")?;
    }
    if let Some(us) = settings.wbt_us {
        let path = "/sys/block/vda/queue/wbt_lat_usec";
        if scheduler("vda") == NO_THROTTLING {
            // The latency that is there already would change nothing, and stay off.
            write(path, "0")?;
        }
        write(path, &us.to_string())?;
    }
    let mut memory = settings.memory.iter();
    memory.try_for_each(|(name, value)| write(&format!("/proc/sys/vm/{name}"), &value.to_string()))
}

/// The settings as the kernel has them.
fn read_back(plan: &GuestPlan) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    found.insert("scheduler".into(), scheduler("vda"));
    found.insert("cache_type".into(), read("/sys/block/vda/cache_type"));
    for name in [
        "read_ahead_kb",
        "write_cache",
        "wbt_lat_usec",
        "max_sectors_kb",
        "nr_requests",
        "rotational",
    ] {
        found.insert(name.into(), read(&format!("/sys/block/vda/queue/{name}")));
    }
    if plan.settings.wbt_us.is_none() && found["scheduler"] == NO_THROTTLING {
        // The kernel tells the latency of what it has switched off.
        found.insert("wbt_lat_usec".into(), "0".into());
    }
    for name in ["dirty_ratio", "dirty_bytes", "dirty_background_ratio", "dirty_background_bytes"] {
        found.insert(name.into(), read(&format!("/proc/sys/vm/{name}")));
    }
    let mount = plan.mount.as_ref().and_then(|_| {
        let mounts = read("/proc/self/mounts");
        let line = mounts.lines().find(|line| line.starts_with("/dev/vda "))?;
        Some(line.split_whitespace().nth(3)?.to_string())
    });
    found.extend(mount.map(|options| ("mount_options".into(), options)));
    found
}

/// Mount the first disk where programs are to find it.
fn mount_disk(kind: &str, options: &str) -> Result<(), String> {
    let (flags, data) = settings::mount_flags(options);
    let data = CString::new(data).map_err(|why| why.to_string())?;
    mount("/dev/vda", MOUNT, kind, flags, data.as_c_str()).map_err(|why| {
        format!("cannot mount /dev/vda as {kind} with `{options}`: {why}; {}", last_of_log())
    })
}

/// What the kernel said last, such as why it does not mount.
fn last_of_log() -> String {
    let log =
        std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
    let mut last = String::new();
    let Ok(mut log) = log else { return last };
    let mut record = vec![0; 8192];
    while let Ok(bytes @ 1..) = log.read(&mut record) {
        let text = String::from_utf8_lossy(&record[..bytes]);
        last =
            text.split_once(';').map_or("", |(_, said)| said).lines().next().unwrap_or("").into();
    }
    last
}

fn make_file_system(mkfs: &Mkfs) -> Result<(), String> {
    if mkfs.discards {
        return run_mkfs(mkfs);
    }
    // The kernel refuses discards then, and every mkfs goes on without: each has another option
    // for it, and some have none.
    let largest = "/sys/block/vda/queue/discard_max_bytes";
    let before = read(largest);
    write(largest, "0")?;
    run_mkfs(mkfs)?;
    write(largest, &before)
}

fn run_mkfs(mkfs: &Mkfs) -> Result<(), String> {
    let mut command = Command::new(&mkfs.program);
    command.args(&mkfs.arguments).env_clear().envs(environment()).stdin(Stdio::null());
    let out = command.output().map_err(|why| format!("cannot run {}: {why}", mkfs.program))?;
    if out.status.success() {
        Ok(())
    } else {
        let said = [out.stdout, out.stderr].concat();
        Err(format!("{}: {}", mkfs.program, String::from_utf8_lossy(&said).trim()))
    }
}

fn environment() -> [(&'static str, &'static str); 4] {
    [("PATH", PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("TMPDIR", "/tmp")]
}

fn statistics(plan: &GuestPlan) -> Result<Vec<BlockStatistics>, String> {
    let of = |disk: &Disk| {
        let path = format!("/sys/block/{}/stat", disk.name);
        BlockStatistics::parse(&read(&path)).ok_or_else(|| format!("cannot read {path}"))
    };
    plan.disks.iter().map(of).collect()
}

/// Tell the outside; it hears of it before the guest's time goes on.
fn mark(name: &str) {
    touch(name);
    std::thread::sleep(Duration::from_micros(1));
}

fn touch(name: &str) {
    // Missing, the outside's figures cover the whole session, and it says so.
    let _ = File::create(Path::new(CONTROL).join(name));
}

/// The guest's time since its boot.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The program as it is to be run.
fn command(plan: &GuestPlan) -> Result<Command, String> {
    // Every write to them is on the host when it returns: nothing of it lingers in the guest.
    let output = |name: &str| {
        let path = PathBuf::from(CONTROL).join(name);
        let mut options = OpenOptions::new();
        options.create(true).append(true).custom_flags(libc::O_SYNC);
        options.open(path).map_err(|why| format!("cannot write the output: {why}"))
    };
    let input = File::open(Path::new(CONTROL).join(plan::INPUT));
    let mut command = Command::new(&plan.program);
    command.args(&plan.arguments).current_dir(&plan.folder);
    command.env_clear().envs(environment()).envs(&plan.settings.environment);
    command.stdin(input.map_or(Stdio::null(), Stdio::from));
    command.stdout(output(plan::OUTPUT)?).stderr(output(plan::COMPLAINTS)?);
    Ok(command)
}

/// The kernel's own tracer of block queues, copied to the host while the program runs.
struct Recording {
    /// Switches of the tracer, one for each disk.
    switches: Vec<String>,
    copier: std::thread::JoinHandle<io::Result<()>>,
    over: Arc<AtomicBool>,
}

impl Recording {
    fn start(kib: u32, disks: &[Disk]) -> Result<Recording, String> {
        let set = |name: &str, value: &str| {
            std::fs::write(format!("{TRACING}/{name}"), value)
                .map_err(|why| format!("cannot set {name} of the tracer to {value}: {why}"))
        };
        mounted("tracefs", TRACING, "tracefs", None)?;
        set("buffer_size_kb", &kib.to_string())?;
        // The default clock ticks every 10 ms here.
        set("trace_clock", "mono")?;
        set("options/blk_classic", "1")?;
        set("options/context-info", "0")?;
        set("current_tracer", "blk")?;
        let mut switches = Vec::new();
        for Disk { name, .. } in disks {
            let switch = format!("/sys/block/{name}/trace/enable");
            std::fs::write(format!("/sys/block/{name}/trace/act_mask"), "queue,complete,issue")
                .and_then(|()| std::fs::write(&switch, "1"))
                .map_err(|why| format!("cannot trace /dev/{name}: {why}"))?;
            switches.push(switch);
        }
        let mut from = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(format!("{TRACING}/trace_pipe"))
            .map_err(|why| format!("cannot read the tracer: {why}"))?;
        let path = Path::new(CONTROL).join(plan::QUEUE);
        let mut to = File::create(path).map_err(|why| format!("cannot write the queue: {why}"))?;
        let copier = std::thread::Builder::new().name("queue".into());
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let copier = copier.spawn(move || copy(&mut from, &mut to, &stop));
        let copier = copier.map_err(|why| format!("no thread for the queue: {why}"))?;
        Ok(Recording { switches, copier, over })
    }

    /// Returns how many events were lost.
    fn stop(self) -> Result<u64, String> {
        for switch in &self.switches {
            let _ = std::fs::write(switch, "0");
        }
        self.over.store(true, Ordering::SeqCst);
        match self.copier.join() {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(format!("cannot copy the queue: {why}")),
            Err(_) => return Err("the thread of the queue panicked".into()),
        }
        let stats = read(&format!("{TRACING}/per_cpu/cpu0/stats"));
        let of = |name: &str| {
            let line = stats.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim_start_matches(':').trim().parse::<u64>().ok())
        };
        Ok(of("overrun").unwrap_or(0) + of("dropped events").unwrap_or(0))
    }
}

fn copy(from: &mut File, to: &mut File, stop: &AtomicBool) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let last = stop.load(Ordering::SeqCst);
        match from.read(&mut buffer) {
            Ok(0) => {}
            Ok(bytes) => {
                to.write_all(&buffer[..bytes])?;
                continue;
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) => return Err(why),
        }
        if last {
            return to.sync_all();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }
}

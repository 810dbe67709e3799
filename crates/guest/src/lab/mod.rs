//! `snapshot-lab`: the first process of a guest that suspends itself, and, resumed, shows that
//! nothing of it was lost.

#![allow(clippy::print_stdout, reason = "nothing listens to it but a test, which is to fail")]

pub(crate) mod app;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use resume::checksum;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::policy::{self, After};
use crate::suspend::{self, Ended, Order};
use crate::swap;
use crate::{Why, cycles, first_process};
use app::App;

/// A file that is written before and after.
const LIFE: &str = "/mnt/life";
const TICK: Duration = Duration::from_millis(10);
/// What policies know from one suspend to the next.
const RECORD: &str = "/record";
/// How often the program works before the first suspend.
const TOUCHES_BEFORE: usize = 4;

/// The verb: `snapshot-lab KEY=VALUE...`.
pub(crate) fn verb(arguments: &[String]) -> Result<u8, String> {
    let told = lab(arguments);
    if let Err(why) = &told {
        println!("lab: error: {why}");
    }
    suspend::off()?;
    told.map(|()| 0)
}

fn lab(arguments: &[String]) -> Result<(), String> {
    let value =
        |key: &str| arguments.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let needed = |key: &str| value(key).ok_or_else(|| format!("expected {key}=VALUE"));
    let number = |key: &str| -> Result<usize, String> {
        needed(key)?.parse().map_err(|why| format!("{key}: {why}"))
    };
    let policy = policy::find(value("policy").unwrap_or("everything"))?;
    first_process::begin()?;
    let disk = |key: &str| value(key).map(appears).transpose();
    // Of the kernel's own way: the disk that its image goes to.
    let own = disk("own")?;
    if let Some(disk) = &own {
        swap::resume(disk)?;
    }
    // Open and not yet on its disk when the machine goes.
    let mut file = open(&appears(needed("mounted")?)?)?;
    writeln!(file, "before").map_err(|why| format!("{LIFE}: {why}"))?;
    let swap = disk("swap")?;
    if let Some(disk) = &swap {
        swap::make(disk)?;
        swap::on(disk)?;
    }
    let mut app = App::start(number("fill")?, number("hot")?)?;
    let nonce = checksum(&random(8)?);
    let digest = worked_with(&mut app)?;
    if let Some(target) = disk("prepare")? {
        suspend::prepare(&target).map_err(told_why)?;
    }
    let ticks = count_ticks();
    std::thread::sleep(10 * TICK);
    let told = |when: &str, digest: &str| {
        let ticks = ticks.load(Ordering::Relaxed);
        println!("lab: {when} {digest} nonce={nonce:08x} ticks={ticks} {}", own_things());
    };
    told("before", &digest);
    let packs = suspend::packs(value("compress").unwrap_or("none"))?;
    let order = Order { target: disk("target")?, policy, record: Some(RECORD.into()), packs };
    if order.policy.watches().is_some() {
        app.ask("work")?;
    } else if order.target.is_some() {
        println!("lab: dry run {}", suspend::dry_run(&order).map_err(told_why)?);
    }
    // What a resume touches is known once there was one; the kernel's own way has no use for it.
    let rounds = if order.policy.learns() && own.is_none() { 2 } else { 1 };
    for _ in 0..rounds {
        let ended = match &own {
            Some(disk) => swap::suspend(disk, order.policy.kernel_bytes())?,
            None => suspend::run(&order).map_err(told_why)?,
        };
        match ended {
            Ended::Written(report, _) => {
                println!("lab: image {report}");
                return Ok(());
            }
            Ended::Resumed(after) => {
                println!("lab: resumed cycles={} {}", cycles(), own_things());
                work(&mut app, swap.as_deref(), &after)?;
                after.keep();
            }
        }
    }
    writeln!(file, "after").map_err(|why| format!("{LIFE}: {why}"))?;
    drop(file);
    unmount("/mnt", UnmountFlags::empty()).map_err(|why| format!("/mnt: {why}"))?;
    std::thread::sleep(10 * TICK);
    told("after", &app.ask("digest")?);
    Ok(())
}

fn told_why(why: Why) -> String {
    why.to_string()
}

/// The program works some times; the digest of its memory.
fn worked_with(app: &mut App) -> Result<String, String> {
    let digest = app.ask("digest")?;
    for _ in 0..TOUCHES_BEFORE {
        app.ask("touch")?;
    }
    Ok(digest)
}

/// The program works again, with what it worked with before.
fn work(app: &mut App, swap: Option<&Path>, after: &After) -> Result<(), String> {
    let (began, faults) = (cycles(), app.major_faults()?);
    let reads = swap.map(swap::reads).transpose()?;
    after.fetch();
    let answer = app.ask("touch")?;
    let faults = app.major_faults()? - faults;
    let reads = match (reads, swap) {
        (Some(before), Some(disk)) => swap::reads(disk)? - before,
        _ => 0,
    };
    let all = cycles() - began;
    println!("lab: worked {answer} all_cycles={all} major_faults={faults} swap_reads={reads}");
    Ok(())
}

/// Where a disk is, whose driver may still look for it: a path, or the serial number of an NVMe or
/// SATA drive.
fn appears(disk: &str) -> Result<PathBuf, String> {
    for _ in 0..500 {
        let path = match disk.strip_prefix("serial:") {
            Some(serial) => nvme(serial).or_else(|| sata(serial)),
            None => Some(disk.into()),
        };
        if let Some(path) = path.filter(|path| path.exists()) {
            return Ok(path);
        }
        std::thread::sleep(TICK);
    }
    Err(format!("{disk}: no such disk"))
}

fn nvme(serial: &str) -> Option<PathBuf> {
    let drives = fs::read_dir("/sys/class/nvme").ok()?.flatten();
    let has = |drive: &fs::DirEntry| {
        fs::read_to_string(drive.path().join("serial")).is_ok_and(|text| text.trim() == serial)
    };
    let drive = drives.into_iter().find(has)?;
    Some(Path::new("/dev").join(format!("{}n1", drive.file_name().display())))
}

/// What two machines that come from one image must not have in common: the next random number,
/// and the time.
fn own_things() -> String {
    let mut next = [0; 8];
    let random = rustix::rand::getrandom(&mut next, rustix::rand::GetRandomFlags::empty());
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let next = random.map_or(0, |_| u64::from_le_bytes(next));
    format!("random={next:016x} time={:.3}", time.as_secs_f64())
}

/// The verb `cycles`.
pub(crate) fn count(_: &[String]) -> Result<u8, Why> {
    println!("cycles={}", cycles());
    Ok(0)
}

/// A SATA drive tells its serial number in a page of its own, behind four bytes.
fn sata(serial: &str) -> Option<PathBuf> {
    let disks = fs::read_dir("/sys/class/block").ok()?.flatten();
    let has = |disk: &fs::DirEntry| {
        let page = fs::read(disk.path().join("device/vpd_pg80")).unwrap_or_default();
        page.get(4..).is_some_and(|told| told.trim_ascii() == serial.as_bytes())
    };
    let disk = disks.into_iter().find(has)?;
    Some(Path::new("/dev").join(disk.file_name()))
}

/// Mount the file system of a disk, and make a file in it.
fn open(disk: &Path) -> Result<File, String> {
    let _ = fs::create_dir("/mnt");
    mount(disk, "/mnt", "ext4", MountFlags::empty(), None)
        .map_err(|why| format!("{}: {why}", disk.display()))?;
    File::create(LIFE).map_err(|why| format!("{LIFE}: {why}"))
}

/// Bytes that nobody can guess, nor compress.
fn random(bytes: usize) -> Result<Vec<u8>, String> {
    let mut out = vec![0; bytes];
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .map_err(|why| format!("random numbers: {why}"))?;
    let mut state = u64::from_le_bytes(seed) | 1;
    for place in out.chunks_mut(8) {
        // xorshift64: unlike any other page is all that matters.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        place.copy_from_slice(&state.to_le_bytes()[..place.len()]);
    }
    Ok(out)
}

/// A thread that counts, beside the one that suspends.
fn count_ticks() -> Arc<AtomicU64> {
    let ticks = Arc::new(AtomicU64::new(0));
    let counted = ticks.clone();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(TICK);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    ticks
}

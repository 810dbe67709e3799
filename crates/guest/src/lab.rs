//! `snapshot-lab`: the first process of a guest that suspends itself, and, resumed, shows that
//! nothing of it was lost.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use resume::checksum;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::suspend::{self, Ended, Order};
use crate::swap;

/// Where the guest's modules are, in the order in which they must be loaded.
const MODULES: &str = "/modules";
/// A file that is written before and after.
const LIFE: &str = "/mnt/life";
const TICK: Duration = Duration::from_millis(10);

/// The verb: `snapshot-lab TARGET MOUNTED MIB [BYTES]`. TARGET is a disk for an image of ours, or
/// `swap:` and one for the kernel's own.
pub(crate) fn verb(arguments: &[String]) -> Result<u8, String> {
    let told = lab(arguments);
    if let Err(why) = &told {
        println!("lab: error: {why}");
    }
    suspend::off()?;
    told.map(|()| 0)
}

fn lab(arguments: &[String]) -> Result<(), String> {
    let [target, mounted, mib, rest @ ..] = arguments else {
        return Err("expected TARGET, a disk with an ext4, and MiB of memory to fill".into());
    };
    let mib: usize = mib.parse().map_err(|why| format!("`{mib}`: {why}"))?;
    let bytes_max = match rest {
        [bytes, ..] => Some(bytes.parse().map_err(|why| format!("`{bytes}`: {why}"))?),
        [] => None,
    };
    begin()?;
    let swap = target.strip_prefix("swap:").map(Path::new);
    if let Some(disk) = swap {
        swap::resume(disk)?;
    }
    // Open and not yet on its disk when the machine goes.
    let mut file = open(mounted)?;
    writeln!(file, "before").map_err(|why| format!("{LIFE}: {why}"))?;
    let memory = random(mib << 20)?;
    let nonce = random(8)?;
    let before = (checksum(&memory), checksum(&nonce));
    let ticks = count_ticks();
    std::thread::sleep(10 * TICK);
    let ticked = ticks.load(Ordering::Relaxed);
    println!("lab: before digest={:08x} nonce={:08x} ticks={ticked}", before.0, before.1);
    let order = Order { target: Some(target.into()), bytes_max };
    let ended = match swap {
        Some(disk) => swap::suspend(disk, bytes_max)?,
        None => suspend::run(&order)?,
    };
    match ended {
        Ended::Written(report) => println!("lab: image {report}"),
        Ended::Resumed => {
            println!("lab: resumed cycles={}", cycles());
            writeln!(file, "after").map_err(|why| format!("{LIFE}: {why}"))?;
            drop(file);
            unmount("/mnt", UnmountFlags::empty()).map_err(|why| format!("/mnt: {why}"))?;
            std::thread::sleep(10 * TICK);
            let after = (checksum(&memory), checksum(&nonce));
            let now = ticks.load(Ordering::Relaxed);
            println!("lab: after digest={:08x} nonce={:08x} ticks={now}", after.0, after.1);
        }
    }
    Ok(())
}

/// The processor's clock, which counts instructions where a machine runs by them.
fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Mount the file system of a disk, and make a file in it.
fn open(disk: &str) -> Result<File, String> {
    let _ = fs::create_dir("/mnt");
    mount(disk, "/mnt", "ext4", MountFlags::empty(), None)
        .map_err(|why| format!("{disk}: {why}"))?;
    File::create(LIFE).map_err(|why| format!("{LIFE}: {why}"))
}

/// Mount what the tools need, and load the modules.
fn begin() -> Result<(), String> {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        let _ = fs::create_dir(place);
        mount(kind, place, kind, MountFlags::empty(), None)
            .map_err(|why| format!("{place}: {why}"))?;
    }
    let console = File::options().write(true).open("/dev/console");
    let console = console.map_err(|why| format!("/dev/console: {why}"))?;
    rustix::stdio::dup2_stdout(&console).map_err(|why| format!("/dev/console: {why}"))?;
    let mut modules: Vec<_> = match fs::read_dir(MODULES) {
        Ok(folder) => folder.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    modules.sort();
    modules.iter().try_for_each(|module| load(module))
}

fn load(module: &Path) -> Result<(), String> {
    let told = |why: String| format!("{}: {why}", module.display());
    let file = File::open(module).map_err(|why| told(why.to_string()))?;
    match rustix::system::finit_module(&file, &CString::default(), 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(why) => Err(told(why.to_string())),
    }
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

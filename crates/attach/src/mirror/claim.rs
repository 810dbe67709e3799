//! A device belongs to one server: by a lock on it, and on the file under a loop device. Two loop
//! devices of one file, its partitions, or one and the file itself, are the same device. A loop
//! device that is made of a device's file is held, too, so that nobody mounts it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock, major, minor, statfs};
use study::Failure;

use crate::{exclusive, holders, loops};

/// A start waits so long for what the kernel does for a server that was killed.
const PATIENCE: Duration = Duration::from_secs(5);
/// The kernel forgets a lock a moment before the rest of its file, such as the claim of a block
/// device.
const LETTING_GO: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);
/// `statfs` has this of a btrfs, whose files say another device than its locks do.
const BTRFS: u64 = 0x9123_683e;

/// Why a device cannot be had.
pub(super) enum Unclaimed {
    Unusable(io::Error),
    Held(Failure),
}

/// Open a device and lock it for this server alone, with all that is under it. What is returned
/// beside it must stay open as long as the device.
///
/// Whoever was killed holds its devices until the kernel has done what it was given: a write that
/// lands after the recovery has looked there would undo what that decided. So it is waited for.
pub(super) fn claim(
    path: &Path,
    open: impl Fn() -> io::Result<File>,
) -> Result<(File, Vec<File>), Unclaimed> {
    let file = patiently((path, "it"), path, || open().and_then(locked))?;
    let mut claimed = Vec::new();
    let mut device = file.metadata().ok();
    if device.as_ref().is_some_and(Metadata::is_file) {
        claimed.extend(held_above(path, None)?);
    }
    while let Some((below, found)) = device.as_ref().and_then(loops::below) {
        // Who may use the loop device but not its file cannot lock it.
        let Ok(file) = OpenOptions::new().read(true).open(&below) else { break };
        let by = format!("{}, which it is made of", below.display());
        claimed.push(patiently((path, &by), &below, || file.try_clone().and_then(locked))?);
        claimed.extend(held_above(&below, device.as_ref().and_then(loops::name).as_deref())?);
        device = Some(found);
    }
    Ok((file, claimed))
}

fn held_above(file: &Path, own: Option<&str>) -> Result<Vec<File>, Unclaimed> {
    exclusive::hold_above(file, own).map_err(Unclaimed::Held)
}

fn locked(file: File) -> io::Result<File> {
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Take the file `held`, unless it belongs to whoever lives.
fn patiently(
    (path, what): (&Path, &str),
    held: &Path,
    take: impl Fn() -> io::Result<File>,
) -> Result<File, Unclaimed> {
    let shown = path.display();
    let began = Instant::now();
    // Who was killed and held it, and when that was seen.
    let mut gone: Option<(u32, Instant)> = None;
    loop {
        let why = match take() {
            Ok(file) => return Ok(file),
            Err(why) => why,
        };
        if !matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::ResourceBusy) {
            return Err(Unclaimed::Unusable(why));
        }
        let holder = holder_of(held);
        if let Some(Holder::Gone(process)) = holder {
            gone = Some((process, Instant::now()));
        }
        // Nobody holds it, or its line was missed: the kernel forgets where it was in the list of
        // locks when others let go of theirs while it is read.
        let quiet = gone.map_or(began, |(_, seen)| seen).elapsed();
        match (gone, holder) {
            (Some((process, _)), Some(Holder::Gone(_)) | None) if began.elapsed() >= PATIENCE => {
                let text = format!(
                    "{shown} has not yet done what process {process} gave it, which was killed"
                );
                let help = "start again when it has answered, or go on without it: --without NAME";
                return Err(Unclaimed::Held(Failure::machine(text).help(help)));
            }
            (_, Some(Holder::Gone(_))) => std::thread::sleep(POLL),
            (_, None) if quiet < LETTING_GO => std::thread::sleep(POLL),
            _ if why.kind() == ErrorKind::ResourceBusy => {
                let users = holders::of(path);
                if users.is_empty() {
                    return Err(Unclaimed::Unusable(why));
                }
                let text = format!("{shown} is in use: {}", users.join("; "));
                let help = "stop that one first, if it is the right device";
                return Err(Unclaimed::Held(Failure::input(text).help(help)));
            }
            (_, holder) => {
                let user = match holder {
                    Some(Holder::Lives(process)) => user(process, what),
                    _ => format!("somebody has locked {what}"),
                };
                let text = format!("{shown} is in use: {user}");
                return Err(Unclaimed::Held(Failure::input(text).help("stop that one first")));
            }
        }
    }
}

/// Who locked a file.
enum Holder {
    /// This process, which is there.
    Lives(u32),
    /// It was this process, which is no more.
    Gone(u32),
}

/// What a process does that has locked a device, or what it is made of.
fn user(process: u32, what: &str) -> String {
    let of = |name| std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    told(process, &of("cmdline"), &of("comm"), what)
}

fn told(process: u32, command: &str, name: &str, what: &str) -> String {
    let words: Vec<&str> = command.split('\0').collect();
    match words.windows(2).any(|pair| pair == ["mirror", "serve"]) {
        true => format!("another mirror serves {what}"),
        false => format!("{} (process {process}) has locked {what}", name.trim()),
    }
}

fn holder_of(path: &Path) -> Option<Holder> {
    let found = std::fs::metadata(path).ok()?;
    let (device, inode) = (found.dev(), found.ino());
    let device = (statfs(path).ok()?.f_type as u64 != BTRFS).then_some(device);
    let locks = locks().ok()?;
    // Without a device, another file may have that number, too.
    let holders: Vec<u32> = locks.lines().filter_map(|line| holder(line, device, inode)).collect();
    let lives = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    };
    if let Some(&process) = holders.iter().find(|process| lives(process)) {
        return Some(Holder::Lives(process));
    }
    holders.first().copied().map(Holder::Gone)
}

/// `/proc/locks`, in as few pieces as the kernel gives it: between two of them lines go missing.
fn locks() -> io::Result<String> {
    let mut text = String::with_capacity(1 << 20);
    File::open("/proc/locks")?.read_to_string(&mut text)?;
    Ok(text)
}

/// Who has the lock of a line of `/proc/locks`, if it is an exclusive one of that inode, of any
/// device if none is known.
fn holder(line: &str, device: Option<u64>, inode: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, "WRITE", process, place, ..] = words[..] else { return None };
    let (of, number) = place.rsplit_once(':')?;
    let same = device.is_none_or(|id| of == format!("{:02x}:{:02x}", major(id), minor(id)));
    let found = same && number.parse() == Ok(inode);
    found.then(|| process.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_locked_a_device_is_named() {
        let serves = "/usr/bin/blocklab\0mirror\0serve\0--fast\0a\0";
        assert_eq!(told(7, serves, "blocklab\n", "it"), "another mirror serves it");
        let copies = told(7, "flock\0a\0cp\0mirror\0", "flock\n", "a, which it is made of");
        assert_eq!(copies, "flock (process 7) has locked a, which it is made of");
        let path = std::env::temp_dir().join(format!("blocklab-claim-{}", std::process::id()));
        let _locked = locked(File::create(&path).unwrap()).ok().unwrap();
        let claimed = claim(&path, || OpenOptions::new().read(true).write(true).open(&path));
        std::fs::remove_file(&path).unwrap();
        let Err(Unclaimed::Held(failure)) = claimed else { panic!("it is had twice") };
        let by = format!("(process {}) has locked it", std::process::id());
        assert!(failure.message.ends_with(&by), "{}", failure.message);
    }

    #[test]
    fn a_line_of_locks_names_its_holder() {
        let line = |kind, inode| format!("1: FLOCK  ADVISORY  {kind} 4077 00:1f:{inode} 0 EOF");
        let device = Some(rustix::fs::makedev(0, 0x1f));
        assert_eq!(holder(&line("WRITE", 7), device, 7), Some(4077));
        assert_eq!(holder(&line("WRITE", 7), None, 7), Some(4077));
        assert_eq!(holder(&line("WRITE", 71), device, 7), None);
        assert_eq!(holder(&line("READ", 7), device, 7), None);
        // A file of another file system with the same number: memory's begin at 1.
        assert_eq!(holder(&line("WRITE", 7), Some(rustix::fs::makedev(0, 0x20)), 7), None);
        // Who waits for a lock has none.
        let waits = "1: -> FLOCK  ADVISORY  WRITE 4077 00:1f:7 0 EOF";
        assert_eq!(holder(waits, None, 7), None);
    }
}

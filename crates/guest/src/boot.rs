//! `boot`: as the first process of an initramfs, mount a root file system and become the recorder
//! that is its process 1. What that needs beside the root lies in memory.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_move, unmount};

use crate::record::{now_ns, tell};
use crate::{enter, first_process};

/// The serial number of the disk that the record is written to; the other one is the root.
pub const RECORD_SERIAL: &str = "blocklab-record";
/// A list of files to read ahead, in the initramfs.
const LIST: &str = "/read-ahead";
const ROOT: &str = "/new-root";
const INIT: &str = "/sbin/init";
/// What is mounted before the root, and moves into it.
const MOVED: [&str; 3] = ["dev", "proc", "sys"];
/// How often a disk is looked for whose driver may still do so, and how long.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOOKS: usize = 1000;

/// Options of `record`, one a line, in the initramfs: a kernel's command line is short.
const OPTIONS: &str = "/record";

/// The verb.
pub(super) fn run(_: &[String]) -> Result<u8, String> {
    let why = first_process::begin().and_then(|()| {
        let text = fs::read_to_string(OPTIONS).map_err(|why| format!("{OPTIONS}: {why}"))?;
        enter_root(&text.lines().map(String::from).collect::<Vec<_>>())
    });
    let why = why.err().unwrap_or_else(|| "the recorder did not start".into());
    // The kernel panics when its first process ends; this says of what.
    tell(&format!("error: {why}"));
    Err(why)
}

/// Only a failure returns.
fn enter_root(arguments: &[String]) -> Result<(), String> {
    let value = |option: &str| {
        let at = arguments.iter().position(|word| word == option)?;
        arguments.get(at + 1)
    };
    let unit = value("--until").ok_or("expected --until UNIT")?;
    let began = now_ns();
    tell(&format!("initramfs at {began}"));
    let record = disk(|serial| serial == RECORD_SERIAL)?;
    let disk = disk(|serial| serial != RECORD_SERIAL)?;
    // What was read is told by when it was.
    let reads = value("--files").is_some_and(|value| value == "yes");
    let flags = if reads { MountFlags::STRICTATIME } else { MountFlags::empty() };
    fs::create_dir_all(ROOT).map_err(|why| format!("{ROOT}: {why}"))?;
    mount(&disk, ROOT, "ext4", flags, None).map_err(|why| format!("{}: {why}", disk.display()))?;
    let mounted = now_ns();
    let root = Path::new(ROOT);
    // A link may lead to a place of the root's own.
    if root.join(&INIT[1..]).symlink_metadata().is_err() {
        return Err(format!("the root has no {INIT}"));
    }
    let in_memory = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", root.join("run"), "tmpfs", in_memory, Some(c"mode=755"))
        .map_err(|why| format!("/run: {why}"))?;
    let unwritable = |why| format!("/run: {why}");
    let program = enter::tell(root, unit).map_err(unwritable)?;
    if Path::new(LIST).exists() {
        enter::read_ahead(root, Path::new(LIST)).map_err(unwritable)?;
    }
    let masked = arguments.windows(2).filter(|pair| pair[0] == "--mask");
    enter::mask(root, masked.map(|pair| pair[1].as_str()))?;
    switch_to(root)?;
    let mut command = Command::new(&program);
    command.arg("record").args(["--tell", "yes", "--to"]).arg(record);
    for (name, at) in [("initramfs", began), ("root mounted", mounted)] {
        command.arg("--milestone").arg(format!("{name}={at}"));
    }
    command.args(arguments).args(["--", INIT]);
    Err(format!("cannot run {}: {}", program.display(), command.exec()))
}

/// Make `root` what all see as the root.
fn switch_to(root: &Path) -> Result<(), String> {
    // Memory that the initramfs took is the guest's again.
    let _ = fs::remove_dir_all(first_process::MODULES);
    // Systemd mounts it with options of its own.
    let _ = unmount("/sys/fs/cgroup", UnmountFlags::empty());
    for name in MOVED {
        let (from, to) = (Path::new("/").join(name), root.join(name));
        let _ = fs::create_dir(&to);
        mount_move(&from, &to).map_err(|why| format!("/{name}: {why}"))?;
    }
    std::env::set_current_dir(root).map_err(|why| format!("{ROOT}: {why}"))?;
    mount_move(".", "/").map_err(|why| format!("{ROOT}: {why}"))?;
    rustix::process::chroot(".").map_err(|why| format!("{ROOT}: {why}"))?;
    std::env::set_current_dir("/").map_err(|why| format!("/: {why}"))
}

/// The disk of virtio whose serial number is the one that is looked for.
fn disk(is_wanted: impl Fn(&str) -> bool) -> Result<PathBuf, String> {
    for _ in 0..LOOKS {
        let entries = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
        let found = entries.map(|entry| entry.path()).find(|path| {
            fs::read_to_string(path.join("serial")).is_ok_and(|text| is_wanted(text.trim()))
        });
        let name = found.as_deref().and_then(Path::file_name);
        if let Some(path) = name.map(|name| Path::new("/dev").join(name))
            && path.exists()
        {
            return Ok(path);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err("a disk did not appear: is its driver, virtio_blk, among the modules?".into())
}

//! The same on block devices, past the page cache.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;

/// Loop devices, under the names of legs in a folder.
struct Loops {
    folder: Folder,
    devices: Vec<String>,
}

impl Loops {
    /// `None` where nobody may make them.
    fn new() -> Option<Loops> {
        if !have(&["losetup"]) {
            return None;
        }
        let mut loops = Loops { folder: Folder::new(), devices: Vec::new() };
        for name in ["fast", "slow"] {
            let file = format!("{name}.img");
            blank(&loops.folder, &file);
            let path = loops.folder.path(&file);
            let made = Command::new("losetup").args(["--find", "--show"]).arg(path).output();
            let device = made.ok().filter(|made| made.status.success());
            let Some(device) = device.and_then(|made| String::from_utf8(made.stdout).ok()) else {
                skip("loop", "no loop device may be made");
                return None;
            };
            loops.devices.push(device.trim().into());
            symlink(device.trim(), loops.folder.path(name)).unwrap();
        }
        Some(loops)
    }

    fn made(args: &[&str]) -> Option<Loops> {
        let loops = Loops::new()?;
        let output = run(&loops.folder, "create", &[LEGS, args]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(loops)
    }

    fn resize_slow(&self, bytes: u64) {
        let image = OpenOptions::new().write(true).open(self.folder.path("slow.img")).unwrap();
        image.set_len(bytes).unwrap();
        let told = Command::new("losetup").args(["--set-capacity", &self.devices[1]]).status();
        assert!(told.unwrap().success());
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.devices {
            // A partition that was added by hand stays with the number of the device.
            let mut delete = Command::new("delpart");
            let _ = delete.args([device, "1"]).stderr(Stdio::null()).status();
            // And so does that it may only be read.
            let _ = Command::new("blockdev").args(["--setrw", device]).status();
            // What cannot be undone here is seen by whoever looks for leftovers.
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    let Some(loops) = Loops::made(&[]) else { return };
    fio_verifies(&loops.folder);
}

#[test]
fn what_was_flushed_survives_kill_9() {
    for mode in ["log", "relaxed", "strict"] {
        let Some(loops) = Loops::made(&["--mode", mode]) else { return };
        survives_kill_9(&loops.folder, mode, 3);
    }
}

/// A leg that shrinks to almost nothing: an error of each request, not of the mirror.
#[test]
fn a_leg_that_shrinks_is_left_out() {
    let Some(loops) = Loops::made(&[]) else { return };
    let folder = &loops.folder;
    let mut session = serve(folder, &[]);
    let mut client = Client::new(&folder.path("s.sock"));
    loops.resize_slow(1 << 20);
    assert_eq!(client.write(1 << 20, &[1; 65536]), 0);
    assert_eq!(client.flush(), 0);
    until("the leg is out", || live(folder)["states"][1] == "out");
    assert_eq!(client.read(1 << 20, 65536).unwrap(), [1; 65536]);
    session.end();
}

/// Holds a file so that whoever opens it waits, as in a device that hangs, and says so.
const HOLD: &str = r"
import fcntl, signal, sys
signal.alarm(60)
signal.signal(signal.SIGIO, lambda *_: print('asked', flush=True))
held = open(sys.argv[1], 'r+b')
fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
sys.stdin.readline()
";

/// Nobody but who asked for it waits while a device that was left out is opened.
#[test]
fn a_device_that_hangs_when_it_is_taken_back_holds_up_nobody() {
    let Some(loops) = Loops::made(&[]).filter(|_| have(&["python3"])) else { return };
    let folder = &loops.folder;
    let mut session = serve(folder, &[]);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(0, &[1; 65536]), 0);
    assert_eq!(client.flush(), 0);
    std::fs::copy(folder.path("slow.img"), folder.path("copy")).unwrap();
    let told = Command::new("blockdev").args(["--setro", &loops.devices[1]]).status();
    assert!(told.unwrap().success());
    assert_eq!(client.write(1 << 20, &[2; 65536]), 0);
    assert_eq!(client.flush(), 0);
    until("the leg is out", || live(folder)["states"][1] == "out");

    std::fs::rename(folder.path("copy"), folder.path("slow")).unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", HOLD]).arg(folder.path("slow"));
    let mut holder = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut says = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert_eq!(says.next().unwrap().unwrap(), "held");
    std::thread::scope(|scope| {
        let resync = ["slow", "--control", "c.sock"];
        let taken_back = scope.spawn(move || run(folder, "resync", &[&resync]));
        assert_eq!(says.next().unwrap().unwrap(), "asked");
        assert_eq!(client.write(2 << 20, &[3; 65536]), 0);
        assert_eq!(live(folder)["states"][1], "out");
        refused(&run(folder, "resync", &[&resync]), &["is being taken back"]);
        drop(holder.stdin.take());
        let output = taken_back.join().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "slow is taken back\n", "{output:?}");
    });
    holder.wait().unwrap();
    until("the leg is a member", || live(folder)["states"][1] == "member");
    session.end();
    alike(folder);
}

/// The file of a loop device and another loop device of it are the same device.
#[test]
fn a_file_is_served_once_under_whichever_loop_device() {
    let Some(loops) = Loops::made(&[]) else { return };
    let folder = &loops.folder;
    let file = folder.path("fast.img");
    let again = Command::new("losetup").args(["--find", "--show"]).arg(file).output().unwrap();
    assert!(again.status.success());
    let again = String::from_utf8(again.stdout).unwrap().trim().to_string();
    let _detach = Loops { folder: Folder::new(), devices: vec![again.clone()] };
    let session = serve(folder, &[]);
    for (fast, words) in [("fast.img", "is in use"), (&again[..], "fast.img, which it is made of")]
    {
        let other = ["--fast", fast, "--slow", "slow.img", "--run", "true"];
        refused(&run(folder, "serve", &[&other]), &[words, "stop that one first"]);
        let other = ["--fast", fast, "--slow", "slow", "--overwrite", fast];
        refused(&run(folder, "create", &[&other]), &["is in use"]);
    }
    drop(session);
    // Nor may one mirror have it twice.
    for slow in ["fast.img", &again] {
        let twice = ["--fast", "fast", "--slow", slow];
        refused(&run(folder, "serve", &[&twice]), &["--fast and --slow are both"]);
    }
    let mut files =
        folder.session(&[SERVE, &["--fast", "fast.img", "--slow", "slow.img"]].concat());
    refused(&run(folder, "serve", &[LEGS]), &["is in use", "fast.img, which it is made of"]);
    files.end();
}

/// Its partitions are parts of that file, too.
#[test]
fn a_partition_of_a_loop_device_is_the_same_device() {
    let Some(loops) = Loops::new() else { return };
    let folder = &loops.folder;
    // Not every kernel looks for a table of partitions on these.
    let part = "addpart $1 1 2048 131072 && n=$(basename $1) && \
                mknod part b $(tr : ' ' < /sys/block/$n/${n}p1/dev) && \
                losetup --find --show --offset 1M whole";
    let file = File::create(folder.path("whole")).unwrap();
    file.set_len(80 << 20).unwrap();
    let mut more = Loops { folder: Folder::new(), devices: Vec::new() };
    let shell = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        let done = command.args(&words[1..]).current_dir(&folder.0).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_string()
    };
    let device = shell(&["losetup", "--find", "--show", "whole"]);
    more.devices.push(device.clone());
    more.devices.push(shell(&["sh", "-c", part, "sh", &device]));
    // A part of it and the whole of it are one.
    let twice = ["--fast", "part", "--slow", "whole"];
    refused(&run(folder, "create", &[&twice]), &["--fast and --slow are both"]);
    let legs = ["--fast", "part", "--slow", "slow"];
    assert!(run(folder, "create", &[&legs]).status.success());
    let mut served = folder.session(&[SERVE, &legs].concat());
    for other in [&more.devices[1], &device, "whole"] {
        let again = ["--fast", other, "--slow", "slow", "--without", "slow"];
        refused(&run(folder, "serve", &[&again, &["--run", "true"]]), &["is in use"]);
        let destroy = [&again[..], &["--yes-destroy", "00000000"]].concat();
        refused(&run(folder, "destroy", &[&destroy]), &["is in use"]);
    }
    served.end();
}

/// The kernel gives a mounted device to nobody else, but its file to everybody.
#[test]
fn a_file_that_is_mounted_by_a_loop_device_is_not_written_to() {
    if !have(&["mkfs.ext4", "mount"]) {
        return;
    }
    let Some(loops) = Loops::new() else { return };
    let folder = &loops.folder;
    // As large as the part that it is tried as data of.
    File::create(folder.path("fast.img")).unwrap().set_len(512 << 20).unwrap();
    let script = "losetup -c $1 && mkfs.ext4 -q $1 && mkdir m && mount $1 m";
    let mut command = Command::new("sh");
    let mounted = command.args(["-c", script, "sh", &loops.devices[0]]).current_dir(&folder.0);
    if !mounted.output().unwrap().status.success() {
        return skip("mount", "a loop device may not be mounted");
    }
    let words = ["fast.img is in use", "which is made of it: it is mounted on"];
    let legs = ["--fast", "fast.img", "--slow", "slow.img"];
    let create = run(folder, "create", &[&legs, &["--overwrite", "fast.img"]]);
    let attach = folder.captive(&["part.toml", "--data", "fast.img"], "true");
    let unmounted = Command::new("umount").arg(folder.path("m")).status().unwrap();
    assert!(unmounted.success());
    refused(&create, &words);
    assert_eq!(attach.code, Some(2), "{}", attach.stderr);
    assert!(words.iter().all(|word| attach.stderr.contains(word)), "{}", attach.stderr);
    let fsck = Command::new("e2fsck").args(["-fn", &loops.devices[0]]).output().unwrap();
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stdout));
}

/// Whoever writes to the file that a loop device is made of uses the device.
#[test]
fn a_probe_does_not_overwrite_what_lies_under_a_loop_device() {
    if !have(&["fio"]) {
        return;
    }
    let Some(loops) = Loops::made(&[]) else { return };
    let (folder, device) = (&loops.folder, &loops.devices[1][..]);
    let files = ["--fast", "fast.img", "--slow", "slow.img"];
    let mut served = folder.session(&[SERVE, &files].concat());
    let mut client = Client::new(&folder.path("s.sock"));
    let probe = ["calibrate", "probe", "--device", device, "--overwrite", device, "--out", "p"];
    refused(&folder.blocklab(&probe), &["is in use", "slow.img, which it is made of: blocklab"]);
    assert_eq!(client.write(0, &[1; 4096]), 0);
    served.end();
}

#[test]
fn a_probe_holds_the_drive_that_it_measures() {
    use std::os::unix::fs::OpenOptionsExt;
    let Some(loops) = Loops::new() else { return };
    let (folder, device) = (&loops.folder, &loops.devices[1][..]);
    let fio = "#!/bin/sh\ncase $1 in --version) echo fio-3; exit;; --enghelp*) exit; esac\n\
               echo $$ > pid\nexec sleep 1000\n";
    std::fs::write(folder.path("fio"), fio).unwrap();
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path("fio"), runs).unwrap();
    std::fs::write(folder.path("pid"), "").unwrap();
    let mut probe = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    probe.args(["calibrate", "probe", "--fio", "./fio", "--out", "p"]);
    probe.args(["--device", device, "--overwrite", device]).current_dir(folder.path(""));
    let mut probe = probe.spawn().unwrap();
    until("fio runs", || !std::fs::read_to_string(folder.path("pid")).unwrap().is_empty());
    // As who mounts it, swaps on it or makes a volume of it asks for it, and as fio does.
    const O_EXCL: i32 = 0o200;
    let open = |flags| std::fs::File::options().write(true).custom_flags(flags).open(device);
    let (for_itself, beside) = (open(O_EXCL).map(drop), open(0).map(drop));
    let id = probe.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    probe.wait().unwrap();
    let busy = for_itself.map_err(|why| why.kind());
    assert_eq!((busy, beside.is_ok()), (Err(std::io::ErrorKind::ResourceBusy), true));
}

/// Two modelled disks as legs, and a mirror of them.
struct Disks {
    folder: Folder,
    session: Session,
}

impl Disks {
    fn new() -> Option<Disks> {
        Loops::new()?;
        let folder = Folder::new();
        let parts = ["fast=part.toml", "slow=part.toml", "--as", "loop", "--control", "a.ctl"];
        let session = folder.serve(&parts);
        // A busy machine is told of before them.
        let devices = session.said.lines().filter(|line| line.starts_with("/dev/"));
        for (device, name) in devices.zip(["fast", "slow"]) {
            symlink(device, folder.path(name)).unwrap();
        }
        let create = run(&folder, "create", &[LEGS, &["--mode", "strict", "--size", "16MiB"]]);
        assert!(create.status.success(), "{}", String::from_utf8_lossy(&create.stderr));
        Some(Disks { folder, session })
    }

    fn ctl(&self, words: &[&str]) {
        let done = self.folder.blocklab(&[&["attach", "ctl", "a.ctl"], words].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

/// What the kernel still does for a server that was killed would land behind the next recovery.
#[test]
fn a_start_waits_for_what_a_killed_server_had_asked_for() {
    let Some(mut disks) = Disks::new() else { return };
    let folder = &disks.folder;
    let mut server = serve(folder, &[]);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(1 << 20, &[1; 4096]), 0);
    disks.ctl(&["inject", "hang", "op=write", "count=1", "export=fast"]);
    let head = Client::request(1, 1 << 20, 4096);
    client.stream.write_all(&[&head[..], &[2; 4096]].concat()).unwrap();
    let device = std::fs::read_link(folder.path("fast")).unwrap();
    let name = device.file_name().unwrap().to_str().unwrap().to_owned();
    let inflight = format!("/sys/block/{name}/inflight");
    let hangs = || std::fs::read_to_string(&inflight).unwrap().trim().ends_with('1');
    until("the write hangs", hangs);
    server.signal("KILL");
    assert_eq!(server.ended(), None);
    assert!(hangs(), "the write went with its server");
    // The kernel's list of locks is not read whole while others let go of theirs.
    let over = AtomicBool::new(false);
    let early = std::thread::scope(|scope| {
        for number in 0..2 {
            let file = File::create(folder.path(&format!("lock{number}"))).unwrap();
            let over = &over;
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    file.lock().and_then(|()| file.unlock()).unwrap();
                }
            });
        }
        let early = run(folder, "serve", &[LEGS, &["--run", "true"]]);
        over.store(true, Relaxed);
        early
    });
    let said = String::from_utf8_lossy(&early.stderr).into_owned();
    assert_eq!(early.status.code(), Some(3), "{said}");
    assert!(said.contains("has not yet done what process"), "{said}");
    disks.ctl(&["lift", "all"]);
    serve(folder, &[]).end();
    let written = |name: &str| {
        let mut data = vec![0; 64 << 20];
        File::open(folder.path(name)).unwrap().read_exact_at(&mut data, 0).unwrap();
        let ours = |page: &[u8]| [1, 2].into_iter().find(|&value| page == [value; 4096]);
        let pages = data.chunks(4096).map(ours).enumerate();
        pages.filter_map(|(at, value)| Some((at, value?))).collect::<Vec<_>>()
    };
    assert_eq!(written("fast").len(), 1);
    assert_eq!(written("fast"), written("slow"));
    disks.session.end();
}

#[test]
fn a_start_that_waits_for_a_device_names_it_and_is_interrupted() {
    use std::io::{BufRead, BufReader};
    let Some(mut disks) = Disks::new() else { return };
    disks.ctl(&["inject", "hang", "export=slow"]);
    let mut command = disks.folder.command(&[&["mirror", "serve"], LEGS].concat());
    let mut start = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(start.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    assert!(first.contains("waits for slow now"), "{first}");
    crate::support::signal(start.id(), "INT");
    let last = lines.next().unwrap();
    assert!(last.contains("interrupted before the mirror had started"), "{last}");
    disks.ctl(&["lift", "all"]);
    assert_eq!(start.wait().unwrap().code(), Some(3));
    serve(&disks.folder, &[]).end();
    disks.session.end();
}

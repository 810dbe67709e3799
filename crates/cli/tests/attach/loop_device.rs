//! A block device of this machine.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Folder, have, skip, until};

/// True when this machine lets us have loop devices; otherwise says why the test is skipped.
fn able(folder: &Folder) -> bool {
    let done = folder.captive(&["part.toml", "--as", "loop"], "true");
    match done.code {
        Some(0) => true,
        Some(3) => {
            skip("loop", &done.stderr);
            false
        }
        code => panic!("attach ended with {code:?}: {}", done.stderr),
    }
}

/// Whether the kernel has a file system. One of its modules it only looks for when something is to
/// be mounted, which is a try that cannot do any harm.
fn has_file_system(folder: &Folder, name: &str) -> bool {
    let mut mount = Command::new("mount");
    let mount = mount.args(["-t", name, "/dev/null"]).arg(&folder.0);
    assert!(!mount.stderr(Stdio::null()).status().unwrap().success());
    let known = std::fs::read_to_string("/proc/filesystems").unwrap();
    known.split_whitespace().any(|word| word == name)
}

#[test]
fn the_block_layer_sees_the_device_as_it_is() {
    let folder = Folder::new();
    if !able(&folder) {
        return;
    }
    let script = "cd /sys/block/${dev#/dev/} && pwd && cat size queue/rotational \
                  queue/read_ahead_kb queue/scheduler && test -b $dev || exit 1\n\
                  PATH=$PATH:/usr/sbin:/sbin; blkdiscard -l 4096 $dev";
    let args = ["wd-80g-5400", "--as", "loop", "--read-ahead", "512", "--scheduler", "mq-deadline"];
    let done = folder.captive(&args, script).good();
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines[2..4], ["1", "512"], "{}", done.stdout);
    assert!(lines[4].contains("[mq-deadline]"), "{}", done.stdout);
    assert!(!done.report.to_string().contains("\"discard\""), "the disk has no discards");
    let plain = folder.captive(&["part.toml", "--as", "loop"], script).good();
    let lines: Vec<&str> = plain.stdout.lines().collect();
    assert_eq!(lines[1..4], ["1048576", "0", "128"], "{}", plain.stdout);
    assert!(plain.report.to_string().contains("\"discard\""));
    let script = "cd /sys/block/${dev#/dev/}/queue && cat logical_block_size rotational \
                  max_sectors_kb discard_granularity";
    let mut args = vec!["part.toml", "--as", "loop"];
    for set in [
        "block.logical_block=4KiB",
        "block.rotational=true",
        "block.request_max=256KiB",
        "block.discard_granularity=64KiB",
    ] {
        args.extend(["--set", set]);
    }
    let told = folder.captive(&args, script).good();
    let lines: Vec<&str> = told.stdout.lines().collect();
    assert_eq!(lines, ["4096", "1", "256", "65536"]);
    let wrong = folder.captive(&["part.toml", "--as", "loop", "--scheduler", "cfq"], script);
    assert_eq!(wrong.code, Some(3));
    assert!(wrong.stderr.contains("one of none"), "{}", wrong.stderr);
}

#[test]
fn fio_verifies_what_it_wrote() {
    let folder = Folder::new();
    if !have(&["fio"]) || !able(&folder) {
        return;
    }
    let script = "\
        fio --name=v --filename=$dev --direct=1 --ioengine=libaio --rw=randrw --bsrange=512-64k \
            --size=24M --iodepth=32 --verify=crc32c --verify_fatal=1 --output-format=terse \
            || exit 1\n\
        fio --name=t --filename=$dev --direct=1 --ioengine=libaio --rw=randtrimwrite --bs=4k \
            --size=8M --offset=64M --iodepth=32 --output-format=terse || exit 2\n\
        fio --name=l --filename=$dev --direct=1 --rw=write --bs=32M --size=96M --verify=crc32c \
            --output-format=terse";
    let report = folder.captive(&["part.toml", "--as", "loop"], script).good().report;
    let operations = report["devices"][0]["operations"].as_array().unwrap();
    assert!(operations.iter().any(|op| op["op"] == "discard"), "{operations:?}");
    assert_eq!(report["devices"][0]["lateness"]["early"], 0);
}

#[test]
fn file_systems_are_made_used_and_found_sound() {
    let folder = Folder::new();
    if !able(&folder) {
        return;
    }
    for (name, make, check) in [
        ("ext2", "mkfs.ext2 -q -F", "e2fsck -fn"),
        ("ext3", "mkfs.ext3 -q -F", "e2fsck -fn"),
        ("ext4", "mkfs.ext4 -q -F", "e2fsck -fn"),
        ("xfs", "mkfs.xfs -q -f", "xfs_repair -n"),
        ("btrfs", "mkfs.btrfs -q -f", "btrfs check"),
    ] {
        let tool = check.split(' ').next().unwrap();
        if !have(&[&format!("mkfs.{name}"), tool]) {
            continue;
        }
        if !has_file_system(&folder, name) {
            skip("file-systems", &format!("the kernel has no {name}"));
            continue;
        }
        let script = format!(
            "PATH=$PATH:/usr/sbin:/sbin; mkdir -p m; {make} $dev > /dev/null || exit 1\n\
             mount -t {name} $dev m || exit 2\n\
             head -c 20000000 /dev/urandom > m/a && cp m/a m/b && sync && rm m/a || exit 3\n\
             sha256sum < m/b > sum; fstrim m 2> /dev/null; umount m || exit 4\n\
             {check} $dev > check.log 2>&1 || exit 5\n\
             mount -t {name} $dev m && sha256sum < m/b | cmp - sum && umount m"
        );
        folder.captive(&["part.toml", "--as", "loop"], &script).good();
    }
}

#[test]
fn an_interrupted_session_leaves_no_mount_and_no_device() {
    let folder = Folder::new();
    if !have(&["mkfs.ext4"]) || !able(&folder) {
        return;
    }
    // The device outlives its program's signals by an unmounting that writes to it.
    let script = "PATH=$PATH:/usr/sbin; mkdir -p m; mkfs.ext4 -q -F $dev && mount $dev m \
                  && echo $dev > d && head -c 20000000 /dev/zero > m/x && mv d device; \
                  exec sleep 1000";
    for signal in ["INT", "KILL"] {
        let mut session = Command::new(env!("CARGO_BIN_EXE_blocklab"))
            .args(["attach", "part.toml", "--as", "loop", "--run", script])
            .current_dir(&folder.0)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mark = folder.path("device");
        until("the file system is there", || mark.exists());
        let device = std::fs::read_to_string(&mark).unwrap();
        crate::support::signal(session.id(), signal);
        session.wait().unwrap();
        let name = Path::new(device.trim()).file_name().unwrap().to_owned();
        let bound = Path::new("/sys/block").join(name).join("loop");
        until("the device is free", || !bound.exists());
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        assert!(!mounts.contains(folder.0.to_str().unwrap()), "{mounts}");
        std::fs::remove_file(&mark).unwrap();
    }
}

#[test]
fn who_uses_the_device_at_the_end_is_named() {
    let folder = Folder::new();
    if !able(&folder) {
        return;
    }
    let mut command = folder.command(&["attach", "part.toml", "--as", "loop"]);
    let mut session = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(session.stderr.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let device = lines.find(|line| line.starts_with("/dev/loop")).unwrap();
    lines.find(|line| line.contains("end with Ctrl-C")).unwrap();
    let holder = File::open(&device).unwrap();
    crate::support::signal(session.id(), "INT");
    let said = lines.find(|line| line.contains("is in use")).unwrap();
    let who = format!("(process {}) has it open", std::process::id());
    assert!(said.starts_with(&device) && said.contains(&who), "{said}");
    drop(holder);
    assert!(session.wait().unwrap().success());
}

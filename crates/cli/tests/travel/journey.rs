//! What a program in the guest sees and does.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Folder, can_travel, until};

#[test]
fn output_and_exit_code_come_back() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    let script = "echo out; echo err >&2; cat /sys/block/vda/serial; exit 7";
    let journey = folder.travel(&["part.toml", "--", "sh", "-c", script]);
    assert_eq!(journey.code, Some(7), "{}", journey.stderr);
    assert_eq!(journey.stdout, "out\nvda");
    assert!(journey.stderr.starts_with("err\n"), "{}", journey.stderr);
    assert!(journey.stderr.contains("left out: CPU time is free"), "{}", journey.stderr);
    assert!(folder.leftovers().is_empty());
}

#[test]
fn a_slow_reader_stops_the_guest_and_not_its_time() {
    if !can_travel(&[]) {
        return;
    }
    const BYTES: usize = 16 << 20;
    let folder = Folder::new();
    let script = format!("head -c {BYTES} /dev/zero");
    let args = ["travel", "part.toml", "--", "sh", "-c", &script];
    let quick = folder.travel(&args[1..]).good();
    let digest = quick.report["digest"].clone();
    assert!(quick.stdout.len() == BYTES && digest.is_string());
    let mut slow = folder.command(&args);
    let slow = slow.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // More than a pipe holds, before anybody reads.
    until_its_guest_is_stopped(&slow);
    let output = slow.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.len() == BYTES);
    assert_eq!(folder.report("out/travel/travel.json")["digest"], digest);
    assert!(folder.leftovers().is_empty());
}

#[test]
fn a_reader_that_stands_still_does_not_keep_a_session_from_its_end() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    let mut travel = writes_for_ever(&folder);
    until_its_guest_is_stopped(&travel);
    kill_process(Pid::from_child(&travel), Signal::TERM).unwrap();
    let mut said = String::new();
    travel.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    // Nobody has read yet.
    assert_eq!(travel.wait().unwrap().code(), Some(130));
    assert!(said.ends_with("interrupted\n"), "{said}");
    assert!(folder.leftovers().is_empty());
}

#[test]
fn a_program_whose_reader_has_gone_does_not_write_for_ever() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    let mut travel = writes_for_ever(&folder);
    let mut line = String::new();
    BufReader::new(travel.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let output = travel.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((&*line, output.status.code()), ("y\n", Some(3)), "{said}");
    assert!(said.contains("error: nobody reads what the command writes"), "{said}");
    assert!(folder.leftovers().is_empty());
}

fn writes_for_ever(folder: &Folder) -> Child {
    let mut travel = folder.command(&["travel", "part.toml", "--", "yes"]);
    travel.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Wait until the guest is stopped and stays so: nobody reads what it writes.
fn until_its_guest_is_stopped(travel: &Child) {
    let children = format!("/proc/{0}/task/{0}/children", travel.id());
    let stopped = || {
        let guests = std::fs::read_to_string(&children).unwrap();
        let status = |pid| std::fs::read_to_string(format!("/proc/{pid}/status"));
        let mut states = guests.split_whitespace().map(status);
        states.any(|state| state.is_ok_and(|text| text.contains("T (stopped)")))
    };
    let mut in_turn = 0;
    until("the guest is stopped", || {
        in_turn = if stopped() { in_turn + 1 } else { 0 };
        in_turn == 10
    });
}

#[test]
fn what_is_piped_in_is_read_in_the_guest() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    let args = ["part.toml", "--", "sh", "-c", "read first; echo $first; wc -c"];
    std::fs::write(folder.path("input"), "one\ntwo\n").unwrap();
    let from_file = folder.travel_with_input(&args, File::open(folder.path("input")).unwrap());
    assert_eq!(from_file.good().stdout, "one\n4\n");
    let (from, mut to) = std::io::pipe().unwrap();
    to.write_all(b"three\n").unwrap();
    drop(to);
    assert_eq!(folder.travel_with_input(&args, from).good().stdout, "three\n0\n");
    let none = folder.travel(&args).good();
    assert_eq!(none.stdout, "\n0\n");
    assert!(!none.stderr.contains("standard input"), "{}", none.stderr);
}

#[test]
fn a_guest_that_reboots_or_goes_off_is_told() {
    if !can_travel(&[]) {
        return;
    }
    for (key, told) in [("b", "the guest was rebooted"), ("o", "the guest ended too early")] {
        let folder = Folder::new();
        let script = format!("echo begun; echo {key} > /proc/sysrq-trigger; sleep 9");
        let journey = folder.travel(&["part.toml", "--", "sh", "-c", &script]);
        assert_eq!(journey.code, Some(3), "{key}: {}", journey.stderr);
        assert_eq!(journey.stdout, "begun\n");
        assert!(journey.stderr.contains(told), "{}", journey.stderr);
        assert!(folder.leftovers().is_empty());
    }
}

#[test]
fn an_hour_of_sleep_takes_an_hour_of_virtual_time() {
    if !can_travel(&[]) {
        return;
    }
    let journey = Folder::new().travel(&["part.toml", "--", "sleep", "3600"]).good();
    let slept = journey.number("/command_s");
    assert!((3600.0..3600.1).contains(&slept), "{slept}");
    assert!(journey.number("/free_cpu_share") < 0.01, "{}", journey.stderr);
    assert!(journey.stderr.contains("the result stands"), "{}", journey.stderr);
    assert_eq!(journey.number("/disks/0/busy_share"), 0.0);
}

#[test]
fn a_run_that_computes_is_called_distorted() {
    if !can_travel(&[]) {
        return;
    }
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; \
                  dd if=/dev/vda of=/dev/null bs=4k count=100 iflag=direct";
    let journey = Folder::new().travel(&["part.toml", "--", "sh", "-c", script]).good();
    assert!(journey.number("/free_cpu_share") > 0.5, "{}", journey.stderr);
    assert!(journey.stderr.contains("the result is distorted"), "{}", journey.stderr);
    // To compute takes no time, so all of it is dd's, and that waits for nothing but the disk.
    let busy = journey.number("/disks/0/busy_share");
    assert!((0.5..=1.0).contains(&busy), "{busy}");
}

#[test]
fn what_was_queued_went_to_the_device_or_the_report_says_why_not() {
    if !can_travel(&["mkfs.ext4"]) {
        return;
    }
    let script = "for i in 1 2 3 4 5; do dd if=/dev/zero of=f$i bs=4k count=9 conv=fsync; done; \
                  dd if=/dev/zero of=/dev/vdb bs=4k count=5 oflag=direct conv=fsync; sync; cat f*";
    let args = ["wd-80g-5400", "wd-80g-5400", "--mkfs", "ext4", "--", "sh", "-c", script];
    let journey = Folder::new().travel(&args).good();
    for disk in journey.report["disks"].as_array().unwrap() {
        for block in disk["block"].as_array().unwrap() {
            let count = |key: &str| block[key].as_u64().unwrap();
            let known = count("merged") + count("without_data") + count("dispatched");
            assert_eq!(count("queued"), known, "{block}");
            let device = disk["device"].as_array().unwrap();
            let device = device.iter().find(|device| device["op"] == block["op"]);
            assert_eq!(block["dispatched"], device.unwrap()["requests"]);
            // The kernel counts a flush by itself as a write, but a write never as a flush.
            assert_eq!(count("without_data") > 0, block["op"] == "write", "{block}");
            let (mean, error) = (&block["mean_us"], block["mean_us_error"].as_f64().unwrap());
            assert!((error * (count("queued") - count("merged")) as f64 - 1e3).abs() < 1e-6);
            assert!(mean.as_f64().unwrap() >= 0.0);
        }
    }
}

#[test]
fn what_never_ends_is_ended() {
    if !can_travel(&[]) {
        return;
    }
    // Stopped, it waits for what never comes, while the kernel's own timers go on.
    for (forever, limit) in [("kill -STOP $$", "24h"), ("sleep 99999999", "90s")] {
        let folder = Folder::new();
        let script = format!("echo begun; {forever}");
        let journey = folder.travel(&["part.toml", "--limit", limit, "--", "sh", "-c", &script]);
        assert_eq!(journey.code, Some(3), "{forever}: {}", journey.stderr);
        assert_eq!(journey.stdout, "begun\n");
        let told = format!("the command had not ended after {limit} of virtual time");
        assert!(journey.stderr.contains(&told), "{}", journey.stderr);
        assert!(journey.stderr.contains("--limit"), "{}", journey.stderr);
        assert!(folder.leftovers().is_empty());
    }
}

#[test]
fn two_disks_are_set_as_asked_and_keep_what_is_written() {
    if !can_travel(&["mkfs.ext4"]) {
        return;
    }
    let folder = Folder::new();
    let script = "cat /sys/block/vd[ab]/queue/scheduler /sys/block/vd[ab]/queue/rotational; \
                  cat /sys/block/vda/queue/read_ahead_kb; \
                  dd if=/dev/urandom of=f bs=1M count=8 2>&1 | tail -1 | cut -c1-7; sync; \
                  dd if=f of=/dev/vdb bs=64k oflag=direct 2>/dev/null; \
                  dd if=/dev/vdb of=g bs=64k count=128 iflag=direct 2>/dev/null; \
                  cmp f g && rm f g && fstrim /mnt && echo same";
    let args = [
        "part.toml",
        "wd-80g-5400",
        "--mkfs",
        "ext4",
        "--sched",
        "kyber",
        "--read-ahead",
        "512",
        "--",
        "sh",
        "-c",
        script,
    ];
    let journey = folder.travel(&args).good();
    assert!(journey.stdout.contains("[kyber]"), "{}", journey.stdout);
    assert!(journey.stdout.contains("0\n1\n512\n8388608"), "{}", journey.stdout);
    assert!(journey.stdout.ends_with("same\n"), "{}", journey.stdout);
    let disks = journey.report["disks"].as_array().unwrap();
    assert_eq!(disks[1]["scheduler"], "kyber");
    // The second disk was used without a cache: the block layer and the device saw the same.
    for (which, name) in ["read", "write"].into_iter().enumerate() {
        let (block, device) = (&disks[1]["block"][which], &disks[1]["device"][which]);
        assert_eq!((&block["op"], &device["op"]), (&name.into(), &name.into()));
        assert_eq!(block["dispatched"], device["requests"]);
        assert_eq!(block["bytes"], 8 << 20);
    }
}

#[test]
fn a_crash_and_a_broken_file_system_are_told() {
    if !can_travel(&["mkfs.xfs"]) {
        return;
    }
    let folder = Folder::new();
    let crash = ["part.toml", "--", "sh", "-c", "echo c > /proc/sysrq-trigger"];
    let journey = folder.travel(&crash);
    assert_eq!(journey.code, Some(3));
    assert!(journey.stderr.contains("Kernel panic"), "{}", journey.stderr);
    // XFS refuses a disk this small; the words are mkfs's own.
    std::fs::write(folder.path("tiny.toml"), "[null]\ncapacity = \"4MiB\"\n").unwrap();
    let journey = folder.travel(&["tiny.toml", "--mkfs", "xfs", "--", "true"]);
    assert_eq!(journey.code, Some(3));
    assert!(journey.stderr.contains("in the guest: ") && journey.stderr.contains("mkfs.xfs"));
    assert!(folder.leftovers().is_empty());
}

/// Kernels that run in a folder of this one: a guest is several processes.
fn processes(folder: &Folder) -> usize {
    let place = std::fs::canonicalize(folder.path("")).unwrap();
    let of = |entry: std::fs::DirEntry| std::fs::read_link(entry.path().join("cwd")).ok();
    let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(of);
    all.filter(|cwd| cwd.starts_with(&place) && *cwd != place).count()
}

#[test]
fn nothing_stays_when_it_is_interrupted_or_killed() {
    if !can_travel(&[]) {
        return;
    }
    for signal in ["INT", "TERM", "KILL"] {
        let folder = Folder::new();
        // It computes for ever: no virtual time passes.
        let script = "echo begun; while :; do :; done";
        let recorded = ["travel", "part.toml", "--record", "r", "--", "sh", "-c", script];
        let mut command = folder.command(&recorded);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "begun\n");
        assert!(processes(&folder) > 0);
        let id = child.id().to_string();
        let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &id]).status();
        assert!(sent.unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), (signal != "KILL").then_some(130), "{signal}");
        let told = String::from_utf8(output.stderr).unwrap();
        let ends = told.contains("r ends where the session did: it is no whole recording");
        assert_eq!(ends, signal != "KILL", "{told}");
        until(&format!("the guest is gone after {signal}"), || processes(&folder) == 0);
        if signal == "KILL" {
            what_was_left_is_named_and_deleted(&folder, &id);
        }
        assert!(folder.leftovers().is_empty(), "{:?}", folder.leftovers());
    }
}

/// One that is killed cannot delete its folders. The next one does, although it ends early.
fn what_was_left_is_named_and_deleted(folder: &Folder, process: &str) {
    let name = format!("blocklab-{process}-0");
    // The one in memory may be deleted by any journey of another test.
    let left = [folder.path(&name), Path::new("/dev/shm").join(&name)];
    let doctor = String::from_utf8(folder.blocklab(&["doctor"]).stdout).unwrap();
    assert!(left[0].is_dir() && doctor.contains(left[0].to_str().unwrap()), "{doctor}");
    let next = folder.travel(&["part.toml", "--kernel=/bin/true", "--", "true"]);
    assert_eq!(next.code, Some(3));
    assert!(left.iter().all(|folder| !folder.exists()), "{left:?}");
}

/// Which of this machine's processes that process traces.
fn traced_by(tracer: i32) -> Vec<i32> {
    let of = |entry: std::fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
        (line.trim().parse() == Ok(tracer)).then_some(pid)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
}

/// They would go on as programs of this machine, with its files: even where blocklab, which ends
/// all that a guest has left, is not there.
#[test]
fn the_programs_of_a_kernel_that_is_killed_end_with_it() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    let script = "echo begun; while :; do :; done";
    let mut command = folder.command(&["travel", "part.toml", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let blocklab = Pid::from_child(&child);
    kill_process(blocklab, Signal::STOP).unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let children = std::fs::read_to_string(children).unwrap();
    let kernel: i32 = children.split_whitespace().next().unwrap().parse().unwrap();
    let programs = traced_by(kernel);
    assert!(!programs.is_empty());
    kill_process(Pid::from_raw(kernel).unwrap(), Signal::KILL).unwrap();
    until("its programs are gone", || {
        let goes_on = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok();
        !programs.iter().any(goes_on)
    });
    kill_process(blocklab, Signal::CONT).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(folder.leftovers().is_empty(), "{:?}", folder.leftovers());
}

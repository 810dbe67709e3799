//! Processor time: code is charged what a host's profile says, the same twice, and nothing without
//! one.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::until;
use crate::repeat::{Load, without_wall_time};
use crate::support::{Folder, Journey, can_travel};

/// A profile in round numbers.
const HOST: &str = "
[host]
name = 'round'
title = 'Round numbers'
status = 'sketch'
[processor]
cores = 1
context_switch = '1us'
page_fault = '500ns'
[call]
other = '100ns'
read = '1us'
write = '2us'
seek = '100ns'
open = '1us'
create = '10ms'
close = '100ns'
stat = '1us'
fstat = '1us'
remove = '1us'
rename = '1us'
list = '1us'
sync = '1us'
fork = '10us'
exec = '100us'
[copy]
to_program = '20ns'
from_program = '1us'
[cache]
found = '1us'
added = '1us'
[request]
none = '1ms'
mq-deadline = '2ms'
kyber = '3ms'
bfq = '4ms'
";

fn folder() -> Folder {
    let folder = Folder::new();
    std::fs::write(folder.path("round.toml"), HOST).unwrap();
    std::fs::write(folder.path("two.toml"), HOST.replace("cores = 1", "cores = 2")).unwrap();
    folder
}

/// Virtual seconds of this shell's command line, and all that was measured.
fn seconds(host: &str, more: &[&str], script: &str) -> (f64, Journey) {
    let host = ["part.toml", "--host", host];
    let args = [&host[..], more, &["--", "sh", "-c", script]].concat();
    let journey = folder().travel(&args).good();
    (journey.number("/command_s"), journey)
}

/// Reads and writes of one byte.
const BYTES: &str = "dd if=/dev/zero of=/dev/shm/f bs=1 count=20000 2>/dev/null";

#[test]
fn calls_are_charged_the_same_twice_and_not_without_a_host() {
    if !can_travel(&[]) {
        return;
    }
    let (free, without) = seconds("none", &[], BYTES);
    assert!(free < 0.001, "{free}: code was charged");
    assert_eq!(without.report["host"], "none");
    assert_eq!(without.report.get("processor_s"), None);
    assert!(without.stderr.contains("left out: CPU time is free"), "{}", without.stderr);
    let folder = folder();
    let plain = folder.travel(&["part.toml", "--", "sh", "-c", BYTES]).good();
    assert_eq!(without_wall_time(plain.report), without_wall_time(without.report));

    let (first, charged) = seconds("round.toml", &[], BYTES);
    // 20,000 times 1 us and 2 us, a file that is made, and the start of two programs.
    assert!((0.070..0.075).contains(&first), "{first}");
    let share = charged.number("/processor_share");
    assert!((0.95..=1.0).contains(&share), "{share}: there is no device to wait for");
    assert_eq!(charged.report["host"], "round.toml");
    assert!(charged.stderr.contains("charged as on round.toml"), "{}", charged.stderr);
    let load = [Load::new(), Load::new()];
    let (_, again) = seconds("round.toml", &[], BYTES);
    drop(load);
    assert_eq!(without_wall_time(charged.report), without_wall_time(again.report));
}

#[test]
fn copies_files_requests_and_cores_have_their_prices() {
    if !can_travel(&[]) {
        return;
    }
    let taken = |script: &str| seconds("round.toml", &[], script).0;
    let base = taken("dd if=/dev/zero of=/dev/shm/f bs=4k count=1 2>/dev/null");
    // 16 MiB at 1 us a KiB, 4,096 times two calls of 3 us, and as many new pages of 1 us.
    let copied = taken("dd if=/dev/zero of=/dev/shm/f bs=4k count=4096 2>/dev/null") - base;
    assert!((0.032..0.036).contains(&copied), "{copied}");
    // A file that is made takes 10 ms more than one that is there.
    let again =
        taken("dd if=/dev/zero of=/dev/shm/f bs=4k count=1 2>/dev/null; : > /dev/shm/f") - base;
    let made =
        taken("dd if=/dev/zero of=/dev/shm/f bs=4k count=1 2>/dev/null; : > /dev/shm/g") - base;
    assert!((0.0095..0.0105).contains(&(made - again)), "{made} {again}");
    // 20,000 reads and 20,000 writes, and what the program computes before each.
    let computed = seconds("round.toml", &["--between-calls", "1us"], BYTES).0 - taken(BYTES);
    assert!((0.040..0.044).contains(&computed), "{computed}");
    // 100 requests, one by one, of 20 us, and 1 ms or 4 ms of the processor for each.
    let direct = "dd if=/dev/vda of=/dev/null bs=4k count=100 iflag=direct 2>/dev/null";
    for (scheduler, least_s) in [("none", 0.102), ("bfq", 0.402)] {
        let took = seconds("round.toml", &["--sched", scheduler], direct).0;
        assert!((least_s..least_s + 0.02).contains(&took), "{scheduler}: {took}");
    }
    // Two that write at once: on two cores in half the time, but for the last slices of one.
    let both =
        format!("{BYTES} & dd if=/dev/zero of=/dev/shm/g bs=1 count=20000 2>/dev/null; wait");
    let (one, two) = (taken(&both), seconds("two.toml", &[], &both).0);
    assert!((0.48..0.70).contains(&(two / one)), "{two} of {one}");
}

#[test]
fn pages_of_files_and_open_files_have_prices_of_their_own() {
    if !can_travel(&[]) {
        return;
    }
    let folder = folder();
    let dear = |name: &str, key: &str| {
        let text = HOST.replace(&format!("\n{key} = '1us'"), &format!("\n{key} = '1ms'"));
        assert_ne!(text, HOST);
        std::fs::write(folder.path(name), text).unwrap();
    };
    dear("found.toml", "found");
    dear("added.toml", "added");
    dear("stat.toml", "stat");
    // How much longer a second script takes than a first where one price is a thousand times as
    // high.
    let added_s = |host: &str, first: &str, second: &str| {
        let [first, second] = [first, second].map(|script| {
            let args = ["part.toml", "--host", host, "--mkfs", "ext4", "--", "sh", "-c", script];
            folder.travel(&args).good().number("/command_s")
        });
        second - first
    };
    let within = |value: f64, least: f64| {
        assert!((least..least + 0.02).contains(&value), "{value} instead of {least}");
    };
    // 100 pages, of which four calls each write and read a part.
    let write = "dd if=/dev/zero of=f bs=1k count=400 conv=notrunc 2>/dev/null";
    let read = "dd if=f of=/dev/null bs=1k count=400 2>/dev/null";
    let twice = |script: &str| format!("{script}; {script}");
    within(added_s("added.toml", "dd if=/dev/zero of=f bs=1k count=0 2>/dev/null", write), 0.1);
    within(added_s("added.toml", write, &twice(write)), 0.0);
    within(added_s("added.toml", write, &format!("{write}; {read}")), 0.0);
    let [once, again] = [1, 2].map(|times| {
        let reads = vec![read; times].join("; ");
        format!("{write}; {reads}")
    });
    within(added_s("found.toml", &once, &again), 0.1);
    // `cat` asks each open file what it is, `[` the path.
    let asks = |what: &str| format!(": > f; for n in $(seq 100); do {what}; done");
    within(added_s("stat.toml", &asks(":"), &asks("[ -e f ]")), 0.1);
    let files = "f ".repeat(100);
    within(added_s("stat.toml", ": > f; cat f", &format!(": > f; cat {files}")), 0.0);
}

#[test]
fn a_profile_that_cannot_be_is_named_with_its_line() {
    let folder = folder();
    let wrong = HOST.replace("write = '2us'", "wriet = '2us'");
    std::fs::write(folder.path("wrong.toml"), &wrong).unwrap();
    let line = 1 + wrong.lines().position(|line| line.starts_with("wriet")).unwrap();
    let shipped = study::library::hosts()[0].0;
    let near = format!("{shipped}x");
    for (host, words) in [
        ("wrong.toml", [format!("wrong.toml:{line}:"), "did you mean `write`?".into()]),
        (&near, [format!("did you mean `{shipped}`?"), "devices/hosts".into()]),
        ("gone.toml", ["cannot read the host's profile gone.toml".into(), "host measure".into()]),
    ] {
        let args = ["part.toml", "--kernel=/bin/true", "--host", host, "--", "true"];
        let journey = folder.travel(&args);
        assert_eq!(journey.code, Some(2), "{host}: {}", journey.stderr);
        for word in words {
            assert!(journey.stderr.contains(&word), "{host}: no {word} in {}", journey.stderr);
        }
    }
}

#[test]
fn a_study_sweeps_hosts_and_elevators() {
    if !can_travel(&[]) {
        return;
    }
    let folder = folder();
    let study = "[device.null]\nlatency = '20us'\ncapacity = '64MiB'\n[travel]\ncommand = '''\n\
                 dd if=/dev/vda of=/dev/null bs=4k count=100 iflag=direct 2>/dev/null'''\n\
                 [sweep]\n'travel.host' = ['none', 'round.toml']\n\
                 'travel.elevator' = ['noop', 'cfq']\n";
    std::fs::write(folder.path("study.toml"), study).unwrap();
    let output = folder.blocklab(&["run", "study.toml", "--no-report", "--json"]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let metric = |run: usize, name: &str| result["runs"][run]["metrics"][name].as_f64();
    for run in [0, 1] {
        assert_eq!(metric(run, "processor_share"), None);
    }
    for run in [2, 3] {
        let share = metric(run, "processor_share").unwrap();
        assert!((0.9..1.0).contains(&share), "{share}");
        assert!(metric(run, "program_s") > Some(0.1));
        assert_eq!(result["runs"][run]["settings"]["host"], "round.toml");
    }
    for run in 0..4 {
        // Behind an elevator the kernel has no scheduler, and the elevator counts its bios.
        assert_eq!(result["runs"][run]["settings"]["scheduler"], "none");
        assert!(
            metric(run, "elevator_bios") >= Some(100.0),
            "{:#}",
            result["runs"][run]["metrics"]
        );
    }
}

#[test]
fn measuring_that_is_interrupted_leaves_nothing() {
    let folder = Folder::new();
    let mut command = folder.command(&["host", "measure"]);
    let mut measuring = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it makes files", || {
        let made = folder.leftovers();
        made.first().is_some_and(|name| folder.path(name).join("amid/999.0").exists())
    });
    kill_process(Pid::from_child(&measuring), Signal::INT).unwrap();
    assert_eq!(measuring.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    assert!(folder.leftovers().is_empty());
}

//! `calibrate probe --overwrite`: what state a drive is measured in, and which drive that is.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::calibrate::{calls, drive, fails};
use crate::common::have;
use crate::support::{Test, entries};

/// The drive of [`drive`], all of which may be overwritten.
fn overwritten() -> Test {
    let test = drive();
    let word = test.path("drive").display().to_string();
    test.args(&["--overwrite", &word])
}

/// The value of an option in how fio was called.
fn value<'c>(call: &'c str, option: &str) -> Option<&'c str> {
    call.split(' ').find_map(|word| word.strip_prefix(option)?.strip_prefix('='))
}

/// Calls of fio for a load.
fn of<'c>(calls: &'c [String], name: &str) -> Vec<&'c str> {
    let named = |call: &&str| value(call, "--name") == Some(name);
    calls.iter().map(String::as_str).filter(named).collect()
}

#[test]
fn a_drive_is_written_twice_at_random_before_steady_state_is_looked_for() {
    let test = overwritten();
    let output = test.run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(!output.stdout.contains("times over"), "{}", output.stdout);
    let calls = calls(&test);
    let bytes = |call: &str| value(call, "--io_size").unwrap().parse::<u64>().unwrap();
    let before = of(&calls, "precondition");
    let written: u64 = before.iter().map(|call| bytes(call)).sum();
    assert!(before.len() == 20 && written * 100 >= 99 * (32 << 20), "{written}");
    assert!(before.iter().all(|call| value(call, "--runtime") == Some("1080")), "{before:?}");
    let rounds = of(&calls, "steady");
    // Of so small a drive, as many requests as say something.
    assert!(rounds.iter().all(|call| bytes(call) == 64 << 20), "{rounds:?}");
    let timed = |call: &&str| call.contains("--time_based") || call.contains("--ramp_time");
    assert!(!before.iter().chain(&rounds).any(timed), "they are as long as their bytes");
    let place = |name: &str| calls.iter().position(|call| value(call, "--name") == Some(name));
    assert!(place("fill") < place("precondition") && place("precondition") < place("steady"));
    // What is read is in the state of what is written.
    assert!(place("steady") < place("randread-4k-1") && place("randread-4k-1").is_some());
}

#[test]
fn what_time_does_not_suffice_for_is_told() {
    let slow = overwritten();
    let fio = std::fs::read_to_string(slow.path("fio")).unwrap();
    let tenth = fio.replace("bytes=${option#*=};;", "bytes=$((${option#*=} / 10));;");
    std::fs::write(slow.path("fio"), tenth).unwrap();
    let output = slow.args(&["--precondition", "1"]).run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    let told = "written 0.20 times over at random, not 2: more than 1 hours are --precondition";
    assert!(output.stdout.contains(told), "{}", output.stdout);

    let without = overwritten().args(&["--precondition", "0"]);
    assert_eq!(without.run().code, 0);
    let calls = calls(&without);
    assert!(of(&calls, "precondition").is_empty());
    assert!(of(&calls, "steady").iter().all(|call| value(call, "--runtime") == Some("22")));
}

#[test]
fn a_plan_says_what_is_written_and_how_long_it_takes() {
    let test = Test::new().file("my drive", vec![7; 16 << 20]);
    let path = test.path("my drive").canonicalize().unwrap().display().to_string();
    let probe = ["calibrate", "probe", "--file", "my drive", "--out", "measured", "--dry-run"];
    let test = test.args(&probe);
    let read = test.run();
    // As a shell takes it.
    let word = format!("to write to it: --overwrite '{path}'");
    assert!(read.stdout.contains(&word) && !read.stdout.contains("rw=write"), "{}", read.stdout);
    let test = test.args(&["--overwrite", &path]);
    let plan = test.run().stdout;
    for told in [
        "0.017 GB\n",
        "20 times 0.002 GB, each in 1080 s at most\n",
        "5 to 25 times 0.067 GB, each in 540 s at most\n",
        "if it takes 500 MB/s in sequence and 100 MB/s at random",
    ] {
        assert!(plan.contains(told), "{told:?} is not in:\n{plan}");
    }
    assert!(!test.path("measured").exists());
    let plan = test.args(&["--json"]).json();
    let job = plan["jobs"].as_array().unwrap().iter().find(|job| job["name"] == "precondition");
    assert_eq!(job.unwrap()["bytes"], 20 * 1_675_264);
}

/// Where a call of fio writes at first, with fio itself.
fn addresses(test: &Test, call: &str, more: &[&str]) -> Vec<u64> {
    let log = test.path("log");
    let mut fio = Command::new("fio");
    let lasting = ["--time_based", "--runtime", "--ramp_time"];
    let rest = call.split(' ').filter(|word| !lasting.iter().any(|name| word.starts_with(name)));
    fio.args(rest).args(["--ioengine=psync", "--direct=0"]).args(more);
    let output = fio.arg(format!("--write_iolog={}", log.display())).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&log).unwrap();
    // The next call would add to it.
    std::fs::remove_file(log).unwrap();
    let line = |line: &str| {
        let (_, after) = line.split_once(" write ")?;
        after.split(' ').next()?.parse().ok()
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn a_round_writes_elsewhere_than_the_one_before() {
    if !have(&["fio"]) {
        return;
    }
    let test = overwritten();
    assert_eq!(test.run().code, 0);
    let calls = calls(&test);
    let rounds = of(&calls, "steady");
    let short = ["--io_size=256k"];
    let first = addresses(&test, rounds[0], &short);
    assert_eq!(first.len(), 64);
    let common = |other: Vec<u64>| {
        let places: BTreeSet<u64> = first.iter().copied().collect();
        other.iter().filter(|place| places.contains(place)).count()
    };
    // Of 4096 pages, a page or two are there by chance.
    for other in [rounds[1], of(&calls, "precondition")[0], of(&calls, "randwrite-4k-32")[0]] {
        assert!(common(addresses(&test, other, &short)) < 10, "{other}");
    }
    // A call that writes more than the drive holds goes on elsewhere, too.
    let twice = addresses(&test, rounds[0], &["--io_size=17m"]);
    assert_eq!((twice.len(), &twice[..64]), (4352, &first[..]));
    assert!(common(twice[4096..][..64].to_vec()) < 10);
    // The same probe asks for the same.
    assert_eq!(addresses(&test, rounds[0], &short), first);
}

#[test]
fn a_drive_that_was_exchanged_meanwhile_is_left_alone() {
    for (change, said) in [
        ("mv other drive", "it is another one now"),
        ("truncate --size=17M drive", "it has 17825792 bytes now, for 16777216"),
        ("rm drive", "No such file"),
    ] {
        let test = overwritten().file("other", vec![1; 16 << 20]).file("change", change);
        fails(&test, &["drive has changed while it was probed", said, "lsblk"]);
        assert_eq!(calls(&test).len(), 1, "nothing is asked of another drive");
    }
}

/// All that was measured is as old as that.
fn age(folder: &Path, age: Duration) {
    for name in entries(folder) {
        let file = std::fs::File::options().append(true).open(folder.join(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
}

/// A probe that was interrupted in the writes after steady state.
fn interrupted() -> Test {
    let test = overwritten().file("broken", "mixed-70-4k-32");
    fails(&test, &["fio: no more"]);
    std::fs::remove_file(test.path("broken")).unwrap();
    assert!(test.path("measured/randwrite-4k-128.json").exists());
    test
}

#[test]
fn a_probe_goes_on_while_the_drive_is_as_it_was_left() {
    let test = interrupted();
    age(&test.path("measured"), Duration::from_secs(10 * 60));
    let output = test.run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(!output.stdout.contains("anew") && output.stderr.is_empty(), "{}", output.stdout);
    let calls = calls(&test);
    assert_eq!(of(&calls, "fill").len(), 1);
    assert_eq!(calls.len(), 50, "what was left, and the one that failed");
    // All of it is there: nothing is measured again, however old it is.
    age(&test.path("measured"), Duration::from_secs(1 << 20));
    assert_eq!(test.run().code, 0);
    assert_eq!(crate::calibrate::calls(&test).len(), 50);
}

#[test]
fn a_drive_that_may_be_in_another_state_is_filled_again() {
    type Change = fn(&Path);
    let night: Change = |folder| age(folder, Duration::from_secs(8 * 3600));
    let start: Change = |folder| {
        let path = folder.join("probe.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut known: serde_json::Value = serde_json::from_str(&text).unwrap();
        known["boot"] = "00000000-0000-0000-0000-000000000000".into();
        std::fs::write(path, known.to_string()).unwrap();
    };
    let deleted: Change = |folder| std::fs::remove_file(folder.join("steady-03.json")).unwrap();
    for (change, said) in [
        (night, "the last load ended 480 minutes ago"),
        (start, "this machine was started again meanwhile"),
        (deleted, "steady is missing, and what comes after it is not"),
    ] {
        let test = interrupted();
        change(&test.path("measured"));
        let output = test.run();
        assert_eq!(output.code, 0, "{}", output.stderr);
        let told = format!("note: it was filled and all was measured anew: {said}\n");
        assert!(output.stderr == told && output.stdout.contains(&told), "{}", output.stdout);
        let calls = calls(&test);
        for (name, times) in [("fill", 2), ("precondition", 40), ("steady", 10)] {
            assert_eq!(of(&calls, name).len(), times, "{name}");
        }
        // And goes on from there.
        assert_eq!(test.run().stderr, "");
        assert_eq!(crate::calibrate::calls(&test).len(), calls.len());
    }
}

/// Who only reads may do so whenever he likes.
#[test]
fn reads_go_on_after_any_time() {
    let test = drive().file("broken", "");
    fails(&test, &["fio: no more"]);
    std::fs::remove_file(test.path("broken")).unwrap();
    age(&test.path("measured"), Duration::from_secs(1 << 20));
    assert_eq!(test.run().code, 0);
    assert_eq!(calls(&test).len(), 15);
}

//! One clear error for everything that can be wrong. None of these needs a kernel.

use crate::support::Folder;

/// Any file passes for a kernel as long as nothing is booted.
const KERNEL: &str = "--kernel=/bin/true";

fn refused(args: &[&str], code: i32, expected: &str) {
    let folder = Folder::new();
    let journey = folder.travel(args);
    assert_eq!(journey.code, Some(code), "{args:?}: {}", journey.stderr);
    assert!(journey.stderr.contains(expected), "{args:?}: {}", journey.stderr);
    assert_eq!(journey.stderr.matches("error:").count(), 1, "{}", journey.stderr);
    assert!(folder.leftovers().is_empty());
}

#[test]
fn what_the_user_got_wrong_is_named() {
    refused(&["no-such-part", KERNEL, "--", "true"], 2, "no-such-part");
    refused(&["part.toml", "--kernel", "nowhere", "--", "true"], 2, "nowhere");
    refused(&["part.toml", KERNEL, "--mem", "16M", "--", "true"], 2, "64M");
    refused(&["part.toml", KERNEL, "--mem", "lots", "--", "true"], 2, "--mem lots");
    refused(&["part.toml", KERNEL, "--limit", "5", "--", "true"], 2, "--limit 5");
    refused(&["part.toml", KERNEL, "--data-limit", "5", "--", "true"], 2, "--data-limit 5");
    refused(&["part.toml", KERNEL, "--mkfs", "ext33", "--", "true"], 2, "ext3");
    refused(&["part.toml", KERNEL, "--sched", "cfq", "--", "true"], 2, "mq-deadline");
    refused(&["part.toml", KERNEL, "--", "no-such-program"], 2, "no-such-program");
    refused(&["part.toml", KERNEL], 2, "CMD");
    for (fault, said) in [
        ("eror", "`eror` is not one of"),
        ("error at=soon", "at=soon"),
        ("slow", "by="),
        ("error disk=vdb", "vda: there is one disk"),
    ] {
        refused(&["part.toml", KERNEL, "--fault", fault, "--", "true"], 2, said);
    }
    let data = ["part.toml", KERNEL, "--data", "a", "--data", "b", "--", "true"];
    refused(&data, 2, "more --data files");
}

#[test]
fn an_elevator_that_cannot_be_is_named() {
    let elevator = |args: &[&str], expected: &str| {
        refused(&[&["part.toml", KERNEL], args, &["--", "true"]].concat(), 2, expected);
    };
    elevator(&["--elevator", "cfk"], "did you mean `cfq`?");
    elevator(&["--elevator", "cfq", "--sched", "bfq"], "cannot be used with");
    let wrong = "elevator.policy.cfq.slice_idel='1ms'";
    elevator(&["--elevator", "cfq", "--set", wrong], "did you mean `slice_idle`?");
    elevator(&["--set", "elevator.nr_requests=64"], "the part `part.toml` is no `elevator`");
    let folder = Folder::new();
    std::fs::write(folder.path("noop.toml"), "[elevator]\npolicy = \"noop\"\n").unwrap();
    for (option, expected) in [
        ("--elevator=cfq", "`noop.toml` is an elevator already"),
        ("--sched=bfq", "--sched bfq: vda has an elevator"),
    ] {
        let journey = folder.travel(&["noop.toml", KERNEL, option, "--", "true"]);
        assert_eq!(journey.code, Some(2), "{}", journey.stderr);
        assert!(journey.stderr.contains(expected), "{}", journey.stderr);
    }
}

#[test]
fn what_somebody_else_wrote_is_kept() {
    let folder = Folder::new();
    let dear = |name: &str| std::fs::write(folder.path(name), "dear").unwrap();
    let refused = |args: &[&str], words: &str| {
        let all = [&["part.toml", KERNEL], args, &["--", "true"]].concat();
        let output = folder.blocklab(&[&["travel"], &all[..]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words) && said.matches("error:").count() == 1, "{args:?}: {said}");
        assert!(folder.leftovers().is_empty());
    };
    dear("dear.txt");
    std::fs::create_dir(folder.path("mine")).unwrap();
    dear("mine/travel.json");
    refused(&["--record", "dear.txt"], "dear.txt exists already");
    refused(&["--record-queue", "dear.txt"], "dear.txt exists already");
    refused(&["--record-queue", "mine"], "mine is a folder");
    refused(&["--record-queue", "no/such"], "cannot write the trace no/such");
    refused(&["--out", "mine"], "mine/travel.json exists already");
    for name in ["dear.txt", "mine/travel.json"] {
        assert_eq!(std::fs::read_to_string(folder.path(name)).unwrap(), "dear");
    }
}

#[test]
fn one_file_is_not_written_twice() {
    for (args, words) in [
        (["--record", "t", "--record-queue", "./t"], "./t is both --record and --record-queue"),
        (["--data", "t", "--record", "t"], "t is both --data and --record"),
        (["--out", ".", "--record-queue", "travel.json"], "the report and --record-queue"),
    ] {
        let all = [&["part.toml", KERNEL], &args[..], &["--", "true"]].concat();
        refused(&all, 2, words);
    }
}

#[test]
fn a_kernel_that_is_none_ends_early_and_leaves_nothing() {
    refused(&["part.toml", KERNEL, "--", "true"], 3, "ended too early");
}

#[test]
fn without_a_kernel_the_command_that_makes_one_is_named() {
    let folder = Folder::new();
    let mut command = folder.command(&["travel", "part.toml", "--", "true"]);
    let out = command.env("XDG_CACHE_HOME", folder.path("empty")).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("blocklab kernel build"), "{said}");
}

#[test]
fn a_kernels_build_names_what_it_lacks_and_before_that_what_is_wrong() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("linux/arch/um")).unwrap();
    std::fs::write(folder.path("linux/Makefile"), "VERSION = 6\n").unwrap();
    // On a machine without a single program.
    let bare = |args: &[&str]| {
        let mut command = folder.command(args);
        command.env("XDG_CACHE_HOME", folder.path("empty")).env("PATH", folder.path("empty"));
        let out = command.output().unwrap();
        let said = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
        (out.status.code(), said)
    };
    let (code, said) = bare(&["kernel", "build", "--source", "/proc"]);
    assert!(code == Some(2) && said.contains("no Linux there"), "{said}");
    let (code, said) = bare(&["kernel", "build", "--source", "linux"]);
    assert!(code == Some(3) && said.contains("flex, bison, bc"), "{said}");
    let (_, said) = bare(&["doctor"]);
    let travel = said.lines().find(|line| line.contains("no kernel is built")).unwrap();
    assert!(travel.contains("its build lacks gcc, make, flex, bison, bc"), "{said}");
    assert!(said.contains("sudo apt-get install build-essential flex bison bc"), "{said}");
    let (_, said) = bare(&["kernel", "status"]);
    assert!(said.contains("its build lacks gcc, make, flex, bison, bc"), "{said}");
    // What the server tells a machine that cannot from a build that fails by.
    let (_, said) = bare(&["kernel", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(status["ready"], false);
    assert!(status["lacks"].as_str().unwrap().starts_with("gcc, make, flex"), "{said}");
}

#[test]
fn the_guests_own_verb_is_of_no_use_outside() {
    let out = Folder::new().blocklab(&["travel-guest", "plan"]);
    assert_eq!(out.status.code(), Some(2));
}

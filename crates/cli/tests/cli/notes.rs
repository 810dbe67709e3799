//! What a run says aloud: reads of nothing, overload, wrapped addresses; and errors as JSON.

use std::process::{Command, Stdio};

use crate::support::{STUDY, Test};

/// A write of 4 KiB at each of these times.
fn trace(times_us: impl Iterator<Item = u64>) -> String {
    let line = |us| format!("{},usr,0,Write,{},4096,0\n", us * 10, us % 7 * 4096);
    times_us.map(line).collect()
}

const REPLAY: &str = "[device.ssd]\n[workload.trace]\nfile = \"t.msr\"\nformat = \"msr\"\n";

/// As fio: three requests in three seconds are one a second.
#[test]
fn a_slow_job_has_the_rate_that_it_was_given() {
    let study = "[device.null]\nlatency = \"10us\"\n[workload.fio]\nrw = \"randread\"\n\
                 rate_iops = 1\ntime_based = true\nruntime = \"3s\"\n\
                 [[expect]]\ntext = \"one a second\"\nmetric = \"iops\"\nequal = 1\n";
    let run = Test::study(study).run();
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

/// A drive with free blocks is quick; the gate of steady state does not take that for its rate.
#[test]
fn who_writes_into_free_blocks_is_told_and_not_taken_for_steady() {
    let writes = "rw = \"randwrite\"\nbs = \"4KiB\"\niodepth = 32\nnorandommap = true\n\
                  time_based = true\nruntime = \"1h\"\n";
    let study = format!(
        "[device.ssd]\npart = \"slc2010-paper\"\ngeometry.blocks_per_plane = 128\n\
         [workload.fio]\n{writes}[[precondition]]\nfill = {{}}\nGATE[run]\ntime = \"1s\"\n"
    );
    let fresh = Test::study(&study.replace("GATE", "")).run();
    let said = fresh.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("blocks of flash were begun to be written"), "{said}");
    assert!(said.contains("overwrite it first ([[precondition]] overwrite), and let"), "{said}");
    let overwritten = study.replace("GATE", "[[precondition]]\noverwrite = {}\n");
    let used = Test::study(&overwritten.replace("\"1s\"", "\"1ms\"")).run();
    let said = used.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("than in steady state; let collection settle"), "{said}");
    let gate = format!("[[precondition]]\n[precondition.until_steady.workload.fio]\n{writes}");
    let steady = Test::study(&study.replace("GATE", &gate)).run();
    assert_eq!(steady.code, 0, "{}", steady.stderr);
    assert!(!steady.stdout.contains("note:"), "{}", steady.stdout);
}

/// Many formats number their devices.
#[test]
fn a_device_of_a_trace_may_be_a_number() {
    let msr = "128166372003061629,src1,1,Read,0,4096,100\n\
               128166372003161629,src1,0,Write,8192,4096,100\n";
    let study = "[device.null]\n[workload.trace]\nfile = \"t.csv\"\ndevice = 1\n";
    let run = Test::study(study).file("t.csv", msr).run();
    assert!(!run.stderr.contains("expected a string"), "{}", run.stderr);
    let none = Test::study(&study.replace("device = 1", "requests = 0")).file("t.csv", msr);
    none.refuses(&["study.toml:4", "expected at least 1, got 0"]);
}

#[test]
fn reads_of_what_was_never_written_are_told() {
    let study = |fill: &str| {
        let study = "[device.ssd]\n[workload.fio]\nrw = \"randread\"\n[run]\nrequests = 200\n";
        Test::study(&format!("{study}{fill}"))
    };
    let bare = study("").run();
    assert_eq!(bare.code, 0, "{}", bare.stderr);
    let said = bare.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("pages read were never written, or discarded, so no"), "{said}");
    assert!(said.contains("[[precondition]] fill = {}"), "{said}");
    assert!(said.contains("IOPS"), "{said}");
    let filled = study("[[precondition]]\nfill = {}\n").run();
    assert!(!filled.stdout.contains("note:"), "{}", filled.stdout);
}

#[test]
fn a_workload_that_ends_early_is_told() {
    let run = |job: &str| {
        let study = "[device.null]\n[workload.fio]\nsize = \"400KiB\"\n[run]\nrequests = 200\n";
        let study = study.replace("[run]", &format!("{job}[run]"));
        Test::study(&study).args(&["--json"]).json()["runs"][0]["notes"].to_string()
    };
    let early = run("");
    assert!(early.contains("ended after 100 of the 200 requests"), "{early}");
    assert_eq!(run("loops = 2\n"), "[]");
}

/// The studies that `xtask new` starts write at random for as long as they say.
#[test]
fn a_started_study_of_flash_overwrites_at_random_to_its_end() {
    for (study, policy, requests) in [
        (include_str!("../../../../xtask/templates/ftl-gc.toml"), "fifo", 50_000),
        (include_str!("../../../../xtask/templates/ftl-wear.toml"), "static", 200_000),
        (include_str!("../../../../xtask/templates/ftl-mapping.toml"), "leaftl", 50_000),
    ] {
        let test = Test::study(&study.replace("@name@", policy)).args(&["--json"]);
        let answer = test.json();
        for run in answer["runs"].as_array().unwrap() {
            assert_eq!(run["notes"].to_string(), "[]", "{policy}");
            assert_eq!(run["metrics"]["host_requests"], requests, "{policy}");
        }
        // A permutation of the pages would be 2.3.
        let waf = answer["runs"][0]["metrics"]["waf"].as_f64().unwrap();
        assert!(waf > 3.3, "{policy}: {waf}");
        for expectation in answer["expectations"].as_array().unwrap() {
            assert_eq!(expectation["ok"], true, "{expectation}");
        }
    }
}

#[test]
fn a_device_that_falls_behind_an_open_loop_is_told() {
    let overload = trace((0..20_000).map(|number| number * 10));
    let run = |replay: &str| {
        Test::study(&format!("{REPLAY}{replay}")).file("t.msr", &overload).args(&["--json"]).json()
    };
    let notes = run("")["runs"][0]["notes"].to_string();
    assert!(notes.contains("the device fell behind the trace's times: at most "), "{notes}");
    assert!(notes.contains("replay.timestamps.scale of at least "), "{notes}");
    for keeps_up in ["replay = \"closed-loop\"\n", "replay.timestamps.scale = 400\n"] {
        let run = run(keeps_up);
        let notes = run["runs"][0]["notes"].as_array().unwrap();
        // The drive is a fresh one.
        let is_fresh = |note: &str| note.contains("blocks of flash were begun to be written");
        assert!(matches!(&notes[..], [note] if is_fresh(note.as_str().unwrap())), "{notes:?}");
    }
}

#[test]
fn a_note_about_wrapped_addresses_is_told_whole() {
    let far: String = (0..9_u64).map(|n| format!("{n},usr,0,Write,{},4096,0\n", n << 40)).collect();
    let output = Test::study(REPLAY).file("t.msr", far).run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    let said = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("note: ssd: 8 of 9 addresses were wrapped around"), "{said}");
    assert!(said.contains("take a larger device, or remap = \"scale\""), "{said}");
}

#[test]
fn a_failure_is_one_json_object_too() {
    let failure = |args: &[&str], study: &str| {
        let output = Test::study(study).args(args).run();
        assert_eq!(output.code, 2);
        let object: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let message = object["error"]["message"].as_str().unwrap().to_string();
        assert!(output.stderr.contains(&message), "{}\n{message}", output.stderr);
        object["error"].clone()
    };
    let wrong = failure(&["--json"], &STUDY.replace("latency", "latencey"));
    assert_eq!((&wrong["kind"], &wrong["exit_code"]), (&"input".into(), &2.into()));
    assert_eq!((&wrong["file"], &wrong["line"]), (&"study.toml".into(), &5.into()));
    assert!(wrong["expected"].as_str().unwrap().contains("did you mean `latency`?"));
    let usage = failure(&["--json", "--jobz"], STUDY);
    assert_eq!(usage["message"], "unexpected argument '--jobz' found");
}

#[test]
fn how_much_is_spare_can_be_laid_over_a_part() {
    let study = "[device.ssd]\npart = \"mqsim-f\"\n[workload.fio]\n[run]\nrequests = 1\n";
    let capacity = |test: Test| {
        test.args(&["--json"]).json()["runs"][0]["device"]["capacity_bytes"].as_u64().unwrap()
    };
    let set = |value: &str| {
        let set = format!("device.ssd.over_provisioning={value}");
        Test::study(study).args(&["--set", &set])
    };
    let wanted = capacity(set("{ ratio_percent = 28 }"));
    assert!(wanted < capacity(Test::study(study)));
    assert_eq!(capacity(set("28 %")), wanted);
    for line in ["over_provisioning = \"28%\"\n", "over_provisioning.ratio_percent = 28\n"] {
        let part = "part = \"mqsim-f\"\n";
        let laid = study.replace(part, &format!("{part}{line}"));
        assert_eq!(capacity(Test::study(&laid)), wanted, "{line}");
    }
    let below = ["--set", "device.ssd.over_provisioning.ratio_percent=28"];
    assert_eq!(capacity(Test::study(study).args(&below)), wanted);
    set("0.2").refuses(&["over_provisioning: invalid type", "\"28%\"", "ratio_percent = 28"]);
    set("many").refuses(&["over_provisioning: invalid value", "\"28%\""]);
    let three = ["--set", "device.ssd.geometry.page=3KiB"];
    Test::study(study).args(&three).refuses(&["a power of two from 512B to 1MiB, got 3KiB"]);
}

#[test]
fn the_cache_is_shown_and_emptied() {
    let study = "[device.ssd]\n[workload.fio]\n[run]\nrequests = 1\n[[precondition]]\n\
                 overwrite = { writes = \"400%\" }\n";
    let test = Test::study(study);
    assert_eq!(test.run().code, 0);
    let ask = |what: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
        test.run_as(command.args(["cache", what]).args(more).stdin(Stdio::null()))
    };
    let status: serde_json::Value =
        serde_json::from_str(&ask("status", &["--json"]).stdout).unwrap();
    assert_eq!(status["drives"].as_array().unwrap().len(), 1);
    assert_eq!(status["bytes_max"], 2_u64 << 30);
    assert!(ask("empty", &[]).stdout.contains("held 1 drive, "));
    assert!(ask("status", &[]).stdout.contains("holds 0 drives, 0 B of at most 2 GiB"));
    let mut wrong = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    wrong.args(["cache", "status"]).env("BLOCKLAB_CACHE_MAX", "much");
    let wrong = test.run_as(&mut wrong);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("BLOCKLAB_CACHE_MAX: "), "{}", wrong.stderr);
}

//! `blocklab trace` as a user meets it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/traces").join(name)
}

fn trace(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    command.arg("trace").args(arguments).output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn info_counts_what_is_there() {
    let file = fixture("sample.blkparse");
    let output = trace(&["info", file.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all = json(&output);
    assert_eq!(all["format"], "blkparse");
    assert_eq!(all["requests"], 7);
    assert_eq!(all["write"]["requests"], 3);
    assert_eq!(all["write"]["bytes"], 32 * 512);
    assert_eq!(all["flush"]["requests"], 2);
    assert_eq!(all["discard"]["bytes"], 1024 * 512);
    assert_eq!(all["fua"], 1);
    assert_eq!(all["footprint_bytes"], 5 * 4096);
    assert_eq!(all["sequential_share"], 0.5);
    assert_eq!(all["processes"][0]["name"], "jbd2/sda1-8 (305)");
    assert_eq!(all["devices"][1]["name"], "8,16");
}

#[test]
fn parameters_of_the_format_reach_it() {
    let file = fixture("sample.blkparse");
    let output = trace(&["info", file.to_str().unwrap(), "--json", "--with", "action=D"]);
    assert_eq!(json(&output)["requests"], 5);
    let output = trace(&["info", file.to_str().unwrap(), "--with", "acton=D"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("unknown field `acton`, expected `action`"));
}

/// What `attach --record` and `travel --record` write has the one action.
#[test]
fn an_action_that_no_event_has_is_told() {
    let folder = folder("action");
    let (file, out) = (folder.join("queued.blkparse"), folder.join("out.iolog"));
    let queued = "  8,0    0        1     0.000000000     7  Q   R 8 + 8 [fio]\n";
    std::fs::write(&file, queued).unwrap();
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let dispatched = ["--with", "action=D"];
    for verb in [vec!["info", file], vec!["convert", file, out, "--to", "iolog"]] {
        let output = trace(&[&verb[..], &dispatched].concat());
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
        let said = text(&output.stderr);
        assert!(said.contains("no event has the action D (read as blkparse)"), "{said}");
        assert!(said.contains("= expected: action=Q, which the trace has\n"), "{said}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is written");

    // A binary recording tells its actions by numbers.
    let binary = fixture("sample-le.blktrace");
    let output = trace(&["info", binary.to_str().unwrap(), "--with", "action=G"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("= expected: action=Q or "), "{said}");
    // A trace of nothing lacks nothing that was asked for.
    let nothing = folder.join("nothing.blkparse");
    std::fs::write(&nothing, "CPU0 (8,0):\n").unwrap();
    assert!(trace(&["info", nothing.to_str().unwrap(), "--with", "action=D"]).status.success());
}

#[test]
fn record_stats_looks_up_responses() {
    let file = fixture("sample.blkparse");
    let output = trace(&["record-stats", file.to_str().unwrap(), "--region", "64KiB"]);
    let all = json(&output);
    // The reads and writes lie in sectors 2048 to 2079 and 10264 to 10271.
    assert_eq!((&all["regions"], &all["cold"]), (&2.into(), &2.into()));
    assert_eq!(all["written_bytes"], 4 * 4096);
    assert_eq!(all["overwrite_share"], 0.0);
    let depths = all["queue_depths"].as_array().unwrap();
    assert_eq!(depths.iter().map(|d| d["count"].as_u64().unwrap()).sum::<u64>(), 7);
}

#[test]
fn convert_keeps_what_it_can_and_says_what_it_lost() {
    let folder = folder("convert");
    let (file, out) = (fixture("sample.blkparse"), folder.join("out.mqsim.gz"));
    let arguments = ["convert", file.to_str().unwrap(), out.to_str().unwrap(), "--to", "mqsim"];
    let output = trace(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    for loss in ["2 flushes", "1 discards", "1 FUA", "4 requests lost their process"] {
        assert!(said.contains(loss), "{said}");
    }
    let all = json(&trace(&["info", out.to_str().unwrap(), "--json"]));
    assert_eq!((&all["format"], &all["compression"]), (&"mqsim".into(), &"gzip".into()));
    assert_eq!(all["requests"], 4);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no unfinished file is left");
}

#[test]
fn processes_keep_their_names() {
    let folder = folder("names");
    let (file, out) = (fixture("sample.blkparse"), folder.join("out.blkparse"));
    let paths = [file.to_str().unwrap(), out.to_str().unwrap()];
    let output = trace(&["convert", paths[0], paths[1], "--to", "blkparse", "--json"]);
    assert_eq!(json(&output)["lost"], serde_json::json!([]), "{}", text(&output.stderr));
    let processes = |file| json(&trace(&["info", file, "--json"]))["processes"].clone();
    assert_eq!(processes(paths[1]), processes(paths[0]));
    assert_eq!(processes(paths[1])[0]["name"], "jbd2/sda1-8 (305)");
}

#[test]
fn a_table_carries_everything() {
    let folder = folder("table");
    let (file, out) = (fixture("sample.blkparse"), folder.join("out.parquet"));
    let paths = [file.to_str().unwrap(), out.to_str().unwrap()];
    let output = trace(&["convert", paths[0], paths[1], "--to", "parquet"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("lost"), "{}", text(&output.stderr));
    let bytes = std::fs::read(&out).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn a_failed_conversion_leaves_nothing_behind() {
    let folder = folder("failed");
    let (damaged, out) = (folder.join("damaged.mqsim"), folder.join("out.zst"));
    std::fs::write(&damaged, "1 0 8 8 0\n2 0 16 8 0\n3 0 2x 8 0\n").unwrap();
    std::fs::write(&out, "what was there before").unwrap();
    let (from, to) = (damaged.to_str().unwrap(), out.to_str().unwrap());
    let output = trace(&["convert", from, to, "--to", "blkparse", "--overwrite"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("error: \"2x\" (read as mqsim)"), "{said}");
    assert!(said.contains("damaged.mqsim:3:5"), "{said}");
    assert!(said.contains("3 | 3 0 2x 8 0\n  |     ^^"), "{said}");
    assert!(said.contains("= expected: a sector number"), "{said}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "what was there before");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn an_existing_file_is_replaced_only_when_told_to() {
    let folder = folder("existing");
    let (from, out) = (fixture("sample.blkparse"), folder.join("notes.txt"));
    std::fs::write(&out, "dear diary").unwrap();
    let to = ["convert", from.to_str().unwrap(), out.to_str().unwrap(), "--to", "msr"];
    let refused = trace(&to);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("notes.txt exists already"));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "dear diary");
    assert!(trace(&[&to[..], &["--overwrite"]].concat()).status.success());
    assert!(std::fs::read_to_string(&out).unwrap().contains(",Write,"));
}

#[test]
fn a_pipe_is_a_trace_too() {
    let folder = folder("pipe");
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let from = fixture("sample.blkparse");
    for name in ["-", "/dev/stdin", pipe.to_str().unwrap()] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
        command.args(["trace", "info", "--json", "--with", "action=D", name]);
        let feed = Command::new("cat").arg(&from).stdout(std::process::Stdio::piped()).spawn();
        command.stdin(feed.unwrap().stdout.unwrap());
        let feeder = (name != "-" && name != "/dev/stdin").then(|| {
            let (from, pipe) = (from.clone(), pipe.clone());
            std::thread::spawn(move || std::fs::copy(from, pipe))
        });
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        assert_eq!(json(&output)["requests"], 5, "{name}");
        feeder.map(|feeder| feeder.join().unwrap().unwrap());
    }
    // A study reads its files more than once.
    let study = format!("[device.null]\n[workload.trace]\nfile = {pipe:?}\n");
    std::fs::write(folder.join("study.toml"), study).unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    let refused = run.args(["run", "study.toml"]).current_dir(&folder).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("save it as a file first"));
}

#[test]
fn what_follows_a_gzip_stream_is_named() {
    let folder = folder("gzip");
    let file = folder.join("t.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &std::fs::read(fixture("sample.msr")).unwrap()).unwrap();
    let packed = packed.finish().unwrap();
    std::fs::write(&file, [&packed[..], b"garbage"].concat()).unwrap();
    let output = trace(&["info", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("what follows its end is no gzip stream"), "{said}");
    assert!(!said.contains("--format"), "{said}");
}

#[test]
fn a_signal_leaves_no_unfinished_file() {
    let folder = folder("signal");
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let out = folder.join("out.msr");
    let mut convert = Command::new(env!("CARGO_BIN_EXE_blocklab"))
        .args(["trace", "convert", "--format", "msr", "--to", "msr"])
        .args([&pipe, &out])
        .spawn()
        .unwrap();
    // The pipe gives one line and then nothing, so the conversion waits in the middle.
    let mut to = std::fs::File::options().write(true).open(&pipe).unwrap();
    let line = b"128166372003061629,usr,0,Write,0,4096,1\n";
    std::io::Write::write_all(&mut to, &line.repeat(4096)).unwrap();
    while std::fs::read_dir(&folder).unwrap().count() < 2 {
        assert!(convert.try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    let id = convert.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let ended = convert.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(15));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "only the pipe is left");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_one_clear_message() {
    let file = fixture("sample.blkparse");
    let output = trace(&["convert", file.to_str().unwrap(), "/dev/full", "--to", "msr"]);
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.contains("cannot write /dev/full: No space left on device"), "{said}");
}

#[test]
fn unknown_names_list_the_known_ones() {
    let file = fixture("sample.arc");
    let file = file.to_str().unwrap();
    let cases: [(&[&str], &str); 3] = [
        (&["info", file, "--format", "lis"], "there is no trace format \"lis\""),
        (&["convert", file, "/dev/null", "--to", "arc"], "blkparse, iolog, msr, disksim, mqsim"),
        (&["info", "no-such-file"], "cannot open no-such-file: No such file"),
    ];
    for (arguments, expected) in cases {
        let output = trace(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

/// `trace beside` of a recording: (difference of dispatched requests, share of equal next choices).
fn beside(recording: &str, policy: &str, more: &[&str]) -> (f64, f64) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = ["../../traces", "tests/recordings"].map(|at| root.join(at).join(recording));
    let file = file.iter().find(|file| file.exists()).unwrap();
    let arguments = ["beside", file.to_str().unwrap(), "--policy", policy, "--json"];
    let output = trace(&[&arguments, more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all = json(&output);
    let number = |key: &str| all[key].as_f64().unwrap();
    (number("dispatched_difference"), number("same_choices"))
}

/// Of Linux 6.18 on a loop device, and of Linux 6.1 in a guest of `travel`.
#[test]
fn a_modelled_elevator_joins_what_the_real_one_joined() {
    // Pages of a run are one segment there.
    let loop_device = ["--with", "max_segments=65535"];
    for (recording, bound) in [
        ("postmark-ss-ext3.blkparse.zst", 0.001),
        ("bonnie-ext3.blkparse.zst", 0.001),
        ("postmark-ll10-ext3-mq-deadline.blkparse.zst", 0.011),
    ] {
        let (difference, _) = beside(recording, "mq-deadline", &loop_device);
        assert!(difference.abs() <= bound, "{recording}: {difference}");
        let none = [&loop_device[..], &["--with", "nomerges=true"]].concat();
        let (difference, _) = beside(recording, "mq-deadline", &none);
        assert!(difference > 0.02, "{recording}, nothing joined: {difference}");
    }
}

#[test]
fn a_modelled_elevator_sends_in_the_order_of_the_real_one() {
    let before_6_5 = ["--with", "policy.by_position=false"];
    for (recording, policy, with, other, bound) in [
        ("travel-mq-deadline.blkparse.zst", "mq-deadline", &before_6_5[..], "bfq", 0.95),
        ("travel-bfq.blkparse.zst", "bfq", &[], "mq-deadline", 0.85),
    ] {
        let (difference, same) = beside(recording, policy, with);
        assert!(same >= bound && difference.abs() < 0.025, "{policy}: {same} {difference}");
        let (_, same) = beside(recording, other, &[]);
        assert!(same < bound, "{other} beside a recording of {policy}: {same}");
    }
    // Of Linux 6.18.
    let (recording, loop_device) =
        ("postmark-ss-ext3.blkparse.zst", ["--with", "max_segments=65535"]);
    let (_, same) = beside(recording, "mq-deadline", &loop_device);
    assert!(same > 0.99, "{same}");
    let (_, same) = beside(recording, "mq-deadline", &[&loop_device[..], &before_6_5].concat());
    assert!(same < 0.99, "the wrong version: {same}");
}

#[test]
fn what_cannot_be_compared_says_why() {
    let file = fixture("sample.blkparse");
    for (arguments, expected) in [
        (["--policy", "mq-deadlin"], "there is no elevator \"mq-deadlin\""),
        (["--policy", "none"], "the recording is of several devices"),
    ] {
        let output = trace(&[&["beside", file.to_str().unwrap()], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

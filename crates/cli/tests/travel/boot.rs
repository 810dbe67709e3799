//! `blocklab boot record`: a distribution's boot, recorded, is the same twice; and what comes of
//! records.

use std::path::PathBuf;

use serde_json::Value;

use crate::common::skip;
use crate::repeat::Load;
use crate::support::{Folder, can_travel};

/// True when there is a kernel and a root to boot; otherwise says why the test is skipped.
fn can_boot() -> bool {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let root = cache.map(|cache| cache.join("blocklab/root/debian-bookworm.tar"));
    if !root.is_some_and(|root| root.is_file()) {
        skip("debian-root", "there is no root file system to boot");
        return false;
    }
    can_travel(&["mkfs.ext4", "tar"])
}

/// The answer of `blocklab boot ... --json`.
fn boot(folder: &Folder, args: &[&str]) -> Value {
    let all: Vec<&str> = ["boot"].iter().chain(args).chain(&["--json"]).copied().collect();
    let out = folder.blocklab(&all);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// What may differ between two boots that are the same.
fn without_wall(record: &str) -> String {
    let lines = record.lines().filter(|line| !line.starts_with("{\"travelled\""));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_change_of_an_advice_is_booted() {
    if !can_boot() {
        return;
    }
    let folder = Folder::new();
    let device = ["--device", "slc2010-paper"];
    let only = ["--only", "1 request at", "--only", "without rsyslog"];
    let advice = boot(&folder, &[&["advise"], &device[..], &only[..]].concat());
    let changes = advice["changes"].as_array().unwrap();
    let of = |name: &str| {
        let found = changes.iter().find(|one| one["change"] == name);
        found.unwrap_or_else(|| panic!("{name}: {advice}"))
    };
    assert_eq!(changes.len(), 2, "{advice}");
    // A drive with several channels waits where it is given one request at a time.
    assert!(of("1 request at a time")["saved_s"].as_f64().unwrap() < 0.0, "{advice}");
    let read = |row: &Value| row["read_mb"].as_f64().unwrap();
    let without = of("without rsyslog.service");
    assert!(read(without) < read(&advice["as_it_is"]), "{advice}");
    let loads = advice["loads"].as_array().unwrap();
    let usual = loads.iter().find(|load| load["variant"] == "shipped").unwrap();
    assert_eq!((loads.len(), usual["saved_s"].as_f64()), (7, Some(0.0)), "{advice}");

    let masked = [&["record", "--mask", "rsyslog.service"], &device[..]].concat();
    let masked = boot(&folder, &masked);
    let rows = masked["boots"][0]["ranking"].as_array().unwrap();
    let has = |name: &str| rows.iter().any(|row| row["name"] == name);
    assert!(has("cron") && !has("rsyslogd"), "{rows:?}");
}

#[test]
fn a_boot_is_recorded_whole_and_the_same_on_a_busy_machine() {
    if !can_boot() {
        return;
    }
    let folder = Folder::new();
    let args = |out| ["record", "--device", "slc2010-paper", "--sample", "50ms", "--out", out];
    let first = boot(&folder, &args("a"));
    let load = Load::new();
    let second = boot(&folder, &args("b"));
    drop(load);
    let (a, b) = (&first["boots"][0], &second["boots"][0]);
    assert_eq!(a["travelled"]["digest"], b["travelled"]["digest"]);
    let text = |folder: &Folder, name: &str| {
        without_wall(&std::fs::read_to_string(folder.path(name)).unwrap())
    };
    let of = |out| text(&folder, &format!("{out}/slc2010-paper.record"));
    assert_eq!(of("a"), of("b"));
    // Nothing is lost, and everything costs something.
    assert_eq!((&a["head"]["lost"], &a["head"]["incomplete"]), (&0.into(), &Value::Null));
    let rows = a["ranking"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    for name in ["systemd", "sshd", "cron", "dbus-daemon"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(names[0], "systemd");
    let boot_ns = a["boot_ns"].as_f64().unwrap();
    let io_ns = rows[0]["io_ns"].as_f64().unwrap();
    assert!(io_ns > 0.05 * boot_ns && io_ns < boot_ns, "{io_ns} of {boot_ns}");
    let own = a["recorder_cpu_ns"].as_f64().unwrap();
    assert!(own > 0.0 && own < 0.02 * boot_ns, "{own} of {boot_ns}");
    // Samples miss processes that are shorter than their interval.
    assert!(a["bias"]["unseen"].as_u64().unwrap() > 0, "{}", a["bias"]);

    let record = "a/slc2010-paper.record";
    let again = boot(&folder, &["report", record, "--html", "r.html", "--perfetto", "r.json"]);
    assert_eq!(again["boots"][0]["ranking"], a["ranking"]);
    let page = std::fs::read_to_string(folder.path("r.html")).unwrap();
    assert!(page.contains(">multi-user.target</text>") && page.contains(">sshd</text>"));
    let trace = folder.report("r.json");
    assert!(trace["traceEvents"].as_array().unwrap().len() > rows.len(), "{trace}");
    assert_eq!(folder.leftovers(), Vec::<String>::new());
}

#[test]
fn a_unit_that_is_never_reached_is_told() {
    if !can_boot() {
        return;
    }
    let folder = Folder::new();
    let boot = "boot record --device slc2010-paper --slice 0ms --out boots";
    for (more, words) in [
        ("--until no-such.target --limit 3s", "no-such.target was not reached: the time was over"),
        (
            "--mask shh.service",
            "the init ended before multi-user.target: the root has no unit `shh",
        ),
    ] {
        let words_of_command: Vec<&str> = boot.split(' ').chain(more.split(' ')).collect();
        let out = folder.blocklab(&words_of_command);
        let told = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(3), "{told}");
        assert!(told.contains(words), "{told}");
        assert_eq!(folder.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn a_list_of_files_is_recorded_and_read_ahead() {
    if !can_boot() {
        return;
    }
    let folder = Folder::new();
    let record = ["record", "--device", "slc2010-paper", "--slice", "0ms", "--out"];
    boot(&folder, &[&record[..], &["a", "--files", "--queue"]].concat());
    let list = "a/slc2010-paper.record";
    let text = std::fs::read_to_string(folder.path(list)).unwrap();
    let files = text.lines().filter(|line| line.starts_with("{\"file\":")).count();
    // Hundreds of some ten thousand.
    assert!((100..3000).contains(&files), "{files}");
    assert!(text.contains("/lib/systemd/systemd\"}"), "{text}");
    let reads = text.lines().filter(|line| line.starts_with("{\"read_by\":")).count();
    assert!(reads > 100, "{reads}");
    // What is there stays: the record has its requests beside it.
    let refused = |args: &[&str], words: &str| {
        let out = folder.blocklab(&[&["boot"], args].concat());
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && told.contains(words), "{told}");
    };
    refused(&[&record[..], &["a"]].concat(), "a/slc2010-paper.blk exists already");
    let alike = ["x", "--device", "./slc2010-paper.toml"];
    std::fs::copy(folder.path("part.toml"), folder.path("slc2010-paper.toml")).unwrap();
    refused(&[&record[..], &alike].concat(), "x/slc2010-paper.record again");
    refused(&[&record[..], &["x", "--limit", "50ms"]].concat(), "expected: whole seconds");
    let cut: String = text.lines().take(40).map(|line| format!("{line}\n")).collect();
    std::fs::write(folder.path("cut.record"), cut).unwrap();
    refused(&["report", "cut.record"], "line 40: it ends after");
    let ahead = boot(&folder, &[&record[..], &["b", "--read-ahead", list]].concat());
    let rows = ahead["boots"][0]["ranking"].as_array().unwrap();
    let reader = rows.iter().find(|row| row["name"] == "readahead-list").unwrap();
    assert!(reader["read_bytes"].as_u64().unwrap() > 10_000_000, "{reader}");
}

#[test]
fn a_boot_is_predicted_on_another_drive() {
    if !can_boot() {
        return;
    }
    let folder = Folder::new();
    let recorded = ["record", "--device", "wd-80g-5400", "--queue"];
    let others = ["--device", "mlc2009-32g", "--device", "sd-uhs1"];
    let how = ["--slice", "0ms", "--out", "a"];
    let booted = boot(&folder, &[&recorded[..], &others, &how].concat());
    let trace = format!("workload.trace.file={}", folder.path("a/wd-80g-5400.blk").display());
    let out = folder.blocklab(&[
        "run",
        "boot/another-drive",
        "--set",
        &trace,
        "--set",
        "report.figure=[]",
        "--json",
        "--no-report",
        "--out",
        "b",
    ]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let runs = answer["runs"].as_array().unwrap();
    for (number, label) in [(1, "ssd-2009"), (2, "sd-card")] {
        let booted_s = booted["boots"][number]["boot_ns"].as_f64().unwrap() / 1e9;
        let run = runs.iter().find(|run| run["label"] == label).unwrap();
        let replayed_s = run["metrics"]["simulated_s"].as_f64().unwrap();
        let off = replayed_s / booted_s - 1.0;
        assert!(off.abs() < 0.1, "{label}: {replayed_s} s replayed, {booted_s} s booted");
    }
}

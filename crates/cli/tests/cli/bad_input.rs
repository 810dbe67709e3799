//! Every class of bad input gives one message with its place and the nearest valid name.

use crate::support::{STUDY, Test};

/// The sound study with `from` replaced.
fn broken(from: &str, to: &str) -> Test {
    assert!(STUDY.contains(from));
    Test::study(&STUDY.replace(from, to))
}

#[test]
fn an_unknown_key_is_named_with_the_nearest() {
    broken("latency", "latencey").refuses(&[
        "unknown name `latencey` in `device.null`",
        "study.toml:5:1",
        "latencey = \"10us\"\n  | ^^^^^^^^\n",
        "did you mean `latency`?",
    ]);
}

#[test]
fn an_unknown_table_and_an_unknown_model() {
    broken("[run]", "[rum]").refuses(&["study.toml:9:2", "did you mean `run`?"]);
    broken("[device.null]", "[device.nul]").refuses(&["study.toml:4:9", "did you mean `null`?"]);
    broken("[device.null]\n", "[devise.null]\n").refuses(&["did you mean `device`?"]);
}

#[test]
fn a_wrong_type_and_a_wrong_unit() {
    broken("\"10us\"", "10").refuses(&[
        "device.null.latency: invalid type: integer `10`",
        "study.toml:5:11",
        "a duration with a unit, such as \"25us\"",
    ]);
    broken("10us", "10 parsecs").refuses(&["study.toml:5:11", "unknown unit \"parsecs\"", "ms"]);
    broken("5000", "\"many\"").refuses(&["run.requests", "study.toml:10:12", "a whole number, 0"]);
    broken("5000", "99999999999999999999").refuses(&["study.toml:10:12", "out of range"]);
}

#[test]
fn text_that_is_not_toml() {
    broken("iodepth = 4", "iodepth 4").refuses(&["this is not TOML", "study.toml:8:9"]);
    Test::study("= 1").refuses(&["study.toml:1:1"]);
}

#[test]
fn a_value_no_model_can_have() {
    broken("latency = \"10us\"", "queue_depth_max = 0")
        .refuses(&["device.null.queue_depth_max: expected at least 1, got 0", "study.toml:5:19"]);
}

#[test]
fn settings_are_checked_like_the_study() {
    let set = |setting| Test::study(STUDY).args(&["--set", setting]);
    set("device.null.latencey=1us").refuses(&["--set:1:1", "did you mean `latency`?"]);
    set("device.null.latency=fast").refuses(&["--set:1:21", "known: ns, us, ms"]);
    set("run.time=10000000000h").refuses(&["--set:1:10", "at most ten years (87600h)"]);
    let begun = ["did you mean `samsung-980-pro-1tb`?"];
    set("device={ ssd = { part = \"samsung-980-pro\" } }").refuses(&begun);
    set("device").refuses(&["there is no `=`", "key=value"]);
}

#[test]
fn sweeps_are_checked_like_the_study() {
    let sweep = |line: &str| Test::study(&format!("{STUDY}[sweep]\n{line}\n"));
    sweep("\"device.null.latencey\" = [\"1us\"]").refuses(&["study.toml:12:1", "`latency`?"]);
    sweep("\"device.null.latency\" = [\"1us\", 2]").refuses(&["study.toml:12:33"]);
    sweep("\"device.null.latency\" = []").refuses(&["has no values"]);
}

#[test]
fn expectations_name_real_metrics_and_axes() {
    let expect = |lines: &str| Test::study(&format!("{STUDY}[[expect]]\ntext = \"t\"\n{lines}"));
    expect("metric = \"iopps\"\nmin = 1").refuses(&["study.toml:13:10", "did you mean `iops`?"]);
    expect("metric = \"iops\"\nmin = 1\nwhere = { devise = \"x\" }")
        .refuses(&["no axis `devise`", "study.toml:15:"]);
    expect("metric = \"iops\"").refuses(&["claims nothing"]);
    let sweep = "[sweep]\n\"workload.fio.iodepth\" = [1, 4]\n";
    let claim = "[[claim]]\ntext = \"t\"\nsource = \"s\"\nmetric = \"iops\"\nholds = { min = 1 }\n";
    let which = "where = { \"workload.fio.iodepth\" = 2 }\n";
    Test::study(&format!("{STUDY}{sweep}{claim}{which}")).refuses(&[
        "`workload.fio.iodepth` has no value `2`",
        "study.toml:18:",
        "one of 1, 4",
    ]);
}

#[test]
fn parts_are_found_and_checked() {
    let study = STUDY.replace("latency = \"10us\"", "part = \"./slow.toml\"");
    let part = |text: &str| Test::study(&study).file("slow.toml", text);
    let good = "[part]\nname = \"slow\"\nstatus = \"sketch\"\n[null]\nlatency = \"70us\"\n";
    let answer = part(good).args(&["--json"]).json();
    assert_eq!(answer["runs"][0]["metrics"]["latency_us_max"], 70);
    assert_eq!(answer["runs"][0]["device"]["part"], "./slow.toml");
    part(&good.replace("latency", "latencey")).refuses(&["slow.toml:5:1", "`latency`?"]);
    part(&good.replace("[null]", "[ssd]")).refuses(&["study.toml:5:8", "describes a device.ssd"]);
    Test::study(&study).refuses(&["study.toml:5:8", "cannot read the part"]);
    Test::study(&study.replace("./slow.toml", "no-such-part"))
        .refuses(&["study.toml:5:8", "there is no part named `no-such-part`"]);
}

#[test]
fn impossible_geometry_and_preconditioning() {
    let ssd = "[device.ssd]\ngeometry = { channels = 0 }\n[workload.fio]\n";
    Test::study(ssd).refuses(&["study.toml:2:25", "geometry.channels"]);
    let step = |step: &str| Test::study(&format!("{STUDY}[[precondition]]\n{step}\n"));
    step("fill = { span = \"120%\" }").refuses(&["study.toml:12:17", "more than the device's"]);
    step("fill = { spam = \"20%\" }").refuses(&["study.toml:12:10", "did you mean `span`?"]);
    step("overwrite = { unit = \"100B\" }").refuses(&["study.toml:12:22", "512-byte sectors"]);
    step("polish = {}").refuses(&["study.toml:12:1", "fill, overwrite, until_steady"]);
}

#[test]
fn files_that_cannot_be_read() {
    let run = |name: &str| Test::new().args(&["run", name]).file("d.toml/x", "");
    run("./missing.toml").refuses(&["cannot read the study ./missing.toml", "No such file"]);
    run("./d.toml").refuses(&["cannot read the study ./d.toml", "directory"]);
    Test::study("").file("study.toml", [0xff, 0xfe]).refuses(&["UTF-16"]);
    // What never ends is not read until the memory is full.
    let endless = |args: &[&str]| {
        Test::new().args(args).refuses(&["/dev/zero", "it has more than"]);
    };
    endless(&["run", "/dev/zero"]);
    endless(&["compare", "tlc-3d-128", "--with", "/dev/zero"]);
    endless(&["run", "first-look", "--set", "device.ssd.part=/dev/zero"]);
    run("no-such-study").refuses(&["there is no study named `no-such-study`"]);
}

#[test]
fn a_wrong_command_line() {
    Test::new().args(&["run"]).refuses(&["<STUDY>"]);
    Test::new().args(&["rnu"]).refuses(&["unrecognized subcommand 'rnu'"]);
    Test::study(STUDY).args(&["--jobs", "0"]).refuses(&["--jobs"]);
}

#[test]
fn an_address_beyond_the_device_and_a_damaged_trace() {
    let workload = "[workload.trace]\nfile = \"t.log\"\nremap = \"refuse\"\n\
                    replay = \"back-to-back\"\n";
    let study = format!("[device.null]\n{workload}");
    let trace = |lines: &str| {
        let text = format!("fio version 2 iolog\n/dev/sda add\n/dev/sda open\n{lines}");
        Test::study(&study).file("t.log", text)
    };
    let good = "/dev/sda read 4096 4096\n";
    assert_eq!(trace(good).args(&["--json"]).json()["runs"][0]["metrics"]["host_requests"], 1);
    trace(&format!("{good}/dev/sda read 99999999999936 4096\n"))
        .refuses(&["t.log, record at line 5", "beyond the device"]);
    trace("/dev/sda read many 4096\n").refuses(&["t.log", "many", "study.toml:3:8"]);
    Test::study(&study).refuses(&["cannot open \"t.log\"", "No such file", "study.toml:3:8"]);
}

//! Figures of a study's own: what they hold, and what is refused.

use serde_json::{Value, json};

use crate::support::{STUDY, Test};

const SWEEP: &str = r#"
[sweep]
"device.null.latency" = ["10us", "20us"]
"workload.fio.iodepth" = [1, 4]
[[report.figure]]
name = "depth"
title = "Depth buys rate"
y = "iops"
"#;

/// The sound study with two axes and a figure that has these keys too; they begin in line 19.
fn figure(keys: &str) -> Test {
    Test::study(&format!("{STUDY}{SWEEP}{keys}\n"))
}

fn drawn(keys: &str) -> Value {
    figure(keys).args(&["--json"]).json()["figures"][0].clone()
}

fn column(figure: &Value, key: &str) -> Vec<Value> {
    figure["points"].as_array().unwrap().iter().map(|point| point[key].clone()).collect()
}

#[test]
fn an_axis_of_numbers_is_drawn_as_lines_with_the_other_axes_as_series() {
    let figure =
        drawn("x = \"workload.fio.iodepth\"\nrelative_to = { \"device.null.latency\" = \"10us\" }");
    assert_eq!(figure["kind"], "lines");
    assert_eq!(figure["series"], json!(["device.null.latency"]));
    assert_eq!(figure["y_label"], "iops / that of 10us");
    assert_eq!(column(&figure, "x"), [1, 4, 1, 4]);
    assert_eq!(column(&figure, "y"), [1.0, 1.0, 0.5, 0.5]);
}

#[test]
fn a_metric_is_divided_by_another_one_of_the_same_run() {
    let keys = "x = \"workload.fio.iodepth\"\nper = \"throughput_mb_s\"";
    let both = "relative_to = { \"device.null.latency\" = \"10us\" }";
    let figure = drawn(keys);
    assert_eq!(figure["y_label"], "iops per throughput_mb_s");
    let requests_per_mb = 1e6 / 4096.0;
    let near = |value: &Value| (value.as_f64().unwrap() / requests_per_mb - 1.0).abs() < 1e-9;
    assert!(column(&figure, "y").iter().all(near), "{figure}");
    let figure = drawn(&format!("{keys}\n{both}"));
    assert_eq!(figure["y_label"], "iops per throughput_mb_s / that of 10us");
    assert!(column(&figure, "y").iter().all(|y| (y.as_f64().unwrap() - 1.0).abs() < 1e-9));
    let wrong = "x = \"workload.fio.iodepth\"\nper = \"throughput_mbs\"";
    self::figure(wrong).refuses(&["throughput_mbs", "throughput_mb_s", "study.toml:20:"]);
}

#[test]
fn a_list_selects_several_values() {
    let some = drawn("x = \"device.null.latency\"\nwhere = { \"workload.fio.iodepth\" = [4] }");
    assert_eq!((&some["kind"], &some["series"]), (&json!("bars"), &json!([])));
    assert_eq!(column(&some, "x"), ["10us", "20us"]);
    let all = drawn("x = \"device.null.latency\"\nwhere = { \"workload.fio.iodepth\" = [4, 1] }");
    assert_eq!(column(&all, "x"), ["10us", "10us", "20us", "20us"]);
}

#[test]
fn a_front_has_what_nothing_beats() {
    // (latency, rate): (10, 100k), (10, 400k), (20, 50k), (20, 200k).
    let over = |keys: &str| drawn(&format!("x = \"latency_us_mean\"\n{keys}"));
    let high = over("front = \"high-left\"");
    assert_eq!(high["kind"], "points");
    assert_eq!(column(&high, "front"), [false, true, false, false]);
    let low = over("front = \"low-left\"");
    assert_eq!(column(&low, "front"), [true, false, true, false]);
    let each = over("front = \"high-left\"\npanels = \"device.null.latency\"");
    assert_eq!(column(&each, "front"), [false, true, false, true]);
}

#[test]
fn repeats_are_averaged() {
    let study = format!("{STUDY}{SWEEP}x = \"workload.fio.iodepth\"\n");
    let study = study.replace("title = \"Sound\"", "title = \"Sound\"\nrepeats = 3");
    let answer = Test::study(&study).args(&["--json"]).json();
    assert_eq!(answer["runs"].as_array().unwrap().len(), 12);
    assert_eq!(column(&answer["figures"][0], "y"), [100_000.0, 400_000.0, 50_000.0, 200_000.0]);
}

#[test]
fn figures_take_the_place_of_the_usual_plots() {
    let plots = |study: &str| Test::study(study).args(&["--json"]).json()["plots"].clone();
    assert_eq!(plots(STUDY).as_array().unwrap().len(), 5);
    let own = format!("{STUDY}{SWEEP}x = \"workload.fio.iodepth\"\n");
    assert_eq!(plots(&own), json!([]));
    assert_eq!(plots(&format!("{own}[report]\nplots = [\"waf\", \"map\"]")), json!(["waf", "map"]));
}

#[test]
fn names_in_figures_are_checked() {
    figure("x = \"latency_us_p9\"").refuses(&[
        "neither an axis of the study nor a metric",
        "study.toml:19:5",
        "an axis (device.null.latency, workload.fio.iodepth)",
        "did you mean `latency_us_p90`?",
    ]);
    let depth = |keys: &str| figure(&format!("x = \"workload.fio.iodepth\"\n{keys}"));
    depth("series = \"device.nul.latency\"")
        .refuses(&["study.toml:20:10", "did you mean `device.null.latency`?"]);
    depth("panels = \"workload.fio.iodepth\"").refuses(&["study.toml:20:10", "twice"]);
    depth("where = { \"device.null.latency\" = [\"10us\", \"21us\"] }").refuses(&[
        "the axis `device.null.latency` has no value `21us`",
        "study.toml:20:",
        "one of 10us, 20us; did you mean",
    ]);
    depth("relative_to = { device = \"a\" }").refuses(&["no axis `device`", "study.toml:20:26"]);
    depth("fronts = \"high-left\"").refuses(&["study.toml:20:1", "did you mean `front`?"]);
    depth("kind = \"bar\"").refuses(&["study.toml:20:8", "did you mean `bars`?"]);
    let study = format!("{STUDY}{SWEEP}x = \"workload.fio.iodepth\"\n");
    let named = |name: &str| Test::study(&study.replace("\"depth\"", name));
    named("\"waf\"").refuses(&["study.toml:16:8", "`waf` is the name of a plot"]);
    named("\"../a\"").refuses(&["study.toml:16:8", "small letters"]);
    let twice = "[[report.figure]]\nname = \"depth\"\ntitle = \"\"\nx = \"waf\"\ny = \"waf\"\n";
    Test::study(&format!("{study}{twice}")).refuses(&["study.toml:21:8", "another figure"]);
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    figure("x = \"waf\"\nkind = \"bars\"").refuses(&["study.toml:20:8", "stand over an axis"]);
    let depth = |keys: &str| figure(&format!("x = \"workload.fio.iodepth\"\n{keys}"));
    depth("front = \"low-left\"").refuses(&["study.toml:20:9", "a front lies over a metric"]);
    depth("kind = \"bars\"\ny_log = true").refuses(&["study.toml:21:9", "the length of a bar"]);
    figure("x = \"device.null.latency\"\nx_log = true").refuses(&["study.toml:20:9", "no numbers"]);
    // With the device as series there are two points per value of a third axis.
    let open = STUDY.replace("rw = \"randread\"", "rw = \"randread\"\nbs = \"4KiB\"");
    let sweep = SWEEP.replace("[sweep]", "[sweep]\n\"workload.fio.bs\" = [\"4KiB\", \"8KiB\"]");
    let keys = "x = \"workload.fio.iodepth\"\nseries = \"device.null.latency\"\n";
    Test::study(&format!("{open}{sweep}{keys}")).refuses(&[
        "leaves the axis `workload.fio.bs` open",
        "study.toml:22:10",
        "`panels`",
    ]);
}

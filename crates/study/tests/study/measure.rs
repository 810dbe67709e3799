//! The metrics alone are those of a study that writes all there is.

use study::{Options, PlannedStudy, Watch, measure, run};

const STUDY: &str = r#"
[device.ssd]
part = "tlc-3d-128"
over_provisioning = "28%"
buffer = { capacity = "1MiB" }
[device.ssd.geometry]
blocks_per_plane = 32
pages_per_block = 24
[workload.fio]
rw = "randrw"
bs = "4KiB"
norandommap = true
time_based = true
runtime = "1h"
[sweep]
"workload.fio.iodepth" = [1, 16]
[run]
requests = 3000
[[precondition]]
fill = {}
[[precondition]]
overwrite = { writes = "100%" }
"#;

#[test]
fn nothing_but_tables_is_left_out() {
    let plan = PlannedStudy::parse("both", STUDY).unwrap();
    let out = std::env::temp_dir().join(format!("blocklab-measure-{}", std::process::id()));
    let options = Options { out: Some(out.clone()), ..Options::default() };
    let written = run(&plan, &options, &Watch::new(&plan)).unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    let measured = measure(&plan, &Watch::new(&plan)).unwrap();
    assert_eq!((written.runs.len(), measured.len()), (2, 2));
    for (written, measured) in written.runs.iter().zip(&measured) {
        for name in
            ["read_iops", "write_iops", "read_latency_us_p99", "write_latency_us_mean", "waf"]
        {
            let value = measured.metrics[name];
            assert!(value.is_some_and(|value| value > 0.0), "{name}");
            assert_eq!(value, written.metrics[name], "{name}");
        }
        assert_eq!(written.notes, measured.notes);
    }
    assert_ne!(measured[0].metrics["read_iops"], measured[1].metrics["read_iops"]);
}

/// What wear levelling is for: cold blocks take part, and the most worn ones are spared.
#[test]
fn wear_levelling_shows_in_the_metrics_of_wear() {
    let skewed = STUDY
        .replace("rw = \"randrw\"", "rw = \"randwrite\"\nrandom_distribution = \"zipf:1.1\"")
        .replace("norandommap = true\n", "")
        .replace(
            "\"workload.fio.iodepth\" = [1, 16]",
            "\"device.ssd.wear\" = [\"none\", { static = { threshold = 2, every = 1 } }]",
        )
        .replace("requests = 3000", "requests = 60000");
    let plan = PlannedStudy::parse("wear", &skewed).unwrap();
    let runs = measure(&plan, &Watch::new(&plan)).unwrap();
    let of = |run: usize, name: &str| runs[run].metrics[name].unwrap();
    let deviation = [0, 1].map(|run| of(run, "erases_per_block_deviation"));
    assert!(deviation[1] < 0.8 * deviation[0], "{deviation:?}");
    assert!(of(1, "erases_per_block_max") < of(0, "erases_per_block_max"));
    assert!(of(1, "erases_per_block_mean") > 1.0);
}

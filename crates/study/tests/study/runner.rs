//! Runs that are not simulated go through the same grid, digests, results and expectations.

use std::collections::BTreeMap;
use std::path::PathBuf;

use parquet::basic::Type;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};
use sim::Bytes;
use study::{
    Failure, Job, Options, PlannedStudy, Results, RunResult, Runner, Setup, Tables, Watch, run,
};

const STUDY: &str = r#"
[device.null]
capacity = "1MiB"
[workload.fio]
bs = "4KiB"
[sweep]
"workload.fio.iodepth" = [1, 2]
[[precondition]]
fill = {}
[[expect]]
text = "as fixed"
metric = "iops"
where = { "workload.fio.iodepth" = 2 }
equal = 101
[[expect]]
text = "not as fixed"
metric = "iops"
max = 100
"#;

/// Gives 100 and 101 I/Os per second, whatever it is asked.
#[derive(Debug)]
struct Fixed {
    /// What its outcome depends on.
    kernel: &'static str,
}

impl Runner for Fixed {
    fn plan(&self, setup: &Setup) -> Result<Option<Value>, Failure> {
        if setup.limits.capacity > Bytes(1 << 20) {
            return Err(Failure::input("too large for the guest"));
        }
        Ok(Some(json!({ "kernel": self.kernel })))
    }

    fn run(&self, job: Job) -> Result<RunResult, Failure> {
        assert_eq!(job.device.limits(), job.run.limits);
        let index = job.run.params[0].1.label().parse::<u32>().unwrap() - 1;
        Ok(RunResult {
            metrics: [("iops".to_string(), Some(f64::from(100 + index)))].into(),
            result_digest: format!("digest {index}"),
            notes: vec!["booted".into()],
            tables: Tables::default(),
            failed: None,
            settings: serde_json::Map::new(),
        })
    }
}

fn plan(kernel: &'static str) -> PlannedStudy {
    PlannedStudy::parse_for(Box::new(Fixed { kernel }), "fixed", STUDY).unwrap()
}

fn results(plan: &PlannedStudy, name: &str) -> (Results, PathBuf) {
    let out = std::env::temp_dir().join(format!("blocklab-{name}-{}", std::process::id()));
    let options =
        Options { out: Some(out.clone()), records: !plan.travels(), ..Options::default() };
    (run(plan, &options, &Watch::new(plan)).unwrap(), out)
}

#[test]
fn fixed_numbers_go_through_grid_results_and_expectations() {
    let (results, out) = results(&plan("6.1"), "runner");
    let text = std::fs::read_to_string(out.join("result.json")).unwrap();
    let files: Vec<bool> = results.files.values().map(|name| out.join(name).exists()).collect();
    std::fs::remove_dir_all(&out).unwrap();

    let written: Value = serde_json::from_str(&text).unwrap();
    let of_runs = |key: &str| [&written["runs"][0][key], &written["runs"][1][key]];
    assert_eq!(of_runs("metrics"), [&json!({ "iops": 100 }), &json!({ "iops": 101 })]);
    assert_eq!(of_runs("result_digest"), ["digest 0", "digest 1"]);
    assert_eq!(of_runs("notes"), [&json!(["booted"]); 2]);
    assert_eq!(of_runs("label"), ["iodepth=1", "iodepth=2"]);
    let verdicts: Vec<bool> = results.expectations.iter().map(|verdict| verdict.ok).collect();
    assert_eq!(verdicts, [true, false]);
    assert!(!results.as_expected());
    assert_eq!(files, vec![true; results.files.len()]);
}

#[test]
fn what_is_counted_is_a_whole_number_in_the_table_of_runs() {
    let plan = PlannedStudy::parse("counted", STUDY).unwrap();
    let (_, out) = results(&plan, "counted");
    let file = std::fs::File::open(out.join("runs.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let kinds: BTreeMap<String, Type> = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .columns()
        .iter()
        .map(|column| (column.name().to_string(), column.physical_type()))
        .collect();
    std::fs::remove_dir_all(&out).unwrap();
    for name in ["host_requests", "workload.fio.iodepth", "repeat"] {
        assert_eq!(kinds.get(name), Some(&Type::INT64), "{name}: {kinds:?}");
    }
    for name in ["iops", "simulated_s"] {
        assert_eq!(kinds.get(name), Some(&Type::DOUBLE), "{name}: {kinds:?}");
    }
}

#[test]
fn what_a_runner_depends_on_is_in_the_digest() {
    let simulated = PlannedStudy::parse("fixed", STUDY).unwrap();
    assert_eq!(plan("6.1").digest, plan("6.1").digest);
    assert_ne!(plan("6.1").digest, plan("6.12").digest);
    assert_ne!(plan("6.1").digest, simulated.digest);
    // The drive that they start from is the same.
    let preconditioned = |plan: &PlannedStudy| plan.runs[0].precondition_digest.clone().unwrap();
    assert_eq!(preconditioned(&plan("6.1")), preconditioned(&simulated));
}

#[test]
fn what_a_runner_refuses_is_known_before_the_first_run() {
    let large = STUDY.replace("1MiB", "2MiB");
    let refused = PlannedStudy::parse_for(Box::new(Fixed { kernel: "6.1" }), "fixed", &large);
    assert_eq!(refused.unwrap_err().message, "too large for the guest");
}

/// Of crash/file-systems: one file system loses every cut, the others none.
#[derive(Debug)]
struct Loses(&'static str);

impl Runner for Loses {
    fn plan(&self, _: &Setup) -> Result<Option<Value>, Failure> {
        Ok(None)
    }

    fn run(&self, job: Job) -> Result<RunResult, Failure> {
        let kind = study::name_of(&job.run.point.travel.as_ref().unwrap().file_system);
        let lost = f64::from(u8::from(kind == self.0));
        let repaired = f64::from(u8::from(kind == "ext2"));
        let metrics = [("crash_lost_share", lost), ("crash_repaired", repaired)];
        Ok(RunResult {
            metrics: metrics.map(|(name, value)| (name.to_string(), Some(value))).into(),
            result_digest: kind,
            notes: Vec::new(),
            tables: Tables::default(),
            failed: None,
            settings: serde_json::Map::new(),
        })
    }
}

#[test]
fn what_is_said_of_file_systems_with_a_journal_is_said_of_each() {
    for (loses, holds) in
        [("none", true), ("ext3", false), ("ext4", false), ("xfs", false), ("btrfs", false)]
    {
        let runner = Box::new(Loses(loses));
        let plan = PlannedStudy::read_for(runner, "crash/file-systems", &[]).unwrap();
        let (results, out) = results(&plan, &format!("loses-{loses}"));
        std::fs::remove_dir_all(&out).unwrap();
        assert_eq!(results.as_expected(), holds, "{loses}: {:?}", results.expectations);
    }
}

#[test]
fn the_report_in_fios_shape_has_rates_of_the_jobs_own_time() {
    let study = "[device.null]\n[workload.fio]\nrw = 'read'\nrate_iops = 4\ntime_based = true\n\
                 ramp_time = '1s'\nruntime = '2s'\n";
    let plan = PlannedStudy::parse("paced", study).unwrap();
    let out = std::env::temp_dir().join(format!("blocklab-paced-{}", std::process::id()));
    let options = Options { out: Some(out.clone()), fio_json: true, ..Options::default() };
    run(&plan, &options, &Watch::new(&plan)).unwrap();
    let text = std::fs::read_to_string(out.join("fio.json")).unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let read = &report["jobs"][0]["read"];
    assert_eq!((&read["iops"], &read["runtime"]), (&json!(4.0), &json!(2000)));
}

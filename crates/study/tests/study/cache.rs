//! A drive from the cache gives the same results as a fresh one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use study::{
    Cache, Failure, Job, Options, PlannedStudy, Results, RunResult, Runner, Setup, Simulated,
    Watch, run,
};

const STUDY: &str = r#"
[device.ssd]
[workload.fio]
rw = "randrw"
bs = "4KiB"
iodepth = 4
[[precondition]]
fill = { span = "80%" }
[[precondition]]
overwrite = { span = "1%", writes = "100%" }
[[precondition]]
until_steady = { workload.fio = { rw = "randwrite" }, round = "20ms", rounds_max = 6 }
[run]
requests = 2000
"#;

struct Bench {
    directory: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let directory =
            std::env::temp_dir().join(format!("blocklab-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("study.toml"), STUDY).unwrap();
        Bench { directory }
    }

    fn run(&self, cached: bool) -> Results {
        self.try_run(cached).unwrap()
    }

    fn try_run(&self, cached: bool) -> Result<Results, Failure> {
        let plan =
            PlannedStudy::read(self.directory.join("study.toml").to_str().unwrap(), &[]).unwrap();
        run(&plan, &self.options(cached), &Watch::new(&plan))
    }

    fn options(&self, cached: bool) -> Options {
        let cache = Cache {
            directory: self.directory.join("cache"),
            worth: Duration::ZERO,
            bytes_max: 1 << 30,
        };
        Options {
            out: Some(self.directory.join("out")),
            cache: cached.then_some(cache),
            ..Options::default()
        }
    }

    fn images(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory.join("cache")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn a_drive_from_the_cache_is_the_same_drive() {
    let bench = Bench::new("cache-hit");
    let fresh = bench.run(false);
    assert!(bench.images().is_empty());
    let made = bench.run(true);
    assert_eq!(bench.images().len(), 1);
    let hit = bench.run(true);
    assert_eq!(fresh.result_digest, made.result_digest);
    assert_eq!(fresh.result_digest, hit.result_digest);
    assert_eq!(fresh.runs[0].gate, hit.runs[0].gate);
    assert!(hit.notes.is_empty(), "{:?}", hit.notes);
}

#[test]
fn a_damaged_image_is_made_anew_and_said() {
    let bench = Bench::new("cache-damage");
    let first = bench.run(true);
    let image = &bench.images()[0];
    let bytes = std::fs::read(image).unwrap();
    std::fs::write(image, &bytes[..bytes.len() / 2]).unwrap();
    let again = bench.run(true);
    assert_eq!(first.result_digest, again.result_digest);
    assert!(again.notes[0].contains("damaged"), "{:?}", again.notes);
    assert_eq!(std::fs::read(image).unwrap().len(), bytes.len());
}

#[test]
fn damage_inside_a_table_ends_the_run_and_the_image() {
    let bench = Bench::new("cache-bits");
    let first = bench.run(true);
    let image = &bench.images()[0];
    let mut bytes = std::fs::read(image).unwrap();
    let blobs = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
    bytes[64..64 + blobs].iter_mut().step_by(4_000).for_each(|byte| *byte ^= 1);
    std::fs::write(image, &bytes).unwrap();
    let failure = bench.try_run(true).unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert!(failure.message.contains("does not match its digest"), "{failure}");
    assert!(failure.message.contains(image.to_str().unwrap()), "{failure}");
    assert!(bench.images().is_empty());
    assert_eq!(first.result_digest, bench.run(true).result_digest, "the drive is made anew");
}

/// Cuts the image short in the middle of a run, as far as its open file goes: what is lost is as
/// lost as when another machine has removed it.
#[derive(Debug)]
struct Cutting {
    image: PathBuf,
}

impl Runner for Cutting {
    fn plan(&self, setup: &Setup) -> Result<Option<Value>, Failure> {
        Simulated.plan(setup)
    }

    fn run(&self, job: Job) -> Result<RunResult, Failure> {
        std::fs::OpenOptions::new().write(true).open(&self.image).unwrap().set_len(99).unwrap();
        Simulated.run(job)
    }
}

#[test]
fn an_image_that_vanishes_under_a_run_repeats_it() {
    let bench = Bench::new("cache-vanished");
    let first = bench.run(true);
    let image = bench.images()[0].clone();
    let study = bench.directory.join("study.toml");
    let runner = Box::new(Cutting { image });
    let plan = PlannedStudy::read_for(runner, study.to_str().unwrap(), &[]).unwrap();
    let again = run(&plan, &bench.options(true), &Watch::new(&plan)).unwrap();
    assert_eq!(first.result_digest, again.result_digest);
    assert!(again.notes[0].contains("vanished while it ran"), "{:?}", again.notes);
}

#[test]
fn a_drive_is_kept_that_is_larger_than_the_cache() {
    let bench = Bench::new("cache-small");
    let study = bench.directory.join("study.toml");
    let plan = PlannedStudy::read(study.to_str().unwrap(), &[]).unwrap();
    let cache = Cache { bytes_max: 1, ..Cache::at(bench.directory.join("cache")) };
    let place = plan.prepare(0, &cache, &Watch::new(&plan)).unwrap().expect("it is kept");
    assert!(place.exists());
    let cache = Cache { bytes_max: 0, ..Cache::at(bench.directory.join("none")) };
    assert_eq!(plan.prepare(0, &cache, &Watch::new(&plan)).unwrap(), None);
}

/// Run with `cargo test --release -p blocklab-study --test study -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement: writes an image of more than a gigabyte"]
fn a_large_aged_drive_starts_quickly() {
    let bench = Bench::new("cache-large");
    let large = STUDY.replace(
        "[device.ssd]",
        "[device.ssd]\ngeometry = { channels = 16, packages_per_channel = 4, dies_per_package = 2, \
         blocks_per_plane = 4096, pages_per_block = 256 }",
    );
    let large = large.replace("requests = 2000", "requests = 1");
    std::fs::write(bench.directory.join("study.toml"), large).unwrap();
    for what in ["made", "restored"] {
        let began = Instant::now();
        let results = bench.run(true);
        let size = results.runs[0].device.capacity_bytes >> 30;
        println!("{size} GiB {what}: {:?}", began.elapsed());
    }
}

//! Files that a study names and that change while it runs.

use std::path::{Path, PathBuf};

use serde_json::Value;
use study::{Failure, Job, Kind, Options, PlannedStudy, RunResult, Runner, Setup, Tables, Watch};

/// Writes the host's profile anew in every run, with that text behind it.
#[derive(Debug)]
struct Rewriting {
    profile: PathBuf,
    behind: &'static str,
}

impl Runner for Rewriting {
    fn plan(&self, setup: &Setup) -> Result<Option<Value>, Failure> {
        setup.host().map(|_| None)
    }

    fn run(&self, job: Job) -> Result<RunResult, Failure> {
        job.setup.host()?;
        std::fs::write(&self.profile, profile() + self.behind).unwrap();
        Ok(RunResult {
            metrics: [("iops".to_string(), Some(1.0))].into(),
            result_digest: "digest".into(),
            notes: Vec::new(),
            tables: Tables::default(),
            failed: None,
            settings: serde_json::Map::new(),
        })
    }
}

fn profile() -> String {
    let (_, text) = study::library::hosts()[0];
    text.to_string()
}

/// A study of two runs, which are kept however little time they take.
fn plan(home: &Path, behind: &'static str) -> PlannedStudy {
    let _ = std::fs::remove_dir_all(home);
    std::fs::create_dir_all(home).unwrap();
    let profile_file = home.join("host.toml");
    std::fs::write(&profile_file, profile()).unwrap();
    let text = format!(
        "[study]\nrepeats = 2\n[device.null]\n[travel]\ncommand = 'true'\nhost = {:?}\n",
        profile_file.display().to_string()
    );
    let runner = Box::new(Rewriting { profile: profile_file, behind });
    PlannedStudy::parse_for(runner, "changed", &text).unwrap()
}

#[test]
fn what_a_changed_file_gave_is_no_result() {
    let home = std::env::temp_dir().join(format!("blocklab-changed-{}", std::process::id()));
    let plan = plan(&home, "# another\n");
    let out = home.join("out");
    let options = Options { out: Some(out.clone()), jobs: 1, ..Options::default() };
    let failure = study::run(&plan, &options, &Watch::new(&plan)).unwrap_err();
    assert_eq!(failure.kind, Kind::Input);
    let what = format!("{} was changed while the study ran", home.join("host.toml").display());
    assert!(failure.message.contains(&what), "{failure}");
    assert!(!out.exists() && plan.left(&out) == [0, 1], "nothing is kept");
    // As a worker of a cluster, which keeps what it has read.
    let failure = plan.measure(1, None, &Watch::new(&plan)).unwrap_err();
    assert!(failure.message.contains(&what), "{failure}");
    std::fs::remove_dir_all(&home).unwrap();
}

#[test]
fn a_file_that_is_written_again_as_it_was_is_no_change() {
    let home = std::env::temp_dir().join(format!("blocklab-rewritten-{}", std::process::id()));
    let plan = plan(&home, "");
    let options = Options { out: Some(home.join("out")), ..Options::default() };
    study::run(&plan, &options, &Watch::new(&plan)).unwrap();
    std::fs::remove_dir_all(&home).unwrap();
}

//! What the tests of `attach` and `travel` share: a folder of its own for each, the tools they
//! need, and the replay of what was recorded.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "../../../../tests/skip.rs"]
mod skip;

pub(crate) use skip::skip;

/// A folder that is deleted in the end, with a small part in it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Not `blocklab-`: that is how what a session may not leave behind begins.
        let name = format!("test-of-blocklab-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let part = "[null]\nlatency = \"20us\"\ncapacity = \"512MiB\"\n";
        std::fs::write(path.join("part.toml"), part).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
        // Private folders of a session are looked for here. What the tests themselves are given to
        // read is nobody's business.
        command.args(args).current_dir(&self.0).env("TMPDIR", &self.0).stdin(Stdio::null());
        command
    }

    /// Run `blocklab` to its end.
    pub(crate) fn blocklab(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The report that was written to this file, if it was.
    pub(crate) fn report(&self, name: &str) -> Value {
        let text = std::fs::read_to_string(self.path(name));
        text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    }

    /// Metrics of a study that replays the trace `name` at its times; `device` is the table of one.
    pub(crate) fn replay(&self, device: &str, name: &str) -> Value {
        let study = format!(
            "{device}\n[workload.trace]\nfile = \"{name}\"\n\
             [workload.trace.replay.timestamps]\n"
        );
        std::fs::write(self.path("study.toml"), study).unwrap();
        let run = self.blocklab(&["run", "study.toml", "--no-report", "--json"]);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let mut result: Value = serde_json::from_slice(&run.stdout).unwrap();
        result["runs"][0]["metrics"].take()
    }

    /// Everything below the folder that a session may not leave.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("blocklab-") || name.ends_with(".sock")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Nothing under test takes this long, on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Wait until something is so of which no event tells.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The modelled times of one kind of request are those of the replay.
pub(crate) fn same_times(operation: &Value, metrics: &Value) {
    let name = operation["op"].as_str().unwrap();
    for key in ["mean", "p50", "p99", "max"] {
        let real = operation["modelled_us"][key].as_f64().unwrap();
        let simulated = metrics[format!("{name}_latency_us_{key}")].as_f64();
        let simulated = simulated.unwrap_or_else(|| panic!("no {name} {key} in {metrics:#}"));
        assert!((real - simulated).abs() < 1e-6, "{name} {key}: {real} {simulated}");
    }
}

/// True when every tool is there; otherwise says why the test is skipped.
pub(crate) fn have(tools: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    // Those of the administrator lie beside the others, and are not in everybody's path.
    let folders: Vec<_> =
        path.split(':').flat_map(|f| [f.into(), f.replace("bin", "sbin")]).collect();
    let found = |tool: &&&str| folders.iter().any(|folder| Path::new(folder).join(tool).exists());
    match tools.iter().find(|tool| !found(tool)) {
        None => true,
        Some(missing) => {
            skip(missing, "it is not installed");
            false
        }
    }
}

//! A folder of its own, and one journey in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A disk without a seek: every request takes 20 us.
const PART: &str = "[null]\nlatency = \"20us\"\ncapacity = \"512MiB\"\n";

/// A folder that is deleted in the end, with a small part in it.
pub(crate) struct Folder(PathBuf);

/// What a journey left.
pub(crate) struct Journey {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) report: Value,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("travel-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("part.toml"), PART).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
        // Private folders are looked for here.
        command.args(args).current_dir(&self.0).env("TMPDIR", &self.0);
        command
    }

    pub(crate) fn blocklab(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// `blocklab travel` with these arguments.
    pub(crate) fn travel(&self, args: &[&str]) -> Journey {
        let all: Vec<&str> = std::iter::once("travel").chain(args.iter().copied()).collect();
        let output = self.blocklab(&all);
        let text = std::fs::read_to_string(self.path("out/travel/travel.json"));
        Journey {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            report: text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap()),
        }
    }

    /// Everything that a journey may not leave here.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("blocklab-")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Journey {
    /// It must have gone well.
    pub(crate) fn good(self) -> Journey {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        self
    }

    pub(crate) fn number(&self, pointer: &str) -> f64 {
        let value = self.report.pointer(pointer).and_then(Value::as_f64);
        value.unwrap_or_else(|| panic!("no {pointer} in {:#}", self.report))
    }
}

/// True when there is a kernel, and every tool; otherwise says why the test is skipped.
pub(crate) fn can_travel(tools: &[&str]) -> bool {
    let mut ask = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    let out = ask.args(["kernel", "status", "--json"]).output().unwrap();
    let status: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    if status["ready"] != true {
        eprintln!("skipped: there is no kernel to travel with; get it: make kernel");
        return false;
    }
    let found = |tool: &&&str| {
        let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        folders.iter().any(|folder| Path::new(folder).join(tool).exists())
    };
    match tools.iter().find(|tool| !found(tool)) {
        None => true,
        Some(missing) => {
            eprintln!("skipped: {missing} is not installed; get it: make clients");
            false
        }
    }
}

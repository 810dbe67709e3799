//! A builder for black-box tests: a directory of its own, files in it, one command line.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::common::skip;

/// A small sound study.
pub(crate) const STUDY: &str = r#"
[study]
title = "Sound"
[device.null]
latency = "10us"
[workload.fio]
rw = "randread"
iodepth = 4
[run]
requests = 5000
"#;

/// What the program said.
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A test under construction.
pub(crate) struct Test {
    directory: PathBuf,
    args: Vec<String>,
}

impl Test {
    pub(crate) fn new() -> Test {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("blocklab-cli-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        Test { directory, args: Vec::new() }
    }

    /// A test of `blocklab run study.toml --no-report` on this study.
    pub(crate) fn study(text: &str) -> Test {
        Test::new().file("study.toml", text).args(&["run", "study.toml", "--no-report"])
    }

    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Test {
        let path = self.directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Test {
        self.args.extend(args.iter().map(|arg| (*arg).to_string()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn run(&self) -> Output {
        self.run_as(Command::new(env!("CARGO_BIN_EXE_blocklab")).args(&self.args))
    }

    /// Run another program in the test's directory.
    pub(crate) fn run_as(&self, command: &mut Command) -> Output {
        let output = command
            .current_dir(&self.directory)
            .env("XDG_CACHE_HOME", self.directory.join("cache"))
            .output()
            .unwrap();
        Output {
            code: output.status.code().expect("it was not killed"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Run a script in the test's directory, where it alone sees a file system of `size` at
    /// `small`; `None`, and why, where nobody may mount one. What comes of the script once that is
    /// mounted is never taken for a mount that failed.
    pub(crate) fn run_in_small(&self, size: &str, script: &str) -> Option<Output> {
        const MOUNTED: &str = "mounted\n";
        std::fs::create_dir(self.path("small")).unwrap();
        let script =
            format!("mount -t tmpfs -o size={size} none small && echo mounted && {script}");
        let mut why = String::new();
        for flags in ["-m", "-rm"] {
            let mut output =
                self.run_as(Command::new("unshare").args([flags, "sh", "-c", &script]));
            if output.stdout.starts_with(MOUNTED) {
                output.stdout.drain(..MOUNTED.len());
                return Some(output);
            }
            why += &output.stderr;
        }
        skip("mount", &why);
        None
    }

    /// Run, expect success, and parse stdout.
    pub(crate) fn json(&self) -> Value {
        let output = self.run();
        assert_eq!(output.code, 0, "{}", output.stderr);
        serde_json::from_str(&output.stdout).expect("stdout is one JSON object")
    }

    /// Run, and expect bad input with all of these in the message and nothing written.
    pub(crate) fn refuses(&self, expected: &[&str]) {
        let output = self.run();
        assert_eq!(output.code, 2, "{}\n{}", output.stdout, output.stderr);
        assert_eq!(output.stdout, "");
        for part in expected {
            assert!(output.stderr.contains(part), "{part:?} is not in:\n{}", output.stderr);
        }
        assert_eq!(entries(&self.path("out")), [""; 0], "something was written");
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Names in a directory, sorted; none when it does not exist.
pub(crate) fn entries(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

//! One journey in a folder of its own.

use std::process::{Command, Stdio};

use serde_json::Value;

pub(crate) use crate::common::{Folder, same_times, until};
use crate::common::{have, skip};

/// What a journey left.
pub(crate) struct Journey {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) report: Value,
}

impl Folder {
    /// `blocklab travel` with these arguments.
    pub(crate) fn travel(&self, args: &[&str]) -> Journey {
        self.travel_with_input(args, Stdio::null())
    }

    /// The same with something to read.
    pub(crate) fn travel_with_input(&self, args: &[&str], input: impl Into<Stdio>) -> Journey {
        let all: Vec<&str> = std::iter::once("travel").chain(args.iter().copied()).collect();
        let output = self.command(&all).stdin(input).output().unwrap();
        Journey {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            report: self.report("out/travel/travel.json"),
        }
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
        skip("travel", "there is no kernel to travel with");
        return false;
    }
    have(tools)
}

//! The Python side, as a program: reports and figures are made there.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use study::Failure;

/// Names the interpreter to use instead of `python3`.
const VARIABLE: &str = "BLOCKLAB_PYTHON";

/// The interpreter to use: the one named by the variable, else the one that `make setup` made
/// beside this binary's build folder, else the machine's own.
pub(crate) fn interpreter() -> OsString {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return path;
    }
    let binary = std::env::current_exe().unwrap_or_default();
    let beside = binary.ancestors().map(|folder| folder.join(".venv/bin/python"));
    beside.into_iter().find(|path| path.is_file()).map_or("python3".into(), Into::into)
}

/// The version of the Python package, or why there is none.
pub(crate) fn find() -> Result<String, String> {
    let name = interpreter();
    let shown = name.to_string_lossy().into_owned();
    let ask = "import blocklab.report; print(blocklab.__version__)";
    let output = Command::new(&name)
        .args(["-c", ask])
        .stdin(Stdio::null())
        .output()
        .map_err(|why| format!("cannot run {shown}: {why}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.trim().lines().last().unwrap_or("no reason given");
    Err(format!("{shown} has no usable package blocklab: {last}"))
}

/// The one command that provides the package.
pub(crate) fn install_command() -> String {
    let go_there = if std::path::Path::new("scripts/setup.sh").exists() {
        ""
    } else {
        "cd <blocklab's repository> && "
    };
    format!("{go_there}make setup && export {VARIABLE}=$PWD/.venv/bin/python")
}

/// The package is missing: exit code 3 with the one command that provides it.
pub(crate) fn missing(why: impl Into<String>) -> Failure {
    Failure::machine(why)
        .expected("a Python of 3.11 or newer with the package blocklab")
        .help(install_command())
}

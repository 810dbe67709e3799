//! What `attach` and `travel` share: where their measurements go, and the files of their devices.

use std::path::{Path, PathBuf};

use serde::Serialize;
use study::Failure;

use crate::say;

/// Where the measurements of a session go.
pub(super) struct Results {
    path: PathBuf,
    json: bool,
}

impl Results {
    /// They will be in `folder`/`file`, and with `json` on stdout too. The folder is made now: what
    /// must not be wrong at the end is tried at the beginning. Only an older report is replaced.
    pub(super) fn prepare(folder: &Path, file: &str, json: bool) -> Result<Results, Failure> {
        std::fs::create_dir_all(folder).map_err(|why| {
            Failure::machine(format!("cannot make the folder {}: {why}", folder.display()))
                .help("name another with --out DIR")
        })?;
        let path = folder.join(file);
        study::check_overwrite(&path, || is_report(&path))
            .map_err(|failure| failure.help("name another folder with --out DIR"))?;
        Ok(Results { path, json })
    }

    /// Write the report, and tell a person about it in `lines`.
    pub(super) fn write(self, report: &impl Serialize, lines: &[String]) -> Result<(), Failure> {
        lines.iter().for_each(|line| eprintln!("{line}"));
        let text =
            serde_json::to_string_pretty(report).map_err(|why| Failure::bug(why.to_string()))?;
        std::fs::write(&self.path, format!("{text}\n")).map_err(|why| {
            Failure::machine(format!("cannot write {}: {why}", self.path.display()))
        })?;
        eprintln!("results {}", self.path.display());
        if self.json {
            say(text);
        }
        Ok(())
    }
}

/// True for what `write` wrote: `attach` reports devices, `travel` disks.
fn is_report(path: &Path) -> bool {
    let report = std::fs::read(path)
        .ok()
        .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    report.is_some_and(|report| report["devices"].is_array() || report["disks"].is_array())
}

/// There may not be more files than devices to keep in them.
pub(super) fn check_data(data: &[PathBuf], parts: &[String]) -> Result<(), Failure> {
    if data.len() <= parts.len() {
        return Ok(());
    }
    Err(Failure::input("there are more --data files than parts")
        .expected("at most one file for each part, in the same order"))
}

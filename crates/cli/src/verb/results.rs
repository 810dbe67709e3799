//! What `attach`, `travel` and `crash` share: where their measurements go, and the files of their
//! devices.

use std::path::{Path, PathBuf};

use serde::Serialize;
use study::Failure;

use crate::say;

/// Where the measurements of a session go.
pub(super) struct Results {
    path: PathBuf,
    json: bool,
    _made: NewFolders,
}

/// Folders that are made for what will be in them, the innermost first. What was not needed in the
/// end, as something else was wrong, does not stay; a folder with something in it is not removed.
pub(super) struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    /// Of `folder` and those that it lies in, those that are not there yet.
    pub(super) fn of(folder: &Path) -> NewFolders {
        let new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        NewFolders(folder.ancestors().take_while(new).map(Path::to_path_buf).collect())
    }

    /// Remove them, as far as they are empty.
    pub(super) fn go(&self) {
        self.0.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        self.go();
    }
}

impl Results {
    /// They will be in `folder`/`file`, and with `json` on stdout too. The folder is made now: what
    /// must not be wrong at the end is tried at the beginning. Only an older report is replaced,
    /// and no file of the same session: `others`, each with its option.
    pub(super) fn prepare(
        folder: &Path,
        file: &str,
        json: bool,
        others: &[(&str, &[PathBuf])],
    ) -> Result<Results, Failure> {
        let made = NewFolders::of(folder);
        std::fs::create_dir_all(folder).map_err(|why| {
            Failure::input(format!("cannot make the folder {}: {why}", folder.display()))
                .help("name another with --out DIR")
        })?;
        let results = Results { path: folder.join(file), json, _made: made };
        let path = &results.path;
        study::check_output(path, || is_report(path))
            .map_err(|failure| failure.help("name another folder with --out DIR"))?;
        for (option, other) in others.iter().flat_map(|(o, all)| all.iter().map(move |p| (o, p))) {
            study::check_distinct(&[("the report", path), (option, other)])?;
        }
        Ok(results)
    }

    /// Write the report, and tell a person about it in `lines`.
    pub(super) fn write(self, report: &impl Serialize, lines: &[String]) -> Result<(), Failure> {
        lines.iter().for_each(crate::warn);
        let text =
            serde_json::to_string_pretty(report).map_err(|why| Failure::bug(why.to_string()))?;
        crate::write::replace(&self.path, format!("{text}\n").as_bytes())?;
        crate::warn(format!("results {}", self.path.display()));
        if self.json {
            say(text);
        }
        Ok(())
    }
}

/// True for what `write` wrote: `attach` reports devices behind a frontend, `travel` disks of a
/// kernel, and each device has a digest of all it depends on; `crash` reports cuts of a run.
fn is_report(path: &Path) -> bool {
    let text = std::fs::read(path).unwrap_or_default();
    let Ok(report) = serde_json::from_slice::<serde_json::Value>(&text) else { return false };
    let cuts =
        report["cuts"].as_array().is_some_and(|all| all.iter().all(|it| it["at_ns"].is_u64()));
    let crash = cuts && report["moments_ns"].is_array() && report["command"].is_array();
    crash
        || [("frontend", "devices"), ("kernel", "disks")].iter().any(|(key, devices)| {
            let devices = report[devices].as_array().filter(|all| !all.is_empty());
            let known =
                |all: &Vec<serde_json::Value>| all.iter().all(|it| it["digest"].is_string());
            report[key].is_string() && devices.is_some_and(known)
        })
}

/// There may not be more files than devices to keep in them.
pub(super) fn check_data(data: &[PathBuf], parts: &[String]) -> Result<(), Failure> {
    if data.len() <= parts.len() {
        return Ok(());
    }
    Err(Failure::input("there are more --data files than parts")
        .expected("at most one file for each part, in the same order"))
}

//! What was measured so far, a file for each load.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use study::Failure;

use super::fio;
use super::plan::{self, Job};
use super::target::Target;
use crate::verb::measured::steady::is_steady;

pub(super) struct Folder {
    path: PathBuf,
    /// It was made for this probe.
    is_new: bool,
}

/// Says what the folder is about.
const IDENTITY: &str = "probe.json";
/// All that a part is fitted to.
const MEASURED: &str = "measured.json";

impl Folder {
    /// # Errors
    /// It is not empty and none of ours, or is about something else; it cannot be made.
    pub(super) fn open(
        path: &Path,
        target: &Target,
        runtime: u32,
        overwrite: bool,
        engine: &str,
    ) -> Result<Folder, Failure> {
        let engine = if target.is_nbd { "nbd" } else { engine };
        let identity = json!({ "probe": 1, "target": target.name, "serial": target.word,
                               "bytes": target.bytes, "runtime": runtime, "overwrite": overwrite,
                               "engine": engine });
        let is_new = path.symlink_metadata().is_err();
        let folder = Folder { path: path.to_path_buf(), is_new };
        let shown = path.display();
        let cannot = |why: std::io::Error| {
            Failure::input(format!("--out {shown}: {why}"))
                .expected("a new folder, or that of a probe which was interrupted")
        };
        if is_new {
            std::fs::create_dir_all(path).map_err(cannot)?;
        }
        let is_empty = std::fs::read_dir(path).map_err(cannot)?.next().is_none();
        if is_empty {
            study::check_output(&path.join(IDENTITY), || false)?;
            folder.write(IDENTITY, &identity.to_string())?;
            return Ok(folder);
        }
        let known = std::fs::read_to_string(path.join(IDENTITY)).ok();
        let known: Option<Value> = known.and_then(|text| serde_json::from_str(&text).ok());
        match known {
            Some(known) if known == identity => Ok(folder),
            Some(known) => {
                Err(Failure::input(format!("--out {shown} is about another probe: {known}"))
                    .expected(identity.to_string())
                    .help("go on with the options of then, or choose a new folder"))
            }
            None => Err(Failure::input(format!("--out {shown} is not empty, and no probe's"))
                .expected("a new folder, or that of a probe which was interrupted")),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.json"))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Requests a second of the load `name`, which is measured if it was not before.
    pub(super) fn measured(
        &self,
        name: &str,
        measure: impl FnOnce() -> Result<String, Failure>,
    ) -> Result<f64, Failure> {
        let path = self.file(name);
        if !path.exists() {
            let measured = measure().inspect_err(|_| self.forget());
            self.write(&format!("{name}.json"), &measured?)?;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        fio::iops(&text).ok_or_else(|| {
            Failure::input(format!("{}: not what fio writes", path.display()))
                .help("delete this file, and the load is measured again")
        })
    }

    /// A folder in which nothing was measured is no probe's: the next may be another.
    fn forget(&self) {
        let files = std::fs::read_dir(&self.path).into_iter().flatten();
        if files.count() == 1 {
            // What does not go is told by the next probe.
            let _ = std::fs::remove_file(self.path.join(IDENTITY));
            let _ = self.is_new.then(|| std::fs::remove_dir(&self.path));
        }
    }

    /// Rounds until steady state, and whether it was reached.
    pub(super) fn rounds(&self, jobs: &[Job]) -> Option<(u32, bool)> {
        let job = jobs.iter().find(|job| job.steady)?;
        let names = (1..=plan::ROUNDS_MAX).map(|round| format!("{}-{round:02}", job.name));
        let iops: Vec<f64> = names
            .map_while(|name| fio::iops(&std::fs::read_to_string(self.file(&name)).ok()?))
            .collect();
        Some((iops.len() as u32, is_steady(&iops)))
    }

    /// One file of what a part is fitted to, as fio writes them.
    pub(super) fn merge(&self, jobs: &[Job]) -> Result<PathBuf, Failure> {
        let mut whole: Option<Value> = None;
        for job in jobs.iter().filter(|job| job.fitted) {
            let text = std::fs::read_to_string(self.file(&job.name)).unwrap_or_default();
            let Ok(mut one) = serde_json::from_str::<Value>(&text) else { continue };
            let list = |value: &mut Value| value["jobs"].as_array_mut().map(std::mem::take);
            match &mut whole {
                None => whole = Some(one),
                Some(whole) => {
                    let more = list(&mut one).unwrap_or_default();
                    if let Some(jobs) = whole["jobs"].as_array_mut() {
                        jobs.extend(more);
                    }
                }
            }
        }
        let whole = whole.ok_or_else(|| Failure::bug("a probe without a load"))?;
        self.write(MEASURED, &whole.to_string())?;
        Ok(self.path.join(MEASURED))
    }

    /// Whole, or not at all.
    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        crate::write::replace(&self.path.join(name), text.as_bytes())
    }
}

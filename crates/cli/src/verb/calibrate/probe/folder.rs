//! What was measured so far, a file for each load.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use study::Failure;

use super::fio;
use super::plan::{Job, Wish};
use super::target::Target;
use crate::verb::measured::steady::is_steady;

pub(super) struct Folder {
    path: PathBuf,
    identity: Value,
    overwrite: bool,
    /// It was made for this probe.
    is_new: bool,
}

/// Says what the folder is about.
const IDENTITY: &str = "probe.json";
/// All that a part is fitted to.
const MEASURED: &str = "measured.json";
/// In the identity, which start of this machine the drive was filled in.
const BOOT: &str = "boot";
/// A drive that nothing was asked of for this long has tidied up, or somebody else was there.
const IDLE_SECONDS: u64 = 15 * 60;

impl Folder {
    /// # Errors
    /// It is not empty and none of ours, or is about something else; it cannot be made.
    pub(super) fn open(
        path: &Path,
        target: &Target,
        wish: &Wish,
        engine: &str,
    ) -> Result<Folder, Failure> {
        let engine = if target.is_nbd { "nbd" } else { engine };
        // Those of 1 had one set of addresses for all loads, those of 2 read what was filled in
        // order.
        let version = if wish.overwrite { 3 } else { 2 };
        let identity = json!({ "probe": version, "target": target.name, "serial": target.word,
                               "bytes": target.bytes, "runtime": wish.runtime,
                               "overwrite": wish.overwrite, "precondition": wish.hours,
                               "engine": engine });
        let is_new = path.symlink_metadata().is_err();
        let overwrite = wish.overwrite;
        let folder = Folder { path: path.to_path_buf(), identity, overwrite, is_new };
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
            folder.begin()?;
            return Ok(folder);
        }
        let mut known = folder.known();
        known.as_object_mut().map(|known| known.remove(BOOT));
        match known {
            known if known == folder.identity => Ok(folder),
            Value::Null => {
                Err(Failure::input(format!("--out {shown} is not empty, and no probe's"))
                    .expected("a new folder, or that of a probe which was interrupted"))
            }
            known => Err(Failure::input(format!("--out {shown} is about another probe: {known}"))
                .expected(folder.identity.to_string())
                .help("go on with the options of then, or choose a new folder")),
        }
    }

    /// What it says of itself.
    fn known(&self) -> Value {
        let known = std::fs::read_to_string(self.path.join(IDENTITY)).unwrap_or_default();
        serde_json::from_str(&known).unwrap_or_default()
    }

    /// Nothing is measured yet.
    fn begin(&self) -> Result<(), Failure> {
        let mut identity = self.identity.clone();
        if self.overwrite {
            identity[BOOT] = json!(this_boot());
        }
        self.write(IDENTITY, &identity.to_string())
    }

    /// What is left to measure is measured of a drive in the state that the loads before it left,
    /// if nothing else may have changed that. Else forget what there is, and say why.
    pub(super) fn begin_anew(
        &self,
        jobs: &[Job],
        seconds_max: u64,
    ) -> Result<Option<String>, Failure> {
        if !self.overwrite {
            return Ok(None);
        }
        let Some(missing) = jobs.iter().position(|job| !self.is_done(job)) else {
            return Ok(None);
        };
        let is_begun = |job: &Job| job.names().next().is_some_and(|name| self.has(&name));
        let why = if jobs[missing + 1..].iter().any(is_begun) {
            format!("{} is missing, and what comes after it is not", jobs[missing].name)
        } else if !jobs.iter().any(is_begun) {
            // It may have been interrupted before this machine was started again.
            return self.begin().map(|()| None);
        } else if self.known()[BOOT] != json!(this_boot()) {
            "this machine was started again meanwhile".into()
        } else if let Some(why) = self.is_idle(jobs, seconds_max) {
            why
        } else {
            return Ok(None);
        };
        // The fill is the first: whatever is left without it begins anew as well.
        for name in jobs.iter().flat_map(Job::names).filter(|name| self.has(name)) {
            let path = self.file(&name);
            let cannot = |why: std::io::Error| format!("cannot remove {}: {why}", path.display());
            std::fs::remove_file(&path).map_err(|why| Failure::machine(cannot(why)))?;
        }
        self.begin()?;
        Ok(Some(why))
    }

    /// How long nothing was asked of the drive, if that is too long.
    fn is_idle(&self, jobs: &[Job], seconds_max: u64) -> Option<String> {
        let times = jobs
            .iter()
            .flat_map(Job::names)
            .filter_map(|name| self.file(&name).metadata().and_then(|found| found.modified()).ok());
        // A clock that was set says nothing.
        let age = times.max().and_then(|last| last.elapsed().ok()).unwrap_or(Duration::MAX);
        // The load that was interrupted has left nothing, and may have begun that long before.
        let most = Duration::from_secs(IDLE_SECONDS + seconds_max);
        (age > most).then(|| match age.as_secs() / 60 {
            minutes if age < Duration::MAX => format!("the last load ended {minutes} minutes ago"),
            _ => "the clock was set back meanwhile".into(),
        })
    }

    fn is_done(&self, job: &Job) -> bool {
        match job.steady {
            true => {
                let iops = self.iops(job);
                is_steady(&iops) || iops.len() as u32 == job.rounds
            }
            false => job.names().all(|name| self.has(&name)),
        }
    }

    /// Bytes that all rounds of a load have written.
    pub(super) fn written(&self, job: &Job) -> u64 {
        let text = |name: String| std::fs::read_to_string(self.file(&name)).ok();
        job.names().filter_map(|name| fio::written(&text(name)?)).sum()
    }

    /// Requests a second of each round so far.
    fn iops(&self, job: &Job) -> Vec<f64> {
        let iops = |name: String| fio::iops(&std::fs::read_to_string(self.file(&name)).ok()?);
        job.names().map_while(iops).collect()
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
            Failure::input(format!("{}: not what fio writes", path.display())).help(
                match self.overwrite {
                    false => "delete this file, and the load is measured again",
                    true => "delete this file, and the drive is filled and measured again",
                },
            )
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
        let iops = self.iops(jobs.iter().find(|job| job.steady)?);
        Some((iops.len() as u32, is_steady(&iops)))
    }

    /// One file of what a part is fitted to, as fio writes them: each load, which was a run of its
    /// own, is a group of its own. Not every fio says when a job began.
    pub(super) fn merge(&self, jobs: &[Job]) -> Result<PathBuf, Failure> {
        let mut whole: Option<Value> = None;
        for (number, job) in jobs.iter().filter(|job| job.fitted).enumerate() {
            let text = std::fs::read_to_string(self.file(&job.name)).unwrap_or_default();
            let Ok(mut one) = serde_json::from_str::<Value>(&text) else { continue };
            let list = |value: &mut Value| value["jobs"].as_array_mut().map(std::mem::take);
            for job in one["jobs"].as_array_mut().into_iter().flatten() {
                job["groupid"] = json!(number);
            }
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

/// Another one for each start of the machine.
fn this_boot() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_string())
}

//! Finished runs as files: of a study that was interrupted, and of other machines that took a part
//! of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Failure;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::digest;
use crate::plan::PlannedStudy;
use crate::planned::PlannedRun;
use crate::prepared::Gate;
use crate::process;
use crate::runner::RunResult;
use crate::tables::Tables;

/// A simulated run that takes less is done again in the time that it takes to look.
const WORTH: Duration = Duration::from_millis(200);

/// A hidden folder beside the results, while there are none.
pub(crate) struct Kept {
    folder: PathBuf,
}

/// What one run gave, and what its steady-state gate said.
pub(crate) struct Finished {
    pub(crate) result: RunResult,
    pub(crate) gate: Option<Gate>,
}

/// A finished run as bytes, which follow their SHA-256.
#[derive(Serialize, Deserialize)]
struct Row {
    /// Of the run, which says what it is a result of.
    digest: String,
    result_digest: String,
    metrics: BTreeMap<String, Option<f64>>,
    notes: Vec<String>,
    /// As JSON.
    settings: String,
    gate: Option<Gate>,
    tables: Tables,
}

impl Finished {
    /// As bytes for another process of this version of blocklab; `None` of a run that failed, which
    /// is tried again instead.
    pub(crate) fn to_bytes(&self, run: &PlannedRun) -> Option<Vec<u8>> {
        let RunResult { metrics, result_digest, notes, settings, failed, tables } = &self.result;
        if failed.is_some() {
            return None;
        }
        let row = Row {
            digest: run.digest.clone(),
            result_digest: result_digest.clone(),
            metrics: metrics.clone(),
            notes: notes.clone(),
            settings: serde_json::to_string(settings).ok()?,
            gate: self.gate.clone(),
            tables: tables.clone(),
        };
        let row = postcard::to_stdvec(&row).ok()?;
        Some([&Sha256::digest(&row)[..], &row].concat())
    }

    /// What [`Finished::to_bytes`] gave of that run; `None` of what is damaged.
    pub(crate) fn from_bytes(bytes: &[u8], run: &PlannedRun) -> Option<Finished> {
        let (sum, row) = bytes.split_at_checked(Sha256::output_size())?;
        if Sha256::digest(row)[..] != *sum {
            return None;
        }
        let row: Row = postcard::from_bytes(row).ok()?;
        if row.digest != run.digest || !row.tables.is_sound() {
            return None;
        }
        let result = RunResult {
            metrics: row.metrics,
            result_digest: row.result_digest,
            notes: row.notes,
            tables: row.tables,
            failed: None,
            settings: serde_json::from_str(&row.settings).ok()?,
        };
        Some(Finished { result, gate: row.gate })
    }
}

impl Kept {
    /// Those of the study whose results go to `target`.
    pub(crate) fn beside(target: &Path) -> Kept {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        Kept { folder: target.with_file_name(format!(".{name}.unfinished")) }
    }

    fn file(&self, run: &PlannedRun) -> PathBuf {
        self.folder.join(format!("{}.run", run.digest))
    }

    /// The run, where it was finished before.
    pub(crate) fn load(&self, run: &PlannedRun) -> Option<Finished> {
        Finished::from_bytes(&fs::read(self.file(run)).ok()?, run)
    }

    /// Keep a run that took `took` of this machine's time, if that is worth it.
    pub(crate) fn store(
        &self,
        run: &PlannedRun,
        finished: &Finished,
        took: Duration,
    ) -> io::Result<()> {
        if took < WORTH && run.point.travel.is_none() {
            return Ok(());
        }
        finished.to_bytes(run).map_or(Ok(()), |bytes| self.write(run, &bytes))
    }

    /// Keep a run of another machine.
    ///
    /// # Errors
    /// When the bytes are not of this run, or there is no room for them.
    pub(crate) fn take(&self, run: &PlannedRun, bytes: &[u8]) -> Result<(), Failure> {
        if Finished::from_bytes(bytes, run).is_none() {
            return Err(Failure::machine(format!("what came back is no result of {}", run.label))
                .expected("the bytes that the same version of blocklab measured")
                .help("install the same blocklab on every machine"));
        }
        self.write(run, bytes).map_err(|why| {
            let folder = self.folder.display();
            Failure::machine(format!("{} cannot be kept in {folder}: {why}", run.label))
        })
    }

    fn write(&self, run: &PlannedRun, bytes: &[u8]) -> io::Result<()> {
        match self.write_once(run, bytes) {
            // Another study with this target was finished meanwhile, and removed the folder.
            Err(why) if why.kind() == io::ErrorKind::NotFound => self.write_once(run, bytes),
            other => other,
        }
    }

    /// In one piece, whoever else writes the same run.
    fn write_once(&self, run: &PlannedRun, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let file = self.file(run);
        let partial = file.with_extension(format!("{}.partial", process::unique_name()));
        let write = || {
            let mut new = fs::File::create_new(&partial)?;
            new.write_all(bytes)?;
            new.sync_data()?;
            fs::rename(&partial, file)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&partial);
        })
    }

    /// Whether there may be any.
    pub(crate) fn is_used(&self) -> bool {
        self.folder.exists()
    }

    /// What a reader must know of the runs that stay when `plan` is finished: those that a study
    /// of other settings has yet to take.
    pub(crate) fn others(&self, plan: &PlannedStudy) -> Option<String> {
        let rows = self.rows().filter(|row| row.extension().is_some_and(|end| end == "run"));
        let others = rows.filter(of_others(plan)).count();
        let folder = self.folder.display();
        (others > 0).then(|| {
            format!(
                "{folder} keeps {others} finished runs of other settings or of another version: \
                 the command that they are of goes on from there; without them: rm -r {folder}"
            )
        })
    }

    /// The study is finished: its own runs need not be kept any longer.
    pub(crate) fn clear(&self, plan: &PlannedStudy) {
        let other = of_others(plan);
        for row in self.rows().filter(|row| !other(row)) {
            // What does not go is of the same digests, and so does no harm.
            let _ = fs::remove_file(row);
        }
        // It stays while there is something else in it.
        let _ = fs::remove_dir(&self.folder);
    }

    /// Every file of a run, whole or being written.
    fn rows(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| digest_of(path).is_some())
    }
}

/// Whether a row is of no run of `plan`.
fn of_others(plan: &PlannedStudy) -> impl Fn(&PathBuf) -> bool {
    let ours: BTreeSet<&str> = plan.runs.iter().map(|run| &*run.digest).collect();
    move |row| digest_of(row).is_none_or(|digest| !ours.contains(digest))
}

/// The run of a file that is one of ours by its name: a digest, and whether it is whole.
fn digest_of(file: &Path) -> Option<&str> {
    let (digest, end) = file.file_name()?.to_str()?.split_once('.')?;
    let ours = end == "run" || end == "partial" || end.ends_with(".partial");
    (ours && digest::is_one(digest)).then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::run::Watch;

    const STUDY: &str = "[device.null]\n[workload.fio]\n[run]\nrequests = 9\n";

    fn home(name: &str) -> PathBuf {
        let home = std::env::temp_dir().join(format!("blocklab-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&home);
        home
    }

    fn plan() -> PlannedStudy {
        PlannedStudy::parse("kept", STUDY).unwrap()
    }

    fn measured(plan: &PlannedStudy) -> Vec<u8> {
        plan.measure(0, None, &Watch::new(plan)).unwrap()
    }

    #[test]
    fn what_is_not_a_run_of_ours_stays() {
        let home = home("kept");
        let (kept, plan) = (Kept::beside(&home.join("results")), plan());
        kept.clear(&plan);
        fs::create_dir_all(&kept.folder).unwrap();
        let other = digest::of(&"a run");
        let others = ["run", "partial", "a-1.partial"].map(|end| format!("{other}.{end}"));
        let names = ["mine.run", "notes", "0123.run"].map(String::from).into_iter().chain(others);
        let foreign: Vec<PathBuf> = names.map(|name| kept.folder.join(name)).collect();
        let digest = &plan.runs[0].digest;
        let ours = ["run", "partial", "a-1.partial"];
        let ours = ours.map(|end| kept.folder.join(format!("{digest}.{end}")));
        for file in foreign.iter().chain(&ours) {
            fs::write(file, "{}").unwrap();
        }
        kept.clear(&plan);
        assert!(foreign.iter().all(|file| file.exists()) && !ours.iter().any(|file| file.exists()));
        for file in foreign {
            fs::remove_file(file).unwrap();
        }
        assert_eq!(kept.others(&plan), None);
        kept.clear(&plan);
        assert!(!kept.folder.exists());
        fs::remove_dir(home).unwrap();
    }

    #[test]
    fn runs_of_other_settings_outlive_a_look_with_the_same_target() {
        let home = home("kept-others");
        let target = home.join("results");
        let (kept, wide) = (
            Kept::beside(&target),
            PlannedStudy::parse("kept", &format!("{STUDY}[sweep]\n'run.requests' = [7, 8]\n"))
                .unwrap(),
        );
        wide.take(0, &measured(&wide), &target).unwrap();
        for records in [false, true] {
            let plan = plan();
            plan.take(0, &measured(&plan), &target).unwrap();
            let options = Options { out: Some(target.clone()), records, ..Options::default() };
            let results = crate::run::run(&plan, &options, &Watch::new(&plan)).unwrap();
            assert_eq!((wide.left(&target), plan.left(&target)), (vec![1], vec![0]));
            let notes = results.notes.join("\n");
            let rm = format!(
                "keeps 1 finished runs of other settings or of another version: the \
                              command that they are of goes on from there; without them: rm -r {}",
                kept.folder.display()
            );
            assert!(notes.contains(&rm), "{notes}");
        }
        let options = Options { out: Some(target.clone()), ..Options::default() };
        let results = crate::run::run(&wide, &options, &Watch::new(&wide)).unwrap();
        assert!(results.notes.iter().all(|note| !note.contains("rm -r")), "{:?}", results.notes);
        assert!(!kept.folder.exists());
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn two_may_keep_the_same_run_at_the_same_time() {
        let home = home("kept-two");
        let (target, plan) = (home.join("results"), plan());
        let bytes = measured(&plan);
        let keep = || (0..200).try_for_each(|_| plan.take(0, &bytes, &target));
        let (one, other) = std::thread::scope(|scope| {
            let threads = [scope.spawn(keep), scope.spawn(keep)];
            let [one, other] = threads.map(|thread| thread.join().unwrap());
            (one, other)
        });
        assert_eq!((one, other), (Ok(()), Ok(())));
        assert_eq!(plan.left(&target), Vec::<usize>::new());
        let kept = Kept::beside(&target);
        assert_eq!(kept.rows().count(), 1, "nothing unfinished is left");
        // What cannot take its place is not left either.
        let file = kept.file(&plan.runs[0]);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(plan.take(0, &bytes, &target).is_err());
        assert_eq!(kept.rows().count(), 1, "the folder in its place");
        fs::remove_dir_all(home).unwrap();
    }
}

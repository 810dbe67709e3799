//! Finished runs as files: of a study that was interrupted, and of other machines that took a part
//! of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Failure;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::digest;
use crate::planned::PlannedRun;
use crate::prepared::Gate;
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

    /// In one piece.
    fn write(&self, run: &PlannedRun, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let file = self.file(run);
        let partial = file.with_extension("partial");
        let mut new = fs::File::create(&partial)?;
        new.write_all(bytes)?;
        new.sync_data()?;
        fs::rename(partial, file)
    }

    /// Whether there may be any.
    pub(crate) fn is_used(&self) -> bool {
        self.folder.exists()
    }

    /// The study is finished.
    pub(crate) fn clear(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if is_row(&entry.path()) {
                // What does not go is of the same digests, and so does no harm.
                let _ = fs::remove_file(entry.path());
            }
        }
        // It stays while there is something in it that is not ours.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Whether a file is one of ours by its name: a run's digest, whole or being written.
fn is_row(file: &Path) -> bool {
    let extension = file.extension().is_some_and(|end| end == "run" || end == "partial");
    extension && file.file_stem().and_then(|stem| stem.to_str()).is_some_and(digest::is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_run_of_ours_stays() {
        let home = std::env::temp_dir().join(format!("blocklab-kept-{}", std::process::id()));
        let kept = Kept::beside(&home.join("results"));
        kept.clear();
        fs::create_dir_all(&kept.folder).unwrap();
        let foreign = ["mine.run", "notes", "0123.run"].map(|name| kept.folder.join(name));
        let digest = digest::of(&"a run");
        let ours = ["run", "partial"].map(|end| kept.folder.join(format!("{digest}.{end}")));
        for file in foreign.iter().chain(&ours) {
            fs::write(file, "{}").unwrap();
        }
        kept.clear();
        assert!(foreign.iter().all(|file| file.exists()) && !ours.iter().any(|file| file.exists()));
        for file in foreign {
            fs::remove_file(file).unwrap();
        }
        kept.clear();
        assert!(!kept.folder.exists());
        fs::remove_dir(home).unwrap();
    }
}

//! Finished runs of a study that was interrupted. Only travelled runs are kept: a simulated one is
//! done again in the time that it takes to look.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest;
use crate::planned::PlannedRun;
use crate::prepared::Gate;
use crate::results::Measured;
use crate::runner::RunResult;
use crate::tables::Tables;

/// A hidden folder beside the results, while there are none.
pub(crate) struct Kept {
    folder: PathBuf,
}

/// A finished run in a file.
#[derive(Serialize, Deserialize)]
struct Row {
    result_digest: String,
    /// Their bits: JSON's decimal digits need not come back as they were.
    metrics: BTreeMap<String, Option<u64>>,
    notes: Vec<String>,
    settings: Map<String, Value>,
    gate: Option<Gate>,
}

impl Kept {
    /// Those of the study whose results go to `target`.
    pub(crate) fn beside(target: &Path) -> Kept {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        Kept { folder: target.with_file_name(format!(".{name}.unfinished")) }
    }

    fn file(&self, run: &PlannedRun) -> Option<PathBuf> {
        run.point.travel.is_some().then(|| self.folder.join(format!("{}.json", run.digest)))
    }

    /// The run, where it was finished before.
    pub(crate) fn load(&self, run: &PlannedRun) -> Option<Measured> {
        let text = fs::read(self.file(run)?).ok()?;
        let row: Row = serde_json::from_slice(&text).ok()?;
        let metrics = row.metrics.into_iter();
        let metrics = metrics.map(|(name, bits)| (name, bits.map(f64::from_bits))).collect();
        let result = RunResult {
            metrics,
            result_digest: row.result_digest,
            notes: row.notes,
            tables: Tables::default(),
            failed: None,
            settings: row.settings,
        };
        Some(Measured { result, gate: row.gate })
    }

    /// Keep a run, in one piece; one that failed is tried again instead.
    pub(crate) fn store(&self, run: &PlannedRun, measured: &Measured) -> io::Result<()> {
        let RunResult { metrics, result_digest, notes, settings, failed, .. } = &measured.result;
        let Some(file) = self.file(run).filter(|_| failed.is_none()) else { return Ok(()) };
        let bits = |(name, value): (&String, &Option<f64>)| (name.clone(), value.map(f64::to_bits));
        let row = Row {
            result_digest: result_digest.clone(),
            metrics: metrics.iter().map(bits).collect(),
            notes: notes.clone(),
            settings: settings.clone(),
            gate: measured.gate.clone(),
        };
        fs::create_dir_all(&self.folder)?;
        let partial = file.with_extension("partial");
        fs::write(&partial, serde_json::to_vec(&row)?)?;
        fs::rename(partial, file)
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
    let extension = file.extension().is_some_and(|end| end == "json" || end == "partial");
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
        let foreign = ["mine.json", "notes", "0123.json"].map(|name| kept.folder.join(name));
        let digest = digest::of(&"a run");
        let ours = ["json", "partial"].map(|end| kept.folder.join(format!("{digest}.{end}")));
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

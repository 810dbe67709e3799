//! Finished runs of a study that was interrupted. Only travelled runs are kept: a simulated one is
//! done again in the time that it takes to look.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
        // What does not go is of the same digests, and so does no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

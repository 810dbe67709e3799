//! How a study is to be run.

use std::path::PathBuf;

use crate::image::Cache;

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Runs at a time; 0 means one per core.
    pub jobs: usize,
    /// Where the results go; `out/<study>` when not said.
    pub out: Option<PathBuf>,
    /// Keep every request.
    pub records: bool,
    /// Write a Perfetto trace.
    pub perfetto: bool,
    /// Write fio's report of every run, in the shape of its JSON output.
    pub fio_json: bool,
    /// Where preconditioned drives are kept; without it they are made every time.
    pub cache: Option<Cache>,
    /// Take nothing that was finished before, and keep nothing when it is interrupted.
    pub anew: bool,
    /// The command line that repeats this study, for the report.
    pub replay: String,
}

impl Options {
    /// True when runs write files of their own.
    pub(crate) fn spools(&self) -> bool {
        self.records || self.perfetto || self.fio_json
    }
}

//! Recorded requests as a table.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::error::raised;

/// The trace `file` as a Parquet table in the new file `to`; returns what a reader must know.
#[pyfunction]
pub(crate) fn trace(
    py: Python<'_>,
    file: PathBuf,
    format: Option<String>,
    parameters: Vec<String>,
    to: PathBuf,
) -> PyResult<Vec<String>> {
    let notes = py.detach(|| cli::trace_table(file, format, parameters, to));
    notes.map_err(|failure| raised(py, &failure))
}

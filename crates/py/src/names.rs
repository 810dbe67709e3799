//! What there is to choose from, and what it says about itself.

use pyo3::prelude::*;

use crate::error::raised;

/// Everything that can be chosen: (kind, [(name, one line)]).
#[pyfunction]
pub(crate) fn kinds() -> Vec<(&'static str, Vec<(String, String)>)> {
    study::explain::kinds()
}

/// Every metric: (name, unit, one line).
#[pyfunction]
pub(crate) fn metrics() -> Vec<(String, &'static str, String)> {
    let all = study::metrics::definitions().into_iter();
    all.map(|metric| (metric.name, metric.unit, metric.meaning)).collect()
}

/// The documentation of the one thing that `name` means.
#[pyfunction]
pub(crate) fn explain(py: Python<'_>, name: &str) -> PyResult<String> {
    let found = study::explain::find(name).map_err(|failure| raised(py, &failure))?;
    Ok(found.1)
}

/// The JSON Schema of a study, as text.
#[pyfunction]
pub(crate) fn schema() -> String {
    study::study_schema().to_string()
}

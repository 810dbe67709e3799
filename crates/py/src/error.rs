//! [`Failure`] as `blocklab.StudyError`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use study::Failure;

/// The Python exception that says the same.
pub(crate) fn raised(py: Python<'_>, failure: &Failure) -> PyErr {
    exception(py, failure).map_or_else(|error| error, PyErr::from_value)
}

fn exception<'py>(py: Python<'py>, failure: &Failure) -> PyResult<Bound<'py, PyAny>> {
    let place = failure.place.as_ref();
    let line_column = place.and_then(|place| place.line_column);
    let fields = PyDict::new(py);
    fields.set_item("kind", failure.kind.name())?;
    fields.set_item("file", place.map(|place| place.file.display().to_string()))?;
    fields.set_item("line", line_column.map(|(line, _)| line))?;
    fields.set_item("column", line_column.map(|(_, column)| column))?;
    let class = py.import("blocklab.errors")?.getattr("StudyError")?;
    class.call((failure.to_string(),), Some(&fields))
}

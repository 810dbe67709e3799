//! The Python extension: conversions only. No branch here changes a result.

mod error;
mod names;
mod plan;
mod trace;

use pyo3::prelude::*;

/// Run one command line, program name first; returns the exit code.
#[pyfunction]
fn run_cli(py: Python<'_>, argv: Vec<String>) -> u8 {
    py.detach(|| cli::run(argv))
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(run_cli, module)?)?;
    module.add_class::<plan::PlannedStudy>()?;
    module.add_function(wrap_pyfunction!(trace::trace, module)?)?;
    module.add_function(wrap_pyfunction!(names::kinds, module)?)?;
    module.add_function(wrap_pyfunction!(names::metrics, module)?)?;
    module.add_function(wrap_pyfunction!(names::explain, module)?)?;
    module.add_function(wrap_pyfunction!(names::schema, module)?)?;
    Ok(())
}

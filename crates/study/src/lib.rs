//! Studies: one TOML per question. Parse, grid, precondition once and fork, run in parallel,
//! results, expectations.

mod failure;

pub use failure::{Failure, Kind, Place};

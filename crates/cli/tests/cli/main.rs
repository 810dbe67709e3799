//! Black-box tests of the command line.

mod bad_input;
mod boot;
mod catalog;
mod figures;
mod mirror;
mod notes;
mod out;
mod run;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod support;

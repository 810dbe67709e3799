//! Black-box tests of the command line.

mod bad_input;
mod catalog;
mod figures;
mod mirror;
mod notes;
mod out;
mod run;
mod support;

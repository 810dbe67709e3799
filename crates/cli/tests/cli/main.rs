//! Black-box tests of the command line.

mod bad_input;
mod catalog;
mod figures;
mod mirror;
mod run;
mod support;

//! Black-box tests of the command line.

mod bad_input;
mod catalog;
mod mirror;
mod run;
mod support;

//! Black-box tests of the command line.

mod bad_input;
mod catalog;
mod run;
mod support;

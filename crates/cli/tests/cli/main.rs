//! Black-box tests of the command line.

mod bad_input;
mod catalog;
mod figures;
mod run;
mod support;

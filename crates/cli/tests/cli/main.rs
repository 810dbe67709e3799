//! Black-box tests of the command line.

mod bad_input;
mod boot;
mod calibrate;
mod catalog;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "most of it is for sessions")]
mod common;
mod compare;
mod devices;
mod figures;
mod fitted;
mod flash;
mod machine;
mod mirror;
mod notes;
mod out;
mod outputs;
mod paths;
mod probe;
mod run;
mod snapshot;
mod support;
mod wrong;

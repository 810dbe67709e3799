//! Black-box tests of `blocklab travel`: a real kernel, and what stays behind. They are skipped
//! where `blocklab kernel build` was not run. No test asserts how fast anything is.

mod boot;
#[path = "../common/mod.rs"]
mod common;
mod crash;
mod elevator;
mod errors;
mod fault;
mod host;
mod journey;
mod limits;
mod registers;
mod repeat;
mod study;
mod support;

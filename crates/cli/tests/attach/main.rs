//! Black-box tests of `blocklab attach` and of a served mirror: real clients, damaged ones, what
//! stays behind.
//! No test asserts how fast anything is.

mod captive;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod kept;
mod loop_device;
mod mirror;
mod places;
mod support;
mod truth;
mod vhost_user;
mod wire;

//! Black-box tests of `blocklab attach`: real clients, damaged ones, and what stays behind.
//! No test asserts how fast anything is.

mod captive;
mod clients;
mod control;
mod loop_device;
mod support;
mod truth;
mod wire;

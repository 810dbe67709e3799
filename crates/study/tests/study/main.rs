//! Studies from outside, in one program: linking takes longer than running.

mod cache;
mod runner;
mod version;

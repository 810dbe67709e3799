//! Studies from outside, in one program: linking takes longer than running.

mod cache;
mod changed;
mod measure;
mod runner;
mod version;

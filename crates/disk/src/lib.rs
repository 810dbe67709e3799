//! The parts of the disk model: where sectors lie, how the arm moves, what the cache holds.
//!
//! The device itself, which puts them together, is [`hdd`].

pub mod cache;
pub mod demerit;
pub mod disksim;
pub mod divisor;
pub mod geometry;
pub mod hdd;
pub mod mechanics;
pub mod params;
pub mod queue;
pub mod seek;
pub mod writeback;

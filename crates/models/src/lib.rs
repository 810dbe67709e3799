//! Everything blocklab models, one file each.
//!
//! Models never see wall time, never hold payload bytes and never open a file: readers take a
//! [`std::io::Read`]. Names are listed in one place, [`registry`].

pub mod config;
pub mod device;
pub mod disksim;
pub mod elevator;
pub mod ftl;
pub mod hdd;
pub mod parameters;
mod raid;
pub mod registry;
pub mod ssd;
pub mod trace;
pub mod workload;

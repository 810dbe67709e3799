//! The phone book of everything modelled, and the devices made of devices.
//!
//! Models never see wall time, never hold payload bytes and never open a file: readers take a
//! [`std::io::Read`]. Their slots are collected in one place, [`registry`].

pub mod device;
pub mod elevator;
mod raid;
pub mod registry;

//! The drives themselves.

pub mod disksim_ssd;
pub mod ssd;

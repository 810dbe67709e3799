//! Solid-state drives.
//!
//! [`ssd`] has what a drive is made of, [`ftl`] what it decides, [`device`] puts them together.
//! [`disksim`] has the rules of another simulator, for comparison with its printed results.

pub mod device;
pub mod disksim;
pub mod ftl;
pub mod ssd;

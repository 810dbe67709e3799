//! The queue under every policy, by hand and by property.

pub(crate) mod clients;
pub(crate) mod fair;
pub(crate) mod harness;
mod laws;
mod merging;
mod planted;
mod waiting;

//! What the elevators of Linux share: the plug, merging, the request pool and its batches.

pub(crate) mod batches;
mod cut;
mod extent;
pub(crate) mod habits;
pub(crate) mod idling;
pub(crate) mod in_order;
pub(crate) mod names;
pub(crate) mod owners;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod share;
pub(crate) mod sorted;
pub(crate) mod tags;
pub(crate) mod written;

mod merge;
mod plug;
#[cfg(test)]
pub(crate) mod tests;

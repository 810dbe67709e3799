//! The hetero-mirror: two unlike devices that cover for each other's freezes, without I/O.

pub mod core;
pub mod format;
#[cfg(test)]
mod model;
mod mutant;
pub mod policy;
pub mod recovery;
pub mod torture;
mod types;

#[cfg(any(test, feature = "mutants"))]
pub use mutant::Mutant;
pub use types::{Block, DEVICES, FAST, LEGS, Mode, SLOW, Slot, Span, WITNESS, other};

//! What a part of the media did, for timelines and traces.

use crate::units::Nanos;

/// One stretch of work of one unit (a die, a channel, a disk arm).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Which unit: an index into the units of [`crate::Counters`].
    pub unit: u32,
    /// What it did ("read", "program", "erase", "seek", ...).
    pub what: &'static str,
    /// On whose behalf ("host", "gc", ...).
    pub cause: &'static str,
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
}

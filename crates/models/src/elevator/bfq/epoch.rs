//! Where ticks begin.

/// Ticks count from here, so that something can have been long ago when a run begins.
pub(super) const FIRST_TICK: u64 = 1 << 32;
/// Before every tick.
pub(super) const LONG_AGO: u64 = 0;

//! What flushes wait for, and what waits for them.

/// What a job's flush has to do with its other requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flushes {
    /// It comes when they are complete, and nothing else before it is. A study's own table has no
    /// engine, and means this.
    Drain,
    /// It comes while they are in flight, and nothing else before it is complete.
    Hold,
    /// It is one of them.
    Pass,
}

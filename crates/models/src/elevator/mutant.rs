//! Planted bugs. They exist in tests only; each must be found by one.

/// Is the bug planted? Always false outside tests, so the branch disappears.
#[cfg(test)]
macro_rules! planted {
    ($queue:expr, $name:ident) => {
        $queue.mutant == Some($crate::elevator::mutant::Mutant::$name)
    };
}
#[cfg(not(test))]
macro_rules! planted {
    ($queue:expr, $name:ident) => {{
        let _ = &$queue;
        false
    }};
}
pub(crate) use planted;

/// A planted bug.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// A read joins a write, or the other way round.
    MixDirections,
    /// A bio joins a request that must keep to itself.
    MergeFua,
    /// Requests grow without end.
    IgnoreLimits,
    /// A bio in front of a request goes behind it.
    WrongSide,
    /// The plug opens with the first request.
    NeverPlug,
    /// Nobody opens the plug for those who wait.
    LeaveSleepers,
    /// The queue goes on when the device below does, answer or not.
    SeeBelow,
    /// Requests pass a barrier.
    PassBarrier,
    /// Nobody wakes those who wait for a request of the pool.
    ForgetWaiting,
    /// Of those who share a request only the first is answered.
    AnswerFirst,
    /// Losses are told by the names of the requests below.
    ForeignNames,
}

#[cfg(test)]
impl Mutant {
    pub(crate) const ALL: [Mutant; 11] = [
        Mutant::MixDirections,
        Mutant::MergeFua,
        Mutant::IgnoreLimits,
        Mutant::WrongSide,
        Mutant::NeverPlug,
        Mutant::LeaveSleepers,
        Mutant::SeeBelow,
        Mutant::PassBarrier,
        Mutant::ForgetWaiting,
        Mutant::AnswerFirst,
        Mutant::ForeignNames,
    ];
}

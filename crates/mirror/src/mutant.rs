//! Planted protocol bugs. They exist in tests only; each must be caught by the proof.

/// Is the bug planted? Always false outside tests, so the branch disappears.
#[cfg(any(test, feature = "mutants"))]
macro_rules! planted {
    ($rules:expr, $name:ident) => {
        $rules.mutant == Some($crate::mutant::Mutant::$name)
    };
}
#[cfg(not(any(test, feature = "mutants")))]
macro_rules! planted {
    ($rules:expr, $name:ident) => {{
        let _ = &$rules;
        false
    }};
}
pub(crate) use planted;

#[cfg(any(test, feature = "mutants"))]
macro_rules! mutants {
    ($( $(#[$meta:meta])* $name:ident ),+ $(,)?) => {
        /// A planted bug.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Mutant { $( $(#[$meta])* $name, )+ }

        impl Mutant {
            /// Every planted bug.
            pub const ALL: &'static [Mutant] = &[ $( Mutant::$name, )+ ];
        }
    };
}

#[cfg(any(test, feature = "mutants"))]
mutants! {
    /// Strict mode acknowledges a write after the first leg.
    StrictAckFirst,
    /// Exposure is not bounded.
    IgnoreCap,
    /// Rule R2 is ignored.
    SkipSupersede,
    /// A flush is acknowledged when the homes have completed, not when they are durable.
    FlushOnDone,
    /// As Linux md: a flush is acknowledged although the lagging leg still owes the write.
    MdFlush,
    /// Rule R1 is ignored.
    SkipReference,
    /// A log on the same device counts as a second failure domain.
    OneDomain,
    /// Records are retired on completion (rule R3 broken).
    RetireOnDone,
    /// Records are retired when one home is durable.
    RetireOnFirst,
    /// A write is forgotten while an older record of its blocks is unretired.
    ForgetStale,
    /// Reads always go to the fast leg.
    StaleRoute,
    /// A hedged read goes to a leg that is not current.
    HedgeStale,
    /// A repair copies the wrong block over the right one.
    RepairBackwards,
    /// Recovery replays the oldest record of a block.
    MergeOldest,
    /// Recovery copies from the leg that lacks the reference.
    WrongDirection,
    /// A leg that was left out is taken as current.
    TrustOldLeg,
    /// Unrelated generations are taken as old and new.
    NoSplitBrain,
    /// A stale leg is started because it is there.
    StartStale,
    /// The armed flags are ignored.
    IgnoreArmed,
    /// A lone leg starts although its peer may have gone on.
    StartAlone,
}

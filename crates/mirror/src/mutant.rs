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
    /// Two equal copies are right whatever checksum is recorded.
    Outvote,
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
    /// A write passes an earlier one of the same blocks that waits.
    OvertakeWaiting,
    /// What a left-out leg misses is not remembered.
    ForgetOutOfSync,
    /// FUA is ignored.
    FuaAsPlain,
    /// A write is forgotten when the homes have completed.
    ForgetOnDone,
    /// A reference is logged before the home it names is durable.
    EarlyReference,
    /// Writes do not wait for the activity log.
    SkipActivity,
    /// Epochs are issued in order, but without a device flush between them.
    EpochWithoutFlush,
    /// Epochs are not kept apart.
    NoEpochs,
    /// A write is issued while an older one of the same block is out.
    Overtake,
    /// What a leg had in its cache when it left is not remembered.
    LeaveForgets,
    /// A flush does not cover writes that were acknowledged early.
    FlushSkipsEarly,
    /// A payload is logged after a newer write of its block was promised.
    LogLate,
    /// A payload is logged after a newer one of its block.
    LogOutOfOrder,
    /// A record retires all before it.
    RetireAtOnce,
    /// A failed device flush or metadata write is taken as done.
    RetryFlush,
    /// An extent goes cold although it was written during the checkpoint.
    CoolWhileWritten,
    /// A page of the table goes to one slot while an older version is out to the other.
    BothSlots,
    /// An extent goes cold without recording what the left-out leg lacks.
    CoolWithoutBitmap,
    /// A leg is re-admitted while requests it was given up with may still land.
    IgnoreZombies,
    /// A leg joins before it holds all that was promised.
    JoinEarly,
    /// A joining leg gets the newest table in the slot that the other leg writes next.
    JoinSlots,
    /// The old log of a device that joins is not made void first.
    KeepOldLog,
    /// A device that is about to be a member is not told of one that leaves meanwhile.
    JoinerUntold,
    /// A member that missed the news of another's leaving counts as left out.
    MissedNews,
    /// What a relaxed flush relied on cannot be read, and a start takes the other leg's content.
    OlderForLost,
    /// An older copy of a device passes for it.
    TrustOlder,
    /// A device that went on apart from the others passes for theirs.
    TrustClone,
    /// The members are not told that all others have seen a start through.
    StartUntold,
    /// The members are not told that all others stopped in order.
    StopUntold,
    /// Leaving a device out draws no new generation.
    NoGeneration,
    /// A device counts as gone before the others have recorded it.
    LeaveAtOnce,
    /// A leg calls itself a member before the others do.
    JoinBackwards,
    /// Relaxed mode begins before the armed flag is on both legs.
    ArmLate,
    /// A block that one read did not get is given up, though the leg may answer nothing at all.
    LoseAtOnce,
    /// A write over a lost block is promised before media knows that it is lost no longer.
    LiftLate,
    /// Recovery takes what the legs hold for the content of a lost block.
    TrustLost,
    /// The leg that a flush waits for is left out though the other one does not have it all.
    DropLast,
    /// A server that did not run takes that for the devices' time.
    PauseCounts,
    /// A read of several blocks that failed condemns them all.
    CondemnSpan,
    /// Regions that a leg lacks are read from it.
    ReadOutOfSync,
    /// Unfinished writes are not served from memory.
    IgnoreMemory,
    /// Checksums are not compared.
    SkipVerify,
    /// A copy begins while its source still owes an older write.
    CopyUnordered,
    /// A copied region counts as filled before it is durable.
    FillWithoutFlush,
    /// The bitmap is ignored when a leg returns (DRBD #145).
    ClearBitmap,
    /// The activity log of the leg that returns is not merged.
    SkipOwnActivity,
    /// Nor is it when the leg that was alone was stopped in order.
    SkipOwnActivityAfterStop,
    /// A log of an earlier start is replayed.
    OldLog,
    /// An activity log that cannot be read counts as an empty one.
    IgnoreLostActivity,
    /// Hot extents are not compared.
    SkipHot,
    /// Blocks that only the witness's log names are replayed, but not remembered as changed.
    ReplayUnnoticed,
    /// Logs are voided before the legs are flushed.
    RecoverWithoutFlush,
    /// The activity log is cleared before the superblocks are written.
    CoolFirst,
    /// The armed flags are never set.
    NeverArm,
    /// The last record is believed though its payload is torn.
    TornTail,
    /// A hole in the log is taken for its end.
    HoleIsTail,
    /// A record that is missing before a torn one is taken for the log's end.
    TornHidesRot,
}

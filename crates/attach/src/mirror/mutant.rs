//! Planted bugs of the engine. They exist in tests only; each must be caught by the torture.

/// Is the bug planted? Always false outside tests, so the branch disappears.
#[cfg(test)]
macro_rules! planted {
    ($name:ident) => {
        $crate::mirror::mutant::here() == Some($crate::mirror::mutant::Mutant::$name)
    };
}
#[cfg(not(test))]
macro_rules! planted {
    ($name:ident) => {
        false
    };
}
pub(super) use planted;

#[cfg(test)]
macro_rules! mutants {
    ($( $(#[$meta:meta])* $name:ident ),+ $(,)?) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Mutant { $( $(#[$meta])* $name, )+ }

        impl Mutant {
            pub(super) const ALL: &'static [Mutant] = &[ $( Mutant::$name, )+ ];
        }
    };
}

#[cfg(test)]
mutants! {
    /// The ring drops RWF_DSYNC.
    RingWithoutDsync,
    /// The ring's fsync does nothing.
    RingWithoutFsync,
    /// The threads and the recovery drop RWF_DSYNC.
    FileWithoutDsync,
    /// `Device::sync` does nothing.
    FileWithoutFsync,
    /// FUA of the host is ignored.
    FuaAsPlain,
    /// The recovery leaves its metadata in the device's cache.
    RecoveryMetaInCache,
    /// The recovery flushes no leg.
    RecoveryWithoutFlush,
    /// An order counts as done although a piece of it failed.
    PieceErrorForgotten,
    /// Answers of a medium that was replaced are believed.
    LateAnswer,
    /// A page of the checksum table is always written to the same slot.
    TableOneSlot,
    /// The activity log is written once instead of twice.
    ActivityOneCopy,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// The bug that is planted for this thread.
#[cfg(test)]
pub(super) fn here() -> Option<Mutant> {
    PLANTED.get()
}

/// Plant a bug for this thread, or none.
#[cfg(test)]
pub(super) fn plant(mutant: Option<Mutant>) {
    PLANTED.set(mutant);
}

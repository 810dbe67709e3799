//! Every decision of the protocol as a pure function: the core asks them, the model checker
//! explores them, and each can be read alone.

pub mod ack;
pub mod assemble;
pub mod expect;
pub mod fresh;
pub mod lag;
pub mod merge;
pub mod place;
pub mod route;
pub mod running;
pub mod slow;
pub mod verify;

use crate::types::Mode;

/// What the decisions depend on besides the facts of the moment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rules {
    /// The mode.
    pub mode: Mode,
    /// The planted bug, in tests.
    #[cfg(any(test, feature = "mutants"))]
    pub mutant: Option<crate::mutant::Mutant>,
}

impl Rules {
    /// The rules of `mode`.
    pub const fn new(mode: Mode) -> Rules {
        Rules {
            mode,
            #[cfg(any(test, feature = "mutants"))]
            mutant: None,
        }
    }

    /// Are checksums not compared? Only with planted bugs: that one, and wrong routes, which the
    /// checksums would mask.
    #[cfg(any(test, feature = "mutants"))]
    pub(crate) fn blind(&self) -> bool {
        use crate::mutant::Mutant::{HedgeStale, ReadOutOfSync, SkipVerify, StaleRoute};
        let blind = [SkipVerify, HedgeStale, ReadOutOfSync, StaleRoute];
        self.mutant.is_some_and(|mutant| blind.contains(&mutant))
    }

    /// Are checksums not compared? Only with planted bugs.
    #[cfg(not(any(test, feature = "mutants")))]
    pub(crate) const fn blind(&self) -> bool {
        false
    }
}

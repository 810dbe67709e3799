//! Why a verb does not do what it was asked.

use std::fmt;

/// Why a verb does not do what it was asked, by what has to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// What it was given.
    Input(String),
    /// The machine.
    World(String),
}

impl Why {
    /// The program's exit code, as `blocklab` has it.
    pub fn code(&self) -> u8 {
        match self {
            Why::Input(_) => 2,
            Why::World(_) => 3,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Why::Input(why) | Why::World(why)) = self;
        why.fmt(f)
    }
}

/// What nobody calls bad input is the machine's.
impl From<String> for Why {
    fn from(why: String) -> Why {
        Why::World(why)
    }
}

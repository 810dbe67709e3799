//! The words of the protocol.

use std::fmt;
use std::ops::Range;

/// Number of a 4 KiB block of the mirror.
pub type Block = u64;

/// Slot of a device: [`FAST`], [`SLOW`] or [`WITNESS`].
pub type Slot = usize;

/// The leg that reads prefer, usually the SSD.
pub const FAST: Slot = 0;
/// The other leg, usually the disk.
pub const SLOW: Slot = 1;
/// The optional third device: a log in its own failure domain.
pub const WITNESS: Slot = 2;
/// Legs.
pub const LEGS: usize = 2;
/// Devices.
pub const DEVICES: usize = 3;

/// The other leg.
pub const fn other(leg: Slot) -> Slot {
    1 - leg
}

/// When a write and a flush may be acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Mode {
    /// Both legs, always.
    Strict = 0,
    /// A write after the first leg; a flush after two durable copies in two failure domains.
    #[default]
    Log = 1,
    /// A write and a flush after the first leg, within bounds of bytes and age.
    Relaxed = 2,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Strict => "strict",
            Mode::Log => "log",
            Mode::Relaxed => "relaxed",
        })
    }
}

sim::snapshot_enum!(Mode { Strict, Log, Relaxed });

/// Some consecutive blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Span {
    /// First block.
    pub start: Block,
    /// How many, at least one.
    pub blocks: u32,
}

sim::snapshot_fields!(Span { start, blocks });

impl Span {
    /// `blocks` blocks from `start`.
    pub const fn new(start: Block, blocks: u32) -> Span {
        Span { start, blocks }
    }

    /// The block after the last.
    pub const fn end(self) -> Block {
        self.start + self.blocks as u64
    }

    /// A range of blocks, however long, as spans.
    pub fn pieces(range: Range<Block>) -> impl Iterator<Item = Span> {
        const PIECE: u32 = 1 << 20;
        let end = range.end;
        let start = range.step_by(PIECE as usize);
        start.map(move |start| Span::new(start, (end - start).min(PIECE.into()) as u32))
    }

    /// Every block.
    pub fn iter(self) -> Range<Block> {
        self.start..self.end()
    }

    /// Do the two share a block?
    pub const fn overlaps(self, other: Span) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

//! The device requests that are out.

use sim::{Loader, Nanos, Saver, Snapshot, SnapshotError, snapshot_fields};

use super::event::Io;
use crate::policy::expect::Class;
use crate::types::{Slot, Span};

/// Index of a live write.
pub(super) type WriteIndex = u32;

/// What an answer is for.
#[derive(Clone, Default, Debug)]
pub(super) enum Purpose {
    /// A write's home position; the second attempt or not.
    Home { write: WriteIndex, again: bool },
    /// A device flush.
    #[default]
    Flush,
    /// A log record.
    Record,
    /// A superblock with this version.
    Superblock { version: u64 },
    /// The activity log at this version.
    Activity { version: u64 },
    /// A page of the checkpoint with this number.
    Checkpoint { number: u64 },
    /// A page of a joining leg's table.
    JoinTable,
    /// Part of a host read.
    Part { part: u32 },
    /// The source of a copy.
    CopyRead { copy: u32 },
    /// One side of a scrub's comparison.
    Scrub { turn: u64 },
    /// Can this block be read?
    Look { block: u64 },
}

impl Purpose {
    /// As numbers: which one, and what it carries.
    fn code(&self) -> (u8, u64, bool) {
        match *self {
            Purpose::Home { write, again } => (0, write.into(), again),
            Purpose::Flush => (1, 0, false),
            Purpose::Record => (2, 0, false),
            Purpose::Superblock { version } => (3, version, false),
            Purpose::Activity { version } => (4, version, false),
            Purpose::Checkpoint { number } => (5, number, false),
            Purpose::JoinTable => (6, 0, false),
            Purpose::Part { part } => (7, part.into(), false),
            Purpose::CopyRead { copy } => (8, copy.into(), false),
            Purpose::Scrub { turn } => (9, turn, false),
            Purpose::Look { block } => (10, block, false),
        }
    }

    fn of(code: (u8, u64, bool)) -> Option<Purpose> {
        let (which, number, again) = code;
        Some(match which {
            0 => Purpose::Home { write: number as u32, again },
            1 => Purpose::Flush,
            2 => Purpose::Record,
            3 => Purpose::Superblock { version: number },
            4 => Purpose::Activity { version: number },
            5 => Purpose::Checkpoint { number },
            6 => Purpose::JoinTable,
            7 => Purpose::Part { part: number as u32 },
            8 => Purpose::CopyRead { copy: number as u32 },
            9 => Purpose::Scrub { turn: number },
            10 => Purpose::Look { block: number },
            _ => return None,
        })
    }

    /// Does it fill a buffer?
    pub(super) fn reads(&self) -> bool {
        matches!(
            self,
            Purpose::Part { .. }
                | Purpose::CopyRead { .. }
                | Purpose::Scrub { .. }
                | Purpose::Look { .. }
        )
    }
}

impl Snapshot for Purpose {
    fn save(&self, to: &mut Saver) {
        self.code().save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let mut code = (0, 0, false);
        code.restore(from)?;
        *self = Purpose::of(code).ok_or_else(|| {
            SnapshotError::Damaged(format!("{} is no purpose of a request", code.0))
        })?;
        Ok(())
    }
}

/// One request.
#[derive(Clone, Default, Debug)]
pub(super) struct Out {
    pub(super) slot: Slot,
    pub(super) purpose: Purpose,
    pub(super) class: Class,
    /// The blocks, if it is about data.
    pub(super) span: Span,
    pub(super) issued: Nanos,
    /// The device was given up on; the answer is only awaited.
    pub(super) zombie: bool,
}

snapshot_fields!(Out { slot, purpose, class, span, issued, zombie });

/// A slab: the low half of an [`Io`] is the index, the high half counts its uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Ios {
    slots: Vec<(u32, Option<Out>)>,
    free: Vec<u32>,
}

snapshot_fields!(Ios { slots, free });

impl Ios {
    pub(super) fn insert(&mut self, out: Out) -> Io {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (uses, slot) = &mut self.slots[index as usize];
        *uses += 1;
        *slot = Some(out);
        Io(u64::from(*uses) << 32 | u64::from(index))
    }

    pub(super) fn get(&self, io: Io) -> Option<&Out> {
        let (uses, slot) = self.slots.get(io.0 as u32 as usize)?;
        if u64::from(*uses) == io.0 >> 32 { slot.as_ref() } else { None }
    }

    pub(super) fn remove(&mut self, io: Io) -> Option<Out> {
        self.get(io)?;
        self.free.push(io.0 as u32);
        self.slots[io.0 as u32 as usize].1.take()
    }

    /// Every request that is out on a device.
    pub(super) fn on(&mut self, slot: Slot) -> impl Iterator<Item = (Io, &mut Out)> {
        self.slots.iter_mut().enumerate().filter_map(move |(index, (uses, out))| {
            let io = Io(u64::from(*uses) << 32 | index as u64);
            out.as_mut().filter(|out| out.slot == slot).map(|out| (io, out))
        })
    }
}

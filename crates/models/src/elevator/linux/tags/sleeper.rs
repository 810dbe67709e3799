//! Processes that sleep until they have a request.

use std::collections::VecDeque;

use sim::{Nanos, snapshot_fields};

use crate::elevator::linux::pool::{Piece, direction};

/// Something that waits for a request.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Waiting {
    pub(crate) piece: Piece,
    /// When its process asked for it, or would have.
    pub(crate) came: Nanos,
    /// The limit with which it looked for a request, after it had found nothing to merge with.
    /// It keeps that limit until it has one.
    pub(crate) tried: Option<u32>,
}

snapshot_fields!(Waiting { piece, came, tried });

/// A process that sleeps. What it asked for later waits behind what it sleeps for: it could not
/// have asked asleep.
#[derive(Clone, Default, Debug)]
pub(crate) struct Sleeper {
    pub(super) process: u32,
    sync: bool,
    /// Of those of today, where it sleeps.
    pub(super) line: u32,
    pub(crate) pieces: VecDeque<Waiting>,
}

snapshot_fields!(Sleeper { process, sync, line, pieces });

impl Sleeper {
    pub(super) fn new(came: Nanos, piece: Piece, depth: u32) -> Sleeper {
        let pieces = [Waiting { piece, came, tried: Some(depth) }].into();
        Sleeper { process: piece.what.process, sync: piece.what.is_sync(), line: 0, pieces }
    }

    /// The direction of what it sleeps for.
    pub(super) fn way(&self) -> usize {
        self.pieces.front().map_or(0, |waiting| direction(waiting.piece.what.op))
    }

    /// Is it the one that asks? What nobody waits for is written by another thread.
    pub(super) fn asks(&self, piece: &Piece) -> bool {
        self.process == piece.what.process && self.sync == piece.what.is_sync()
    }
}

//! Who may have a request of the pool, and who waits for one.

pub(crate) mod map;

mod directions;
mod sleeper;
#[cfg(test)]
mod tests;

use sim::{Loader, Nanos, Saver, Snapshot, SnapshotError};

use super::pool::{Piece, direction};
use directions::Directions;
use map::Map;
pub(crate) use sleeper::{Sleeper, Waiting};

/// Who shares a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    /// Each direction has a limit, as in 2.6.26.
    Directions,
    /// One map of requests, of which the policy leaves some to those whom somebody waits for.
    Waited,
    /// One map for all: a request of the pool is a place in the device.
    All,
}

/// The request pool, of 2.6.26 or of today.
#[derive(Clone, Debug)]
pub(crate) enum Tags {
    Directions(Directions),
    Map(Map),
}

/// What both have.
macro_rules! either {
    ($self:ident, $tags:ident => $what:expr) => {
        match $self {
            Tags::Directions($tags) => $what,
            Tags::Map($tags) => $what,
        }
    };
}

impl Snapshot for Tags {
    fn save(&self, to: &mut Saver) {
        either!(self, tags => tags.save(to));
    }

    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        either!(self, tags => tags.restore(from))
    }
}

impl Tags {
    /// With `depth_min`, the lowest limit that the policy sets.
    pub(crate) fn new(nr_requests: u32, sharing: Sharing, depth_min: u32) -> Tags {
        match sharing {
            Sharing::Directions => Tags::Directions(Directions::new(nr_requests)),
            Sharing::Waited | Sharing::All => Tags::Map(Map::new(nr_requests, depth_min)),
        }
    }

    /// Requests in use.
    pub(crate) fn in_use(&self) -> u32 {
        either!(self, tags => tags.in_use())
    }

    /// A request for this piece, if it may have one. `depth` is the policy's limit for it, `must`
    /// asks whether the policy is waiting for this very process.
    pub(crate) fn take(
        &mut self,
        now: Nanos,
        piece: &Piece,
        depth: u32,
        must: impl FnOnce() -> bool,
    ) -> Option<u32> {
        match self {
            Tags::Directions(tags) => {
                tags.take(now, piece, must).then_some(direction(piece.what.op) as u32)
            }
            Tags::Map(tags) => tags.take(depth),
        }
    }

    /// A request is free again. Returns whether that wakes somebody, as [`Tags::next_woken`] says.
    pub(crate) fn give_back(&mut self, tag: u32) -> bool {
        match self {
            Tags::Directions(tags) => tags.give_back(tag as usize),
            Tags::Map(tags) => tags.give_back(tag),
        }
    }

    /// If its process sleeps, the piece waits until that goes on.
    pub(crate) fn wait_behind(&mut self, came: Nanos, piece: &Piece) -> bool {
        let sleeper = either!(self, tags => tags.sleeper(piece));
        let Some(sleeper) = sleeper else { return false };
        sleeper.pieces.push_back(Waiting { piece: *piece, came, tried: None });
        true
    }

    /// There was no request for this piece with this limit: its process falls asleep.
    #[cold]
    pub(crate) fn sleep(&mut self, now: Nanos, piece: Piece, depth: u32) {
        self.fall_asleep(Sleeper::new(now, piece, depth));
    }

    /// Who was woken and had some requests falls asleep for another one.
    pub(crate) fn fall_asleep(&mut self, sleeper: Sleeper) {
        match self {
            Tags::Directions(tags) => tags.sleep(sleeper),
            Tags::Map(tags) => tags.sleep(sleeper),
        }
    }

    /// A process that was woken and goes on.
    pub(crate) fn next_woken(&mut self, now: Nanos) -> Option<Sleeper> {
        match self {
            Tags::Directions(tags) => tags.next_woken(now),
            Tags::Map(tags) => tags.next_woken(),
        }
    }

    /// Who was woken had no luck.
    pub(crate) fn sleep_on(&mut self, sleeper: Sleeper) {
        match self {
            Tags::Directions(tags) => tags.sleep(sleeper),
            Tags::Map(tags) => tags.sleep_on(sleeper),
        }
    }

    /// Everything that waits.
    pub(crate) fn waiting(&self) -> Box<dyn Iterator<Item = &Piece> + '_> {
        fn pieces(sleeper: &Sleeper) -> impl Iterator<Item = &Piece> {
            sleeper.pieces.iter().map(|waiting| &waiting.piece)
        }
        either!(self, tags => Box::new(tags.sleepers().flat_map(pieces)))
    }
}

//! Where the pages of an image go: to their frames, or, where the loader itself is, first aside.

use crate::refusal::Refusal;
use crate::run::{Kind, Run, Runs};

/// Pages in a row that go to frames in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The frames that they belong to.
    pub run: Run,
    /// The first of the frames that they are put into: the same, or aside.
    pub at: u64,
}

/// Which frames are the loader's, and where it keeps what belongs into them.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    runs: Runs<'a>,
    /// First frame of the loader, and the one after its last.
    own: (u64, u64),
    /// Where the page of the loader's first frame is kept; the others follow.
    aside: u64,
}

impl<'a> Plan<'a> {
    /// A plan for a loader in the frames `own` (first, one after the last) that keeps their pages
    /// from frame `aside` on.
    ///
    /// # Errors
    /// [`Refusal::Scratch`] when the frames aside are in the image or the loader's own.
    pub fn new(runs: Runs<'a>, own: (u64, u64), aside: u64) -> Result<Plan<'a>, Refusal> {
        let end = aside.checked_add(own.1.saturating_sub(own.0)).ok_or(Refusal::Scratch)?;
        let apart = own.1 <= aside || end <= own.0;
        if apart && runs.free(aside, end) {
            Ok(Plan { runs, own, aside })
        } else {
            Err(Refusal::Scratch)
        }
    }

    /// All pages of the image, in order of frames; none of the pieces goes to a frame of the
    /// loader's.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + use<'a> {
        let (own, aside) = (self.own, self.aside);
        self.runs.iter().flat_map(move |run| split(run, own, aside).into_iter().flatten())
    }

    /// The pages that are kept aside: where each belongs, and where it is.
    pub fn copies(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let moved = self.pieces().filter(|piece| piece.at != piece.run.start);
        moved.flat_map(|piece| {
            (0..u64::from(piece.run.count))
                .map(move |page| (piece.run.start + page, piece.at + page))
        })
    }
}

/// The parts of a run before, in and behind the loader's frames.
fn split(run: Run, own: (u64, u64), aside: u64) -> [Option<Piece>; 3] {
    let part = |from: u64, to: u64, moved: bool| {
        let (from, to) = (from.max(run.start), to.min(run.end()));
        let count = to.checked_sub(from).filter(|count| *count > 0)? as u32;
        let kind = match run.kind {
            Kind::Data(page) => Kind::Data(page + (from - run.start)),
            word => word,
        };
        let at = if moved { aside + (from - own.0) } else { from };
        Some(Piece { run: Run { start: from, count, kind }, at })
    };
    [part(0, own.0, false), part(own.0, own.1, true), part(own.1, u64::MAX, false)]
}

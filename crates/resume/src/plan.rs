//! Where the pages of an image go: to their frames, or, where the loader itself is, first aside.

use crate::header::Header;
use crate::page_tables::frames_needed;
use crate::refusal::Refusal;
use crate::run::{Kind, Run, Runs};
use crate::{PAGE_BYTES, SUMMED_PAGES};

/// Frames that a request reads into, as (first, how many).
pub type Parts<'a> = core::iter::Copied<core::slice::Iter<'a, (u64, u64)>>;

/// Pages in a row that go to frames in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The frames that they belong to.
    pub run: Run,
    /// The first of the frames that they are put into: the same, or aside.
    pub at: u64,
}

/// Frames that are not free while the loader runs, and where it keeps what belongs into them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Moved {
    /// The first frame.
    pub from: u64,
    /// The frame after the last one.
    pub to: u64,
    /// Where the page of the first frame is kept; the others follow.
    pub at: u64,
}

impl Moved {
    fn aside_end(&self) -> Option<u64> {
        self.at.checked_add(self.to.checked_sub(self.from)?)
    }
}

/// Where each page of an image goes first.
#[derive(Clone, Copy, Debug)]
pub struct LoadPlan<'a> {
    runs: Runs<'a>,
    moved: &'a [Moved],
}

impl<'a> LoadPlan<'a> {
    /// A plan for a loader that keeps the pages of the frames in `moved`, which are in rising order
    /// and apart, aside.
    ///
    /// # Errors
    /// [`Refusal::Scratch`] when the frames aside are in the image, or not free either.
    pub fn new(runs: Runs<'a>, moved: &'a [Moved]) -> Result<LoadPlan<'a>, Refusal> {
        let rising = moved.windows(2).all(|pair| pair[0].to <= pair[1].from);
        let sound = moved.iter().all(|one| {
            let Some(end) = one.aside_end() else { return false };
            let apart = |other: &Moved| other.to <= one.at || end <= other.from;
            one.from <= one.to && moved.iter().all(apart) && runs.free(one.at, end)
        });
        if rising && sound { Ok(LoadPlan { runs, moved }) } else { Err(Refusal::Scratch) }
    }

    /// All pages of the image, in order of frames; none of the pieces goes to a frame that is not
    /// free.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + use<'a> {
        let moved = self.moved;
        self.runs.iter().flat_map(move |run| Split { rest: Some(run), moved })
    }

    /// Read all data: `read` is told the first page of a request, counted from the data's begin,
    /// and the frames that it goes to, at most `PARTS` times some in a row and `pages_max` in all.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn reads<const PARTS: usize, E>(
        &self,
        pages_max: u64,
        mut read: impl FnMut(u64, Parts) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut parts = [(0, 0); PARTS];
        // Of the request that is being made: where it begins, its parts, its pages.
        let (mut from, mut count, mut pages) = (0, 0, 0);
        for piece in self.pieces() {
            let Kind::Data(_) = piece.run.kind else { continue };
            let (mut at, mut left) = (piece.at, u64::from(piece.run.count));
            while left > 0 {
                if count == PARTS || pages == pages_max {
                    read(from, parts[..count].iter().copied())?;
                    (from, count, pages) = (from + pages, 0, 0);
                }
                let step = left.min(pages_max - pages);
                parts[count] = (at, step);
                (count, pages) = (count + 1, pages + step);
                (at, left) = (at + step, left - step);
            }
        }
        if count == 0 { Ok(()) } else { read(from, parts[..count].iter().copied()) }
    }

    /// Compare the data with its checksums: `add` goes on with a checksum over so many pages from
    /// that frame on.
    ///
    /// # Errors
    /// [`Refusal::Data`].
    pub fn verify(
        &self,
        sums: &[u8],
        mut add: impl FnMut(u32, u64, u64) -> u32,
    ) -> Result<(), Refusal> {
        let (sums, _) = sums.as_chunks::<4>();
        let compare = |mib: u64, sum: u32| {
            let right = sums.get(mib as usize) == Some(&sum.to_le_bytes());
            if right { Ok(()) } else { Err(Refusal::Data(mib)) }
        };
        let (mut next, mut sum) = (0, 0);
        for piece in self.pieces() {
            let Kind::Data(_) = piece.run.kind else { continue };
            let (mut at, mut left) = (piece.at, u64::from(piece.run.count));
            while left > 0 {
                let step = left.min(SUMMED_PAGES - next % SUMMED_PAGES);
                sum = add(sum, at, step);
                (at, left, next) = (at + step, left - step, next + step);
                if next % SUMMED_PAGES == 0 {
                    compare(next / SUMMED_PAGES - 1, core::mem::take(&mut sum))?;
                }
            }
        }
        match next % SUMMED_PAGES {
            0 => Ok(()),
            _ => compare(next / SUMMED_PAGES, sum),
        }
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

/// The parts of a run that go to places of their own.
struct Split<'a> {
    rest: Option<Run>,
    moved: &'a [Moved],
}

impl Iterator for Split<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let run = self.rest.take()?;
        let next = self.moved.partition_point(|moved| moved.to <= run.start);
        let (end, at) = match self.moved.get(next) {
            Some(moved) if moved.from <= run.start => {
                (moved.to, moved.at + (run.start - moved.from))
            }
            Some(moved) => (moved.from, run.start),
            None => (u64::MAX, run.start),
        };
        let (part, rest) = cut(run, end);
        self.rest = rest;
        Some(Piece { run: part, at })
    }
}

/// The part of a run before a frame, which is behind its first one, and the rest.
fn cut(run: Run, frame: u64) -> (Run, Option<Run>) {
    if run.end() <= frame {
        return (run, None);
    }
    let count = (frame - run.start) as u32;
    let kind = match run.kind {
        Kind::Data(page) => Kind::Data(page + u64::from(count)),
        word => word,
    };
    let rest = Run { start: frame, count: run.count - count, kind };
    (Run { count, ..run }, Some(rest))
}

/// Where the loader keeps what it needs until the jump: frames that the image does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// The first frame.
    pub first: u64,
    /// The run table.
    pub table: u64,
    /// The data's checksums.
    pub sums: u64,
    /// The page tables.
    pub tables: u64,
    /// What belongs into the loader's frames.
    pub aside: u64,
    /// The list of that.
    pub list: u64,
    /// The code of the jump.
    pub code: u64,
    /// The frame after the last one.
    pub end: u64,
}

impl Room {
    /// Frames that a room takes for an image, whose run table and checksums have so many pages and
    /// whose memory so many frames, and a loader of so many frames.
    pub fn frames(header: &Header, own: u64) -> u64 {
        let layout = header.layout();
        let tables = frames_needed(header.frames);
        layout.table_pages + layout.sums_pages + tables + own + Room::list_frames(own) + 1
    }

    /// Two words for each page aside, and for the end.
    fn list_frames(own: u64) -> u64 {
        ((own + 1) * 16).div_ceil(PAGE_BYTES as u64)
    }

    /// The room that the header names, for a loader in the frames `own`; `usable` says whether all
    /// frames from one to another are memory.
    ///
    /// # Errors
    /// [`Refusal::Scratch`] when it is too small, no memory, not below 4 GiB, or the loader's own.
    pub fn new(
        header: &Header,
        own: (u64, u64),
        usable: impl Fn(u64, u64) -> bool,
    ) -> Result<Room, Refusal> {
        let (layout, own_count) = (header.layout(), own.1 - own.0);
        let first = header.scratch;
        let end = first.checked_add(header.scratch_count).ok_or(Refusal::Scratch)?;
        let apart = end <= own.0 || own.1 <= first;
        if end > 1 << 20 || !apart || !usable(first, end) {
            return Err(Refusal::Scratch);
        }
        if header.scratch_count < Room::frames(header, own_count) {
            return Err(Refusal::Scratch);
        }
        let sums = first + layout.table_pages;
        let tables = sums + layout.sums_pages;
        let aside = tables + frames_needed(header.frames);
        let list = aside + own_count;
        let code = list + Room::list_frames(own_count);
        Ok(Room { first, table: first, sums, tables, aside, list, code, end })
    }
}

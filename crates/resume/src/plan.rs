//! Where the pages of an image go: to their frames, or, where the loader itself is, first aside.

use crate::checksum::DataSum;
use crate::group::{Group, Groups};
use crate::refusal::Refusal;
use crate::run::{Kind, Run, Runs};

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

/// Frames for what is packed, none of them in the image.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Buffers {
    /// Where a group is unpacked whose frames are not in a row.
    pub output: u64,
    /// Where groups are read.
    pub input: u64,
    /// How many pages there is room for.
    pub input_pages: u64,
}

/// What moves pages of an image from its disk to memory.
pub trait Transfer {
    /// What goes wrong.
    type Error: From<Refusal>;

    /// Ask for pages of the data, from that one on, into frames.
    ///
    /// # Errors
    /// When that, or what was asked for before, is not done.
    fn read(&mut self, from: u64, parts: Parts) -> Result<(), Self::Error>;

    /// Wait for all that was asked for but the last `ahead` times.
    ///
    /// # Errors
    /// When it is not done.
    fn wait(&mut self, ahead: u64) -> Result<(), Self::Error>;

    /// Unpack a group, which was read to frames from `from` on, into frames from `to` on, as
    /// [`Group::unpack`] does.
    fn unpack(&mut self, group: &Group, from: u64, to: u64) -> bool;

    /// Copy so many pages.
    fn copy(&mut self, to: u64, from: u64, pages: u64);
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

    /// Read all data, the plain groups straight to their frames, by requests of at most `PARTS`
    /// times some frames in a row and `pages_max` in all. What is packed is read into a buffer,
    /// compared with its checksum and unpacked from there, while the next is read into another.
    ///
    /// # Errors
    /// Those of `to`, and [`Refusal::Data`] for what is packed and damaged.
    pub fn load<const PARTS: usize, T: Transfer>(
        &self,
        groups: Groups,
        buffers: Buffers,
        pages_max: u64,
        to: &mut T,
    ) -> Result<(), T::Error> {
        let mut request = Request::<PARTS>::new(pages_max);
        let mut incoming = Incoming::new(self.data(), buffers, pages_max);
        let mut rest = groups.iter();
        loop {
            let here = rest.clone();
            let Some(group) = rest.next() else { break };
            if group.packed_bytes.is_some() {
                request.send(to)?;
                let (count, pages) = incoming.fitting(here.clone());
                rest.by_ref().take(count - 1).for_each(|_| {});
                incoming.ask(here.take(count), group.at, pages, to)?;
                continue;
            }
            incoming.finish(to)?;
            let mut at = group.at;
            while at < group.at + group.stored {
                let (frame, pages) = incoming.data.take(group.at + group.stored - at)?;
                request.add(at, frame, pages, to)?;
                at += pages;
            }
        }
        request.send(to)?;
        to.wait(0)?;
        incoming.finish(to)
    }

    /// Compare the data that is not packed with its checksums: `add` has a checksum take in so many
    /// pages from that frame on.
    ///
    /// # Errors
    /// [`Refusal::Data`].
    pub fn verify(
        &self,
        groups: Groups,
        mut add: impl FnMut(&mut DataSum, u64, u64),
    ) -> Result<(), Refusal> {
        let mut data = self.data();
        for group in groups.iter() {
            let (mut sum, mut left) = (DataSum::default(), group.pages);
            while left > 0 {
                let (frame, pages) = data.take(left)?;
                if group.packed_bytes.is_none() {
                    add(&mut sum, frame, pages);
                }
                left -= pages;
            }
            if group.packed_bytes.is_none() && sum.end() != group.sum {
                return Err(Refusal::Data(group.index));
            }
        }
        Ok(())
    }

    /// The frames that the data goes to, in its order.
    fn data(&self) -> Frames<impl Iterator<Item = Piece> + use<'a>> {
        let data = self.pieces().filter(|piece| matches!(piece.run.kind, Kind::Data(_)));
        Frames { pieces: data, left: (0, 0) }
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

/// What a loader took that took all frames of these runs before frame `end` but those in `moved`,
/// which are in rising order and apart: the first frame, and how many in a row.
pub fn taken<'a>(
    runs: Runs<'a>,
    moved: &'a [Moved],
    end: u64,
) -> impl Iterator<Item = (u64, u64)> + use<'a> {
    let before = move |run: Run| (run.start < end).then(|| cut(run, end).0);
    let is_moved = |frame: u64| {
        let next = moved.partition_point(|one| one.to <= frame);
        moved.get(next).is_some_and(|one| one.from <= frame)
    };
    let pieces = runs.iter().map_while(before);
    let pieces = pieces.flat_map(move |run| Split { rest: Some(run), moved });
    let free = pieces.filter(move |piece| !is_moved(piece.run.start));
    free.map(|piece| (piece.run.start, piece.run.count.into()))
}

/// The frames of data, some in a row after the other.
struct Frames<I> {
    pieces: I,
    /// What is left of a piece: the first frame, and how many.
    left: (u64, u64),
}

impl<I: Iterator<Item = Piece>> Frames<I> {
    /// The next ones in a row, at most so many.
    fn take(&mut self, most: u64) -> Result<(u64, u64), Refusal> {
        if self.left.1 == 0 {
            let piece = self.pieces.next().ok_or(Refusal::Runs)?;
            self.left = (piece.at, piece.run.count.into());
        }
        let (frame, pages) = (self.left.0, self.left.1.min(most));
        self.left = (frame + pages, self.left.1 - pages);
        Ok((frame, pages))
    }

    /// Unpack a group that was read to the frame `from`.
    fn unpack<T: Transfer>(
        &mut self,
        group: &Group,
        from: u64,
        output: u64,
        to: &mut T,
    ) -> Result<(), T::Error> {
        let (mut frame, mut pages) = self.take(group.pages)?;
        let in_a_row = pages == group.pages;
        if !to.unpack(group, from, if in_a_row { frame } else { output }) {
            return Err(Refusal::Data(group.index).into());
        }
        if in_a_row {
            return Ok(());
        }
        let mut done = 0;
        loop {
            to.copy(frame, output + done, pages);
            done += pages;
            if done == group.pages {
                return Ok(());
            }
            (frame, pages) = self.take(group.pages - done)?;
        }
    }
}

/// What is packed and on its way: while some groups come, those before are unpacked.
struct Incoming<I, G> {
    data: Frames<I>,
    /// Groups that were asked for, and the frame that they are read to.
    asked: Option<(G, u64)>,
    /// Where the next ones go, and those after them.
    inputs: [u64; 2],
    /// Pages that there is room for.
    room: u64,
    output: u64,
}

impl<I: Iterator<Item = Piece>, G: Iterator<Item = Group>> Incoming<I, G> {
    fn new(data: Frames<I>, buffers: Buffers, pages_max: u64) -> Incoming<I, G> {
        let (inputs, room) = buffers.halves(pages_max);
        Incoming { data, asked: None, inputs, room, output: buffers.output }
    }

    /// How many groups from the first one on are read together, and how many pages they have.
    fn fitting(&self, groups: impl Iterator<Item = Group>) -> (usize, u64) {
        let (mut count, mut pages) = (0, 0);
        for group in groups.take_while(|group| group.packed_bytes.is_some()) {
            // The first one always fits.
            if count > 0 && pages + group.stored > self.room {
                break;
            }
            (count, pages) = (count + 1, pages + group.stored);
        }
        (count, pages)
    }

    /// Ask for groups, whose pages begin at `from`.
    fn ask<T: Transfer>(
        &mut self,
        groups: G,
        from: u64,
        pages: u64,
        to: &mut T,
    ) -> Result<(), T::Error> {
        let [input, other] = self.inputs;
        if input == other {
            self.finish(to)?;
        }
        self.inputs = [other, input];
        to.read(from, [(input, pages)].iter().copied())?;
        if let Some(before) = self.asked.replace((groups, input)) {
            to.wait(1)?;
            self.unpack(before, to)?;
        }
        Ok(())
    }

    /// Unpack what was asked for last.
    fn finish<T: Transfer>(&mut self, to: &mut T) -> Result<(), T::Error> {
        let Some(last) = self.asked.take() else { return Ok(()) };
        to.wait(0)?;
        self.unpack(last, to)
    }

    fn unpack<T: Transfer>(
        &mut self,
        (groups, input): (G, u64),
        to: &mut T,
    ) -> Result<(), T::Error> {
        let mut from = input;
        for group in groups {
            self.data.unpack(&group, from, self.output, to)?;
            from += group.stored;
        }
        Ok(())
    }
}

/// A request that grows: where it begins, its parts, its pages.
struct Request<const PARTS: usize> {
    from: u64,
    parts: [(u64, u64); PARTS],
    count: usize,
    pages: u64,
    pages_max: u64,
}

impl<const PARTS: usize> Request<PARTS> {
    fn new(pages_max: u64) -> Request<PARTS> {
        Request { from: 0, parts: [(0, 0); PARTS], count: 0, pages: 0, pages_max }
    }

    /// Add frames in a row, which the pages from `at` on belong to; it is sent when it is full.
    fn add<T: Transfer>(
        &mut self,
        at: u64,
        frame: u64,
        pages: u64,
        to: &mut T,
    ) -> Result<(), T::Error> {
        let (mut at, mut frame, mut left) = (at, frame, pages);
        while left > 0 {
            if self.count == PARTS || self.pages == self.pages_max {
                self.send(to)?;
            }
            if self.count == 0 {
                self.from = at;
            }
            let step = left.min(self.pages_max - self.pages);
            match self.parts[..self.count].last_mut() {
                // A piece that goes on in the next group.
                Some(last) if last.0 + last.1 == frame => last.1 += step,
                _ => {
                    self.parts[self.count] = (frame, step);
                    self.count += 1;
                }
            }
            self.pages += step;
            (at, frame, left) = (at + step, frame + step, left - step);
        }
        Ok(())
    }

    fn send<T: Transfer>(&mut self, to: &mut T) -> Result<(), T::Error> {
        let count = core::mem::take(&mut self.count);
        self.pages = 0;
        if count == 0 { Ok(()) } else { to.read(self.from, self.parts[..count].iter().copied()) }
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

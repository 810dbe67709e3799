//! Runs: frames in a row with the same kind of content.

use crate::bytes::{put, u32_at, u64_at};
use crate::refusal::Refusal;

/// Bytes of a run in the table.
pub const RUN_BYTES: usize = 24;

/// What the pages of a run hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Data of the image, from this page of its data on.
    Data(u64),
    /// This word again and again; 0 for pages of zeros.
    Word(u64),
}

/// Frames in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first frame's number.
    pub start: u64,
    /// How many.
    pub count: u32,
    /// What they hold.
    pub kind: Kind,
}

impl Run {
    /// The frame after the last one.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.count)
    }

    /// As it stands in the table.
    pub fn to_bytes(&self) -> [u8; RUN_BYTES] {
        let (kind, value) = match self.kind {
            Kind::Data(page) => (0, page),
            Kind::Word(word) => (1, word),
        };
        let mut bytes = [0; RUN_BYTES];
        put(&mut bytes, 0, &[self.start, u64::from(self.count) | kind << 32, value]);
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Run> {
        let value = u64_at(bytes, 16);
        let kind = match u32_at(bytes, 12) {
            0 => Kind::Data(value),
            1 => Kind::Word(value),
            _ => return None,
        };
        Some(Run { start: u64_at(bytes, 0), count: u32_at(bytes, 8), kind })
    }
}

/// A table of runs that was checked: in rising order of frames, none of them twice.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a>(&'a [u8]);

impl<'a> Runs<'a> {
    /// Check the table in `bytes`: every frame below `frames`, and the data in the order of the
    /// runs, `data_pages` in all.
    ///
    /// # Errors
    /// [`Refusal::Runs`].
    pub fn check(bytes: &'a [u8], frames: u64, data_pages: u64) -> Result<Runs<'a>, Refusal> {
        let runs = Runs(bytes);
        let (mut next, mut data) = (0, 0u64);
        for place in bytes.chunks(RUN_BYTES) {
            let run = Some(place).filter(|place| place.len() == RUN_BYTES).and_then(Run::read);
            let run = run.ok_or(Refusal::Runs)?;
            let end = run.start.checked_add(run.count.into()).ok_or(Refusal::Runs)?;
            if run.count == 0 || run.start < next || end > frames {
                return Err(Refusal::Runs);
            }
            if let Kind::Data(page) = run.kind {
                if page != data {
                    return Err(Refusal::Runs);
                }
                data += u64::from(run.count);
            }
            next = end;
        }
        if data == data_pages { Ok(runs) } else { Err(Refusal::Runs) }
    }

    /// The runs in order of frames.
    pub fn iter(&self) -> impl Iterator<Item = Run> + use<'a> {
        self.0.chunks_exact(RUN_BYTES).filter_map(Run::read)
    }

    /// Is none of the frames from `start` to `end` in the image?
    pub fn free(&self, start: u64, end: u64) -> bool {
        self.iter().all(|run| run.end() <= start || end <= run.start)
    }

    /// Is this frame in the image?
    pub fn contains(&self, frame: u64) -> bool {
        !self.free(frame, frame + 1)
    }
}

//! Where the loader keeps what it needs until the jump.

use crate::header::Header;
use crate::page_tables::frames_needed;
use crate::plan::Buffers;
use crate::refusal::Refusal;
use crate::run::Runs;
use crate::{PAGE_BYTES, SUMMED_PAGES};

/// Frames that the image does not have, and what each part of them is for.
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
    /// Where what is packed is read and unpacked.
    pub buffers: Buffers,
    /// The frame after the last one.
    pub end: u64,
}

impl Room {
    /// Frames of a loader, which every image has room for.
    pub const LOADER_FRAMES: u64 = 64;
    /// The loader begins there, at 1 MiB.
    const LOADER_FROM: u64 = 256;

    /// Is there room in the image for a loader of [`Room::LOADER_FRAMES`], wherever its machine
    /// has memory?
    ///
    /// # Errors
    /// [`Refusal::Scratch`].
    pub fn check(header: &Header, runs: &Runs) -> Result<(), Refusal> {
        let own = (Room::LOADER_FROM, Room::LOADER_FROM + Room::LOADER_FRAMES);
        let room = Room::new(header, own, |_, end| end <= header.frames)?;
        if runs.free(room.first, room.end) { Ok(()) } else { Err(Refusal::Scratch) }
    }

    /// Frames that a room takes at least for an image, whose run table and checksums have so many
    /// pages and whose memory so many frames, and a loader of so many frames.
    pub fn frames(header: &Header, own: u64) -> u64 {
        let layout = header.layout();
        let tables = frames_needed(header.frames);
        let buffers = if header.is_packed() { Buffers::LEAST } else { 0 };
        layout.table_pages + layout.sums_pages + tables + own + list_frames(own) + 1 + buffers
    }

    /// Frames with which it reads what is packed by requests as long as the others.
    pub fn frames_wanted(header: &Header, own: u64) -> u64 {
        let more = if header.is_packed() { Buffers::MOST - Buffers::LEAST } else { 0 };
        Room::frames(header, own) + more
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
        let spare = header.scratch_count.checked_sub(Room::frames(header, own_count));
        let spare = spare.ok_or(Refusal::Scratch)?;
        let sums = first + layout.table_pages;
        let tables = sums + layout.sums_pages;
        let aside = tables + frames_needed(header.frames);
        let list = aside + own_count;
        let code = list + list_frames(own_count);
        let buffers = match header.is_packed() {
            true => Buffers::at(code + 1, (Buffers::LEAST + spare).min(Buffers::MOST)),
            false => Buffers::default(),
        };
        Ok(Room { first, table: first, sums, tables, aside, list, code, buffers, end })
    }
}

/// Two words for each page aside, and for the end.
fn list_frames(own: u64) -> u64 {
    ((own + 1) * 16).div_ceil(PAGE_BYTES as u64)
}

impl Buffers {
    /// Frames that they take at least: a group as it is on the device, and as it is in memory.
    pub const LEAST: u64 = 2 * SUMMED_PAGES;
    /// And at most: requests of 4 MiB.
    pub const MOST: u64 = 5 * SUMMED_PAGES;

    /// Where groups are read to in turns, and how many pages there is room for, of which a request
    /// reads at most `pages_max`. The two places are one where there is not room for two.
    pub(crate) fn halves(&self, pages_max: u64) -> ([u64; 2], u64) {
        let half = self.input_pages / 2;
        if half < SUMMED_PAGES {
            return ([self.input; 2], self.input_pages.min(pages_max));
        }
        ([self.input, self.input + half], half.min(pages_max))
    }

    /// From frame `first` on, `count` frames in all, at least [`Buffers::LEAST`].
    pub fn at(first: u64, count: u64) -> Buffers {
        let input = first + SUMMED_PAGES;
        Buffers { output: first, input, input_pages: count.saturating_sub(SUMMED_PAGES) }
    }
}

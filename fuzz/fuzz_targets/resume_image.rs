//! The mark, the header, the run table and the packed groups of an image: refused, or within
//! memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use resume::{
    Buffers, DataSum, Group, Groups, Header, Kind, LoadPlan, Mark, Moved, PAGE_BYTES, Parts,
    Refusal, Room, Runs, Transfer, lz4,
};

/// The loader's frames.
const OWN: (u64, u64) = (256, 281);
const FRAMES: u64 = 1 << 17;

fuzz_target!(|bytes: &[u8]| {
    if let Some(sector) = bytes.first_chunk() {
        let _ = Mark::read(sector);
    }
    let Some(page) = bytes.first_chunk::<PAGE_BYTES>() else { return };
    // As it is, and as if it were whole and the mark belonged to it.
    let (whole, mark) = blocklab_fuzz::image::whole(page);
    let _ = Header::read(page, mark);
    let header = Header::read(&whole, mark);
    let table = &bytes[PAGE_BYTES..];
    let data_pages = header.map_or(table.len() as u64 / 24, |header| header.data_pages);
    let Ok(runs) = Runs::check(table, FRAMES, data_pages) else { return };
    let aside = FRAMES - 100;
    if let Ok(header) = header
        && let Ok(room) = Room::new(&header, OWN, |from, to| from < to && to <= FRAMES)
    {
        assert!(room.code < room.end && room.first >= OWN.1 || room.end <= OWN.0);
    }
    let moved =
        [Moved { from: 3, to: 5, at: aside - 2 }, Moved { from: OWN.0, to: OWN.1, at: aside }];
    let Ok(plan) = LoadPlan::new(runs, &moved) else { return };
    let mut pages = 0;
    for piece in plan.pieces() {
        let end = piece.at + u64::from(piece.run.count);
        assert!(end <= FRAMES && (end <= OWN.0 || OWN.1 <= piece.at));
        pages += u64::from(matches!(piece.run.kind, Kind::Data(_))) * u64::from(piece.run.count);
    }
    assert_eq!(pages, data_pages);
    // The same bytes as a table of checksums: as the header has it, or else plain and packed.
    let headers = header.map_or_else(
        |_| {
            let of = |stored_pages| Header { data_pages, stored_pages, ..Header::empty() };
            vec![of(data_pages), of(data_pages.div_ceil(256))]
        },
        |header| vec![header],
    );
    for header in headers {
        let sums = &table[..(header.sums_bytes() as usize).min(table.len())];
        let Ok(groups) = Groups::check(sums, &header) else { continue };
        let mut steps = Steps::default();
        let count = if bytes[0].is_multiple_of(2) { Buffers::LEAST } else { Buffers::MOST };
        let buffers = Buffers::at(1 << 20, count);
        assert!(plan.load::<120, _>(groups, buffers, 1024, &mut steps).is_ok());
        assert_eq!((steps.read, steps.unpacked), (header.stored_pages, groups.packed()));
    }
    // A group, its length in front.
    let mut plain = [0; 3 * PAGE_BYTES];
    let count = lz4::unpack(bytes, &mut plain);
    assert!(count.is_none_or(|count| count <= plain.len()));
    let group = Group {
        index: 0,
        pages: 3,
        at: 0,
        stored: 2,
        packed_bytes: Some(u32::from(bytes[0]) * 32),
        sum: DataSum::of(bytes),
    };
    group.unpack(bytes, &mut plain);
});

/// What is asked of a disk and a memory.
#[derive(Default)]
struct Steps {
    read: u64,
    unpacked: u64,
    /// Requests so far, and how many of the first of them are known to be there.
    asked: u64,
    there: u64,
    /// What was read into buffers, by the number of the request.
    buffers: Vec<(u64, core::ops::Range<u64>)>,
}

impl Transfer for Steps {
    type Error = Refusal;

    fn read(&mut self, from: u64, parts: Parts) -> Result<(), Refusal> {
        assert_eq!(from, self.read);
        self.asked += 1;
        for (frame, pages) in parts {
            self.read += pages;
            if frame >= 1 << 20 {
                self.buffers.push((self.asked, frame..frame + pages));
            }
        }
        Ok(())
    }

    fn wait(&mut self, ahead: u64) -> Result<(), Refusal> {
        self.there = self.there.max(self.asked.saturating_sub(ahead));
        Ok(())
    }

    fn unpack(&mut self, group: &Group, from: u64, _: u64) -> bool {
        assert!(group.stored < group.pages && from >= 1 << 20);
        // Its place was read to by a request that is there, and by none that is not.
        let mut reads = self.buffers.iter().filter(|(_, frames)| frames.contains(&from));
        assert!(reads.next_back().is_some_and(|(number, _)| *number <= self.there));
        self.unpacked += 1;
        true
    }

    fn copy(&mut self, to: u64, from: u64, pages: u64) {
        assert!(to + pages <= FRAMES && from >= 1 << 20);
    }
}

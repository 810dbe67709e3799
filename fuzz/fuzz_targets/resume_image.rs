//! The mark, the header and the run table of an image of memory: refused, or within memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use resume::{Header, Kind, LoadPlan, Mark, Moved, PAGE_BYTES, Room, Runs};

/// The loader's frames.
const OWN: (u64, u64) = (256, 281);
const FRAMES: u64 = 1 << 17;

fuzz_target!(|bytes: &[u8]| {
    if let Some(sector) = bytes.first_chunk() {
        let _ = Mark::read(sector);
    }
    let Some(page) = bytes.first_chunk::<PAGE_BYTES>() else { return };
    // As if the mark belonged to it.
    let sum = u32::from_le_bytes(*page.last_chunk().unwrap());
    let id = u64::from_le_bytes(page[16..24].try_into().unwrap());
    let mark = Mark { id, header_sum: sum };
    let header = Header::read(page, mark);
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
    let mut read = 0;
    let all: Result<(), ()> = plan.reads::<120, _>(1024, |from, parts| {
        assert_eq!(from, read);
        read += parts.map(|(_, pages)| pages).sum::<u64>();
        Ok(())
    });
    assert!(all.is_ok() && read == data_pages);
});

//! What `make fuzz` begins with is an image, so that it finds more than the header's refusals.

use resume::kernel::Entry;
use resume::{Groups, Header, Kind, LoadPlan, PAGE_BYTES, Room, Run, Runs};

#[path = "../../../fuzz/src/image.rs"]
#[allow(unreachable_pub)]
mod image;

const SEED: &[u8] = include_bytes!("../../../fuzz/seeds/resume_image/small");
/// As the fuzz target has them: the loader's frames, and all.
const OWN: (u64, u64) = (256, 281);
const FRAMES: u64 = 1 << 17;

/// The header and the run table, which begins as a table of checksums does: of one packed group.
fn seed() -> Vec<u8> {
    let runs = [
        Run { start: 10, count: 3, kind: Kind::Data(0) },
        Run { start: 250, count: 40, kind: Kind::Data(3) },
        Run { start: 300, count: 7, kind: Kind::Word(0) },
    ];
    let header = Header {
        id: 77,
        entry: Entry {
            jump: 0xffff_ffff_8100_0120,
            jump_physical: 0x100_0120,
            cr3: 0x20_0000,
            magic: 0x2345_6789_abcd_ef02,
            map_sum: 9,
        },
        frames: FRAMES,
        pages: 50,
        runs: 3,
        data_pages: 43,
        stored_pages: 1,
        scratch: 1000,
        scratch_count: 2000,
        ..Header::empty()
    };
    let mut bytes = header.to_bytes().0.to_vec();
    runs.iter().for_each(|run| bytes.extend(run.to_bytes()));
    bytes
}

#[test]
fn the_seed_of_an_image_gets_past_its_header() {
    assert!(SEED == seed(), "fuzz/seeds/resume_image/small is of another format");
    let (page, mark) = image::whole(SEED.first_chunk().unwrap());
    let header = Header::read(&page, mark).unwrap();
    let table = &SEED[PAGE_BYTES..];
    let runs = Runs::check(table, FRAMES, header.data_pages).unwrap();
    assert!(Room::new(&header, OWN, |from, to| from < to && to <= FRAMES).is_ok());
    assert!(LoadPlan::new(runs, &[]).is_ok());
    let sums = &table[..header.sums_bytes() as usize];
    assert_eq!(Groups::check(sums, &header).unwrap().packed(), 1);
}

/// Without it no change of a header is more than a wrong checksum.
#[test]
fn a_header_that_was_changed_is_made_whole() {
    let mut page = *SEED.first_chunk::<PAGE_BYTES>().unwrap();
    page[..16].fill(0xff);
    // Its identity.
    page[16] ^= 1;
    let (whole, mark) = image::whole(&page);
    let header = Header::read(&whole, mark).unwrap();
    assert_eq!((header.id, header.pages), (76, 50));
    assert!(Header::read(&page, mark).is_err());
}

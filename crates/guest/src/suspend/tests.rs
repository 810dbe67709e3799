//! The power goes while an image is written.

use resume::machine::Range;
use resume::{DataSum, Groups, HEADER_SECTOR, Header, Mark, Refusal, SECTOR_BYTES};

use super::*;
use target::Page;

pub(super) const FRAMES: u64 = 1 << 16;
const DISK_PAGES: usize = 1200;

/// A kernel's image of `count` pages that differ by `life`.
pub(super) struct Kernel {
    pub(super) pages: Vec<[u8; PAGE_BYTES]>,
    next: usize,
}

impl Kernel {
    pub(super) fn new(life: u8, count: u64) -> Kernel {
        let words = |words: &[(usize, u64)]| {
            let mut page = [0; PAGE_BYTES];
            for (at, word) in words {
                page[*at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            page
        };
        let head = words(&[
            (0, 0xffff_ffff_8120_0040),
            (8, 0x120_0040),
            (16, 0x300_0000),
            (24, 0x2345_6789_abcd_ef02),
            (400, FRAMES),
            (416, count),
            (424, count + count.div_ceil(512) + 1),
        ]);
        let mut pages = vec![head];
        let frame = |index: u64| 1000 + index + index / 7 * 2;
        for first in (0..count).step_by(512) {
            let list: Vec<(usize, u64)> = (0..512)
                .map(|place| {
                    (
                        place as usize * 8,
                        if first + place < count { frame(first + place) } else { u64::MAX },
                    )
                })
                .collect();
            pages.push(words(&list));
        }
        pages.extend((0..count).map(|index| match index % 5 {
            0 => [0; PAGE_BYTES],
            _ => words(&[(8, index << 8 | u64::from(life))]),
        }));
        Kernel { pages, next: 0 }
    }
}

impl Source for Kernel {
    fn bytes(&self) -> Result<u64, String> {
        Ok((self.pages.len() * PAGE_BYTES) as u64)
    }

    fn page(&mut self, page: &mut [u8; PAGE_BYTES]) -> Result<(), String> {
        *page = *self.pages.get(self.next).ok_or("the stream has ended")?;
        self.next += 1;
        Ok(())
    }
}

/// What was written, in order; `None` is a sync.
#[derive(Default)]
struct Log(Vec<Option<(u64, Vec<Page>)>>);

impl Store for Log {
    fn write(&mut self, at: u64, pages: &[Page]) -> Result<(), String> {
        self.0.push(Some((at, pages.to_vec())));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        self.0.push(None);
        Ok(())
    }

    fn pages(&self) -> u64 {
        DISK_PAGES as u64
    }
}

fn written(life: u8, count: u64, packed: bool) -> Log {
    let map = [Range { start: 0, bytes: FRAMES * 4096, kind: Range::USABLE }];
    let header = Header { frames: FRAMES, ..Header::empty() };
    let mut log = Log::default();
    write(&mut Kernel::new(life, count), header, &map, packed, &mut log).unwrap();
    log
}

fn put(disk: &mut [u8], at: u64, pages: &[Page], bytes_max: usize) {
    let bytes: Vec<u8> = pages.iter().flat_map(|page| page.0).take(bytes_max).collect();
    disk[at as usize * PAGE_BYTES..][..bytes.len()].copy_from_slice(&bytes);
}

/// The life whose image is on the disk: all of it, or none at all.
pub(super) fn life(disk: &[u8]) -> Result<u8, Refusal> {
    let mark = Mark::read(disk.first_chunk().unwrap())?;
    let at = HEADER_SECTOR as usize * SECTOR_BYTES;
    let header = Header::read(disk[at..].first_chunk().unwrap(), mark)?;
    let layout = header.layout();
    let part = |page: u64, bytes: u64| &disk[page as usize * PAGE_BYTES..][..bytes as usize];
    let (table, sums) =
        (part(layout.table, header.table_bytes()), part(layout.sums, header.sums_bytes()));
    if checksum(table) != header.table_sum || checksum(sums) != header.sums_sum {
        return Err(Refusal::Table);
    }
    let mut first = None;
    for group in Groups::check(sums, &header)?.iter() {
        let stored = part(layout.data + group.at, group.stored * PAGE_BYTES as u64);
        let mut plain = stored.to_vec();
        if group.packed_bytes.is_some() {
            plain = vec![0; group.pages as usize * PAGE_BYTES];
            assert!(group.unpack(stored, &mut plain), "{group:?}");
        }
        if DataSum::of(stored) != group.sum {
            return Err(Refusal::Data(group.index));
        }
        first.get_or_insert(plain[8]);
    }
    Ok(first.unwrap())
}

#[test]
fn a_cut_leaves_no_image_or_the_whole_one() {
    // A packed one over a plain one, and the other way round.
    for packed in [true, false] {
        cut_at_every_write(packed);
    }
}

fn cut_at_every_write(packed: bool) {
    let mut before = vec![0; DISK_PAGES * PAGE_BYTES];
    for (at, pages) in written(1, 900, !packed).0.iter().flatten() {
        put(&mut before, *at, pages, usize::MAX);
    }
    assert_eq!(life(&before), Ok(1));
    let log = written(2, 700, packed).0;
    let mut durable = before;
    let mut volatile: Vec<&(u64, Vec<Page>)> = Vec::new();
    let (mut none, mut old, mut new) = (0, 0, 0);
    let mut look = |disk: &[u8]| match life(disk) {
        // Whoever finds a mark finds the image that it belongs to.
        Err(why) => {
            assert_eq!(why, Refusal::NoMark);
            none += 1;
        }
        Ok(1) => old += 1,
        Ok(_) => new += 1,
    };
    for step in log.iter().chain([&None]) {
        match step {
            None => {
                volatile
                    .drain(..)
                    .for_each(|(at, pages)| put(&mut durable, *at, pages, usize::MAX));
            }
            Some(written) => volatile.push(written),
        }
        // All that is under way, all but one, only one, and one that is torn.
        look(&durable);
        for chosen in 0..volatile.len() {
            for kind in 0..4 {
                let mut disk = durable.clone();
                for (index, (at, pages)) in volatile.iter().enumerate() {
                    let bytes = match (kind, index == chosen) {
                        (0, _) | (1, false) | (2, true) => usize::MAX,
                        (3, true) => (pages.len() * PAGE_BYTES / 2).next_multiple_of(SECTOR_BYTES),
                        _ => 0,
                    };
                    put(&mut disk, *at, pages, bytes);
                }
                look(&disk);
            }
        }
    }
    // Before the first write there is the old one; after the last, the new one.
    assert!(old > 0 && none > 10 && new > 0, "{old} {none} {new}");
}

/// A device of which a sync fails.
struct Failing {
    log: Log,
    syncs_before: u32,
}

impl Store for Failing {
    fn write(&mut self, at: u64, pages: &[Page]) -> Result<(), String> {
        self.log.write(at, pages)
    }

    fn sync(&mut self) -> Result<(), String> {
        self.syncs_before = self.syncs_before.wrapping_sub(1);
        if self.syncs_before == u32::MAX { Err("no answer".into()) } else { self.log.sync() }
    }

    fn pages(&self) -> u64 {
        self.log.pages()
    }
}

/// The machine goes on then, and what was the image is older than its file systems.
#[test]
fn where_a_suspend_fails_there_is_no_image() {
    let map = [Range { start: 0, bytes: FRAMES * 4096, kind: Range::USABLE }];
    let all = written(1, 900, false).0.iter().filter(|step| step.is_none()).count() as u32;
    assert_eq!(all, 3);
    for syncs_before in 0..all {
        let mut disk = vec![0; DISK_PAGES * PAGE_BYTES];
        for (at, pages) in written(7, 900, false).0.iter().flatten() {
            put(&mut disk, *at, pages, usize::MAX);
        }
        let mut store = Failing { log: Log::default(), syncs_before };
        let header = Header { frames: FRAMES, ..Header::empty() };
        let kernel = &mut Kernel::new(1, 900);
        let why = write(kernel, header, &map, false, &mut store).err().unwrap().to_string();
        assert!(why.contains("no answer"), "{why}");
        // All that was written may have come to the device.
        for (at, pages) in store.log.0.iter().flatten() {
            put(&mut disk, *at, pages, usize::MAX);
        }
        assert!(life(&disk).is_err(), "after {syncs_before} syncs: {why}");
    }
}

#[test]
fn an_image_that_does_not_fit_is_refused_before_anything_is_written() {
    let header = Header { frames: FRAMES, ..Header::empty() };
    let mut log = Log::default();
    let why = write(&mut Kernel::new(1, 1300), header, &[], false, &mut log).unwrap_err();
    assert_eq!(why.code(), 2);
    assert!(why.to_string().contains("the target has 4 MiB") && log.0.is_empty(), "{why}");
}

#[test]
fn a_packed_image_takes_less() {
    let map = [Range { start: 0, bytes: FRAMES * 4096, kind: Range::USABLE }];
    let report = |packed: bool| {
        let header = Header { frames: FRAMES, ..Header::empty() };
        write(&mut Kernel::new(1, 900), header, &map, packed, &mut Log::default()).unwrap()
    };
    let (plain, packed) = (report(false), report(true));
    assert_eq!((plain.stored_pages, plain.data_pages), (720, 720));
    assert_eq!((packed.pages, packed.data_pages), (plain.pages, plain.data_pages));
    // All but a word of its pages is zero.
    assert!(packed.stored_pages < 30, "{packed}");
}

#[test]
fn a_stream_of_another_kernel_is_refused() {
    let map = [Range { start: 0, bytes: FRAMES * 4096, kind: Range::USABLE }];
    let header = Header { frames: FRAMES, ..Header::empty() };
    let change = |page: usize, at: usize, byte: u8| {
        let mut kernel = Kernel::new(1, 600);
        kernel.pages[page][at] ^= byte;
        write(&mut kernel, header, &map, false, &mut target::Nowhere).map(|report| report.pages)
    };
    assert_eq!(change(5, 8, 0), Ok(600));
    // The magic word, the count of pages, the order of frames.
    for (page, at) in [(0, 24), (0, 416), (1, 8)] {
        let why = change(page, at, 0x40).unwrap_err();
        // Nobody gave that: it is the machine's.
        assert_eq!(why.code(), 3);
        assert!(why.to_string().contains("not known"), "{why}");
    }
}

/// What says that it writes nothing does not prepare a target beside it.
#[test]
fn one_thing_is_done_at_a_time() {
    let told = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_string()).collect();
        let why = super::verb(&words).unwrap_err();
        assert_eq!(why.code(), 2, "{why}");
        why.to_string()
    };
    assert!(told(&["--prepare", "--dry-run", "/dev/null"]).starts_with("expected one thing to do"));
    let why = told(&["--measure", "--compress", "zip"]);
    assert_eq!(why, "--compress zip: expected none or lz4");
    for words in [&["--measure", "/dev/null"][..], &["--prepare"], &[]] {
        assert!(told(words).starts_with("expected a target or --measure"), "{words:?}");
    }
}

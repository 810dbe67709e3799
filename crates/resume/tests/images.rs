//! Images that are made, damaged, and resumed into a memory that is only a map.

use std::collections::{BTreeMap, VecDeque};

use resume::kernel::Entry;
use resume::lz4::{self, Places};
use resume::{
    DataSum, Disk, ENTRY_BYTES, Group, Groups, Header, Kind, LoadPlan, Mark, Moved, PAGE_BYTES,
    Parts, Refusal, Room, Run, Runner, Runs, SECTOR_BYTES, SUMMED_PAGES, Transfer, checksum,
    frames_needed, taken,
};
use sim::Rng;

type Page = [u8; PAGE_BYTES];
type Memory = BTreeMap<u64, Page>;

const FRAMES: u64 = 4096;
/// The loader's own frames.
const OWN: (u64, u64) = (256, 267);
/// Others that are not free, as of a firmware: in a row with the loader's, of one frame, and far.
const OTHERS: [(u64, u64); 4] = [(3, 20), (251, 256), (300, 301), (650, 720)];

/// All of them in order, with places from frame `at` on.
fn moved(at: u64) -> Vec<Moved> {
    let mut all = [&[OWN][..], &OTHERS].concat();
    all.sort_unstable();
    let mut at = at;
    let place = |(from, to): (u64, u64)| {
        at += to - from;
        Moved { from, to, at: at - (to - from) }
    };
    all.into_iter().map(place).collect()
}

fn is_taken(frame: u64) -> bool {
    moved(0).iter().any(|moved| (moved.from..moved.to).contains(&frame))
}

/// How the data of a memory is, and its image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Data {
    /// Random, and not packed.
    Plain,
    /// Some of it repeats, and what becomes shorter is packed.
    Packed,
}

/// A memory with runs of data, zeros and words, some of it in the loader's frames.
fn memory(rng: &mut Rng, data: Data) -> Memory {
    let mut memory = Memory::new();
    let mut frame = rng.below(300);
    // All groups but the third become shorter.
    let (mut count, end, gap) = if data == Data::Packed { (0, 1200, 4) } else { (0, 700, 60) };
    while frame < end {
        let kind = if data == Data::Packed { rng.below(5) } else { rng.below(3) };
        for _ in 0..1 + rng.below(20) {
            let mut page = [0; PAGE_BYTES];
            let repeats = data == Data::Packed && count / SUMMED_PAGES != 2;
            count += u64::from(kind > 1);
            match kind {
                0 => {}
                1 => page.fill(0x5a),
                _ => page.chunks_exact_mut(8).for_each(|word| {
                    let bits = if repeats { rng.below(40) } else { rng.next_u64() };
                    word.copy_from_slice(&bits.to_le_bytes());
                }),
            }
            memory.insert(frame, page);
            frame += 1;
        }
        frame += rng.below(3) * rng.below(gap);
    }
    memory
}

fn entry() -> Entry {
    Entry {
        jump: 0xffff_ffff_8120_0040,
        jump_physical: 0x120_0040,
        cr3: 0x300_0000,
        magic: 0x2345_6789_abcd_ef02,
        map_sum: 7,
    }
}

/// A group of the data as it lies on its device, and its entry in the table.
fn stored(plain: &[u8], packs: Data) -> (Vec<u8>, Vec<u8>) {
    let mut packed = vec![0; plain.len() - PAGE_BYTES];
    let bytes = match packs {
        Data::Packed => lz4::pack(plain, &mut packed, &mut Places::new()),
        Data::Plain => None,
    };
    let mut stored = bytes.map_or(plain.to_vec(), |bytes| packed[..bytes].to_vec());
    stored.resize(stored.len().next_multiple_of(PAGE_BYTES), 0);
    let entry = Group::entry(DataSum::of(&stored), bytes.unwrap_or(0) as u32);
    (stored, entry.to_vec())
}

/// An image as it lies on its device.
fn image(memory: &Memory, packs: Data) -> Vec<u8> {
    let (mut runner, mut runs, mut data) = (Runner::default(), Vec::new(), Vec::new());
    for (frame, page) in memory {
        runs.extend(runner.page(*frame, page));
        if runner.is_data() {
            data.extend(page);
        }
    }
    runs.extend(runner.end());
    let table: Vec<u8> = runs.iter().flat_map(Run::to_bytes).collect();
    let mib = SUMMED_PAGES as usize * PAGE_BYTES;
    let (mut groups, mut sums) = (Vec::new(), Vec::new());
    for group in data.chunks(mib) {
        let (stored, entry) = stored(group, packs);
        groups.extend(stored);
        sums.extend(entry);
    }
    let mut header = Header {
        id: 5,
        entry: entry(),
        frames: FRAMES,
        pages: memory.len() as u64,
        runs: runs.len() as u64,
        data_pages: runner.data_pages(),
        stored_pages: (groups.len() / PAGE_BYTES) as u64,
        scratch: 2400,
        table_sum: checksum(&table),
        sums_sum: checksum(&sums),
        ..Header::empty()
    };
    assert!(header.add_disk(Disk { sectors: 9, superblock_sector: 2, sum: 1, mounts: 7 }));
    // Room for one request, or for two.
    let room = if memory.len().is_multiple_of(2) { Room::frames } else { Room::frames_wanted };
    header.scratch_count = room(&header, OWN.1 - OWN.0 + 100);
    let layout = header.layout();
    let mut out = vec![0; layout.end as usize * PAGE_BYTES];
    let mut put = |page: u64, bytes: &[u8]| {
        out[page as usize * PAGE_BYTES..][..bytes.len()].copy_from_slice(bytes);
    };
    let (bytes, header_sum) = header.to_bytes();
    put(layout.data, &groups);
    put(layout.table, &table);
    put(layout.sums, &sums);
    put(1, &bytes);
    put(0, &Mark { id: 5, header_sum, written: 6 }.to_bytes());
    out
}

fn page_at(image: &[u8], page: u64) -> Result<Page, Refusal> {
    let at = usize::try_from(page).ok().and_then(|page| page.checked_mul(PAGE_BYTES));
    let bytes = at.and_then(|at| image.get(at..)?.first_chunk());
    bytes.copied().ok_or(Refusal::Header)
}

fn part(image: &[u8], page: u64, bytes: u64) -> Result<Vec<u8>, Refusal> {
    let mut out = Vec::new();
    for index in 0..bytes.div_ceil(PAGE_BYTES as u64) {
        out.extend(page_at(image, page + index)?);
    }
    out.truncate(bytes as usize);
    Ok(out)
}

/// A machine that is only a map, and the image that it reads.
struct Machine<'a> {
    image: &'a [u8],
    /// The page of the image where the data begins, and the next one to read.
    data: u64,
    next: u64,
    /// Most pages that a request reads.
    pages_max: u64,
    memory: Memory,
    /// Frames of buffers, which may be written again.
    buffers: (u64, u64),
    /// What was asked for and is not there yet: frames and pages.
    asked: VecDeque<Vec<(u64, Page)>>,
    /// Does it come at once, or when it is waited for?
    at_once: bool,
}

impl Machine<'_> {
    fn put(&mut self, frame: u64, page: Page) {
        let before = self.memory.insert(frame, page);
        let buffer = (self.buffers.0..self.buffers.1).contains(&frame);
        assert!(before.is_none() || buffer, "frame {frame} twice");
    }

    fn bytes(&self, frame: u64, pages: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(pages as usize * PAGE_BYTES);
        self.memory.range(frame..frame + pages).for_each(|(_, page)| bytes.extend_from_slice(page));
        bytes
    }
}

impl Transfer for Machine<'_> {
    type Error = Refusal;

    fn read(&mut self, from: u64, parts: Parts) -> Result<(), Refusal> {
        assert_eq!(from, self.next, "one after the other");
        assert!(parts.len() <= 7);
        let mut request = Vec::new();
        for (frame, pages) in parts {
            for index in 0..pages {
                request.push((frame + index, page_at(self.image, self.data + self.next)?));
                self.next += 1;
            }
        }
        assert!(self.next - from <= self.pages_max);
        self.asked.push_back(request);
        if self.at_once { self.wait(0) } else { Ok(()) }
    }

    fn wait(&mut self, ahead: u64) -> Result<(), Refusal> {
        while self.asked.len() as u64 > ahead {
            let request = self.asked.pop_front().unwrap();
            request.into_iter().for_each(|(frame, page)| self.put(frame, page));
        }
        Ok(())
    }

    fn unpack(&mut self, group: &Group, from: u64, to: u64) -> bool {
        let stored = self.bytes(from, group.stored);
        let mut plain = vec![0; group.pages as usize * PAGE_BYTES];
        let sound = group.unpack(&stored, &mut plain);
        for (frame, page) in (to..).zip(plain.chunks(PAGE_BYTES)) {
            self.put(frame, page.try_into().unwrap());
        }
        sound
    }

    fn copy(&mut self, to: u64, from: u64, pages: u64) {
        for page in 0..pages {
            self.put(to + page, self.memory[&(from + page)]);
        }
    }
}

/// What the loader does, in its order.
fn resume(image: &[u8]) -> Result<Memory, Refusal> {
    let sector: &[u8; SECTOR_BYTES] = image.first_chunk().ok_or(Refusal::NoMark)?;
    let mark = Mark::read(sector)?;
    let header = Header::read(&page_at(image, 1)?, mark)?;
    let layout = header.layout();
    let room = Room::new(&header, OWN, |from, to| from < to && to <= FRAMES)?;
    assert!(room.code < room.end && room.tables + frames_needed(header.frames) <= room.aside);
    let table = part(image, layout.table, header.table_bytes())?;
    let sums = part(image, layout.sums, header.sums_bytes())?;
    if checksum(&table) != header.table_sum || checksum(&sums) != header.sums_sum {
        return Err(Refusal::Table);
    }
    let groups = Groups::check(&sums, &header)?;
    let runs = Runs::check(&table, header.frames.min(FRAMES), header.data_pages)?;
    if !runs.free(room.first, room.end) {
        return Err(Refusal::Scratch);
    }
    // At the end, as a firmware gives it.
    let aside = FRAMES - 200;
    let moved = moved(aside);
    let kept_end = moved.last().map_or(0, |last| last.at + last.to - last.from);
    let plan = LoadPlan::new(runs, &moved)?;
    let buffers = if header.is_packed() { (room.buffers.output, room.end) } else { (0, 0) };
    assert!(!header.is_packed() || room.code < buffers.0);
    // A request has one packed group, or some.
    let pages_max = if header.is_packed() { 100 + header.pages % 200 } else { 64 };
    let (data, next, memory) = (layout.data, 0, Memory::new());
    let (asked, at_once) = (VecDeque::new(), header.pages % 4 < 2);
    let mut machine = Machine { image, data, next, pages_max, memory, buffers, asked, at_once };
    plan.load::<7, _>(groups, room.buffers, pages_max, &mut machine)?;
    assert!(machine.asked.is_empty());
    assert_eq!(machine.next, header.stored_pages);
    let mut machine = machine.memory;
    plan.verify(groups, |sum, frame, pages| {
        (frame..frame + pages).for_each(|frame| sum.add(&machine[&frame]));
    })?;
    machine.retain(|frame, _| !(buffers.0..buffers.1).contains(frame));
    for piece in plan.pieces() {
        if let Kind::Word(word) = piece.run.kind {
            let words: Vec<u8> = word.to_le_bytes().repeat(PAGE_BYTES / 8);
            let page = words.try_into().unwrap();
            for frame in piece.at..piece.at + u64::from(piece.run.count) {
                assert!(machine.insert(frame, page).is_none());
            }
        }
    }
    // Until here nothing went where the loader is, nor where it keeps the rest of its things.
    for frame in machine.keys() {
        assert!(!is_taken(*frame) && *frame < FRAMES, "{frame}");
        let kept = (room.first..room.end).contains(frame);
        assert!(!kept || (aside..kept_end).contains(frame), "{frame}");
    }
    let copies: Vec<_> = plan.copies().collect();
    for (to, from) in copies {
        let page = machine.remove(&from).unwrap();
        assert!(is_taken(to) && machine.insert(to, page).is_none());
    }
    Ok(machine)
}

#[test]
fn what_was_comes_back() {
    for seed in 0..60 {
        let data = if seed % 2 == 0 { Data::Plain } else { Data::Packed };
        let memory = memory(&mut Rng::new(seed, "images"), data);
        assert!(resume(&image(&memory, data)) == Ok(memory), "seed {seed}");
    }
}

#[test]
fn what_a_loader_took_is_all_but_what_was_not_free() {
    let run = |start: u64, count: u32| Run { start, count, kind: Kind::Word(0) };
    let table = [run(10, 10), run(30, 5), run(40, 5)];
    let table: Vec<u8> = table.iter().flat_map(Run::to_bytes).collect();
    let runs = Runs::check(&table, 100, 0).unwrap();
    // Where the last one is kept is not known yet: it is no place of its own.
    let moved = [(12, 14, 0), (19, 20, 2), (30, 31, 30)];
    let moved = moved.map(|(from, to, at)| Moved { from, to, at });
    let found = |end: u64| taken(runs, &moved, end).collect::<Vec<_>>();
    assert_eq!(found(u64::MAX), [(10, 2), (14, 5), (31, 4), (40, 5)]);
    assert_eq!(found(42), [(10, 2), (14, 5), (31, 4), (40, 2)]);
    assert_eq!((found(13), found(10)), (vec![(10, 2)], vec![]));
}

/// Of what may be packed, some groups are, and some stay as they are.
#[test]
fn a_packed_image_is_shorter() {
    let memory = memory(&mut Rng::new(1, "damage"), Data::Packed);
    let whole = image(&memory, Data::Packed);
    let (header, sums) = tables(&whole);
    let groups = Groups::check(&sums, &header).unwrap();
    let all = groups.iter().count() as u64;
    assert!(groups.packed() > 0 && groups.packed() < all, "{} of {all}", groups.packed());
    assert!(header.stored_pages < header.data_pages);
    assert!(whole.len() < image(&memory, Data::Plain).len());
}

/// The header, and the table of checksums.
fn tables(whole: &[u8]) -> (Header, Vec<u8>) {
    let mark = Mark::read(whole.first_chunk().unwrap()).unwrap();
    let header = Header::read(&page_at(whole, 1).unwrap(), mark).unwrap();
    let sums = part(whole, header.layout().sums, header.sums_bytes()).unwrap();
    (header, sums)
}

#[test]
fn what_is_damaged_is_refused_or_makes_no_difference() {
    damaged(Data::Plain);
}

#[test]
fn what_is_packed_and_damaged_is_refused_or_makes_no_difference() {
    damaged(Data::Packed);
}

fn damaged(data: Data) {
    let mut rng = Rng::new(1, "damage");
    let memory = memory(&mut rng, data);
    let whole = image(&memory, data);
    let tables = whole.len() - 8 * PAGE_BYTES;
    let mut refused = BTreeMap::new();
    for _ in 0..10_000 {
        let mut bad = whole.clone();
        for _ in 0..1 + rng.below(3) {
            // The mark, the header, the tables at the end, or anything.
            let at = match rng.below(4) {
                0 => rng.below(SECTOR_BYTES as u64) as usize,
                1 => PAGE_BYTES + rng.below(PAGE_BYTES as u64) as usize,
                2 => tables + rng.below((whole.len() - tables) as u64) as usize,
                _ => rng.below(whole.len() as u64) as usize,
            };
            bad[at] ^= 1 << rng.below(8);
        }
        if rng.below(20) == 0 {
            bad.truncate(rng.below(whole.len() as u64) as usize);
        }
        match resume(&bad) {
            Ok(found) => assert!(found == memory),
            Err(why) => {
                let name = format!("{why:?}");
                *refused.entry(name.split('(').next().unwrap().to_string()).or_insert(0) += 1;
            }
        }
    }
    let names: Vec<&str> = refused.keys().map(String::as_str).collect();
    assert_eq!(names, ["Data", "Header", "NoMark", "Table"], "{refused:?}");
}

/// A header or a table that somebody made wrong, with the right checksums.
#[test]
fn what_is_wrong_on_purpose_goes_nowhere_else() {
    let mut rng = Rng::new(2, "purpose");
    let memory = memory(&mut rng, Data::Plain);
    let whole = image(&memory, Data::Plain);
    let (header, _) = tables(&whole);
    let table_at = header.layout().table as usize * PAGE_BYTES;
    let mut refused = BTreeMap::new();
    for _ in 0..10_000 {
        let (mut bad, mut header) = (whole.clone(), header);
        let wild = match rng.below(3) {
            0 => rng.below(FRAMES * 2),
            1 => u64::MAX - rng.below(4),
            _ => rng.next_u64(),
        };
        match rng.below(12) {
            0 => header.frames = wild,
            1 => header.pages = wild,
            2 => header.runs = wild,
            3 => header.data_pages = wild,
            4 => header.scratch = wild,
            5 => header.scratch_count = wild,
            6 => header.entry.jump = wild,
            7 => header.disk_count = wild % 100,
            _ => {
                let run = rng.below(header.runs) as usize * resume::RUN_BYTES;
                let field = [0, 8, 12, 16][rng.below(4) as usize];
                let bytes = wild.to_le_bytes();
                bad[table_at + run + field..][..4].copy_from_slice(&bytes[..4]);
                let table = &bad[table_at..][..header.table_bytes() as usize];
                header.table_sum = checksum(table);
            }
        }
        mark(&mut bad, &header);
        // `resume` itself looks at where each page goes.
        if let Err(why) = resume(&bad) {
            *refused.entry(format!("{why:?}")).or_insert(0) += 1;
        }
    }
    for why in ["Header", "Kernel", "Runs", "Scratch", "Table"] {
        assert!(refused.contains_key(why), "{why} never: {refused:?}");
    }
}

/// Give an image that header, with the mark that belongs to it.
fn mark(image: &mut [u8], header: &Header) {
    let (bytes, header_sum) = header.to_bytes();
    image[PAGE_BYTES..2 * PAGE_BYTES].copy_from_slice(&bytes);
    image[..SECTOR_BYTES].copy_from_slice(&Mark { id: 5, header_sum, written: 6 }.to_bytes());
}

/// Packed data and lengths that somebody made wrong, with the right checksums: the frames of the
/// group may have anything then, and no others.
#[test]
fn what_is_packed_wrong_on_purpose_goes_nowhere_else() {
    let mut rng = Rng::new(3, "purpose");
    let memory = memory(&mut rng, Data::Packed);
    let whole = image(&memory, Data::Packed);
    let (header, sums) = tables(&whole);
    let groups: Vec<Group> = Groups::check(&sums, &header).unwrap().iter().collect();
    let mut refused = BTreeMap::new();
    for _ in 0..10_000 {
        let (mut bad, mut header, mut sums) = (whole.clone(), header, sums.clone());
        let group = groups[rng.below(groups.len() as u64) as usize];
        let entry = group.index as usize * ENTRY_BYTES;
        let bytes = group.packed_bytes.unwrap_or(0);
        let from = (header.layout().data + group.at) as usize * PAGE_BYTES;
        match rng.below(4) {
            0 => header.stored_pages = rng.below(header.data_pages * 2),
            1 => {
                let wild = [bytes + 1, bytes.wrapping_sub(1), 0, u32::MAX, rng.next_u64() as u32];
                let wild = wild[rng.below(5) as usize];
                sums[entry + 8..][..4].copy_from_slice(&wild.to_le_bytes());
            }
            _ => {
                let stored = &mut bad[from..][..group.stored as usize * PAGE_BYTES];
                for _ in 0..1 + rng.below(4) {
                    // Mostly near the begin, where more depends on it.
                    let within = stored.len() as u64 >> (rng.below(3) * 4);
                    stored[rng.below(within) as usize] = rng.next_u64() as u8;
                }
                sums[entry..][..8].copy_from_slice(&DataSum::of(stored).to_le_bytes());
            }
        }
        header.sums_sum = checksum(&sums);
        let at = header.layout().sums as usize * PAGE_BYTES;
        if let Some(place) = bad.get_mut(at..at + sums.len()) {
            place.copy_from_slice(&sums);
        }
        mark(&mut bad, &header);
        match resume(&bad) {
            // What is unpacked to as much may be wrong, in its own frames.
            Ok(found) => assert!(found.keys().eq(memory.keys())),
            Err(why) => *refused.entry(format!("{why:?}")).or_insert(0) += 1,
        }
    }
    for why in ["Data(0)", "Header", "Table"] {
        assert!(refused.contains_key(why), "{why} never: {refused:?}");
    }
}

/// Images of loaders of before had another checksum: they are not taken for damaged ones.
#[test]
fn another_version_is_refused_by_its_number() {
    let memory = memory(&mut Rng::new(4, "version"), Data::Plain);
    let mut old = image(&memory, Data::Plain);
    let page = &mut old[PAGE_BYTES..2 * PAGE_BYTES];
    page[8..16].copy_from_slice(&2u64.to_le_bytes());
    let header_sum = checksum(&page[..PAGE_BYTES - 4]);
    page[PAGE_BYTES - 4..].copy_from_slice(&header_sum.to_le_bytes());
    old[..SECTOR_BYTES].copy_from_slice(&Mark { id: 5, header_sum, written: 6 }.to_bytes());
    assert_eq!(resume(&old).map(drop), Err(Refusal::Version(2)));
}

#[test]
fn a_mark_that_is_half_erased_is_none() {
    let whole =
        Mark { id: 0x1122_3344_5566_7788, header_sum: 0x99aa_bbcc, written: 0x1234_5678_9abc_def0 }
            .to_bytes();
    assert!(Mark::read(&whole).is_ok());
    // From the begin or from the end, and each byte alone.
    for count in 1..=SECTOR_BYTES {
        let (mut begin, mut end) = (whole, whole);
        begin[..count].fill(0);
        end[SECTOR_BYTES - count..].fill(0);
        let mut alone = whole;
        alone[count - 1] = 0;
        for torn in [begin, end, alone] {
            assert!(torn == whole || Mark::read(&torn) == Err(Refusal::NoMark), "{count}");
        }
    }
}

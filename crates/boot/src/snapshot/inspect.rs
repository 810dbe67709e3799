//! What is in an image, looked at from outside.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use config::Failure;
use resume::{
    Buffers, DataSum, Group, Groups, HEADER_SECTOR, Header, Kind, LoadPlan, MARK_SECTOR, Mark,
    PAGE_BYTES, PAGE_SECTORS, Parts, Refusal, Room, Runs, SECTOR_BYTES, Transfer, checksum,
};
use serde_json::{Value, json};
use workload::boot_recording::Read;

/// Parts and pages of a request of the loader's: `PARTS_MAX` and `REQUEST_PAGES` there.
const LOADER_PARTS: usize = 120;
const LOADER_PAGES: u64 = 1024;

/// An image that is whole.
#[derive(Clone, Debug)]
pub struct SoundImage {
    header: Header,
    zero_pages: u64,
    word_pages: u64,
    packed_groups: u64,
    /// What the loader reads, in order: first sector and how many.
    reads: Vec<(u64, u32)>,
}

/// Check all of the image at `path` that a loader checks without its machine.
///
/// # Errors
/// Why there is none, or what is damaged.
pub fn image(path: &Path) -> Result<SoundImage, Failure> {
    let shown = path.display();
    let wrong = |why: std::io::Error| match why.kind() {
        std::io::ErrorKind::UnexpectedEof => Failure::input(format!("image {shown}: cut off"))
            .expected("an image that `blocklab suspend` or `blocklab snapshot` has written"),
        _ => Failure::input(format!("image {shown}: {why}")),
    };
    let refused = |why: Refusal| Failure::input(format!("image {shown}: {why}"));
    let file = File::open(path).map_err(wrong)?;
    let read = |at: u64, bytes: &mut [u8]| file.read_exact_at(bytes, at).map_err(wrong);
    let (mut sector, mut page) = ([0; SECTOR_BYTES], [0; PAGE_BYTES]);
    read(MARK_SECTOR, &mut sector)?;
    let mark = Mark::read(&sector).map_err(refused)?;
    read(HEADER_SECTOR * SECTOR_BYTES as u64, &mut page)?;
    let header = Header::read(&page, mark).map_err(refused)?;
    let (layout, has) = (header.layout(), file.metadata().map_err(wrong)?.len());
    // A device has no length here; what cannot be read is an error below.
    if has > 0 && layout.end.saturating_mul(PAGE_BYTES as u64) > has {
        return Err(Failure::input(format!("image {shown}: cut off: {has} bytes"))
            .expected(format!("{} pages of {PAGE_BYTES} bytes", layout.end)));
    }
    let part = |at: u64, bytes: u64| {
        let mut part = vec![0; bytes as usize];
        read(at * PAGE_BYTES as u64, &mut part).map(|()| part)
    };
    let table = part(layout.table, header.table_bytes())?;
    let sums = part(layout.sums, header.sums_bytes())?;
    if checksum(&table) != header.table_sum || checksum(&sums) != header.sums_sum {
        return Err(refused(Refusal::Table));
    }
    let runs = Runs::check(&table, header.frames, header.data_pages).map_err(refused)?;
    let groups = Groups::check(&sums, &header).map_err(refused)?;
    header.entry.check_places(&runs).map_err(refused)?;
    Room::check(&header, &runs).map_err(refused)?;
    for group in groups.iter() {
        let stored = part(layout.data + group.at, group.stored * PAGE_BYTES as u64)?;
        let sound = match group.packed_bytes {
            Some(_) => group.unpack(&stored, &mut vec![0; group.pages as usize * PAGE_BYTES]),
            None => DataSum::of(&stored) == group.sum,
        };
        if !sound {
            return Err(refused(Refusal::Data(group.index)));
        }
    }
    let count = |wanted: fn(u64) -> bool| {
        let words = runs.iter().filter(|run| matches!(run.kind, Kind::Word(word) if wanted(word)));
        words.map(|run| u64::from(run.count)).sum()
    };
    let zero_pages = count(|word| word == 0);
    let word_pages = count(|word| word != 0);
    let reads = reads(&header, runs, groups).map_err(refused)?;
    Ok(SoundImage { header, zero_pages, word_pages, packed_groups: groups.packed(), reads })
}

/// Reads of the loader that tell it what to read next: all but the data, and its first read.
const SERIAL_READS: usize = 5;

/// What the loader reads of an image: the mark, the header, the tables, and the data.
fn reads(header: &Header, runs: Runs, groups: Groups) -> Result<Vec<(u64, u32)>, Refusal> {
    let layout = header.layout();
    let pages = |page: u64, pages: u64| (page * PAGE_SECTORS, (pages * PAGE_SECTORS) as u32);
    let reads = vec![
        (MARK_SECTOR, 1),
        pages(HEADER_SECTOR / PAGE_SECTORS, 1),
        pages(layout.table, layout.table_pages),
        pages(layout.sums, layout.sums_pages),
    ];
    // Where the loader itself is makes a part more or less, not a request.
    let plan = LoadPlan::new(runs, &[])?;
    let room = Buffers::at(0, Buffers::MOST);
    let mut requests = Requests { reads, data: layout.data };
    plan.load::<LOADER_PARTS, _>(groups, room, LOADER_PAGES, &mut requests)?;
    Ok(requests.reads)
}

/// A disk and a memory that only remember what was asked of them.
struct Requests {
    reads: Vec<(u64, u32)>,
    /// The page at which the data begins.
    data: u64,
}

impl Transfer for Requests {
    type Error = Refusal;

    fn read(&mut self, from: u64, parts: Parts) -> Result<(), Refusal> {
        let pages: u64 = parts.map(|(_, pages)| pages).sum();
        self.reads.push(((self.data + from) * PAGE_SECTORS, (pages * PAGE_SECTORS) as u32));
        Ok(())
    }

    fn wait(&mut self, _: u64) -> Result<(), Refusal> {
        Ok(())
    }

    fn unpack(&mut self, _: &Group, _: u64, _: u64) -> bool {
        true
    }

    fn copy(&mut self, _: u64, _: u64, _: u64) {}
}

impl SoundImage {
    /// What the loader reads, in order, and nothing that it computes. It asks for data beside the
    /// data before, unless it reads by a firmware.
    pub fn reads(&self, by_firmware: bool) -> Vec<Read> {
        let read = |(index, &(sector, sectors)): (usize, &(u64, u32))| {
            let beside = index >= SERIAL_READS && !by_firmware;
            Read { instructions: 0, sector, sectors, beside }
        };
        self.reads.iter().enumerate().map(read).collect()
    }

    /// What is told about it, by name.
    pub fn as_pairs(&self) -> Vec<(String, Value)> {
        let header = &self.header;
        let pairs = [
            ("id", json!(format!("{:016x}", header.id))),
            ("pages", json!(header.pages)),
            ("data_pages", json!(header.data_pages)),
            ("stored_pages", json!(header.stored_pages)),
            ("version", json!(Refusal::VERSION)),
            ("packed_mib", json!(self.packed_groups)),
            ("zero_pages", json!(self.zero_pages)),
            ("word_pages", json!(self.word_pages)),
            ("runs", json!(header.runs)),
            ("bytes", json!(header.layout().end * PAGE_BYTES as u64)),
            ("memory_bytes", json!(header.frames * PAGE_BYTES as u64)),
            ("entry", json!(format!("{:#x}", header.entry.jump))),
            ("scratch_frame", json!(header.scratch)),
            ("disks", json!(header.told_disks().len())),
        ];
        pairs.map(|(name, value)| (name.to_string(), value)).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use resume::kernel::Entry;
    use resume::{Run, SUMMED_PAGES};

    use super::*;

    /// An image of a page of data, which the kernel is entered in, and its page tables; what is
    /// said of it when its header was changed.
    fn told(change: impl Fn(&mut Header)) -> Result<SoundImage, String> {
        let runs = [
            Run { start: 0x1200, count: 1, kind: Kind::Data(0) },
            Run { start: 0x3000, count: 1, kind: Kind::Word(3) },
        ];
        let table: Vec<u8> = runs.iter().flat_map(Run::to_bytes).collect();
        let data = [7; PAGE_BYTES];
        let sums = Group::entry(DataSum::of(&data), 0);
        let mut header = Header {
            id: 5,
            entry: Entry {
                jump: 0xffff_ffff_8120_0040,
                jump_physical: 0x120_0040,
                cr3: 0x300_0000,
                magic: 0x2345_6789_abcd_ef02,
                map_sum: 7,
            },
            frames: 1 << 17,
            pages: 2,
            runs: 2,
            data_pages: 1,
            stored_pages: 1,
            scratch: 0x4000,
            table_sum: checksum(&table),
            sums_sum: checksum(&sums),
            ..Header::empty()
        };
        header.scratch_count = Room::frames(&header, Room::LOADER_FRAMES);
        change(&mut header);
        let (page, header_sum) = header.to_bytes();
        let mark = Mark { id: 5, header_sum, written: 6 }.to_bytes();
        let mut image = Vec::new();
        for part in [&mark[..], &page, &data, &table, &sums] {
            image.extend(part);
            image.resize(image.len().next_multiple_of(PAGE_BYTES), 0);
        }
        let folder = attach::PrivateFolder::new().unwrap();
        let path = folder.path.join("image");
        std::fs::write(&path, image).unwrap();
        super::image(&path).map_err(|why| why.message)
    }

    #[test]
    fn what_no_loader_would_enter_is_not_sound() {
        assert_eq!(told(|_| ()).unwrap().reads(true).len(), 5);
        let refused = |change: fn(&mut Header), why: Refusal| {
            let told = told(change).unwrap_err();
            assert!(told.ends_with(&format!("image: {why}")), "{told}");
        };
        refused(|header| header.scratch_count -= 1, Refusal::Scratch);
        // Frames of the image, and none that there are.
        refused(|header| header.scratch = 0x3000, Refusal::Scratch);
        refused(|header| header.scratch = header.frames - SUMMED_PAGES / 8, Refusal::Scratch);
        // The code is in no run, or not where a large page would have it; then the page tables.
        refused(|header| header.entry.jump_physical = 0x40, Refusal::Kernel);
        refused(|header| header.entry.jump += 0x1000, Refusal::Kernel);
        refused(|header| header.entry.cr3 += 0x1000, Refusal::Kernel);
    }
}

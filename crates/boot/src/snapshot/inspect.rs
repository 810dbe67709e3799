//! What is in an image, looked at from outside.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use config::Failure;
use resume::{
    Checksum, HEADER_SECTOR, Header, Kind, MARK_SECTOR, Mark, PAGE_BYTES, Refusal, Runs,
    SECTOR_BYTES, SUMMED_PAGES, checksum,
};
use serde_json::{Value, json};

/// An image that is whole.
#[derive(Clone, Debug)]
pub struct Found {
    header: Header,
    zero_pages: u64,
    word_pages: u64,
}

/// Check all of the image at `path`.
///
/// # Errors
/// Why there is none, or what is damaged.
pub fn image(path: &Path) -> Result<Found, Failure> {
    let shown = path.display();
    let wrong = |why: std::io::Error| Failure::input(format!("image {shown}: {why}"));
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
    let mut done = 0;
    for (index, wanted) in sums.chunks(4).enumerate() {
        let mut sum = Checksum::default();
        for _ in 0..SUMMED_PAGES.min(header.data_pages - done) {
            read((layout.data + done) * PAGE_BYTES as u64, &mut page)?;
            sum.add(&page);
            done += 1;
        }
        if sum.sum().to_le_bytes() != wanted {
            return Err(refused(Refusal::Data(index as u64)));
        }
    }
    let count = |wanted: fn(u64) -> bool| {
        let words = runs.iter().filter(|run| matches!(run.kind, Kind::Word(word) if wanted(word)));
        words.map(|run| u64::from(run.count)).sum()
    };
    Ok(Found { header, zero_pages: count(|word| word == 0), word_pages: count(|word| word != 0) })
}

impl Found {
    /// What is told about it, by name.
    pub fn as_pairs(&self) -> Vec<(String, Value)> {
        let header = &self.header;
        let pairs = [
            ("id", json!(format!("{:016x}", header.id))),
            ("pages", json!(header.pages)),
            ("data_pages", json!(header.data_pages)),
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

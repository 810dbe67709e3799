//! Where an image is written to.

use std::fs::{File, OpenOptions};
use std::io::IoSlice;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use resume::lz4::{self, Places};
use resume::{
    DataSum, Group, HEADER_MAGIC, HEADER_SECTOR, Header, MARK_SECTOR, Mark, PAGE_BYTES,
    SECTOR_BYTES, SUMMED_PAGES,
};
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::pwritev;

use super::mounts::Superblock;
use crate::Why;

/// A page where the kernel can take it from without copying.
#[repr(C, align(4096))]
#[derive(Clone)]
pub(super) struct Page(pub(super) [u8; PAGE_BYTES]);

impl Default for Page {
    fn default() -> Page {
        Page([0; PAGE_BYTES])
    }
}

/// What an image is written to, page by page. What was written before a `sync` that returned is
/// durable; what was written since may be, in any order.
pub(super) trait Store {
    /// Write pages from page `at` on.
    fn write(&mut self, at: u64, pages: &[Page]) -> Result<(), String>;
    /// Make all that was written durable.
    fn sync(&mut self) -> Result<(), String>;
    /// Its size in pages.
    fn pages(&self) -> u64;

    /// Write bytes, filled up with zeros, from page `at` on.
    fn write_bytes(&mut self, at: u64, bytes: &[u8]) -> Result<(), String> {
        let pages: Vec<Page> = bytes.chunks(PAGE_BYTES).map(filled).collect();
        self.write(at, &pages)
    }

    /// From here on there is no image.
    fn erase_mark(&mut self) -> Result<(), String> {
        self.write(MARK_SECTOR, &[Page::default()])?;
        self.sync()
    }

    /// From here on there is one.
    fn write_mark(&mut self, mark: Mark) -> Result<(), String> {
        self.write_bytes(MARK_SECTOR, &mark.to_bytes())?;
        self.sync()
    }
}

/// For an image that is only counted.
pub(super) struct Nowhere;

impl Store for Nowhere {
    fn write(&mut self, _: u64, _: &[Page]) -> Result<(), String> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn pages(&self) -> u64 {
        u64::MAX
    }
}

/// The page of the header.
pub(super) const HEADER_PAGE: u64 = HEADER_SECTOR * SECTOR_BYTES as u64 / PAGE_BYTES as u64;

/// So much of a target is zero if it holds nothing: file systems may leave their first 64 KiB
/// (btrfs, ReiserFS, ZFS).
const LOOK_PAGES: u64 = 256;

/// A partition, disk or file that holds an image or nothing.
pub(crate) struct Target {
    file: File,
    name: String,
    pages: u64,
    /// It holds nothing, not even an image that was not finished.
    is_blank: bool,
    /// Bytes that were written to it.
    pub(super) written_bytes: u64,
}

impl Target {
    /// Open what is at `path`. What is there must be an image of ours, whole, used or not, or
    /// nothing.
    pub(super) fn open(path: &Path) -> Result<Target, Why> {
        // Whatever is wrong with it, another one is expected.
        Target::look(path).map_err(Why::Input)
    }

    fn look(path: &Path) -> Result<Target, String> {
        let name = path.display().to_string();
        let wrong = |why: std::io::Error| format!("{name}: {why}");
        let kind = std::fs::metadata(path).map_err(wrong)?.file_type();
        if !kind.is_block_device() && !kind.is_file() {
            return Err(format!("{name}: expected a partition, a disk, or a file"));
        }
        let file = open_alone(path, OFlags::DIRECT).or_else(|why| match why.raw_os_error() {
            // Some file systems always go through the cache.
            Some(libc::EINVAL) if kind.is_file() => open_alone(path, OFlags::empty()),
            _ => Err(why),
        });
        let file = file.map_err(|why| not_opened(path, &why))?;
        let bytes = seek(&file, SeekFrom::End(0)).map_err(|why| format!("{name}: {why}"))?;
        let pages = bytes / PAGE_BYTES as u64;
        let mut target = Target { file, name, pages, is_blank: false, written_bytes: 0 };
        target.is_blank = !target.is_ours()?;
        Ok(target)
    }

    /// True for an image, finished or not; false for zeros.
    fn is_ours(&self) -> Result<bool, String> {
        let (first, header) = (self.page(0)?, self.page(HEADER_PAGE)?);
        let sector: &[u8; SECTOR_BYTES] = first.0.first_chunk().expect("a page has sectors");
        let marked = Mark::read(sector).is_ok();
        let begun = header.0.starts_with(&HEADER_MAGIC) && zeros(&header.0[HEADER_MAGIC.len()..]);
        let has_header = begun || Header::is_whole(&header.0);
        if (marked || zeros(sector)) && zeros(&first.0[SECTOR_BYTES..]) {
            if has_header && (marked || !self.is_taken()?) {
                return Ok(true);
            }
            if !has_header && !marked && self.is_zero()? {
                return Ok(false);
            }
        }
        Err(format!(
            "{}: it holds something else than an image; if that may go: wipefs -a {0}, and zeros \
             over its first MiB",
            self.name
        ))
    }

    fn page(&self, index: u64) -> Result<Page, String> {
        let mut page = Page::default();
        self.read(index * PAGE_BYTES as u64, &mut page).map(|()| page)
    }

    /// Is all zero that is looked at?
    fn is_zero(&self) -> Result<bool, String> {
        for index in 0..LOOK_PAGES.min(self.pages) {
            if !zeros(&self.page(index)?.0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does it hold what begins behind an image's first two pages, and left those as they were?
    fn is_taken(&self) -> Result<bool, String> {
        const OTHERS: [(usize, &[u8]); 4] =
            [(32_768, b"JFS1"), (32_769, b"CD001"), (65_588, b"ReIsEr"), (65_600, b"_BHRfS_M")];
        // ZFS keeps its newest states in a ring of places.
        const ZFS: u64 = 0x00ba_b10c;
        const RING: std::ops::Range<usize> = 131_072..262_144;
        let is_state = |bytes: &[u8]| {
            bytes.starts_with(&ZFS.to_le_bytes()) || bytes.starts_with(&ZFS.to_be_bytes())
        };
        for index in 0..(RING.end / PAGE_BYTES).min(self.pages as usize) {
            let (at, page) = (index * PAGE_BYTES, self.page(index as u64)?);
            let mut here = OTHERS.iter().filter(|(other, _)| other / PAGE_BYTES == index);
            if here.any(|(other, word)| page.0[other - at..].starts_with(word))
                || RING.contains(&at) && page.0.chunks(1024).any(is_state)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Read a page.
    pub(super) fn read(&self, at: u64, page: &mut Page) -> Result<(), String> {
        self.file.read_exact_at(&mut page.0, at).map_err(|why| match why.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                let end = at + PAGE_BYTES as u64;
                format!("{}: it ends within {end} bytes: too small for an image", self.name)
            }
            _ => format!("{}: {why}", self.name),
        })
    }
}

impl Store for Target {
    fn write(&mut self, at: u64, pages: &[Page]) -> Result<(), String> {
        let mut done = 0;
        while done < pages.len() {
            let slices: Vec<IoSlice> =
                pages[done..].iter().take(512).map(|page| IoSlice::new(&page.0)).collect();
            let offset = (at + done as u64) * PAGE_BYTES as u64;
            let bytes = pwritev(&self.file, &slices, offset);
            let bytes = bytes.map_err(|why| format!("{}: write: {why}", self.name))?;
            if bytes == 0 || bytes % PAGE_BYTES != 0 {
                return Err(format!("{}: write: {bytes} bytes were taken", self.name));
            }
            self.written_bytes += bytes as u64;
            done += bytes / PAGE_BYTES;
        }
        Ok(())
    }

    /// What is interrupted before the header is there leaves data, which the next one must know as
    /// ours.
    fn erase_mark(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.is_blank) {
            self.write_bytes(HEADER_PAGE, &HEADER_MAGIC)?;
        }
        self.write(MARK_SECTOR, &[Page::default()])?;
        self.sync()
    }

    fn sync(&mut self) -> Result<(), String> {
        self.file.sync_all().map_err(|why| format!("{}: sync: {why}", self.name))
    }

    fn pages(&self) -> u64 {
        self.pages
    }
}

fn zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn filled(bytes: &[u8]) -> Page {
    let mut page = Page::default();
    page.0[..bytes.len()].copy_from_slice(bytes);
    page
}

/// Pages of data on their way, with the checksums of those that went.
pub(super) struct Data {
    pages: Vec<Page>,
    count: usize,
    at: u64,
    packer: Option<Packer>,
    /// One for each MiB, with its length when it is packed.
    pub(super) sums: Vec<u8>,
    /// Pages that were written.
    pub(super) stored_pages: u64,
}

/// What packs a MiB.
pub(super) struct Packer {
    plain: Vec<u8>,
    packed: Vec<u8>,
    places: Box<Places>,
}

impl Packer {
    pub(super) fn new() -> Packer {
        let room = SUMMED_PAGES as usize * PAGE_BYTES;
        let places = Box::new(Places::new());
        Packer { plain: Vec::with_capacity(room), packed: vec![0; room], places }
    }

    /// The pages packed, and the bytes that they became; `None` when that saves no page.
    pub(super) fn pack(&mut self, pages: &[Page]) -> Option<(Vec<Page>, u32)> {
        self.plain.clear();
        pages.iter().for_each(|page| self.plain.extend(page.0));
        let shorter = &mut self.packed[..(pages.len() - 1) * PAGE_BYTES];
        let bytes = lz4::pack(&self.plain, shorter, &mut self.places)?;
        Some((shorter[..bytes].chunks(PAGE_BYTES).map(filled).collect(), bytes as u32))
    }
}

impl Data {
    /// Data from page `at` of the target on; `packs` by LZ4 what becomes shorter so.
    pub(super) fn new(at: u64, packs: bool) -> Data {
        Data {
            pages: vec![Page::default(); SUMMED_PAGES as usize],
            count: 0,
            at,
            packer: packs.then(Packer::new),
            sums: Vec::new(),
            stored_pages: 0,
        }
    }

    /// One more page.
    pub(super) fn add(
        &mut self,
        page: &[u8; PAGE_BYTES],
        to: &mut dyn Store,
    ) -> Result<(), String> {
        self.pages[self.count].0 = *page;
        self.count += 1;
        if self.count < self.pages.len() { Ok(()) } else { self.flush(to) }
    }

    /// Write what waits.
    pub(super) fn flush(&mut self, to: &mut dyn Store) -> Result<(), String> {
        let plain = &self.pages[..self.count];
        if plain.is_empty() {
            return Ok(());
        }
        let packed = self.packer.as_mut().and_then(|packer| packer.pack(plain));
        let (pages, bytes) = packed.as_ref().map_or((plain, 0), |(pages, bytes)| (pages, *bytes));
        let mut sum = DataSum::default();
        pages.iter().for_each(|page| sum.add(&page.0));
        self.sums.extend(Group::entry(sum.end(), bytes));
        to.write(self.at, pages)?;
        self.at += pages.len() as u64;
        self.stored_pages += pages.len() as u64;
        self.count = 0;
        Ok(())
    }
}

/// Open to be written what nobody else may have mounted or opened alike, as far as devices know.
pub(super) fn open_alone(path: &Path, flags: OFlags) -> std::io::Result<File> {
    let is_device = std::fs::metadata(path)?.file_type().is_block_device();
    let flags = if is_device { flags | OFlags::EXCL } else { flags };
    OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(path)
}

/// Why that failed.
pub(super) fn not_opened(path: &Path, why: &std::io::Error) -> String {
    match why.kind() {
        std::io::ErrorKind::ResourceBusy => {
            format!("{}: it is mounted, or used as swap", path.display())
        }
        _ => format!("{}: {why}", path.display()),
    }
}

/// Open a disk, or a file for one, to be read; a disk past all caches.
pub(super) fn open_disk(disk: &Path) -> Result<File, String> {
    let wrong = |why: std::io::Error| format!("{}: {why}", disk.display());
    let is_device = std::fs::metadata(disk).map_err(wrong)?.file_type().is_block_device();
    let flags = if is_device { OFlags::DIRECT } else { OFlags::empty() };
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits() as i32).open(disk).map_err(wrong)
}

/// The superblock at that sector of a disk that is open.
pub(super) fn superblock(file: &File, disk: &Path, sector: u64) -> Result<Superblock, String> {
    let wrong = |why: std::io::Error| format!("{}: {why}", disk.display());
    let at = sector * SECTOR_BYTES as u64;
    let (page_at, within) = (at / PAGE_BYTES as u64 * PAGE_BYTES as u64, at as usize % PAGE_BYTES);
    let mut pages = [Page::default(), Page::default()];
    for (index, page) in pages.iter_mut().enumerate() {
        file.read_exact_at(&mut page.0, page_at + (index * PAGE_BYTES) as u64).map_err(wrong)?;
    }
    let both = [pages[0].0, pages[1].0].concat();
    Ok(*both[within..].first_chunk().expect("a page is longer than two sectors"))
}

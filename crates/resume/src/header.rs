//! The header, and the mark that makes an image of it.

use crate::bytes::{put, u32_at, u64_at};
use crate::kernel::Entry;
use crate::refusal::Refusal;
use crate::run::RUN_BYTES;
use crate::{ENTRY_BYTES, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, SUMMED_PAGES, checksum};

/// Where the mark is.
pub const MARK_SECTOR: u64 = 0;
/// Where the header begins.
pub const HEADER_SECTOR: u64 = PAGE_SECTORS;
/// The page at which the data begins.
const DATA_PAGE: u64 = 2;
const MARK_MAGIC: u64 = u64::from_le_bytes(*b"blkmark\x01");
/// How a header begins.
pub const HEADER_MAGIC: [u8; 8] = *b"blkresum";
/// 512 GiB: what the page tables of the jump map.
pub const FRAMES_MAX: u64 = 1 << 27;
/// Disks that a header has room for.
const DISKS_MAX: usize = 64;
const DISK_BYTES: usize = 32;
const DISKS_AT: usize = 1024;
const HEADER_SUM_AT: usize = PAGE_BYTES - 4;
const MARK_SUM_AT: usize = SECTOR_BYTES - 4;

/// What says that the image is whole and was not used. It is erased before the jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The image's random identity.
    pub id: u64,
    /// The header's checksum.
    pub header_sum: u32,
    /// When the image was made, in seconds since 1970 by the machine's clock.
    pub written: u64,
}

impl Mark {
    /// As it stands in its sector.
    pub fn to_bytes(self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        put(&mut bytes, 0, &[MARK_MAGIC, self.id, self.header_sum.into(), self.written]);
        let sum = checksum(&bytes[..MARK_SUM_AT]);
        bytes[MARK_SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Read it.
    ///
    /// # Errors
    /// [`Refusal::NoMark`].
    pub fn read(bytes: &[u8; SECTOR_BYTES]) -> Result<Mark, Refusal> {
        let sound = u32_at(bytes, MARK_SUM_AT) == checksum(&bytes[..MARK_SUM_AT]);
        if !sound || u64_at(bytes, 0) != MARK_MAGIC {
            return Err(Refusal::NoMark);
        }
        let (id, header_sum) = (u64_at(bytes, 8), u32_at(bytes, 16));
        Ok(Mark { id, header_sum, written: u64_at(bytes, 24) })
    }
}

/// A disk that was mounted, and the state of its file system.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Disk {
    /// Its size.
    pub sectors: u64,
    /// Where its file system's superblock is: two sectors.
    pub superblock_sector: u64,
    /// Their [`superblock_sum`](crate::superblock_sum). Mounting the file system changes them.
    pub sum: u64,
    /// What changes only when the file system is mounted or checked; 0 where nothing of it does.
    /// For who makes the image elsewhere: the loader does not look at it.
    pub mounts: u64,
}

impl Disk {
    /// Is it one of a machine's disks, as it was? `sum_of` tells the sum of one of its size. A disk
    /// that does not answer is another one, which may be of no matter to this machine.
    pub fn is_among<E>(
        &self,
        disks: u32,
        mut sum_of: impl FnMut(u32) -> Result<Option<u64>, E>,
    ) -> bool {
        (0..disks).any(|number| matches!(sum_of(number), Ok(Some(sum)) if sum == self.sum))
    }
}

/// Where the parts of an image are, in pages of its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Where the data begins.
    pub data: u64,
    /// Where the run table begins.
    pub table: u64,
    /// How long it is.
    pub table_pages: u64,
    /// Where the checksums of the data begin.
    pub sums: u64,
    /// How long they are.
    pub sums_pages: u64,
    /// The first page behind the image.
    pub end: u64,
}

/// All that a resume has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The image's random identity.
    pub id: u64,
    /// Where its kernel is entered.
    pub entry: Entry,
    /// Levels of its page tables.
    pub paging_levels: u64,
    /// Digest of the processor's identity.
    pub processor: u64,
    /// Digest of the memory map.
    pub memory: u64,
    /// Number of frames: all of the image's are below.
    pub frames: u64,
    /// Pages in the image, of all kinds.
    pub pages: u64,
    /// Runs in the table.
    pub runs: u64,
    /// Pages of data.
    pub data_pages: u64,
    /// Pages of data on the device: as many, or fewer when it is packed.
    pub stored_pages: u64,
    /// The first of the frames that are not in the image, in a row.
    pub scratch: u64,
    /// How many these are.
    pub scratch_count: u64,
    /// Checksum of the run table.
    pub table_sum: u32,
    /// Checksum of the data's checksums.
    pub sums_sum: u32,
    /// How many disks are told.
    pub disk_count: u64,
    /// The disks.
    pub disks: [Disk; DISKS_MAX],
}

impl Header {
    /// A header with nothing in it.
    pub fn empty() -> Header {
        Header {
            id: 0,
            entry: Entry::default(),
            paging_levels: 4,
            processor: 0,
            memory: 0,
            frames: 0,
            pages: 0,
            runs: 0,
            data_pages: 0,
            stored_pages: 0,
            scratch: 0,
            scratch_count: 0,
            table_sum: 0,
            sums_sum: 0,
            disk_count: 0,
            disks: [Disk::default(); DISKS_MAX],
        }
    }

    /// Add a disk; false when there is no room.
    pub fn add_disk(&mut self, disk: Disk) -> bool {
        let place = self.disks.get_mut(self.disk_count as usize);
        self.disk_count += u64::from(place.is_some());
        place.map(|place| *place = disk).is_some()
    }

    /// The disks that are told.
    pub fn told_disks(&self) -> &[Disk] {
        &self.disks[..(self.disk_count as usize).min(DISKS_MAX)]
    }

    /// Bytes of the run table.
    pub fn table_bytes(&self) -> u64 {
        self.runs.saturating_mul(RUN_BYTES as u64)
    }

    /// Is any group of its data packed? Each of these saves a page.
    pub fn is_packed(&self) -> bool {
        self.stored_pages < self.data_pages
    }

    /// Bytes of the data's checksums.
    pub fn sums_bytes(&self) -> u64 {
        self.data_pages.div_ceil(SUMMED_PAGES).saturating_mul(ENTRY_BYTES as u64)
    }

    /// Where its parts are.
    pub fn layout(&self) -> Layout {
        let table = DATA_PAGE.saturating_add(self.stored_pages);
        let table_pages = self.table_bytes().div_ceil(PAGE_BYTES as u64);
        let sums = table.saturating_add(table_pages);
        let sums_pages = self.sums_bytes().div_ceil(PAGE_BYTES as u64);
        let end = sums.saturating_add(sums_pages);
        Layout { data: DATA_PAGE, table, table_pages, sums, sums_pages, end }
    }

    /// As it stands in its page, and its checksum.
    pub fn to_bytes(&self) -> ([u8; PAGE_BYTES], u32) {
        let mut bytes = [0; PAGE_BYTES];
        let Entry { jump, jump_physical, cr3, magic, map_sum } = self.entry;
        let fields = [
            u64::from_le_bytes(HEADER_MAGIC),
            Refusal::VERSION,
            self.id,
            jump,
            jump_physical,
            cr3,
            magic,
            map_sum,
            self.paging_levels,
            self.processor,
            self.memory,
            self.frames,
            self.pages,
            self.runs,
            self.data_pages,
            self.scratch,
            self.scratch_count,
            self.table_sum.into(),
            self.sums_sum.into(),
            self.disk_count,
            self.stored_pages,
        ];
        put(&mut bytes, 0, &fields);
        for (index, disk) in self.told_disks().iter().enumerate() {
            let fields = [disk.sectors, disk.superblock_sector, disk.sum, disk.mounts];
            put(&mut bytes, DISKS_AT + index * DISK_BYTES, &fields);
        }
        let sum = checksum(&bytes[..HEADER_SUM_AT]);
        bytes[HEADER_SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        (bytes, sum)
    }

    /// Read the header that `mark` belongs to.
    ///
    /// # Errors
    /// Why it is not one.
    pub fn read(bytes: &[u8; PAGE_BYTES], mark: Mark) -> Result<Header, Refusal> {
        let header = Header::parse(bytes)?;
        if header.id != mark.id || u32_at(bytes, HEADER_SUM_AT) != mark.header_sum {
            return Err(Refusal::Header);
        }
        header.entry.check()?;
        Ok(header)
    }

    /// Read the header of a machine whose image is to come: it has no pages and no mark yet.
    ///
    /// # Errors
    /// Why it is not one.
    pub fn read_prepared(bytes: &[u8; PAGE_BYTES]) -> Result<Header, Refusal> {
        Header::parse(bytes).and_then(|header| match header.pages {
            0 => Ok(header),
            _ => Err(Refusal::Header),
        })
    }

    /// Is it a header of any version?
    pub fn is_whole(bytes: &[u8; PAGE_BYTES]) -> bool {
        let sum = u32_at(bytes, HEADER_SUM_AT);
        sum == checksum(&bytes[..HEADER_SUM_AT]) && bytes.starts_with(&HEADER_MAGIC)
    }

    fn parse(bytes: &[u8; PAGE_BYTES]) -> Result<Header, Refusal> {
        if !Header::is_whole(bytes) {
            return Err(Refusal::Header);
        }
        let field = |index: usize| u64_at(bytes, index * 8);
        if field(1) != Refusal::VERSION {
            return Err(Refusal::Version(field(1)));
        }
        let mut header = Header {
            id: field(2),
            entry: Entry {
                jump: field(3),
                jump_physical: field(4),
                cr3: field(5),
                magic: field(6),
                map_sum: field(7),
            },
            paging_levels: field(8),
            processor: field(9),
            memory: field(10),
            frames: field(11),
            pages: field(12),
            runs: field(13),
            data_pages: field(14),
            stored_pages: field(20),
            scratch: field(15),
            scratch_count: field(16),
            table_sum: field(17) as u32,
            sums_sum: field(18) as u32,
            disk_count: field(19),
            disks: [Disk::default(); DISKS_MAX],
        };
        if field(19) > DISKS_MAX as u64 {
            return Err(Refusal::Header);
        }
        for (index, disk) in header.disks.iter_mut().enumerate() {
            let field = |which: usize| u64_at(bytes, DISKS_AT + index * DISK_BYTES + which * 8);
            *disk = Disk {
                sectors: field(0),
                superblock_sector: field(1),
                sum: field(2),
                mounts: field(3),
            };
        }
        let too_many = header.frames > FRAMES_MAX || header.pages > header.frames;
        let too_long = header.stored_pages > header.data_pages;
        if too_many || too_long || header.data_pages > header.pages || header.runs > header.pages {
            return Err(Refusal::Header);
        }
        if ![4, 5].contains(&header.paging_levels) {
            return Err(Refusal::Paging);
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_does_not_answer_hides_no_other() {
        let wanted = Disk { sectors: 8, sum: 5, ..Disk::default() };
        let is_among = |answers: [Result<Option<u64>, ()>; 3]| {
            let mut asked = 0;
            let found = wanted.is_among(3, |number| {
                asked += 1;
                answers[number as usize]
            });
            (found, asked)
        };
        assert_eq!(is_among([Err(()), Ok(Some(5)), Ok(None)]), (true, 2));
        // What is known needs no other's answer.
        assert_eq!(is_among([Ok(Some(5)), Err(()), Err(())]), (true, 1));
        assert_eq!(is_among([Ok(None), Ok(Some(4)), Err(())]), (false, 3));
    }
}

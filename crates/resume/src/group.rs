//! Groups: the pages of data under one checksum, which may be packed together.

use crate::bytes::{put, u32_at, u64_at};
use crate::checksum::DataSum;
use crate::header::Header;
use crate::refusal::Refusal;
use crate::{ENTRY_BYTES, PAGE_BYTES, SUMMED_PAGES, lz4};

/// Pages of data under one checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Which one: the MiB of the data.
    pub index: u64,
    /// Its pages in memory.
    pub pages: u64,
    /// The first of its pages on the device, counted from the data's begin.
    pub at: u64,
    /// Its pages on the device.
    pub stored: u64,
    /// Bytes that LZ4 made of it; `None` when it is as it is in memory.
    pub packed_bytes: Option<u32>,
    /// Checksum of its pages on the device.
    pub sum: u64,
}

impl Group {
    /// What stands in the table for one with that checksum, which LZ4 made `packed_bytes` of, or 0.
    pub fn entry(sum: u64, packed_bytes: u32) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put(&mut bytes, 0, &[sum, packed_bytes.into()]);
        bytes
    }

    /// Unpack it from `stored` into `plain`: is it as it should be, and as long?
    pub fn unpack(&self, stored: &[u8], plain: &mut [u8]) -> bool {
        let packed = self.packed_bytes.and_then(|bytes| stored.get(..bytes as usize));
        let unpack = |packed: &[u8]| lz4::unpack(packed, plain) == Some(plain.len());
        DataSum::of(stored) == self.sum && packed.is_some_and(unpack)
    }
}

/// The groups of an image's data: 256 pages each, and the rest.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    table: &'a [u8],
    data_pages: u64,
}

impl<'a> Groups<'a> {
    /// Check the table of checksums that belongs to `header`.
    ///
    /// # Errors
    /// [`Refusal::Table`] when it has not a group for each MiB, a packed group is as long as a
    /// plain one, or their lengths are not that of the data.
    pub fn check(table: &'a [u8], header: &Header) -> Result<Groups<'a>, Refusal> {
        let groups = Groups { table, data_pages: header.data_pages };
        let shorter = |group: &Group| group.packed_bytes.is_none() || group.stored < group.pages;
        let stored: u64 = groups.iter().map(|group| group.stored).sum();
        let sound = table.len() as u64 == header.sums_bytes()
            && groups.iter().all(|group| shorter(&group))
            && stored == header.stored_pages;
        if sound { Ok(groups) } else { Err(Refusal::Table) }
    }

    /// The groups in order of the data.
    pub fn iter(&self) -> impl Iterator<Item = Group> + Clone + use<'a> {
        let Groups { table, data_pages } = *self;
        let mut at = 0;
        (0..data_pages.div_ceil(SUMMED_PAGES)).map(move |index| {
            let pages = SUMMED_PAGES.min(data_pages - index * SUMMED_PAGES);
            let entry = index as usize * ENTRY_BYTES;
            let (sum, bytes) = (u64_at(table, entry), u32_at(table, entry + 8));
            let packed_bytes = Some(bytes).filter(|bytes| *bytes > 0);
            let stored =
                packed_bytes.map_or(pages, |bytes| u64::from(bytes).div_ceil(PAGE_BYTES as u64));
            at += stored;
            Group { index, pages, at: at - stored, stored, packed_bytes, sum }
        })
    }

    /// How many of them are packed.
    pub fn packed(&self) -> u64 {
        self.iter().filter(|group| group.packed_bytes.is_some()).count() as u64
    }
}

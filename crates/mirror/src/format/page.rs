//! The frame of every metadata page: 4 KiB that say what they are, whose, and where they belong.
//!
//! ```text
//! 0        8     9        10         12        16        32                               4096
//! | magic  | kind | version | reserved | crc32c | array id | body                            |
//! ```
//!
//! The checksum covers the whole page with its own field as zero, seeded with the page's place:
//! a page that landed elsewhere is as damaged as one with a flipped bit.

use std::fmt;

use super::crc::crc32c;

/// Bytes in a page, and in a block of data.
pub const PAGE_BYTES: usize = 4096;
/// Bytes before the body of a page.
pub const HEADER_BYTES: usize = 32;
/// Bytes of a page's body.
pub const BODY_BYTES: usize = PAGE_BYTES - HEADER_BYTES;
/// The first bytes of every page.
pub const MAGIC: [u8; 8] = *b"blkmirr\n";
/// The version this code writes.
pub const VERSION: u8 = 2;
/// The oldest version it reads: only superblocks had less in it.
pub const VERSION_OLDEST: u8 = 1;

const CRC_AT: usize = 12;

/// What a page holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageKind {
    /// A copy of the superblock.
    Superblock = 1,
    /// The head of a log record; its payload pages follow.
    Record = 2,
    /// The set of hot extents.
    Activity = 3,
    /// A piece of the out-of-sync bitmap.
    Bitmap = 4,
    /// A piece of the checksum table.
    Table = 5,
}

/// Why a page was refused. Offsets are bytes within the page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The page is not 4 KiB.
    Length {
        /// Bytes given.
        found: usize,
    },
    /// The page does not start with the magic: it was never written by a mirror.
    Magic {
        /// The eight bytes in its place.
        found: [u8; 8],
    },
    /// A later version of the format.
    Version {
        /// The version in the page.
        found: u8,
    },
    /// A valid page of another kind.
    Kind {
        /// The kind's number in the page.
        found: u8,
        /// What belongs here.
        expected: PageKind,
    },
    /// A page of another array.
    Array {
        /// The id in the page.
        found: u128,
        /// The id of this array.
        expected: u128,
    },
    /// The bytes do not match their checksum: torn, rotten, or written for another place.
    Checksum {
        /// The checksum in the page.
        stored: u32,
        /// The checksum of its bytes at this place.
        computed: u32,
    },
    /// A field holds what no writer writes.
    Field {
        /// The field's name in docs/mirror-format.md.
        name: &'static str,
        /// Where it starts.
        offset: usize,
        /// Its value.
        value: u64,
        /// What was expected.
        expected: &'static str,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Length { found } => {
                write!(f, "the page has {found} bytes, expected {PAGE_BYTES}")
            }
            Damage::Magic { found } => {
                let text = String::from_utf8_lossy(found);
                write!(f, "byte 0: {text:?} is not the magic of a mirror, {:?}", "blkmirr\n")
            }
            Damage::Version { found } => write!(
                f,
                "byte 9: format version {found}, expected {VERSION_OLDEST} to {VERSION}: use a \
                 newer blocklab"
            ),
            Damage::Kind { found, expected } => {
                write!(f, "byte 8: page kind {found}, expected {} ({expected:?})", *expected as u8)
            }
            Damage::Array { found, expected } => {
                write!(f, "byte 16: the page belongs to array {found:032x}, not {expected:032x}")
            }
            Damage::Checksum { stored, computed } => write!(
                f,
                "byte {CRC_AT}: checksum {stored:08x}, but the bytes have {computed:08x}: the page \
                 is torn, rotten or in the wrong place"
            ),
            Damage::Field { name, offset, value, expected } => {
                write!(f, "byte {offset}: {name} is {value}, expected {expected}")
            }
        }
    }
}

impl std::error::Error for Damage {}

/// Where a page belongs; part of its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageAddress {
    /// The device: 0 and 1 are the legs, 2 the witness.
    pub device: u8,
    /// The page's number on the device.
    pub page: u64,
}

impl PageAddress {
    fn seed(self, kind: PageKind) -> u32 {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.page.to_le_bytes());
        (bytes[8], bytes[9]) = (self.device, kind as u8);
        crc32c(0, &bytes)
    }
}

/// Frame `body` as a page for `place`.
///
/// # Panics
/// When `body` is longer than [`BODY_BYTES`]: its writer has miscounted.
pub fn seal(kind: PageKind, array: u128, place: PageAddress, body: &[u8]) -> Box<[u8; PAGE_BYTES]> {
    assert!(body.len() <= BODY_BYTES, "the body of a page has at most {BODY_BYTES} bytes");
    let mut page = Box::new([0; PAGE_BYTES]);
    page[..8].copy_from_slice(&MAGIC);
    (page[8], page[9]) = (kind as u8, VERSION);
    page[16..32].copy_from_slice(&array.to_le_bytes());
    page[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(body);
    let crc = crc32c(place.seed(kind), &page[..]);
    page[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    page
}

/// The version of the format in which a page of whole length was written.
pub(super) fn version(page: &[u8]) -> u8 {
    page[9]
}

/// The array a page says it belongs to and its body, if the page is whole and at its place.
///
/// # Errors
/// The first thing wrong with it.
pub fn open(kind: PageKind, place: PageAddress, page: &[u8]) -> Result<(u128, &[u8]), Damage> {
    if page.len() != PAGE_BYTES {
        return Err(Damage::Length { found: page.len() });
    }
    if page[..8] != MAGIC {
        return Err(Damage::Magic { found: std::array::from_fn(|i| page[i]) });
    }
    if !(VERSION_OLDEST..=VERSION).contains(&version(page)) {
        return Err(Damage::Version { found: page[9] });
    }
    if page[8] != kind as u8 {
        return Err(Damage::Kind { found: page[8], expected: kind });
    }
    let stored = u32::from_le_bytes(std::array::from_fn(|i| page[CRC_AT + i]));
    let head = crc32c(place.seed(kind), &page[..CRC_AT]);
    let computed = crc32c(crc32c(head, &[0; 4]), &page[CRC_AT + 4..]);
    if stored != computed {
        return Err(Damage::Checksum { stored, computed });
    }
    let array = u128::from_le_bytes(std::array::from_fn(|i| page[16 + i]));
    Ok((array, &page[HEADER_BYTES..]))
}

/// As [`open`], for a page that must belong to `array`.
///
/// # Errors
/// The first thing wrong with it.
pub fn open_own(
    kind: PageKind,
    array: u128,
    place: PageAddress,
    page: &[u8],
) -> Result<&[u8], Damage> {
    match open(kind, place, page)? {
        (found, body) if found == array => Ok(body),
        (found, _) => Err(Damage::Array { found, expected: array }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: PageAddress = PageAddress { device: 1, page: 9 };

    #[test]
    fn what_was_sealed_opens_here_only() {
        let page = seal(PageKind::Record, 7, HERE, b"hello");
        let (array, body) = open(PageKind::Record, HERE, &page[..]).unwrap();
        assert_eq!((array, &body[..5]), (7, &b"hello"[..]));
        for elsewhere in [PageAddress { device: 0, ..HERE }, PageAddress { page: 8, ..HERE }] {
            let refused = open(PageKind::Record, elsewhere, &page[..]);
            assert!(matches!(refused, Err(Damage::Checksum { .. })));
        }
        let other = open_own(PageKind::Record, 8, HERE, &page[..]).unwrap_err();
        assert_eq!(other, Damage::Array { found: 7, expected: 8 });
        let kind = open(PageKind::Table, HERE, &page[..]).unwrap_err();
        assert!(kind.to_string().contains("page kind 2, expected 5 (Table)"), "{kind}");
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let page = seal(PageKind::Superblock, 7, HERE, &[3; 100]);
        for bit in 0..PAGE_BYTES * 8 {
            let mut rotten = page.clone();
            rotten[bit / 8] ^= 1 << (bit % 8);
            assert!(open(PageKind::Superblock, HERE, &rotten[..]).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_torn_page_is_found() {
        let old = seal(PageKind::Superblock, 7, HERE, &[3; 4000]);
        let new = seal(PageKind::Superblock, 7, HERE, &[4; 4000]);
        for sectors in 1..255u32 {
            let mut torn = old.clone();
            for sector in (0..8).filter(|s| sectors >> s & 1 == 1) {
                let range = sector * 512..(sector + 1) * 512;
                torn[range.clone()].copy_from_slice(&new[range]);
            }
            assert!(open(PageKind::Superblock, HERE, &torn[..]).is_err(), "{sectors:08b}");
        }
    }
}

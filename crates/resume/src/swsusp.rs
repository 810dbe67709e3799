//! The image that a kernel makes by itself, in its swap: where its pages are, and what says that
//! it is there. What those pages hold, in order, is what `/dev/snapshot` gives.
//!
//! Linux 6.1 and 6.12, `kernel/power/swap.c` and `kernel/power/power.h`.

use crate::bytes::{u32_at, u64_at};
use crate::{PAGE_BYTES, lz4, lzo};

/// Where the signature is in the first page of the swap.
const HARDWARE_AT: usize = PAGE_BYTES - 40;
const SUM_AT: usize = HARDWARE_AT + 4;
const IMAGE_AT: usize = HARDWARE_AT + 8;
const FLAGS_AT: usize = HARDWARE_AT + 16;
const BEFORE_AT: usize = PAGE_BYTES - 20;
const SIGNATURE_AT: usize = PAGE_BYTES - 10;
const SIGNATURE: &[u8; 10] = b"S1SUSPEND\0";
/// What the flags say: not packed; with a checksum; packed by LZ4.
const PLAIN: u32 = 2;
const SUMMED: u32 = 4;
const LZ4: u32 = 16;
/// All that are known: those, and for the platform's and the hardware's sake.
const KNOWN: u32 = PLAIN | SUMMED | LZ4 | 1 | 8;
/// Bytes that are packed together.
pub const GROUP_BYTES: usize = 32 * PAGE_BYTES;
/// Most bytes that they may become, with the length in front.
pub const PACKED_BYTES_MAX: usize = 8 + GROUP_BYTES + GROUP_BYTES / 16 + 64 + 3 + 2;
/// Pages that a page of the map tells.
pub const MAP_ENTRIES: usize = PAGE_BYTES / 8 - 1;

/// How the pages are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// LZO1X.
    Lzo,
    /// LZ4.
    Lz4,
}

/// What a swap's first page says of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The page with the first part of the map.
    pub map: u64,
    /// How the image is packed.
    pub packing: Packing,
    /// Checksum of what was packed, if it has one.
    pub sum: Option<u32>,
}

impl Signature {
    /// Read it: `None` when there is no image, or none that is known.
    pub fn read(page: &[u8; PAGE_BYTES]) -> Option<Signature> {
        let flags = u32_at(page, FLAGS_AT);
        if &page[SIGNATURE_AT..] != SIGNATURE || flags & !KNOWN != 0 {
            return None;
        }
        let packing = match flags & (PLAIN | LZ4) {
            0 => Packing::Lzo,
            LZ4 => Packing::Lz4,
            _ => Packing::Plain,
        };
        let summed = packing != Packing::Plain && flags & SUMMED != 0;
        let sum = summed.then(|| u32_at(page, SUM_AT));
        Some(Signature { map: u64_at(page, IMAGE_AT), packing, sum })
    }

    /// The page as it is when there is no image: swap again, as a resume by the kernel leaves it.
    pub fn erase(page: &mut [u8; PAGE_BYTES]) {
        page.copy_within(BEFORE_AT..SIGNATURE_AT, SIGNATURE_AT);
        page[HARDWARE_AT..SIGNATURE_AT].fill(0);
    }
}

/// The pages that a page of the map tells, and the next page of the map; 0 is none.
pub fn map(page: &[u8; PAGE_BYTES]) -> (impl Iterator<Item = u64> + '_, u64) {
    let (words, _) = page.as_chunks::<8>();
    let entries = words[..MAP_ENTRIES].iter().map(|word| u64::from_le_bytes(*word));
    (entries, u64_at(page, MAP_ENTRIES * 8))
}

/// Pages that a group takes in swap, by its first one; `None` when that cannot be.
pub fn group_pages(first: &[u8; PAGE_BYTES]) -> Option<usize> {
    let bytes = usize::try_from(u64_at(first, 0)).ok()?.checked_add(8)?;
    (bytes > 8 && bytes <= PACKED_BYTES_MAX).then(|| bytes.div_ceil(PAGE_BYTES))
}

/// Unpack a group, whose pages are `packed`; bytes of whole pages, or `None` when it is damaged.
pub fn unpack(packed: &[u8], packing: Packing, out: &mut [u8; GROUP_BYTES]) -> Option<usize> {
    let bytes = usize::try_from(u64_at(packed, 0)).ok()?;
    let packed = packed.get(8..)?.get(..bytes)?;
    let count = match packing {
        Packing::Plain => None,
        Packing::Lzo => lzo::unpack(packed, out),
        Packing::Lz4 => lz4::unpack(packed, out),
    };
    count.filter(|bytes| *bytes > 0 && bytes.is_multiple_of(PAGE_BYTES))
}

/// Go on with the kernel's checksum: CRC32 without turning its bits at the begin and the end.
pub fn add(sum: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    bytes.iter().fold(sum, |sum, byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)])
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut sum, mut bit) = (index as u32, 0);
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        table[index] = sum;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_checksum() {
        // The check value of CRC32 is with all bits turned.
        assert_eq!(!add(!0, b"123456789"), 0xcbf4_3926);
        assert_eq!(add(0, &[0; 100]), 0);
    }

    #[test]
    fn a_signature_is_read_and_erased() {
        let mut page = [0; PAGE_BYTES];
        page[SIGNATURE_AT..].copy_from_slice(b"SWAPSPACE2");
        page[1024] = 1;
        let swap = page;
        assert_eq!(Signature::read(&page), None);
        page[BEFORE_AT..SIGNATURE_AT].copy_from_slice(b"SWAPSPACE2");
        page[SIGNATURE_AT..].copy_from_slice(SIGNATURE);
        page[IMAGE_AT] = 7;
        page[SUM_AT] = 9;
        page[FLAGS_AT] = SUMMED as u8;
        let read = |flags: u32| {
            let mut page = page;
            page[FLAGS_AT..][..4].copy_from_slice(&flags.to_le_bytes());
            Signature::read(&page)
        };
        let expected = Signature { map: 7, packing: Packing::Lzo, sum: Some(9) };
        assert_eq!(Signature::read(&page), Some(expected));
        assert_eq!(read(SUMMED | LZ4 | 8).unwrap().packing, Packing::Lz4);
        assert_eq!(read(PLAIN).map(|one| (one.packing, one.sum)), Some((Packing::Plain, None)));
        assert_eq!(read(32), None);
        Signature::erase(&mut page);
        assert!(page == swap);
    }

    #[test]
    fn what_cannot_be_a_group_is_refused() {
        let group = |bytes: u64| {
            let mut page = [0; PAGE_BYTES];
            page[..8].copy_from_slice(&bytes.to_le_bytes());
            group_pages(&page)
        };
        assert_eq!((group(0), group(u64::MAX), group(140_000)), (None, None, None));
        assert_eq!((group(1), group(4088), group(4089)), (Some(1), Some(1), Some(2)));
        assert_eq!(unpack(&[9, 0, 0, 0, 0, 0, 0, 0, 1], Packing::Lz4, &mut [0; GROUP_BYTES]), None);
    }
}

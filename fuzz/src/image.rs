//! The header of an image, past what fuzzing does not guess.

use resume::{HEADER_MAGIC, Mark, PAGE_BYTES, Refusal, checksum};

/// `page` with how a header of today begins and with its checksum, so that its fields are looked
/// at; and the mark that belongs to it.
pub fn whole(page: &[u8; PAGE_BYTES]) -> ([u8; PAGE_BYTES], Mark) {
    let mut page = *page;
    page[..8].copy_from_slice(&HEADER_MAGIC);
    page[8..16].copy_from_slice(&Refusal::VERSION.to_le_bytes());
    let header_sum = checksum(&page[..PAGE_BYTES - 4]);
    page[PAGE_BYTES - 4..].copy_from_slice(&header_sum.to_le_bytes());
    let id = u64::from_le_bytes(std::array::from_fn(|byte| page[16 + byte]));
    (page, Mark { id, header_sum, written: 0 })
}

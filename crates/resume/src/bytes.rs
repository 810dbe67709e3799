//! Little-endian numbers in buffers.

/// The number at byte `at`; 0 beyond the end.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// The number at byte `at`; 0 beyond the end.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

/// Write numbers one after the other from byte `at` on.
pub(crate) fn put(bytes: &mut [u8], at: usize, values: &[u64]) {
    for (value, place) in values.iter().zip(bytes[at..].chunks_exact_mut(8)) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

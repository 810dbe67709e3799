//! The checksum of every metadata page and of every 4 KiB of data: CRC-32C (Castagnoli).

pub use resume::crc32c;

/// The checksum of one block of data, salted with where it belongs: a block that landed elsewhere,
/// or that is another array's, does not match.
pub fn block_sum(array: u128, block: u64, bytes: &[u8]) -> u32 {
    let salt = crc32c(crc32c(0, &array.to_le_bytes()), &block.to_le_bytes());
    crc32c(salt, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_elsewhere_has_another_sum() {
        let bytes = [7; 4096];
        assert_ne!(block_sum(1, 5, &bytes), block_sum(1, 6, &bytes));
        assert_ne!(block_sum(1, 5, &bytes), block_sum(2, 5, &bytes));
    }
}

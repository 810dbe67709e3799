//! The checksum of every 4 KiB of data.

use resume::DataSum;

use super::crc::crc32c;
use super::superblock::{Superblock, XXH64_SUMS};

/// How the blocks of an array are summed: salted with where they belong, so that a block that
/// landed elsewhere, or that is another array's, does not match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSums {
    array: u128,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The low half of XXH64.
    Xxh64,
    /// Of arrays that were made before. It does not tell contents apart that end in a CRC-32C of
    /// their own, as directories and extents of ext4 do: over all of them it is the same.
    Crc32c,
}

impl BlockSums {
    /// As the array's superblocks say.
    pub fn of(superblock: &Superblock) -> BlockSums {
        let is_new = superblock.features[2] & XXH64_SUMS != 0;
        let kind = if is_new { Kind::Xxh64 } else { Kind::Crc32c };
        BlockSums { array: superblock.array, kind }
    }

    /// The checksum of one block of data.
    pub fn sum(self, block: u64, bytes: &[u8]) -> u32 {
        let (array, block) = (self.array.to_le_bytes(), block.to_le_bytes());
        match self.kind {
            Kind::Xxh64 => {
                let mut sum = DataSum::default();
                [&array[..], &block, bytes].into_iter().for_each(|bytes| sum.add(bytes));
                sum.end() as u32
            }
            Kind::Crc32c => crc32c(crc32c(crc32c(0, &array), &block), bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(array: u128, incompat: u32) -> BlockSums {
        BlockSums::of(&Superblock { array, features: [0, 0, incompat], ..Superblock::default() })
    }

    #[test]
    fn a_block_elsewhere_has_another_sum() {
        let bytes = [7; 4096];
        for incompat in [0, XXH64_SUMS] {
            let sum = |array, block| sums(array, incompat).sum(block, &bytes);
            assert_ne!(sum(1, 5), sum(1, 6));
            assert_ne!(sum(1, 5), sum(2, 5));
        }
    }

    /// As a directory of ext4 does, of which an older state is no newer one.
    #[test]
    fn contents_that_end_in_their_own_checksum_are_told_apart() {
        let content = |names: u8| {
            let mut bytes = [names; 4096];
            let own = !crc32c(77, &bytes[..4092]);
            bytes[4092..].copy_from_slice(&own.to_le_bytes());
            bytes
        };
        let sum = |incompat, names| sums(1, incompat).sum(5, &content(names));
        assert_eq!(sum(0, 1), sum(0, 2));
        assert_ne!(sum(XXH64_SUMS, 1), sum(XXH64_SUMS, 2));
    }
}

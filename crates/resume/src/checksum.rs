//! CRC32C (Castagnoli) for what is short, eight bytes at a time by table: the checksum of the
//! mirror's format, too. XXH64 for data, which is as quick as memory without any instruction of one
//! machine, and in an emulator.

use core::hash::Hasher;

use twox_hash::XxHash64;

/// Eight tables: eight bytes per step.
static TABLES: [[u32; 256]; 8] = tables();

/// The reflected polynomial of RFC 3720, appendix B.4.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let (mut crc, mut bit) = (index as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][index] = crc;
        index += 1;
    }
    let mut level = 1;
    while level < 8 {
        let mut index = 0;
        while index < 256 {
            let before: u32 = tables[level - 1][index];
            tables[level][index] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            index += 1;
        }
        level += 1;
    }
    tables
}

/// The CRC32C of `bytes`, going on from `seed` (0 to start).
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    let mut crc = !seed;
    let (eights, rest) = bytes.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight) ^ u64::from(crc);
        crc = 0;
        for (level, byte) in word.to_le_bytes().into_iter().enumerate() {
            crc ^= TABLES[7 - level][usize::from(byte)];
        }
    }
    for &byte in rest {
        crc = (crc >> 8) ^ TABLES[0][((crc ^ u32::from(byte)) & 0xff) as usize];
    }
    !crc
}

/// The CRC32C of `bytes` alone.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c(0, bytes)
}

/// The checksum of data, which may come in pieces: XXH64 without a seed.
#[derive(Clone, Debug, Default)]
pub struct DataSum(XxHash64);

impl DataSum {
    /// That of `bytes` alone.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut sum = DataSum::default();
        sum.add(bytes);
        sum.end()
    }

    /// Take in more.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The sum of all that was taken in.
    pub fn end(&self) -> u64 {
        self.0.finish()
    }
}

/// What tells one state of a file system from another: of the sectors of its superblock. No CRC32C:
/// the superblock of ext4 ends in its own, and over what ends in its own CRC32C that is always the
/// same.
pub fn superblock_sum(sectors: &[u8]) -> u64 {
    DataSum::of(sectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_that_end_in_their_own_checksum_are_told_apart() {
        let superblock = |mounts: u8| {
            let mut bytes = [mounts; 1024];
            let own = !checksum(&bytes[..1020]);
            bytes[1020..].copy_from_slice(&own.to_le_bytes());
            bytes
        };
        let (before, after) = (superblock(1), superblock(2));
        assert_eq!(checksum(&before), checksum(&after));
        assert_ne!(superblock_sum(&before), superblock_sum(&after));
    }

    extern crate std;
    use std::vec::Vec;

    #[test]
    fn the_check_values_of_rfc_3720() {
        assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(0, &[0xff; 32]), 0x62a8_ab43);
    }

    /// Those of the description of xxHash: nothing, and with a rest behind the stripes of 32 bytes.
    #[test]
    fn the_check_values_of_xxh64() {
        assert_eq!(DataSum::of(b""), 0xef46_db37_51d8_e999);
        assert_eq!(DataSum::of(b"abc"), 0x44bc_2cf5_ad77_0999);
        let long = b"Nobody inspects the spammish repetition";
        assert_eq!(DataSum::of(long), 0xfbce_a83c_8a37_8bf1);
    }

    #[test]
    fn both_can_be_computed_in_pieces() {
        let bytes: Vec<u8> = (0..100).collect();
        for cut in 0..bytes.len() {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(crc32c(crc32c(0, a), b), crc32c(0, &bytes), "{cut}");
            let mut sum = DataSum::default();
            sum.add(a);
            sum.add(b);
            assert_eq!(sum.end(), DataSum::of(&bytes), "{cut}");
        }
    }
}

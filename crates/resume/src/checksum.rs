//! CRC32C (Castagnoli), eight bytes at a time by table: no processor's instruction is needed.

const POLYNOMIAL: u32 = 0x82f6_3b78;

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 != 0 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

static TABLES: [[u32; 256]; 8] = tables();

/// A checksum that grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum(u32);

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(!0)
    }
}

impl Checksum {
    /// Take in more bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let mut sum = self.0;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let word = u64::from_le_bytes(*word) ^ u64::from(sum);
            sum = 0;
            for (index, byte) in word.to_le_bytes().into_iter().enumerate() {
                sum ^= TABLES[7 - index][usize::from(byte)];
            }
        }
        for byte in rest {
            sum = sum >> 8 ^ TABLES[0][(sum as u8 ^ byte) as usize];
        }
        self.0 = sum;
    }

    /// Take in more bytes, whole words, by a processor's instruction for it.
    pub fn add_by(&mut self, bytes: &[u8], step: impl Fn(u32, u64) -> u32) {
        let (words, rest) = bytes.as_chunks::<8>();
        self.0 = words.iter().fold(self.0, |sum, word| step(sum, u64::from_le_bytes(*word)));
        self.add(rest);
    }

    /// The sum of all that was taken in.
    pub fn sum(self) -> u32 {
        !self.0
    }
}

/// The sum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = Checksum::default();
    sum.add(bytes);
    sum.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums() {
        // RFC 3720, B.4.
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(checksum(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        let by_bits = |sum: u32, word: u64| {
            let mut sum = u64::from(sum) ^ word;
            for _ in 0..64 {
                sum = if sum & 1 != 0 { sum >> 1 ^ u64::from(POLYNOMIAL) } else { sum >> 1 };
            }
            sum as u32
        };
        let mut words = Checksum::default();
        words.add_by(b"123456789", by_bits);
        assert_eq!(words.sum(), 0xe306_9283);
        let mut parts = Checksum::default();
        parts.add(b"123");
        parts.add(b"456789");
        assert_eq!(parts.sum(), 0xe306_9283);
    }
}

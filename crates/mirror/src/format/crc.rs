//! The checksum of every metadata page: CRC-32C (Castagnoli).

pub use resume::crc32c;

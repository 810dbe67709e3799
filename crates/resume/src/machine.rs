//! Digests of the machine: what must be the same when an image is resumed.

use crate::checksum::crc32c;

/// The leaves of CPUID that make a processor, and the bits of each that change while it runs: the
/// number of the processor (leaf 1, EBX), and features that the kernel has switched on (OSXSAVE,
/// OSPKE).
pub const LEAVES: [(u32, [u32; 4]); 5] = [
    (0, [0; 4]),
    (1, [0, 0xffff_0000, 1 << 27, 0]),
    (7, [0, 0, 1 << 4, 0]),
    (0x8000_0001, [0; 4]),
    (0x8000_0008, [0; 4]),
];

/// Digest of a processor; `cpuid` gives EAX, EBX, ECX and EDX of a leaf.
pub fn processor(cpuid: impl Fn(u32) -> [u32; 4]) -> u64 {
    let mut sum = 0;
    for (leaf, changing) in LEAVES {
        for (register, changing) in cpuid(leaf).into_iter().zip(changing) {
            sum = crc32c(sum, &(register & !changing).to_le_bytes());
        }
    }
    u64::from(sum)
}

/// A range of the firmware's memory map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// What it is, in the numbers of E820: 1 is usable memory.
    pub kind: u32,
}

impl Range {
    /// Usable memory.
    pub const USABLE: u32 = 1;
}

/// Digest of a memory map in rising order.
pub fn memory(map: impl Iterator<Item = Range>) -> u64 {
    let mut sum = 0;
    for range in map {
        sum = crc32c(sum, &range.start.to_le_bytes());
        sum = crc32c(sum, &range.bytes.to_le_bytes());
        sum = crc32c(sum, &range.kind.to_le_bytes());
    }
    u64::from(sum)
}

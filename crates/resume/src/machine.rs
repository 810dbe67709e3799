//! Digests of the machine: what must be the same when an image is resumed.

use crate::PAGE_BYTES;
use crate::bytes::{put, u32_at, u64_at};
use crate::checksum::{checksum, crc32c};

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

/// What Linux's boot code makes of a kind of memory in a UEFI memory map, in the numbers of E820.
/// Linux, `drivers/firmware/efi/libstub/x86-stub.c`, `setup_e820`.
pub fn kind_of_efi(kind: u32) -> u32 {
    match kind {
        // Of the loader, of the firmware until it has left, and free.
        1..=4 | 7 => Range::USABLE,
        8 => 5,
        9 => 3,
        10 => 4,
        14 => 7,
        _ => 2,
    }
}

/// Sort a memory map, and make one of ranges of a kind that touch; returns how many are left.
pub fn merge(map: &mut [Range]) -> usize {
    map.sort_unstable();
    let mut count = 0;
    for index in 0..map.len() {
        let range = map[index];
        match map[..count].last_mut() {
            Some(last) if last.kind == range.kind && last.start + last.bytes == range.start => {
                last.bytes += range.bytes;
            }
            _ => {
                map[count] = range;
                count += 1;
            }
        }
    }
    count
}

/// What a page with a memory map begins with.
const MAP_MAGIC: u64 = u64::from_le_bytes(*b"blkrange");
const MAP_SUM_AT: usize = PAGE_BYTES - 4;
const RANGE_BYTES: usize = 24;
/// Ranges that a page has room for.
const RANGES_MAX: usize = (MAP_SUM_AT - 16) / RANGE_BYTES;

/// A memory map as a page, for whoever makes the machine's image elsewhere; `None` without room.
pub fn map_to_bytes(map: &[Range]) -> Option<[u8; PAGE_BYTES]> {
    if map.len() > RANGES_MAX {
        return None;
    }
    let mut bytes = [0; PAGE_BYTES];
    put(&mut bytes, 0, &[MAP_MAGIC, map.len() as u64]);
    for (index, range) in map.iter().enumerate() {
        let fields = [range.start, range.bytes, range.kind.into()];
        put(&mut bytes, 16 + index * RANGE_BYTES, &fields);
    }
    let sum = checksum(&bytes[..MAP_SUM_AT]);
    bytes[MAP_SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    Some(bytes)
}

/// The memory map of such a page; `None` when it is damaged.
pub fn map_of_bytes(bytes: &[u8; PAGE_BYTES]) -> Option<impl Iterator<Item = Range> + '_> {
    let count = u64_at(bytes, 8);
    let sound = u32_at(bytes, MAP_SUM_AT) == checksum(&bytes[..MAP_SUM_AT]);
    if !sound || u64_at(bytes, 0) != MAP_MAGIC || count > RANGES_MAX as u64 {
        return None;
    }
    Some((0..count as usize).map(|index| {
        let field = |which: usize| u64_at(bytes, 16 + index * RANGE_BYTES + 8 * which);
        Range { start: field(0), bytes: field(1), kind: field(2) as u32 }
    }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_is_one() {
        let range =
            |start: u64, bytes: u64, efi: u32| Range { start, bytes, kind: kind_of_efi(efi) };
        // Free, of the firmware until it leaves, of its services, tables, and free again.
        let mut map = [
            range(0x9000, 0x1000, 7),
            range(0, 0x4000, 7),
            range(0x4000, 0x2000, 4),
            range(0x6000, 0x1000, 6),
            range(0x7000, 0x2000, 9),
        ];
        let count = merge(&mut map);
        let kinds = map[..count].iter().map(|range| (range.start, range.bytes, range.kind));
        assert!(kinds.eq([
            (0, 0x6000, 1),
            (0x6000, 0x1000, 2),
            (0x7000, 0x2000, 3),
            (0x9000, 0x1000, 1)
        ]));
        assert_eq!(merge(&mut []), 0);
    }

    #[test]
    fn a_map_is_read_as_it_was_written() {
        let range = |start: u64| Range { start, bytes: 0x1000, kind: 2 };
        let map: [Range; 200] = core::array::from_fn(|index| range(index as u64 * 0x4000));
        for count in [0, 1, RANGES_MAX] {
            let mut bytes = map_to_bytes(&map[..count]).unwrap();
            assert!(map_of_bytes(&bytes).unwrap().eq(map[..count].iter().copied()));
            bytes[50] ^= 1;
            assert!(map_of_bytes(&bytes).is_none());
        }
        assert!(map_to_bytes(&map).is_none());
    }
}

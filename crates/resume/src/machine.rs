//! Digests of the machine: what must be the same when an image is resumed.

use crate::PAGE_BYTES;
use crate::bytes::{put, u32_at, u64_at};
use crate::checksum::{checksum, crc32c};

/// The leaves of CPUID that make a processor, and the bits of each (EAX to EDX) that are others
/// once a kernel runs: by its registers, or by microcode that it loads. A kernel that comes back
/// sets them again as it had them.
pub const LEAVES: [(u32, [u32; 4]); 5] = [
    (0, [0; 4]),
    // The number of the processor; RDRAND, which is switched off on some of AMD's; OSXSAVE.
    (1, [0, 0xffff_0000, 1 << 30 | 1 << 27, 0]),
    // How many further leaves there are, which tell mitigations; HLE, RTM, and RDSEED on some of
    // AMD's; OSPKE; mitigations.
    (7, [u32::MAX, 1 << 4 | 1 << 11 | 1 << 18, 1 << 4, MITIGATIONS_OF_INTEL]),
    // AMD's extensions of the topology; NX, where the firmware switched it off.
    (0x8000_0001, [0, 0, 1 << 22, 1 << 20]),
    (0x8000_0008, [0, MITIGATIONS_OF_AMD, 0, 0]),
];
/// SRBDS_CTRL, MD_CLEAR, RTM_ALWAYS_ABORT, TSX_FORCE_ABORT; IBRS, STIBP, L1D_FLUSH, the registers
/// of capabilities, SSBD.
const MITIGATIONS_OF_INTEL: u32 = 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 0xfc00_0000;
/// IBPB; IBRS and STIBP with all that is told of them; SSBD and its kinds; PSFD, BTC_NO, IBPB_RET.
const MITIGATIONS_OF_AMD: u32 = 1 << 12 | 0x000f_c000 | 0x0700_0000 | 0x7000_0000;

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
    fn what_a_kernel_or_its_microcode_changes_makes_no_other_processor() {
        let sum = |leaf: u32, register: usize, bits: u32| {
            processor(|asked| {
                let mut found = [0x0010_0800; 4];
                if asked == leaf {
                    found[register] ^= bits;
                }
                found
            })
        };
        let same = sum(0, 0, 0);
        for (leaf, register, bits) in [
            (1, 1, 0xff00_0000),
            (1, 2, 1 << 30),
            (7, 0, 2),
            (7, 1, 1 << 11),
            (7, 1, 1 << 4),
            (7, 1, 1 << 18),
            (7, 3, 1 << 10),
            (7, 3, 1 << 11),
            (7, 3, 1 << 31),
            (0x8000_0001, 2, 1 << 22),
            (0x8000_0001, 3, 1 << 20),
            (0x8000_0008, 1, 1 << 12),
            (0x8000_0008, 1, 1 << 30),
        ] {
            assert_eq!(sum(leaf, register, bits), same, "{leaf:x} {register} {bits:x}");
        }
        // AVX2, CLZERO, another model, and another width of addresses.
        for (leaf, register, bits) in
            [(7, 1, 1 << 5), (0x8000_0008, 1, 1), (1, 0, 1 << 4), (0x8000_0008, 0, 1)]
        {
            assert_ne!(sum(leaf, register, bits), same, "{leaf:x} {register} {bits:x}");
        }
    }

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

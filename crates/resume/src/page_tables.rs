//! The page tables under which the jump is made: all memory where it is, and the page of the
//! kernel's code where the kernel has it.

use crate::PAGE_BYTES;

const PRESENT_WRITABLE: u64 = 3;
const LARGE: u64 = 1 << 7;
/// What a large page maps.
pub(crate) const LARGE_BYTES: u64 = 2 << 20;
const ENTRIES: u64 = 512;
/// What one table of large pages maps.
const TABLE_SPAN: u64 = ENTRIES * LARGE_BYTES;
/// The lowest memory is mapped in any case: devices are below 4 GiB.
const LEAST_TABLES: u64 = 4;

/// Where page tables go: `frames_needed` frames in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageTables {
    /// The first one's number.
    pub start: u64,
    /// Frames of memory to map.
    pub frames: u64,
}

fn tables(frames: u64) -> u64 {
    frames.saturating_mul(PAGE_BYTES as u64).div_ceil(TABLE_SPAN).clamp(LEAST_TABLES, ENTRIES)
}

/// Frames for the page tables of a memory of `frames` frames, at most 512 GiB.
pub fn frames_needed(frames: u64) -> u64 {
    // The top tables of four and of five levels, one below them for memory and one for the code,
    // and a last one for the code.
    tables(frames) + 5
}

impl PageTables {
    /// The frame of the top table, of so many levels.
    pub fn top(&self, levels: u64) -> u64 {
        if levels == 5 { self.start + 4 } else { self.start }
    }

    /// Write them: `set` writes a word at a physical address of frames that hold zeros. The 2 MiB
    /// around `jump` (virtual) are those around `jump_physical`.
    pub fn write(&self, jump: u64, jump_physical: u64, mut set: impl FnMut(u64, u64)) {
        let page = PAGE_BYTES as u64;
        let top = self.start * page;
        let (memory, code, last) = (top + page, top + 2 * page, top + 3 * page);
        let (fifth, first) = (top + 4 * page, top + 5 * page);
        let index = |address: u64, level: u32| (address >> (12 + 9 * level)) % ENTRIES * 8;
        // The lowest and the highest part of what five levels reach are all that four do.
        set(fifth, top | PRESENT_WRITABLE);
        set(fifth + index(jump, 4), top | PRESENT_WRITABLE);
        set(top, memory | PRESENT_WRITABLE);
        set(top + index(jump, 3), code | PRESENT_WRITABLE);
        set(code + index(jump, 2), last | PRESENT_WRITABLE);
        let place = jump_physical / LARGE_BYTES * LARGE_BYTES;
        set(last + index(jump, 1), place | LARGE | PRESENT_WRITABLE);
        for table in 0..tables(self.frames) {
            let at = first + table * page;
            set(memory + table * 8, at | PRESENT_WRITABLE);
            for entry in 0..ENTRIES {
                let address = table * TABLE_SPAN + entry * LARGE_BYTES;
                set(at + entry * 8, address | LARGE | PRESENT_WRITABLE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::collections::BTreeMap;

    /// What the processor makes of a virtual address.
    fn walk(words: &BTreeMap<u64, u64>, top: u64, levels: u32, address: u64) -> Option<u64> {
        let mut table = top;
        for level in (1..levels).rev() {
            let entry = *words.get(&(table + (address >> (12 + 9 * level)) % 512 * 8))?;
            assert_eq!(entry & 3, 3);
            let next = entry & 0x000f_ffff_ffff_f000;
            if entry & LARGE != 0 {
                assert_eq!((level, next % LARGE_BYTES), (1, 0));
                return Some(next + address % LARGE_BYTES);
            }
            table = next;
        }
        None
    }

    #[test]
    fn memory_is_where_it_is_and_the_code_where_the_kernel_has_it() {
        for gib in [1u64, 4, 9, 64] {
            let frames = gib << 18;
            let tables = PageTables { start: 0x4321, frames };
            let mut words = BTreeMap::new();
            let (jump, physical) = (0xffff_ffff_a123_4560, 0x1_7323_4560);
            tables.write(jump, physical, |at, word| {
                let frame = at / 4096;
                assert!((0x4321..0x4321 + frames_needed(frames)).contains(&frame));
                assert!(words.insert(at, word).is_none(), "written twice");
            });
            for levels in [4, 5] {
                let walk = |address| walk(&words, tables.top(levels) << 12, levels as u32, address);
                for address in [0, 0xfff, 0xfee0_0000, (frames << 12) - 1] {
                    assert_eq!(walk(address), Some(address));
                }
                assert_eq!(walk(jump), Some(physical));
                assert_eq!(walk(1 << 39), None);
            }
        }
    }
}

//! What a virtual machine or GRUB tells at the start.
//!
//! Xen, `public/arch-x86/hvm/start_info.h`; Multiboot Specification 0.6.96, section 3.3.

use resume::machine::{Range, merge};

const MAGIC: u32 = 0x336e_c578;
const MULTIBOOT_MAGIC: u32 = 0x2bad_b002;
/// A multiboot loader's flag: there is a memory map.
const HAS_MAP: u64 = 1 << 6;
const RANGES_MAX: usize = 64;

/// The firmware's memory map.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    ranges: [Range; RANGES_MAX],
    count: usize,
    /// Was the loader started by multiboot?
    pub(crate) by_multiboot: bool,
}

impl Start {
    /// Read it from the address `information`, by `word`; empty when there is none. `magic` is what
    /// a multiboot loader left in a register.
    pub(crate) fn read(information: u64, magic: u32, word: impl Fn(u64) -> u64) -> Start {
        let none = Range { start: 0, bytes: 0, kind: 0 };
        let by_multiboot = magic == MULTIBOOT_MAGIC;
        let mut start = Start { ranges: [none; RANGES_MAX], count: 0, by_multiboot };
        if by_multiboot {
            start.take_multiboot(information, word);
        } else if information != 0 && word(information) as u32 == MAGIC {
            let (map, entries) = (word(information + 40), word(information + 48) as u32);
            for index in 0..u64::from(entries).min(RANGES_MAX as u64) {
                start.add(map + 24 * index, &word);
            }
        }
        // As the suspend does, which may find in one piece what a firmware has in several.
        start.count = merge(&mut start.ranges[..start.count]);
        start
    }

    /// Entries of any length, which stands before each.
    fn take_multiboot(&mut self, information: u64, word: impl Fn(u64) -> u64) {
        let field = |at: u64| u64::from(word(information + at) as u32);
        if field(0) & HAS_MAP == 0 {
            return;
        }
        let (mut at, end) = (field(48), field(48) + field(44));
        while at < end && self.count < RANGES_MAX {
            self.add(at + 4, &word);
            at += 4 + u64::from(word(at) as u32);
        }
    }

    /// Add a range: where, how long, of which kind. A map with too many of them is cut off.
    fn add(&mut self, at: u64, word: impl Fn(u64) -> u64) {
        if let Some(range) = self.ranges.get_mut(self.count) {
            *range = Range { start: word(at), bytes: word(at + 8), kind: word(at + 16) as u32 };
            self.count += 1;
        }
    }

    /// The memory map, in rising order, what touches as one.
    pub(crate) fn map(&self) -> &[Range] {
        &self.ranges[..self.count]
    }

    /// Are all bytes from `from` to `to` usable memory?
    pub(crate) fn usable(&self, from: u64, to: u64) -> bool {
        self.map().iter().any(|range| {
            range.kind == Range::USABLE && range.start <= from && to <= range.start + range.bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        // `hvm_start_info` at 0x1000, its map at 0x2000.
        let ranges =
            [[1 << 29, 1 << 29, 1], [1 << 20, (1 << 29) - (1 << 20), 1], [1 << 30, 4096, 2]];
        let words: Vec<u64> = ranges.concat();
        let word = |at: u64| match at {
            0x1000 => MAGIC.into(),
            0x1028 => 0x2000,
            0x1030 => 3,
            at => words[(at - 0x2000) as usize / 8],
        };
        let start = Start::read(0x1000, 0, word);
        let range = |start: u64, end: u64, kind: u32| Range { start, bytes: end - start, kind };
        let whole = [range(1 << 20, 1 << 30, 1), range(1 << 30, (1 << 30) + 4096, 2)];
        assert_eq!(start.map(), whole);
        // An image's run may lie in both.
        assert!(start.usable((1 << 29) - 4096, (1 << 29) + 4096));
    }
}

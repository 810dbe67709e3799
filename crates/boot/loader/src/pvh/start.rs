//! What the virtual machine tells at the start.
//!
//! Xen, `public/arch-x86/hvm/start_info.h`.

use resume::machine::Range;

const MAGIC: u32 = 0x336e_c578;
const RANGES_MAX: usize = 64;

/// The firmware's memory map.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    ranges: [Range; RANGES_MAX],
    count: usize,
}

impl Start {
    /// Read it from the address `information`, by `word`; empty when there is none.
    pub(crate) fn read(information: u64, word: impl Fn(u64) -> u64) -> Start {
        let none = Range { start: 0, bytes: 0, kind: 0 };
        let mut start = Start { ranges: [none; RANGES_MAX], count: 0 };
        if information == 0 || word(information) as u32 != MAGIC {
            return start;
        }
        let (map, entries) = (word(information + 40), word(information + 48) as u32);
        start.count = (entries as usize).min(RANGES_MAX);
        for (index, range) in start.ranges[..start.count].iter_mut().enumerate() {
            let at = map + 24 * index as u64;
            *range = Range { start: word(at), bytes: word(at + 8), kind: word(at + 16) as u32 };
        }
        start.ranges[..start.count].sort_unstable();
        start
    }

    /// The memory map, in rising order.
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

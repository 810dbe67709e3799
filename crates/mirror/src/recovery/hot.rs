//! The blocks of which the copies may differ.

use std::collections::BTreeMap;

use crate::format::maps::Activity;
use crate::types::{Block, Span};

/// A set of blocks of the array: some, or all of them.
#[derive(Clone, Debug)]
pub(super) struct Hot {
    /// By the first block of each range, the one after its last. No two touch.
    some: BTreeMap<Block, Block>,
    all: bool,
    blocks: u64,
}

impl Hot {
    pub(super) fn new(blocks: u64) -> Hot {
        Hot { some: BTreeMap::new(), all: false, blocks }
    }

    pub(super) fn extend<'b>(&mut self, blocks: impl IntoIterator<Item = &'b Block>) {
        blocks.into_iter().for_each(|&block| self.insert(block, block + 1));
    }

    fn insert(&mut self, mut start: Block, mut end: Block) {
        while let Some((&first, &after)) = self.some.range(..=end).next_back()
            && after >= start
        {
            self.some.remove(&first);
            (start, end) = (start.min(first), end.max(after));
        }
        self.some.insert(start, end);
    }

    /// Every extent that the activity log names.
    pub(super) fn heat(&mut self, activity: &Activity, extent_blocks: u32) {
        let size = u64::from(extent_blocks);
        for &extent in &activity.hot {
            let start = u64::from(extent) * size;
            if start < self.blocks {
                self.insert(start, (start + size).min(self.blocks));
            }
        }
    }

    /// Nobody knows which: each may.
    pub(super) fn heat_all(&mut self) {
        self.all = true;
    }

    pub(super) fn is_all(&self) -> bool {
        self.all
    }

    /// Rising.
    pub(super) fn iter(&self) -> impl Iterator<Item = Block> + '_ {
        self.spans().flat_map(Span::iter)
    }

    /// The same, as ranges.
    pub(super) fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        let all = self.all.then_some(0..self.blocks);
        let some = self.some.iter().map(|(&start, &end)| start..end).filter(|_| !self.all);
        all.into_iter().chain(some).flat_map(Span::pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_is_one_range() {
        let mut hot = Hot::new(100);
        hot.extend(&[7, 3, 5, 8, 3]);
        assert_eq!(hot.some, [(3, 4), (5, 6), (7, 9)].into());
        hot.insert(4, 5);
        assert_eq!(hot.some, [(3, 6), (7, 9)].into());
        // The last extent is cut, and one beyond the end is none.
        hot.heat(&Activity { version: 1, hot: vec![0, 3, 4] }, 32);
        assert_eq!(hot.some, [(0, 32), (96, 100)].into());
        assert_eq!(hot.iter().collect::<Vec<_>>(), (0..32).chain(96..100).collect::<Vec<_>>());
        hot.heat_all();
        assert_eq!(hot.spans().collect::<Vec<_>>(), [Span::new(0, 100)]);
    }

    /// What a start after a power cut keeps of a TiB: it grows with the extents, whatever their
    /// size.
    #[test]
    fn extents_of_a_gib_take_no_more_than_small_ones() {
        let extent_blocks = 1 << 18;
        let mut hot = Hot::new(u64::from(extent_blocks) * 2026);
        let every_other = (0..1013).map(|extent| extent * 2).collect();
        hot.heat(&Activity { version: 1, hot: every_other }, extent_blocks);
        assert_eq!(hot.some.len(), 1013);
        let blocks: u64 = hot.spans().map(|span| u64::from(span.blocks)).sum();
        assert_eq!(blocks, 1013 << 18);
    }
}

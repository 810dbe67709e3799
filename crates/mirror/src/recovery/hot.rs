//! The blocks of which the copies may differ.

use std::collections::BTreeSet;

use crate::format::maps::Activity;
use crate::types::Block;

/// A set of blocks of the array: some, or all of them.
#[derive(Clone, Debug)]
pub(super) struct Hot {
    some: BTreeSet<Block>,
    all: bool,
    blocks: u64,
}

impl Hot {
    pub(super) fn new(blocks: u64) -> Hot {
        Hot { some: BTreeSet::new(), all: false, blocks }
    }

    pub(super) fn extend<'b>(&mut self, blocks: impl IntoIterator<Item = &'b Block>) {
        self.some.extend(blocks);
    }

    /// Every extent that the activity log names.
    pub(super) fn heat(&mut self, activity: &Activity, extent_blocks: u32) {
        let size = u64::from(extent_blocks);
        for &extent in &activity.hot {
            let start = u64::from(extent) * size;
            self.some.extend(start..(start + size).min(self.blocks));
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
        let all = if self.all { 0..self.blocks } else { 0..0 };
        let some = self.some.iter().copied().filter(|_| !self.all);
        all.chain(some)
    }
}

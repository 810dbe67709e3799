//! Blocks without valid pages, on their way to being free.

use sim::snapshot_fields;

use crate::ftl::flash::Flash;
use crate::ftl::mapping::CleaningStep;
use crate::ssd::geometry::Geometry;
use crate::ssd::plan::{Cause, FlashOp, Plan};

/// Dead blocks of a pool.
#[derive(Clone, Default, Debug)]
pub(crate) struct Dead {
    blocks: Vec<u32>,
    /// Blocks of the last erases planned, and how often each had been erased before.
    erasing: Vec<(u32, u32)>,
}

snapshot_fields!(Dead { blocks, erasing });

impl Dead {
    /// The block can be erased.
    pub(crate) fn push(&mut self, flash: &Flash, block: u32) {
        debug_assert_eq!(flash.valid(block), 0, "block {block} is given up with valid pages");
        self.blocks.push(block);
    }

    /// Blocks that no erase was planned for.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// True when an erase was planned or is going to be, and has not ended.
    pub(crate) fn is_freeing(&self, flash: &Flash) -> bool {
        let is_erasing = |&(block, erases): &(u32, u32)| flash.block(block).erases == erases;
        !self.blocks.is_empty() || self.erasing.iter().any(is_erasing)
    }

    /// Plan the erases. `None` when there is nothing to erase.
    pub(crate) fn erase(
        &mut self,
        geometry: &Geometry,
        flash: &Flash,
        plan: &mut Plan,
    ) -> Option<CleaningStep> {
        if self.blocks.is_empty() {
            return None;
        }
        let erasing = &mut self.erasing;
        erasing.clear();
        self.blocks.retain(|&block| {
            let pinned = flash.is_pinned(block);
            if !pinned {
                plan.push(FlashOp::erase(Cause::Merge, geometry.first_ppn(block)));
                erasing.push((block, flash.block(block).erases));
            }
            pinned
        });
        Some(if erasing.is_empty() { CleaningStep::Blocked } else { CleaningStep::Planned })
    }
}

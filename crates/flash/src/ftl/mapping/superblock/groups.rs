//! Which blocks each superblock has.

use sim::snapshot_fields;

use crate::ftl::flash::Flash;
use crate::ftl::mapping::log_block::Layout;
use crate::ssd::geometry::Geometry;
use crate::ssd::plan::NONE;

/// Set in the tag of a block taken for moved pages; the rest is the superblock.
pub(super) const MOVED: u32 = 1 << 31;

/// A superblock.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) blocks: Vec<u32>,
    /// The block that takes what the host writes, or [`NONE`].
    pub(super) open: u32,
    /// The block that takes moved pages, or [`NONE`].
    pub(super) moved: u32,
    used_at: u64,
}

snapshot_fields!(Group { blocks, open, moved, used_at });

impl Default for Group {
    fn default() -> Group {
        Group { blocks: Vec::new(), open: NONE, moved: NONE, used_at: 0 }
    }
}

/// All superblocks.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    pub(super) records: Vec<Group>,
    planes: u32,
    group_blocks: u32,
    /// Most blocks of a superblock, N + M.
    pub(super) limit: u32,
    clock: u64,
}

snapshot_fields!(Groups { records, clock });

impl Groups {
    pub(super) fn new(layout: &Layout, planes: u32, group_blocks: u32, limit: u32) -> Groups {
        let count = layout.blocks.div_ceil(planes).div_ceil(group_blocks) * planes;
        let records = vec![Group::default(); count as usize];
        Groups { records, planes, group_blocks, limit, clock: 0 }
    }

    /// The superblock of a logical block: the planes take turns, as logical blocks do.
    pub(super) fn of(&self, lbn: u32) -> u32 {
        let (row, turn) = (lbn / self.planes, lbn % self.planes);
        row / self.group_blocks * self.planes + turn
    }

    /// The superblocks of the plane that `group` is on.
    pub(super) fn beside(&self, group: u32) -> impl Iterator<Item = u32> + use<> {
        (group % self.planes..self.records.len() as u32).step_by(self.planes as usize)
    }

    /// The host writes to a superblock.
    pub(super) fn touch(&mut self, group: u32) {
        self.clock += 1;
        self.records[group as usize].used_at = self.clock;
    }

    /// The least recently written of `groups` that can give up a block.
    pub(super) fn coldest(&self, flash: &Flash, groups: impl Iterator<Item = u32>) -> Option<u32> {
        let pages = flash.geometry.pages_per_block.get();
        let gives = |&group: &u32| {
            let blocks = &self.records[group as usize].blocks;
            let valid: u32 = blocks.iter().map(|&block| flash.valid(block)).sum();
            blocks.len() as u32 > valid.div_ceil(pages)
        };
        groups.filter(gives).min_by_key(|&group| self.records[group as usize].used_at)
    }

    /// The block of a superblock to collect next: the one with the fewest valid pages. Moving the
    /// pages of the block that takes moved pages is of use only when it holds others, too.
    pub(super) fn victim(&self, flash: &Flash, group: u32) -> Option<u32> {
        let Group { blocks, moved, .. } = &self.records[group as usize];
        let pages = flash.geometry.pages_per_block.get();
        let gains = |&&block: &&u32| {
            let least = if block == *moved { u32::from(flash.block(block).written) } else { pages };
            flash.valid(block) < least
        };
        blocks.iter().filter(gains).min_by_key(|&&block| flash.valid(block)).copied()
    }

    /// The superblock loses a block.
    pub(super) fn remove(&mut self, group: u32, block: u32) {
        let record = &mut self.records[group as usize];
        record.blocks.retain(|&other| other != block);
        if record.open == block {
            record.open = NONE;
        }
        if record.moved == block {
            record.moved = NONE;
        }
    }

    /// Power is back: blocks that have room are open again. Those without valid pages are told to
    /// `dead`.
    pub(super) fn rebuild(
        &mut self,
        flash: &mut Flash,
        geometry: &Geometry,
        mut dead: impl FnMut(u32),
    ) {
        self.records.fill(Group::default());
        let mut own = flash.own_blocks();
        own.sort_by_cached_key(|&(block, _)| flash.sequence(geometry.first_ppn(block)));
        for (block, tag) in own {
            if flash.valid(block) == 0 {
                dead(block);
                continue;
            }
            self.clock += 1;
            let record = &mut self.records[(tag & !MOVED) as usize];
            record.used_at = self.clock;
            record.blocks.push(block);
            if flash.room_in(block) > 0 {
                match tag & MOVED {
                    0 => record.open = block,
                    _ => record.moved = block,
                }
            }
        }
    }
}

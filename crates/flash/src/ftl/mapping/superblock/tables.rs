//! The page tables in the spare areas, and those of them that are cached.

use sim::{CowVec, snapshot_fields};

use super::Params;
use crate::ftl::flash::Flash;
use crate::ftl::mapping::demand::lru::Lists;
use crate::ftl::mapping::log_block::Layout;
use crate::ftl::mapping::{Context, MapStats, bits};
use crate::ssd::geometry::Geometry;
use crate::ssd::plan::{Cause, FlashOp, NONE, Plan};

#[derive(Clone)]
pub(super) struct Tables {
    fan_out: u32,
    planes: u32,
    group_blocks: u32,
    pages: u32,
    /// Page tables and middle directories of a superblock.
    per_group: u32,
    directories_per_group: u32,
    /// The page whose spare area holds each page table, and each middle directory.
    table_at: Vec<u32>,
    directory_at: Vec<u32>,
    cached: Vec<bool>,
    lru: Lists,
    capacity: u32,
    pub(super) stats: MapStats,
}

snapshot_fields!(Tables { table_at, directory_at, cached, lru, stats });

impl Tables {
    pub(super) fn new(
        context: &Context,
        layout: &Layout,
        group_blocks: u32,
        params: &Params,
    ) -> Tables {
        let planes = context.geometry.planes();
        let pages = context.geometry.pages_per_block.get();
        let groups = layout.blocks.div_ceil(planes).div_ceil(group_blocks) * planes;
        let per_group = (group_blocks * pages).div_ceil(params.fan_out);
        let directories_per_group = per_group.div_ceil(params.fan_out);
        let tables = groups * per_group;
        Tables {
            fan_out: params.fan_out,
            planes,
            group_blocks,
            pages,
            per_group,
            directories_per_group,
            table_at: vec![NONE; tables as usize],
            directory_at: vec![NONE; (groups * directories_per_group) as usize],
            cached: vec![false; tables as usize],
            lru: Lists::new(tables, 1),
            capacity: params.cache_tables,
            stats: MapStats::default(),
        }
    }

    /// The page table of a logical page.
    pub(super) fn of(&self, layout: &Layout, lpn: u32) -> u32 {
        let (lbn, offset) = layout.split(lpn);
        let (row, turn) = (lbn / self.planes, lbn % self.planes);
        let group = row / self.group_blocks * self.planes + turn;
        let page = row % self.group_blocks * self.pages + offset;
        group * self.per_group + page / self.fan_out
    }

    fn directory(&self, table: u32) -> usize {
        let (group, index) = (table / self.per_group, table % self.per_group);
        (group * self.directories_per_group + index / self.fan_out) as usize
    }

    /// The host needs a table: plan what it takes to have it in RAM. Gives the reads planned.
    pub(super) fn use_table(&mut self, flash: &mut Flash, table: u32, plan: &mut Plan) -> u32 {
        self.stats.lookups += 1;
        let cached = &mut self.cached[table as usize];
        if *cached {
            self.lru.touch(0, table);
            self.stats.hits += 1;
            return 0;
        }
        *cached = true;
        if self.lru.len(0) >= self.capacity
            && let Some(oldest) = self.lru.tail(0)
        {
            self.lru.remove(0, oldest);
            self.cached[oldest as usize] = false;
        }
        self.lru.push(0, table);
        self.read_spares(flash, table, plan)
    }

    /// Collection needs a table: plan the reads that find it unless it is cached.
    pub(super) fn look_up(&self, flash: &mut Flash, table: u32, plan: &mut Plan) {
        if !self.cached[table as usize] {
            self.read_spares(flash, table, plan);
        }
    }

    /// Plan the reads of spare areas that find a table.
    fn read_spares(&self, flash: &mut Flash, table: u32, plan: &mut Plan) -> u32 {
        let at = self.table_at[table as usize];
        let directory = self.directory_at[self.directory(table)];
        let mut reads = 0;
        for ppn in [directory, at].into_iter().take(if directory == at { 1 } else { 2 }) {
            // Discarded pages may be gone, and the tables with them; a page that is not programmed
            // yet is still in the controller.
            if ppn != NONE && flash.is_valid(ppn) && flash.is_programmed(ppn) {
                plan.push(FlashOp::read(Cause::Map, ppn, flash.spare(ppn), 0));
                reads += 1;
            }
        }
        reads
    }

    /// The spare area of a page got the table and its middle directory.
    pub(super) fn written(&mut self, table: u32, ppn: u32) {
        self.table_at[table as usize] = ppn;
        let directory = self.directory(table);
        self.directory_at[directory] = ppn;
    }

    /// Power is back: the newest page of those a table covers holds it.
    pub(super) fn rebuild(&mut self, flash: &mut Flash, layout: &Layout, newest: &mut CowVec<u32>) {
        self.table_at.fill(NONE);
        self.directory_at.fill(NONE);
        self.cached.fill(false);
        self.lru = Lists::new(self.table_at.len() as u32, 1);
        for lpn in 0..newest.len() {
            let ppn = newest.get(lpn);
            if ppn == NONE {
                continue;
            }
            let table = self.of(layout, lpn as u32);
            let directory = self.directory(table);
            let age = flash.sequence(ppn);
            for place in [&mut self.table_at[table as usize], &mut self.directory_at[directory]] {
                if *place == NONE || flash.sequence(*place) < age {
                    *place = ppn;
                }
            }
        }
    }

    /// Bits of the places of the middle directories and of the cached tables.
    pub(super) fn ram_bits(&self, geometry: &Geometry, blocks: u32) -> u64 {
        let directories = self.directory_at.len() as u64 * u64::from(bits(geometry.pages()));
        let entry = u64::from(bits(blocks * self.pages));
        let tag = u64::from(bits(self.table_at.len() as u32));
        directories + u64::from(self.capacity) * (u64::from(self.fan_out) * entry + tag)
    }
}

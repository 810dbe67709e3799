//! Collection inside a superblock, one block at a time.

use super::groups::MOVED;
use super::{Job, Superblock};
use crate::ftl::flash::Flash;
use crate::ftl::mapping::CleaningStep;
use crate::ftl::mapping::log_block::plan_copies;
use crate::ssd::plan::{NONE, Plan};

impl Superblock {
    /// The next step of a plane.
    pub(super) fn collect(
        &mut self,
        flash: &mut Flash,
        plane: u32,
        plan: &mut Plan,
    ) -> CleaningStep {
        loop {
            let pool = &mut self.pools[plane as usize];
            // Erases first: they bring back the free block that moved pages may need.
            if let Some(step) = pool.dead.erase(&self.geometry, flash, plan) {
                return step;
            }
            pool.recovering &= flash.free_blocks(plane) < self.reserve;
            let Some(job) = pool.job.or_else(|| self.next_job(flash, plane)) else {
                return CleaningStep::Idle;
            };
            let victim = self.groups.victim(flash, job.group);
            let victim = victim.expect("a superblock with spare pages has a block to collect");
            let rest = self.empty(flash, plane, victim, job, plan);
            self.pools[plane as usize].job = rest;
            if !plan.ops.is_empty() {
                return CleaningStep::Planned;
            }
        }
    }

    /// The superblock to collect next, if any must be.
    fn next_job(&mut self, flash: &Flash, plane: u32) -> Option<Job> {
        let pool = &mut self.pools[plane as usize];
        let wish = pool.wish.take();
        let turn = self.layout.stripe().iter().position(|&other| other == plane);
        let beside = self.groups.beside(turn? as u32);
        if pool.recovering {
            // The victim whose collection was interrupted, or one that is as good.
            let group = beside.min_by_key(|&group| self.missing(flash, group))?;
            return Some(Job { group, evicts: true, balance: 0 });
        }
        let group = wish?;
        if group != NONE {
            return Some(Job { group, evicts: false, balance: 0 });
        }
        if flash.free_blocks(plane) > self.reserve {
            return None;
        }
        // There are more spare blocks than superblocks, so one of them has two.
        let coldest = self.groups.coldest(flash, beside);
        let group = coldest.expect("a superblock can give up a block");
        self.tally.evicted += 1;
        // It is not written for now; its open block can go, too.
        self.groups.records[group as usize].open = NONE;
        Some(Job { group, evicts: true, balance: 0 })
    }

    /// Pages that the superblock's next victim has and its block for moved pages has no room for.
    fn missing(&self, flash: &Flash, group: u32) -> u32 {
        let moved = self.groups.records[group as usize].moved;
        let room = if moved == NONE { 0 } else { flash.room_in(moved) };
        let victim = self.groups.victim(flash, group);
        victim.map_or(u32::MAX, |victim| flash.valid(victim).saturating_sub(room))
    }

    /// Move the valid pages of a block away and give it up. Gives what is left of the job.
    fn empty(
        &mut self,
        flash: &mut Flash,
        plane: u32,
        victim: u32,
        job: Job,
        plan: &mut Plan,
    ) -> Option<Job> {
        let Job { group, evicts, mut balance } = job;
        match flash.valid(victim) {
            0 => self.tally.exchanged += 1,
            _ => self.tally.copied += 1,
        }
        self.groups.remove(group, victim);
        let first = self.geometry.first_ppn(victim);
        let mut last_table = NONE;
        for ppn in first..first + u32::from(flash.block(victim).written) {
            if !flash.is_valid(ppn) {
                continue;
            }
            let lpn = flash.spare(ppn);
            let table = self.tables.of(&self.layout, lpn);
            if table != last_table {
                self.tables.look_up(flash, table, plan);
                last_table = table;
            }
            let record = &mut self.groups.records[group as usize];
            if record.moved == NONE || flash.room_in(record.moved) == 0 {
                let block = flash.take_block(plane, group | MOVED, 0);
                record.moved = block.expect("every plane keeps a free block for moved pages");
                record.blocks.push(record.moved);
                balance += 1;
            }
            let page = u32::from(flash.block(record.moved).written);
            let to = flash.allocate_at(record.moved, page, lpn);
            flash.invalidate(ppn);
            self.place.set(lpn as usize, to);
            self.tables.written(table, to);
            self.moves.push((to, ppn, lpn));
        }
        plan_copies(&self.geometry, self.copy_back, flash, &self.moves, NONE, plan);
        self.moves.clear();
        self.pools[plane as usize].dead.push(flash, victim);
        let moved = self.groups.records[group as usize].moved;
        // The host goes on in the block for moved pages.
        let shared = !self.separate && !evicts && moved != NONE && flash.room_in(moved) > 0;
        (balance > 0 && !shared).then(|| Job { group, evicts, balance: balance - 1 })
    }
}

//! Blocks that cannot be read. On one of two legs that is repaired; on a leg that is alone the
//! block may be lost: then it must say so, whatever happens, until it is written.

use super::world::{Op, World};
use super::{Violation, disk};
use crate::core::{HostId, State, Table};
use crate::types::{LEGS, Slot};

/// What a lost block reads as in the history: above the values of all writes.
const LOST: u32 = 0xff00_0000;
const MS: u64 = 1_000_000;

impl World<'_> {
    /// A block of a leg becomes unreadable; or, when the leg is alone, every block for a while.
    pub(super) fn spoil(&mut self, leg: Slot) {
        let block = self.rng.below(self.plan.geometry.blocks);
        let content = self.disks[leg].data[block as usize];
        let states = self.core.states();
        let alone = states[leg] == State::Member && states[1 - leg] != State::Member;
        let quiet = |slot: Slot| {
            let written = self.flying.iter().flatten().any(|flying| match &flying.op {
                Op::Write(disk::Effect::Data { start, blocks, .. }) => {
                    flying.slot == slot && (*start..start + u64::from(*blocks)).contains(&block)
                }
                _ => false,
            });
            self.disks[slot].is_stable(block) && !written
        };
        let same =
            (0..LEGS).all(|slot| quiet(slot) && self.disks[slot].data[block as usize] == content);
        let known = self.core.is_lost(block) || self.may_lose.contains_key(&block);
        if alone && self.rng.below(3) == 0 {
            self.devices[leg].blind_until = self.now + self.rng.below(3000) * MS;
        } else if (alone && quiet(leg) && !known) || (self.all_well() && same && !known) {
            self.say(format_args!("! block {block} of {leg} cannot be read"));
            self.disks[leg].unreadable.insert(block);
            self.were_unreadable.insert((leg, block));
            if alone {
                self.losable(block);
            }
        } else {
            self.report.faults -= 1;
        }
    }

    /// Nobody is to blame if this block is lost.
    fn losable(&mut self, block: u64) {
        let value = LOST + self.next_id;
        self.next_id += 1;
        self.may_lose.insert(block, value);
        let at = self.history.tick();
        for unit in [2 * block, 2 * block + 1] {
            self.history.may_lose(unit as usize, value, at);
        }
    }

    /// In relaxed mode a flush relies on one leg until the other has caught up: a block that cannot
    /// be read there may be lost with the power.
    pub(super) fn relaxed_may_lose(&mut self) {
        let armed = |slot: Slot| self.disks[slot].superblock().is_ok_and(|own| own.armed_relaxed);
        if !(0..LEGS).any(armed) {
            return;
        }
        let bad = |leg: Slot| self.disks[leg].unreadable.iter().copied();
        let blocks: Vec<u64> = (0..LEGS).flat_map(bad).collect();
        for block in blocks {
            if !self.may_lose.contains_key(&block) {
                self.losable(block);
            }
        }
    }

    /// The core says that a block is lost.
    pub(super) fn lost(&mut self, block: u64) {
        let at = self.history.tick();
        match self.may_lose.get(&block) {
            Some(&value) => {
                for unit in [2 * block, 2 * block + 1] {
                    self.history.lost(unit as usize, value, at);
                }
            }
            None => {
                let text = format!("block {block} is lost, but could always be read from a leg");
                self.trouble.get_or_insert(Violation(text));
            }
        }
    }

    /// May this request end with an error?
    pub(super) fn may_fail(&mut self, id: HostId) -> bool {
        let Some(request) = self.requests.get(&id) else { return false };
        let (span, begun) = (request.span, request.begun);
        let is_read = matches!(request.kind, super::host::Kind::Read);
        let bad = |&block: &u64| {
            let lost = self.core.is_lost(block);
            let unreadable = self.disks.iter().any(|disk| disk.unreadable.contains(&block));
            self.may_lose.contains_key(&block) && (lost || unreadable)
        };
        let found = span.iter().find(bad);
        let blind = self.devices.iter().any(|device| device.blind_until > self.now);
        // What is not lost yet may still turn up on the other leg.
        if let (Some(block), 1, true, false) = (found, span.blocks, is_read, blind)
            && self.core.is_lost(block)
        {
            let (value, at) = (self.may_lose[&block], self.history.tick());
            for unit in [2 * block, 2 * block + 1] {
                if let Err(wrong) = self.history.read(unit as usize, value, begun, at) {
                    self.trouble.get_or_insert(wrong);
                }
            }
        }
        let may = found.is_some() || id <= self.failed_requests;
        if is_read && may {
            self.requests.remove(&id);
        }
        may
    }

    /// What a start found: lost blocks read as such, and what is no longer unreadable is well.
    pub(super) fn lost_at_start(
        &mut self,
        table: &Table,
        contents: &mut [u64],
    ) -> Result<(), Violation> {
        for block in 0..self.plan.geometry.blocks {
            match (table.is_lost(block), self.may_lose.get(&block)) {
                (false, _) => {}
                (true, Some(&value)) => {
                    contents[block as usize] = u64::from(value) << 32 | u64::from(value);
                }
                (true, None) => {
                    return Err(Violation(format!("block {block} is lost without reason")));
                }
            }
        }
        Ok(())
    }

    /// The history of a new start has begun.
    pub(super) fn losable_again(&mut self) {
        for (block, value) in std::mem::take(&mut self.may_lose) {
            if self.core.is_lost(block) {
                self.may_lose.insert(block, value);
            } else if self.disks.iter().any(|disk| disk.unreadable.contains(&block)) {
                self.losable(block);
            }
        }
    }
}

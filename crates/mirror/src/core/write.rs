//! A write's way: admitted, given to the legs, acknowledged, made safe, forgotten.
//!
//! A write lives, with its payload, until it is durable on every leg that takes part. So a leg
//! that fails with data in its cache takes nothing along, and any unfinished write can be logged.

use sim::Nanos;

use super::event::{Action, Content, HostId, IoError};
use super::io::WriteIndex;
use super::member::State;
use super::writes::{Logged, OnLeg, Waiting, Write};
use super::{Core, Placement};
use crate::mutant::planted;
use crate::policy::Rules;
use crate::policy::ack::{self, Copies};
use crate::policy::place::{self, Choice};
use crate::types::{DEVICES, LEGS, Mode, Slot, Span, WITNESS, other};

impl Core {
    pub(super) fn host_write(
        &mut self,
        id: HostId,
        span: Span,
        content: Content,
        fua: bool,
        sums: Option<Vec<u32>>,
    ) {
        debug_assert!(span.blocks > 0 && span.end() <= self.geometry.blocks);
        if self.failed || self.stopping {
            self.out.push(Action::Reply { id, result: Err(IoError) });
            self.out.push(Action::Free { id });
            return;
        }
        self.waiting.push_back(Waiting { id, span, content, fua, sums, reading: false });
        self.again = true;
    }

    pub(super) fn merged(&mut self, id: HostId, sums: &[u32]) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) {
            waiting.sums = Some(sums.into());
            self.again = true;
        }
    }

    /// Let waiting writes in: oldest first, never past one of the same blocks.
    pub(super) fn admit(&mut self) {
        let mut index = 0;
        while index < self.waiting.len() {
            let Waiting { id, span, reading, .. } = self.waiting[index];
            let earlier = self.waiting.iter().take(index);
            let blocked = { earlier }.any(|earlier| earlier.span.overlaps(span));
            if blocked && !planted!(self.config.rules, OvertakeWaiting) {
                index += 1;
                continue;
            }
            if self.waiting[index].sums.is_none() {
                if !reading {
                    self.waiting[index].reading = true;
                    self.read_to_merge(id, span);
                }
                index += 1;
                continue;
            }
            let blocks = u64::from(span.blocks);
            let full = self.writes.live_blocks + blocks > self.config.ram_blocks_max;
            if full && !self.writes.is_empty() {
                return;
            }
            let Some(version) = self.touch(span) else { return };
            let waiting = self.waiting.remove(index).expect("it is there");
            self.admit_one(waiting, version);
        }
    }

    fn admit_one(&mut self, waiting: Waiting, activity: u64) {
        let Waiting { id, span, content, fua, sums, .. } = waiting;
        let mut legs = [OnLeg::None; LEGS];
        for (leg, on) in legs.iter_mut().enumerate() {
            if self.takes_part(leg, span) {
                *on = OnLeg::Queued;
            } else if !planted!(self.config.rules, ForgetOutOfSync) {
                self.members[leg].out_of_sync.insert(span);
            }
        }
        let epoch = self.writes.epoch;
        let sequence = self.writes.sequence();
        let write = Write {
            sequence,
            id,
            span,
            content,
            fua,
            epoch,
            since: self.now,
            sums: sums.expect("it is merged"),
            legs,
            activity,
            lifts: self.table.first_lost(span).is_some() || !self.marks_recorded(span),
            ready: true,
            ..Write::default()
        };
        let index = self.writes.insert(write);
        self.writes.unanswered.push_back((index, sequence, self.now));
        self.writes.live_blocks += u64::from(span.blocks);
        self.stats.ram_max = self.stats.ram_max.max(self.writes.live_blocks);
        for leg in (0..LEGS).filter(|&leg| legs[leg] == OnLeg::Queued) {
            self.members[leg].enqueue(index, epoch, span.blocks);
        }
        self.again = true;
    }

    /// Where the copies of a write are.
    pub(super) fn copies_of(&self, index: WriteIndex) -> Copies {
        let write = self.writes.get(index);
        let durable = |logged: Logged| logged == Logged::Durable;
        Copies {
            member: std::array::from_fn(|slot| self.members[slot].state.counts()),
            done: write.legs.map(|on| matches!(on, OnLeg::Done | OnLeg::Durable)),
            home: write.legs.map(|on| on == OnLeg::Durable),
            payload: write.payload.map(durable),
            reference: write.reference.map(durable),
            stale: std::array::from_fn(|slot| self.logs[slot].stale(write.span, write.sequence)),
            marked: self.is_marked(index),
        }
    }

    /// Look again at writes whose neighbours have gone, or at all.
    pub(super) fn recheck(&mut self) {
        if std::mem::take(&mut self.writes.recheck_all) {
            self.writes.recheck.clear();
            for index in self.writes.indices() {
                if self.writes.slab[index as usize].is_some() {
                    self.progress(index);
                }
            }
        }
        while let Some(index) = self.writes.recheck.pop() {
            if self.writes.slab[index as usize].is_some() {
                self.progress(index);
            }
        }
    }

    /// Something changed about a write: acknowledge, make safe, release, forget.
    pub(super) fn progress(&mut self, index: WriteIndex) {
        if self.writes.get(index).copy.is_some() {
            return self.copy_progress(index);
        }
        let mut copies = self.copies_of(index);
        self.lift(index, &copies);
        copies.marked = self.is_marked(index);
        let rules = self.config.rules;
        let write = self.writes.get(index);
        let (id, demanded) = (write.id, write.fua || write.cover.is_some());
        if demanded && !write.satisfied {
            match ack::flush(&rules, &copies) {
                true => self.satisfy(index, &copies),
                false => self.make_safe(index, &copies),
            }
        }
        let write = self.writes.get(index);
        let unsafe_fua = write.fua && !write.satisfied && !planted!(rules, FuaAsPlain);
        let mut starved = false;
        if !write.acked && !unsafe_fua {
            match ack::write(&rules, &copies, self.room(index)) {
                true => {
                    self.out.push(Action::Reply { id, result: Ok(()) });
                    self.expose(index, &copies);
                }
                false => {
                    starved = copies.homes_done();
                    self.wait_for_room(index, &copies);
                }
            }
        }
        self.starve(index, starved);
        self.release(index, &copies);
        let write = self.writes.get_mut(index);
        if write.exposed && !ack::exposed(&rules, &copies) {
            write.exposed = false;
            self.writes.exposed_blocks -= u64::from(self.writes.get(index).span.blocks);
            self.writes.trim_exposed();
            self.offer_room();
        }
        if self.forgettable(index, &copies) {
            self.forget(index);
        }
    }

    fn satisfy(&mut self, index: WriteIndex, copies: &Copies) {
        self.stats.logged_acks += u64::from(!copies.homes_durable());
        let write = self.writes.get_mut(index);
        write.satisfied = true;
        if let Some(flush) = write.cover {
            self.flushes.satisfied(flush);
        }
        self.again = true;
    }

    /// Since when the oldest exposed block has been, where that is bounded: in log mode nothing was
    /// promised of it.
    pub(super) fn aging_since(&self) -> Option<Nanos> {
        let relaxed = self.config.rules.mode == Mode::Relaxed;
        relaxed.then(|| self.writes.oldest_exposed()).flatten()
    }

    /// Does one more exposed write stay within the caps?
    fn room(&self, index: WriteIndex) -> bool {
        let blocks = u64::from(self.writes.get(index).span.blocks);
        self.writes.exposed_blocks + blocks <= self.config.exposed_blocks_max
            && self.aging_since().is_none_or(|at| self.now.since(at) <= self.config.exposed_age_max)
    }

    /// One leg has the write, and only the caps forbid to say so.
    fn wait_for_room(&mut self, index: WriteIndex, copies: &Copies) {
        let write = self.writes.get_mut(index);
        let early = self.config.rules.mode != Mode::Strict && copies.done.contains(&true);
        if early && !write.roomless {
            write.roomless = true;
            let sequence = write.sequence;
            self.writes.roomless.push_back((index, sequence));
        }
    }

    /// Room has become free: look again at those that wait for it, oldest first, as far as it
    /// goes.
    fn offer_room(&mut self) {
        let mut room = self.config.exposed_blocks_max.saturating_sub(self.writes.exposed_blocks);
        while let Some(&(index, sequence)) = self.writes.roomless.front() {
            if let Some(write) = self.writes.find(index, sequence)
                && !write.acked
            {
                let Some(left) = room.checked_sub(write.span.blocks.into()) else { return };
                room = left;
                write.roomless = false;
                self.writes.recheck_later(index);
                self.again = true;
            }
            self.writes.roomless.pop_front();
        }
    }

    fn expose(&mut self, index: WriteIndex, copies: &Copies) {
        self.writes.get_mut(index).acked = true;
        self.writes.trim_unanswered();
        self.stats.early_acks += u64::from(!copies.homes_done());
        if ack::exposed(&self.config.rules, copies) {
            self.count_exposed(index);
        }
    }

    fn count_exposed(&mut self, index: WriteIndex) {
        let write = self.writes.get_mut(index);
        write.exposed = true;
        let (sequence, blocks) = (write.sequence, write.span.blocks);
        self.writes.exposed_blocks += u64::from(blocks);
        self.writes.exposed.push_back((index, sequence, self.now));
        self.stats.exposed_max = self.stats.exposed_max.max(self.writes.exposed_blocks);
    }

    fn starve(&mut self, index: WriteIndex, starved: bool) {
        let write = self.writes.get_mut(index);
        let before = std::mem::replace(&mut write.starved, starved);
        self.writes.starved += u32::from(starved);
        self.writes.starved -= u32::from(before);
        self.again |= starved && !before;
    }

    /// Other rules hold from now on, or another device counts: count what is exposed under them
    /// although it was acknowledged before. False, and nothing is done, while the caps forbid it.
    pub(super) fn expose_under(&mut self, rules: &Rules) -> bool {
        let mut uncounted = self.writes.indices();
        uncounted.retain(|&index| {
            let write = self.writes.get(index);
            let open = write.acked && !write.exposed && write.copy.is_none();
            open && ack::exposed(rules, &self.copies_of(index))
        });
        let blocks = |&index: &WriteIndex| u64::from(self.writes.get(index).span.blocks);
        let more: u64 = uncounted.iter().map(blocks).sum();
        let fits = self.writes.exposed_blocks + more <= self.config.exposed_blocks_max;
        if fits {
            uncounted.into_iter().for_each(|index| self.count_exposed(index));
        }
        fits
    }

    /// R3: its records may go when every home is durable.
    fn release(&mut self, index: WriteIndex, copies: &Copies) {
        let write = self.writes.get_mut(index);
        if !write.released && ack::retire(&self.config.rules, copies) {
            write.released = true;
            let span = write.span;
            for (slot, number) in std::mem::take(&mut self.writes.get_mut(index).records) {
                self.logs[slot].release(number);
                self.again = true;
            }
            self.again |= (0..DEVICES).any(|slot| self.logs[slot].names(span));
        }
    }

    fn forgettable(&self, index: WriteIndex, copies: &Copies) -> bool {
        let write = self.writes.get(index);
        let early = planted!(self.config.rules, ForgetOnDone) && copies.homes_done();
        let settled = write.legs.iter().all(|on| matches!(on, OnLeg::None | OnLeg::Durable));
        let in_log = write.payload.contains(&Logged::InFlight)
            || write.reference.contains(&Logged::InFlight);
        write.acked
            && !in_log
            && (write.cover.is_none() || write.satisfied)
            && ((settled && ack::forget(&self.config.rules, copies)) || early)
            && self.writes.oldest(index)
    }

    fn forget(&mut self, index: WriteIndex) {
        let write = self.writes.remove(index);
        self.writes.live_blocks -= u64::from(write.span.blocks);
        self.writes.trim_exposed();
        for (block, &sum) in write.span.iter().zip(&write.sums) {
            self.table.set(block, sum, write.sequence);
            self.copies.clear(block);
        }
        self.cool(write.span);
        for leg in 0..LEGS {
            self.members[leg].disown(index, &write);
        }
        self.out.push(Action::Free { id: write.id });
        self.again = true;
    }

    /// A write is wanted safe: ask for the records that rules R1 and R2 need.
    fn make_safe(&mut self, index: WriteIndex, copies: &Copies) {
        let mode = self.config.rules.mode;
        if copies.stale[WITNESS] && copies.member[WITNESS] {
            self.want_payload(index, WITNESS);
        }
        for leg in 0..LEGS {
            // Only what is durable may be referred to.
            let home = copies.home[leg]
                || (planted!(self.config.rules, EarlyReference) && copies.done[leg]);
            if !copies.member[leg] || !copies.done[leg] {
                continue;
            }
            let behind = other(leg);
            let late = copies.member[behind] && !copies.home[behind];
            if home && (copies.stale[leg] || (late && mode != Mode::Strict)) {
                let owes = !copies.done[behind] || self.members[behind].pace.lagging;
                if copies.stale[leg] || (mode == Mode::Relaxed && owes) {
                    self.want_reference(index, leg);
                }
            }
            if late && let Some(slot) = self.second_copy(index, leg) {
                self.want_payload(index, slot);
                if home {
                    self.want_reference(index, leg);
                }
            }
        }
    }

    /// The log that should take the payload, if any.
    fn second_copy(&self, index: WriteIndex, leader: Slot) -> Option<Slot> {
        let behind = other(leader);
        if self.config.rules.mode != Mode::Log
            || self.members[behind].state != State::Member
            || self.writes.get(index).legs[behind] == OnLeg::Durable
        {
            return None;
        }
        let logged = |slot: Slot| self.writes.get(index).payload[slot] != Logged::No;
        if let Some(slot) = (0..DEVICES).find(|&slot| slot != leader && logged(slot)) {
            return Some(slot);
        }
        match self.config.placement {
            Placement::Home => return None,
            Placement::Witness => return self.has_witness().then_some(WITNESS),
            Placement::OwnLog => return Some(behind),
            Placement::Auto => {}
        }
        let (owed, owed_blocks) = self.members[behind].owed();
        let choice = Choice {
            leader,
            lagging: self.members[behind].pace.lagging,
            owed,
            owed_blocks,
            own_log: true,
            witness: self.has_witness(),
            write_ns: std::array::from_fn(|leg| self.members[leg].write_ns()),
        };
        place::second_copy(&self.config.rules, &choice)
    }
}

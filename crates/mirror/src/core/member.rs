//! Who is a member: leaving, waiting for lost requests, filling, joining.

use std::collections::{BTreeSet, VecDeque};

use sim::Nanos;

use super::Core;
use super::event::{Io, Notice, Why};
use super::io::WriteIndex;
use super::lost::Doubts;
use super::table::Regions;
use super::writes::{OnLeg, Write};
use crate::format::Geometry;
use crate::mutant::planted;
use crate::policy::ack;
use crate::policy::expect::{Class, Expected, Work};
use crate::policy::lag::Pace;
use crate::policy::slow::Slowness;
use crate::types::{DEVICES, LEGS, Slot, Span, WITNESS, other};

/// A leg that was late comes back by itself, but not when it is left out for that so many times,
/// each within so long of the one before: then an operator should look at it.
const LATE_TIMES: u32 = 3;
const LATE_WITHIN: Nanos = Nanos::from_secs(600);

/// What a device is to the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The array has no such device.
    Never,
    /// Its copies count.
    Member,
    /// Given up; the others have not all recorded that yet, so nothing is promised without it.
    Leaving,
    /// Left out.
    Out,
    /// Being copied to; takes new writes, counts for nothing.
    Filling,
    /// Complete but for the last steps: promises wait for it again.
    Joining,
}

sim::snapshot_enum!(State { Never, Member, Leaving, Out, Filling, Joining });

impl State {
    /// Do promises have to take it into account?
    pub const fn counts(self) -> bool {
        matches!(self, State::Member | State::Leaving | State::Joining)
    }

    /// Are requests sent to it?
    pub const fn is_used(self) -> bool {
        matches!(self, State::Member | State::Filling | State::Joining)
    }

    /// May it lack something?
    pub const fn lacks(self) -> bool {
        matches!(self, State::Leaving | State::Out | State::Filling)
    }
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Epoch {
    pub(super) epoch: u64,
    pub(super) undone: u32,
    undurable: u32,
}

sim::snapshot_fields!(Epoch { epoch, undone, undurable });

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) state: State,
    /// Writes it was not given yet, oldest first.
    pub(super) queue: VecDeque<WriteIndex>,
    /// Data writes that are out.
    pub(super) issued: u32,
    /// All requests that are out.
    pub(super) outstanding: u32,
    /// The same, oldest first; answered ones are dropped lazily.
    pub(super) waiting: VecDeque<(Io, Nanos, Class)>,
    pub(super) pace: Pace,
    pub(super) slowness: Slowness,
    /// When it was left out for being late, and how often within [`LATE_WITHIN`] of each other.
    late_at: Nanos,
    late_times: u32,
    pub(super) expected: Expected,
    pub(super) flushing: Option<(Io, Vec<WriteIndex>)>,
    /// Completed, perhaps only in its cache.
    pub(super) done: Vec<WriteIndex>,
    /// Since when the first of them has.
    pub(super) done_since: Nanos,
    pub(super) epochs: VecDeque<Epoch>,
    pub(super) owed_blocks: u64,
    pub(super) position: u64,
    /// Requests given up on that may still do something.
    pub(super) zombies: u32,
    /// It may come back by itself.
    pub(super) returns: bool,
    /// Its medium is new.
    pub(super) blank: bool,
    pub(super) out_of_sync: Regions,
    /// Single blocks whose copy here is wrong.
    pub(super) bad: BTreeSet<u64>,
    /// Blocks of which one at least cannot be read here.
    pub(super) doubts: Doubts,
    /// Reads that were answered with data.
    pub(super) answered: u64,
    pub(super) tail_moved: Nanos,
}

sim::snapshot_fields!(Member {
    state,
    queue,
    issued,
    outstanding,
    waiting,
    pace,
    slowness,
    late_at,
    late_times,
    expected,
    flushing,
    done,
    done_since,
    epochs,
    owed_blocks,
    position,
    zombies,
    returns,
    blank,
    out_of_sync,
    bad,
    doubts,
    answered,
    tail_moved,
});

impl Member {
    pub(super) fn new(state: State, geometry: &Geometry) -> Member {
        Member {
            state,
            queue: VecDeque::new(),
            issued: 0,
            outstanding: 0,
            waiting: VecDeque::new(),
            pace: Pace::default(),
            slowness: Slowness::default(),
            late_at: Nanos::ZERO,
            late_times: 0,
            expected: Expected::default(),
            flushing: None,
            done: Vec::new(),
            done_since: Nanos::ZERO,
            epochs: VecDeque::new(),
            owed_blocks: 0,
            position: 0,
            zombies: 0,
            returns: false,
            blank: false,
            out_of_sync: Regions::new(geometry.blocks, geometry.region_blocks),
            bad: BTreeSet::new(),
            doubts: Doubts::default(),
            answered: 0,
            tail_moved: Nanos::ZERO,
        }
    }

    pub(super) fn enqueue(&mut self, index: WriteIndex, epoch: u64, blocks: u32) {
        self.queue.push_back(index);
        self.owed_blocks += u64::from(blocks);
        match self.epochs.back_mut() {
            Some(last) if last.epoch == epoch => {
                last.undone += 1;
                last.undurable += 1;
            }
            _ => self.epochs.push_back(Epoch { epoch, undone: 1, undurable: 1 }),
        }
    }

    pub(super) fn epoch_done(&mut self, epoch: u64, durable: bool) {
        if let Some(count) = self.epochs.iter_mut().find(|count| count.epoch == epoch) {
            count.undone -= 1;
        }
        if durable {
            self.epoch_durable(epoch);
        }
    }

    pub(super) fn epoch_durable(&mut self, epoch: u64) {
        if let Some(count) = self.epochs.iter_mut().find(|count| count.epoch == epoch) {
            count.undurable -= 1;
        }
        while self.epochs.front().is_some_and(|count| count.undurable == 0) {
            self.epochs.pop_front();
        }
    }

    /// Writes and blocks that it owes.
    pub(super) fn owed(&self) -> (u32, u64) {
        (self.queue.len() as u32 + self.issued, self.owed_blocks)
    }

    /// What a write takes, in nanoseconds.
    pub(super) fn write_ns(&self) -> u64 {
        self.expected.p95(Class::new(Work::Write, 1, 0)).0
    }

    /// A write is forgotten before the leg was done with it: only planted bugs do that.
    pub(super) fn disown(&mut self, index: WriteIndex, write: &Write) {
        if write.legs.iter().any(|on| !matches!(on, OnLeg::None | OnLeg::Durable)) {
            self.done.retain(|&done| done != index);
            if let Some((_, covered)) = &mut self.flushing {
                covered.retain(|&done| done != index);
            }
        }
    }

    /// Nothing that it was or is to be given is known any more.
    pub(super) fn disown_all(&mut self) {
        (self.issued, self.owed_blocks) = (0, 0);
        self.queue.clear();
        self.done.clear();
        self.flushing = None;
        self.epochs.clear();
    }

    /// Nothing was retired for a while.
    pub(super) fn idle_tail(&self, now: Nanos) -> bool {
        now.since(self.tail_moved) >= Nanos::from_secs(1)
    }
}

impl Core {
    /// Leave a device out. One that was late may come back by itself, once its requests have.
    pub(super) fn leave(&mut self, slot: Slot, why: Why) {
        let state = self.members[slot].state;
        if !state.is_used() {
            return;
        }
        self.again = true;
        self.stats.drops += 1;
        let returns = self.returns_after(slot, why);
        self.out.push(super::Action::Notice(Notice::Left(slot, why)));
        let mut zombies = 0;
        for (_, out) in self.ios.on(slot).filter(|(_, out)| !out.zombie) {
            out.zombie = true;
            zombies += 1;
        }
        if slot < LEGS {
            self.disown_leg(slot);
            self.activity.leave(&self.config.rules, slot);
        }
        self.disown_log(slot);
        let member = &mut self.members[slot];
        member.zombies += zombies;
        member.returns = returns;
        member.outstanding = 0;
        member.waiting.clear();
        member.disown_all();
        member.pace = Pace::default();
        member.slowness = Slowness::default();
        member.doubts = Doubts::default();
        let recorded = state == State::Member || self.superblocks.joining(slot);
        member.state = if recorded { State::Leaving } else { State::Out };
        self.superblocks.forget(slot);
        if recorded {
            self.begin_generation(slot);
        }
        if slot < LEGS {
            // Alone, the other one is not compared with anybody.
            self.members[other(slot)].slowness = Slowness::default();
            // A wrong copy on the one that left is covered by what it lacks.
            for block in std::mem::take(&mut self.members[slot].bad) {
                self.members[slot].out_of_sync.insert(Span::new(block, 1));
            }
            self.activity_durable();
            self.abort_copies(slot);
            self.abort_scrub();
            self.reroute(slot);
            if self.members[other(slot)].state != State::Member {
                self.out.push(super::Action::Notice(Notice::Failed));
                self.fail_all();
            }
        }
        self.writes.recheck_all = true;
    }

    /// May it come back by itself? Not one that would only be left out again.
    fn returns_after(&mut self, slot: Slot, why: Why) -> bool {
        let now = self.now;
        let member = &mut self.members[slot];
        if now.since(member.late_at) > LATE_WITHIN {
            member.late_times = 0;
        }
        if why.is_late() {
            (member.late_at, member.late_times) = (now, member.late_times + 1);
        }
        matches!(why, Why::Stuck | Why::HeldBack) && member.late_times < LATE_TIMES
    }

    /// A device answers again.
    pub(super) fn returned(&mut self, slot: Slot) {
        if !self.superblocks.knows(slot) {
            // What it did without the others is in its own activity log, which only a start
            // reads.
            return;
        }
        self.members[slot].returns = true;
        self.again = true;
    }

    /// The medium in this slot is new.
    pub(super) fn replace(&mut self, slot: Slot) {
        self.leave(slot, Why::Asked);
        self.members[slot].returns = true;
        self.members[slot].blank = true;
        if slot < LEGS {
            let blocks = self.geometry.blocks;
            self.members[slot].bad.clear();
            let mut regions = Regions::new(blocks, self.geometry.region_blocks);
            Span::pieces(0..blocks).for_each(|piece| regions.insert(piece));
            self.members[slot].out_of_sync = regions;
        }
    }

    /// Steps between the states.
    pub(super) fn pump_members(&mut self) {
        for slot in 0..DEVICES {
            match self.members[slot].state {
                State::Leaving if self.superblocks_settled(slot) => {
                    self.members[slot].state = State::Out;
                    self.logs[slot].reset();
                    self.writes.recheck_all = true;
                    self.again = true;
                }
                State::Out => self.readmit(slot),
                State::Filling => self.complete(slot),
                State::Joining => self.join(slot),
                _ => {}
            }
        }
    }

    fn readmit(&mut self, slot: Slot) {
        let member = &self.members[slot];
        // A request given up on may still land: not before it has come back.
        let quiet = member.zombies == 0 || planted!(self.config.rules, IgnoreZombies);
        let others = (0..LEGS).all(|leg| leg == slot || self.members[leg].state == State::Member);
        if !member.returns || !quiet || !others || self.failed || self.stopping {
            return;
        }
        self.again = true;
        self.out.push(super::Action::Notice(Notice::Filling(slot)));
        self.members[slot].state = State::Filling;
        if slot < LEGS {
            // What was durable there when it left still is.
            self.carried_along(slot, self.writes.indices());
        }
        if std::mem::take(&mut self.members[slot].blank) {
            self.write_blank_superblock(slot);
        }
    }

    /// Is everything copied?
    fn complete(&mut self, slot: Slot) {
        let empty = slot == WITNESS
            || (self.members[slot].out_of_sync.is_empty() && self.copies.none_for(slot));
        let early = planted!(self.config.rules, JoinEarly);
        if (empty || early) && !self.superblocks.writing(slot) && !self.stopping {
            self.members[slot].state = State::Joining;
            // What was durable on all that counted is not on all that count now.
            for index in self.writes.indices() {
                self.writes.get_mut(index).released = false;
            }
            self.writes.recheck_all = true;
            self.again = true;
        }
    }

    /// Promises made without it must hold with it alone, before it may say that it is a member.
    fn join(&mut self, slot: Slot) {
        let rules = self.config.rules;
        let owed = !planted!(rules, JoinEarly)
            && self.writes.indices().into_iter().any(|index| {
                let write = self.writes.get(index);
                let holds = match slot {
                    // A log that is new lacks what was promised with the old one. Once the others
                    // name it, a leg that leaves waits for it, and not the other way round.
                    WITNESS if self.superblocks.joining(slot) => true,
                    WITNESS => ack::flush(&rules, &self.copies_of(index)),
                    leg => matches!(write.legs[leg], OnLeg::Durable),
                };
                write.satisfied && !holds
            });
        if !owed && (slot == WITNESS || self.expose_under(&rules)) {
            self.join_step(slot);
        }
    }

    /// It is a member.
    pub(super) fn joined(&mut self, slot: Slot) {
        self.members[slot].state = State::Member;
        self.members[slot].returns = false;
        self.stats.joins += 1;
        self.out.push(super::Action::Notice(Notice::Joined(slot)));
        if slot < LEGS {
            self.activity_durable();
        }
        self.writes.recheck_all = true;
        self.again = true;
    }
}

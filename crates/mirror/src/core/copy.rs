//! Copies between the legs: filling one that came back, repairing single blocks.
//!
//! A copy takes its place in the target's order of writes when its read begins, so whatever the
//! host writes meanwhile lands after it. It begins only when the source owes nothing there.

use sim::{Nanos, snapshot_fields};

use super::Core;
use super::event::{Action, Io, IoError};
use super::io::{Purpose, WriteIndex};
use super::member::State;
use super::writes::{OnLeg, Write};
use crate::mutant::planted;
use crate::policy::expect::Work;
use crate::types::{Block, LEGS, Slot, Span, other};

/// After a copy that could not be read, the next is tried this much later.
const RETRY_AFTER: Nanos = Nanos::from_millis(100);

/// While a leg is filled, this many times the copies that move at once may wait for a flush.
const PER_FLUSH: usize = 16;

#[derive(Clone, Default, Debug)]
struct Copy {
    target: Slot,
    span: Span,
    /// The read, whose buffer is the content.
    io: Io,
    write: WriteIndex,
    /// What the table said when it began.
    expected: Vec<Option<(u32, u32)>>,
    /// A single block rather than a region.
    repair: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    active: Vec<Option<Copy>>,
    cursor: [u64; LEGS],
    retry_at: Option<Nanos>,
    wants: bool,
}

snapshot_fields!(Copy { target, span, io, write, expected, repair });
snapshot_fields!(Copies { active, cursor, retry_at, wants });

impl Copies {
    pub(super) fn idle(&self) -> bool {
        self.active.iter().all(Option::is_none) && !self.wants
    }

    /// The buffer of a copy.
    pub(super) fn source(&self, copy: u32) -> Io {
        self.active[copy as usize].as_ref().expect("the copy is active").io
    }

    /// Is a copy to this leg under way that touches `span`?
    pub(super) fn touches(&self, leg: Slot, span: Span) -> bool {
        self.active.iter().flatten().any(|copy| copy.target == leg && copy.span.overlaps(span))
    }

    pub(super) fn none_for(&self, leg: Slot) -> bool {
        !self.active.iter().flatten().any(|copy| copy.target == leg)
    }

    /// Copies that have begun and are not durable yet.
    fn under_way(&self) -> usize {
        self.active.iter().flatten().count()
    }

    pub(super) fn retry_at(&self) -> Option<Nanos> {
        self.retry_at
    }
}

impl Core {
    pub(super) fn pump_copies(&mut self) {
        if self.copies.retry_at.is_some_and(|at| at > self.now) {
            return;
        }
        self.copies.retry_at = None;
        self.copies.wants = false;
        for target in 0..LEGS {
            let source = &self.members[other(target)];
            let member = &self.members[target];
            if !member.state.is_used() || source.state != State::Member || self.stopping {
                continue;
            }
            if !member.bad.is_empty() {
                self.copies.wants = true;
                self.repair(target);
            }
            if self.members[target].state == State::Filling {
                self.fill(target);
            }
        }
    }

    fn repair(&mut self, target: Slot) {
        let bad: Vec<Block> = self.members[target].bad.iter().copied().collect();
        for block in bad {
            let span = Span::new(block, 1);
            if self.may_copy(target, span) && !self.members[other(target)].bad.contains(&block) {
                self.begin_copy(target, span, true);
            }
        }
    }

    fn fill(&mut self, target: Slot) {
        let mut from = self.copies.cursor[target];
        let mut wrapped = false;
        loop {
            let Some(region) = self.members[target].out_of_sync.next(from) else {
                if wrapped || from == 0 {
                    return;
                }
                (from, wrapped) = (0, true);
                continue;
            };
            if wrapped && region >= self.copies.cursor[target] {
                return;
            }
            if self.copies.under_way() >= self.config.copies_max * PER_FLUSH
                || self.copies_moving(target) >= self.config.copies_max
            {
                return;
            }
            let span = self.members[target].out_of_sync.span(region, self.geometry.blocks);
            if self.may_copy(target, span) {
                self.begin_copy(target, span, false);
                self.copies.cursor[target] = region + 1;
            }
            from = region + 1;
        }
    }

    /// Copies to a leg that are being read or written.
    fn copies_moving(&self, target: Slot) -> usize {
        let active = self.copies.active.iter().flatten().filter(|copy| copy.target == target);
        active.filter(|copy| self.writes.get(copy.write).legs[target] != OnLeg::Done).count()
    }

    /// Does a copy wait for nothing but a flush of the leg?
    pub(super) fn copies_want_flush(&self, target: Slot) -> bool {
        !self.copies.none_for(target) && self.copies_moving(target) == 0
    }

    /// The source owes nothing there, so what is read from it is at least as new as anything the
    /// target was given before.
    fn may_copy(&self, target: Slot, span: Span) -> bool {
        let source = other(target);
        if self.copies.touches(target, span) {
            return false;
        }
        if planted!(self.config.rules, CopyUnordered) {
            return true;
        }
        !self.writes.chains.range(span.iter()).flat_map(|(_, chain)| chain).any(|&index| {
            matches!(self.writes.get(index).legs[source], OnLeg::Queued | OnLeg::Issued)
        })
    }

    fn begin_copy(&mut self, target: Slot, span: Span, repair: bool) {
        let source = other(target);
        let place = self.copies.active.iter().position(Option::is_none).unwrap_or_else(|| {
            self.copies.active.push(None);
            self.copies.active.len() - 1
        });
        let number = place as u32;
        let io = self.issue(source, Purpose::CopyRead { copy: number }, Work::Read, span);
        let mut legs = [OnLeg::None; LEGS];
        legs[target] = OnLeg::Queued;
        let write = self.writes.insert_copy(span, legs, number);
        let member = &mut self.members[target];
        member.queue.push_back(write);
        member.owed_blocks += u64::from(span.blocks);
        let expected = span.iter().map(|block| self.table.get(block)).collect();
        let copy = Copy { target, span, io, write, expected, repair };
        self.copies.active[place] = Some(copy);
        self.out.push(Action::Read { io, slot: source, span });
        self.again = true;
    }

    pub(super) fn copy_read(&mut self, io: Io, number: u32, result: Result<&[u32], IoError>) {
        let copy = self.copies.active.get(number as usize).and_then(Option::as_ref);
        let Some(copy) = copy.filter(|copy| copy.io == io) else {
            self.out.push(Action::Drop { io });
            return;
        };
        let right = result.is_ok_and(|sums| {
            let blocks = copy.span.iter().zip(sums).zip(&copy.expected);
            { blocks }.all(|((block, sum), expected)| {
                // A write meanwhile makes any content right: it lands on the target after this.
                let moved =
                    self.writes.newest(block).is_some() || self.table.get(block) != *expected;
                moved || expected.is_none_or(|(wanted, _)| wanted == *sum)
            })
        });
        if right || (result.is_ok() && planted!(self.config.rules, SkipVerify)) {
            let write = copy.write;
            let write = self.writes.get_mut(write);
            write.ready = true;
            return;
        }
        // The source is wrong too: never copy that. Perhaps the next read is right.
        let write = copy.write;
        self.end_copy(number, write);
        self.copies.retry_at = Some(self.now + RETRY_AFTER);
        self.copies.wants = true;
    }

    /// Take a copy back that was not issued, or is finished.
    fn end_copy(&mut self, number: u32, write: WriteIndex) {
        let Some(copy) = self.copies.active[number as usize].take() else { return };
        let gone = self.writes.remove(write);
        let member = &mut self.members[copy.target];
        if gone.legs[copy.target] == OnLeg::Queued {
            member.queue.retain(|&queued| queued != write);
            member.owed_blocks -= u64::from(copy.span.blocks);
        }
        self.out.push(Action::Drop { io: copy.io });
        self.again = true;
    }

    pub(super) fn copy_progress(&mut self, index: WriteIndex) {
        let Write { copy: Some(number), legs, .. } = *self.writes.get(index) else { return };
        let Some(copy) = &self.copies.active[number as usize] else { return };
        let (target, span, repair) = (copy.target, copy.span, copy.repair);
        let done = planted!(self.config.rules, FillWithoutFlush) && legs[target] == OnLeg::Done;
        if legs[target] != OnLeg::Durable && !done {
            return;
        }
        self.stats.copied_blocks += u64::from(span.blocks);
        let member = &mut self.members[target];
        match repair {
            true => drop(member.bad.remove(&span.start)),
            false => member.out_of_sync.remove_span(span),
        }
        if done {
            member.done.retain(|&listed| listed != index);
        }
        self.end_copy(number, index);
        self.carried(target, span);
    }

    /// A copy carried along the writes that the target was not given: those that were done on the
    /// source when it began.
    pub(super) fn carried(&mut self, target: Slot, span: Span) {
        let chains = self.writes.chains.range(span.iter());
        let mut writes: Vec<WriteIndex> =
            chains.flat_map(|(_, chain)| chain.iter().copied()).collect();
        writes.sort_unstable();
        writes.dedup();
        for index in writes {
            let Write { span, legs, .. } = *self.writes.get(index);
            if legs[target] == OnLeg::None && !self.members[target].out_of_sync.touches(span) {
                self.writes.get_mut(index).legs[target] = OnLeg::Durable;
                self.writes.recheck_later(index);
            }
        }
    }

    /// A leg left. A copy to it ends; one from it ends unless its content is there already.
    pub(super) fn disown_copy(&mut self, leg: Slot, index: WriteIndex) {
        let Write { copy: Some(number), ready, .. } = *self.writes.get(index) else { return };
        let Some(copy) = &self.copies.active[number as usize] else { return };
        let (target, read_back) = (copy.target, ready);
        if target == leg {
            let copy = self.copies.active[number as usize].take().expect("it was there");
            self.writes.remove(index);
            if read_back {
                self.out.push(Action::Drop { io: copy.io });
            }
        } else if !read_back {
            let copy = self.copies.active[number as usize].take().expect("it was there");
            self.writes.remove(index);
            let member = &mut self.members[target];
            member.queue.retain(|&queued| queued != index);
            member.owed_blocks -= u64::from(copy.span.blocks);
        }
    }

    /// A leg left: begin anew when it is back.
    pub(super) fn abort_copies(&mut self, leg: Slot) {
        self.copies.cursor[leg] = 0;
        self.copies.retry_at = None;
    }
}

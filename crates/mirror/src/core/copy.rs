//! Copies between the legs: filling one that came back, repairing single blocks.
//!
//! A copy takes its place in the target's order of writes when its read begins, so whatever the
//! host writes meanwhile lands after it. It begins only when the source owes nothing there.

use std::collections::{BTreeMap, BTreeSet};

use sim::{Nanos, snapshot_enum, snapshot_fields};

use super::Core;
use super::event::{Action, Io, IoError};
use super::io::{Purpose, WriteIndex};
use super::member::State;
use super::writes::{OnLeg, Write};
use crate::mutant::planted;
use crate::policy::expect::Work;
use crate::types::{Block, LEGS, Slot, Span, other};

/// A block that could not be copied is tried again this much later.
const RETRY_AFTER: Nanos = Nanos::from_millis(100);

/// A block is given up after so many failures while its leg answered other reads in between: a leg
/// that answers none may have lost its cable, and nothing on it is lost.
const TRIES: u32 = 2;

/// While a leg is filled, this many times the copies that move at once may wait for a flush.
const PER_FLUSH: usize = 16;

/// Regions that are copied block by block at a time.
const PIECES_MAX: usize = 64;

/// What a copy is for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Kind {
    /// A whole region of a leg that is filled.
    #[default]
    Region,
    /// One block of a region that could not be read as a whole.
    Piece,
    /// A single wrong block of a member.
    Repair,
}

#[derive(Clone, Default, Debug)]
struct Copy {
    /// The other leg; or the target itself, whose own copy may be the right one.
    source: Slot,
    target: Slot,
    span: Span,
    /// The read, whose buffer is the content.
    io: Io,
    write: WriteIndex,
    /// What the table said when it began.
    expected: Vec<Option<(u32, u32)>>,
    kind: Kind,
}

/// A region that could not be read as a whole. The target is given the host's writes there.
#[derive(Clone, Default, Debug)]
struct Pieces {
    target: Slot,
    span: Span,
    todo: BTreeSet<Block>,
}

/// A block that could not be copied.
#[derive(Clone, Copy, Default, Debug)]
struct Suspect {
    tries: u32,
    /// Reads that the source had answered at the last try.
    answered: u64,
    again_at: Nanos,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    active: Vec<Option<Copy>>,
    cursor: [u64; LEGS],
    pieces: Vec<Pieces>,
    /// By target and block.
    suspects: BTreeMap<(Slot, Block), Suspect>,
    wants: bool,
}

snapshot_enum!(Kind { Region, Piece, Repair });
snapshot_fields!(Copy { source, target, span, io, write, expected, kind });
snapshot_fields!(Pieces { target, span, todo });
snapshot_fields!(Suspect { tries, answered, again_at });
snapshot_fields!(Copies { active, cursor, pieces, suspects, wants });

impl Copies {
    pub(super) fn idle(&self) -> bool {
        self.active.iter().all(Option::is_none) && !self.wants
    }

    /// The buffer of a copy.
    pub(super) fn source(&self, copy: u32) -> Io {
        self.active[copy as usize].as_ref().expect("the copy is active").io
    }

    /// What a copy copies.
    pub(super) fn span(&self, copy: u32) -> Option<Span> {
        Some(self.active.get(copy as usize)?.as_ref()?.span)
    }

    /// Is a copy to this leg under way that touches `span`?
    pub(super) fn touches(&self, leg: Slot, span: Span) -> bool {
        self.moves(leg, span) || self.in_pieces(leg, span)
    }

    fn moves(&self, leg: Slot, span: Span) -> bool {
        self.active.iter().flatten().any(|copy| copy.target == leg && copy.span.overlaps(span))
    }

    fn in_pieces(&self, leg: Slot, span: Span) -> bool {
        self.pieces.iter().any(|pieces| pieces.target == leg && pieces.span.overlaps(span))
    }

    pub(super) fn none_for(&self, leg: Slot) -> bool {
        !self.active.iter().flatten().any(|copy| copy.target == leg)
    }

    /// Copies that have begun and are not durable yet.
    fn under_way(&self) -> usize {
        self.active.iter().flatten().count()
    }

    /// When the next block that failed is tried again.
    pub(super) fn retry_at(&self) -> Option<Nanos> {
        self.suspects.values().map(|suspect| suspect.again_at).min()
    }

    fn rests(&self, target: Slot, block: Block, now: Nanos) -> bool {
        self.suspects.get(&(target, block)).is_some_and(|suspect| suspect.again_at > now)
    }

    /// This block is no longer looked at.
    pub(super) fn clear(&mut self, block: Block) {
        for target in 0..LEGS {
            self.suspects.remove(&(target, block));
        }
    }
}

impl Core {
    pub(super) fn pump_copies(&mut self) {
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
                self.fill_pieces(target);
                self.fill(target);
            }
        }
    }

    fn repair(&mut self, target: Slot) {
        let bad: Vec<Block> = self.members[target].bad.iter().copied().collect();
        for block in bad {
            if !self.room_for_copy(target) {
                return;
            }
            self.copy_block(target, block, Kind::Repair);
        }
    }

    /// Copy one block from the other leg, if that can begin now.
    fn copy_block(&mut self, target: Slot, block: Block, kind: Kind) {
        let (source, span) = (other(target), Span::new(block, 1));
        if !self.copies.rests(target, block, self.now) && self.may_copy(source, target, span) {
            self.begin_copy(source, target, span, kind);
        }
    }

    fn room_for_copy(&self, target: Slot) -> bool {
        self.copies.under_way() < self.config.copies_max * PER_FLUSH
            && self.copies_moving(target) < self.config.copies_max
    }

    /// Go on with the regions that are copied block by block.
    fn fill_pieces(&mut self, target: Slot) {
        let mut nth = 0;
        while nth < self.copies.pieces.len() {
            let Pieces { target: leg, span, todo } = self.copies.pieces[nth].clone();
            if leg != target {
                nth += 1;
                continue;
            }
            for &block in &todo {
                if self.table.is_lost(block) && self.writes.newest(block).is_none() {
                    // There is nothing to copy. What is written from now on goes to both.
                    self.copies.pieces[nth].todo.remove(&block);
                } else if self.room_for_copy(target) {
                    self.copy_block(target, block, Kind::Piece);
                }
            }
            // Nobody may think that the target has it all before media knows what is lost.
            let recorded = self.marks_recorded(span);
            if self.copies.pieces[nth].todo.is_empty() && recorded {
                self.copies.pieces.remove(nth);
                self.members[target].out_of_sync.remove_span(span);
                self.carried(target, span);
                self.again = true;
            } else {
                nth += 1;
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
            if !self.room_for_copy(target) || self.copies.pieces.len() >= PIECES_MAX {
                return;
            }
            let span = self.members[target].out_of_sync.span(region, self.geometry.blocks);
            let source = other(target);
            if !self.copies.in_pieces(target, span) && self.may_copy(source, target, span) {
                match self.table.first_lost(span) {
                    None => self.begin_copy(source, target, span, Kind::Region),
                    Some(_) => self.cut_region(target, span),
                }
                self.copies.cursor[target] = region + 1;
            }
            from = region + 1;
        }
    }

    /// Copy a region block by block.
    fn cut_region(&mut self, target: Slot, span: Span) {
        self.copies.pieces.push(Pieces { target, span, todo: span.iter().collect() });
        self.again = true;
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
    fn may_copy(&self, source: Slot, target: Slot, span: Span) -> bool {
        if self.copies.moves(target, span) {
            return false;
        }
        if planted!(self.config.rules, CopyUnordered) {
            return true;
        }
        !self.writes.chains(span).flatten().any(|&index| {
            matches!(self.writes.get(index).legs[source], OnLeg::Queued | OnLeg::Issued)
        })
    }

    fn begin_copy(&mut self, source: Slot, target: Slot, span: Span, kind: Kind) {
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
        let copy = Copy { source, target, span, io, write, expected, kind };
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
        let own = copy.source == copy.target;
        let right = result.is_ok_and(|sums| {
            let blocks = copy.span.iter().zip(sums).zip(&copy.expected);
            { blocks }.all(|((block, sum), expected)| {
                // A write meanwhile makes any content right: it lands on the target after this.
                let moved =
                    self.writes.newest(block).is_some() || self.table.get(block) != *expected;
                moved || expected.map_or(!own, |(wanted, _)| wanted == *sum)
            })
        });
        let write = copy.write;
        if right || (result.is_ok() && planted!(self.config.rules, SkipVerify)) {
            self.writes.get_mut(write).ready = true;
            return;
        }
        // The source is wrong too: never copy that.
        let (target, span, kind) = (copy.target, copy.span, copy.kind);
        self.end_copy(number, write);
        match kind {
            Kind::Region => self.cut_region(target, span),
            _ if own => self.lose(span.start),
            _ => self.copy_failed(target, span.start, kind, result.is_ok()),
        }
    }

    /// A block could not be read from the other leg, or is wrong there. Perhaps the next time;
    /// else the target's own copy may be what the table says; else it is lost.
    fn copy_failed(&mut self, target: Slot, block: Block, kind: Kind, read: bool) {
        let (source, now) = (other(target), self.now);
        let answered = self.members[source].answered;
        let first = Suspect { tries: 0, answered, again_at: now };
        let suspect = self.copies.suspects.entry((target, block)).or_insert(first);
        let alive = read || answered > suspect.answered;
        suspect.tries += u32::from(alive || planted!(self.config.rules, LoseAtOnce));
        (suspect.answered, suspect.again_at) = (answered, now + RETRY_AFTER);
        if suspect.tries < TRIES || self.writes.newest(block).is_some() {
            // Does the leg answer anything at all?
            return self.look_elsewhere(source, block);
        }
        let span = Span::new(block, 1);
        match self.table.get(block) {
            Some(_) if self.may_copy(target, target, span) => {
                self.begin_copy(target, target, span, kind);
            }
            Some(_) => {}
            None => self.lose(block),
        }
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
        let (source, target, span, kind) = (copy.source, copy.target, copy.span, copy.kind);
        let done = planted!(self.config.rules, FillWithoutFlush) && legs[target] == OnLeg::Done;
        if legs[target] != OnLeg::Durable && !done {
            return;
        }
        self.stats.copied_blocks += u64::from(span.blocks);
        self.copies.suspects.remove(&(target, span.start));
        let member = &mut self.members[target];
        match kind {
            Kind::Region => member.out_of_sync.remove_span(span),
            Kind::Repair => {
                member.bad.remove(&span.start);
            }
            Kind::Piece => {
                for pieces in self.copies.pieces.iter_mut().filter(|it| it.target == target) {
                    pieces.todo.remove(&span.start);
                }
            }
        }
        if done {
            member.done.retain(|&listed| listed != index);
        }
        if source == target {
            self.mark_bad(other(target), span.start);
        }
        self.end_copy(number, index);
        self.carried(target, span);
    }

    /// A copy carried along the writes that the target was not given: those that were done on the
    /// source when it began.
    pub(super) fn carried(&mut self, target: Slot, span: Span) {
        let mut writes: Vec<WriteIndex> = self.writes.chains(span).flatten().copied().collect();
        writes.sort_unstable();
        writes.dedup();
        self.carried_along(target, writes);
    }

    /// Those of `writes` that the target holds although it was not given them.
    pub(super) fn carried_along(&mut self, target: Slot, writes: Vec<WriteIndex>) {
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

    /// No leg is left: no copy goes on. The buffer of one that is still being read goes when its
    /// read ends.
    pub(super) fn forget_copies(&mut self) {
        for copy in std::mem::take(&mut self.copies).active.into_iter().flatten() {
            if self.writes.get(copy.write).ready {
                self.out.push(Action::Drop { io: copy.io });
            }
        }
    }

    /// A leg left: begin anew when it is back.
    pub(super) fn abort_copies(&mut self, leg: Slot) {
        self.copies.cursor[leg] = 0;
        self.copies.pieces.retain(|pieces| pieces.target != leg);
        self.copies.suspects.clear();
    }
}

//! Blocks that can be read from no leg, and how they are told from their neighbours.
//!
//! A lost block has a mark in the table instead of a checksum. It is read as an error and copied
//! nowhere, so nobody is given zeros or old content for it. A host write over it lifts the mark.
//! A start believes the mark, whatever the legs hold: so no write over it is promised, or
//! forgotten, before media says that it is no longer lost.

use std::collections::BTreeSet;

use sim::{mix64, snapshot_fields};

use super::Core;
use super::event::{Action, Io, Notice};
use super::io::{Purpose, WriteIndex};
use super::member::State;
use super::table::Table;
use crate::mutant::planted;
use crate::policy::ack::Copies;
use crate::policy::expect::Work;
use crate::types::{Block, LEGS, Slot, Span};

/// Blocks of a leg that are looked at one by one, at most: a scrub finds the rest.
const DOUBTED_MAX: usize = 4096;
/// Pages of the table that are recorded at once because of their marks.
const RECORDED_MAX: usize = 64;

/// Pages of the table whose marks media does not know yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    unrecorded: BTreeSet<u64>,
    /// Those that are being written.
    recording: BTreeSet<u64>,
}

/// Reads of several blocks failed: which of them cannot be read?
#[derive(Clone, Debug, Default)]
pub(super) struct Doubts {
    blocks: BTreeSet<Block>,
    /// One of them, or another one, is being read.
    looking: bool,
    /// Other blocks that were read only to see whether the leg answers.
    others: u64,
}

snapshot_fields!(Marks { unrecorded, recording });
snapshot_fields!(Doubts { blocks, looking, others });

impl Marks {
    pub(super) fn is_empty(&self) -> bool {
        self.unrecorded.is_empty() && self.recording.is_empty()
    }

    /// The pages to write now; [`Marks::recorded`] says that they are.
    pub(super) fn record(&mut self) -> Vec<u64> {
        let pages: Vec<u64> = self.unrecorded.iter().copied().take(RECORDED_MAX).collect();
        self.unrecorded.retain(|page| !pages.contains(page));
        self.recording.extend(&pages);
        pages
    }

    pub(super) fn recorded(&mut self) {
        self.recording.clear();
    }
}

impl Doubts {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && !self.looking
    }
}

impl Core {
    /// The content of a block could be read from no leg.
    pub(super) fn lose(&mut self, block: Block) {
        if self.writes.newest(block).is_some() {
            // What it is going to hold is in memory.
            return;
        }
        self.copies.clear(block);
        self.table.lose(block);
        self.marks.unrecorded.insert(Table::page_of(block));
        for member in &mut self.members {
            member.bad.remove(&block);
            member.doubts.blocks.remove(&block);
        }
        self.out.push(Action::Notice(Notice::Lost(block)));
        self.again = true;
    }

    /// Does media know which blocks of the span are lost, and which no longer are?
    pub(super) fn marks_recorded(&self, span: Span) -> bool {
        let marks = &self.marks;
        marks.is_empty()
            || (Table::page_of(span.start)..=Table::page_of(span.end() - 1))
                .all(|page| !marks.unrecorded.contains(&page) && !marks.recording.contains(&page))
    }

    /// Would a start still call lost what this write wrote?
    pub(super) fn is_marked(&self, index: WriteIndex) -> bool {
        let write = self.writes.get(index);
        let lost = || self.table.first_lost(write.span).is_some();
        write.lifts
            && (lost() || !self.marks_recorded(write.span))
            && !planted!(self.config.rules, LiftLate)
    }

    /// A write is durable on every leg: what it wrote is lost no longer.
    pub(super) fn lift(&mut self, index: WriteIndex, copies: &Copies) {
        let write = self.writes.get(index);
        if !write.lifts || !copies.homes_durable() {
            return;
        }
        while let Some(block) = self.table.first_lost(write.span) {
            self.table.forget(block);
            if !planted!(self.config.rules, LiftLate) {
                self.marks.unrecorded.insert(Table::page_of(block));
            }
            self.again = true;
        }
    }

    /// Media knows the marks that were written.
    pub(super) fn marks_done(&mut self) {
        self.marks.recorded();
        self.writes.recheck_all = true;
        self.again = true;
    }

    /// A read of these blocks failed on the leg, but not on the other: which of them is bad?
    pub(super) fn doubt(&mut self, leg: Slot, span: Span) {
        // Nobody reads from it, and nothing may be out on it when it is taken back.
        if self.members[leg].state != State::Member {
            return;
        }
        if span.blocks == 1 || planted!(self.config.rules, CondemnSpan) {
            span.iter().for_each(|block| self.mark_bad(leg, block));
            return;
        }
        let doubted = &mut self.members[leg].doubts.blocks;
        let room = DOUBTED_MAX.saturating_sub(doubted.len());
        doubted.extend(span.iter().take(room));
        self.again = true;
    }

    /// Read what is in doubt, a block at a time.
    pub(super) fn pump_doubts(&mut self) {
        for leg in 0..LEGS {
            let Doubts { blocks, looking, .. } = &self.members[leg].doubts;
            if let (Some(&block), false) = (blocks.first(), looking) {
                self.look(leg, block);
            }
        }
    }

    fn look(&mut self, leg: Slot, block: Block) {
        self.members[leg].doubts.looking = true;
        let span = Span::new(block, 1);
        let io = self.issue(leg, Purpose::Look { block }, Work::Read, span);
        self.out.push(Action::Read { io, slot: leg, span });
    }

    /// A block of the leg cannot be read: can another one?
    pub(super) fn look_elsewhere(&mut self, leg: Slot, block: Block) {
        let (doubts, blocks) = (&mut self.members[leg].doubts, self.geometry.blocks);
        if !doubts.looking && blocks > 1 {
            doubts.others += 1;
            let ahead = 1 + mix64(doubts.others) % (blocks - 1);
            self.look(leg, (block + ahead) % blocks);
        }
    }

    pub(super) fn look_done(&mut self, io: Io, leg: Slot, block: Block, ok: bool) {
        self.out.push(Action::Drop { io });
        let doubts = &mut self.members[leg].doubts;
        doubts.looking = false;
        if doubts.blocks.remove(&block) && !ok {
            self.mark_bad(leg, block);
        }
    }
}

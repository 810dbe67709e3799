//! Scrub: read both legs from the first block to the last and compare.

use sim::snapshot_fields;

use super::Core;
use super::event::{Action, Io, IoError, Notice};
use super::io::Purpose;
use super::member::State;
use crate::policy::expect::Work;
use crate::policy::verify::{self, Verdict};
use crate::types::{LEGS, Slot, Span};

/// Blocks compared at once.
const BLOCKS: u64 = 16;

type Sums = Option<Vec<u32>>;

#[derive(Clone, Default, Debug)]
struct Comparison {
    span: Span,
    expected: Vec<Option<(u32, u32)>>,
    got: [Option<Sums>; LEGS],
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scrub {
    active: bool,
    next: u64,
    /// Up to here block by block: one of these could not be read, and the others are compared.
    singly: u64,
    turn: Option<Comparison>,
    turns: u64,
}

snapshot_fields!(Comparison { span, expected, got });
snapshot_fields!(Scrub { active, next, singly, turn, turns });

impl Scrub {
    pub(super) fn idle(&self) -> bool {
        !self.active
    }

    /// Where a turn is.
    pub(super) fn span(&self, turn: u64) -> Option<Span> {
        self.turn.as_ref().filter(|_| turn == self.turns).map(|turn| turn.span)
    }

    /// The next block to compare.
    pub(super) fn position(&self) -> Option<u64> {
        self.active.then_some(self.next)
    }
}

impl Core {
    pub(super) fn scrub_start(&mut self) {
        let members = (0..LEGS).all(|leg| self.members[leg].state == State::Member);
        if members && !self.scrub.active {
            (self.scrub.active, self.scrub.next, self.scrub.singly) = (true, 0, 0);
        }
    }

    /// A leg left: there is nothing to compare with.
    pub(super) fn abort_scrub(&mut self) {
        (self.scrub.active, self.scrub.turn) = (false, None);
        self.scrub.turns += 1;
    }

    pub(super) fn pump_scrub(&mut self) {
        if !self.scrub.active || self.scrub.turn.is_some() {
            return;
        }
        // What cannot be read is looked at block by block first.
        if self.members.iter().any(|member| !member.doubts.is_empty()) {
            return;
        }
        let mut start = self.scrub.next;
        let singly = self.scrub.singly;
        let marked = |block| (0..LEGS).any(|leg| self.members[leg].bad.contains(&block));
        // What is known to be wrong is being repaired, and may not be readable yet.
        while start < self.geometry.blocks
            && (self.table.is_lost(start) || (start < singly && marked(start)))
        {
            start += 1;
        }
        if start >= self.geometry.blocks {
            self.scrub.active = false;
            self.out.push(Action::Notice(Notice::Scrubbed));
            return;
        }
        let most = if start < singly { 1 } else { BLOCKS };
        let mut span = Span::new(start, (self.geometry.blocks - start).min(most) as u32);
        if let Some(lost) = self.table.first_lost(span) {
            span.blocks = (lost - start) as u32;
        }
        self.scrub.next = span.end();
        self.scrub.turns += 1;
        let turn = self.scrub.turns;
        let expected = span.iter().map(|block| self.table.get(block)).collect();
        self.scrub.turn = Some(Comparison { span, expected, got: [None, None] });
        for leg in 0..LEGS {
            let io = self.issue(leg, Purpose::Scrub { turn }, Work::Read, span);
            self.out.push(Action::Read { io, slot: leg, span });
        }
    }

    pub(super) fn scrub_read(
        &mut self,
        io: Io,
        leg: Slot,
        number: u64,
        result: Result<&[u32], IoError>,
    ) {
        self.out.push(Action::Drop { io });
        if number != self.scrub.turns {
            return;
        }
        let Some(turn) = &mut self.scrub.turn else { return };
        turn.got[leg] = Some(result.ok().map(Into::into));
        if let Comparison { got: [Some(a), Some(b)], span, expected } = turn {
            let (sums, span) = ([a.take(), b.take()], *span);
            let expected = std::mem::take(expected);
            self.scrub.turn = None;
            self.compare(span, &expected, &sums);
        }
    }

    fn compare(&mut self, span: Span, expected: &[Option<(u32, u32)>], sums: &[Sums; LEGS]) {
        let failed = [sums[0].is_none(), sums[1].is_none()];
        for leg in (0..LEGS).filter(|&leg| failed[leg]) {
            self.doubt(leg, span);
        }
        if failed.contains(&true) {
            if span.blocks > 1 {
                (self.scrub.next, self.scrub.singly) = (span.start, span.end());
            }
            return;
        }
        for (nth, block) in span.iter().enumerate() {
            // What was written meanwhile differs rightly, and is compared next time.
            let known = self.table.get(block);
            let marked = (0..LEGS).any(|leg| self.members[leg].bad.contains(&block));
            if self.writes.newest(block).is_some() || known != expected[nth] || marked {
                continue;
            }
            let sum = |leg: Slot| sums[leg].as_ref().map(|sums| sums[nth]);
            let read = [sum(0), sum(1)];
            let recorded = known.map(|(sum, _)| sum);
            match verify::copies(&self.config.rules, recorded, read) {
                Verdict::Same => {
                    if let Some(sum) = read[0].filter(|&sum| recorded != Some(sum)) {
                        self.table.set(block, sum, 1);
                    }
                }
                Verdict::Wrong(leg) => self.mark_bad(leg, block),
                Verdict::Unknown => self.out.push(Action::Notice(Notice::Undecided(block))),
            }
        }
    }
}

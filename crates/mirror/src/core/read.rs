//! Reads: from memory where a write is unfinished, else from a leg that is current; late ones are
//! asked of the other leg too, and every answer is compared with the recorded checksum.

use std::collections::BTreeMap;

use sim::{Nanos, snapshot_fields};

use super::Core;
use super::event::{Action, HostId, Io, IoError, Notice, Source};
use super::io::Purpose;
use super::member::State;
use crate::mutant::planted;
use crate::policy::expect::{Class, Work};
use crate::policy::route::{self, Sources};
use crate::policy::verify::{self, Verdict};
use crate::types::{Block, LEGS, Slot, Span, other};

#[derive(Clone, Copy, Default, Debug)]
struct HostRead {
    /// Parts that are not delivered.
    left: u32,
    failed: bool,
    /// It is the first half of a partial write.
    merge: bool,
}

/// What one leg answered.
#[derive(Clone, Default, Debug)]
struct Answer {
    io: Io,
    /// `None` for an error.
    sums: Option<Vec<u32>>,
}

#[derive(Clone, Default, Debug)]
struct Part {
    id: HostId,
    offset: u32,
    span: Span,
    asked: [Option<Io>; LEGS],
    /// Answers that did not match, whose buffers are kept.
    got: [Option<Answer>; LEGS],
    /// What the table said when the part began.
    expected: Vec<Option<(u32, u32)>>,
    hedge_at: Option<Nanos>,
    /// It failed on every leg before.
    again: bool,
}

impl Part {
    /// The checksum that a leg answered for a block, if it did.
    fn sum(&self, nth: usize, leg: Slot) -> Option<u32> {
        self.got[leg].as_ref()?.sums.as_ref().map(|sums| sums[nth])
    }
}

/// The host's reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    open: BTreeMap<HostId, HostRead>,
    parts: Vec<Option<Part>>,
    free: Vec<u32>,
}

snapshot_fields!(HostRead { left, failed, merge });
snapshot_fields!(Answer { io, sums });
snapshot_fields!(Part { id, offset, span, asked, got, expected, hedge_at, again });
snapshot_fields!(Reads { open, parts, free });

impl Reads {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Where a part is.
    pub(super) fn span(&self, part: u32) -> Option<Span> {
        Some(self.parts.get(part as usize)?.as_ref()?.span)
    }

    /// When the next part is late.
    pub(super) fn hedge_next(&self) -> Option<Nanos> {
        self.parts.iter().flatten().filter_map(|part| part.hedge_at).min()
    }
}

/// Where a block is read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Memory { id: HostId, start: Block },
    Leg(Slot),
    Nowhere,
}

impl Core {
    pub(super) fn host_read(&mut self, id: HostId, span: Span) {
        self.begin_read(id, span, false);
    }

    pub(super) fn read_to_merge(&mut self, id: HostId, span: Span) {
        self.begin_read(id, span, true);
    }

    fn begin_read(&mut self, id: HostId, span: Span, merge: bool) {
        self.again = true;
        // One part more than there is keeps it open until all of them are counted.
        self.reads.open.insert(id, HostRead { left: 1, failed: self.failed, merge });
        if !self.failed {
            self.split(id, span, 0, false);
        }
        self.part_ends(id, false);
    }

    /// Does the leg hold the newest content of these blocks, none of which has a live write?
    fn is_current(&self, leg: Slot, span: Span) -> bool {
        let bad = &self.members[leg].bad;
        self.is_in_sync(leg, span) && (bad.is_empty() || bad.range(span.iter()).next().is_none())
    }

    /// The same, whatever was found wrong there.
    fn is_in_sync(&self, leg: Slot, span: Span) -> bool {
        let member = &self.members[leg];
        member.state.is_used()
            && self.table.first_lost(span).is_none()
            && (!member.out_of_sync.touches(span) || planted!(self.config.rules, ReadOutOfSync))
    }

    fn sources(&self, span: Span) -> Sources {
        let expected = |leg: Slot| {
            let member = &self.members[leg];
            member.expected.p95(Class::new(Work::Read, span.blocks, member.outstanding)).0
        };
        Sources {
            current: std::array::from_fn(|leg| self.is_current(leg, span)),
            lagging: std::array::from_fn(|leg| self.members[leg].pace.lagging),
            expected_ns: std::array::from_fn(expected),
        }
    }

    fn from(&self, block: Block) -> From {
        let skip = planted!(self.config.rules, IgnoreMemory);
        if let Some(write) = self.writes.newest(block)
            && !skip
        {
            return From::Memory { id: write.id, start: write.span.start };
        }
        match route::first(&self.config.rules, &self.sources(Span::new(block, 1))) {
            Some(leg) => From::Leg(leg),
            // Better a copy that was wrong once than none: its checksum tells.
            None if self.table.get(block).is_some() => {
                let span = Span::new(block, 1);
                let leg = (0..LEGS).find(|&leg| self.is_in_sync(leg, span));
                leg.map_or(From::Nowhere, From::Leg)
            }
            None => From::Nowhere,
        }
    }

    /// Cut a read into parts that come from one place each.
    fn split(&mut self, id: HostId, span: Span, offset: u32, again: bool) {
        let mut start = span.start;
        while start < span.end() {
            let from = self.from(start);
            let mut end = start + 1;
            // What failed as a whole is read block by block.
            while !again && end < span.end() && self.from(end) == from {
                end += 1;
            }
            let part = Span::new(start, (end - start) as u32);
            let offset = offset + (start - span.start) as u32;
            match from {
                From::Memory { id: write, start: first } => {
                    let from = Source::Host { id: write, offset: (start - first) as u32 };
                    let blocks = part.blocks;
                    self.out.push(Action::Deliver { id, offset, blocks, from });
                }
                From::Leg(leg) => self.begin_part(id, part, offset, leg, again),
                From::Nowhere => {
                    if let Some(read) = self.reads.open.get_mut(&id) {
                        read.failed = true;
                    }
                }
            }
            start = end;
        }
    }

    fn begin_part(&mut self, id: HostId, span: Span, offset: u32, leg: Slot, again: bool) {
        let expected = span.iter().map(|block| self.table.get(block)).collect();
        let part = Part {
            id,
            offset,
            span,
            asked: [None; LEGS],
            got: [None, None],
            expected,
            hedge_at: None,
            again,
        };
        let index = match self.reads.free.pop() {
            Some(index) => {
                self.reads.parts[index as usize] = Some(part);
                index
            }
            None => {
                self.reads.parts.push(Some(part));
                self.reads.parts.len() as u32 - 1
            }
        };
        if let Some(read) = self.reads.open.get_mut(&id) {
            read.left += 1;
        }
        self.stats.leg_reads += 1;
        let member = &self.members[leg];
        let class = Class::new(Work::Read, span.blocks, member.outstanding);
        let p95 = member.expected.p95(class);
        self.ask(index, leg);
        if let Some(part) = &mut self.reads.parts[index as usize] {
            part.hedge_at = Some(self.now.saturating_add(p95));
        }
    }

    fn ask(&mut self, index: u32, leg: Slot) {
        let Some(part) = &self.reads.parts[index as usize] else { return };
        let span = part.span;
        let io = self.issue(leg, Purpose::Part { part: index }, Work::Read, span);
        self.out.push(Action::Read { io, slot: leg, span });
        if let Some(part) = &mut self.reads.parts[index as usize] {
            part.asked[leg] = Some(io);
        }
    }

    /// Ask the other leg for parts that are late, within the budget.
    pub(super) fn hedge(&mut self) {
        for index in 0..self.reads.parts.len() {
            let Some(part) = &mut self.reads.parts[index] else { continue };
            if part.hedge_at.is_none_or(|at| at > self.now) {
                continue;
            }
            part.hedge_at = None;
            let (span, asked) = (part.span, part.asked);
            let budget = self.stats.leg_reads * self.config.hedge_percent / 100 + 1;
            let ([Some(_), None] | [None, Some(_)]) = asked else { continue };
            let first = usize::from(asked[0].is_none());
            if self.stats.hedges < budget
                && let Some(leg) = route::hedge(&self.config.rules, &self.sources(span), first)
            {
                self.stats.hedges += 1;
                self.ask(index as u32, leg);
            }
        }
    }

    pub(super) fn part_done(
        &mut self,
        io: Io,
        index: u32,
        leg: Slot,
        result: Result<&[u32], IoError>,
    ) {
        let part = self.reads.parts.get_mut(index as usize).and_then(Option::as_mut);
        let Some(part) = part.filter(|part| part.asked[leg] == Some(io)) else {
            // The other leg was faster.
            self.out.push(Action::Drop { io });
            return;
        };
        part.asked[leg] = None;
        let fits = |sums: &[u32]| {
            let pairs = sums.iter().zip(&part.expected);
            { pairs }.all(|(sum, expected)| expected.is_none_or(|(wanted, _)| wanted == *sum))
        };
        let blind = self.config.rules.blind();
        if result.is_ok_and(|sums| fits(sums) || blind) {
            let answer = Answer { io, sums: result.ok().map(Into::into) };
            return self.part_right(index, leg, answer);
        }
        let answer = Answer { io, sums: result.ok().map(Into::into) };
        part.got[leg] = Some(answer);
        let (span, second) = (part.span, other(leg));
        let (waits, asked_before) = (part.asked[second].is_some(), part.got[second].is_some());
        // A copy that was wrong once is worth a try if its checksum is known.
        let known = part.expected.iter().all(Option::is_some);
        if self.changed(index) {
            return self.restart(index);
        }
        if waits {
            return;
        }
        let able = self.is_current(second, span) || (known && self.is_in_sync(second, span));
        match !asked_before && able {
            true => self.ask(index, second),
            false => self.judge(index),
        }
    }

    /// Did a write touch the part since it began? Then what was read may be old, rightly.
    fn changed(&self, index: u32) -> bool {
        let Some(part) = &self.reads.parts[index as usize] else { return false };
        part.span.iter().zip(&part.expected).any(|(block, expected)| {
            self.writes.newest(block).is_some() || self.table.get(block) != *expected
        })
    }

    fn take_part(&mut self, index: u32) -> Part {
        self.reads.free.push(index);
        self.reads.parts[index as usize].take().expect("the part is open")
    }

    fn drop_answers(&mut self, part: &Part) {
        for answer in part.got.iter().flatten() {
            self.out.push(Action::Drop { io: answer.io });
        }
    }

    fn restart(&mut self, index: u32) {
        let part = self.take_part(index);
        self.drop_answers(&part);
        self.split(part.id, part.span, part.offset, part.again);
        self.part_ends(part.id, false);
    }

    /// One leg's answer is right; the other's, if any, was wrong.
    fn part_right(&mut self, index: u32, leg: Slot, answer: Answer) {
        let part = self.take_part(index);
        let (id, offset, blocks) = (part.id, part.offset, part.span.blocks);
        let from = Source::Read { io: answer.io, offset: 0 };
        self.out.push(Action::Deliver { id, offset, blocks, from });
        self.out.push(Action::Drop { io: answer.io });
        if let Some(wrong) = &part.got[other(leg)] {
            match &wrong.sums {
                None => self.doubt(other(leg), part.span),
                Some(sums) => {
                    for ((block, sum), expected) in part.span.iter().zip(sums).zip(&part.expected) {
                        if expected.is_some_and(|(right, _)| right != *sum) {
                            self.mark_bad(other(leg), block);
                        }
                    }
                }
            }
        }
        self.drop_answers(&part);
        self.part_ends(id, false);
    }

    /// What the answers say of one block, and the leg that has it right.
    fn verdict(&self, part: &Part, nth: usize) -> (Verdict, Option<Slot>) {
        let sums = [part.sum(nth, 0), part.sum(nth, 1)];
        let recorded = part.expected[nth].map(|(sum, _)| sum);
        let verdict = verify::copies(&self.config.rules, recorded, sums);
        let right = match verdict {
            Verdict::Same => Some(0),
            // An answer that errs proves the other right only if the table agrees.
            Verdict::Wrong(leg) => {
                let good = sums[other(leg)];
                (good.is_some() && (recorded.is_none() || good == recorded)).then_some(other(leg))
            }
            Verdict::Unknown => None,
        };
        (verdict, right)
    }

    /// No answer matches the table: see what the two say together.
    fn judge(&mut self, index: u32) {
        let part = self.take_part(index);
        let mut blocks = 0..part.span.blocks as usize;
        if !part.again && blocks.any(|nth| self.verdict(&part, nth).1.is_none()) {
            // Nobody has it right: perhaps the next time.
            self.drop_answers(&part);
            self.split(part.id, part.span, part.offset, true);
            return self.part_ends(part.id, false);
        }
        let mut failed = false;
        for (nth, block) in part.span.iter().enumerate() {
            let (verdict, right) = self.verdict(&part, nth);
            let both = part.got.iter().all(Option::is_some);
            let Some(leg) = right else {
                failed = true;
                self.nobody_has(&part, nth, block);
                continue;
            };
            if let Some(answer) = &part.got[leg] {
                let from = Source::Read { io: answer.io, offset: nth as u32 };
                let offset = part.offset + nth as u32;
                self.out.push(Action::Deliver { id: part.id, offset, blocks: 1, from });
            }
            match verdict {
                Verdict::Wrong(wrong) if both => self.mark_bad(wrong, block),
                Verdict::Same => {
                    if let Some(sum) = part.sum(nth, leg) {
                        self.table.set(block, sum, 1);
                    }
                }
                _ => {}
            }
        }
        self.drop_answers(&part);
        self.part_ends(part.id, failed);
    }

    /// The host is told of an error. Copies that cannot be read, or that the table condemns, are
    /// tried again; if that is in vain the block is lost.
    fn nobody_has(&mut self, part: &Part, nth: usize, block: Block) {
        let sums = [part.sum(nth, 0), part.sum(nth, 1)];
        let notice = match sums {
            [Some(_), Some(_)] => Notice::Undecided(block),
            _ => Notice::Unreadable(block),
        };
        self.out.push(Action::Notice(notice));
        let recorded = part.expected[nth].map(|(sum, _)| sum);
        // Two copies that are wrong alike will read the same again; the next write heals them.
        let alike = sums[0].is_some() && sums[0] == sums[1];
        if part.got.iter().all(Option::is_some) && !alike {
            for (leg, sum) in sums.into_iter().enumerate() {
                if sum.is_none() || (recorded.is_some() && sum != recorded) {
                    self.mark_bad(leg, block);
                }
            }
        }
    }

    /// A copy is wrong: read the other until it is repaired.
    pub(super) fn mark_bad(&mut self, leg: Slot, block: Block) {
        let both = self.members[..LEGS].iter().all(|member| member.state.is_used());
        if self.members[leg].state == State::Member
            && both
            && !self.table.is_lost(block)
            && self.members[leg].bad.insert(block)
        {
            self.stats.mismatches += 1;
            self.out.push(Action::Notice(Notice::Mismatch(leg, block)));
            self.again = true;
        }
    }

    fn part_ends(&mut self, id: HostId, failed: bool) {
        let Some(read) = self.reads.open.get_mut(&id) else { return };
        read.failed |= failed;
        read.left -= 1;
        if read.left > 0 {
            return;
        }
        let HostRead { failed, merge, .. } = *read;
        self.reads.open.remove(&id);
        match (merge, failed) {
            (true, false) => self.out.push(Action::Merge { id }),
            (true, true) => {
                self.waiting.retain(|waiting| waiting.id() != id);
                self.out.push(Action::Reply { id, result: Err(IoError) });
                self.out.push(Action::Free { id });
            }
            (false, _) => {
                let result = if failed { Err(IoError) } else { Ok(()) };
                self.out.push(Action::Reply { id, result });
            }
        }
        self.again = true;
    }

    /// A leg left: what was asked of it is asked of the other.
    pub(super) fn reroute(&mut self, leg: Slot) {
        for index in 0..self.reads.parts.len() {
            let Some(part) = &mut self.reads.parts[index] else { continue };
            let was_asked = part.asked[leg].take().is_some();
            if was_asked && part.asked[other(leg)].is_none() {
                self.restart(index as u32);
            }
        }
    }

    pub(super) fn fail_reads(&mut self) {
        for part in std::mem::take(&mut self.reads.parts).into_iter().flatten() {
            self.drop_answers(&part);
        }
        self.reads.free.clear();
        for (id, read) in std::mem::take(&mut self.reads.open) {
            if !read.merge {
                self.out.push(Action::Reply { id, result: Err(IoError) });
            }
        }
    }
}

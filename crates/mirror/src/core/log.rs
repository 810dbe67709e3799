//! The log of one device: what is appended, what is unretired, what is stale.

use std::collections::{BTreeMap, VecDeque};

use sim::snapshot_fields;

use super::Core;
use super::event::{Action, Content, Piece};
use super::io::{Purpose, WriteIndex};
use super::member::State;
use super::writes::Logged;
use crate::format::record::{Entry, EntryKind, Record};
use crate::mutant::planted;
use crate::policy::expect::Work;
use crate::types::{Block, LEGS, Slot, Span};

/// Pages kept free so that a record that only retires others can always be written.
const RESERVE: u64 = 1;

/// A record that recovery would find, or might.
#[derive(Clone, Default, Debug)]
struct Kept {
    number: u64,
    pages: u64,
    /// Writes it names whose homes are not durable yet.
    open: u32,
    blocks: Vec<Span>,
}

/// What the log says of a block.
#[derive(Clone, Copy, Default, Debug)]
struct Said {
    number: u64,
    sequence: u64,
    payload: bool,
    durable: bool,
}

#[derive(Clone, Default, Debug)]
struct Append {
    number: u64,
    tail: u64,
    chain: u32,
    entries: Vec<(WriteIndex, u64, bool)>,
}

#[derive(Clone, Debug)]
pub(super) struct Log {
    capacity: u64,
    incarnation: u64,
    /// Records before this one are void by the superblock.
    first: u64,
    /// Where the next record goes.
    head: u64,
    pub(super) next_number: u64,
    /// Checksum of the last record, for its successor.
    chain: u32,
    kept: VecDeque<Kept>,
    /// The tail that media knows: records before it are void.
    durable_tail: u64,
    said: BTreeMap<Block, Vec<Said>>,
    wanted: VecDeque<(WriteIndex, u64, bool)>,
    append: Option<Append>,
    /// Something wanted has no room: the legs should be flushed and records retired.
    pub(super) short: bool,
}

snapshot_fields!(Kept { number, pages, open, blocks });
snapshot_fields!(Said { number, sequence, payload, durable });
snapshot_fields!(Append { number, tail, chain, entries });
snapshot_fields!(Log {
    capacity,
    incarnation,
    first,
    head,
    next_number,
    chain,
    kept,
    durable_tail,
    said,
    wanted,
    append,
    short,
});

impl Log {
    pub(super) fn new(pages: u32, first: u64, incarnation: u64) -> Log {
        Log {
            capacity: pages.into(),
            incarnation,
            first,
            head: 0,
            next_number: first,
            chain: 0,
            kept: VecDeque::new(),
            durable_tail: first,
            said: BTreeMap::new(),
            wanted: VecDeque::new(),
            append: None,
            short: false,
        }
    }

    /// Start over: everything written so far is void by the superblock's `log_first`.
    pub(super) fn reset(&mut self) {
        let first = self.next_number;
        *self = Log::new(self.capacity as u32, first, self.incarnation);
    }

    pub(super) fn first_of_run(&self) -> u64 {
        self.first
    }

    /// When media should learn that records are retired, though nothing else is appended.
    pub(super) fn owes_tail(&self) -> bool {
        let retired = self.kept.iter().take_while(|kept| kept.open == 0);
        // A record that only retires others need not be retired itself.
        self.append.is_none() && { retired }.any(|kept| !kept.blocks.is_empty())
    }

    pub(super) fn want(&mut self, index: WriteIndex, sequence: u64, payload: bool) {
        self.wanted.push_back((index, sequence, payload));
    }

    /// Does it say anything of these blocks?
    pub(super) fn names(&self, span: Span) -> bool {
        !self.said.is_empty() && self.said.range(span.iter()).next().is_some()
    }

    /// R2: would recovery replay an older payload over the write `sequence`?
    #[inline]
    pub(super) fn stale(&self, span: Span, sequence: u64) -> bool {
        if self.said.is_empty() {
            return false;
        }
        self.said.range(span.iter()).any(|(_, said)| {
            let older = |said: &Said| said.payload && said.sequence < sequence;
            let newer = |said: &Said| said.durable && said.sequence >= sequence;
            said.iter().any(older) && !said.iter().any(newer)
        })
    }

    /// The homes of one write that the record names are durable.
    pub(super) fn release(&mut self, number: u64) {
        if let Some(kept) = self.kept.iter_mut().find(|kept| kept.number == number) {
            kept.open -= 1;
        }
    }

    /// The first record that is needed.
    fn tail(&self) -> u64 {
        let open = self.kept.iter().find(|kept| kept.open > 0);
        open.map_or(self.next_number, |kept| kept.number)
    }

    fn free(&self) -> u64 {
        self.capacity - self.used()
    }

    /// Pages that may be needed.
    pub(super) fn used(&self) -> u64 {
        self.kept.iter().map(|kept| kept.pages).sum()
    }

    /// Where a record of so many pages goes and what it uses up, if there is room.
    fn place(&self, pages: u64, reserve: u64) -> Option<(u64, u64)> {
        let to_end = self.capacity - self.head;
        let (at, used) = match pages <= to_end {
            true => (self.head, pages),
            false => (0, to_end + pages),
        };
        (used + reserve <= self.free()).then_some((at, used))
    }

    /// Media knows a later tail: drop what is before it.
    fn advance(&mut self, tail: u64) {
        self.durable_tail = tail;
        while self.kept.front().is_some_and(|kept| kept.number < tail) {
            let kept = self.kept.pop_front().expect("it was there");
            for span in kept.blocks {
                for block in span.iter() {
                    if let Some(said) = self.said.get_mut(&block) {
                        said.retain(|said| said.number >= tail);
                        if said.is_empty() {
                            self.said.remove(&block);
                        }
                    }
                }
            }
        }
    }
}

impl Core {
    pub(super) fn want_payload(&mut self, index: WriteIndex, slot: Slot) {
        let member = self.members[slot].state == State::Member;
        let write = self.writes.get_mut(index);
        if member && write.payload[slot] == Logged::No {
            write.payload[slot] = Logged::Wanted;
            self.logs[slot].want(index, write.sequence, true);
            self.again = true;
        }
    }

    pub(super) fn want_reference(&mut self, index: WriteIndex, leg: Slot) {
        let member = self.members[leg].state == State::Member;
        let write = self.writes.get_mut(index);
        if member && write.reference[leg] == Logged::No {
            write.reference[leg] = Logged::Wanted;
            self.logs[leg].want(index, write.sequence, false);
            self.again = true;
        }
    }

    /// Append what is wanted, or a record that only retires others, one at a time.
    pub(super) fn pump_log(&mut self, slot: Slot) {
        if self.logs[slot].append.is_some() || self.members[slot].state != State::Member {
            return;
        }
        let entries = self.take_wanted(slot);
        if entries.is_empty() && !self.retires_usefully(slot) {
            return;
        }
        self.append(slot, entries);
    }

    /// Is a write kept, or room short, only because media does not know the tail?
    fn retires_usefully(&self, slot: Slot) -> bool {
        let log = &self.logs[slot];
        if !log.owes_tail() {
            return false;
        }
        let short = log.short || log.free() * 2 < log.capacity;
        short || self.members[slot].idle_tail(self.now) || self.stopping || {
            let kept = log.kept.iter().take_while(|kept| kept.open == 0);
            kept.flat_map(|kept| &kept.blocks).any(|span| {
                self.writes.chains(*span).flatten().any(|&index| {
                    let write = self.writes.get(index);
                    write.released && log.stale(write.span, write.sequence)
                })
            })
        }
    }

    /// The wanted entries that still make sense and fit into one record.
    fn take_wanted(&mut self, slot: Slot) -> Vec<(WriteIndex, u64, bool)> {
        let (mut entries, mut heads, mut pages) = (Vec::new(), Vec::new(), 1);
        self.logs[slot].short = false;
        while let Some(&(index, sequence, payload)) = self.logs[slot].wanted.front() {
            let useless = !self.still_wanted(slot, index, sequence, payload);
            if useless {
                self.logs[slot].wanted.pop_front();
                continue;
            }
            let write = self.writes.get(index);
            let has_payload = payload && write.content == Content::Data;
            let more = if has_payload { u64::from(write.span.blocks) } else { 0 };
            let log = &self.logs[slot];
            let room = log.place(pages + more, RESERVE).is_some();
            if !room || !Record::fits(&heads, write.sums.len()) {
                self.logs[slot].short = !room;
                break;
            }
            pages += more;
            heads.push(entry(write, payload));
            entries.push((index, sequence, payload));
            self.logs[slot].wanted.pop_front();
        }
        entries
    }

    /// Does the entry still make sense? If not, the write wants it no longer.
    fn still_wanted(
        &mut self,
        slot: Slot,
        index: WriteIndex,
        sequence: u64,
        payload: bool,
    ) -> bool {
        let log =
            !payload || self.writes.find(index, sequence).is_some() && self.may_log(slot, index);
        let Some(write) = self.writes.find(index, sequence) else { return false };
        let state = match payload {
            true => &mut write.payload[slot],
            false => &mut write.reference[slot],
        };
        if *state != Logged::Wanted {
            return false;
        }
        if write.satisfied || !log {
            *state = Logged::No;
            return false;
        }
        true
    }

    /// A payload must not appear in a log after a newer write of its blocks was promised: recovery
    /// would put it over that one.
    ///
    /// Nor may it follow a record of a newer write in the same log: that one is retired first, and
    /// this one would be all that the log says.
    fn may_log(&self, slot: Slot, index: WriteIndex) -> bool {
        let write = self.writes.get(index);
        let said = &self.logs[slot].said;
        let mut said = said.range(write.span.iter()).flat_map(|(_, said)| said);
        if said.any(|said| said.sequence > write.sequence)
            && !planted!(self.config.rules, LogOutOfOrder)
        {
            return false;
        }
        if planted!(self.config.rules, LogLate) {
            return true;
        }
        self.writes.chains(write.span).all(|chain| {
            let mut newer = chain.iter().rev().take_while(|&&newer| newer != index);
            !newer.any(|&newer| self.writes.get(newer).satisfied)
        })
    }

    fn append(&mut self, slot: Slot, entries: Vec<(WriteIndex, u64, bool)>) {
        let mut payload = Vec::new();
        let mut heads = Vec::with_capacity(entries.len());
        for &(index, _, has_payload) in &entries {
            let write = self.writes.get(index);
            let head = entry(write, has_payload);
            if head.kind == EntryKind::Payload {
                payload.push(Piece { id: write.id, span: write.span });
            }
            heads.push(head);
        }
        let epoch = self.writes.epoch;
        let log = &mut self.logs[slot];
        let number = log.next_number;
        let mut tail = log.tail();
        if planted!(self.config.rules, RetireAtOnce) {
            tail = number;
        }
        let incarnation = log.incarnation;
        let record =
            Record { number, tail, incarnation, epoch, previous: log.chain, entries: heads };
        let pages = 1 + u64::from(record.payload_pages());
        // Without entries the reserve is what it uses.
        let Some((page, used)) = log.place(pages, if entries.is_empty() { 0 } else { RESERVE })
        else {
            return;
        };
        log.next_number += 1;
        log.head = (page + pages) % log.capacity;
        let blocks = entries.iter().map(|&(index, ..)| self.writes.get(index).span).collect();
        let mut released = 0;
        for &(index, sequence, payload) in &entries {
            let write = self.writes.get_mut(index);
            match payload {
                true => write.payload[slot] = Logged::InFlight,
                false => write.reference[slot] = Logged::InFlight,
            }
            match write.released {
                true => released += 1,
                false => write.records.push((slot, number)),
            }
            let span = write.span;
            let said = Said { number, sequence, payload, durable: false };
            for block in span.iter() {
                self.logs[slot].said.entry(block).or_default().push(said);
            }
        }
        let open = entries.len() as u32 - released;
        self.logs[slot].kept.push_back(Kept { number, pages: used, open, blocks });
        let chain = record.chain();
        let work = Span::new(0, pages as u32);
        let io = self.issue(slot, Purpose::Record, Work::Write, work);
        self.logs[slot].append = Some(Append { number, tail, chain, entries });
        self.stats.records += 1;
        let record = Box::new(record);
        self.out.push(Action::Record { io, slot, page, record, payload });
    }

    pub(super) fn record_done(&mut self, slot: Slot) {
        let Some(append) = self.logs[slot].append.take() else { return };
        let log = &mut self.logs[slot];
        log.chain = append.chain;
        for said in log.said.values_mut().flatten().filter(|said| said.number == append.number) {
            said.durable = true;
        }
        log.advance(append.tail);
        self.members[slot].tail_moved = self.now;
        for (index, sequence, payload) in append.entries {
            let Some(write) = self.writes.find(index, sequence) else { continue };
            match payload {
                true => write.payload[slot] = Logged::Durable,
                false => write.reference[slot] = Logged::Durable,
            }
        }
        // Every write that it names, and those that it supersedes.
        self.writes.recheck_all = true;
    }

    /// The device is leaving: none of its records counts as a copy any more. What it says stays
    /// known until the others have recorded that it left.
    pub(super) fn disown_log(&mut self, slot: Slot) {
        for index in self.writes.indices() {
            let write = self.writes.get_mut(index);
            write.payload[slot] = Logged::No;
            if slot < LEGS {
                write.reference[slot] = Logged::No;
            }
            write.records.retain(|&(device, _)| device != slot);
        }
        let log = &mut self.logs[slot];
        log.wanted.clear();
        (log.append, log.short) = (None, false);
    }
}

fn entry(write: &super::writes::Write, payload: bool) -> Entry {
    let kind = match (payload, write.content) {
        (false, _) => EntryKind::Reference,
        (true, Content::Zeros) => EntryKind::Zero,
        (true, Content::Data) => EntryKind::Payload,
    };
    Entry { block: write.span.start, sequence: write.sequence, kind, sums: write.sums[..].into() }
}

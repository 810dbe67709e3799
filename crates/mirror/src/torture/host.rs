//! The host: what it asks for, what it is told, and the checks of that.

use super::SPAN_MAX;
use super::disk;
use super::history::Moment;
use super::world::World;
use super::{Report, Violation};
use crate::core::{Command, Content, Event, HostId, IoError};
use crate::types::Span;

/// Requests whose drain takes longer than this many events never end.
const DRAIN_EVENTS: u64 = 200_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Write { fua: bool, half: Option<u32> },
    Read,
    Flush,
}

/// One request of the host.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) span: Span,
    pub(super) kind: Kind,
    pub(super) begun: Moment,
    /// What a write writes.
    pub(super) content: [u64; SPAN_MAX],
    /// What a read was given.
    pub(super) read: [u64; SPAN_MAX],
    pub(super) value: u32,
}

impl World<'_> {
    pub(super) fn run(mut self) -> Result<Report, Violation> {
        for _ in 0..self.plan.operations {
            self.inject()?;
            while self.outstanding >= self.plan.depth {
                if !self.step() {
                    return Err(Violation("requests wait, but nothing will happen".into()));
                }
            }
            self.issue();
            for _ in 0..self.rng.below(4) {
                self.step();
            }
            if let Some(violation) = self.trouble.take() {
                return Err(violation);
            }
        }
        self.finish()?;
        self.report.operations = self.plan.operations;
        self.report.stats.add(self.core.stats());
        self.digest.add(self.now);
        self.report.digest = self.digest.0;
        Ok(self.report)
    }

    fn issue(&mut self) {
        let blocks = self.plan.geometry.blocks;
        let length = 1 + self.rng.below(SPAN_MAX as u64 - 1);
        // Half of all requests go to a few blocks, so that they meet.
        let within = if self.rng.below(2) == 0 { 5.min(blocks) } else { blocks };
        let start = self.rng.below(within);
        let span = Span::new(start, length.min(blocks - start) as u32);
        let content = if self.rng.below(12) == 0 { Content::Zeros } else { Content::Data };
        match self.rng.below(100) {
            0..46 => self.issue_write(span, content, false),
            46..52 => self.issue_write(span, content, true),
            52..57 => {
                let half = self.rng.below(2) as u32;
                self.issue_part(Span::new(start, 1), half);
            }
            57..90 => self.issue_read(span),
            _ => self.issue_flush(),
        }
    }

    fn begin(&mut self, span: Span, kind: Kind, content: [u64; SPAN_MAX]) -> HostId {
        let value = self.next_id;
        self.next_id += 1;
        self.outstanding += 1;
        let begun = self.history.tick();
        let read = [0; SPAN_MAX];
        let id = HostId::from(value);
        self.requests.insert(id, Request { span, kind, begun, content, read, value });
        id
    }

    fn sums(span: Span, content: &[u64; SPAN_MAX]) -> [u32; SPAN_MAX] {
        let mut sums = [0; SPAN_MAX];
        for (nth, block) in span.iter().enumerate() {
            sums[nth] = disk::sum(block, content[nth]);
        }
        sums
    }

    pub(super) fn issue_write(&mut self, span: Span, content: Content, fua: bool) {
        let value = self.value(content, span);
        let id = self.begin(span, Kind::Write { fua, half: None }, value);
        let begun = self.requests[&id].begun;
        for unit in span.start * 2..span.end() * 2 {
            self.history.write_begins(unit as usize, id as u32, begun);
        }
        let sums = Self::sums(span, &value);
        let sums = &sums[..span.blocks as usize];
        self.tell(Event::Write { id, span, content, fua, sums });
    }

    pub(super) fn issue_part(&mut self, span: Span, half: u32) {
        let kind = Kind::Write { fua: false, half: Some(half) };
        let id = self.begin(span, kind, [0; SPAN_MAX]);
        let begun = self.requests[&id].begun;
        let unit = (span.start * 2) as usize + half as usize;
        self.history.write_begins(unit, id as u32, begun);
        self.tell(Event::WritePart { id, span, fua: false });
    }

    /// Lay a partial write over what was read for it.
    pub(super) fn merge(&mut self, id: HostId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let Kind::Write { half: Some(half), .. } = request.kind else { return };
        let mask = 0xffff_ffff << (32 * half);
        let value = u64::from(request.value) << 32 | u64::from(request.value);
        request.content[0] = request.read[0] & !mask | value & mask;
        let sums = Self::sums(request.span, &request.content);
        self.tell(Event::Merged { id, sums: &sums[..1] });
    }

    pub(super) fn issue_read(&mut self, span: Span) {
        let id = self.begin(span, Kind::Read, [0; SPAN_MAX]);
        self.tell(Event::Read { id, span });
    }

    pub(super) fn issue_flush(&mut self) {
        let id = self.begin(Span::new(0, 1), Kind::Flush, [0; SPAN_MAX]);
        self.history.flush_begins(self.requests[&id].begun);
        self.tell(Event::Flush { id });
    }

    pub(super) fn reply(&mut self, id: HostId, result: Result<(), IoError>) {
        if result.is_err() && self.may_fail(id) {
            self.outstanding -= 1;
            return;
        }
        let Some(request) = self.requests.get(&id) else {
            let text = format!("request {id} is answered twice");
            self.trouble.get_or_insert(Violation(text));
            return;
        };
        self.outstanding -= 1;
        if result.is_err() && request.kind == Kind::Read && self.alike == Some(request.span.start) {
            self.requests.remove(&id);
            self.alike = None;
            return;
        }
        if result.is_err() {
            let text = format!("{:?} of {:?} failed (I2)", request.kind, request.span);
            self.trouble.get_or_insert(Violation(text));
            return;
        }
        let (span, kind, begun, read) = (request.span, request.kind, request.begun, request.read);
        self.digest.add(id);
        let at = self.history.tick();
        match kind {
            Kind::Write { fua, half } => {
                let units = match half {
                    None => span.start * 2..span.end() * 2,
                    Some(half) => {
                        let unit = span.start * 2 + u64::from(half);
                        unit..unit + 1
                    }
                };
                for unit in units {
                    self.history.write_ends(unit as usize, id as u32, fua, at);
                }
            }
            Kind::Read => {
                self.requests.remove(&id);
                for (nth, block) in span.iter().enumerate() {
                    for (half, shift) in [(0, 0), (1, 32)] {
                        let value = (read[nth] >> shift) as u32;
                        let unit = block as usize * 2 + half;
                        if let Err(wrong) = self.history.read(unit, value, begun, at) {
                            self.trouble.get_or_insert(wrong);
                        }
                    }
                }
            }
            Kind::Flush => {
                self.requests.remove(&id);
                self.history.flush_ends(begun);
            }
        }
    }

    /// Heal everything, drain, scrub, and compare.
    fn finish(&mut self) -> Result<(), Violation> {
        self.heal();
        self.drain()?;
        self.scrubbed = false;
        self.tell(Event::Command(Command::Scrub));
        self.drain()?;
        if self.core.states()[..2] == [crate::core::State::Member; 2] && !self.scrubbed {
            return Err(Violation("the scrub did not end".into()));
        }
        self.converged()?;
        self.history.check()
    }

    /// Run until the core is quiet: everything it owes is done.
    pub(super) fn drain(&mut self) -> Result<(), Violation> {
        self.issue_flush();
        for _ in 0..DRAIN_EVENTS {
            if let Some(violation) = self.trouble.take() {
                return Err(violation);
            }
            if self.core.quiet() && self.outstanding == 0 {
                return Ok(());
            }
            if !self.step() {
                if self.outstanding == 0 {
                    // What is left are writes that no flush covers.
                    self.issue_flush();
                    continue;
                }
                return Err(Violation("requests wait, but nothing will happen (I7)".into()));
            }
            if self.outstanding == 0 && !self.core.quiet() && self.rng.below(64) == 0 {
                self.issue_flush();
            }
        }
        Err(Violation(format!("the drain does not end: {:?} (I7)", self.core.states())))
    }

    /// I4: both legs hold the same.
    pub(super) fn converged(&self) -> Result<(), Violation> {
        let members = self.core.states();
        let [a, b, _] = &self.disks;
        if members[..2] != [crate::core::State::Member; 2] {
            return Ok(());
        }
        let differs =
            |&block: &usize| a.data[block] != b.data[block] && !self.core.is_lost(block as u64);
        match (0..a.data.len()).find(differs) {
            None => Ok(()),
            Some(block) => Err(Violation(format!(
                "block {block}: the legs hold {:#x} and {:#x} (I4)",
                a.data[block], b.data[block]
            ))),
        }
    }
}

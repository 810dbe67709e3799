//! What each leg is given, in which order, and when its cache is flushed.

use sim::Nanos;

use super::Core;
use super::event::{Action, Source, Why};
use super::io::{Purpose, WriteIndex};
use super::member::State;
use super::writes::OnLeg;
use crate::mutant::planted;
use crate::policy::expect::Work;
use crate::types::{LEGS, Mode, Slot, Span};

/// Queue entries looked at before giving up: enough to pass a few that must wait.
const WINDOW: usize = 64;

impl Core {
    /// Would a write of `span` be given to the leg?
    pub(super) fn takes_part(&self, leg: Slot, span: Span) -> bool {
        let member = &self.members[leg];
        match member.state {
            State::Member | State::Joining => true,
            // What is going to be copied anyway need not be written twice.
            State::Filling => !member.out_of_sync.covers(span) || self.copies.touches(leg, span),
            State::Leaving | State::Out | State::Never => false,
        }
    }

    /// Give the leg what it may have.
    pub(super) fn pump_leg(&mut self, leg: Slot) {
        loop {
            let member = &self.members[leg];
            let pace = member.pace;
            let depth = match (pace.lagging, pace.late) {
                (false, _) => self.config.depth_max,
                (true, false) => self.config.drain_depth,
                // One request tells when the freeze is over.
                (true, true) => 1,
            };
            if member.queue.is_empty() || member.issued >= depth {
                return;
            }
            let Some(place) = self.next_write(leg) else { return };
            let index = self.members[leg].queue.remove(place).expect("it was found there");
            self.issue_write(leg, index, false);
        }
    }

    /// The queue position of the next write that may go out. A drain sweeps upwards through the
    /// blocks, as an elevator; otherwise the oldest goes first.
    fn next_write(&self, leg: Slot) -> Option<usize> {
        let member = &self.members[leg];
        let mut queued = member.queue.iter().enumerate().take(WINDOW);
        if !member.pace.lagging {
            return queued.find(|&(_, &index)| self.may_issue(leg, index)).map(|(place, _)| place);
        }
        let from = member.position;
        let mut next = None;
        for (place, &index) in queued {
            let start = self.writes.get(index).span.start;
            let key = (start < from, start);
            // To ask whether it may go out costs more than to see where it lies.
            if next.is_none_or(|(nearest, _)| key < nearest) && self.may_issue(leg, index) {
                next = Some((key, place));
            }
        }
        next.map(|(_, place)| place)
    }

    fn may_issue(&self, leg: Slot, index: WriteIndex) -> bool {
        let write = self.writes.get(index);
        let rules = &self.config.rules;
        if !write.ready
            || (write.activity > self.activity_for(leg) && !planted!(rules, SkipActivity))
        {
            return false;
        }
        // I5: an epoch starts on a leg when the one before it is durable there.
        let epoch = self.members[leg].epochs.front();
        let barrier = rules.mode == Mode::Relaxed && write.copy.is_none();
        let done = |undone: u32| planted!(rules, EpochWithoutFlush) && undone == 0;
        if barrier
            && !planted!(rules, NoEpochs)
            && epoch.is_some_and(|epoch| epoch.epoch < write.epoch && !done(epoch.undone))
        {
            return false;
        }
        if planted!(rules, Overtake) {
            return true;
        }
        // An older write of the same block that may still land must land first.
        self.writes.chains(write.span).all(|chain| {
            chain.iter().take_while(|&&older| older != index).all(|&older| {
                !matches!(self.writes.get(older).legs[leg], OnLeg::Queued | OnLeg::Issued)
            })
        })
    }

    fn issue_write(&mut self, leg: Slot, index: WriteIndex, again: bool) {
        let write = self.writes.get_mut(index);
        write.legs[leg] = OnLeg::Issued;
        let (span, fua, id) = (write.span, write.fua, write.id);
        let (content, copy) = (write.content, write.copy);
        let from = match copy {
            None => Source::Host { id, offset: 0 },
            Some(copy) => Source::Read { io: self.copies.source(copy), offset: 0 },
        };
        self.members[leg].issued += 1;
        self.members[leg].position = span.end();
        let io = self.issue(leg, Purpose::Home { write: index, again }, Work::Write, span);
        self.out.push(Action::Write { io, slot: leg, span, content, from, fua });
    }

    pub(super) fn home_done(&mut self, leg: Slot, index: WriteIndex, again: bool, ok: bool) {
        self.members[leg].issued -= 1;
        if !ok {
            // A drive remaps on a second write; if it cannot, it is given up.
            match again {
                false => self.issue_write(leg, index, true),
                true => self.leave(leg, Why::Failed),
            }
            return;
        }
        let write = self.writes.get_mut(index);
        let (epoch, blocks, host) = (write.epoch, write.span.blocks, write.copy.is_none());
        let (fua, span) = (write.fua, write.span);
        write.legs[leg] = if fua { OnLeg::Durable } else { OnLeg::Done };
        let cover = write.cover;
        let now = self.now;
        let member = &mut self.members[leg];
        member.owed_blocks -= u64::from(blocks);
        if host {
            member.epoch_done(epoch, fua);
        }
        // Whatever was wrong there is written over.
        if host && !member.bad.is_empty() {
            member.bad.retain(|block| !span.iter().contains(block));
        }
        if !fua {
            if member.done.is_empty() {
                member.done_since = now;
            }
            member.done.push(index);
        }
        if let Some(flush) = cover {
            self.flushes.arrived(flush, leg);
        }
        self.progress(index);
    }

    /// Flush the leg's cache when somebody needs it.
    pub(super) fn pump_flush(&mut self, leg: Slot) {
        let member = &self.members[leg];
        if member.flushing.is_some() || member.done.is_empty() || !self.wants_flush(leg) {
            return;
        }
        let io = self.issue(leg, Purpose::Flush, Work::Flush, Span::new(0, 1));
        let member = &mut self.members[leg];
        let covered = std::mem::take(&mut member.done);
        member.flushing = Some((io, covered));
        self.out.push(Action::Flush { io, slot: leg });
    }

    fn wants_flush(&self, leg: Slot) -> bool {
        let member = &self.members[leg];
        if !member.state.is_used() {
            return false;
        }
        let pressed = self.writes.live_blocks * 2 > self.config.ram_blocks_max
            || self.activity.pressed
            || self.logs.iter().any(|log| log.short)
            || self.stopping
            || self.superblocks.mode_wanted.is_some()
            || self.relaxed_pressure();
        // The oldest flush waits for this leg and it has all that the flush covers.
        let waited = self.flushes.waits_for(leg);
        // The next epoch waits.
        let barrier = self.config.rules.mode == Mode::Relaxed
            && member.epochs.len() > 1
            && member.epochs.front().is_some_and(|epoch| epoch.undone == 0);
        // The last steps of a join wait for whatever it was promised.
        let joining = member.state == State::Joining;
        let old = self.cache_due(leg).is_some_and(|at| at <= self.now);
        pressed || old || waited || barrier || joining || self.copies_want_flush(leg)
    }

    /// When what has been in the leg's cache for long is flushed though nobody asks for it: then
    /// its memory and its log records are free again.
    pub(super) fn cache_due(&self, leg: Slot) -> Option<Nanos> {
        let member = &self.members[leg];
        let idle = !member.done.is_empty() && member.flushing.is_none();
        (idle && member.state.is_used()).then(|| member.done_since + self.config.flush_after)
    }

    /// Half a cap is used up, so the second copies should become durable.
    fn relaxed_pressure(&self) -> bool {
        let cap = &self.config;
        let aged = |since| self.now.since(since).0 > cap.exposed_age_max.0 / 2;
        cap.rules.mode == Mode::Relaxed
            && (self.writes.starved > 0
                || self.writes.exposed_blocks * 2 > cap.exposed_blocks_max
                || self.aging_since().is_some_and(aged))
    }

    pub(super) fn flush_done(&mut self, leg: Slot) {
        let Some((_, covered)) = self.members[leg].flushing.take() else { return };
        for index in covered {
            let write = self.writes.get_mut(index);
            write.legs[leg] = OnLeg::Durable;
            let (epoch, host) = (write.epoch, write.copy.is_none());
            if host {
                self.members[leg].epoch_durable(epoch);
            }
            self.progress(index);
        }
    }

    /// Every write that a leg owes is taken off it; what it may lack is remembered.
    pub(super) fn disown_leg(&mut self, leg: Slot) {
        for index in self.writes.indices() {
            let write = self.writes.get_mut(index);
            let on = std::mem::replace(&mut write.legs[leg], OnLeg::None);
            let (span, copy, cover) = (write.span, write.copy, write.cover);
            if !matches!(on, OnLeg::None | OnLeg::Durable) {
                let forgets = planted!(self.config.rules, LeaveForgets);
                if !forgets || on == OnLeg::Queued {
                    self.members[leg].out_of_sync.insert(span);
                }
            }
            if copy.is_some() {
                self.disown_copy(leg, index);
            } else if let Some(flush) = cover
                && matches!(on, OnLeg::Queued | OnLeg::Issued)
            {
                self.flushes.arrived(flush, leg);
            }
        }
        self.writes.recheck_all = true;
    }

    /// Both legs hold what they were given and no cache holds any of it.
    pub(super) fn drained(&self) -> bool {
        self.writes.is_empty()
            && (0..LEGS).all(|leg| self.members[leg].issued == 0)
            && self.waiting.is_empty()
    }
}

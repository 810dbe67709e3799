//! Host flushes: each covers what was acknowledged before it, and closes an epoch.

use std::collections::VecDeque;

use sim::Nanos;

use super::Core;
use super::event::{Action, HostId, IoError};
use super::member::State;
use super::writes::OnLeg;
use crate::mutant::planted;
use crate::types::{DEVICES, LEGS, Slot};

#[derive(Clone, Default, Debug)]
struct Flush {
    id: HostId,
    since: Nanos,
    /// Covered writes that are not safe yet.
    unsafe_writes: u32,
    /// Covered writes that the leg still owes.
    undone: [u32; LEGS],
}

sim::snapshot_fields!(Flush { id, since, unsafe_writes, undone });

/// Flushes in order of arrival; they are answered in that order.
#[derive(Clone, Debug, Default)]
pub(super) struct Flushes {
    queue: VecDeque<Flush>,
    /// Number of the first one.
    first: u64,
    /// The device that alone holds back those that have waited for too long, and since when.
    held: Option<(Slot, Nanos)>,
}

sim::snapshot_fields!(Flushes { queue, first, held });

/// For so much of the deadline a device must have been the only one that is waited for.
fn grace(deadline: Nanos) -> Nanos {
    Nanos(deadline.0 / 10)
}

impl Flushes {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn get(&mut self, number: u64) -> Option<&mut Flush> {
        self.queue.get_mut(number.checked_sub(self.first)? as usize)
    }

    pub(super) fn satisfied(&mut self, number: u64) {
        if let Some(flush) = self.get(number) {
            flush.unsafe_writes -= 1;
        }
    }

    /// A covered write is done on the leg, or the leg owes it no longer.
    pub(super) fn arrived(&mut self, number: u64, leg: Slot) {
        if let Some(flush) = self.get(number) {
            flush.undone[leg] -= 1;
        }
    }

    /// Since when the oldest one has been waiting.
    fn oldest(&self) -> Option<Nanos> {
        self.queue.front().map(|flush| flush.since)
    }

    /// Does the oldest flush wait for this leg's cache only?
    pub(super) fn waits_for(&self, leg: Slot) -> bool {
        self.queue.front().is_some_and(|flush| flush.unsafe_writes > 0 && flush.undone[leg] == 0)
    }
}

impl Core {
    pub(super) fn host_flush(&mut self, id: HostId) {
        if self.failed {
            self.out.push(Action::Reply { id, result: Err(IoError) });
            return;
        }
        let number = self.flushes.first + self.flushes.queue.len() as u64;
        self.writes.epoch += 1;
        let mut flush = Flush { id, since: self.now, unsafe_writes: 0, undone: [0; LEGS] };
        let mut covered = Vec::new();
        for index in self.writes.indices() {
            let write = self.writes.get_mut(index);
            if !write.acked || write.satisfied || write.cover.is_some() || write.copy.is_some() {
                continue;
            }
            let two = write.legs.iter().all(|on| matches!(on, OnLeg::Done | OnLeg::Durable));
            if planted!(self.config.rules, FlushSkipsEarly) && !two {
                continue;
            }
            write.cover = Some(number);
            flush.unsafe_writes += 1;
            for leg in 0..LEGS {
                flush.undone[leg] +=
                    u32::from(matches!(write.legs[leg], OnLeg::Queued | OnLeg::Issued));
            }
            covered.push(index);
        }
        self.flushes.queue.push_back(flush);
        for index in covered {
            self.progress(index);
        }
        self.again = true;
    }

    /// When to look for the device that a flush or a write waits for.
    pub(super) fn flush_due(&self) -> Option<Nanos> {
        let deadline = self.config.lag.flush_deadline?;
        let oldest =
            [self.flushes.oldest(), self.writes.oldest_unanswered()].into_iter().flatten().min();
        let held = self.flushes.held.map(|(_, since)| since + grace(deadline));
        held.or(oldest.map(|since| since.saturating_add(deadline) - grace(deadline)))
    }

    /// The device that has held back all that waited for longer than the deadline, if it was the
    /// only one for some time: of two that end at about the same time none is to blame.
    pub(super) fn watch_flushes(&mut self) -> Option<Slot> {
        let deadline = self.config.lag.flush_deadline?;
        let due = self.flush_due().is_some_and(|at| at <= self.now);
        if !due && self.flushes.held.is_none() {
            return None;
        }
        let holds = self.holds_back(deadline);
        match (holds, self.flushes.held) {
            (Some(slot), Some((held, since))) if slot == held => {
                return (since + grace(deadline) <= self.now).then_some(slot);
            }
            (holds, _) => self.flushes.held = holds.map(|slot| (slot, self.now)),
        }
        None
    }

    /// The one device that all those wait for which have waited for nearly the deadline. Never the
    /// last leg, nor one of two that both are waited for: there is nothing to go on with.
    fn holds_back(&self, deadline: Nanos) -> Option<Slot> {
        let long = deadline - grace(deadline);
        let mut holds = [false; DEVICES];
        let overdue = |since: Nanos| since.saturating_add(long) <= self.now;
        let flushes = self.flushes.queue.iter().take_while(|flush| overdue(flush.since));
        let flushes = self.flushes.first..self.flushes.first + flushes.count() as u64;
        for index in self.writes.indices() {
            let write = self.writes.get(index);
            let covered = write.cover.is_some_and(|flush| flushes.contains(&flush));
            let unanswered = !write.acked && write.copy.is_none() && overdue(write.since);
            if !unanswered && (!covered || write.satisfied) {
                continue;
            }
            // A write without a promise waits only to be done: on both legs in strict mode, or,
            // for room below the caps, on the second one.
            let promised = (covered || write.fua) && !write.satisfied;
            let copies = self.copies_of(index);
            for (slot, holds) in holds.iter_mut().enumerate() {
                let there = if promised { copies.home } else { copies.done };
                let owes = slot < LEGS && !there[slot];
                *holds |= copies.member[slot] && (owes || (promised && copies.stale[slot]));
            }
        }
        let goes_on = |slot: Slot| {
            (0..LEGS)
                .all(|leg| leg == slot || (self.members[leg].state == State::Member && !holds[leg]))
        };
        (0..DEVICES).find(|&slot| {
            let used = self.members[slot].state.is_used() && self.owes_answer(slot, deadline);
            holds[slot] && used && (goes_on(slot) || planted!(self.config.rules, DropLast))
        })
    }

    /// Has the device been asked for anything? A record that is to be replaced or retired may be
    /// waiting for the legs: then the witness, which answers what it is given, is not to blame.
    fn owes_answer(&self, slot: Slot, deadline: Nanos) -> bool {
        let oldest = self.members[slot].waiting.front();
        oldest.is_some_and(|&(_, issued, _)| slot < LEGS || issued + grace(deadline) <= self.now)
    }

    /// Answer the flushes that are safe, in order.
    pub(super) fn pump_flushes(&mut self) {
        while self.flushes.queue.front().is_some_and(|flush| flush.unsafe_writes == 0) {
            let flush = self.flushes.queue.pop_front().expect("it was there");
            self.flushes.first += 1;
            self.out.push(Action::Reply { id: flush.id, result: Ok(()) });
            self.again = true;
        }
    }

    pub(super) fn fail_flushes(&mut self) {
        for flush in std::mem::take(&mut self.flushes.queue) {
            self.flushes.first += 1;
            self.out.push(Action::Reply { id: flush.id, result: Err(IoError) });
        }
    }
}

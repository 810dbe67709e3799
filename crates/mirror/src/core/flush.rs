//! Host flushes: each covers what was acknowledged before it, and closes an epoch.

use std::collections::VecDeque;

use super::Core;
use super::event::{Action, HostId, IoError};
use super::writes::OnLeg;
use crate::mutant::planted;
use crate::types::{LEGS, Slot};

#[derive(Clone, Default, Debug)]
struct Flush {
    id: HostId,
    /// Covered writes that are not safe yet.
    unsafe_writes: u32,
    /// Covered writes that the leg still owes.
    undone: [u32; LEGS],
}

sim::snapshot_fields!(Flush { id, unsafe_writes, undone });

/// Flushes in order of arrival; they are answered in that order.
#[derive(Clone, Debug, Default)]
pub(super) struct Flushes {
    queue: VecDeque<Flush>,
    /// Number of the first one.
    first: u64,
}

sim::snapshot_fields!(Flushes { queue, first });

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
        let mut flush = Flush { id, unsafe_writes: 0, undone: [0; LEGS] };
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

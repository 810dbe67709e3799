//! Commands that wait for the arm, and the choice among them.

use sim::{Nanos, snapshot_fields};

use crate::geometry::SectorPosition;
use crate::mechanics::{Arm, Mechanics};
use crate::params::Scheduler;

snapshot_fields!(SectorPosition { zone, cylinder, head, sector, angle, clock });

/// Waiting commands. What the choice needs lies in one dense array, the rest beside it.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    keys: Vec<Key>,
    items: Vec<T>,
    sequence: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Key {
    cylinder: u32,
    head: u32,
    angle: u32,
    write: bool,
    /// When the controller has decoded the command, in ns.
    ready: u64,
    sequence: u64,
}

snapshot_fields!(Key { cylinder, head, angle, write, ready, sequence });

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { keys: Vec::new(), items: Vec::new(), sequence: 0 }
    }
}

impl<T: sim::Snapshot + Default> sim::Snapshot for Queue<T> {
    fn save(&self, to: &mut sim::Saver) {
        self.keys.save(to);
        self.items.save(to);
        self.sequence.save(to);
    }
    fn restore(&mut self, from: &mut sim::Loader) -> Result<(), sim::SnapshotError> {
        self.keys.restore(from)?;
        self.items.restore(from)?;
        self.sequence.restore(from)
    }
}

/// No queue is longer than 2^INDEX_BITS.
const INDEX_BITS: u32 = 12;

impl<T> Queue<T> {
    /// Number of waiting commands.
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True when none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The waiting commands, in no particular order.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Add a command whose first sector lies at `place` and that can start at `ready`.
    #[inline]
    pub fn push(&mut self, place: &SectorPosition, write: bool, ready: Nanos, item: T) {
        self.keys.push(Key {
            cylinder: place.cylinder,
            head: place.head,
            angle: place.angle,
            write,
            ready: ready.0,
            sequence: self.sequence,
        });
        self.sequence += 1;
        self.items.push(item);
    }

    /// Take out command `index`; the last one takes its number.
    #[inline]
    pub fn remove(&mut self, index: usize) -> T {
        self.keys.swap_remove(index);
        self.items.swap_remove(index)
    }

    /// Forget every command.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.items.clear();
    }

    /// The command to serve next by an arm that is free at `now`; `None` when none waits.
    ///
    /// For `sptf` it is the one whose first sector the head reaches first.
    #[inline]
    pub fn choose(
        &self,
        scheduler: Scheduler,
        mechanics: &Mechanics,
        arm: Arm,
        now: Nanos,
    ) -> Option<usize> {
        if self.keys.len() <= 1 {
            return (!self.keys.is_empty()).then_some(0);
        }
        match scheduler {
            Scheduler::Fifo => {
                let oldest = self.keys.iter().enumerate().min_by_key(|(_, key)| key.sequence);
                oldest.map(|(index, _)| index)
            }
            Scheduler::Sptf => {
                let nearest = self.nearest(mechanics, arm, now);
                Some((nearest & ((1 << INDEX_BITS) - 1)) as usize)
            }
        }
    }

    /// Nanoseconds until the head reaches the first sector of the command that it reaches first;
    /// `None` when none waits.
    pub fn nearest_ns(&self, mechanics: &Mechanics, arm: Arm, now: Nanos) -> Option<u64> {
        (!self.is_empty()).then(|| self.nearest(mechanics, arm, now) >> INDEX_BITS)
    }

    /// That time and that command's index in one number: the loop has no branch to mispredict.
    #[inline]
    fn nearest(&self, mechanics: &Mechanics, arm: Arm, now: Nanos) -> u64 {
        let phase = mechanics.phase(now);
        let cost = |key: &Key| {
            let seek = mechanics.seek_ns(arm, key.cylinder, key.head, key.write);
            let later = key.ready.saturating_sub(now.0) + u64::from(seek);
            later + mechanics.wait_ns(phase, later, key.angle)
        };
        let all = self.keys.iter().enumerate();
        all.fold(u64::MAX, |best, (index, key)| best.min(cost(key) << INDEX_BITS | index as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Params;

    #[test]
    fn sptf_takes_the_nearest_in_time_and_fifo_the_oldest() {
        let mechanics = Params::default().mechanics().unwrap();
        let arm = Arm::default();
        let mut queue = Queue::default();
        for lba in [400_000_000u64, 200_000, 3_000, 300_000_000] {
            queue.push(&mechanics.geometry.place(lba), false, Nanos(0), lba);
        }
        for now in (0..20).map(|i| Nanos(i * 777_777)) {
            let reach = |lba: u64| {
                let way = mechanics.position(arm, now, &mechanics.geometry.place(lba), false);
                way.seek + way.wait
            };
            let chosen = queue.choose(Scheduler::Sptf, &mechanics, arm, now).unwrap();
            let best = queue.items().iter().copied().min_by_key(|&lba| reach(lba)).unwrap();
            assert_eq!(reach(queue.items()[chosen]), reach(best));
            assert_eq!(queue.choose(Scheduler::Fifo, &mechanics, arm, now), Some(0));
        }
    }

    #[test]
    fn a_command_that_is_not_decoded_yet_waits() {
        let mechanics = Params::default().mechanics().unwrap();
        let mut queue = Queue::default();
        let place = mechanics.geometry.place(5);
        queue.push(&place, false, Nanos::from_secs(1), 0);
        queue.push(&mechanics.geometry.place(400_000_000), false, Nanos(0), 1);
        let chosen = queue.choose(Scheduler::Sptf, &mechanics, Arm::default(), Nanos(0));
        assert_eq!(chosen, Some(1));
    }
}

//! Bursts: many queues that appear together are the work of one service, and none of them is
//! raised.

use sim::snapshot_fields;

use super::queue::Queue;

/// So many queues are a large burst.
const LARGE: u32 = 8;

/// The burst that goes on.
#[derive(Clone, Default, Debug)]
pub(super) struct Burst {
    list: Vec<u32>,
    pub(super) size: u32,
    pub(super) large: bool,
    /// The tick of the last one that joined it.
    last: u64,
    /// One that comes this many ticks later begins another.
    interval: u64,
}

snapshot_fields!(Burst { list, size, large, last });

impl Burst {
    pub(super) fn new(interval: u64) -> Burst {
        Burst { interval, ..Burst::default() }
    }

    /// A new queue asks for the first time.
    pub(super) fn join(&mut self, queues: &mut [Queue], queue: u32, tick: u64, none_busy: bool) {
        let q = &mut queues[queue as usize];
        if q.in_burst_list || q.in_large_burst {
            return;
        }
        if self.last + self.interval < tick {
            self.large = false;
            self.empty(queues);
            self.size = u32::from(none_busy);
            if none_busy {
                self.list(queues, queue);
            }
        } else if self.large {
            q.in_large_burst = true;
        } else {
            self.add(queues, queue);
        }
        self.last = tick;
    }

    fn add(&mut self, queues: &mut [Queue], queue: u32) {
        self.size += 1;
        if self.size != LARGE {
            return self.list(queues, queue);
        }
        self.large = true;
        for &member in &self.list {
            queues[member as usize].in_large_burst = true;
        }
        queues[queue as usize].in_large_burst = true;
        self.empty(queues);
    }

    pub(super) fn list(&mut self, queues: &mut [Queue], queue: u32) {
        queues[queue as usize].in_burst_list = true;
        self.list.push(queue);
    }

    fn empty(&mut self, queues: &mut [Queue]) {
        for member in self.list.drain(..) {
            queues[member as usize].in_burst_list = false;
        }
    }

    /// Its part in it is over.
    pub(super) fn leave(&mut self, q: &mut Queue, queue: u32) {
        if std::mem::take(&mut q.in_burst_list) {
            self.list.retain(|&member| member != queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::bfq::epoch::FIRST_TICK;

    fn joined(gaps: &[u64]) -> Vec<bool> {
        let mut queues = vec![Queue::default(); gaps.len()];
        let (mut burst, mut tick) = (Burst::new(45), FIRST_TICK);
        for (nth, gap) in gaps.iter().enumerate() {
            tick += gap;
            burst.join(&mut queues, nth as u32, tick, nth == 0);
        }
        queues.iter().map(|q| q.in_large_burst).collect()
    }

    #[test]
    fn the_eighth_queue_makes_all_of_them_a_large_burst() {
        assert_eq!(joined(&[10; 7]), [false; 7]);
        assert_eq!(joined(&[10; 9]), [true; 9]);
        // After a pause, another burst begins.
        let mut gaps = [10; 9];
        gaps[8] = 46;
        assert_eq!(joined(&gaps)[7..], [true, false]);
    }
}

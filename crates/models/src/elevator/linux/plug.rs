//! The plug: requests are kept back for a moment, so that neighbours find each other.

use sim::{Nanos, snapshot_fields};

/// Requests in one plug at most.
const REQUESTS_MAX: usize = 32;
/// A plug whose last request is so long is not kept back, in sectors: 128 KiB.
const LAST_SECTORS: u32 = 256;

/// What a task has submitted and not yet handed over.
#[derive(Clone, Default, Debug)]
struct Task {
    process: u32,
    requests: Vec<u32>,
}

snapshot_fields!(Task { process, requests });

/// The plug of today: one per task, handed over when the task sleeps.
#[derive(Clone, Default, Debug)]
pub(super) struct TaskPlugs {
    tasks: Vec<Task>,
    /// Emptied lists, to be used again.
    spare: Vec<Vec<u32>>,
}

snapshot_fields!(TaskPlugs { tasks });

impl TaskPlugs {
    /// The last request of a task, the only one that its next bio may join.
    pub(super) fn last(&self, process: u32) -> Option<u32> {
        let task = self.tasks.iter().find(|task| task.process == process)?;
        task.requests.last().copied()
    }

    /// Add a request. `last_sectors` is the length of the one before it. What the plug held is
    /// handed over first when it is full.
    pub(super) fn add(&mut self, process: u32, rq: u32, last_sectors: u32) -> Option<Vec<u32>> {
        let task = match self.tasks.iter_mut().position(|task| task.process == process) {
            Some(index) => &mut self.tasks[index],
            None => {
                let requests = self.spare.pop().unwrap_or_default();
                self.tasks.push(Task { process, requests });
                self.tasks.last_mut().expect("it was just added")
            }
        };
        let full = task.requests.len() >= REQUESTS_MAX
            || !task.requests.is_empty() && last_sectors >= LAST_SECTORS;
        let out = full.then(|| {
            let fresh = self.spare.pop().unwrap_or_default();
            std::mem::replace(&mut task.requests, fresh)
        });
        task.requests.push(rq);
        out
    }

    /// The plug that was begun first, emptied.
    pub(super) fn hand_over(&mut self) -> Option<Vec<u32>> {
        (!self.tasks.is_empty()).then(|| self.tasks.remove(0).requests)
    }

    /// The plug of one process, emptied.
    pub(super) fn hand_over_of(&mut self, process: u32) -> Option<Vec<u32>> {
        let index = self.tasks.iter().position(|task| task.process == process)?;
        Some(self.tasks.remove(index).requests)
    }

    /// Take one request out of its plug.
    pub(super) fn remove(&mut self, rq: u32) {
        self.tasks.iter_mut().for_each(|task| task.requests.retain(|&other| other != rq));
        self.tasks.retain(|task| !task.requests.is_empty());
    }

    /// A list that was handed over is empty again.
    pub(super) fn reuse(&mut self, mut list: Vec<u32>) {
        list.clear();
        self.spare.push(list);
    }

    pub(super) fn clear(&mut self) {
        self.tasks.clear();
    }
}

/// The plug of 2.6.26: one per queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuePlug {
    /// When it opens by itself; [`Nanos::MAX`] while it is open.
    until: Nanos,
}

snapshot_fields!(QueuePlug { until });

impl Default for QueuePlug {
    fn default() -> QueuePlug {
        QueuePlug { until: Nanos::MAX }
    }
}

impl QueuePlug {
    pub(super) fn is_closed(&self) -> bool {
        self.until != Nanos::MAX
    }

    pub(super) fn close(&mut self, until: Nanos) {
        if !self.is_closed() {
            self.until = until;
        }
    }

    pub(super) fn open(&mut self) {
        self.until = Nanos::MAX;
    }

    pub(super) fn opens(&self) -> Nanos {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_hands_over_at_32_requests_and_behind_a_long_one() {
        let mut plugs = TaskPlugs::default();
        assert!((0..32).all(|rq| plugs.add(1, rq, 8).is_none()));
        assert_eq!(plugs.last(1), Some(31));
        assert_eq!(plugs.last(2), None);
        assert_eq!(plugs.add(1, 32, 8).unwrap().len(), 32);
        assert_eq!(plugs.add(1, 33, 255), None);
        assert_eq!(plugs.add(2, 50, 256), None);
        assert_eq!(plugs.add(1, 34, 256), Some(vec![32, 33]));
        assert_eq!(plugs.hand_over(), Some(vec![34]));
        assert_eq!(plugs.hand_over(), Some(vec![50]));
        assert_eq!(plugs.hand_over(), None);
    }
}

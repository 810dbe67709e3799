//! Plans of several stages under way.

use sim::snapshot_fields;

use super::waiter::Waiter;
use crate::ssd::nand::Target;
use crate::ssd::plan::FlashOp;

/// A plan whose later stages wait.
#[derive(Clone, Default, Debug)]
pub(super) struct Job {
    /// The [`Waiter`] that is told when the last stage is done.
    target: Target,
    /// The logical page the plan is about.
    pub(super) lpn: u32,
    /// Operations of the present stage under way.
    pub(super) remaining: u32,
    /// Nobody waits for it: reads run in the background.
    pub(super) background: bool,
    /// The operations of later stages.
    pub(super) later: Vec<Later>,
    /// How many of these have started.
    pub(super) started: u32,
}

/// An operation of a later stage.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Later {
    pub(super) stage: u32,
    /// Its slot in the NAND model, where it keeps its place in the write order; `u32::MAX` for a
    /// read, which is not queued before its stage begins.
    pub(super) slot: u32,
    pub(super) op: FlashOp,
}

snapshot_fields!(Later { stage, slot, op });
snapshot_fields!(Job { target, lpn, remaining, background, later, started });

/// Jobs in a slab.
#[derive(Clone, Default, Debug)]
pub(super) struct Jobs {
    list: Vec<Job>,
    free: Vec<u32>,
}

snapshot_fields!(Jobs { list, free });

impl Job {
    /// The next operation to start.
    #[inline]
    pub(super) fn peek(&self) -> Option<Later> {
        self.later.get(self.started as usize).copied()
    }
}

impl Jobs {
    pub(super) fn insert(&mut self, waiter: Waiter, lpn: u32, background: bool) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(Job::default());
            self.list.len() as u32 - 1
        });
        let job = &mut self.list[index as usize];
        (job.target, job.lpn, job.remaining, job.background) = (waiter.pack(), lpn, 0, background);
        job.later.clear();
        job.started = 0;
        index
    }

    #[inline]
    pub(super) fn get(&mut self, index: u32) -> &mut Job {
        &mut self.list[index as usize]
    }

    pub(super) fn remove(&mut self, index: u32) -> (Waiter, u32) {
        self.free.push(index);
        let job = &self.list[index as usize];
        (Waiter::unpack(job.target), job.lpn)
    }

    pub(super) fn clear(&mut self) {
        *self = Jobs::default();
    }
}

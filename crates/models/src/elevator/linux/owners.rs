//! Whose queue a request goes to, in policies with queues of their own for processes.

use std::collections::BTreeMap;

use sim::{Priority, PriorityClass, Request, snapshot_fields};

use super::habits::Habits;
use super::names::Names;
use super::pool::NONE;

/// Each process has a queue for what it waits for; what nobody waits for goes to one per priority.
#[derive(Clone, Default, Debug)]
pub(crate) struct Owners {
    names: Names,
    /// By number: the queue of a process, and what is known of it.
    processes: Vec<(u32, Habits)>,
    /// Of priorities, for all that nobody waits for.
    shared: BTreeMap<(u8, u8), u32>,
}

snapshot_fields!(Owners { names, processes, shared });

/// Which shared queue a priority goes to.
fn shelf(priority: Priority) -> (u8, u8) {
    match priority.class() {
        PriorityClass::RealTime => (0, priority.level()),
        PriorityClass::None | PriorityClass::BestEffort => (1, priority.level()),
        PriorityClass::Idle => (2, 0),
    }
}

impl Owners {
    /// The queue of a request, if there is one yet.
    pub(crate) fn find(&self, what: &Request) -> Option<u32> {
        match self.names.find(what.process) {
            Some(owner) => self.queue(what, owner),
            // A shared queue does not ask for the process.
            None => (!what.is_sync()).then(|| self.queue(what, NONE)).flatten(),
        }
    }

    /// The number of a process.
    pub(crate) fn number(&mut self, process: u32) -> u32 {
        let number = self.names.number(process);
        if number as usize == self.processes.len() {
            self.processes.push((NONE, Habits::default()));
        }
        number
    }

    /// The queue of a request by the process of this number, if there is one yet.
    pub(crate) fn queue(&self, what: &Request, owner: u32) -> Option<u32> {
        let known = if what.is_sync() {
            Some(self.processes[owner as usize].0)
        } else {
            self.shared.get(&shelf(what.priority)).copied()
        };
        known.filter(|&queue| queue != NONE)
    }

    /// From now on such requests go there.
    pub(crate) fn assign(&mut self, what: &Request, owner: u32, queue: u32) {
        if what.is_sync() {
            self.processes[owner as usize].0 = queue;
        } else {
            self.shared.insert(shelf(what.priority), queue);
        }
    }

    /// What is known of the process of this number.
    pub(crate) fn habits(&mut self, owner: u32) -> &mut Habits {
        &mut self.processes[owner as usize].1
    }
}

//! The policy of elevators that change no order: one list.

use sim::{Nanos, snapshot_fields};

use super::pool::{Fifo, Pool};
use crate::elevator::Policy;

/// Requests go as they came.
#[derive(Clone)]
pub(crate) struct InOrder {
    list: Fifo,
    /// Neighbours in the list that have come to touch are made one.
    joins_neighbours: bool,
}

snapshot_fields!(InOrder { list });

impl InOrder {
    pub(crate) fn new(joins_neighbours: bool) -> InOrder {
        InOrder { list: Fifo::default(), joins_neighbours }
    }
}

impl Policy for InOrder {
    fn add(&mut self, _now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        self.list.push(pool, rq);
        false
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn dispatch(&mut self, _now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        if let Some(rq) = self.list.head() {
            self.list.remove(pool, rq);
            out.push(rq);
        }
    }

    fn drain(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        while !self.is_empty() {
            self.dispatch(now, pool, out);
        }
    }

    fn latter(&self, pool: &Pool, rq: u32) -> Option<u32> {
        if self.joins_neighbours { Fifo::after(pool, rq) } else { None }
    }

    fn former(&self, pool: &Pool, rq: u32) -> Option<u32> {
        if self.joins_neighbours { Fifo::before(pool, rq) } else { None }
    }

    fn joined(&mut self, pool: &mut Pool, _first: u32, second: u32) {
        self.list.remove(pool, second);
    }

    fn clear(&mut self) {
        self.list = Fifo::default();
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

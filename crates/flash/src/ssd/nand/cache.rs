//! Cache reads: a die senses its next read while the data of the ones before go out.

use sim::{EventHeap, Nanos};

use super::queue::NIL;
use super::{Finished, Nand, State};

impl Nand {
    /// A read is in the page register: its data go on to the cache register when that is empty,
    /// and the die can read again. Returns a die that became idle.
    pub(super) fn read_behind_a_cache(
        &mut self,
        index: u32,
        now: Nanos,
        events: &mut EventHeap,
    ) -> Option<u32> {
        let die = &mut self.dies[index as usize];
        if die.sending != NIL {
            die.state = State::Held;
            return None;
        }
        (die.sending, die.state) = (die.current.head, State::Idle);
        let time = die.current.bus_out;
        self.request_bus(index, time, true, now, events);
        Some(index)
    }

    /// Data of the cache register are out. Returns a die that became idle, or can read again.
    pub(super) fn sent_from_the_cache(
        &mut self,
        index: u32,
        now: Nanos,
        events: &mut EventHeap,
        finished: &mut Vec<Finished>,
    ) -> Option<u32> {
        let die = &mut self.dies[index as usize];
        let next = self.slab[die.sending].next;
        let (op, target) = self.slab.remove(die.sending);
        finished.push(Finished { op, target });
        die.sending = next;
        if next != NIL {
            let time = Nanos(self.timing.phases(&self.geometry, self.slab[next].op).bus_out);
            self.request_bus(index, time, true, now, events);
            return None;
        }
        match die.state {
            State::Held => self.read_behind_a_cache(index, now, events),
            State::Idle => Some(index),
            _ => None,
        }
    }
}

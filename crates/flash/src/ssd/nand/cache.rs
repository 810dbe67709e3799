//! Cache reads: a die senses its next read while the data of the ones before go out.

use sim::{EventHeap, Nanos};

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
        if !die.sending.is_empty() {
            die.state = State::Held;
            return None;
        }
        (die.sending, die.state) = (die.current, State::Idle);
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
        if !self.first_is_out(index, true, now, events, finished) {
            return None;
        }
        match self.dies[index as usize].state {
            State::Held => self.read_behind_a_cache(index, now, events),
            State::Idle => Some(index),
            _ => None,
        }
    }
}

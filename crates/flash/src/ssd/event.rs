//! What can happen in a drive by itself, and how the event queue keeps it in 32 bits.

/// Something that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A die's array phase ended; it was pushed aside meanwhile if the die counts on.
    Array {
        /// The die, below 2^22.
        die: u32,
        /// What the die counted when the phase began.
        generation: u8,
    },
    /// The transfer on this channel ended.
    Transfer(u32),
    /// The controller has the request in this slot.
    Fetched(u32),
    /// The host has the answer to the request in this slot.
    Done(u32),
    /// The buffer has served a page of the request in this slot.
    PageServed(u32),
    /// This die may have rested for long enough.
    DieRested(u32),
    /// The pace lets the next page into the buffer.
    Admit,
}

/// The greatest index an event can carry.
const INDEX: u32 = (1 << 29) - 1;
const DIE: u32 = (1 << 22) - 1;

/// Three bits say what, and those of an array phase share theirs with the generation.
const TRANSFER: u32 = 2 << 29;
const ADMIT: u32 = 3 << 29;
const FETCHED: u32 = 4 << 29;
const DONE: u32 = 5 << 29;
const PAGE_SERVED: u32 = 6 << 29;
const DIE_RESTED: u32 = 7 << 29;

impl Event {
    /// The payload of the event queue.
    #[inline]
    pub fn pack(self) -> u32 {
        match self {
            Event::Array { die, generation } => u32::from(generation) << 22 | die,
            Event::Transfer(channel) => TRANSFER | channel,
            Event::Fetched(slot) => FETCHED | slot,
            Event::Done(slot) => DONE | slot,
            Event::PageServed(slot) => PAGE_SERVED | slot,
            Event::DieRested(die) => DIE_RESTED | die,
            Event::Admit => ADMIT,
        }
    }

    /// What [`Event::pack`] made.
    #[inline]
    pub fn unpack(payload: u32) -> Event {
        let index = payload & INDEX;
        match payload >> 29 {
            0 | 1 => Event::Array { die: payload & DIE, generation: (payload >> 22) as u8 },
            2 => Event::Transfer(index),
            3 => Event::Admit,
            4 => Event::Fetched(index),
            5 => Event::Done(index),
            6 => Event::PageServed(index),
            _ => Event::DieRested(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives() {
        for index in [0, 1, 77, DIE, INDEX] {
            let die = index & DIE;
            for event in [
                Event::Array { die, generation: 0 },
                Event::Array { die, generation: 255 },
                Event::Transfer(index),
                Event::Fetched(index),
                Event::Done(index),
                Event::PageServed(index),
                Event::DieRested(index),
                Event::Admit,
            ] {
                assert_eq!(Event::unpack(event.pack()), event);
            }
        }
    }
}

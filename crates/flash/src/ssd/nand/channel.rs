//! A channel: one transfer at a time, data going out before data coming in.

use std::collections::VecDeque;

use sim::{Nanos, snapshot_fields};

#[derive(Clone, Default, Debug)]
pub(super) struct Channel {
    /// The die whose transfer is on the bus, plus one; 0 when the bus is free.
    user: u32,
    /// Its data go out, not in.
    user_out: bool,
    started: Nanos,
    /// Dies waiting to send data out, and to take commands or data in.
    out: VecDeque<(u32, Nanos)>,
    into: VecDeque<(u32, Nanos)>,
    busy: Nanos,
}

snapshot_fields!(Channel { user, user_out, started, out, into, busy });

impl Channel {
    /// Ask for the bus; returns when the transfer ends if it starts at once.
    #[inline]
    pub(super) fn request(
        &mut self,
        die: u32,
        time: Nanos,
        out: bool,
        now: Nanos,
    ) -> Option<Nanos> {
        if self.user != 0 {
            let queue = if out { &mut self.out } else { &mut self.into };
            queue.push_back((die, time));
            return None;
        }
        Some(self.start((die, time), out, now))
    }

    #[inline]
    fn start(&mut self, (die, time): (u32, Nanos), out: bool, now: Nanos) -> Nanos {
        (self.user, self.user_out) = (die + 1, out);
        self.started = now;
        self.busy += time;
        now + time
    }

    /// The transfer on the bus ended; returns its die, whether data went out, and its start.
    #[inline]
    pub(super) fn ended(&mut self) -> (u32, bool, Nanos) {
        let die = self.user - 1;
        self.user = 0;
        (die, self.user_out, self.started)
    }

    /// Start the next waiting transfer; returns when it ends.
    #[inline]
    pub(super) fn start_next(&mut self, now: Nanos) -> Option<Nanos> {
        let (next, out) = match self.out.pop_front() {
            Some(next) => (next, true),
            None => (self.into.pop_front()?, false),
        };
        Some(self.start(next, out, now))
    }

    pub(super) fn busy(&self) -> Nanos {
        self.busy
    }

    pub(super) fn clear(&mut self) {
        *self = Channel { busy: self.busy, ..Channel::default() };
    }
}

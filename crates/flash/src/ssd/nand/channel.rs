//! A channel: one transfer at a time, data going out before data coming in.
//!
//! A transfer in whose die knows already when it goes on ends without an event, unless somebody
//! waits for the channel then.

use std::collections::VecDeque;

use sim::{Nanos, snapshot_enum, snapshot_fields};

/// What is on a bus.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Transfer {
    #[default]
    Nothing,
    /// Data out.
    Out,
    /// Command and data in; the die goes on when the transfer's event comes.
    In,
    /// Command and data in; the die goes on by an event of its own.
    Foreseen,
}

snapshot_enum!(Transfer { Nothing, Out, In, Foreseen });

#[derive(Clone, Default, Debug)]
pub(super) struct Channel {
    transfer: Transfer,
    /// Its end has an event.
    has_event: bool,
    /// The die whose transfer it is.
    die: u32,
    started: Nanos,
    ends: Nanos,
    /// Dies waiting to send data out, and to take commands or data in.
    out: VecDeque<(u32, Nanos)>,
    into: VecDeque<(u32, Nanos)>,
    busy: Nanos,
}

snapshot_fields!(Channel { transfer, has_event, die, started, ends, out, into, busy });

impl Channel {
    /// True when a transfer can start at once.
    #[inline]
    pub(super) fn is_free(&self, now: Nanos) -> bool {
        self.transfer == Transfer::Nothing || !self.has_event && self.ends <= now
    }

    /// Let a die wait for the channel, which is not free; returns the end of the present transfer
    /// when that needs an event now.
    pub(super) fn wait(&mut self, die: u32, time: Nanos, out: bool) -> Option<Nanos> {
        let queue = if out { &mut self.out } else { &mut self.into };
        queue.push_back((die, time));
        let had = std::mem::replace(&mut self.has_event, true);
        (!had).then_some(self.ends)
    }

    /// A transfer of a die starts on the free channel; returns its end when that needs an event.
    #[inline]
    pub(super) fn start(
        &mut self,
        die: u32,
        time: Nanos,
        transfer: Transfer,
        now: Nanos,
    ) -> Option<Nanos> {
        (self.transfer, self.die) = (transfer, die);
        (self.started, self.ends) = (now, now + time);
        self.busy += time;
        let waited_for = !self.out.is_empty() || !self.into.is_empty();
        self.has_event = transfer != Transfer::Foreseen || waited_for;
        self.has_event.then_some(self.ends)
    }

    /// The event of the present transfer: returns its die, what it was, and its start.
    #[inline]
    pub(super) fn ended(&mut self) -> (u32, Transfer, Nanos) {
        let transfer = std::mem::take(&mut self.transfer);
        (self.die, transfer, self.started)
    }

    /// Whose turn is next, for how long, and whether data go out.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u32, Nanos, bool)> {
        match self.out.pop_front() {
            Some((die, time)) => Some((die, time, true)),
            None => self.into.pop_front().map(|(die, time)| (die, time, false)),
        }
    }

    pub(super) fn busy(&self) -> Nanos {
        self.busy
    }

    pub(super) fn clear(&mut self) {
        *self = Channel { busy: self.busy, ..Channel::default() };
    }
}

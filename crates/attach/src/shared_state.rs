//! What a frontend works on: the exports, the clock, buffers and a bound on memory.

use crate::buffer_pool::BufferPool;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::identity::Identity;

/// Most bytes that may be kept for clients at a time: replies that wait, writes that come in.
const BUDGET_BYTES: u64 = 512 << 20;
/// Most of it that clients share who cannot be refused, only made to wait.
const SHARED_BYTES: u64 = 192 << 20;
/// So much any of them may be owed, and no more than this part of what is left.
const OWED_ALWAYS: u64 = 64 << 10;
const OTHERS: u64 = 4;

/// One device that clients can reach.
pub struct Export<T = Engine> {
    /// The clients' name for it.
    pub name: String,
    /// How it presents itself to a host.
    pub identity: Identity,
    /// Refuse writes.
    pub read_only: bool,
    /// The device, its data and its faults.
    pub engine: T,
}

/// Bytes that are promised to clients.
#[derive(Clone, Copy, Default, Debug)]
pub struct Budget {
    used: u64,
}

impl Budget {
    /// Promise `bytes`; false when there is no room for them.
    pub fn take(&mut self, bytes: u64) -> bool {
        let fits = self.used + bytes <= BUDGET_BYTES;
        if fits {
            self.used += bytes;
        }
        fits
    }

    /// Promise `bytes` to a client that is owed `owed` already; false when it has to wait.
    pub fn share(&mut self, owed: u64, bytes: u64) -> bool {
        // Who has nothing yet may have something large.
        let first = owed == 0 && bytes <= self.left() / 2;
        let fits = first || self.is_fair(owed + bytes);
        if fits {
            self.used += bytes;
        }
        fits
    }

    /// True when a client that is owed `owed` leaves enough to others: those who take and never
    /// read get less and less then, but there is always some left for whoever comes.
    pub fn is_fair(&self, owed: u64) -> bool {
        owed <= OWED_ALWAYS || owed <= self.left() / OTHERS
    }

    fn left(&self) -> u64 {
        SHARED_BYTES.saturating_sub(self.used)
    }

    /// Bytes that are there whether there is room or not.
    pub fn add(&mut self, bytes: u64) {
        self.used += bytes;
    }

    /// `bytes` are gone.
    pub fn release(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.used, "more is released than was promised");
        self.used = self.used.saturating_sub(bytes);
    }
}

/// What all clients share.
pub struct SharedState<T = Engine> {
    /// The devices.
    pub exports: Vec<Export<T>>,
    /// Buffers for data.
    pub pool: BufferPool,
    /// The wall clock.
    pub clock: Clock,
    /// Bytes promised to clients.
    pub budget: Budget,
}

impl<T> SharedState<T> {
    /// The state for these devices.
    pub fn new(exports: Vec<Export<T>>, clock: Clock) -> SharedState<T> {
        SharedState { exports, pool: BufferPool::default(), clock, budget: Budget::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_take_and_never_read_leave_room_for_others() {
        let mut budget = Budget::default();
        let mib = 1 << 20;
        for _ in 0..12 {
            let mut owed = 0;
            while budget.share(owed, mib / 4) {
                owed += mib / 4;
            }
        }
        assert!(budget.used < SHARED_BYTES);
        assert!(budget.share(0, 2 * mib), "only {} are left", budget.left());
        budget.add(SHARED_BYTES);
        assert!(budget.share(0, OWED_ALWAYS) && !budget.share(OWED_ALWAYS, 1));
    }

    #[test]
    fn one_large_request_fits_beside_another() {
        let (mut budget, mib) = (Budget::default(), 1 << 20);
        assert!(budget.share(0, 64 * mib) && budget.share(0, 64 * mib));
        assert!(!budget.share(0, 64 * mib) && budget.share(0, 32 * mib));
    }
}

//! What a frontend works on: the exports, the clock, buffers and a bound on memory.

use crate::clock::Clock;
use crate::engine::Engine;
use crate::identity::Identity;
use crate::pool::Pool;

/// Most bytes that replies may hold at a time, over all clients.
const BUDGET_BYTES: u64 = 512 << 20;

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
pub struct Lab<T = Engine> {
    /// The devices.
    pub exports: Vec<Export<T>>,
    /// Buffers for data.
    pub pool: Pool,
    /// The wall clock.
    pub clock: Clock,
    /// Bytes promised to clients.
    pub budget: Budget,
}

impl<T> Lab<T> {
    /// A lab of these devices.
    pub fn new(exports: Vec<Export<T>>, clock: Clock) -> Lab<T> {
        Lab { exports, pool: Pool::default(), clock, budget: Budget::default() }
    }
}

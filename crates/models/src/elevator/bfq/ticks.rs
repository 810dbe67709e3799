//! Times in the kernel's ticks: most of what bfq compares is counted in them, so that it depends on
//! `HZ`.

use sim::Nanos;

use super::Params;
use super::epoch::FIRST_TICK;
use super::raise::RaiseTicks;

/// What does not change during a run, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    hz: u64,
    tick_ns: u64,
    /// The longest turn, and the default of it in ms.
    pub(super) timeout: u64,
    pub(super) default_timeout_ms: u64,
    /// Queues that appear within it belong to one burst.
    pub(super) burst_interval: u64,
    /// A split queue is in no burst for so long.
    pub(super) after_split: u64,
    /// Queues can be joined for so long after their first request.
    pub(super) join_until: u64,
    /// Queues created within it began together, and when it is known whether joining them pays.
    pub(super) stable_begins: u64,
    pub(super) stable_later: u64,
    /// Injection is measured anew after it; it rests, and settles, for so long.
    pub(super) inject_reset: u64,
    pub(super) inject_rests: u64,
    pub(super) inject_settles: u64,
    /// The idle class has a turn after so long.
    pub(super) idle_class: u64,
    pub(super) raise: RaiseTicks,
}

impl Ticks {
    pub(super) fn new(params: &Params, rotational: bool) -> Ticks {
        let hz = u64::from(params.hz);
        let ticks = |ms: u64| (ms * hz).div_ceil(1000);
        let timeout_us = params.timeout_sync.0.0 / 1000;
        Ticks {
            hz,
            tick_ns: 1_000_000_000 / hz,
            timeout: (timeout_us * hz).div_ceil(1_000_000).max(1),
            default_timeout_ms: hz / 8 * 1000 / hz,
            burst_interval: ticks(180),
            after_split: ticks(10),
            join_until: hz / 10,
            stable_begins: ticks(600),
            stable_later: ticks(600),
            inject_reset: ticks(1000),
            inject_rests: ticks(10),
            inject_settles: ticks(100),
            idle_class: hz / 5,
            raise: RaiseTicks::new(ticks, rotational, params.wr_max_time.0, params.slice_idle.0),
        }
    }

    /// The tick of an instant.
    pub(super) fn at(&self, now: Nanos) -> u64 {
        FIRST_TICK + now.0 / self.tick_ns
    }

    pub(super) fn in_ms(&self, ticks: u64) -> u64 {
        ticks * 1000 / self.hz
    }
}

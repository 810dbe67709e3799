//! Leaving the device idle for a process that is expected to come back.

use sim::{Counters, Nanos, snapshot_fields};

/// Whether the elevator waits now, and how often that paid.
#[derive(Clone, Debug)]
pub(crate) struct Idling {
    until: Nanos,
    since: Nanos,
    won: u64,
    lost: u64,
    /// For how long the device was left idle.
    total: Nanos,
}

snapshot_fields!(Idling { until, since, won, lost, total });

impl Default for Idling {
    fn default() -> Idling {
        Idling { until: Nanos::MAX, since: Nanos::ZERO, won: 0, lost: 0, total: Nanos::ZERO }
    }
}

impl Idling {
    pub(crate) fn is_on(&self) -> bool {
        self.until != Nanos::MAX
    }

    /// When waiting ends; [`Nanos::MAX`] while nobody is waited for.
    pub(crate) fn until(&self) -> Nanos {
        self.until
    }

    /// When waiting last began, whether it goes on or not.
    pub(crate) fn since(&self) -> Nanos {
        self.since
    }

    pub(crate) fn start(&mut self, now: Nanos, time: Nanos) {
        (self.until, self.since) = (now + time, now);
    }

    pub(crate) fn stop(&mut self, now: Nanos) {
        if self.is_on() {
            self.total += now.since(self.since);
            self.until = Nanos::MAX;
        }
    }

    /// Who was waited for, if anybody, has come.
    pub(crate) fn won(&mut self, now: Nanos) {
        self.won += u64::from(self.is_on());
        self.stop(now);
    }

    /// Nobody came in time.
    pub(crate) fn lost(&mut self, now: Nanos) {
        self.lost += 1;
        self.stop(now);
    }

    pub(crate) fn counters(&self, out: &mut Counters) {
        out.add("anticipations_won", self.won);
        out.add("anticipations_lost", self.lost);
        out.add("idled_ns", self.total.0);
    }

    /// What was counted, while nobody is waited for.
    pub(crate) fn cleared(&self) -> Idling {
        Idling { until: Nanos::MAX, since: Nanos::ZERO, ..self.clone() }
    }
}

//! Ends a guest that computes while its time stands still: a program that waits in a loop for time
//! to pass would do so for ever.

use std::time::{Duration, Instant};

use sim::Nanos;

/// Since when virtual time has stood still, and what may come of that.
pub(super) struct Standstill {
    /// So much of this machine's processor time the guest may take meanwhile.
    limit: Duration,
    /// The moment it stands at.
    at: Nanos,
    since: Instant,
    /// The guest's processor time in seconds by then.
    cpu_s: f64,
}

impl Standstill {
    pub(super) fn new(limit: Duration) -> Standstill {
        Standstill { limit, at: Nanos::ZERO, since: Instant::now(), cpu_s: 0.0 }
    }

    /// To be asked now and then while the guest says nothing: true when it has computed for too
    /// long. `cpu_s` finds out how many seconds of the processor it has had.
    pub(super) fn is_over(&mut self, now: Nanos, cpu_s: impl FnOnce() -> f64) -> bool {
        if now != self.at {
            (self.at, self.since, self.cpu_s) = (now, Instant::now(), cpu_s());
            return false;
        }
        // The guest has one processor, so it cannot have had more of it than has passed.
        self.since.elapsed() >= self.limit && cpu_s() - self.cpu_s >= self.limit.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_guest_that_computes_at_one_moment_is_ended() {
        let mut standstill = Standstill::new(Duration::ZERO);
        assert!(!standstill.is_over(Nanos(5), || 10.0), "time has moved");
        assert!(standstill.is_over(Nanos(5), || 10.0), "nothing is allowed");
        let (mut standstill, limit) = (Standstill::new(Duration::from_nanos(1)), 1e-9);
        assert!(!standstill.is_over(Nanos(5), || 10.0));
        while standstill.since.elapsed() < Duration::from_nanos(1) {}
        assert!(!standstill.is_over(Nanos(5), || 10.0), "it has not had the processor");
        assert!(standstill.is_over(Nanos(5), || 10.0 + 2.0 * limit));
        assert!(!standstill.is_over(Nanos(6), || 20.0), "time has moved");
        let mut standstill = Standstill::new(Duration::MAX);
        assert!(!standstill.is_over(Nanos::ZERO, || unreachable!("it is too early to look")));
    }
}

//! What is measured while a run goes on: histograms and a timeline, in constant memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use config::Failure;
use sim::{Completion, Histogram, Nanos, Op, Probe, Request};

use crate::timeline::Timeline;

/// Bins of the latency timeline.
const BINS_MAX: usize = 400;
/// The run's progress is published once per this many requests.
const PUBLISH_EVERY: u64 = 1 << 14;

/// How far a run is, for whoever watches it from another thread.
#[derive(Debug, Default)]
pub struct Progress {
    /// Requests completed.
    pub requests: AtomicU64,
    /// Simulated time, in nanoseconds since the run began.
    pub simulated_ns: AtomicU64,
    /// Set when the run should end early, as a failure.
    pub(crate) stop: AtomicBool,
}

impl Progress {
    /// A failure once the run was told to stop.
    ///
    /// # Errors
    /// From then on.
    #[inline]
    pub fn check(&self) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) { Err(Failure::input("stopped")) } else { Ok(()) }
    }
}

/// When measuring begins behind a ramp, and the first moment whose completions count: those at the
/// end of a ramp belong to the ramp.
pub(crate) fn measured_from(start: Nanos, ramp: Nanos) -> (Nanos, Nanos) {
    let from = start.saturating_add(ramp);
    (from, from.saturating_add(Nanos(u64::from(ramp > Nanos::ZERO))))
}

/// Counts every request that completes after the ramp.
pub(crate) struct Recorder<'a> {
    start: Nanos,
    /// When measuring begins.
    origin: Nanos,
    /// The first moment whose completions count: those at the end of a ramp belong to the ramp.
    first: Nanos,
    histograms: [Histogram; 4],
    bytes: [u64; 4],
    pub(crate) timeline: Timeline,
    completed: u64,
    progress: &'a Progress,
}

impl<'a> Recorder<'a> {
    /// Measure from `ramp` after `start` on; `expected` is the measured time, where it is known.
    pub(crate) fn new(
        start: Nanos,
        ramp: Nanos,
        expected: Option<Nanos>,
        progress: &'a Progress,
    ) -> Recorder<'a> {
        let (origin, first) = measured_from(start, ramp);
        Recorder {
            start,
            origin,
            first,
            histograms: Default::default(),
            bytes: [0; 4],
            timeline: Timeline::new(BINS_MAX, expected),
            completed: 0,
            progress,
        }
    }

    /// What was counted elsewhere, from moment zero on.
    pub(crate) fn of(
        histograms: [Histogram; 4],
        bytes: [u64; 4],
        progress: &'a Progress,
    ) -> Recorder<'a> {
        let empty = Recorder::new(Nanos::ZERO, Nanos::ZERO, None, progress);
        Recorder { histograms, bytes, ..empty }
    }

    /// Response times and bytes, by operation.
    pub(crate) fn counted(&self) -> (&[Histogram; 4], [u64; 4]) {
        (&self.histograms, self.bytes)
    }

    /// Response times of an operation.
    pub(crate) fn histogram(&self, op: Op) -> &Histogram {
        &self.histograms[op as usize]
    }

    /// Requests of an operation.
    pub(crate) fn requests(&self, op: Op) -> u64 {
        self.histogram(op).count()
    }

    /// The measured time of a run that ended at `end`.
    pub(crate) fn measured(&self, end: Nanos) -> Nanos {
        end.since(self.origin)
    }

    #[cold]
    fn publish(&self, now: Nanos) {
        self.progress.requests.store(self.completed, Ordering::Relaxed);
        self.progress.simulated_ns.store(now.since(self.start).0, Ordering::Relaxed);
    }
}

impl Probe for Recorder<'_> {
    #[inline]
    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        self.completed += 1;
        if self.completed.is_multiple_of(PUBLISH_EVERY) {
            self.publish(completion.at);
        }
        if completion.at < self.first {
            return;
        }
        let op = request.op as usize;
        let latency = completion.at.since(issued).0;
        let bytes = request.bytes().0;
        self.histograms[op].record(latency);
        self.bytes[op] += bytes;
        self.timeline.record(op, completion.at.since(self.origin).0, latency, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_to_the_end_of_time_is_not_over_before_it_began() {
        assert_eq!(measured_from(Nanos(7), Nanos::MAX), (Nanos::MAX, Nanos::MAX));
        assert_eq!(measured_from(Nanos(7), Nanos(5)), (Nanos(12), Nanos(13)));
        assert_eq!(measured_from(Nanos(7), Nanos::ZERO), (Nanos(7), Nanos(7)));
    }
}

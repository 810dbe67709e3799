//! Replay in the order of the trace, at the pace that was chosen.

use sim::{Completion, Demand, Nanos, Request, Workload, WorkloadError};

use super::source::Source;
use crate::replay::{Pace, Turn};

/// No replay takes longer: nanoseconds would not hold it.
const LAST: Nanos = Nanos(100 * 365 * 86_400 * 1_000_000_000);

/// One request after the other.
pub(super) struct Paced {
    source: Source,
    pace: Box<dyn Pace>,
    /// The trace's pause before its first request, where that counts.
    pause: Option<Nanos>,
    /// When the replay began, and the trace's time of its first request.
    base: Option<(Nanos, Nanos)>,
    /// The trace's time of the latest request; one without a time counts as simultaneous.
    time: Nanos,
    in_flight: u64,
    completed: Nanos,
}

impl Paced {
    pub(super) fn new(source: Source, pace: Box<dyn Pace>) -> Paced {
        let (time, completed) = (Nanos::ZERO, Nanos::ZERO);
        let pause = pace.counts_from_start().then(|| source.origin());
        Paced { source, pace, pause, base: None, time, in_flight: 0, completed }
    }
}

impl Workload for Paced {
    #[inline]
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        let Some(record) = self.source.peek()? else {
            return Ok(Demand::End);
        };
        let time = record.time.unwrap_or(self.time).max(self.time);
        let (first, before) = match self.pause {
            Some(pause) => (Nanos::ZERO, pause),
            None => (time, Nanos::ZERO),
        };
        let (start, first) = *self.base.get_or_insert((now, first));
        let turn = self.pace.turn(
            now.since(start),
            time.since(first).saturating_add(before),
            self.in_flight,
            self.completed.since(start),
        );
        match turn {
            Turn::At(at) if at > LAST => return Err(self.source.late(&record)),
            Turn::At(at) => return Ok(Demand::At(start.saturating_add(at))),
            Turn::Wait => return Ok(Demand::Wait),
            Turn::Now => {}
        }
        let request = self.source.place(&record)?;
        self.time = time;
        self.source.advance();
        self.in_flight += 1;
        Ok(Demand::Issue(request))
    }

    #[inline]
    fn complete(&mut self, _request: &Request, completion: Completion) {
        self.in_flight -= 1;
        self.completed = completion.at;
    }

    fn notes(&self) -> Vec<String> {
        self.source.notes()
    }
}

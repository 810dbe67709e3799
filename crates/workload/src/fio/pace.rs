//! Rates: when the next request of each direction may start.

use sim::{Nanos, Rng, SECTOR_BYTES};

use super::options::{BlockSize, Options, READ, TRIM, WRITE};
use super::plan::Resolved;

/// A rate is lost when a request is so far behind its time,
const BEHIND_MAX: Nanos = Nanos(1_000_000_000);
/// or this share of the time that the job has issued requests.
const BEHIND_PERCENT: u64 = 5;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Pace {
    Free,
    /// Bytes per second, measured from the start.
    Bytes(u64),
    /// Requests per second, measured from the start.
    Requests(u64),
    /// Mean gap in nanoseconds.
    Poisson(f64),
}

/// The rates of one job.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    pace: [Pace; 3],
    due: [Nanos; 3],
    /// What was issued of each direction, in what its rate counts.
    issued: [u64; 3],
    gaps: [Rng; 3],
    start: Nanos,
    /// Pauses that are not caught up.
    stalled: Nanos,
    /// What a request was issued behind its time, at most.
    behind: Nanos,
    latest: Nanos,
}

impl Rates {
    /// Those that the job has; `None` without any.
    pub(super) fn new(plan: &Resolved) -> Option<Rates> {
        let pace = [READ, WRITE, TRIM].map(|direction| pace(&plan.options, direction));
        (pace != [Pace::Free; 3]).then(|| Rates {
            pace,
            due: [Nanos::ZERO; 3],
            issued: [0; 3],
            gaps: ["read", "write", "trim"].map(|name| plan.rng.split("gaps").split(name)),
            start: Nanos::ZERO,
            stalled: Nanos::ZERO,
            behind: Nanos::ZERO,
            latest: Nanos::ZERO,
        })
    }

    /// Start the clock.
    pub(super) fn begin(&mut self, start: Nanos) {
        (self.start, self.latest, self.due) = (start, start, [start; 3]);
    }

    pub(super) fn due(&self, direction: usize) -> Nanos {
        self.due[direction]
    }

    /// A pause that is not caught up.
    pub(super) fn stall(&mut self, pause: Nanos) {
        self.stalled = self.stalled.saturating_add(pause);
        self.due = self.due.map(|due| due.saturating_add(pause));
    }

    /// What a request was issued behind its time, at most, where that is worth a word.
    pub(super) fn fell_behind(&self) -> Option<Nanos> {
        let share = self.latest.since(self.start).0 / 100 * BEHIND_PERCENT;
        (self.behind.0 > share.min(BEHIND_MAX.0)).then_some(self.behind)
    }

    /// A request of `sectors` sectors was issued.
    pub(super) fn book(&mut self, now: Nanos, direction: usize, sectors: u64) {
        let due = self.due[direction];
        let (counted, rate) = match self.pace[direction] {
            Pace::Free => return,
            Pace::Bytes(rate) => (sectors * SECTOR_BYTES, Ok(rate)),
            Pace::Requests(rate) => (1, Ok(rate)),
            Pace::Poisson(mean) => (1, Err(mean)),
        };
        self.latest = now;
        self.behind = self.behind.max(now.since(due));
        self.issued[direction] += counted;
        self.due[direction] = match rate {
            Ok(rate) => {
                let span = u128::from(self.issued[direction]) * 1_000_000_000 / u128::from(rate);
                let span = Nanos(span.min(u128::from(u64::MAX)) as u64);
                self.start.saturating_add(self.stalled).saturating_add(span)
            }
            Err(mean) => {
                let gap = -libm::log(1.0 - self.gaps[direction].unit()) * mean;
                due.saturating_add(Nanos(gap as u64))
            }
        };
    }
}

fn pace(o: &Options, direction: usize) -> Pace {
    let block = o.bs[direction].min();
    let split = matches!(o.bs[direction], BlockSize::Split(_));
    let rate = match (o.rate[direction], o.rate_iops[direction]) {
        (0, 0) => return Pace::Free,
        // As in fio, which has bytes of the smallest size of a range.
        (0, iops) if split && !o.poisson => return Pace::Requests(iops),
        (0, iops) => iops.saturating_mul(block),
        (rate, _) => rate,
    };
    if o.poisson { Pace::Poisson(1e9 * block as f64 / rate as f64) } else { Pace::Bytes(rate) }
}

//! Flushes and pauses between a job's requests, where fio has them.

use sim::Nanos;

use super::flushes::Flushes;
use super::options::{Options, WRITE};

/// What comes instead of the next request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Instead {
    /// The completion of those in flight.
    Drain,
    Flush,
    /// A pause until then, of which this may be the beginning.
    Pause {
        until: Nanos,
        begins: bool,
    },
}

/// Why a job waits although it may have requests in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hold {
    None,
    /// For its queue to drain, then a pause.
    Think,
    /// For the end of the pause.
    Until(Nanos),
    /// For a flush, which was issued.
    Flushing,
}

/// What a job counts to know when to flush and to pause.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    thinktime: Nanos,
    blocks: u64,
    counts_issued: bool,
    waits: Flushes,
    /// Writes between flushes, of `fsync` and of `fdatasync`; 0 where there are none.
    flushes: [u64; 2],
    depth: u64,
    hold: Hold,
    owes_flush: bool,
    writes: u64,
    issued: u64,
    completed: u64,
    /// Completions that fio has taken note of: when its queue is full of one, when it is to be
    /// empty of all.
    reaped: u64,
    /// What was counted when the last pause was decided on.
    paused_at: u64,
    /// Whether a pause is due is asked when the next request completes.
    asks: bool,
}

impl Gate {
    /// Those that the job has; `None` where nothing comes between its requests.
    pub(super) fn new(o: &Options) -> Option<Gate> {
        let flushes = [o.fsync, o.fdatasync];
        (flushes != [0; 2] || o.thinktime > Nanos::ZERO).then_some(Gate {
            thinktime: o.thinktime,
            blocks: o.thinktime_blocks,
            counts_issued: o.thinktime_at_issue,
            waits: o.flushes,
            flushes,
            depth: o.iodepth,
            hold: Hold::None,
            owes_flush: false,
            writes: 0,
            issued: 0,
            completed: 0,
            reaped: 0,
            paused_at: 0,
            asks: false,
        })
    }

    /// What comes at `now` before the next request; `None` when that may go.
    pub(super) fn next(&mut self, now: Nanos, in_flight: u64) -> Option<Instead> {
        match self.hold {
            Hold::Flushing => return Some(Instead::Drain),
            Hold::Think if in_flight > 0 => return Some(Instead::Drain),
            Hold::Think => {
                let until = now.saturating_add(self.thinktime);
                self.drained();
                self.hold = Hold::Until(until);
                return Some(Instead::Pause { until, begins: true });
            }
            Hold::Until(until) if now < until => {
                return Some(Instead::Pause { until, begins: false });
            }
            Hold::None | Hold::Until(_) => self.hold = Hold::None,
        }
        if !self.owes_flush {
            return None;
        }
        if self.waits == Flushes::Drain {
            if in_flight > 0 {
                return Some(Instead::Drain);
            }
            self.drained();
        }
        self.owes_flush = false;
        if self.waits != Flushes::Pass {
            self.hold = Hold::Flushing;
        }
        Some(Instead::Flush)
    }

    /// A request was issued. A full queue waits for a completion, and takes note of one; of one
    /// that the job `awaits` it takes note as it completes.
    pub(super) fn issue(&mut self, direction: usize, awaits: bool) {
        self.issued += 1;
        if direction == WRITE {
            self.writes += 1;
            self.owes_flush = self.flushes.iter().any(|&n| n > 0 && self.writes.is_multiple_of(n));
        }
        if awaits {
            self.asks = true;
            return;
        }
        let full = self.issued - self.reaped >= self.depth;
        if full && self.completed == self.reaped {
            self.asks = true;
            return;
        }
        self.reaped += u64::from(full);
        self.look();
    }

    /// A read, write or trim completed.
    pub(super) fn complete(&mut self) {
        self.completed += 1;
        if std::mem::take(&mut self.asks) {
            self.reaped += 1;
            self.look();
        }
    }

    /// A flush completed.
    pub(super) fn flushed(&mut self) {
        if self.hold == Hold::Flushing {
            self.hold = Hold::None;
        }
    }

    /// Nothing is in flight, or the job sleeps: all completions are known.
    pub(super) fn drained(&mut self) {
        self.reaped = self.completed;
    }

    /// Is a pause due?
    fn look(&mut self) {
        let counted = if self.counts_issued { self.issued } else { self.reaped };
        if self.thinktime > Nanos::ZERO && counted >= self.paused_at.saturating_add(self.blocks) {
            self.paused_at = counted;
            self.hold = Hold::Think;
        }
    }
}

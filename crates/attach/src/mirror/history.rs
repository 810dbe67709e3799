//! What a running mirror went through: freezes, changes, scrubs, and how fast it copies.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use mirror::{DEVICES, LEGS, Slot};
use serde::{Deserialize, Serialize};
use sim::Nanos;

/// The last so many freezes and changes are kept.
const KEPT: usize = 32;
/// Rates are those of the last so many samples, one per second.
const SAMPLES: usize = 10;
const SAMPLE_EVERY: Nanos = Nanos::from_secs(1);

/// A leg was frozen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Freeze {
    /// `fast` or `slow`.
    pub leg: String,
    /// When it was noticed, in seconds since 1970.
    pub began_unix_s: f64,
    /// How long it took in milliseconds; so far, if `over` is false.
    pub ms: f64,
    /// It has ended.
    pub over: bool,
}

/// Something else that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// When, in seconds since 1970.
    pub unix_s: f64,
    /// What.
    pub text: String,
}

/// What was counted up to some moment, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Progress {
    /// Written to the homes on each leg.
    pub(super) written: [u64; LEGS],
    /// Copied to fill or repair a leg.
    pub(super) copied: u64,
    /// Compared by a scrub.
    pub(super) compared: u64,
}

/// Scrubs since the start.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Scrubs {
    pub(super) begun: u64,
    pub(super) completed: u64,
    /// The number of the last one that went through.
    pub(super) last_completed: u64,
    pub(super) running: bool,
    /// Wrong copies that were counted when the last one began.
    mismatches_before: u64,
    /// What the last one found, once it has ended.
    mismatches: u64,
    pub(super) undecided: u64,
}

impl Scrubs {
    /// One begins; so many wrong copies were counted so far.
    pub(super) fn begin(&mut self, counted: u64) {
        (self.begun, self.running) = (self.begun + 1, true);
        (self.mismatches_before, self.mismatches, self.undecided) = (counted, 0, 0);
    }

    /// It runs no longer, through or not: what reads find from now on is not its finding.
    pub(super) fn end(&mut self, counted: u64) {
        if std::mem::take(&mut self.running) {
            self.mismatches = counted - self.mismatches_before;
        }
    }

    /// It went through to the end.
    pub(super) fn complete(&mut self, counted: u64) {
        self.end(counted);
        (self.completed, self.last_completed) = (self.completed + 1, self.begun);
    }

    /// Wrong copies that the last one found; so far, while it runs.
    pub(super) fn mismatches(&self, counted: u64) -> u64 {
        if self.running { counted - self.mismatches_before } else { self.mismatches }
    }
}

#[derive(Debug)]
pub(super) struct History {
    freezes: VecDeque<(Slot, f64, Nanos, Option<Nanos>)>,
    changes: VecDeque<Change>,
    pub(super) frozen: [Nanos; LEGS],
    pub(super) frozen_count: [u64; LEGS],
    pub(super) scrubs: Scrubs,
    /// Blocks whose copies differed with nothing to say which is right.
    pub(super) undecided: u64,
    /// Why each device was left out, until it is a member again.
    pub(super) left_because: [Option<String>; DEVICES],
    pub(super) progress: Progress,
    samples: VecDeque<(Nanos, Progress)>,
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl History {
    pub(super) fn new(now: Nanos) -> History {
        History {
            freezes: VecDeque::new(),
            changes: VecDeque::new(),
            frozen: [Nanos::ZERO; LEGS],
            frozen_count: [0; LEGS],
            scrubs: Scrubs::default(),
            undecided: 0,
            left_because: [const { None }; DEVICES],
            progress: Progress::default(),
            samples: VecDeque::from([(now, Progress::default())]),
        }
    }

    pub(super) fn froze(&mut self, now: Nanos, leg: Slot, frozen: bool) {
        if frozen {
            self.frozen_count[leg] += 1;
            keep(&mut self.freezes, (leg, unix_s(), now, None));
            return;
        }
        let open = self.freezes.iter_mut().rev().find(|it| it.0 == leg && it.3.is_none());
        if let Some((_, _, began, end)) = open {
            *end = Some(now);
            self.frozen[leg] += now.since(*began);
        }
    }

    pub(super) fn changed(&mut self, text: &str) {
        keep(&mut self.changes, Change { unix_s: unix_s(), text: text.to_string() });
    }

    /// The newest first.
    pub(super) fn freezes(&self, now: Nanos) -> Vec<Freeze> {
        let shown = self.freezes.iter().rev().map(|&(leg, began_unix_s, began, end)| Freeze {
            leg: super::NAMES[leg].into(),
            began_unix_s,
            ms: end.unwrap_or(now).since(began).0 as f64 / 1e6,
            over: end.is_some(),
        });
        shown.collect()
    }

    /// The newest first.
    pub(super) fn changes(&self) -> Vec<Change> {
        self.changes.iter().rev().cloned().collect()
    }

    /// Time goes on.
    pub(super) fn pass(&mut self, now: Nanos) {
        if self.samples.back().is_none_or(|&(at, _)| now.since(at) >= SAMPLE_EVERY) {
            self.samples.push_back((now, self.progress));
            if self.samples.len() > SAMPLES {
                self.samples.pop_front();
            }
        }
    }

    /// How long `left` bytes take at the pace of the last seconds; `None` when nothing moved.
    pub(super) fn eta_s(
        &self,
        now: Nanos,
        left: u64,
        of: impl Fn(&Progress) -> u64,
    ) -> Option<f64> {
        if left == 0 {
            return Some(0.0);
        }
        let &(at, then) = self.samples.front()?;
        let moved = of(&self.progress).saturating_sub(of(&then));
        let took_s = now.since(at).0 as f64 / 1e9;
        (moved > 0).then(|| left as f64 * took_s / moved as f64)
    }
}

fn keep<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == KEPT {
        list.pop_front();
    }
    list.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let second = |s: u64| Nanos::from_secs(s);
        let mut history = History::new(second(0));
        let copied = |progress: &Progress| progress.copied;
        assert_eq!(history.eta_s(second(0), 0, copied), Some(0.0));
        assert_eq!(history.eta_s(second(1), 100, copied), None);
        history.progress.copied = 1000;
        history.pass(second(1));
        assert_eq!(history.eta_s(second(1), 500, copied), Some(0.5));
        for s in 2..30 {
            history.progress.copied += 10;
            history.pass(second(s));
        }
        // What was fast at the start is forgotten.
        assert_eq!(history.eta_s(second(29), 100, copied), Some(10.0));
    }

    #[test]
    fn freezes_have_a_length_and_the_oldest_are_forgotten() {
        let mut history = History::new(Nanos::ZERO);
        for n in 0..40 {
            history.froze(Nanos::from_secs(2 * n), 1, true);
            history.froze(Nanos::from_secs(2 * n + 1), 1, false);
        }
        history.froze(Nanos::from_secs(90), 0, true);
        let seen = history.freezes(Nanos::from_secs(92));
        assert_eq!(seen.len(), KEPT);
        assert_eq!((&seen[0].leg[..], seen[0].ms, seen[0].over), ("fast", 2000.0, false));
        assert_eq!((&seen[1].leg[..], seen[1].ms, seen[1].over), ("slow", 1000.0, true));
        assert_eq!(history.frozen, [Nanos::ZERO, Nanos::from_secs(40)]);
        assert_eq!(history.frozen_count, [1, 40]);
    }
}

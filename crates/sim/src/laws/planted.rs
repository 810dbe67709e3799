//! The canary of the laws: devices with one bug each, which one law finds and no other.

use super::*;
use crate::device::{Busy, Limits, LostWrite, Survivors};
use crate::snapshot::{Snapshot, SnapshotError};
use crate::testing::FixedDelay;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Bug {
    /// Nothing is wrong with it.
    None,
    /// A completion lies a little in the past.
    Early,
    /// The next event does.
    EventInThePast,
    /// A second call at one instant completes what is due later.
    SecondAdvanceCompletes,
    /// A second call at one instant makes the next request slower.
    SecondAdvanceDelays,
    /// What should stop at an answer goes on to the next one.
    PassAnAnswer,
    /// What should stop before a moment does what comes then.
    GoTooFar,
    Twice,
    Swallow,
    BeforeSubmission,
    /// The copy does not know what is inside.
    ForgetOnClone,
    /// The original does not know it any more.
    ForgetOnFreeze,
    ForgetOnSave,
    LoseFua,
    LoseFlushed,
    LoseUnacknowledged,
    LoseBeyond,
    LoseWithoutCache,
    /// Requests of before the power failure complete after it.
    Ghosts,
}

/// Every bug with the law that finds it.
const BUGS: [(Bug, &str); 18] = [
    (Bug::Early, LAWS[0].0),
    (Bug::EventInThePast, LAWS[0].0),
    (Bug::SecondAdvanceCompletes, LAWS[1].0),
    (Bug::SecondAdvanceDelays, LAWS[1].0),
    (Bug::PassAnAnswer, LAWS[2].0),
    (Bug::GoTooFar, LAWS[2].0),
    (Bug::Twice, LAWS[3].0),
    (Bug::Swallow, LAWS[3].0),
    (Bug::BeforeSubmission, LAWS[3].0),
    (Bug::ForgetOnClone, LAWS[4].0),
    (Bug::ForgetOnFreeze, LAWS[4].0),
    (Bug::ForgetOnSave, LAWS[5].0),
    (Bug::LoseFua, LAWS[6].0),
    (Bug::LoseFlushed, LAWS[6].0),
    (Bug::LoseUnacknowledged, LAWS[6].0),
    (Bug::LoseBeyond, LAWS[6].0),
    (Bug::LoseWithoutCache, LAWS[6].0),
    (Bug::Ghosts, LAWS[6].0),
];

/// Requests after which a bug shows that would otherwise show at once.
const SLEEPS_FOR: u64 = 100;

/// A device with a write cache: a power failure takes all writes that no flush has covered.
#[derive(Clone)]
struct Buggy {
    bug: Bug,
    write_cache: bool,
    inner: FixedDelay,
    /// Requests since the beginning.
    seen: u64,
    /// The last instant at which it was advanced.
    advanced: Nanos,
    /// How much later than it should the next request begins.
    late: Nanos,
    /// What is inside, and since when.
    inside: Vec<(Request, Nanos)>,
    /// Completed writes that no flush has covered, and when they completed.
    cached: Vec<(Request, Nanos)>,
}

/// Slow enough that something is inside when the power fails.
fn fresh() -> FixedDelay {
    FixedDelay::new(Nanos::from_micros(20), 64)
}

impl Buggy {
    fn new(bug: Bug) -> Buggy {
        Buggy {
            bug,
            write_cache: bug != Bug::LoseWithoutCache,
            inner: fresh(),
            seen: 0,
            advanced: Nanos::ZERO,
            late: Nanos::ZERO,
            inside: Vec::new(),
            cached: Vec::new(),
        }
    }

    fn strikes(&self, bug: Bug) -> bool {
        self.bug == bug && self.seen > SLEEPS_FOR
    }

    fn completed(&mut self, completion: Completion) {
        let Some(index) = self.inside.iter().position(|(r, _)| r.id == completion.id) else {
            return;
        };
        let (request, submitted) = self.inside.remove(index);
        match request.op {
            Op::Flush if self.bug != Bug::LoseFlushed => {
                self.cached.retain(|&(_, completed)| completed >= submitted);
            }
            Op::Write if !request.fua || self.bug == Bug::LoseFua => {
                self.cached.push((request, completion.at));
            }
            _ => {}
        }
    }
}

impl Snapshot for Buggy {
    fn save(&self, to: &mut Saver) {
        match self.bug {
            Bug::ForgetOnSave => fresh().save(to),
            _ => self.inner.save(to),
        }
        self.seen.save(to);
        self.advanced.save(to);
        self.late.save(to);
        self.inside.save(to);
        self.cached.save(to);
    }

    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.inner.restore(from)?;
        self.seen.restore(from)?;
        self.advanced.restore(from)?;
        self.late.restore(from)?;
        self.inside.restore(from)?;
        self.cached.restore(from)
    }
}

impl Device for Buggy {
    fn limits(&self) -> Limits {
        Limits { write_cache: self.write_cache, ..self.inner.limits() }
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        self.seen += 1;
        self.inside.push((request, now));
        if self.bug == Bug::Swallow && self.seen == SLEEPS_FOR {
            return Ok(());
        }
        self.inner.submit(now + std::mem::take(&mut self.late), request)
    }

    fn next_event(&self) -> Option<Nanos> {
        let event = self.inner.next_event();
        if self.strikes(Bug::EventInThePast) { event.map(|_| Nanos(1)) } else { event }
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        if self.advanced == now {
            match self.bug {
                Bug::SecondAdvanceCompletes => {
                    let mut later = Completions::new();
                    let event = self.inner.next_event().unwrap_or(now);
                    self.inner.advance(event, &mut later);
                    later.done.iter().for_each(|c| out.complete(c.id, now));
                }
                Bug::SecondAdvanceDelays => self.late = Nanos(1),
                _ => {}
            }
        }
        self.advanced = now;
        let before = out.done.len();
        self.inner.advance(now, out);
        for &completion in &out.done[before..] {
            self.completed(completion);
        }
        if let Some(&first) = out.done.get(before)
            && self.seen > SLEEPS_FOR
        {
            match self.bug {
                Bug::Early => out.done[before].at = Nanos(now.0 - 1),
                Bug::BeforeSubmission => out.done[before].at = Nanos::ZERO,
                Bug::Twice => out.done.push(first),
                _ => {}
            }
        }
    }

    fn advance_until(&mut self, until: Nanos, out: &mut Completions) -> Option<Nanos> {
        let mut last = self.next_event().filter(|&next| next <= until)?;
        self.advance(last, out);
        let next = self.next_event().filter(|next| match self.bug {
            Bug::PassAnAnswer => *next <= until,
            Bug::GoTooFar => *next > until && until != Nanos::MAX,
            _ => false,
        });
        if let Some(next) = next.filter(|_| self.seen > SLEEPS_FOR) {
            self.advance(next, out);
            last = next;
        }
        Some(last)
    }

    fn power_fail(&mut self, now: Nanos) -> Survivors {
        let mut lost = std::mem::take(&mut self.cached);
        let inside = std::mem::take(&mut self.inside);
        if self.bug == Bug::LoseUnacknowledged {
            lost.extend(inside.into_iter().filter(|(r, _)| r.op == Op::Write));
        }
        let beyond = u32::from(self.bug == Bug::LoseBeyond);
        if self.bug != Bug::Ghosts {
            self.inner.power_fail(now);
        }
        // What happens after a power failure is the business of one law; the bugs of others end.
        self.bug = Bug::None;
        let lost = lost.iter().map(|(r, _)| LostWrite {
            id: r.id,
            lba: r.lba,
            sectors: r.sectors + beyond,
        });
        Survivors { lost: lost.collect() }
    }

    fn freeze(&mut self) {
        if self.bug == Bug::ForgetOnFreeze {
            self.inner = fresh();
        }
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        let mut copy = self.clone();
        if self.bug == Bug::ForgetOnClone {
            copy.inner = fresh();
        }
        Box::new(copy)
    }
}

/// The names of the laws that a device with this bug breaks.
fn broken_by(bug: Bug) -> Vec<&'static str> {
    let make = move || -> Box<dyn Device> { Box::new(Buggy::new(bug)) };
    let broken = LAWS.iter().filter(|(_, check)| (0..20).any(|seed| check(&make, seed).is_err()));
    broken.map(|(law, _)| *law).collect()
}

#[test]
fn each_planted_bug_is_found_by_its_law_alone() {
    assert_eq!(broken_by(Bug::None), [""; 0]);
    for (bug, law) in BUGS {
        assert_eq!(broken_by(bug), [law], "{bug:?}");
    }
    for (law, _) in LAWS {
        assert!(BUGS.iter().any(|(_, finder)| *finder == law), "no bug is planted for '{law}'");
    }
}

#[test]
#[should_panic(expected = "buggy breaks the law 'time never goes back' with seed ")]
fn a_broken_law_ends_the_check() {
    check_all("buggy", &|| Box::new(Buggy::new(Bug::Early)), 0..20);
}

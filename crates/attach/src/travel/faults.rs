//! Faults of a guest's disks at chosen moments of its program.

use config::Duration;
use serde::Serialize;
use sim::Nanos;

use crate::clock::Wall;
use crate::control::{self, Words};
use crate::fault::{FaultId, Rule};
use crate::shared_state::Export;

/// A fault of a disk from a moment on.
#[derive(Clone, PartialEq, Debug)]
pub struct Timed {
    rule: Rule,
    /// 0 is /dev/vda.
    disk: usize,
    /// Since the program began.
    at: Nanos,
    /// `None`: for good.
    lasts: Option<Nanos>,
}

impl Timed {
    /// Understand `KIND [at=TIME] [for=TIME] [disk=vdb]` with the options of a rule: `range`, `op`,
    /// `by`, `after`, `one-in`, `count`.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn parse(text: &str) -> Result<Timed, String> {
        let mut words = Words::of(text.split_whitespace());
        let mut time = |key: &str| {
            let parse = |text| Duration::parse(text).map_err(|why| format!("{key}={text}: {why}"));
            words.take(key).map(parse).transpose()
        };
        let (at, lasts) = (time("at")?, time("for")?);
        if lasts.is_some_and(|lasts| lasts.0 == Nanos(0)) {
            return Err("for=0: that is never".into());
        }
        let disk = words.take("disk").unwrap_or("vda");
        let letter = disk.strip_prefix("vd").filter(|rest| rest.len() == 1);
        let disk = letter
            .and_then(|letter| ('a'..='h').position(|known| letter.starts_with(known)))
            .ok_or_else(|| format!("disk={disk}: expected vda to vdh"))?;
        let rule = control::rule(&mut words)?;
        words.end()?;
        let at = at.map_or(Nanos(0), |at| at.0);
        Ok(Timed { rule, disk, at, lasts: lasts.map(|lasts| lasts.0) })
    }

    /// The number of its disk, from 0.
    pub(crate) fn disk(&self) -> usize {
        self.disk
    }
}

impl std::fmt::Display for Timed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.rule)?;
        if self.at > Nanos(0) {
            write!(f, " at={}", Duration(self.at))?;
        }
        self.lasts.map_or(Ok(()), |lasts| write!(f, " for={}", Duration(lasts)))
    }
}

/// What became of a fault.
#[derive(Clone, Debug, Serialize)]
pub struct FaultReport {
    /// The fault, as it was asked for.
    pub fault: String,
    /// How often it struck.
    pub hits: u64,
}

/// One of them.
struct Planned {
    timed: Timed,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// Its moment has not come.
    Waits,
    /// It is injected until then.
    Strikes(FaultId, Option<Nanos>),
    /// It is lifted, and struck so often.
    Over(u64),
}

/// All of a session. One strikes requests, so it is injected when the first request comes after its
/// moment; lifting it is an event of its own, because what hangs then goes on.
pub(super) struct Faults {
    all: Vec<Planned>,
    begun: Option<Nanos>,
}

impl Faults {
    pub(super) fn new(all: Vec<Timed>) -> Faults {
        let planned = |timed| Planned { timed, state: State::Waits };
        Faults { all: all.into_iter().map(planned).collect(), begun: None }
    }

    /// The program begins at `at`.
    pub(super) fn begin(&mut self, at: Nanos) {
        self.begun = Some(at);
    }

    /// When the next one is lifted.
    pub(super) fn due(&self) -> Option<Nanos> {
        let ends = self.all.iter().filter_map(|planned| match planned.state {
            State::Strikes(_, end) => end,
            _ => None,
        });
        ends.min()
    }

    /// Inject and lift what is due at `now`.
    pub(super) fn apply(&mut self, now: Nanos, exports: &mut [Export]) {
        let Some(begun) = self.begun else { return };
        for Planned { timed, state } in &mut self.all {
            let engine = &mut exports[timed.disk].engine;
            let (from, wall) = (begun.0.saturating_add(timed.at.0), Wall(now.0));
            if matches!(state, State::Waits) && from <= now.0 {
                let end = timed.lasts.map(|lasts| Nanos(from.saturating_add(lasts.0)));
                *state = State::Strikes(engine.inject(timed.rule.clone(), wall), end);
            }
            if let State::Strikes(id, Some(end)) = *state
                && end <= now
            {
                *state = State::Over(hits(id, engine.faults()));
                engine.lift(id, wall);
            }
        }
    }

    /// What became of those of a disk.
    pub(super) fn report(&self, disk: usize, faults: &crate::fault::Faults) -> Vec<FaultReport> {
        let own = self.all.iter().filter(|planned| planned.timed.disk == disk);
        own.map(|Planned { timed, state }| FaultReport {
            fault: timed.to_string(),
            hits: match *state {
                State::Waits => 0,
                State::Strikes(id, _) => hits(id, faults),
                State::Over(hits) => hits,
            },
        })
        .collect()
    }
}

fn hits(id: FaultId, faults: &crate::fault::Faults) -> u64 {
    faults.list().find(|(known, ..)| *known == id).map_or(0, |(.., hits)| hits)
}

impl FaultReport {
    /// For people.
    pub(crate) fn note(&self) -> String {
        let FaultReport { fault, hits } = self;
        match hits {
            0 => format!("fault {fault}: it struck nothing"),
            1 => format!("fault {fault}: it struck once"),
            _ => format!("fault {fault}: it struck {hits} times"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;

    #[test]
    fn a_fault_has_a_moment_and_a_disk() {
        let timed = Timed::parse("slow by=5ms at=2s for=100ms disk=vdb op=write count=3").unwrap();
        assert_eq!(
            (timed.disk, timed.at, timed.lasts),
            (1, Nanos(2_000_000_000), Some(Nanos(100_000_000)))
        );
        assert_eq!((timed.rule.kind, timed.rule.count), (Kind::Slow(5_000_000), Some(3)));
        assert_eq!(timed.to_string(), "slow by=5ms op=write count=3 at=2s for=100ms");
        let plain = Timed::parse("error").unwrap();
        assert_eq!((plain.at, plain.lasts, plain.disk), (Nanos(0), None, 0));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("", "which fault?"),
            ("eror", "`eror` is not one of"),
            ("error at=soon", "at=soon"),
            ("error for=0s", "that is never"),
            ("error disk=sda", "vda to vdh"),
            ("error when=1s", "no option `when`"),
            ("torn op=read", "op=read: torn strikes nothing of that kind"),
            ("error twice", "nothing to do with `twice`"),
        ] {
            let why = Timed::parse(text).unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
    }
}

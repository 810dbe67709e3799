//! What a sweep of cuts found, for programs and for people.

use std::collections::{BTreeMap, BTreeSet};

use config::Duration;
use serde::Serialize;
use sim::Nanos;

use super::recovery::Found;
use super::shrink::Smallest;
use super::timeline::{Event, Kind};
use super::{Checked, Cut, Media, Recorded, subsets};

/// So many of the writes whose loss is enough are told.
const TOLD_MAX: usize = 8;

/// So many of the last events before a cut are told.
const EVENTS_TOLD: usize = 30;

/// What is left after a cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It mounts, and every check is content.
    Clean,
    /// The file system had to be repaired; then the check was content.
    Repaired,
    /// Something that the check wants is gone.
    Lost,
    /// It does not mount, repaired or not.
    Refused,
}

impl Verdict {
    const ALL: [Verdict; 4] = [Verdict::Clean, Verdict::Repaired, Verdict::Lost, Verdict::Refused];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Clean => "clean",
            Verdict::Repaired => "repaired",
            Verdict::Lost => "lost",
            Verdict::Refused => "refused",
        }
    }
}

/// One cut.
#[derive(Clone, Debug, Serialize)]
pub struct CutReport {
    /// The moment, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// What is left.
    pub verdict: Verdict,
    /// Promises before it.
    pub acks: usize,
    /// Acknowledged writes of which the device lost something; of a subset, those that are not
    /// there whole.
    pub lost_writes: usize,
    /// Writes that the device had been asked and had not answered.
    pub unanswered_writes: usize,
    /// By the contract, writes that were not safe, and which of their subsets this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<u32>,
    /// See `subset`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_risk: Option<usize>,
    /// An earlier cut left the same bytes, with the same promises: that one was looked at.
    pub same_as_ns: Option<u64>,
    /// What the checks said, where they found something.
    pub said: String,
}

impl CutReport {
    /// Where what is missing was.
    fn missing(&self) -> String {
        match (self.lost_writes, self.unanswered_writes) {
            (0, 0) => "what is missing had not been asked of the drive".into(),
            (0, open) => format!("{open} writes asked of the drive and not answered"),
            (lost, 0) => format!("{lost} writes lost"),
            (lost, open) => format!("{lost} writes lost, {open} not answered"),
        }
    }

    /// The moment, and the number of its subset.
    pub(super) fn subset(&self) -> Option<(Nanos, u32)> {
        Some((Nanos(self.at_ns), self.subset?))
    }
}

/// How much of what the contract allows was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Coverage {
    /// Moments at which every subset of whole writes was looked at.
    pub exhausted: usize,
    /// Moments at which there are more.
    pub sampled: usize,
    /// The most writes that were at risk at one moment.
    pub at_risk_max: usize,
}

/// Why not all that was asked for was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct EndedEarly {
    /// Looks that were asked for.
    pub all: usize,
    /// What ended it.
    pub why: String,
}

/// All cuts.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The program.
    pub command: Vec<String>,
    /// The host whose code was charged; `none`: code was free.
    pub host: String,
    /// If it did not come to the last cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<EndedEarly>,
    /// When the program began, when it ended, and when its data was written back.
    pub moments_ns: [u64; 3],
    /// Requests of the run, and bytes they wrote.
    pub steps: usize,
    /// See `steps`.
    pub written_bytes: u64,
    /// Promises in all.
    pub acks: usize,
    /// Media that differ, or differ in what was promised: each was looked at once.
    pub distinct: usize,
    /// How many cuts ended how.
    pub counts: BTreeMap<&'static str, usize>,
    /// Every cut, in the order of time.
    pub cuts: Vec<CutReport>,
    /// If subsets were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// The smallest loss that fails as the first failure does, if that is a subset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smallest: Option<Smallest>,
    /// What happened before the first failure, or before the only cut.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Event>,
    /// The slowest building of a medium, on this machine.
    #[serde(skip)]
    pub build_ns_max: u64,
}

impl Report {
    pub(super) fn of(
        recorded: &Recorded,
        command: Vec<String>,
        host: String,
        media: Media,
        checked: Checked,
    ) -> Report {
        let Checked { cuts: looked_at, found, equal, build_ns_max } = checked;
        let mut counts: BTreeMap<_, _> =
            Verdict::ALL.map(|verdict| (verdict.name(), 0)).into_iter().collect();
        let coverage = coverage(&looked_at, media, |index| {
            found.contains_key(equal.get(&index).unwrap_or(&index))
        });
        let mut cuts = Vec::new();
        for (index, cut) in looked_at.iter().enumerate() {
            let first = equal.get(&index);
            let Some(found) = found.get(first.unwrap_or(&index)) else { continue };
            let Found { verdict, said, lost_writes, unanswered } = found;
            *counts.entry(verdict.name()).or_default() += 1;
            cuts.push(CutReport {
                at_ns: cut.at.0,
                verdict: *verdict,
                acks: recorded.acks.partition_point(|ack| ack.at <= cut.at),
                lost_writes: *lost_writes,
                unanswered_writes: *unanswered,
                subset: cut.subset,
                at_risk: cut.subset.map(|_| cut.at_risk),
                same_as_ns: first.map(|first| looked_at[*first].at.0),
                said: if *verdict == Verdict::Clean { String::new() } else { said.clone() },
            });
        }
        Report {
            command,
            host,
            ended_early: None,
            moments_ns: recorded.moments.map(|at| at.0),
            steps: recorded.log.steps().len(),
            written_bytes: recorded.log.data_bytes(),
            acks: recorded.acks.len(),
            distinct: found.len(),
            counts,
            cuts,
            coverage,
            smallest: None,
            timeline: Vec::new(),
            build_ns_max,
        }
    }

    /// The first cut after which something promised is gone.
    pub fn first_failure(&self) -> Option<&CutReport> {
        self.cuts.iter().find(|cut| cut.verdict >= Verdict::Lost)
    }

    /// The cut that a time line is made of: the first failure, or the only one.
    pub(super) fn explained(&self) -> Option<Nanos> {
        let only = || self.cuts.first().filter(|_| self.cuts.len() == 1);
        self.first_failure().or_else(only).map(|cut| Nanos(cut.at_ns))
    }

    /// The end of the time line, in milliseconds since the command began.
    fn end_of_timeline(&self) -> impl Iterator<Item = String> {
        let told = &self.timeline[self.timeline.len().saturating_sub(EVENTS_TOLD)..];
        let began = self.moments_ns[0];
        let heading = match self.timeline.len() {
            0 => None,
            all if all == told.len() => Some("before it (ms since the command began):".into()),
            all => Some(format!(
                "before it, the last {} of {all} events (ms since the command began):",
                told.len()
            )),
        };
        heading.into_iter().chain(told.iter().map(move |Event { at_ns, kind, text }| {
            let ms = at_ns.saturating_sub(began) as f64 / 1e6;
            let kind = match kind {
                Kind::Asked => "asked",
                Kind::Answered => "answered",
                Kind::Safe => "safe",
                Kind::Call => "call",
                Kind::Ack => "promised",
                Kind::Cut => "cut",
            };
            format!("{ms:>14.6}  {kind:8}  {text}")
        }))
    }

    /// How many cuts there were, and how often each was looked at.
    fn looked_at(&self) -> String {
        let (looks, cuts) = (self.cuts.len(), self.moments());
        if looks == cuts {
            format!("{cuts} cuts")
        } else {
            format!("{cuts} cuts, looked at {looks} times")
        }
    }

    /// At how many moments the worst look came to each verdict, in their order.
    pub fn worst(&self) -> [usize; 4] {
        let mut worst: BTreeMap<u64, Verdict> = BTreeMap::new();
        for CutReport { at_ns, verdict, .. } in &self.cuts {
            let so_far = worst.entry(*at_ns).or_insert(*verdict);
            *so_far = (*so_far).max(*verdict);
        }
        Verdict::ALL.map(|verdict| worst.values().filter(|worst| **worst == verdict).count())
    }

    /// How many moments were looked at.
    pub fn moments(&self) -> usize {
        let moments: BTreeSet<u64> = self.cuts.iter().map(|cut| cut.at_ns).collect();
        moments.len()
    }

    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let [began, ended, synced] = self.moments_ns.map(|at| Duration(Nanos(at)));
        let early = self.ended_early.as_ref().map(|EndedEarly { all, why }| {
            format!("ended early, {} of {all} looks done: {why}", self.cuts.len())
        });
        let mut lines: Vec<String> = early.into_iter().collect();
        lines.extend([
            format!("the command ran from {began} to {ended}; written back at {synced}"),
            format!(
                "{}, {} distinct media, {} acknowledgements",
                self.looked_at(),
                self.distinct,
                self.acks
            ),
        ]);
        lines.extend(
            Verdict::ALL.map(|it| format!("{:>9} {:>6}", it.name(), self.counts[it.name()])),
        );
        if let Some(Coverage { exhausted, sampled, at_risk_max }) = &self.coverage {
            lines.push(format!(
                "every whole subset at {exhausted} moments, some at {sampled}; at most \
                 {at_risk_max} writes at risk"
            ));
        }
        if let Some(cut) = self.first_failure() {
            let at = Duration(Nanos(cut.at_ns));
            lines.push(format!(
                "the first that is {}: {at}, after {} acknowledgements, {}",
                cut.verdict.name(),
                cut.acks,
                cut.missing()
            ));
            lines.extend(cut.said.lines().map(|line| format!("    {line}")));
        }
        if let Some(smallest) = &self.smallest {
            let Smallest { lost, torn, at_risk, guests } = smallest;
            lines.push(if lost.is_empty() {
                "keeping every write mends nothing: what is gone was not asked of the drive".into()
            } else {
                format!(
                    "enough to lose, of {at_risk} writes at risk ({guests} guests looked), \
                     {torn} torn:"
                )
            });
            let told = lost.iter().take(TOLD_MAX);
            lines.extend(told.map(|it| format!("    {} bytes at {}", it.bytes, it.offset)));
            if lost.len() > TOLD_MAX {
                lines.push(format!("    and {} more", lost.len() - TOLD_MAX));
            }
        }
        lines.extend(self.end_of_timeline());
        lines
    }
}

/// Of the cuts, those that were looked at; a moment counts with any of its subsets.
fn coverage(cuts: &[Cut], media: Media, looked_at: impl Fn(usize) -> bool) -> Option<Coverage> {
    let Media::Subsets(count) = media else { return None };
    let mut coverage = Coverage { exhausted: 0, sampled: 0, at_risk_max: 0 };
    let mut index = 0;
    for moment in cuts.chunk_by(|one, other| one.at == other.at) {
        let looks = (index..index + moment.len()).filter(|&index| looked_at(index)).count();
        index += moment.len();
        if looks == 0 {
            continue;
        }
        let at_risk = moment[0].at_risk;
        // Each second number is a whole subset.
        let all = subsets::whole_subsets(at_risk)
            .is_some_and(|whole| at_risk == 0 || whole <= u64::from(count.div_ceil(2)));
        match all && looks == moment.len() {
            true => coverage.exhausted += 1,
            false => coverage.sampled += 1,
        }
        coverage.at_risk_max = coverage.at_risk_max.max(at_risk);
    }
    Some(coverage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_moments_that_were_looked_at_are_covered() {
        let of = |&(at, subset, at_risk): &(u64, u32, usize)| Cut {
            at: Nanos(at),
            subset: Some(subset),
            at_risk,
        };
        let cuts: Vec<Cut> = [
            (5, 0, 0),
            (6, 0, 1),
            (6, 1, 1),
            (6, 2, 1),
            (6, 3, 1),
            (7, 0, 9),
            (8, 0, 1),
            (8, 1, 1),
        ]
        .iter()
        .map(of)
        .collect();
        let counts = |looks: &[usize]| {
            let found = coverage(&cuts, Media::Subsets(4), |index| looks.contains(&index)).unwrap();
            (found.exhausted, found.sampled, found.at_risk_max)
        };
        assert_eq!(counts(&[0, 1, 2, 3, 4, 5]), (2, 1, 9));
        assert_eq!(counts(&[0, 1, 2, 3]), (1, 1, 1));
        assert_eq!(counts(&[0]), (1, 0, 0));
        assert!(coverage(&cuts, Media::Modelled, |_| true).is_none());
    }
}

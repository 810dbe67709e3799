//! What a sweep of cuts found, for programs and for people.

use std::collections::BTreeMap;

use config::Duration;
use serde::Serialize;
use sim::Nanos;

use super::Recorded;
use super::recovery::Found;

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
    /// Acknowledged writes that the device lost.
    pub lost_writes: usize,
    /// An earlier cut left the same bytes, with the same promises: that one was looked at.
    pub same_as_ns: Option<u64>,
    /// What the checks said, where they found something.
    pub said: String,
}

/// All cuts.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The program.
    pub command: Vec<String>,
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
    /// The slowest building of a medium, on this machine.
    #[serde(skip)]
    pub build_ns_max: u64,
}

impl Report {
    pub(super) fn of(
        recorded: &Recorded,
        command: Vec<String>,
        moments: &[Nanos],
        (found, equal): (BTreeMap<usize, Found>, BTreeMap<usize, usize>),
        build_ns_max: u64,
    ) -> Report {
        let mut counts: BTreeMap<_, _> =
            Verdict::ALL.map(|verdict| (verdict.name(), 0)).into_iter().collect();
        let mut cuts = Vec::new();
        for (index, at) in moments.iter().enumerate() {
            let first = equal.get(&index);
            let Some(Found { verdict, said, lost_writes }) = found.get(first.unwrap_or(&index))
            else {
                continue;
            };
            *counts.entry(verdict.name()).or_default() += 1;
            cuts.push(CutReport {
                at_ns: at.0,
                verdict: *verdict,
                acks: recorded.acks.partition_point(|ack| ack.at <= *at),
                lost_writes: *lost_writes,
                same_as_ns: first.map(|first| moments[*first].0),
                said: if *verdict == Verdict::Clean { String::new() } else { said.clone() },
            });
        }
        Report {
            command,
            moments_ns: recorded.moments.map(|at| at.0),
            steps: recorded.log.steps().len(),
            written_bytes: recorded.log.data_bytes(),
            acks: recorded.acks.len(),
            distinct: found.len(),
            counts,
            cuts,
            build_ns_max,
        }
    }

    /// The first cut after which something promised is gone.
    pub fn first_failure(&self) -> Option<&CutReport> {
        self.cuts.iter().find(|cut| cut.verdict >= Verdict::Lost)
    }

    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let [began, ended, synced] = self.moments_ns.map(|at| Duration(Nanos(at)));
        let mut lines = vec![
            format!("the command ran from {began} to {ended}; written back at {synced}"),
            format!(
                "{} cuts, {} distinct media, {} acknowledgements",
                self.cuts.len(),
                self.distinct,
                self.acks
            ),
        ];
        lines.extend(
            Verdict::ALL.map(|it| format!("{:>9} {:>6}", it.name(), self.counts[it.name()])),
        );
        if let Some(cut) = self.first_failure() {
            let at = Duration(Nanos(cut.at_ns));
            lines.push(format!(
                "the first that is {}: {at}, after {} acknowledgements, {} writes lost",
                cut.verdict.name(),
                cut.acks,
                cut.lost_writes
            ));
            lines.extend(cut.said.lines().map(|line| format!("    {line}")));
        }
        lines
    }
}

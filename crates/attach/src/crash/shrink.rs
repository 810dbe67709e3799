//! The smallest loss that still fails.

use serde::Serialize;
use sim::Nanos;
use study::Failure;

use super::recovery::Recovery;
use super::replay::Replay;
use super::{Shared, Verdict, subsets};
use crate::volatile::{AtRisk, Fate};

/// Guests that are spent on it.
const GUESTS_MAX: usize = 64;

/// What is enough to fail.
#[derive(Clone, Debug, Serialize)]
pub struct Smallest {
    /// The writes whose loss is enough, oldest first. Keeping any one of them mends it, unless
    /// `guests` ran out.
    pub lost: Vec<AtRisk>,
    /// Of them, those that were torn.
    pub torn: usize,
    /// Writes that were at risk.
    pub at_risk: usize,
    /// Guests that looked.
    pub guests: usize,
}

impl Shared<'_> {
    /// Of the writes that subset `number` of the cut at `at` loses, those that it needs to fail.
    pub(super) fn shrink(
        &self,
        recovery: &Recovery,
        mut replay: Replay<'_>,
        at: Nanos,
        number: u32,
    ) -> Result<Smallest, Failure> {
        replay.advance_to(at)?;
        let at_risk = replay.at_risk();
        let mut fates = subsets::fates(at_risk.len(), number, self.seed, at.0);
        let promised = self.acks.partition_point(|ack| ack.at <= at);
        let mut guests = 0;
        // Halves first, then quarters, down to single writes.
        let mut step = at_risk.len().div_ceil(2);
        while step > 0 && guests < GUESTS_MAX {
            for begin in (0..fates.len()).step_by(step) {
                let end = (begin + step).min(fates.len());
                if fates[begin..end].iter().all(|fate| *fate == Fate::Kept) {
                    continue;
                }
                let mut fewer = fates.clone();
                fewer[begin..end].fill(Fate::Kept);
                let left = replay.cut(at, Some(&fewer))?;
                let medium = replay.medium(left, self.limit)?;
                let found = self.look(recovery, medium, &self.acks[..promised], Some(at))?;
                guests += 1;
                if found.verdict >= Verdict::Lost {
                    fates = fewer;
                }
                if guests == GUESTS_MAX {
                    break;
                }
            }
            step = if step == 1 { 0 } else { step.div_ceil(2) };
        }
        let lost = at_risk.iter().zip(&fates).filter(|(_, fate)| **fate != Fate::Kept);
        Ok(Smallest {
            lost: lost.map(|(write, _)| *write).collect(),
            torn: fates.iter().filter(|fate| matches!(fate, Fate::Torn(_))).count(),
            at_risk: at_risk.len(),
            guests,
        })
    }
}

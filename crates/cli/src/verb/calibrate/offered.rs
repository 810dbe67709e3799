//! A part that is nearest to a drive whose latency over offered load was measured.

use study::Failure;

use super::super::measured::{Bench, Point};
use super::descent::Ground;
use super::fit::{DIES_MAX, Fit, NEARER, Way, judge, near, near_takes};
use super::knobs::{Base, Candidate};
use super::known;
use super::mechanisms;
use super::trial::{Best, Look, Trial, rms};

/// Move the knobs of `base` until it does what was measured at offered loads; the way of letting
/// writes in is looked for, too. Of two, the one with more keys has to be nearer by a tenth.
///
/// # Errors
/// What keeps a part from being run.
pub(super) fn fit(
    (bench, base): (&Bench, &Base),
    points: &[Point],
    settings: [&[String]; 2],
    (tries, shown): (u64, bool),
) -> Result<(Base, Fit), Failure> {
    let mut all = 0;
    let mut ways = Vec::new();
    let points = &mechanisms::distinct(points);
    let mut dies = None;
    let mut best: Option<(Base, Best, usize)> = None;
    for mechanism in mechanisms::of(points, &base.table) {
        let (name, keys) = (mechanism.name, mechanism.knobs.len());
        let base = base.with(mechanism, points);
        let left = (tries.saturating_sub(all), shown);
        let (found, run) = Trial::during((bench, &base), points, settings, left, |trial| {
            brief(trial, dies, left.0).map(|found| (found, trial.tries()))
        })?;
        all += run;
        dies = found.place.dies;
        ways.push(Way { name, keys, error: found.cost });
        let nearer = best.as_ref().is_none_or(|(_, known, fewer)| {
            found.cost < known.cost * if keys > *fewer { NEARER } else { 1.0 }
        });
        if nearer {
            best = Some((base, found, keys));
        }
    }
    let (base, best, _) = best.ok_or_else(|| Failure::bug("no way of letting writes in"))?;
    let left = tries.saturating_sub(all);
    let mut fit = Trial::during((bench, &base), points, settings, (left, shown), |trial| {
        let moved: Vec<usize> = (0..base.knobs.len()).collect();
        let centre = base.place().logs;
        let knobs = moved.len() as u64;
        let share = OFFERED_LAST * (knobs + 1);
        // What says what is known is run in any case.
        let kept = near_takes(knobs).min(left / 4);
        let (limit, short) = (left - kept, left - 2 * kept);
        let mut ground = Ground { trial, look: Look::Short, moved, centre, limit: short };
        let mut best = best;
        ground.descend(0.1, share, &mut best)?;
        ground.limit = limit;
        let others = match trial.tries() < limit {
            true => known::aside(&ground, &near(&ground, &best.place)?, &best)?,
            false => Vec::new(),
        };
        judge(&ground, best, others)
    })?;
    fit.tries += all;
    fit.ways = ways;
    Ok((base, fit))
}

/// So many times what slopes cost, to see how near a way comes,
const OFFERED_FIRST: u64 = 4;
/// and to end with the best.
const OFFERED_LAST: u64 = 6;

/// How near a part comes with one way of letting writes in: with `dies`, or as many as are best
/// near those that the points ask for, and after one descent, in `limit` parts.
fn brief(trial: &Trial, dies: Option<i64>, limit: u64) -> Result<Best, Failure> {
    let place = trial.base.place();
    let some = dies.or_else(|| mechanisms::dies(trial.points, &trial.base.table));
    let tried = match (place.dies, some) {
        (Some(_), Some(some)) => {
            [some, some * 2, some / 2].map(|dies| Some(dies.clamp(1, DIES_MAX))).to_vec()
        }
        (own, _) => vec![own],
    };
    let mut best: Option<Best> = None;
    for dies in tried {
        let place = Candidate { dies, ..place.clone() };
        // Where closed loads are fitted to, too, their host's path may be the limit.
        let limited = trial.base.limited(trial.points, &place);
        for place in [place].into_iter().chain(limited) {
            let cost = rms(&trial.residuals(&place, Look::Short)?);
            if best.as_ref().is_none_or(|best| cost < best.cost) {
                best = Some(Best { cost, place });
            }
        }
    }
    let mut best = best.ok_or_else(|| Failure::bug("no dies to begin with"))?;
    let moved: Vec<usize> = (0..trial.base.knobs.len()).collect();
    let centre = best.place.logs.clone();
    let share = OFFERED_FIRST * (moved.len() as u64 + 1);
    let ground = Ground { trial, look: Look::Short, moved, centre, limit };
    ground.descend(0.2, share, &mut best)?;
    Ok(best)
}

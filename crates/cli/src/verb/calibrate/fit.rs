//! The factors of the knobs with which a part is nearest to the drive.

use std::collections::{BTreeMap, BTreeSet};

use nalgebra::{DMatrix, DVector};
use serde_json::{Value, json};
use study::Failure;

use super::super::measured::{Bench, Point, Values};
use super::descent::{Ground, LAST_STEP};
use super::knobs::{Base, Candidate};
use super::known::{self, Known, Near, REPEAT, SPREAD_MAX};
use super::trial::{Best, Look, SEEDS, Trial, loads, residuals, rms};

/// What was found.
pub(super) struct Fit {
    pub(super) place: Candidate,
    /// The nearest part with each number of dies that was tried, that which was chosen among them.
    pub(super) dies: Vec<(i64, Best)>,
    /// By those: how far off they are, see [`off_rms`](super::trial::off_rms).
    pub(super) off: Vec<f64>,
    /// Points that it was fitted to.
    pub(super) points: usize,
    /// By knob: the standard error of its factor, if these points say anything of it.
    pub(super) spreads: Vec<Option<f64>>,
    /// By knob: why it is not known by these points, if it is not.
    pub(super) unknown: Vec<Option<String>>,
    /// Parts that were run.
    pub(super) tries: u64,
    /// Ways of letting writes in that were tried.
    pub(super) ways: Vec<Way>,
}

/// A way of letting writes in that was tried.
pub(super) struct Way {
    pub(super) name: &'static str,
    /// Its keys that are fitted, but for those that all ways have.
    pub(super) keys: usize,
    /// How far off it is, by the fit's own measure: weighted and bounded.
    pub(super) error: f64,
}

impl Way {
    /// For people.
    pub(super) fn told(&self) -> String {
        format!("{} {:.1} % with {} keys", self.name, 100.0 * self.error, self.keys)
    }

    pub(super) fn as_json(&self) -> Value {
        json!({ "mechanism": self.name, "keys": self.keys, "error": self.error })
    }
}

impl Fit {
    /// For people: how well a knob is known; of one that is not, how far off it may be, unless
    /// that is anywhere.
    pub(super) fn known(&self, knob: usize) -> String {
        let spread = self.spreads[knob];
        let percent = 100.0 * spread.unwrap_or_default();
        match &self.unknown[knob] {
            None => format!("{percent:.1} %"),
            Some(why) if spread.is_some_and(|spread| spread < SOME_MAX) => {
                format!("{why} (some {percent:.0} %)")
            }
            Some(why) => why.clone(),
        }
    }

    /// For people: how far half and twice the dies are off, in brackets by what chose them.
    pub(super) fn of_dies(&self) -> String {
        let told = |chosen: bool| {
            let each = self.dies.iter().zip(&self.off);
            each.filter_map(move |((dies, best), off)| {
                let is_chosen = Some(*dies) == self.place.dies;
                let [off, cost] = [100.0 * off, 100.0 * best.cost];
                (is_chosen == chosen).then_some((dies, off, cost))
            })
        };
        let chosen = told(true)
            .map(|(_, off, cost)| format!("off by {off:.1} % rms (weighted {cost:.1} %)"));
        let others: Vec<String> = told(false)
            .map(|(dies, off, cost)| format!("{dies}: {off:.1} % ({cost:.1} %)"))
            .collect();
        let chosen: String = chosen.collect();
        if others.is_empty() { chosen } else { format!("{chosen}; with {}", others.join(", ")) }
    }

    /// Whether a knob is elsewhere than the base has it, or was moved and came back.
    pub(super) fn is_moved(&self, knob: usize) -> bool {
        self.spreads[knob].is_some() || self.place.logs[knob] != 0.0
    }
}

/// Twice or half the dies are right only if all is nearer by this factor.
pub(super) const NEARER: f64 = 0.9;
/// A part is another one, and not the same again, where any knob is further away than this.
const ELSEWHERE: f64 = 0.4;
/// A knob that moves no point by more than this, if moved by half, is not felt.
const FELT_MIN: f64 = 0.002;
/// More dies in a package than any package has.
pub(super) const DIES_MAX: i64 = 256;
/// A knob that may be off by more than a factor of 2 is anywhere.
const SOME_MAX: f64 = std::f64::consts::LN_2;
/// With all requests a descent is short: so many times what slopes cost.
const LONG: u64 = 5;

/// Move the knobs of `base` until it does what was measured, in about `tries` parts: what tells
/// which knobs matter and how well they are known is run in any case. `shown` is how far it is.
///
/// # Errors
/// What keeps a part from being run.
pub(super) fn fit(
    (bench, base): (&Bench, &Base),
    points: &[Point],
    settings: [&[String]; 2],
    (tries, shown): (u64, bool),
) -> Result<Fit, Failure> {
    Trial::during((bench, base), points, settings, (tries, shown), |trial| search(trial, tries))
}

fn search(trial: &Trial, tries: u64) -> Result<Fit, Failure> {
    let base = trial.base.place();
    let values = trial.run(&base, Look::Short)?;
    let at_base = residuals(trial.points, &values);
    let mut moved = felt(trial, &base, &at_base)?;
    // Only where that pays: see `limited`.
    moved.retain(|knob| Some(*knob) != trial.base.optional());
    let mut best = Best { cost: rms(&at_base), place: base };
    let slow = as_slow(trial, &moved, &best.place, &values);
    let cost = rms(&trial.residuals(&slow, Look::Short)?);
    if cost < best.cost {
        best = Best { cost, place: slow };
    }
    trial.weigh(&mut best, &mut [])?;
    let centre = best.place.logs.clone();
    let knobs = moved.len() as u64;
    // What is needed in the end to say what is known, and before that for all requests.
    let kept = |parts: u64| parts.min(tries / 4);
    let limit = tries - kept(near_takes(knobs));
    let aside = limit - kept(LONG * (knobs + 1));
    let short = aside - kept(near_takes(knobs));
    let mut ground = Ground { trial, look: Look::Short, moved, centre, limit: short };
    ground.descend(0.2, tries / 4, &mut best)?;
    let mut others = Vec::new();
    all_dies(&mut ground, tries / 12, (&mut best, &mut others))?;
    // More dies have shorter queues, in which less is chance.
    trial.weigh(&mut best, &mut others)?;
    // Wide steps see over what is uneven, narrow ones end it.
    for step in [0.2, 0.05] {
        ground.descend(step, short, &mut best)?;
    }
    again(&ground, tries / 12, (&mut best, &mut others))?;
    shake(&ground, (&mut best, &mut others))?;
    ground.limit = aside;
    if trial.tries() < aside {
        others.extend(known::aside(&ground, &near(&ground, &best.place)?, &best)?);
    }
    (ground.look, ground.limit) = (Look::Long, limit);
    best.cost = rms(&trial.residuals(&best.place, Look::Long)?);
    for step in [0.05, LAST_STEP / 2.0] {
        ground.descend(step, limit, &mut best)?;
    }
    judge(&ground, best, others)
}

/// All times longer and all rates lower by what the base, which does `values`, is too quick in
/// the middle: what is left to find is near then.
fn as_slow(trial: &Trial, moved: &[usize], base: &Candidate, values: &[Values]) -> Candidate {
    let ratio = |(point, values): (&Point, &Values)| Some((point.measured[0]? / values[0]?).ln());
    let ratios = trial.points.iter().zip(values).filter_map(ratio);
    let mut ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    let quicker = ratios.get(ratios.len() / 2).copied().unwrap_or_default();
    let mut place = base.clone();
    for &knob in moved {
        let is_rate = trial.base.knobs[knob].is_rate();
        place.logs[knob] += if is_rate { quicker } else { -quicker };
    }
    place
}

/// The knobs that these points feel at all.
fn felt(trial: &Trial, base: &Candidate, at_base: &[f64]) -> Result<Vec<usize>, Failure> {
    let mut felt = Vec::new();
    for knob in 0..base.logs.len() {
        let mut most: f64 = 0.0;
        for step in [0.4, -0.4] {
            let mut place = base.clone();
            place.logs[knob] = step;
            let moved = trial.residuals(&place, Look::Short)?;
            let largest = moved.iter().zip(at_base).map(|(a, b)| (a - b).abs());
            most = largest.fold(most, f64::max);
        }
        if most > FELT_MIN {
            felt.push(knob);
        }
    }
    Ok(felt)
}

/// What limits the drive, the flash or the host's path, and twice and half as many dies while that
/// is better.
fn all_dies(
    ground: &mut Ground,
    share: u64,
    (best, others): (&mut Best, &mut Vec<Best>),
) -> Result<(), Failure> {
    let flash = HostPath::of(ground);
    let begin = best.place.clone();
    let mut by_flash = begin.clone();
    if let Some(mut other) = open(ground, &begin, share, best.cost)? {
        by_flash = other.place.clone();
        if other.cost < best.cost {
            std::mem::swap(best, &mut other);
        }
        others.push(other);
    }
    if let Some((mut other, path)) = limited(ground, &begin, share, best.cost)? {
        if other.cost < best.cost * path.nearer(ground) {
            std::mem::swap(best, &mut other);
            path.adopt(ground);
        }
        others.push(other);
    }
    let mut tried: Vec<i64> = best.place.dies.into_iter().collect();
    // Twice the dies may be no better, and four times as many again.
    for (doubled, misses_max) in [(true, 2), (false, 1)] {
        // Where the host's path is the limit no small step leads to flash that is.
        let [mut by_flash, mut last] = [by_flash.clone(), best.place.clone()];
        let mut misses = 0;
        while let Some(now) = last.dies.filter(|_| misses < misses_max) {
            let next = if doubled { now * 2 } else { now / 2 };
            if next == 0 || next > DIES_MAX || tried.contains(&next) {
                break;
            }
            tried.push(next);
            let dies = Some(next);
            let limited = limited(ground, &Candidate { dies, ..last }, share, best.cost)?;
            let place = Candidate { dies, ..by_flash };
            let mut other =
                flash.ground(ground).descend_from(place, 0.2, share, Some(best.cost))?;
            by_flash = other.place.clone();
            let mut path = flash.clone();
            if let Some((limited, its)) = limited
                && limited.cost < other.cost * its.nearer(&flash.ground(ground))
            {
                (other, path) = (limited, its);
            }
            last = other.place.clone();
            misses += 1;
            if other.cost < best.cost * NEARER {
                misses = 0;
                std::mem::swap(best, &mut other);
                path.adopt(ground);
            }
            others.push(other);
        }
    }
    Ok(())
}

/// What is moved where the host's path is the limit, or is not, and where that is held.
#[derive(Clone)]
struct HostPath {
    moved: Vec<usize>,
    centre: Vec<f64>,
}

impl HostPath {
    fn of(ground: &Ground) -> HostPath {
        HostPath { moved: ground.moved.clone(), centre: ground.centre.clone() }
    }

    fn ground<'a>(&self, of: &Ground<'a>) -> Ground<'a> {
        let HostPath { moved, centre } = self.clone();
        Ground { moved, centre, ..*of }
    }

    /// A knob more has to pay.
    fn nearer(&self, ground: &Ground) -> f64 {
        if self.moved.len() > ground.moved.len() { NEARER } else { 1.0 }
    }

    fn adopt(self, ground: &mut Ground) {
        (ground.moved, ground.centre) = (self.moved, self.centre);
    }
}

/// Where a descent ends that begins at `place` with a host's path that is no limit, if it has one.
fn open(
    ground: &Ground,
    place: &Candidate,
    share: u64,
    goal: f64,
) -> Result<Option<Best>, Failure> {
    let base = &ground.trial.base;
    let open = base.open(ground.trial.points, place);
    if open.logs == place.logs {
        return Ok(None);
    }
    // Flash comes to its place first, or the path would be the limit again.
    let mut flash = HostPath::of(ground);
    flash.moved.retain(|&knob| open.logs[knob] == place.logs[knob]);
    let found = flash.ground(ground).descend_from(open, 0.2, share, None)?;
    ground.descend_from(found.place, 0.2, share, Some(goal)).map(Some)
}

/// Where a descent ends that begins at `place` with a host's path that is the limit.
fn limited(
    ground: &Ground,
    place: &Candidate,
    share: u64,
    goal: f64,
) -> Result<Option<(Best, HostPath)>, Failure> {
    let Some(place) = ground.trial.base.limited(ground.trial.points, place) else {
        return Ok(None);
    };
    let mut path = HostPath::of(ground);
    let optional = ground.trial.base.optional();
    if let Some(knob) = optional.filter(|knob| !path.moved.contains(knob)) {
        path.moved.push(knob);
        path.centre[knob] = place.logs[knob];
    }
    let found = path.ground(ground).descend_from(place, 0.2, share, Some(goal))?;
    Ok(Some((found, path)))
}

/// Other dies, and as many with all else elsewhere, that one descent left not much further off than
/// the best, which had several, have as many as it.
fn again(
    ground: &Ground,
    share: u64,
    (best, others): (&mut Best, &mut Vec<Best>),
) -> Result<(), Failure> {
    let tried: BTreeSet<Option<i64>> = others.iter().map(|other| other.place.dies).collect();
    for dies in tried {
        let is_same = dies == best.place.dies;
        let is_elsewhere = |other: &Best| {
            let apart = |&knob: &usize| (other.place.logs[knob] - best.place.logs[knob]).abs();
            // With a knob more that is not moved here it is no other place, but another model.
            let mut unmoved =
                (0..best.place.logs.len()).filter(|knob| !ground.moved.contains(knob));
            ground.moved.iter().any(|knob| apart(knob) > ELSEWHERE)
                && unmoved.all(|knob| apart(&knob) == 0.0)
        };
        let own = others
            .iter()
            .filter(|other| other.place.dies == dies && (!is_same || is_elsewhere(other)));
        let nearest = own.min_by(|a, b| a.cost.total_cmp(&b.cost)).cloned();
        let Some(mut other) = nearest else { continue };
        for step in [0.2, 0.05] {
            other = ground.descend_from(other.place, step, share, Some(best.cost))?;
        }
        if other.cost < best.cost * if is_same { 1.0 } else { NEARER } {
            std::mem::swap(best, &mut other);
        }
        others.push(other);
    }
    Ok(())
}

/// Where one limit hides another, a small step of that other one does nothing, and a descent
/// ends early with a knob far away: begin again with each knob where the base has it, or near
/// that.
fn shake(ground: &Ground, (best, others): (&mut Best, &mut Vec<Best>)) -> Result<(), Failure> {
    let share = 6 * (ground.moved.len() as u64 + 1);
    for step in [0.0, -0.3, 0.3] {
        for &knob in &ground.moved {
            if best.cost < REPEAT {
                return Ok(());
            }
            let mut place = best.place.clone();
            place.logs[knob] = ground.centre[knob] + step;
            let other = ground.descend_from(place, 0.1, share, Some(best.cost))?;
            others.push(other.clone());
            if other.cost < best.cost {
                others.push(std::mem::replace(best, other));
            }
        }
    }
    Ok(())
}

/// What of the best these points know, by it and by `others` that were tried.
pub(super) fn judge(ground: &Ground, best: Best, others: Vec<Best>) -> Result<Fit, Failure> {
    let Ground { trial, moved, .. } = ground;
    let place = best.place;
    // As the others were looked at.
    let best = Best { cost: rms(&trial.residuals(&place, Look::Short)?), place };
    let dies = of_dies(&best, &others);
    let knobs = &trial.base.knobs;
    let near = near(ground, &best.place)?;
    let mut known = near.known();
    known::widen(&mut known, moved, (&near, &best), &others);
    let mut fit = Fit {
        place: best.place,
        dies,
        off: Vec::new(),
        points: trial.points.len(),
        spreads: vec![None; knobs.len()],
        unknown: vec![Some("not known by these points".to_string()); knobs.len()],
        tries: trial.tries(),
        ways: Vec::new(),
    };
    for (&knob, Known { error, twin }) in moved.iter().zip(known) {
        fit.spreads[knob] = Some(error);
        fit.unknown[knob] = match (trial.base.at_limit(knob, &fit.place), twin) {
            (Some(why), _) => Some(why.to_string()),
            _ if error <= SPREAD_MAX => None,
            (None, Some(twin)) => {
                Some(format!("not told from {} by these points", knobs[moved[twin]].key))
            }
            (None, None) => Some("not known by these points".to_string()),
        };
    }
    Ok(fit)
}

/// The best, and of other dies the nearest.
fn of_dies(best: &Best, others: &[Best]) -> Vec<(i64, Best)> {
    let mut nearest: BTreeMap<i64, &Best> = BTreeMap::new();
    for other in others {
        let Some(dies) = other.place.dies else { continue };
        let known = nearest.entry(dies).or_insert(other);
        if other.cost < known.cost {
            *known = other;
        }
    }
    nearest.extend(best.place.dies.map(|dies| (dies, best)));
    nearest.into_iter().map(|(dies, best)| (dies, best.clone())).collect()
}

/// Parts that [`near`] takes.
pub(super) fn near_takes(knobs: u64) -> u64 {
    SEEDS * (2 * knobs + 1)
}

/// What each knob does where the best is, at several sets of addresses: queues come out otherwise
/// after any change, which is no effect of the knob.
pub(super) fn near(ground: &Ground, at: &Candidate) -> Result<Near, Failure> {
    const STEP: f64 = 0.12;
    let Ground { trial, moved, .. } = ground;
    let by_seed = |place: &Candidate| -> Result<Vec<DVector<f64>>, Failure> {
        Ok(trial.residuals_by_seed(place)?.into_iter().map(DVector::from_vec).collect())
    };
    let mean = |each: &[DVector<f64>]| each.iter().sum::<DVector<f64>>() / SEEDS as f64;
    let here = mean(&by_seed(at)?);
    let mut slopes = DMatrix::zeros(here.len(), moved.len());
    let mut chance = slopes.clone();
    for (column, &knob) in moved.iter().enumerate() {
        let beside = |step: f64| {
            let mut place = at.clone();
            place.logs[knob] += step;
            by_seed(&place)
        };
        let (above, below) = (beside(STEP)?, beside(-STEP)?);
        let each = above.iter().zip(&below).map(|(above, below)| (above - below) / (2.0 * STEP));
        let each: Vec<_> = each.collect();
        let middle = mean(&each);
        let off = each.iter().map(|slope| (slope - &middle).map(|off| off * off));
        let of_mean = off.sum::<DVector<f64>>() / (SEEDS * (SEEDS - 1)) as f64;
        slopes.set_column(column, &middle);
        chance.set_column(column, &of_mean);
    }
    Ok(Near { here, slopes, chance, loads: loads(trial.points) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_says_how_far_off_it_may_be() {
        let why = || Some("not known by these points".to_string());
        let fit = Fit {
            place: Candidate { logs: vec![0.0; 4], dies: None },
            dies: Vec::new(),
            off: Vec::new(),
            points: 4,
            spreads: vec![Some(0.021), Some(0.12), Some(3.0), None],
            unknown: vec![None, why(), why(), why()],
            tries: 0,
            ways: Vec::new(),
        };
        let told: Vec<String> = (0..4).map(|knob| fit.known(knob)).collect();
        let not = "not known by these points";
        assert_eq!(told, ["2.1 %", &format!("{not} (some 12 %)"), not, not]);
    }

    #[test]
    fn dies_say_how_far_off_they_are_and_by_what_they_were_chosen() {
        let with = |dies: i64, cost: f64| {
            (dies, Best { cost, place: Candidate { logs: Vec::new(), dies: Some(dies) } })
        };
        let mut fit = Fit {
            place: with(2, 0.0).1.place,
            dies: vec![with(1, 0.087), with(2, 0.076)],
            off: vec![0.178, 0.231],
            points: 4,
            spreads: Vec::new(),
            unknown: Vec::new(),
            tries: 0,
            ways: Vec::new(),
        };
        let said = "off by 23.1 % rms (weighted 7.6 %)";
        assert_eq!(fit.of_dies(), format!("{said}; with 1: 17.8 % (8.7 %)"));
        // At offered loads no others are tried to the end.
        fit.dies.remove(0);
        fit.off.remove(0);
        assert_eq!(fit.of_dies(), said);
    }
}

//! The factors of the knobs with which a part is nearest to the drive.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI32, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DMatrix, DVector, Dyn, Owned};
use study::Failure;

use super::super::measured::{Bench, METRICS, Point, Values};
use super::knobs::{Base, Candidate, FACTOR_MAX};
use crate::interrupt;

/// What was found.
pub(super) struct Fit {
    pub(super) place: Candidate,
    /// How far half and twice the dies are off when all else is fitted, root mean square:
    /// (dies, error), those that were chosen among them.
    pub(super) dies: Vec<(i64, f64)>,
    /// By knob: the standard error of its factor, if these points say anything of it.
    pub(super) spreads: Vec<Option<f64>>,
    /// By knob: why it is not known by these points, if it is not.
    pub(super) unknown: Vec<Option<String>>,
    /// Parts that were run.
    pub(super) tries: u64,
}

impl Fit {
    /// For people: how well a knob is known.
    pub(super) fn known(&self, knob: usize) -> String {
        let spread = 100.0 * self.spreads[knob].unwrap_or_default();
        self.unknown[knob].clone().unwrap_or_else(|| format!("{spread:.1} %"))
    }

    /// For people: how far half and twice the dies are off.
    pub(super) fn of_dies(&self) -> String {
        let chosen = self.dies.iter().find(|(dies, _)| Some(*dies) == self.place.dies);
        let others = self.dies.iter().filter(|(dies, _)| Some(*dies) != self.place.dies);
        let others: Vec<String> =
            others.map(|(dies, error)| format!("{dies}: {:.1} %", 100.0 * error)).collect();
        let error = 100.0 * chosen.map_or(f64::NAN, |(_, error)| *error);
        format!("off by {error:.1} % rms; with {}", others.join(", "))
    }
}

/// Twice or half the dies are right only if all is nearer by this factor.
const NEARER: f64 = 0.9;
/// A knob that moves no point by more than this, if moved by half, is not felt.
const FELT_MIN: f64 = 0.002;
/// A knob whose standard error is larger is not known.
const SPREAD_MAX: f64 = 0.05;
/// More dies in a package than any package has.
const DIES_MAX: i64 = 256;
/// What two measurements of one drive differ by at least.
const REPEAT: f64 = 0.005;
/// Above this correlation of their errors, two knobs are not told from each other.
const ALIKE: f64 = 0.95;
/// By metric: few requests are beyond a percentile, so it says less than a mean does.
const WEIGHTS: [f64; METRICS.len()] = [1.0, 1.0, 0.7, 0.35];
/// An error above which a point is an outlier.
const FAR: f64 = 0.15;
/// How strongly a knob is held where the base has it: enough for one that the points say nothing
/// of, and less than any point says.
const PULL: f64 = 0.02;
/// The same in the end, when nothing runs away any more.
const PULL_LAST: f64 = 1e-3;
/// Steps below this one are the last.
const LAST_STEP: f64 = 0.04;

/// What parts are tried with.
struct Trial<'a> {
    bench: &'a Bench<'a>,
    base: &'a Base,
    points: &'a [Point],
    sets: &'a [String],
    bar: ProgressBar,
    ended_by: AtomicI32,
}

impl Trial<'_> {
    /// What a part at `place` does.
    fn run(&self, place: &Candidate) -> Result<(Vec<Values>, Vec<String>), Failure> {
        if self.ended_by.load(Ordering::Relaxed) != 0 {
            return Err(Failure::machine("interrupted; nothing was written"));
        }
        let mut sets = self.sets.to_vec();
        sets.extend(self.base.sets(place));
        self.bar.inc(1);
        self.bench.run(self.points, &sets)
    }

    /// How far off it is, by point and metric.
    fn residuals(&self, place: &Candidate) -> Result<Vec<f64>, Failure> {
        Ok(residuals(self.points, &self.run(place)?.0))
    }
}

/// ln(modelled / measured): that a half and twice are equally far. What the part does not do at
/// all is as wrong as it can be.
fn residuals(points: &[Point], values: &[Values]) -> Vec<f64> {
    let pairs = points.iter().zip(values).flat_map(|(point, values)| {
        let each = point.measured.iter().zip(values).zip(WEIGHTS);
        each.filter_map(|((&measured, &value), weight)| {
            let measured = measured?;
            let value = value.filter(|value| *value > 0.0);
            let error = value.map_or(FACTOR_MAX.ln(), |value| (value / measured).ln());
            Some(weight * bounded(error))
        })
    });
    pairs.collect()
}

/// `error`, but what is far off counts by its size, not by its square (pseudo-Huber): one point
/// that no part does is not to bend all others.
fn bounded(error: f64) -> f64 {
    let ratio = error / FAR;
    error.signum() * FAR * (2.0 * ((1.0 + ratio * ratio).sqrt() - 1.0)).sqrt()
}

fn rms(residuals: &[f64]) -> f64 {
    (residuals.iter().map(|r| r * r).sum::<f64>() / residuals.len().max(1) as f64).sqrt()
}

/// A part, and how far it is off.
#[derive(Clone)]
struct Best {
    cost: f64,
    place: Candidate,
}

/// What all descents have in common.
struct Search<'a> {
    trial: &'a Trial<'a>,
    /// Knobs that are moved, by index.
    moved: Vec<usize>,
    /// Where knobs are that the points say nothing of.
    centre: Vec<f64>,
    /// Parts of which no more are run.
    limit: u64,
}

/// A descent from where the last one ended.
struct Descent<'a> {
    search: &'a Search<'a>,
    place: Candidate,
    /// How far a knob is moved to see what it does.
    step: f64,
    /// How strongly it is held at the centre.
    pull: f64,
    /// See [`Search`].
    limit: u64,
    here: Vec<f64>,
    failed: &'a RefCell<Option<Failure>>,
    best: &'a RefCell<Best>,
}

impl Descent<'_> {
    /// The residuals at `place`, if parts are left.
    fn try_at(&self, place: &Candidate) -> Option<Vec<f64>> {
        let trial = self.search.trial;
        if trial.bar.position() >= self.limit {
            return None;
        }
        let found = trial.residuals(place);
        let found = found.map_err(|failure| *self.failed.borrow_mut() = Some(failure)).ok()?;
        let cost = rms(&found);
        let mut best = self.best.borrow_mut();
        if cost < best.cost {
            (best.cost, best.place) = (cost, place.clone());
        }
        Some(found)
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Descent<'_> {
    type ParameterStorage = Owned<f64, Dyn>;
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;

    fn set_params(&mut self, at: &DVector<f64>) {
        let moved = self.search.moved.iter().zip(at.iter());
        moved.for_each(|(&knob, &log)| self.place.logs[knob] = log);
        self.here = self.try_at(&self.place).unwrap_or_default();
    }

    fn params(&self) -> DVector<f64> {
        let moved = &self.search.moved;
        DVector::from_iterator(moved.len(), moved.iter().map(|&knob| self.place.logs[knob]))
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        if self.here.is_empty() {
            return None;
        }
        let Search { moved, centre, .. } = self.search;
        let pulls = moved.iter().map(|&knob| self.pull * (self.place.logs[knob] - centre[knob]));
        Some(DVector::from_vec(self.here.iter().copied().chain(pulls).collect()))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let points = self.here.len();
        let moved = &self.search.moved;
        let mut slopes = DMatrix::zeros(points + moved.len(), moved.len());
        for (column, &knob) in moved.iter().enumerate() {
            let mut place = self.place.clone();
            place.logs[knob] += self.step;
            let beside = self.try_at(&place)?;
            for (row, (beside, here)) in beside.iter().zip(&self.here).enumerate() {
                slopes[(row, column)] = (beside - here) / self.step;
            }
            slopes[(points + column, column)] = self.pull;
        }
        Some(slopes)
    }
}

/// Move the knobs of `base` until it does what was measured, in about `tries` parts: what tells
/// which knobs matter and how well they are known is run in any case.
///
/// # Errors
/// What keeps a part from being run.
pub(super) fn fit(
    bench: &Bench,
    base: &Base,
    points: &[Point],
    sets: &[String],
    tries: u64,
) -> Result<Fit, Failure> {
    let bar = ProgressBar::new(tries);
    let style =
        ProgressStyle::with_template("fitting {bar:30} part {pos} of at most {len}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let trial = Trial { bench, base, points, sets, bar, ended_by: AtomicI32::new(0) };
    let note = |signal| trial.ended_by.store(signal, Ordering::Relaxed);
    let fit = interrupt::during(note, || search(&trial, tries));
    trial.bar.finish_and_clear();
    if let signal @ 1.. = trial.ended_by.load(Ordering::Relaxed) {
        interrupt::end_by(signal);
    }
    fit
}

fn search(trial: &Trial, tries: u64) -> Result<Fit, Failure> {
    let base = trial.base.place();
    let (values, _) = trial.run(&base)?;
    let at_base = residuals(trial.points, &values);
    let moved = felt(trial, &base, &at_base)?;
    let mut best = Best { cost: rms(&at_base), place: base };
    let slow = as_slow(trial, &moved, &best.place, &values);
    let cost = rms(&trial.residuals(&slow)?);
    if cost < best.cost {
        best = Best { cost, place: slow };
    }
    // What is needed in the end to say what is known.
    let limit = tries.saturating_sub(2 * moved.len() as u64 + 1);
    let search = Search { trial, moved, centre: best.place.logs.clone(), limit };
    search.descend(0.2, tries / 4, &mut best)?;
    let dies = search.dies(tries / 12, &mut best)?;
    // Wide steps see over what is uneven, narrow ones end it.
    for step in [0.2, 0.05] {
        search.descend(step, limit, &mut best)?;
    }
    search.shake(&mut best)?;
    search.descend(LAST_STEP / 2.0, limit, &mut best)?;
    search.judge(best, dies)
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
            let moved = trial.residuals(&place)?;
            let largest = moved.iter().zip(at_base).map(|(a, b)| (a - b).abs());
            most = largest.fold(most, f64::max);
        }
        if most > FELT_MIN {
            felt.push(knob);
        }
    }
    Ok(felt)
}

impl Search<'_> {
    /// From the best to a better one, in `share` parts or less.
    fn descend(&self, step: f64, share: u64, best: &mut Best) -> Result<(), Failure> {
        if self.moved.is_empty() {
            return Ok(());
        }
        let failed = RefCell::new(None);
        let found = RefCell::new(best.clone());
        let mut descent = Descent {
            search: self,
            place: best.place.clone(),
            pull: if step < LAST_STEP { PULL_LAST } else { PULL },
            step,
            limit: self.limit.min(self.trial.bar.position() + share),
            here: Vec::new(),
            failed: &failed,
            best: &found,
        };
        let begin = descent.params();
        descent.set_params(&begin);
        // What ends it (a minimum, or no parts left) is all the same: the best is kept aside.
        let method = LevenbergMarquardt::new()
            .with_xtol(1e-3)
            .with_ftol(1e-4)
            // A knob that does nothing now must not run away.
            .with_scale_diag(false)
            .with_stepbound(0.7);
        method.minimize(descent);
        *best = found.into_inner();
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// The same from `place`, whatever is best so far.
    fn descend_from(&self, place: Candidate, step: f64, share: u64) -> Result<Best, Failure> {
        let mut best = Best { cost: f64::INFINITY, place };
        self.descend(step, share, &mut best)?;
        Ok(best)
    }

    /// Twice and half as many dies while that is better; gives what was tried, and the error of
    /// each, but of those that are chosen.
    fn dies(&self, share: u64, best: &mut Best) -> Result<Vec<(i64, f64)>, Failure> {
        let mut tried: Vec<(i64, f64)> =
            best.place.dies.map(|dies| (dies, best.cost)).into_iter().collect();
        for doubled in [true, false] {
            while let Some(now) = best.place.dies {
                let next = if doubled { now * 2 } else { now / 2 };
                if next == 0 || next > DIES_MAX || tried.iter().any(|(dies, _)| *dies == next) {
                    break;
                }
                let place = Candidate { dies: Some(next), ..best.place.clone() };
                let other = self.descend_from(place, 0.2, share)?;
                tried.push((next, other.cost));
                if other.cost > best.cost * NEARER {
                    break;
                }
                *best = other;
            }
        }
        tried.sort_by_key(|(dies, _)| *dies);
        Ok(tried)
    }

    /// Where one limit hides another, a small step of that other one does nothing, and a descent
    /// ends early with a knob far away: begin again with each knob where the base has it, or near
    /// that.
    fn shake(&self, best: &mut Best) -> Result<(), Failure> {
        let share = 6 * (self.moved.len() as u64 + 1);
        for step in [0.0, -0.3, 0.3] {
            for &knob in &self.moved {
                if best.cost < REPEAT {
                    return Ok(());
                }
                let mut place = best.place.clone();
                place.logs[knob] = self.centre[knob] + step;
                let other = self.descend_from(place, 0.1, share)?;
                if other.cost < best.cost {
                    *best = other;
                }
            }
        }
        Ok(())
    }

    /// What of the best these points know: the standard errors of least squares.
    fn judge(&self, best: Best, mut dies: Vec<(i64, f64)>) -> Result<Fit, Failure> {
        const STEP: f64 = 0.05;
        let Search { trial, moved, .. } = self;
        let Best { cost, place: at } = best;
        dies.iter_mut().filter(|(dies, _)| Some(*dies) == at.dies).for_each(|one| one.1 = cost);
        let knobs = &trial.base.knobs;
        let here = trial.residuals(&at)?;
        let mut slopes = DMatrix::zeros(here.len(), moved.len());
        for (column, &knob) in moved.iter().enumerate() {
            let beside = |step: f64| {
                let mut place = at.clone();
                place.logs[knob] += step;
                trial.residuals(&place)
            };
            let (above, below) = (beside(STEP)?, beside(-STEP)?);
            for (row, (above, below)) in above.iter().zip(&below).enumerate() {
                slopes[(row, column)] = (above - below) / (2.0 * STEP);
            }
        }
        let free = here.len().saturating_sub(moved.len()).max(1) as f64;
        let noise = (rms(&here) * (here.len() as f64 / free).sqrt()).max(REPEAT);
        let spread = spreads(&slopes, noise);
        let mut fit = Fit {
            place: at,
            dies,
            spreads: vec![None; knobs.len()],
            unknown: vec![Some("not known by these points".to_string()); knobs.len()],
            tries: trial.bar.position(),
        };
        for (index, &knob) in moved.iter().enumerate() {
            let (error, twin) = spread[index];
            fit.spreads[knob] = Some(error);
            fit.unknown[knob] = match twin {
                _ if error <= SPREAD_MAX => None,
                Some(twin) => {
                    Some(format!("not told from {} by these points", knobs[moved[twin]].key))
                }
                None => Some("not known by these points".to_string()),
            };
        }
        Ok(fit)
    }
}

/// By column of `slopes`: the standard error of its knob, and the other knob that its error goes
/// with.
fn spreads(slopes: &DMatrix<f64>, noise: f64) -> Vec<(f64, Option<usize>)> {
    let count = slopes.ncols();
    // A little more on the diagonal: what is not known is not known, and not a failure.
    let information =
        slopes.transpose() * slopes + DMatrix::identity(count, count) * PULL_LAST.powi(2);
    let Some(inverse) = information.try_inverse() else {
        return vec![(f64::INFINITY, None); count];
    };
    let size = |index: usize| inverse[(index, index)].max(0.0).sqrt();
    let with = |one: usize, other: usize| {
        inverse[(one, other)].abs() / (size(one) * size(other)).max(f64::MIN_POSITIVE)
    };
    let twin = |one: usize| {
        let others = (0..count).filter(|&other| other != one && with(one, other) > ALIKE);
        others.max_by(|&a, &b| with(one, a).total_cmp(&with(one, b)))
    };
    (0..count).map(|index| (noise * size(index), twin(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_and_twice_are_equally_far() {
        let measured = [Some(100.0), None, Some(2.0), None];
        let point = Point { rw: "read".into(), bs: "4k".into(), iodepth: 1, numjobs: 1, measured };
        let found = residuals(&[point], &[[Some(200.0), Some(9.0), Some(1.0), None]]);
        assert!((found[0] / WEIGHTS[0] + found[1] / WEIGHTS[2]).abs() < 1e-12, "{found:?}");
        // What is near counts in full, what is far less.
        assert!((bounded(0.01) - 0.01).abs() < 1e-4 && bounded(-2f64.ln()) > -0.5);
    }

    #[test]
    fn what_two_knobs_do_alike_is_told_from_neither() {
        // Three points, three knobs: the first by itself, the others only together.
        let slopes = DMatrix::from_row_slice(3, 3, &[2.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
        let found = spreads(&slopes, 0.01);
        assert!((found[0].0 - 0.005).abs() < 1e-6 && found[0].1.is_none(), "{found:?}");
        assert!(found[1].0 > SPREAD_MAX && found[1].1 == Some(2), "{found:?}");
        assert!(found[2].0 > SPREAD_MAX && found[2].1 == Some(1), "{found:?}");
    }
}

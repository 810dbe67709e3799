//! How well the values of the nearest part are known by the points.
//!
//! Three things make a value uncertain, and each is looked at by itself: what is left of the
//! residuals, as least squares has it, but for what slopes are by chance; a load that says
//! something else than the others (a part is carried on to where it would be without that load);
//! and another part that is as near, with a key that the points do not tell at half or twice what
//! it is.

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use study::Failure;

use super::descent::{Ground, PULL_LAST};
use super::trial::{Best, Look};

/// A knob whose standard error is larger is not known.
pub(super) const SPREAD_MAX: f64 = 0.05;
/// What two measurements of one drive differ by at least.
pub(super) const REPEAT: f64 = 0.005;
/// Above this correlation of their errors, two knobs are not told from each other.
const ALIKE: f64 = 0.95;

/// A knob of which all other loads tell so many times less is told by one load.
const TOLD_BY_ONE: f64 = 100.0;
/// Of what slopes tell this share is taken for true even where all seems to be chance: how much is
/// chance is known no better from a few sets of addresses.
const NO_CHANCE_MIN: f64 = 0.1;
/// Many more than any handful of knobs takes.
const EIGEN_STEPS_MAX: usize = 1000;

/// Residuals near the best part, and what each knob does to them.
pub(super) struct Near {
    pub(super) here: DVector<f64>,
    pub(super) slopes: DMatrix<f64>,
    /// The variance of each slope, as other addresses give another one.
    pub(super) chance: DMatrix<f64>,
    /// By residual: the load that it is of, counted from 0.
    pub(super) loads: Vec<usize>,
}

/// By knob: the standard error, and the other one that it is not told from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub(super) error: f64,
    pub(super) twin: Option<usize>,
}

impl Near {
    /// Loads.
    fn count(&self) -> usize {
        self.loads.iter().max().map_or(0, |last| last + 1)
    }

    /// What was measured apart from each other: of the four numbers of a load two, as IOPS and mean
    /// are one by Little's law, and half is near that; but one of each load at least.
    fn measured(&self) -> f64 {
        (self.here.len() as f64 / 2.0).max(self.count() as f64)
    }

    /// What two measurements of one residual differ by, as the residuals say.
    pub(super) fn noise(&self) -> f64 {
        let (rows, columns) = self.slopes.shape();
        let free = rows.saturating_sub(columns).max(1) as f64;
        (self.here.norm() / free.sqrt()).max(REPEAT)
    }

    /// The inverse of the information that all loads give, but for one.
    fn inverse(&self, without: Option<usize>) -> Option<DMatrix<f64>> {
        let [slopes, chance] = self.without(without);
        let all = slopes.transpose() * slopes;
        // What is chance in slopes would tell any two knobs from each other.
        let told = &all - DMatrix::from_diagonal(&chance.row_sum_tr());
        let axes = SymmetricEigen::try_new(told, f64::EPSILON, EIGEN_STEPS_MAX)?;
        let each = axes.eigenvectors.column_iter().zip(axes.eigenvalues.iter());
        let told = each.map(|(axis, told)| {
            let seen = (axis.transpose() * &all * axis)[(0, 0)];
            // A little more than nothing: what is not known is not known, and not a failure.
            (told.max(NO_CHANCE_MIN * seen) + PULL_LAST.powi(2)).recip()
        });
        let told = DVector::from_iterator(axes.eigenvalues.len(), told);
        let axes = axes.eigenvectors;
        Some(&axes * DMatrix::from_diagonal(&told) * axes.transpose())
    }

    /// Slopes and their chance, as if a load had not been.
    fn without(&self, load: Option<usize>) -> [DMatrix<f64>; 2] {
        [&self.slopes, &self.chance].map(|all| {
            let mut others = all.clone();
            for (row, own) in self.loads.iter().enumerate() {
                if Some(*own) == load {
                    others.row_mut(row).fill(0.0);
                }
            }
            others
        })
    }

    /// How far each knob is from where it would be by all loads, but for one: by slopes as they
    /// are, which lead nowhere in particular where nothing is told.
    fn step(&self, without: Option<usize>) -> Option<DVector<f64>> {
        let [slopes, _] = self.without(without);
        let least = DMatrix::identity(slopes.ncols(), slopes.ncols()) * PULL_LAST.powi(2);
        let inverse = (slopes.transpose() * &slopes + least).try_inverse()?;
        Some(inverse * (slopes.transpose() * -&self.here))
    }

    /// By knob: by how much it depends on single loads (the jackknife's standard error). One that
    /// nothing but one load tells is not seen that way: `None`.
    fn by_single_loads(&self, all: &DMatrix<f64>) -> Option<Vec<Option<f64>>> {
        let loads = self.count();
        let mut each = Vec::new();
        for load in 0..loads {
            each.push((self.inverse(Some(load))?, self.step(Some(load))?));
        }
        let of_knob = |knob: usize| {
            let most = TOLD_BY_ONE * all[(knob, knob)];
            if each.iter().any(|(inverse, _)| inverse[(knob, knob)] > most) {
                return None;
            }
            let steps = || each.iter().map(|(_, step)| step[knob]);
            let mean = steps().sum::<f64>() / loads as f64;
            let squares: f64 = steps().map(|step| (step - mean).powi(2)).sum();
            Some((squares * (loads as f64 - 1.0) / loads as f64).sqrt())
        };
        Some((0..all.ncols()).map(of_knob).collect())
    }

    /// By knob, how well it is known if all is as it is near here.
    pub(super) fn known(&self) -> Vec<Known> {
        let count = self.slopes.ncols();
        if count == 0 {
            return Vec::new(); // no knob has an effect
        }
        let unknown = Known { error: f64::INFINITY, twin: None };
        let Some((inverse, step)) = self.inverse(None).zip(self.step(None)) else {
            return vec![unknown; count];
        };
        let Some(single) = self.by_single_loads(&inverse) else {
            return vec![unknown; count];
        };
        let size = |index: usize| inverse[(index, index)].max(0.0).sqrt();
        let with = |one: usize, other: usize| {
            inverse[(one, other)].abs() / (size(one) * size(other)).max(f64::MIN_POSITIVE)
        };
        let twin = |one: usize| {
            let others = (0..count).filter(|&other| other != one && with(one, other) > ALIKE);
            others.max_by(|&a, &b| with(one, a).total_cmp(&with(one, b)))
        };
        // What is measured of one load is wrong together.
        let together = (self.here.len() as f64 / self.count().max(1) as f64).sqrt();
        let known = |index: usize| {
            let own = self.noise() * size(index);
            let error = own.max(single[index].unwrap_or(together * own)).hypot(step[index]);
            Known { error, twin: twin(index) }
        };
        (0..count).map(known).collect()
    }

    /// How the other knobs follow one that is moved by `by`, if all is as it is near here.
    fn followed(&self, knob: usize, by: f64) -> DVector<f64> {
        let count = self.slopes.ncols();
        let inverse = self.inverse(None).unwrap_or_else(|| DMatrix::identity(count, count));
        inverse.column(knob) * (by / inverse[(knob, knob)].max(f64::MIN_POSITIVE))
    }
}

/// A knob that is not known is put at half and at twice what it is,
const ASIDE: f64 = std::f64::consts::LN_2;
/// one that seems to be known a little aside, as two limits may hide each other,
const ASIDE_KNOWN: f64 = 3.0 * SPREAD_MAX;
/// while the others follow, by no more than this at once,
const FOLLOWED_MAX: f64 = 1.0;
/// and in so many times what slopes cost.
const SHARE: u64 = 3;
const STEP: f64 = 0.03;

/// Parts that may be about as near as the `best`: each knob elsewhere, the others where they are
/// best then.
///
/// # Errors
/// What keeps a part from being run.
pub(super) fn aside(ground: &Ground, near: &Near, best: &Best) -> Result<Vec<Best>, Failure> {
    let known = near.known();
    let mut found = Vec::new();
    for (column, one) in known.iter().enumerate() {
        let far = if one.error > SPREAD_MAX { ASIDE } else { ASIDE_KNOWN };
        for by in [far, -far] {
            let mut place = best.place.clone();
            let follow = near.followed(column, by);
            for (other, &knob) in ground.moved.iter().enumerate() {
                place.logs[knob] += follow[other].clamp(-FOLLOWED_MAX, FOLLOWED_MAX);
            }
            let mut moved = ground.moved.clone();
            moved.remove(column);
            let centre = place.logs.clone();
            let (trial, look, limit) = (ground.trial, Look::Short, ground.limit);
            if trial.tries() >= limit {
                return Ok(found);
            }
            let others = Ground { trial, look, moved, centre, limit };
            let share = SHARE * known.len() as u64;
            let goal = Some(best.cost.max(REPEAT));
            found.push(others.descend_from(place, STEP, share, goal)?);
        }
    }
    Ok(found)
}

/// Where `others` are about as near as `best`, a knob that is elsewhere there is known no better
/// than that.
pub(super) fn widen(
    known: &mut [Known],
    moved: &[usize],
    (near, best): (&Near, &Best),
    others: &[Best],
) {
    for other in others {
        // By how much the likelihood is less.
        let rise = other.cost.powi(2) - best.cost.powi(2);
        let rise = near.measured() * rise / near.noise().powi(2);
        let size = |knob: usize| (other.place.logs[knob] - best.place.logs[knob]).abs();
        let furthest = (0..known.len()).max_by(|&a, &b| size(moved[a]).total_cmp(&size(moved[b])));
        for (column, known) in known.iter_mut().enumerate() {
            let error = size(moved[column]) / rise.max(1.0).sqrt();
            if error > known.error {
                known.error = error;
                known.twin = furthest.filter(|&furthest| furthest != column).or(known.twin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::knobs::Candidate;
    use super::*;

    /// Two residuals of each load: of a knob by itself, and of two that do the same.
    fn near(here: &[f64]) -> Near {
        let rows: Vec<f64> =
            (0..here.len()).flat_map(|row| [[2.0, 0.0, 0.0], [0.0, 1.0, 1.0]][row % 2]).collect();
        Near {
            here: DVector::from_row_slice(here),
            slopes: DMatrix::from_row_slice(here.len(), 3, &rows),
            chance: DMatrix::zeros(here.len(), 3),
            loads: (0..here.len()).map(|row| row / 2).collect(),
        }
    }

    #[test]
    fn what_two_knobs_do_alike_is_told_from_neither() {
        let known = near(&[0.01, 0.01, -0.01, -0.01, 0.01, 0.01, -0.01, -0.01]).known();
        assert!(known[0].error < 0.01 && known[0].twin.is_none(), "{known:?}");
        assert!(known[1].error > SPREAD_MAX && known[1].twin == Some(2), "{known:?}");
        assert!(known[2].error > SPREAD_MAX && known[2].twin == Some(1), "{known:?}");
    }

    #[test]
    fn what_slopes_are_by_chance_tells_nothing() {
        // Two knobs that do the same, but for what is chance in their slopes.
        let mut near = near(&[0.001; 16]);
        for row in (1..16).step_by(2) {
            near.slopes[(row, 1)] += if row % 4 == 1 { 0.5 } else { -0.5 };
        }
        let before = near.known();
        for row in (1..16).step_by(2) {
            near.chance[(row, 1)] = 0.25;
        }
        let known = near.known();
        assert_eq!(known[0], before[0]);
        assert!(known[1].error > 2.5 * before[1].error, "{before:?} {known:?}");
        assert_eq!((before[1].twin, known[1].twin), (None, Some(2)));
    }

    #[test]
    fn a_knob_is_known_no_better_than_single_loads_agree() {
        let alike = near(&[0.0; 12]).known()[0].error;
        // A load is off by 0.2: the knob, whose slope is 2, by a sixth of half of that.
        let mut here = [0.0; 12];
        here[0] = 0.2;
        let step = 0.2 / 2.0 / 6.0;
        let one = near(&here).known()[0].error;
        assert!(alike < 0.005 && one > 1.4 * step, "{alike} {one}");
        // So many loads say less of it together: what is left is where least squares would go.
        assert!(one < 3.0 * step, "{one}");
    }

    #[test]
    fn a_part_that_is_as_near_with_another_value_says_that_it_is_not_known() {
        let near = near(&[0.0; 8]);
        let at = |log: f64, cost: f64| Best {
            cost,
            place: Candidate { logs: vec![log, 0.0, 3.0 * log], dies: None },
        };
        let best = at(0.0, 0.004);
        for (cost, error) in [(0.004, 0.2), (0.0064, 0.1)] {
            let mut known = vec![Known { error: 0.01, twin: None }; 3];
            widen(&mut known, &[0, 1, 2], (&near, &best), &[at(0.2, cost)]);
            assert!((known[0].error / error - 1.0).abs() < 0.1, "{cost}: {known:?}");
            assert_eq!((known[0].twin, known[1].error), (Some(2), 0.01));
        }
        // Far off, and nearer than it was known.
        let mut known = vec![Known { error: 0.01, twin: None }; 3];
        widen(&mut known, &[0, 1, 2], (&near, &best), &[at(0.2, 0.5)]);
        assert_eq!(known[0], Known { error: 0.01, twin: None });
    }
}

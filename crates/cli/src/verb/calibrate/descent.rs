//! From a part to a better one: least squares by Levenberg and Marquardt.

use std::cell::RefCell;

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DMatrix, DVector, Dyn, Owned};
use study::Failure;

use super::knobs::Candidate;
use super::trial::{Best, Look, Trial, rms};

/// How strongly a knob is held where the base has it: enough for one that the points say nothing
/// of, and less than any point says.
const PULL: f64 = 0.02;
/// The same in the end, when nothing runs away any more.
pub(super) const PULL_LAST: f64 = 1e-3;
/// Steps below this one are the last.
pub(super) const LAST_STEP: f64 = 0.04;
/// So often slopes are carried on by what a step was seen to do, before they are measured anew.
const CARRIED_MAX: u32 = 3;
/// A try is given up when slopes were measured twice and it is further off than the best by this.
const HOPELESS: f64 = 1.3;

/// What all descents have in common.
pub(super) struct Ground<'a> {
    pub(super) trial: &'a Trial<'a>,
    pub(super) look: Look,
    /// Knobs that are moved, by index.
    pub(super) moved: Vec<usize>,
    /// Where knobs are that the points say nothing of.
    pub(super) centre: Vec<f64>,
    /// Parts of which no more are run.
    pub(super) limit: u64,
}

/// What is known of the slopes where a descent is.
struct Slopes {
    at: DVector<f64>,
    residuals: Vec<f64>,
    slopes: DMatrix<f64>,
    /// How often they were carried on since they were measured.
    carried: u32,
    /// Steps that were tried since.
    steps: u32,
    /// How often they were measured.
    measured: u32,
}

/// A descent from where the last one ended.
struct Descent<'a> {
    ground: &'a Ground<'a>,
    place: Candidate,
    /// How far a knob is moved to see what it does.
    step: f64,
    /// How strongly it is held at the centre.
    pull: f64,
    /// See [`Ground`].
    limit: u64,
    /// What is to be beaten, if giving up is an answer.
    goal: Option<f64>,
    here: Vec<f64>,
    slopes: RefCell<Option<Slopes>>,
    failed: &'a RefCell<Option<Failure>>,
    best: &'a RefCell<Best>,
}

impl Descent<'_> {
    /// The residuals at `place`, if parts are left.
    fn try_at(&self, place: &Candidate) -> Option<Vec<f64>> {
        let trial = self.ground.trial;
        if trial.tries() >= self.limit {
            return None;
        }
        let found = trial.residuals(place, self.ground.look);
        let found = found.map_err(|failure| *self.failed.borrow_mut() = Some(failure)).ok()?;
        let cost = rms(&found);
        let mut best = self.best.borrow_mut();
        if cost < best.cost {
            (best.cost, best.place) = (cost, place.clone());
        }
        Some(found)
    }

    /// What each knob does, seen by moving one after the other.
    fn measured(&self) -> Option<DMatrix<f64>> {
        let points = self.here.len();
        let moved = &self.ground.moved;
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

impl Slopes {
    /// Make them agree with what the step to `at` did (Broyden), which costs no part. Not where it
    /// was far from what they said.
    fn carry(&mut self, at: &DVector<f64>, residuals: &[f64]) -> bool {
        let step = at - &self.at;
        let length = step.norm_squared();
        if self.steps != 1 || self.carried == CARRIED_MAX || length == 0.0 {
            return false;
        }
        let said = &self.slopes * &step;
        for (row, (now, before)) in residuals.iter().zip(&self.residuals).enumerate() {
            let more = (now - before - said[row]) / length;
            for column in 0..step.len() {
                self.slopes[(row, column)] += more * step[column];
            }
        }
        (self.at, self.residuals) = (at.clone(), residuals.to_vec());
        self.carried += 1;
        self.steps = 0;
        true
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Descent<'_> {
    type ParameterStorage = Owned<f64, Dyn>;
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;

    fn set_params(&mut self, at: &DVector<f64>) {
        let moved = self.ground.moved.iter().zip(at.iter());
        moved.for_each(|(&knob, &log)| self.place.logs[knob] = log);
        self.here = self.try_at(&self.place).unwrap_or_default();
        if let Some(slopes) = self.slopes.get_mut() {
            slopes.steps += 1;
        }
    }

    fn params(&self) -> DVector<f64> {
        let moved = &self.ground.moved;
        DVector::from_iterator(moved.len(), moved.iter().map(|&knob| self.place.logs[knob]))
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        if self.here.is_empty() {
            return None;
        }
        let Ground { moved, centre, .. } = self.ground;
        let pulls = moved.iter().map(|&knob| self.pull * (self.place.logs[knob] - centre[knob]));
        Some(DVector::from_vec(self.here.iter().copied().chain(pulls).collect()))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let at = self.params();
        let mut known = self.slopes.borrow_mut();
        let carried = known.as_mut().is_some_and(|slopes| slopes.carry(&at, &self.here));
        if !carried {
            let measured = known.as_ref().map_or(0, |slopes| slopes.measured);
            let hopeless = self.goal.is_some_and(|goal| rms(&self.here) > goal * HOPELESS);
            if measured > 0 && hopeless {
                return None;
            }
            *known = Some(Slopes {
                slopes: self.measured()?,
                at,
                residuals: self.here.clone(),
                carried: 0,
                steps: 0,
                measured: measured + 1,
            });
        }
        known.as_ref().map(|known| known.slopes.clone())
    }
}

impl Ground<'_> {
    /// From the best to a better one, in `share` parts or less.
    pub(super) fn descend(&self, step: f64, share: u64, best: &mut Best) -> Result<(), Failure> {
        self.descend_for(None, step, share, best)
    }

    /// The same from `place`, whatever is best so far; given up where it does not come near `goal`.
    pub(super) fn descend_from(
        &self,
        place: Candidate,
        step: f64,
        share: u64,
        goal: Option<f64>,
    ) -> Result<Best, Failure> {
        let mut best = Best { cost: f64::INFINITY, place };
        self.descend_for(goal, step, share, &mut best)?;
        Ok(best)
    }

    fn descend_for(
        &self,
        goal: Option<f64>,
        step: f64,
        share: u64,
        best: &mut Best,
    ) -> Result<(), Failure> {
        if self.moved.is_empty() {
            return Ok(());
        }
        let failed = RefCell::new(None);
        let found = RefCell::new(best.clone());
        let mut descent = Descent {
            ground: self,
            place: best.place.clone(),
            pull: if step < LAST_STEP { PULL_LAST } else { PULL },
            step,
            limit: self.limit.min(self.trial.tries() + share),
            goal,
            here: Vec::new(),
            slopes: RefCell::default(),
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_follow_the_last_step_and_only_a_few_of_them() {
        // Two residuals of two knobs: x + y, and x * x.
        let of = |x: f64, y: f64| vec![x + y, x * x];
        let at = DVector::from_vec(vec![1.0, 1.0]);
        let slopes = DMatrix::from_row_slice(2, 2, &[1.0, 1.0, 2.0, 0.0]);
        let mut known =
            Slopes { at, residuals: of(1.0, 1.0), slopes, carried: 0, steps: 1, measured: 1 };
        let next = DVector::from_vec(vec![1.5, 1.0]);
        assert!(known.carry(&next, &of(1.5, 1.0)));
        // From 1 to 1.5 the square rises by 2.5 for each of x; nothing else is different.
        let expected = DMatrix::from_row_slice(2, 2, &[1.0, 1.0, 2.5, 0.0]);
        assert!((&known.slopes - &expected).norm() < 1e-12, "{}", known.slopes);
        // No step since; a second step that the first did not lead to; too many.
        assert!(!known.carry(&DVector::from_vec(vec![2.0, 1.0]), &of(2.0, 1.0)));
        known.steps = 2;
        assert!(!known.carry(&DVector::from_vec(vec![2.0, 1.0]), &of(2.0, 1.0)));
        (known.steps, known.carried) = (1, CARRIED_MAX);
        assert!(!known.carry(&DVector::from_vec(vec![2.0, 1.0]), &of(2.0, 1.0)));
    }
}

//! A part that is tried: what it does, and how far off that is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};

use study::Failure;

use super::super::measured::{Bench, METRICS, Point, SEED, Values, by_load, questions};
use super::knobs::{Base, Candidate, FACTOR_MAX};
use super::steps::Steps;
use crate::interrupt;

/// How many requests each load of a part is run with.
#[derive(Clone, Copy)]
pub(super) enum Look {
    /// A share of them: enough to see where the best part is.
    Short,
    /// All.
    Long,
}

/// A short look has this share of the requests of a long one.
const SHORT: u64 = 4;
/// By metric: few requests are beyond a percentile, so it says less than a mean does.
pub(super) const WEIGHTS: [f64; METRICS.len()] = [1.0, 1.0, 0.7, 0.35];
/// The same at offered loads: a drive shows how it lets writes in by its tails.
const WEIGHTS_OFFERED: [f64; METRICS.len()] = [2.0, 0.5, 0.7, 0.5];
/// An error above which a point is an outlier.
const FAR: f64 = 0.15;
/// So many parts that differ in nothing but their addresses say what of each number is chance.
pub(super) const SEEDS: u64 = SHORT;
/// A number that differs by this much by chance counts less by a factor of the root of 2: about
/// what a part is off by otherwise.
const OFF: f64 = 0.03;

/// A part, and how far it is off.
#[derive(Clone)]
pub(super) struct Best {
    pub(super) cost: f64,
    pub(super) place: Candidate,
}

/// By the root of what is random, requests of each load, and the part, as settings: what it does.
type Done = BTreeMap<(u64, u64, Vec<String>), Vec<Values>>;

/// What parts are tried with.
pub(super) struct Trial<'a> {
    pub(super) base: &'a Base,
    pub(super) points: &'a [Point],
    bench: &'a Bench<'a>,
    settings: [&'a [String]; 2],
    /// Whether anything is written: a short look has another buffer then.
    writes: bool,
    progress: Steps,
    /// By residual: how much it counts for what of it is chance.
    counts: RefCell<Vec<f64>>,
    /// A search comes by where it was before.
    done: RefCell<Done>,
    ended_by: &'a AtomicI32,
}

impl Trial<'_> {
    /// How far off `work` finds the parts that it tries, in `tries` of them at most; `shown` is how
    /// far it is.
    pub(super) fn during<T>(
        (bench, base): (&Bench, &Base),
        points: &[Point],
        settings: [&[String]; 2],
        (tries, shown): (u64, bool),
        work: impl FnOnce(&Trial) -> T,
    ) -> T {
        let ended_by = &AtomicI32::new(0);
        let note = |signal| ended_by.store(signal, Ordering::Relaxed);
        let found = interrupt::during(note, || {
            let progress = Steps::new("parts", tries, shown);
            let done = RefCell::default();
            let writes = points.iter().any(|point| point.direction() == "write");
            let counts = RefCell::default();
            work(&Trial { base, points, bench, settings, writes, progress, counts, done, ended_by })
        });
        if let signal @ 1.. = ended_by.load(Ordering::Relaxed) {
            interrupt::end_by(signal);
        }
        found
    }

    /// Parts that were run.
    pub(super) fn tries(&self) -> u64 {
        self.done.borrow().len() as u64
    }

    /// What a part at `place` does.
    pub(super) fn run(&self, place: &Candidate, look: Look) -> Result<Vec<Values>, Failure> {
        self.run_by((place, look), SEED)
    }

    fn run_by(&self, (place, look): (&Candidate, Look), seed: u64) -> Result<Vec<Values>, Failure> {
        if self.ended_by.load(Ordering::Relaxed) != 0 {
            return Err(Failure::machine("interrupted; nothing was written"));
        }
        let requests = self.requests(look);
        let mut sets = self.base.tried(place, self.settings);
        if matches!(look, Look::Short) && self.writes {
            sets.extend(self.base.smaller_buffer(place));
        }
        let own = (seed, requests, sets);
        if let Some(values) = self.done.borrow().get(&own) {
            return Ok(values.clone());
        }
        let bench = Bench { requests, seed, ..*self.bench };
        let (values, _) = bench.run(self.points, &own.2)?;
        self.done.borrow_mut().insert(own, values.clone());
        self.progress.at(self.tries());
        Ok(values)
    }

    fn requests(&self, look: Look) -> u64 {
        match look {
            Look::Short => self.bench.requests.div_ceil(SHORT),
            Look::Long => self.bench.requests,
        }
    }

    /// How far off it is, by point and metric.
    pub(super) fn residuals(&self, place: &Candidate, look: Look) -> Result<Vec<f64>, Failure> {
        Ok(self.counted(residuals(self.points, &self.run(place, look)?)))
    }

    /// The same of a short look, at each of [`SEEDS`] sets of addresses.
    pub(super) fn residuals_by_seed(&self, place: &Candidate) -> Result<Vec<Vec<f64>>, Failure> {
        let each = (0..SEEDS).map(|seed| {
            let values = self.run_by((place, Look::Short), SEED + seed)?;
            Ok(self.counted(residuals(self.points, &values)))
        });
        each.collect()
    }

    fn counted(&self, mut found: Vec<f64>) -> Vec<f64> {
        let counts = self.counts.borrow();
        found.iter_mut().zip(counts.iter()).for_each(|(residual, counts)| *residual *= counts);
        found
    }

    /// From now on a number counts less the more of it is chance in the `best`; `others` are as
    /// far off as they are then.
    pub(super) fn weigh(&self, best: &mut Best, others: &mut [Best]) -> Result<(), Failure> {
        self.counts.borrow_mut().clear();
        let seen = self.residuals_by_seed(&best.place)?;
        self.counts.replace(counts(&seen));
        for part in std::iter::once(best).chain(others) {
            part.cost = rms(&self.residuals(&part.place, Look::Short)?);
        }
        Ok(())
    }
}

/// ln(modelled / measured): that a half and twice are equally far; weighted and bounded.
pub(super) fn residuals(points: &[Point], values: &[Values]) -> Vec<f64> {
    let pairs = points.iter().zip(values).flat_map(|(point, values)| {
        let weights = if point.offered.is_some() { WEIGHTS_OFFERED } else { WEIGHTS };
        let each = point.measured.iter().zip(values).zip(weights);
        each.filter_map(|((&measured, &value), weight)| {
            Some(weight * bounded(log_error(measured?, value)))
        })
    });
    pairs.collect()
}

/// How far off `values` are as a reader of the answer sees it, root mean square: no number counts
/// more than another, and none is bounded.
pub(super) fn off_rms(points: &[Point], values: &[Values]) -> f64 {
    let errors = points.iter().zip(values).flat_map(|(point, values)| {
        let pairs = point.measured.iter().zip(values);
        pairs.filter_map(|(measured, value)| Some(log_error((*measured)?, *value)))
    });
    rms(&errors.collect::<Vec<_>>())
}

/// ln(modelled / measured); what the part does not do at all is as wrong as it can be.
fn log_error(measured: f64, value: Option<f64>) -> f64 {
    let value = value.filter(|value| *value > 0.0);
    value.map_or(FACTOR_MAX.ln(), |value| (value / measured).ln())
}

/// By residual: how much it counts, by how it differs between `seen`.
fn counts(seen: &[Vec<f64>]) -> Vec<f64> {
    let of = |index: usize| {
        let each = || seen.iter().map(|residuals| residuals[index]);
        let mean = each().sum::<f64>() / seen.len() as f64;
        let variance = each().map(|residual| (residual - mean).powi(2)).sum::<f64>();
        let by_chance = (variance / (seen.len() as f64 - 1.0)).sqrt();
        OFF / OFF.hypot(by_chance)
    };
    (0..seen.first().map_or(0, Vec::len)).map(of).collect()
}

/// By residual: the load that it is of, counted from 0; repeats of one are one.
pub(super) fn loads(points: &[Point]) -> Vec<usize> {
    let loads = by_load(points);
    let questions = questions(points, &loads);
    let each = loads.into_iter().zip(questions).flat_map(|(load, question)| {
        load.points.into_iter().map(move |point| (point, question)).collect::<Vec<_>>()
    });
    let of_point: BTreeMap<usize, usize> = each.collect();
    let known = |point: &Point| point.measured.iter().flatten().count();
    let each = points.iter().enumerate();
    each.flat_map(|(index, point)| vec![of_point[&index]; known(point)]).collect()
}

/// `error`, but what is far off counts by its size, not by its square (pseudo-Huber): one point
/// that no part does is not to bend all others.
fn bounded(error: f64) -> f64 {
    let ratio = error / FAR;
    error.signum() * FAR * (2.0 * ((1.0 + ratio * ratio).sqrt() - 1.0)).sqrt()
}

pub(super) fn rms(residuals: &[f64]) -> f64 {
    (residuals.iter().map(|r| r * r).sum::<f64>() / residuals.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chance_counts_less() {
        let found = counts(&[vec![0.1, 0.0], vec![0.1, 0.06], vec![0.1, 0.0], vec![0.1, 0.06]]);
        assert!((found[0] - 1.0).abs() < 1e-12, "{found:?}");
        let by_chance = 0.03 * (4.0 / 3.0f64).sqrt();
        assert!((found[1] - 0.03 / by_chance.hypot(0.03)).abs() < 1e-12, "{found:?}");
    }

    /// The fit's own measure of these is 4.6 %.
    #[test]
    fn what_is_printed_is_the_rms_of_the_errors() {
        let point = |iops: f64, p99: f64| Point {
            measured: [Some(iops), None, None, Some(p99)],
            ..Point::default()
        };
        let points = [point(100.0, 100.0), point(100.0, 100.0)];
        let part = [[Some(103.0), None, None, Some(100.8)], [Some(85.7), None, None, Some(106.8)]];
        let found = off_rms(&points, &part);
        assert!((found - 0.0853).abs() < 1e-4, "{found}");
        assert!(rms(&residuals(&points, &part)) < 0.08);
        assert!(off_rms(&points[..1], &[[None; 4]]) > 4.0, "what is not done at all");
    }

    #[test]
    fn a_half_and_twice_are_equally_far() {
        let measured = [Some(100.0), None, Some(2.0), None];
        let point = Point { measured, ..Point::default() };
        let found = residuals(&[point], &[[Some(200.0), Some(9.0), Some(1.0), None]]);
        assert!((found[0] / WEIGHTS[0] + found[1] / WEIGHTS[2]).abs() < 1e-12, "{found:?}");
        // What is near counts in full, what is far less.
        assert!((bounded(0.01) - 0.01).abs() < 1e-4 && bounded(-2f64.ln()) > -0.5);
    }
}

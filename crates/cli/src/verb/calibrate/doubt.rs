//! Loads of which a drive says something else than of the others.

use super::super::measured::{METRICS, Point, Values, by_load};

/// A load that is further off than this,
const FAR: f64 = 0.1;
/// and by so many times what half of the others are, is doubted,
const TIMES: f64 = 4.0;
/// if no more than one in so many is: else it is the part that is wrong.
const ONE_IN: usize = 4;

/// What is to be said of loads that do not fit the others.
pub(super) fn notes(points: &[(&[Point], &[Values])]) -> Vec<String> {
    let slower: Vec<(String, f64)> =
        points.iter().flat_map(|(points, values)| slower(points, values)).collect();
    let sizes: Vec<f64> = slower.iter().map(|(_, slower)| slower.abs()).collect();
    let least = FAR.max(TIMES * middle(sizes.clone()));
    let doubted = slower.iter().filter(|(_, slower)| slower.abs() > least);
    if doubted.clone().count() * ONE_IN > slower.len() {
        return Vec::new();
    }
    let note = |(load, slower): &(String, f64)| {
        let how = if *slower > 0.0 { "more" } else { "less" };
        let percent = 100.0 * slower.exp_m1().abs();
        format!(
            "{load}: the drive took {percent:.0} % {how} time than this part, which fits most of \
             the other loads; measure it again: if it is as before, the part cannot do it"
        )
    };
    doubted.map(note).collect()
}

/// By load: how much slower the drive was than the part, as a logarithm; half of what was measured
/// is further off, half less.
fn slower(points: &[Point], values: &[Values]) -> Vec<(String, f64)> {
    let of_load = |load: super::super::measured::Load| {
        let errors = load.points.iter().flat_map(|&point| {
            (0..METRICS.len()).filter_map(move |metric| {
                let ratio = points[point].measured[metric]? / values.get(point)?[metric]?;
                let is_rate = metric == 0;
                Some(if is_rate { -ratio.ln() } else { ratio.ln() })
            })
        });
        let errors: Vec<f64> = errors.filter(|error| error.is_finite()).collect();
        (points[load.points[0]].label(), middle(errors))
    };
    by_load(points).into_iter().map(of_load).collect()
}

/// The median.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let Some(upper) = values.get(half) else { return 0.0 };
    if values.len() % 2 == 1 { *upper } else { (values[half - 1] + upper) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads of a drive that is so much slower than its part.
    fn said(slower: &[f64]) -> Vec<String> {
        let point = |(index, slower): (usize, &f64)| Point {
            rw: "randread".into(),
            bs: "4k".into(),
            iodepth: 1 << index,
            numjobs: 1,
            measured: [Some(1e4 / slower), Some(1e2 * slower), Some(9e1 * slower), Some(5e2)],
            ..Point::default()
        };
        let points: Vec<Point> = slower.iter().enumerate().map(point).collect();
        let part = vec![[Some(1e4), Some(1e2), Some(9e1), Some(1e3)]; points.len()];
        notes(&[(&points[..4], &part[..4]), (&points[4..], &part[4..])])
    }

    #[test]
    fn a_load_that_the_others_do_not_bear_out_is_named() {
        let named = said(&[1.0, 1.01, 1.25, 0.99, 1.02, 1.0]);
        assert_eq!(named.len(), 1, "{named:?}");
        assert!(named[0].starts_with("randread 4k depth 4: the drive took 25 % more"), "{named:?}");
        // Held back, and quicker.
        let named = said(&[1.0, 1.01, 1.0, 0.99, 1.02, 0.8]);
        assert!(
            named[0].starts_with("randread 4k depth 32: the drive took 20 % less"),
            "{named:?}"
        );
        // Little, among others that are off, too, and too many.
        for slower in [
            [1.0, 1.01, 1.08, 0.99, 1.02, 1.0],
            [1.1, 0.92, 1.25, 1.05, 0.95, 1.0],
            [1.3, 1.01, 1.25, 0.99, 1.02, 1.0],
        ] {
            assert!(said(&slower).is_empty(), "{slower:?}");
        }
    }
}

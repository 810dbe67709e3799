//! The steady-state rule of the SNIA Solid State Storage Performance Test Specification.

use crate::document::UntilSteady;

/// Bounds on the last rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    window: usize,
    range: f64,
    slope: f64,
}

impl Rule {
    pub(crate) fn of(step: &UntilSteady) -> Rule {
        Rule {
            window: step.window as usize,
            range: step.range_percent / 100.0,
            slope: step.slope_percent / 100.0,
        }
    }

    /// True when the last `window` values are steady: their range, and the excursion of their
    /// least-squares line over the window, stay within the bounds as shares of their mean.
    pub(crate) fn holds(&self, values: &[f64]) -> bool {
        let Some(window) = values.len().checked_sub(self.window).map(|from| &values[from..]) else {
            return false;
        };
        let n = window.len() as f64;
        let mean = window.iter().sum::<f64>() / n;
        let max = window.iter().copied().fold(f64::MIN, f64::max);
        let min = window.iter().copied().fold(f64::MAX, f64::min);
        let middle = (n - 1.0) / 2.0;
        let offsets = window.iter().enumerate().map(|(x, y)| (x as f64 - middle, y - mean));
        let (products, squares) =
            offsets.fold((0.0, 0.0), |(p, s), (dx, dy)| (p + dx * dy, s + dx * dx));
        let excursion = (products / squares * (n - 1.0)).abs();
        max - min <= self.range * mean.abs() && excursion <= self.slope * mean.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNIA: Rule = Rule { window: 5, range: 0.2, slope: 0.1 };

    #[test]
    fn too_few_rounds_are_never_steady() {
        assert!(!SNIA.holds(&[100.0; 4]));
        assert!(SNIA.holds(&[100.0; 5]));
    }

    #[test]
    fn only_the_window_counts() {
        assert!(SNIA.holds(&[900.0, 100.0, 100.0, 101.0, 99.0, 100.0]));
    }

    #[test]
    fn range_and_slope_bound_separately() {
        // Range 22 %, no slope.
        assert!(!SNIA.holds(&[100.0, 111.0, 89.0, 111.0, 100.0]));
        // Range 12 %, but it climbs by 12 % of the mean over the window.
        assert!(!SNIA.holds(&[94.0, 97.0, 100.0, 103.0, 106.0]));
        assert!(SNIA.holds(&[98.0, 99.0, 100.0, 101.0, 102.0]));
    }
}

//! Steady state, as SNIA's Solid State Storage Performance Test Specification has it.

/// Rounds that are compared.
pub(crate) const ROUNDS: usize = 5;

/// Whether the last rounds say the same: they range over a fifth of their mean at most, and a line
/// through them changes by no more than a tenth of it.
pub(crate) fn is_steady(iops: &[f64]) -> bool {
    let Some(last) = iops.len().checked_sub(ROUNDS).map(|begin| &iops[begin..]) else {
        return false;
    };
    let mean = last.iter().sum::<f64>() / ROUNDS as f64;
    let middle = (ROUNDS - 1) as f64 / 2.0;
    let offsets = || (0..ROUNDS).map(|round| round as f64 - middle);
    let slope = offsets().zip(last).map(|(at, iops)| at * iops).sum::<f64>()
        / offsets().map(|at| at * at).sum::<f64>();
    let (least, most) = last.iter().fold((f64::MAX, 0f64), |(a, b), &x| (a.min(x), b.max(x)));
    most - least <= 0.2 * mean && (slope * (ROUNDS - 1) as f64).abs() <= 0.1 * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_is_flat_and_narrow() {
        assert!(!is_steady(&[100.0; 4]));
        assert!(is_steady(&[900.0, 100.0, 104.0, 98.0, 101.0, 100.0]));
        assert!(!is_steady(&[100.0, 104.0, 98.0, 125.0, 100.0]), "one apart");
        assert!(!is_steady(&[108.0, 104.0, 100.0, 96.0, 92.0]), "falling");
    }
}

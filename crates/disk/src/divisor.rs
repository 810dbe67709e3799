//! Exact division by a number that is fixed for the run, as a multiplication.

/// A divisor with its reciprocal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Divisor {
    value: u64,
    /// floor((2^64 - 1) / value): the estimate is at most one too small.
    reciprocal: u64,
}

impl Divisor {
    /// Divide by `value`, which is not 0.
    pub fn new(value: u64) -> Divisor {
        Divisor { value, reciprocal: u64::MAX / value }
    }

    /// The divisor itself.
    #[inline]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// `n / value` and `n % value`.
    #[inline]
    pub fn divide(&self, n: u64) -> (u64, u64) {
        let quotient = ((u128::from(n) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = n - quotient * self.value;
        // As arithmetic: whether the estimate was too small is a coin toss to a branch predictor.
        let small = u64::from(rest >= self.value);
        (quotient + small, rest - (small.wrapping_neg() & self.value))
    }

    /// `n / value`.
    #[inline]
    pub fn quotient(&self, n: u64) -> u64 {
        self.divide(n).0
    }

    /// `n % value`.
    #[inline]
    pub fn rest(&self, n: u64) -> u64 {
        self.divide(n).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_divides_exactly() {
        let mut rng = sim::Rng::new(1, "divisor");
        for round in 0..200_000u32 {
            let d = (rng.next_u64() >> rng.below(64)).max(1);
            let n = match round % 4 {
                0 => rng.next_u64() / d * d,
                1 => (rng.next_u64() / d * d).wrapping_sub(1),
                _ => rng.next_u64() >> rng.below(64),
            };
            assert_eq!(Divisor::new(d).divide(n), (n / d, n % d), "{n} / {d}");
        }
        assert_eq!(Divisor::new(1).divide(u64::MAX), (u64::MAX, 0));
        assert_eq!(Divisor::new(u64::MAX).divide(u64::MAX), (1, 0));
    }
}

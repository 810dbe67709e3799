//! A counter-based random generator, split by component path.
//!
//! Draw `n` of a stream is a pure function of (seed, path, n): adding a component never shifts
//! another component's draws, and a stream can be stored as two integers.

/// Odd constant of the Weyl sequence (2^64 / golden ratio).
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection that avalanches.
pub const fn mix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One stream of random numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rng {
    key: u64,
    counter: u64,
}

impl Rng {
    /// The stream of the component named `path` under `seed`.
    pub fn new(seed: u64, path: &str) -> Rng {
        Rng { key: mix64(seed ^ GAMMA), counter: 0 }.split(path)
    }

    /// The stream of a sub-component; independent of this stream and of how far it has run.
    pub fn split(&self, path: &str) -> Rng {
        let mut key = self.key;
        for byte in path.bytes() {
            key = mix64(key ^ u64::from(byte)).wrapping_add(GAMMA);
        }
        Rng { key: mix64(key), counter: 0 }
    }

    /// A uniform 64-bit draw.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(1);
        mix64(self.key.wrapping_add(self.counter.wrapping_mul(GAMMA)))
    }

    /// This stream as it is when `draws` more were made from it.
    #[inline]
    pub fn ahead(mut self, draws: u64) -> Rng {
        self.counter = self.counter.wrapping_add(draws);
        self
    }

    /// A uniform draw in `0..bound`. The bias is below bound / 2^64.
    ///
    /// # Panics
    /// In debug builds when `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "below(0) has no value to return");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniform draw in `[0, 1)` with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

crate::snapshot_fields!(Rng { key, counter });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_independent() {
        let root = Rng::new(1, "device");
        let mut a = root.split("gc");
        let mut consumed = root;
        consumed.next_u64();
        let mut b = consumed.split("gc");
        assert_eq!(a.next_u64(), b.next_u64());
        assert_ne!(root.split("gc").next_u64(), root.split("wear").next_u64());
        assert_ne!(Rng::new(1, "x").next_u64(), Rng::new(2, "x").next_u64());
    }

    #[test]
    fn looking_ahead_gives_the_draw_to_come() {
        let mut rng = Rng::new(1, "ahead");
        let later = rng.ahead(3).next_u64();
        (0..3).for_each(|_| assert_ne!(rng.next_u64(), later));
        assert_eq!(rng.next_u64(), later);
    }

    #[test]
    fn below_is_uniform() {
        let mut rng = Rng::new(7, "uniform");
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        // 5 sigma of a binomial(100000, 0.1) is 474.
        assert!(counts.iter().all(|&c| c.abs_diff(10_000) < 474), "{counts:?}");
    }
}

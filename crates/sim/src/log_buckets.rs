//! Buckets whose width grows with the value.

/// Buckets for whole numbers: those below `2 * PER_OCTAVE` have one each, and above, each octave
/// is cut into `PER_OCTAVE = 2^SUB_BITS` of equal width.
#[derive(Clone, Copy, Debug)]
pub struct LogBuckets<const SUB_BITS: u32>;

impl<const SUB_BITS: u32> LogBuckets<SUB_BITS> {
    /// Buckets per octave.
    pub const PER_OCTAVE: usize = 1 << SUB_BITS;

    /// How many hold the numbers below `2^bits`.
    pub const fn below(bits: u32) -> usize {
        (bits - SUB_BITS + 1) as usize * Self::PER_OCTAVE
    }

    /// The bucket of a value.
    #[inline]
    pub fn of(value: u64) -> usize {
        let octave = (64 - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
        // In octave 0 the two lowest rows hold the values below `2 * PER_OCTAVE` exactly.
        octave as usize * Self::PER_OCTAVE + (value >> octave) as usize
    }

    /// The lowest value of a bucket.
    pub fn lowest(index: usize) -> u64 {
        let octave = Self::octave(index);
        ((index - octave * Self::PER_OCTAVE) as u64) << octave
    }

    /// The value in the middle of a bucket.
    pub fn middle(index: usize) -> u64 {
        Self::lowest(index) + (1 << Self::octave(index)) / 2
    }

    fn octave(index: usize) -> usize {
        (index / Self::PER_OCTAVE).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers_every_value_once<const SUB_BITS: u32>() {
        let buckets = LogBuckets::<SUB_BITS>::below(64);
        for value in (0..100_000).chain([1 << 40, u64::MAX, u64::MAX / 3]) {
            let index = LogBuckets::<SUB_BITS>::of(value);
            let lowest = LogBuckets::<SUB_BITS>::lowest;
            assert!(index < buckets && lowest(index) <= value, "{value}");
            assert!(index + 1 == buckets || lowest(index + 1) > value, "{value}");
        }
    }

    #[test]
    fn buckets_cover_every_value_once() {
        covers_every_value_once::<4>();
        covers_every_value_once::<7>();
    }
}

//! Which of the writes that are not safe a power cut leaves: all that the contract of flush and FUA
//! allows, and not only what one model does.

use sim::Rng;

use crate::volatile::Fate;

/// More writes at risk than this have too many subsets to be counted.
const COUNTED_MAX: usize = 40;

/// What becomes of `count` writes in subset `number` of a cut. The same numbers mean the same for
/// ever: of each pair the even one keeps or loses whole writes (0: all lost, 2: all kept, then each
/// subset once), the odd one tears some.
pub(super) fn fates(count: usize, number: u32, seed: u64, at_ns: u64) -> Vec<Fate> {
    let whole = u64::from(number / 2);
    let by_mask = |mask: u64| {
        let kept = |index: usize| mask >> index & 1 == 1;
        (0..count).map(|index| if kept(index) { Fate::Kept } else { Fate::Lost }).collect()
    };
    if number.is_multiple_of(2) {
        if whole == 0 {
            return vec![Fate::Lost; count];
        }
        if whole == 1 {
            return vec![Fate::Kept; count];
        }
        if count < COUNTED_MAX && whole < 1 << count {
            return by_mask(mask(whole, count));
        }
    }
    let mut rng = Rng::new(seed, &format!("crash-subset-{at_ns}-{number}"));
    let mut fate = || match rng.below(4) {
        0 | 1 => Fate::Kept,
        2 if number % 2 == 1 => Fate::Torn(rng.next_u64()),
        _ => Fate::Lost,
    };
    (0..count).map(|_| fate()).collect()
}

/// A subset of `count` writes for each number from 2 to 2^count - 1, none of them twice, so that
/// the first few differ in all places.
fn mask(number: u64, count: usize) -> u64 {
    // An odd factor permutes the numbers below a power of two.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let below = |number: u64| number.wrapping_mul(FACTOR) & ((1 << count) - 1);
    let all = (1 << count) - 1;
    // What would be all kept, as 1 is, is what 1 would have been.
    match below(number) {
        mask if mask == all => below(1),
        mask => mask,
    }
}

/// So many of the whole subsets of `count` writes there are, if they can be counted.
pub(super) fn whole_subsets(count: usize) -> Option<u64> {
    (count < COUNTED_MAX).then(|| 1 << count)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_whole_subset_comes_once() {
        for count in 1..6 {
            let all: BTreeSet<Vec<bool>> = (0..1 << count)
                .map(|number| fates(count, 2 * number, 1, 5))
                .map(|fates| fates.iter().map(|fate| *fate == Fate::Kept).collect())
                .collect();
            assert_eq!(all.len(), 1 << count, "{count}");
        }
        assert_eq!(fates(3, 0, 1, 5), [Fate::Lost; 3]);
        assert_eq!(fates(100, 2, 1, 5), [Fate::Kept; 100]);
        assert_eq!((whole_subsets(3), whole_subsets(64)), (Some(8), None));
    }

    #[test]
    fn the_odd_ones_tear_and_the_same_is_the_same() {
        let odd = fates(50, 3, 1, 5);
        assert!(odd.iter().any(|fate| matches!(fate, Fate::Torn(_))));
        assert_eq!(odd, fates(50, 3, 1, 5));
        assert!(
            odd != fates(50, 3, 1, 6) && odd != fates(50, 3, 2, 5) && odd != fates(50, 5, 1, 5)
        );
        let even = fates(50, 4, 1, 5);
        assert!(even.iter().all(|fate| !matches!(fate, Fate::Torn(_))));
    }
}

//! Which of the times that a page became dirty are not on flash yet.

use std::collections::VecDeque;

use sim::snapshot_fields;

/// A set of counts that grow: what lies between the smallest and the largest is kept as flags, as
/// they come in order and leave nearly so.
#[derive(Clone, Default, Debug)]
pub(super) struct Outstanding {
    /// The count of the first flag.
    base: u64,
    /// The first one is set, if there is any.
    flags: VecDeque<bool>,
}

snapshot_fields!(Outstanding { base, flags });

impl Outstanding {
    /// Add a count larger than all that were added before.
    #[inline]
    pub(super) fn insert(&mut self, count: u64) {
        if self.flags.is_empty() {
            self.base = count;
        }
        // After a power failure some counts are left out.
        while self.base + (self.flags.len() as u64) < count {
            self.flags.push_back(false);
        }
        self.flags.push_back(true);
    }

    /// Take a count out, if it is there.
    #[inline]
    pub(super) fn remove(&mut self, count: u64) {
        let Some(index) = count.checked_sub(self.base) else { return };
        let Some(flag) = self.flags.get_mut(index as usize) else { return };
        *flag = false;
        while self.flags.front() == Some(&false) {
            self.flags.pop_front();
            self.base += 1;
        }
    }

    /// True when nothing up to `count` is there.
    #[inline]
    pub(super) fn is_clean_to(&self, count: u64) -> bool {
        self.flags.is_empty() || self.base > count
    }

    pub(super) fn clear(&mut self) {
        self.flags.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_a_set_of_growing_counts() {
        let mut rng = sim::Rng::new(7, "outstanding");
        let (mut set, mut plain) = (Outstanding::default(), BTreeSet::new());
        let mut count = 1;
        for step in 0..20_000u64 {
            if rng.below(2) == 0 {
                count += 1 + rng.below(2) * rng.below(3);
                set.insert(count);
                plain.insert(count);
            } else {
                // Mostly one of the oldest, as programs end nearly in order.
                let near = plain.first().map_or(0, |&first| first + rng.below(40));
                set.remove(near);
                plain.remove(&near);
            }
            let asked = plain.first().map_or(count, |&first| first + rng.below(3)) - rng.below(2);
            let clean = plain.first().is_none_or(|&oldest| oldest > asked);
            assert_eq!(set.is_clean_to(asked), clean, "step {step}");
            if step == 10_000 {
                set.clear();
                plain.clear();
            }
        }
    }
}

//! Is a superblock the newest of its device? A leg that was put back from an older copy of itself,
//! or that was replaced meanwhile, says of itself what was once true.
//!
//! So each superblock names the newest one of every other device that was complete when it was
//! written. Update numbers of a slot never go back, not even over a change of the medium: one that
//! is lower than what another device has seen is old, whatever it says.

use super::Rules;
use crate::format::Superblock;
use crate::mutant::planted;

/// What another device's superblock says of this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Nothing speaks against it.
    Newest,
    /// A newer one of its slot is known: it is an older copy, or its medium was replaced.
    Older,
    /// Each went on in a way that the other does not know.
    Apart,
    /// The other one was written by format version 1, which did not say.
    Unknown,
}

/// What does `by` say of `them`, the superblock of another device?
pub fn standing(rules: &Rules, them: &Superblock, by: &Superblock) -> Standing {
    let seen = by.seen[usize::from(them.device)];
    if seen.identity == 0 {
        return Standing::Unknown;
    }
    if them.update < seen.update && !planted!(rules, TrustOlder) {
        return Standing::Older;
    }
    let other = them.update == seen.update && them.as_seen() != seen;
    let strange = them.run != by.run
        && them.run != seen.run
        && by.run != them.seen[usize::from(by.device)].run;
    match (other || strange) && !planted!(rules, TrustClone) {
        true => Standing::Apart,
        false => Standing::Newest,
    }
}

/// Is `them` too far behind a leader that does not say what it has seen? A crash between two
/// superblocks leaves one of them a single start behind, and none behind one that was stopped in
/// order.
pub fn behind(them: &Superblock, leader: &Superblock) -> bool {
    let starts = leader.incarnation.saturating_sub(them.incarnation);
    starts > u64::from(!leader.clean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::superblock::tests::sample;
    use crate::types::Mode;

    const RULES: Rules = Rules::new(Mode::Log);

    /// Two superblocks of one start that know each other.
    fn pair() -> [Superblock; 2] {
        let mut pair = [0, 1].map(|device| Superblock { device, run: 7, ..sample() });
        let seen = pair.each_ref().map(Superblock::as_seen);
        for superblock in &mut pair {
            superblock.seen[..2].copy_from_slice(&seen);
        }
        pair
    }

    #[test]
    fn what_a_crash_leaves_is_the_newest_and_what_was_restored_is_not() {
        let [a, b] = pair();
        let judge = |them: &Superblock, by: &Superblock| standing(&RULES, them, by);
        assert_eq!(judge(&b, &a), Standing::Newest);
        // It wrote one more, which the other had no time to hear of; so after any crashed start.
        let later = Superblock { update: b.update + 1, run: 8, ..b.clone() };
        assert_eq!((judge(&later, &a), judge(&a, &later)), (Standing::Newest, Standing::Newest));
        let older = Superblock { update: b.update - 1, ..b.clone() };
        assert_eq!((judge(&older, &a), judge(&a, &older)), (Standing::Older, Standing::Newest));
        let medium = Superblock { identity: 99, ..b.clone() };
        assert_eq!(judge(&medium, &a), Standing::Apart);
        // Clones of both were started without each other: the counts are alike.
        let clone = Superblock { run: 9, ..b.clone() };
        assert_eq!(judge(&clone, &a), Standing::Apart);
        let longer = Superblock { update: b.update + 4, run: 9, ..b };
        let alone = Superblock { update: a.update + 4, run: 8, ..a };
        assert_eq!(judge(&longer, &alone), Standing::Apart);
        let first = Superblock { seen: Default::default(), ..alone };
        assert_eq!(judge(&longer, &first), Standing::Unknown);
    }

    #[test]
    fn one_start_behind_is_what_a_crash_leaves_unless_the_leader_was_stopped() {
        let them = sample();
        let at = |starts, clean| {
            behind(&them, &Superblock { incarnation: them.incarnation + starts, clean, ..sample() })
        };
        assert_eq!(
            [at(0, true), at(1, false), at(1, true), at(2, false)],
            [false, false, true, true]
        );
    }
}

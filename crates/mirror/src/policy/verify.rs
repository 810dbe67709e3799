//! Which copy of a block is right.

use super::Rules;
use crate::mutant::planted;
use crate::types::Slot;

/// The verdict on two copies of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Both are right. The checksum table may have to learn it.
    Same,
    /// The copy on this leg is wrong, the other is right.
    Wrong(Slot),
    /// They differ and nothing says which is right, or both are the same wrong one.
    Unknown,
}

/// Compare the checksums of two copies with the recorded one, `None` when it is not known.
/// Two equal copies do not outvote it: it was recorded when the write was made, and an extent goes
/// cold only when that is on media, so both lost the write, or were given another one.
pub fn copies(rules: &Rules, recorded: Option<u32>, read: [Option<u32>; 2]) -> Verdict {
    match (read, recorded) {
        ([Some(a), Some(b)], None) if a == b => Verdict::Same,
        ([Some(a), Some(b)], Some(sum)) if a == b && (a == sum || planted!(rules, Outvote)) => {
            Verdict::Same
        }
        ([Some(_), None], _) => Verdict::Wrong(1),
        ([None, Some(_)], _) => Verdict::Wrong(0),
        ([Some(a), Some(b)], Some(sum)) if (a == sum) != (b == sum) => {
            let wrong = usize::from(a == sum);
            Verdict::Wrong(if planted!(rules, RepairBackwards) { 1 - wrong } else { wrong })
        }
        _ => Verdict::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_sum_decides_even_over_two_equal_copies() {
        let rules = Rules::new(crate::types::Mode::Log);
        let judge = |recorded, a, b| copies(&rules, recorded, [a, b]);
        assert_eq!(judge(Some(1), Some(1), Some(2)), Verdict::Wrong(1));
        assert_eq!(judge(Some(2), Some(1), Some(2)), Verdict::Wrong(0));
        assert_eq!(judge(Some(1), Some(1), Some(1)), Verdict::Same);
        assert_eq!(judge(None, Some(1), Some(1)), Verdict::Same);
        assert_eq!(judge(Some(3), Some(1), Some(1)), Verdict::Unknown);
        assert_eq!(judge(Some(3), Some(1), Some(2)), Verdict::Unknown);
        assert_eq!(judge(None, Some(1), Some(2)), Verdict::Unknown);
        assert_eq!(judge(None, None, Some(2)), Verdict::Wrong(0));
    }
}

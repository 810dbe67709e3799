//! Where a block that no unfinished write covers is read from.

use super::Rules;
use crate::mutant::planted;
use crate::types::{LEGS, Slot, other};

/// What is known of the legs for one range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sources {
    /// The leg holds the newest content of the range.
    pub current: [bool; LEGS],
    /// The leg is frozen.
    pub lagging: [bool; LEGS],
    /// What a read is expected to take, in nanoseconds, with the queue there is.
    pub expected_ns: [u64; LEGS],
}

/// The leg to read from: one that is current, rather not frozen, rather fast. `None` when no leg
/// holds the newest content.
pub fn first(rules: &Rules, sources: &Sources) -> Option<Slot> {
    if planted!(rules, StaleRoute) {
        return Some(0);
    }
    (0..LEGS)
        .filter(|&leg| sources.current[leg])
        .min_by_key(|&leg| (sources.lagging[leg], sources.expected_ns[leg], leg))
}

/// The leg to ask as well when `asked` is late.
pub fn hedge(rules: &Rules, sources: &Sources, asked: Slot) -> Option<Slot> {
    let second = other(asked);
    (sources.current[second] || planted!(rules, HedgeStale)).then_some(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_current_leg_is_read() {
        let rules = Rules::new(crate::types::Mode::Log);
        let mut sources =
            Sources { current: [true; 2], lagging: [false; 2], expected_ns: [100, 9000] };
        assert_eq!(first(&rules, &sources), Some(0));
        sources.lagging[0] = true;
        assert_eq!(first(&rules, &sources), Some(1));
        sources.current[1] = false;
        assert_eq!((first(&rules, &sources), hedge(&rules, &sources, 0)), (Some(0), None));
        sources.current[0] = false;
        assert_eq!(first(&rules, &sources), None);
    }
}

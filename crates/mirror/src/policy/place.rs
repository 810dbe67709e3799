//! Where the second durable copy of a flushed write goes.

use super::Rules;
use crate::types::{LEGS, Mode, Slot, WITNESS, other};

/// The facts of a flush whose writes are durable on `leader` but not on the other leg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The leg that has the writes.
    pub leader: Slot,
    /// The other leg is frozen.
    pub lagging: bool,
    /// Writes of the flush that the other leg still owes.
    pub owed: u32,
    /// Their blocks.
    pub owed_blocks: u64,
    /// The other leg's own log can take them.
    pub own_log: bool,
    /// The witness can take them.
    pub witness: bool,
    /// What a write takes on each leg, in nanoseconds.
    pub write_ns: [u64; LEGS],
}

/// Writes of more blocks than this on average are not worth a detour through a log on the same
/// device: they are paid for twice.
const LOG_BLOCKS_MAX: u64 = 8;

/// The device whose log gets the payload; `None` to wait for the home position.
pub fn second_copy(rules: &Rules, choice: &Choice) -> Option<Slot> {
    if rules.mode != Mode::Log {
        return None;
    }
    if choice.lagging {
        // A frozen leg cannot log either.
        return choice.witness.then_some(WITNESS);
    }
    let behind = other(choice.leader);
    let small = choice.owed_blocks <= u64::from(choice.owed) * LOG_BLOCKS_MAX;
    // One sequential append against a write per home position.
    let home_ns = choice.write_ns[behind].saturating_mul(choice.owed.into());
    let slow = home_ns > 2 * choice.write_ns[behind].max(2 * choice.write_ns[choice.leader]);
    match (small && slow, choice.witness, choice.own_log) {
        (true, true, _) => Some(WITNESS),
        (true, false, true) => Some(behind),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_witness_helps_a_frozen_leg_and_its_own_log_a_slow_one() {
        let choice = Choice {
            leader: 0,
            lagging: true,
            owed: 32,
            owed_blocks: 32,
            own_log: true,
            witness: true,
            write_ns: [50_000, 9_000_000],
        };
        let rules = Rules::new(Mode::Log);
        assert_eq!(second_copy(&rules, &choice), Some(WITNESS));
        let alone = Choice { witness: false, ..choice };
        assert_eq!(second_copy(&rules, &alone), None);
        let slow = Choice { lagging: false, ..alone };
        assert_eq!(second_copy(&rules, &slow), Some(1));
        assert_eq!(second_copy(&rules, &Choice { owed: 1, owed_blocks: 1, ..slow }), None);
        assert_eq!(second_copy(&rules, &Choice { owed_blocks: 32 * 64, ..slow }), None);
        assert_eq!(second_copy(&Rules::new(Mode::Strict), &choice), None);
    }
}

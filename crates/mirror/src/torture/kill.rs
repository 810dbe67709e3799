//! The proof of the proof: bugs are planted in the protocol one at a time, and each must be found.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Plan, run};
use crate::Mutant;
use crate::policy::Rules;
use crate::types::Mode;

/// How a planted bug was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kill {
    /// Runs it took.
    pub seeds: u64,
    /// What was violated.
    pub violation: String,
}

/// Look for a planted bug in up to `seeds` runs of `operations` requests.
pub fn hunt(mutant: Mutant, seeds: u64, operations: u64) -> Option<Kill> {
    (1..=seeds).find_map(|seed| {
        let mut plan = Plan::new(seed, operations);
        plan.config.rules = Rules { mutant: Some(mutant), ..plan.config.rules };
        // Some bugs live in one mode only; half of the runs are in it.
        if let (Some(mode), true) = (home(mutant), seed % 2 == 0) {
            plan.config.rules.mode = mode;
        }
        let violation = match catch_unwind(AssertUnwindSafe(|| run(&plan))) {
            Ok(Ok(_)) => return None,
            Ok(Err(violation)) => violation.0,
            // An assertion of the core is as good as a check of its history.
            Err(_) => "an assertion (panic)".into(),
        };
        Some(Kill { seeds: seed, violation })
    })
}

/// The mode in which a bug shows.
const fn home(mutant: Mutant) -> Option<Mode> {
    match mutant {
        Mutant::StrictAckFirst => Some(Mode::Strict),
        Mutant::EpochWithoutFlush | Mutant::NoEpochs | Mutant::ArmLate | Mutant::NeverArm => {
            Some(Mode::Relaxed)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "minutes: part of make test-long"]
    fn every_planted_bug_is_found() {
        std::panic::set_hook(Box::new(|_| {}));
        let mut alive = Vec::new();
        println!("| planted bug | runs | found by |\n|---|---|---|");
        for &mutant in Mutant::ALL {
            match hunt(mutant, 3000, 400) {
                Some(Kill { seeds, violation }) => {
                    println!("| {mutant:?} | {seeds} | {violation} |");
                }
                None => alive.push(mutant),
            }
        }
        let _ = std::panic::take_hook();
        assert!(alive.is_empty(), "not found: {alive:?}");
    }
}

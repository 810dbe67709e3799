//! What recovery does with a block, from what the logs of the usable devices say.

use super::Rules;
use crate::format::record::EntryKind;
use crate::mutant::planted;
use crate::types::{LEGS, Slot};

/// One unretired log entry for the block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Claim {
    /// The write's number.
    pub sequence: u64,
    /// What the entry says.
    pub kind: EntryKind,
    /// Whose log it is in.
    pub device: Slot,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Remedy {
    /// Write the payload (or the zeros) of this claim to every leg.
    Replay(Claim),
    /// Copy the home position of this claim's leg to the other.
    Copy(Claim),
    /// Nothing was promised: any copy will do, but both must become the same.
    Compare,
}

/// The newest claim decides. A payload speaks for itself, so it is preferred over a reference of
/// the same write; a reference counts for the leg whose log holds it.
pub fn remedy(rules: &Rules, claims: impl IntoIterator<Item = Claim>) -> Remedy {
    let claims = claims.into_iter();
    let newest = match planted!(rules, MergeOldest) {
        true => claims.min(),
        false => claims.max_by_key(|claim| (claim.sequence, claim.kind)),
    };
    match newest {
        Some(claim) if claim.kind != EntryKind::Reference => Remedy::Replay(claim),
        Some(claim) if claim.device < LEGS => Remedy::Copy(claim),
        _ => Remedy::Compare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_claim_wins_and_a_payload_breaks_the_tie() {
        let rules = Rules::new(crate::types::Mode::Log);
        let claim = |sequence, kind, device| Claim { sequence, kind, device };
        let old = claim(5, EntryKind::Payload, 2);
        let home = claim(9, EntryKind::Reference, 1);
        let new = claim(9, EntryKind::Payload, 2);
        assert_eq!(remedy(&rules, [old, home]), Remedy::Copy(home));
        assert_eq!(remedy(&rules, [home, new, old]), Remedy::Replay(new));
        assert_eq!(remedy(&rules, [old]), Remedy::Replay(old));
        assert_eq!(remedy(&rules, []), Remedy::Compare);
    }
}

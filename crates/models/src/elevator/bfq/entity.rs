//! The place of a queue in virtual time.

use sim::snapshot_fields;

/// Virtual time has so many fractional bits.
const SHIFT: u32 = 22;

/// How far virtual time goes on for so many sectors of this weight.
pub(super) fn span(sectors: u64, weight: u64) -> u64 {
    (sectors << SHIFT) / weight.max(1)
}

/// Where a queue stands in the tree of its class.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Place {
    /// Not known there.
    #[default]
    Out,
    /// It asks.
    Waiting,
    /// It has its turn.
    InService,
    /// It left and is ahead of its share.
    Left,
}

sim::snapshot_enum!(Place { Out, Waiting, InService, Left });

/// The place of a queue in virtual time.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Entity {
    pub(super) weight: u64,
    /// The weight of its priority, which is not raised.
    pub(super) plain: u64,
    /// What `plain` will be when it next enters a tree.
    pub(super) next_plain: u64,
    /// Weight or class are to be computed anew.
    pub(super) changed: bool,
    /// Sectors that it may have in its turn, and those it had.
    pub(super) budget: u64,
    pub(super) service: u64,
    pub(super) start: u64,
    pub(super) finish: u64,
    pub(super) place: Place,
    /// The weight under which [`Weights`] counts it; 0 for not.
    pub(super) counted: u64,
}

snapshot_fields!(Entity {
    weight,
    plain,
    next_plain,
    changed,
    budget,
    service,
    start,
    finish,
    place,
    counted,
});

impl Entity {
    /// What is left of its budget, below 0 when it had more.
    pub(super) fn left(&self) -> i64 {
        self.budget as i64 - self.service as i64
    }

    /// It has used two thirds of its budget at most.
    pub(super) fn has_much_left(&self) -> bool {
        self.left() >= self.budget as i64 / 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_number() {
        assert_eq!(span(1024, 1200), 3_579_139);
    }
}

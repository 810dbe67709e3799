//! What a device counted: names, numbers and how busy its units were.

use crate::units::Nanos;

/// Busy time of one unit of the device, split by what it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Name of the unit, such as `channel0.die3`.
    pub name: String,
    /// (what, time) pairs; `what` as in [`crate::Span`].
    pub busy: Vec<(&'static str, Nanos)>,
}

/// How often the blocks of one unit of a flash device were erased.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wear {
    /// Name of the unit, such as `plane3`.
    pub unit: String,
    /// (erases, blocks erased that often) in rising order.
    pub blocks: Vec<(u32, u32)>,
}

/// Counts since a device was built. Composite devices prefix their parts' names.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// (name, count) pairs in a fixed order.
    pub counts: Vec<(String, u64)>,
    /// Busy time per unit, in a fixed order.
    pub units: Vec<Unit>,
}

impl Counters {
    /// Add a count.
    pub fn add(&mut self, name: impl Into<String>, count: u64) {
        self.counts.push((name.into(), count));
    }

    /// The count of that name, or 0 when the device does not have it.
    pub fn get(&self, name: &str) -> u64 {
        self.counts.iter().find(|(n, _)| n == name).map_or(0, |&(_, count)| count)
    }

    /// What was counted after `earlier`, which is an older reading of the same device. A level that
    /// can fall, such as memory in use, reads as its rise, or 0.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let counts = self.counts.iter();
        let rise = |(name, n): &(String, u64)| (name.clone(), n.saturating_sub(earlier.get(name)));
        let counts = counts.map(rise).collect();
        let mut units = self.units.clone();
        for (unit, old) in units.iter_mut().zip(&earlier.units) {
            for (busy, before) in unit.busy.iter_mut().zip(&old.busy) {
                busy.1 = busy.1.since(before.1);
            }
        }
        Counters { counts, units }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_fell_reads_zero() {
        let reading = |erases, ram| {
            let mut counters = Counters::default();
            counters.add("erases", erases);
            counters.add("ram", ram);
            counters
        };
        let between = reading(7, 10).since(&reading(5, 30));
        assert_eq!((between.get("erases"), between.get("ram")), (2, 0));
    }
}

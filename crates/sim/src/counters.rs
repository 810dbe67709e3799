//! What a device counted: names, numbers and how busy its units were.

use crate::units::Nanos;

/// Busy time of one unit of the device, split by what it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Name of the unit, such as `channel0.die3`.
    pub name: String,
    /// What it is a part of.
    pub kind: UnitKind,
    /// (what, time) pairs; `what` as in [`crate::Span`].
    pub busy: Vec<(&'static str, Nanos)>,
}

/// What a unit is a part of: shares of different kinds have no mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitKind {
    /// A drive: a die, its channel, an arm.
    Medium,
    /// Nothing: it stands for a device of which no more is known.
    Server,
    /// The host's processor.
    Core,
}

impl Unit {
    /// A part of a drive.
    pub fn medium(name: impl Into<String>, busy: Vec<(&'static str, Nanos)>) -> Unit {
        Unit { name: name.into(), kind: UnitKind::Medium, busy }
    }
}

/// How often the blocks of one unit of a flash device were erased.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wear {
    /// Name of the unit, such as `plane3`.
    pub unit: String,
    /// (erases, blocks erased that often) in rising order.
    pub blocks: Vec<(u32, u32)>,
}

/// Counts since a device was built. What they mean is declared beside the model
/// ([`crate::metric`]). The names of a part of a composite device follow the part's own.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// (name, count) pairs in a fixed order.
    pub counts: Vec<(String, u64)>,
    /// (name, level) pairs in a fixed order: what is the case now, such as memory in use.
    pub levels: Vec<(String, u64)>,
    /// Busy time per unit, in a fixed order.
    pub units: Vec<Unit>,
    /// The parts, outer ones before those in them: `fast`, `fast.first`.
    pub parts: Vec<String>,
}

impl Counters {
    /// Add a level.
    pub fn level(&mut self, name: impl Into<String>, level: u64) {
        self.levels.push((name.into(), level));
    }

    /// Add a count.
    pub fn add(&mut self, name: impl Into<String>, count: u64) {
        self.counts.push((name.into(), count));
    }

    /// Add what a part of the device has counted.
    pub fn nest(&mut self, part: &str, own: Counters) {
        let within = |name: String| format!("{part}.{name}");
        self.counts.extend(own.counts.into_iter().map(|(name, n)| (within(name), n)));
        self.levels.extend(own.levels.into_iter().map(|(name, n)| (within(name), n)));
        self.units.extend(own.units.into_iter().map(|u| Unit { name: within(u.name), ..u }));
        self.parts.push(part.into());
        self.parts.extend(own.parts.into_iter().map(within));
    }

    /// The count of that name, or 0 when the device does not have it.
    pub fn get(&self, name: &str) -> u64 {
        self.counts.iter().find(|(n, _)| n == name).map_or(0, |&(_, count)| count)
    }

    /// What was counted after `earlier`, which is an older reading of the same device. Levels stay
    /// as they are.
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
        Counters { counts, levels: self.levels.clone(), units, parts: self.parts.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_apart_and_nested() {
        let reading = |erases, ram| {
            let mut counters = Counters::default();
            counters.add("erases", erases);
            counters.level("ram", ram);
            counters
        };
        let mut pair = reading(1, 2);
        pair.nest("fast", reading(3, 4));
        let mut outer = Counters::default();
        outer.nest("a", pair);
        assert_eq!((outer.get("a.erases"), outer.get("a.fast.erases")), (1, 3));
        assert_eq!(outer.parts, ["a", "a.fast"]);
        let between = reading(7, 10).since(&reading(5, 30));
        assert_eq!((between.get("erases"), &between.levels[..]), (2, &[("ram".into(), 10)][..]));
    }
}

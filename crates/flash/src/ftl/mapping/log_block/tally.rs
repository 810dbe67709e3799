//! What the schemes with log blocks count.

use sim::metric::{Counted, Counter, Metric};
use sim::{Counters, snapshot_fields};

/// Merges by type, log blocks by how many logical blocks they mixed.
pub(crate) static MERGES: Counted = Counted {
    counters: &[
        Counter::new("merges.*", "merges", "log blocks that became data, by how"),
        Counter::new("log_victims", "blocks", "log blocks of mixed content that were emptied"),
        Counter::new("log_victim_logical_blocks", "blocks", "logical blocks merged for them"),
        Counter::new("log_associativity_max", "blocks", "most logical blocks in one log block"),
    ],
    metrics: &[
        Metric::count(
            "merges_switch",
            "merges",
            "merges that made a log block the data block",
            "merges.switch",
        ),
        Metric::count(
            "merges_partial",
            "merges",
            "merges that completed a log block by copies",
            "merges.partial",
        ),
        Metric::count(
            "merges_full",
            "merges",
            "merges that copied a whole logical block",
            "merges.full",
        ),
    ],
};

/// How a log block became a data block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Merge {
    /// The log block held the whole logical block in order: nothing was copied.
    Switch,
    /// It held a prefix in order, the rest was copied behind it.
    Partial,
    /// Everything was copied into a free block.
    Full,
}

/// Writes by where they went, merges by type, log blocks by how many logical blocks they mixed.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    /// Pages written in place into a data block.
    pub(crate) write_data: u64,
    /// Pages written elsewhere because their logical page held data.
    pub(crate) update_pure: u64,
    /// Pages written elsewhere only because their data block was written beyond them.
    pub(crate) update_wasted: u64,
    merges: [u64; 3],
    /// Log blocks of mixed content that were emptied, the logical blocks merged for them, and the
    /// most for one.
    victims: u64,
    victim_blocks: u64,
    associativity_max: u64,
}

snapshot_fields!(Tally {
    write_data,
    update_pure,
    update_wasted,
    merges,
    victims,
    victim_blocks,
    associativity_max
});

impl Tally {
    pub(crate) fn merged(&mut self, merge: Merge) {
        self.merges[merge as usize] += 1;
    }

    /// A page went where the scheme had room for it.
    #[inline]
    pub(crate) fn update(&mut self, held_data: bool) {
        if held_data { self.update_pure += 1 } else { self.update_wasted += 1 }
    }

    /// A log block was emptied by merging that many logical blocks.
    pub(crate) fn emptied(&mut self, logical_blocks: u32) {
        self.victims += 1;
        self.victim_blocks += u64::from(logical_blocks);
        self.associativity_max = self.associativity_max.max(u64::from(logical_blocks));
    }

    pub(crate) fn counters(&self, out: &mut Counters) {
        out.add("write_data", self.write_data);
        out.add("update_pure", self.update_pure);
        out.add("update_wasted", self.update_wasted);
        out.add("merges.switch", self.merges[Merge::Switch as usize]);
        out.add("merges.partial", self.merges[Merge::Partial as usize]);
        out.add("merges.full", self.merges[Merge::Full as usize]);
        out.add("log_victims", self.victims);
        out.add("log_victim_logical_blocks", self.victim_blocks);
        out.level("log_associativity_max", self.associativity_max);
    }
}

//! The proof by torture: the protocol over simulated devices with every fault there is, one seed
//! per run, every history checked.

pub mod disk;
pub mod exhaustive;
mod fault;
pub mod history;
mod host;
#[cfg(any(test, feature = "mutants"))]
pub mod kill;
pub mod media;
pub mod plan;
mod restart;
mod world;

use crate::core::Stats;
pub use history::Violation;
pub use plan::Plan;
pub use world::Log;

/// Blocks of the greatest host request.
pub const SPAN_MAX: usize = 4;

/// What a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Host requests.
    pub operations: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Power cuts inside recovery.
    pub recovery_cuts: u64,
    /// Devices lost with a power cut.
    pub losses: u64,
    /// Starts that were refused, rightly.
    pub refusals: u64,
    /// Faults of every other kind.
    pub faults: u64,
    /// Digest of all that happened: two runs of a seed have the same.
    pub digest: u64,
    /// The protocol's own counts, summed over all starts.
    pub stats: Stats,
}

impl Report {
    /// Add another run's counts.
    pub fn add(&mut self, other: &Report) {
        self.operations += other.operations;
        self.power_cuts += other.power_cuts;
        self.recovery_cuts += other.recovery_cuts;
        self.losses += other.losses;
        self.refusals += other.refusals;
        self.faults += other.faults;
        self.digest ^= other.digest;
        self.stats.add(&other.stats);
    }
}

/// Run one plan to its end.
///
/// # Errors
/// The first invariant that does not hold.
pub fn run(plan: &Plan) -> Result<Report, Violation> {
    world::World::new(plan, None)?.run()
}

/// As [`run`], and tell `log` every event and action.
///
/// # Errors
/// The first invariant that does not hold.
pub fn replay(plan: &Plan, log: Log<'_>) -> Result<Report, Violation> {
    world::World::new(plan, Some(log))?.run()
}

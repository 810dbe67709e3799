//! What a run is like, drawn from its seed.

use sim::{Nanos, Rng};

use crate::core::{Config, Placement};
use crate::format::Geometry;
use crate::policy::Rules;
use crate::types::Mode;

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Host requests.
    pub operations: u64,
    /// How the array is run.
    pub config: Config,
    /// Sizes.
    pub geometry: Geometry,
    /// With a witness.
    pub witness: bool,
    /// Host requests at once.
    pub depth: usize,
    /// Faults in ten thousand requests, by kind.
    pub rates: Rates,
}

/// Faults in ten thousand requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// A leg does not answer for 5 ms to 2 s.
    pub freeze: u64,
    /// A device does not answer until long after it was given up on.
    pub hang: u64,
    /// Requests end with errors for a while.
    pub error: u64,
    /// A device is gone with its cache, and comes back.
    pub vanish: u64,
    /// A block changes by itself, or a write is lost or lands elsewhere.
    pub corrupt: u64,
    /// The power is cut.
    pub cut: u64,
    /// The operator does something.
    pub operator: u64,
}

impl Rates {
    /// A bad week: as much trouble as leaves the array time to get over it.
    pub const ROUGH: Rates = Rates {
        freeze: 200,
        hang: 60,
        error: 100,
        vanish: 150,
        corrupt: 60,
        cut: 120,
        operator: 200,
    };
}

impl Plan {
    /// The run of a seed, with `operations` host requests.
    pub fn new(seed: u64, operations: u64) -> Plan {
        let mut rng = Rng::new(seed, "plan");
        let mode = [Mode::Strict, Mode::Log, Mode::Log, Mode::Relaxed][rng.below(4) as usize];
        let witness = rng.below(2) == 0;
        let mut config = Config::new(mode);
        config.rules = Rules::new(mode);
        config.ram_blocks_max = 8 + rng.below(40);
        config.exposed_blocks_max = 4 + rng.below(16);
        config.exposed_age_max = Nanos::from_millis(5 + rng.below(500));
        config.hot_max = 2 + rng.below(4) as usize;
        config.depth_max = 1 + rng.below(16) as u32;
        config.drain_depth = 1 + rng.below(4) as u32;
        config.copies_max = 1 + rng.below(3) as usize;
        config.flush_after = Nanos::from_millis(50 + rng.below(5000));
        config.hedge_percent = 50;
        let placements = [Placement::Auto, Placement::Witness, Placement::OwnLog, Placement::Home];
        config.placement = placements[rng.below(4) as usize];
        let mut some = |rate: u64| if rng.below(3) == 0 { 0 } else { rng.below(rate) };
        let rates = Rates {
            freeze: some(400),
            hang: some(40),
            error: some(40),
            vanish: some(40),
            corrupt: some(100),
            cut: some(60),
            operator: some(80),
        };
        let geometry = Geometry {
            blocks: 12 + rng.below(20),
            extent_blocks: 4,
            region_blocks: 2,
            log_pages: 8 + rng.below(16) as u32,
        };
        let depth = 1 + rng.below(8) as usize;
        Plan { seed, operations, config, geometry, witness, depth, rates }
    }
}

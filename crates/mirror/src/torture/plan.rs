//! What a run is like, drawn from its seed.

use sim::{Nanos, Rng};

use crate::core::{Config, Placement};
use crate::format::Geometry;
use crate::policy::Rules;
use crate::policy::lag::LagRules;
use crate::policy::slow::SlowRules;
use crate::types::Mode;

/// One run.
#[derive(Clone, Debug)]
pub struct TorturePlan {
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
    /// A block cannot be read until it is written; on a leg that is alone, it may be lost.
    pub unreadable: u64,
    /// A leg takes up to seconds for each request, for a while.
    pub slow: u64,
    /// The server does not run for up to 20 s.
    pub pause: u64,
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
        unreadable: 100,
        slow: 0,
        pause: 20,
    };
}

impl TorturePlan {
    /// The run of a seed, with `operations` host requests.
    pub fn new(seed: u64, operations: u64) -> TorturePlan {
        let mut plan = TorturePlan::first(seed, operations);
        plan.more();
        plan
    }

    /// The same without what came later.
    pub(super) fn first(seed: u64, operations: u64) -> TorturePlan {
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
            unreadable: 0,
            slow: 0,
            pause: 0,
        };
        let geometry = Geometry {
            blocks: 12 + rng.below(20),
            extent_blocks: 4,
            region_blocks: 2,
            log_pages: 8 + rng.below(16) as u32,
        };
        let depth = 1 + rng.below(8) as usize;
        let mut plan = TorturePlan { seed, operations, config, geometry, witness, depth, rates };
        plan.config.lag = LagRules { flush_deadline: None, slow: None, ..plan.config.lag };
        plan
    }

    /// What came later has draws of its own: a seed's other draws are what they were.
    fn more(&mut self) {
        let mut rng = Rng::new(self.seed, "plan of more");
        let mut some = |rate: u64| if rng.below(2) == 0 { 0 } else { rng.below(rate) };
        self.rates.unreadable = some(80);
        self.rates.pause = some(40);
        if some(2) + some(2) > 0 {
            self.impatient(&mut rng);
        }
    }

    /// Legs are left out soon for being late. A freeze may leave one alone then: so nothing may be
    /// wrong with the other.
    pub(super) fn impatient(&mut self, rng: &mut Rng) {
        (self.rates.corrupt, self.rates.error, self.rates.unreadable) = (0, 0, 0);
        self.rates.slow = rng.below(60);
        let ms = |time: u64| Nanos::from_millis(time);
        // Longer than what a leg that is well takes for all that may be owed, and a pause's slack.
        self.config.lag.flush_deadline = Some(ms(400 + rng.below(2000)));
        self.config.lag.slow = Some(SlowRules {
            over: ms(50 + rng.below(500)),
            share_percent: 5 + rng.below(40) as u32,
            window: ms(2000 + rng.below(10_000)),
        });
    }
}

//! Static wear levelling: cold data is moved off blocks that are worn too little.
//!
//! # What it models
//! Dynamic levelling plus migration. After an erase the plane's least worn sealed block is
//! compared with the plane's mean; when it lags by more than the threshold its data moves and the
//! block joins the free ones.
//!
//! # Equation
//! Move when `mean erases - erases of the block > threshold`.
//!
//! # Parameters
//! `threshold`: the lag in erases that is tolerated. `every`: erases of the plane between checks.
//!
//! # What it leaves out
//! Per-block endurance; the data moved is not sorted by temperature.
//!
//! # Validated against
//! A bounded spread of erase counts under a hot/cold workload in a test.
//!
//! # References
//! Chang, ACM SAC 2007; Agrawal et al., USENIX ATC 2008, section 3.5 (cold-data migration).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Wear};
use crate::ftl::flash::Flash;

/// Parameters of static wear levelling.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Lag behind the plane's mean erase count that is tolerated, in erases.
    pub threshold: u32,
    /// Erases of a plane between two checks; 0 counts as 1.
    pub every: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { threshold: 8, every: 16 }
    }
}

impl Params {
    /// Build the policy.
    pub fn build(&self, context: &Context) -> Box<dyn Wear> {
        Box::new(Static {
            threshold: u64::from(self.threshold),
            every: self.every.max(1),
            erases: vec![0; context.planes as usize],
            total: vec![0; context.planes as usize],
        })
    }
}

#[derive(Clone)]
struct Static {
    threshold: u64,
    every: u32,
    /// Erases since the last check, per plane.
    erases: Vec<u32>,
    /// Erases since the drive was built, per plane.
    total: Vec<u64>,
}

sim::snapshot_fields!(Static { erases, total });

impl Wear for Static {
    fn levels_free_blocks(&self) -> bool {
        true
    }

    fn cold_victim(&mut self, plane: u32, flash: &Flash) -> Option<u32> {
        let p = plane as usize;
        self.erases[p] += 1;
        self.total[p] += 1;
        if self.erases[p] < self.every {
            return None;
        }
        self.erases[p] = 0;
        let blocks = flash.geometry.blocks_of_plane(plane);
        let mean = self.total[p] / u64::from(flash.geometry.blocks_per_plane.get());
        let coldest = blocks.filter(|&block| flash.is_sealed(block));
        let coldest = coldest.min_by_key(|&block| flash.block(block).erases)?;
        let lag = mean.saturating_sub(u64::from(flash.block(coldest).erases));
        (lag > self.threshold).then_some(coldest)
    }

    fn boxed_clone(&self) -> Box<dyn Wear> {
        Box::new(self.clone())
    }
}

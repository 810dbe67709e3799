//! No wear levelling: free blocks are used in the order they were erased.
//!
//! # What it models
//! A drive that relies on its workload to spread wear.
//!
//! # Equation
//! None.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Everything.
//!
//! # Validated against
//! The closed forms of write amplification, which assume it.
//!
//! # References
//! None.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Wear};

/// No parameters.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {}

impl Params {
    /// Build the policy.
    pub fn build(&self, _context: &Context) -> Box<dyn Wear> {
        Box::new(NoLevelling)
    }
}

#[derive(Clone)]
struct NoLevelling;

sim::snapshot_fields!(NoLevelling {});

impl Wear for NoLevelling {
    fn levels_free_blocks(&self) -> bool {
        false
    }

    fn boxed_clone(&self) -> Box<dyn Wear> {
        Box::new(self.clone())
    }
}

//! Dynamic wear levelling: the least worn free block is used first.
//!
//! # What it models
//! Levelling among the blocks that take part in writing. It costs nothing, and does nothing for
//! blocks that hold cold data.
//!
//! # Equation
//! None.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! Cold data: see `wear.static`.
//!
//! # Validated against
//! A smaller spread of erase counts than `wear.none` in a test.
//!
//! # References
//! Gal and Toledo, ACM Computing Surveys 2005.

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
        Box::new(Dynamic)
    }
}

#[derive(Clone)]
struct Dynamic;

sim::snapshot_fields!(Dynamic {});

impl Wear for Dynamic {
    fn levels_free_blocks(&self) -> bool {
        true
    }

    fn boxed_clone(&self) -> Box<dyn Wear> {
        Box::new(self.clone())
    }
}

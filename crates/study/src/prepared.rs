//! A device in its starting state, and how it came there.

use serde::{Deserialize, Serialize};
use sim::{Device, Nanos};

/// What the steady-state gate said.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Gate {
    /// Whether the metric became steady.
    pub steady: bool,
    /// Rounds that were run.
    pub rounds: u32,
    /// The metric.
    pub metric: String,
    /// Its value in every round.
    pub values: Vec<f64>,
}

/// A device in its starting state.
pub(crate) struct Prepared {
    pub(crate) device: Box<dyn Device>,
    /// The device's present moment.
    pub(crate) start: Nanos,
    pub(crate) gate: Option<Gate>,
    pub(crate) notes: Vec<String>,
}

impl Prepared {
    /// A device as it comes out of the box.
    pub(crate) fn fresh(device: Box<dyn Device>) -> Prepared {
        Prepared { device, start: Nanos::ZERO, gate: None, notes: Vec::new() }
    }

    /// A copy that will do exactly the same.
    pub(crate) fn fork(&self) -> Prepared {
        Prepared {
            device: self.device.boxed_clone(),
            start: self.start,
            gate: self.gate.clone(),
            notes: self.notes.clone(),
        }
    }
}

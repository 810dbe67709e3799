//! Replay by timestamps: an open loop.
//!
//! # What it models
//! Requests arrive when the trace says, whatever the device does. A slow device builds up a
//! queue, as no real program would let it.
//!
//! # Equation
//! `issue = start + scale * (time - time of the first request)`
//!
//! # Parameters
//! `scale`.
//!
//! # What it leaves out
//! That programs wait for what they asked before they ask more.
//!
//! # Validated against
//! Issue times to the nanosecond, in tests.
//!
//! # References
//! Anderson et al., "Buttress", FAST 2004, on open and closed replay.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Nanos;

use crate::replay::{Order, Pace, Turn};

/// Parameters of replay by timestamps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Factor on all times: 0.5 replays twice as fast. Between 0 and 1000, in steps of 1e-6.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub scale: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params { scale: 1.0 }
    }
}

/// The largest factor.
pub const SCALE_MAX: f64 = 1000.0;

/// Times are scaled in integers: floats never order events.
const ONE: u64 = 1_000_000;

impl Params {
    /// Build the order.
    ///
    /// # Errors
    /// When the scale is out of range.
    pub fn build(&self, _context: &()) -> Result<Order, ConfigError> {
        if !(0.0..=SCALE_MAX).contains(&self.scale) {
            let message =
                format!("expected a factor between 0 and {SCALE_MAX}, got {}", self.scale);
            return Err(ConfigError::new("timestamps.scale", message));
        }
        Ok(Order::Paced(Box::new(Timestamps {
            millionths: (self.scale * ONE as f64).round() as u64,
        })))
    }
}

struct Timestamps {
    millionths: u64,
}

impl Pace for Timestamps {
    fn needs_times(&self) -> bool {
        true
    }

    #[inline]
    fn turn(&self, now: Nanos, time: Nanos, _in_flight: u64, _completed: Nanos) -> Turn {
        let due = match self.millionths {
            ONE => time.0,
            scale => {
                let scaled = u128::from(time.0) * u128::from(scale) / u128::from(ONE);
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
        };
        if due > now.0 { Turn::At(Nanos(due)) } else { Turn::Now }
    }
}

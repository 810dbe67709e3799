//! Replay by timestamps: an open loop.
//!
//! # What it models
//! Requests arrive when the trace says, whatever the device does. A slow device builds up a
//! queue, as no real program would let it.
//!
//! # Equation
//! `issue = start + scale * (time - time of the first request)`, or `start + scale * time` with
//! `from_start`
//!
//! # Parameters
//! `scale`, `from_start`.
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
    /// Count from the recording's own time 0 and not from its first request. A disk's platter turns
    /// in the pause before that, so what `attach --record` and `travel --record` wrote takes the
    /// same times again only so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_start: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params { scale: 1.0, from_start: false }
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
            from_start: self.from_start,
        })))
    }
}

struct Timestamps {
    millionths: u64,
    from_start: bool,
}

impl Pace for Timestamps {
    fn needs_times(&self) -> bool {
        true
    }

    fn counts_from_start(&self) -> bool {
        self.from_start
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

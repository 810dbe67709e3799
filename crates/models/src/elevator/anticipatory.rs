//! anticipatory, of Linux 2.6.26: after a read the device waits a little for the next one nearby.
//!
//! # What it models
//! Batches of reads (and of writes that somebody waits for) and of other writes take turns by time.
//! Within one an elevator goes up, and back only a little. When a read of a process is answered and
//! the best candidate is somebody else's and not close, nothing is sent for up to `antic_expire`:
//! the process may ask for its next block. The wait ends when it does, when a close request comes,
//! or when its habits make it pointless: it thinks too long, or it has other requests out. "Close"
//! grows twofold with each millisecond.
//!
//! # Equation
//! close: from `last - d / 2` to `last + d`, `d = 8192 sectors * 2^ms waited`, or nearer than the
//! mean seek of the process. Means weigh the last value by 1/8; think times count up to 20 ms.
//!
//! # Parameters
//! `read_expire`, `write_expire`, `read_batch_expire`, `write_batch_expire`, `antic_expire`, under
//! the kernel's names and with its defaults. `antic_expire` is HZ/150 ticks there: 6 ms at the
//! 1000 Hz of the distributions of the time (as remembered), which is the default here; 4 ms at 250
//! and 10 ms at 100 Hz. With 0 it does not anticipate.
//!
//! # What it leaves out
//! Processes that end, and with them the probability of that. Time is not rounded to ticks. A bio
//! is merged in front of a request of its own kind; the kernel looked for one in the wrong list and
//! found few.
//!
//! # Validated against
//! State tables by hand from the description, limits (`antic_expire = 0`), and the behaviour of two
//! sequential readers and of one that thinks too long, in its tests. No kernel that still has it
//! was run beside it.
//!
//! # References
//! Linux 2.6.27, `block/as-iosched.c`, `Documentation/block/as-iosched.txt`. Iyer, Druschel,
//! "Anticipatory scheduling", SOSP 2001.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Nanos;

use super::counted::ANTICIPATION;
use super::{Built, Context, Kind};
use config::{ConfigError, Duration};

mod machine;
#[cfg(test)]
mod tests;

/// Parameters of the policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// In a read batch, a request that waited so long goes next.
    pub read_expire: Duration,
    /// In a write batch, a request that waited so long goes next.
    pub write_expire: Duration,
    /// Reads go on for so long while writes wait.
    pub read_batch_expire: Duration,
    /// Writes go on for so long while reads wait.
    pub write_batch_expire: Duration,
    /// How long the next read of a process is waited for; 0 for not at all.
    pub antic_expire: Duration,
}

impl Default for Params {
    fn default() -> Params {
        let ms = |ms| Duration(Nanos::from_millis(ms));
        Params {
            read_expire: ms(125),
            write_expire: ms(250),
            read_batch_expire: ms(500),
            write_batch_expire: ms(125),
            antic_expire: ms(6),
        }
    }
}

impl Params {
    /// What the policy counts.
    pub const COUNTED: sim::metric::Declarations = &[&ANTICIPATION];

    /// Build the policy.
    ///
    /// # Errors
    /// When a batch would take no time.
    pub fn build(&self, _context: &Context) -> Result<Built, ConfigError> {
        for (key, value) in [
            ("read_batch_expire", self.read_batch_expire),
            ("write_batch_expire", self.write_batch_expire),
        ] {
            if value.0 == Nanos::ZERO {
                return Err(ConfigError::new(key, "expected more than 0, got \"0ns\""));
            }
        }
        let policy = Box::new(machine::Anticipatory::new(self));
        Ok(Built { policy, kind: Kind::ERA })
    }
}

//! The table `[crash]`: the power is cut at many moments of the program in the guest, and guests
//! look at what is left.

use config::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Cuts of the power while the program of `[travel]` runs. Every key can be swept and set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Crash {
    /// So many, spread over the moments at which something changes.
    #[serde(default = "Crash::cuts")]
    pub cuts: u32,
    /// Instead: one in each such stretch of virtual time.
    pub every: Option<Duration>,
    /// Instead: when a flush comes, and just before and when it is done.
    #[serde(default)]
    pub at_flush: bool,
    /// What looks at what is left: a shell's command line, run where the file system is mounted. It
    /// fails when something is missing of what was acknowledged before the cut, a line each in the
    /// file $BLOCKLAB_ACKS.
    #[serde(default)]
    pub check: String,
    /// Not what the drive's model leaves, but so many of the subsets of unsafe writes that the
    /// contract of flush and FUA allows at each cut.
    pub subsets: Option<u32>,
    /// The kernel dies, not the power: the drive does all that it was asked.
    #[serde(default)]
    pub panic: bool,
}

impl Crash {
    fn cuts() -> u32 {
        100
    }
}

/// What cuts of a run came to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cuts {
    /// Cuts: moments, of each of which the worst of its subsets counts below.
    pub cuts: u64,
    /// Looks: with subsets, there are several at a moment.
    pub looks: u64,
    /// Media that differ, or differ in what was promised.
    pub media: u64,
    /// Promises in all.
    pub acks: u64,
    /// It mounts, and every check is content.
    pub clean: u64,
    /// The file system had to be repaired.
    pub repaired: u64,
    /// The check misses something.
    pub lost: u64,
    /// It does not mount.
    pub refused: u64,
    /// Seconds from the program's start to the first cut that is lost or refused.
    pub first_failure_s: Option<f64>,
}

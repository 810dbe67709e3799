//! What the outside tells the guest's first process, and what that tells back. Both are JSON files
//! in a folder of the host that the guest mounts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::processor::Charges;
use super::settings::Settings;

/// The plan's file.
pub(super) const PLAN: &str = "plan.json";
/// What the program reads from its standard input, if anything.
pub(super) const INPUT: &str = "in";
/// The findings' file.
pub(super) const FINDINGS: &str = "findings.json";
/// The program's output.
pub(super) const OUTPUT: &str = "out";
/// What the program said on stderr.
pub(super) const COMPLAINTS: &str = "err";
/// Made when the program is about to begin.
pub(super) const BEGUN: &str = "begun";
/// Made when it begins; what follows the name is the guest's time in nanoseconds.
pub(super) const BEGUN_AT: &str = "begun-at-";
/// Made when the program has ended, before its data is written back.
pub(super) const ENDED: &str = "ended";
/// Made when its data is written back, before anything else is.
pub(super) const SYNCED: &str = "synced";
/// What the program was promised, a line each: the moment in nanoseconds, and the text.
pub(super) const ACKS: &str = "acks";
/// System calls of the program, as strace writes them.
pub(super) const CALLS: &str = "calls";
/// Programs of ours for the program.
pub(super) const HELPERS: &str = "bin";
/// The kernel's record of the queues.
pub(super) const QUEUE: &str = "queue";

/// What to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct GuestPlan {
    pub(super) disks: Vec<Disk>,
    pub(super) mkfs: Option<Mkfs>,
    pub(super) mount: Option<String>,
    /// The program, and what follows it.
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) folder: String,
    /// The start of the kernel's random numbers.
    pub(super) entropy: Vec<u8>,
    /// Record the queues; KiB of memory for it.
    pub(super) record_queue_kib: Option<u32>,
    /// What code is charged; `None`: it is free.
    pub(super) charges: Option<Charges>,
    pub(super) settings: Settings,
}

/// How a disk is to be set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Disk {
    pub(super) name: String,
    pub(super) rotational: bool,
    /// The device is an elevator: it gets bios as they were made.
    pub(super) whole_bios: bool,
    pub(super) scheduler: Option<String>,
    pub(super) read_ahead_kib: Option<u32>,
    pub(super) cache: Option<String>,
}

/// How the file system is made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mkfs {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    /// Its discards reach the device.
    pub(super) discards: bool,
}

/// What happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Findings {
    /// Why the program did not run.
    pub(super) failed: Option<String>,
    /// The program's exit code.
    pub(super) code: Option<u8>,
    /// Guest time when the program began, when it ended, and when its data was written back.
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) synced_ns: u64,
    /// What was charged while the program ran, where anything was to be.
    pub(super) charged_ns: Option<u64>,
    pub(super) kernel: String,
    /// Of each disk: before the program, after it, after its data was written back.
    pub(super) statistics: Vec<[BlockStatistics; 3]>,
    /// Major and minor number of each disk, as the tracer writes them.
    pub(super) numbers: Vec<String>,
    /// The scheduler of each disk.
    pub(super) schedulers: Vec<String>,
    /// What was read back of the first disk's settings, and of those of memory.
    pub(super) settings: BTreeMap<String, String>,
    /// Memory the guest had, in KiB.
    pub(super) memory_kib: u64,
    /// Events of the queue that did not fit.
    pub(super) queue_lost: u64,
}

/// `/sys/block/<disk>/stat`, as Linux's `block/stat.rst` describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct BlockStatistics(pub(crate) [u64; 17]);

impl BlockStatistics {
    /// Read the file's text.
    pub(crate) fn parse(text: &str) -> Option<BlockStatistics> {
        let mut fields = [0; 17];
        let mut words = text.split_whitespace();
        for field in &mut fields {
            *field = words.next()?.parse().ok()?;
        }
        Some(BlockStatistics(fields))
    }

    /// What came between `earlier` and this.
    pub(super) fn since(&self, earlier: &BlockStatistics) -> BlockStatistics {
        let mut fields = self.0;
        fields.iter_mut().zip(earlier.0).for_each(|(now, then)| *now = now.saturating_sub(then));
        BlockStatistics(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_statistics_are_read() {
        let text = " 101 3 4968 7 9 1 72 3 0 10 11 0 0 0 0 2 5\n";
        let stat = BlockStatistics::parse(text).unwrap();
        assert_eq!((stat.0[0], stat.0[1], stat.0[16]), (101, 3, 5));
        assert_eq!(stat.since(&stat), BlockStatistics::default());
        assert_eq!(BlockStatistics::parse("1 2 3"), None);
    }
}

//! The table `[travel]`: a program in a real Linux guest, in virtual time, instead of a workload.

use std::collections::BTreeMap;

use config::{Duration, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, Nanos};

use crate::amount::Amount;
use crate::axis_value::AxisValue;
use crate::host;
use crate::program::Program;

/// A program in a real Linux guest, in virtual time. Every key can be swept and set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Travel {
    /// What is measured: a shell's command line, run where the file system is mounted.
    pub command: String,
    /// How its output is read.
    #[serde(default)]
    pub program: Program,
    /// A shell's command line that makes the disk ready, before what is measured and not counted.
    /// It runs once for all points with the same disk, and what is measured begins with an empty
    /// page cache.
    #[serde(default)]
    pub setup: String,
    /// Variables for both command lines, by name: `$clients` is `arguments.clients`.
    #[serde(default)]
    pub arguments: BTreeMap<String, AxisValue>,
    /// The file system that is made on the device; without it the device is /dev/vda.
    pub file_system: Option<FileSystem>,
    /// Further options of its mkfs, separated by blanks.
    #[serde(default)]
    pub mkfs_options: String,
    /// Let mkfs discard what [[precondition]] wrote.
    #[serde(default)]
    pub mkfs_discard: bool,
    /// How it is mounted, separated by commas.
    #[serde(default)]
    pub mount_options: String,
    /// The host whose processor's time code is charged: the name of a profile, or its file. "none":
    /// code is free.
    #[serde(default = "Travel::host")]
    pub host: String,
    /// What the program itself computes between two of its system calls, on average, which is
    /// charged beside the host's code: its user time on the host by its number of calls. Default:
    /// nothing.
    pub between_calls: Option<Duration>,
    /// The I/O scheduler. Default: the kernel's.
    pub scheduler: Option<Scheduler>,
    /// An elevator of this policy between the guest and the device, instead of a scheduler.
    #[schemars(with = "Option<models::registry::ElevatorPolicy>")]
    pub elevator: Option<String>,
    /// Read-ahead of the page cache in KiB, set last of all. Default: the kernel's.
    pub read_ahead_kb: Option<u32>,
    /// The device's write cache. Default: as the device has it.
    pub write_cache: Option<WriteCache>,
    /// Write-back throttling: the latency that reads are to have beside it; "0s" is off. Default:
    /// the kernel's, which is 2 ms, of a disk that turns 75 ms, and off with the scheduler bfq.
    pub wbt: Option<Duration>,
    /// From here on a writer is made to wait: a share of the memory, or a size. Default: the
    /// kernel's, 20%.
    pub dirty: Option<Amount>,
    /// From here on data is written back in the background. Default: the kernel's, 10%.
    pub dirty_background: Option<Amount>,
    /// The guest's memory, and so its page cache.
    #[serde(default = "Travel::memory")]
    pub memory: Size,
    /// A program that is not done at this virtual time has failed.
    #[serde(default = "Travel::limit")]
    pub limit: Duration,
    /// A session that takes longer on this machine has failed.
    #[serde(default = "Travel::wall_limit")]
    pub wall_limit: Duration,
    /// A session that computes for so much of this machine's processor time, while its own time
    /// stands still, has failed.
    #[serde(default = "Travel::compute_limit")]
    pub compute_limit: Duration,
    /// A session whose data takes more of this machine's disk has failed.
    #[serde(default = "Travel::data_limit")]
    pub data_limit: Size,
    /// What goes wrong with the drive while the program runs, such as "error op=write at=2s".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Record the queue, for the block layer's times by percentile. Each of its events costs the
    /// guest 256 ns.
    #[serde(default)]
    pub record_queue: bool,
}

impl Travel {
    fn host() -> String {
        host::NONE.into()
    }
    fn memory() -> Size {
        Size(Bytes::from_mib(256))
    }
    fn limit() -> Duration {
        Duration(Nanos::from_secs(24 * 3600))
    }
    fn wall_limit() -> Duration {
        Duration(Nanos::from_secs(3600))
    }
    fn compute_limit() -> Duration {
        Duration(Nanos::from_secs(600))
    }
    fn data_limit() -> Size {
        Size(Bytes::from_gib(16))
    }
}

/// A file system that the guest's kernel knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// Without a journal.
    Ext2,
    /// As ext4's driver does it.
    Ext3,
    /// With extents and delayed allocation.
    Ext4,
    /// XFS.
    Xfs,
    /// Copy on write.
    Btrfs,
    /// Version 3.6.
    Reiserfs,
    /// IBM's.
    Jfs,
    /// For flash.
    F2fs,
}

/// A scheduler that the guest's kernel has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Requests go as they come.
    None,
    /// By sector, within deadlines.
    MqDeadline,
    /// By tokens, for a target latency.
    Kyber,
    /// Budgets for processes.
    Bfq,
}

/// What becomes of the device's volatile write cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteCache {
    /// The device has it, and the kernel flushes it.
    On,
    /// The device makes every write durable before it answers.
    Off,
    /// The device has it, and the kernel thinks that it has none: nothing is flushed.
    WriteThrough,
}

/// What a key that is one of a few names is called in a document.
pub fn name_of(value: &impl Serialize) -> String {
    let json = serde_json::to_value(value).ok();
    json.and_then(|json| json.as_str().map(String::from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_enough() {
        let travel: Travel = toml::from_str("command = 'sync'").unwrap();
        assert_eq!((travel.program.name(), travel.memory.0), ("command", Bytes::from_mib(256)));
        let text = "command = 'x'\nscheduler = 'mq-deadline'\nwrite_cache = 'write-through'\n\
                    file_system = 'f2fs'\ndirty = '5%'\nwbt = '0s'\nprogram = 'bonnie++'\n";
        let travel: Travel = toml::from_str(text).unwrap();
        assert_eq!(name_of(&travel.scheduler), "mq-deadline");
        assert_eq!(travel.dirty, Some(Amount::Percent(5.0)));
        let again = toml::from_str(&toml::to_string(&travel).unwrap()).unwrap();
        assert_eq!(travel, again);
    }
}

//! How a guest is set beyond what `blocklab travel` has options for.

use std::collections::BTreeMap;

use rustix::mount::MountFlags;
use serde::{Deserialize, Serialize};

/// What a study, or the boot lab, sets.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Mount this file system, which is there already.
    pub mount: Option<String>,
    /// Further options of mkfs.
    pub mkfs_options: Vec<String>,
    /// The device was written to before: mkfs discards nothing.
    pub keep_fill: bool,
    /// Options of the mount, separated by commas.
    pub mount_options: String,
    /// Let the kernel believe that the first disk has no write cache to flush.
    pub never_flush: bool,
    /// Write-back throttling of the first disk: the latency in microseconds; 0 is off.
    pub wbt_us: Option<u64>,
    /// Requests that the disks' driver may have given out at a time; `None`: what the devices take.
    pub queue_depth: Option<u32>,
    /// Values of files in /proc/sys/vm.
    pub memory: BTreeMap<String, u64>,
    /// Further words of the kernel's command line.
    pub kernel_words: Vec<String>,
    /// Variables of the program's environment.
    pub environment: BTreeMap<String, String>,
}

/// Options of a mount that the kernel takes as flags; the rest is the file system's.
const FLAGS: [(&str, MountFlags); 11] = [
    ("ro", MountFlags::RDONLY),
    ("sync", MountFlags::SYNCHRONOUS),
    ("dirsync", MountFlags::DIRSYNC),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    ("strictatime", MountFlags::STRICTATIME),
    ("lazytime", MountFlags::LAZYTIME),
    ("nosuid", MountFlags::NOSUID),
    ("nodev", MountFlags::NODEV),
    ("noexec", MountFlags::NOEXEC),
];

/// The flags in `options`, and what is left for the file system.
pub(super) fn mount_flags(options: &str) -> (MountFlags, String) {
    let mut flags = MountFlags::empty();
    let mut rest = Vec::new();
    for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        match FLAGS.iter().find(|(name, _)| *name == option) {
            Some((_, flag)) => flags |= *flag,
            // What mount(8) says of what is the default anyway.
            None if matches!(option, "defaults" | "rw" | "async" | "atime") => {}
            None => rest.push(option),
        }
    }
    (flags, rest.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounts_flags_are_told_from_the_file_systems_options() {
        let (flags, rest) = mount_flags("rw, noatime,data=journal,sync,commit=5");
        assert_eq!(flags, MountFlags::NOATIME | MountFlags::SYNCHRONOUS);
        assert_eq!(rest, "data=journal,commit=5");
        assert_eq!(mount_flags(""), (MountFlags::empty(), String::new()));
    }
}

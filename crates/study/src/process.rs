//! This process among those of all machines that may write into one folder.

use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::digest;

/// Where numbers of processes mean what they mean here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProcessSpace {
    /// The machine's name; two may have the same.
    pub(crate) host: String,
    /// Drawn by the kernel when the machine was started.
    boot: String,
    /// A container has numbers of its own.
    namespace: String,
}

impl ProcessSpace {
    /// That of this process.
    pub(crate) fn here() -> ProcessSpace {
        let read = |name: &str| {
            let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
            text.trim().to_string()
        };
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        ProcessSpace {
            host: read("hostname"),
            boot: read("random/boot_id"),
            namespace: namespace.to_string_lossy().into_owned(),
        }
    }

    /// As a file of three lines.
    pub(crate) fn to_text(&self) -> String {
        format!("{}\n{}\n{}\n", self.host, self.boot, self.namespace)
    }

    /// What [`ProcessSpace::to_text`] gave.
    pub(crate) fn from_text(text: &str) -> Option<ProcessSpace> {
        let mut lines = text.lines().map(String::from);
        let (host, boot, namespace) = (lines.next()?, lines.next()?, lines.next()?);
        Some(ProcessSpace { host, boot, namespace })
    }
}

/// A part of a file's name that no other file has, on whatever machine it is made.
pub(crate) fn unique_name() -> String {
    static OF_PROCESS: LazyLock<String> = LazyLock::new(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let space = ProcessSpace::here().to_text();
        digest::of(&format!("{space}{}\n{now}", std::process::id()))[..16].to_string()
    });
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", *OF_PROCESS, COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_is_read_as_it_was_written() {
        let here = ProcessSpace::here();
        assert_eq!(ProcessSpace::from_text(&here.to_text()), Some(here));
        assert_eq!(ProcessSpace::from_text("host\nboot\n"), None);
        assert_ne!(unique_name(), unique_name());
    }
}

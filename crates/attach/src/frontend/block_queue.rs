//! The block layer's settings of a device of this machine.

use std::io;
use std::path::{Path, PathBuf};

use study::Failure;

use crate::client_side::Account;
use crate::travel::plan::BlockStatistics;

/// How the block layer treats a device of this machine.
#[derive(Clone, Debug)]
pub struct BlockDeviceOptions {
    /// The I/O scheduler; `none` is what Linux gives a loop device, and most systems a device with
    /// one queue of its own.
    pub scheduler: String,
    /// Read-ahead of the page cache in KiB.
    pub read_ahead_kib: u32,
    /// Measure the path's own round trip before clients may come.
    pub calibrate: bool,
}

/// What is set, and what stood there before.
#[derive(Debug)]
pub(crate) struct BlockQueue {
    folder: PathBuf,
    settings: Vec<Setting>,
}

/// A file of the block layer's queue, and what stood in it.
#[derive(Debug)]
struct Setting {
    path: PathBuf,
    before: String,
}

impl Setting {
    fn refused(&self, file: &str, value: &str, why: &io::Error) -> Failure {
        let path = self.path.display();
        let failure = Failure::machine(format!("cannot set {path} to `{value}`: {why}"));
        if file != "scheduler" {
            return failure;
        }
        let known = std::fs::read_to_string(&self.path).unwrap_or_default();
        let known = known.trim().replace(['[', ']'], "");
        failure.expected(format!("one of {known}")).help("choose another --scheduler")
    }
}

impl BlockQueue {
    /// The settings of the block device at `path`.
    pub(crate) fn of(path: &Path) -> BlockQueue {
        let name = path.file_name().unwrap_or_default();
        BlockQueue { folder: Path::new("/sys/block").join(name), settings: Vec::new() }
    }

    /// Where the block layer shows something about the device.
    pub(crate) fn sysfs(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The kernel's account of the device's reads and writes.
    pub(crate) fn account(&self) -> Option<Account> {
        let text = std::fs::read_to_string(self.sysfs("stat")).ok()?;
        let BlockStatistics([reads, _, _, reads_ms, writes, _, _, writes_ms, ..]) =
            BlockStatistics::parse(&text)?;
        Some(Account { requests: reads + writes, total_ms: reads_ms + writes_ms })
    }

    /// Set files of the queue until [`BlockQueue::undo`].
    pub(crate) fn set_all(&mut self, settings: &[(&'static str, String)]) -> Result<(), Failure> {
        // All are read before any is set: the kernel works one out from the other.
        for &(file, _) in settings {
            let path = self.sysfs(&format!("queue/{file}"));
            let before = std::fs::read_to_string(&path).map_err(|why| {
                Failure::machine(format!("cannot read {}: {why}", path.display()))
            })?;
            self.settings.push(Setting { path, before: chosen(before.trim()).to_string() });
        }
        for (setting, (file, value)) in self.settings.iter().zip(settings) {
            std::fs::write(&setting.path, value)
                .map_err(|why| setting.refused(file, value, &why))?;
        }
        Ok(())
    }

    /// Set everything back.
    pub(crate) fn undo(&mut self) {
        for setting in self.settings.drain(..) {
            // What cannot be undone is not worse than what it was.
            let _ = std::fs::write(&setting.path, &setting.before);
        }
    }
}

/// Of `none [mq-deadline] kyber` the one in brackets; otherwise all of it.
fn chosen(text: &str) -> &str {
    match (text.find('['), text.find(']')) {
        (Some(from), Some(to)) if from < to => &text[from + 1..to],
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_of_a_setting_is_found() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("128"), "128");
    }
}

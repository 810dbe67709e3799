//! The hetero-mirror over real files and block devices: made, started, served.
//!
//! The protocol is [`mirror::core`]; here are the bytes, who moves them, and the one
//! event loop in which everything else happens.

mod change;
mod claim;
mod commands;
mod create;
mod device;
mod engine;
mod history;
mod live;
mod media;
mod mutant;
mod notify;
mod open;
mod operate;
mod orders;
mod prepare;
mod prometheus;
mod request;
mod ring;
mod room;
mod serve;
#[cfg(test)]
#[path = "../../../../tests/skip.rs"]
mod skip;
mod starting;
mod status;
mod target;
#[cfg(test)]
mod tests;
mod threads;
#[cfg(test)]
mod torture;
mod troubles;
mod watch;
mod work;
mod worker;

use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use mirror::{DEVICES, FAST, SLOW, Slot, WITNESS};
use study::Failure;

use crate::loops;

pub use change::{destroy, replace, set_mode};
pub use create::{CreateOptions, Created, EXTENT_BYTES, create};
pub use history::{Change, Freeze};
pub use live::{DeviceState, Lateness, Live, Range, Scrub, eta};
pub use open::Start;
pub use prometheus::prometheus;
pub use request::{Answer, Request, ask, live, mode};
pub use serve::{Options, Served, serve};
pub use status::{DeviceStatus, Offline, status};

/// The devices' names by slot, as users give them.
pub const NAMES: [&str; DEVICES] = ["fast", "slow", "witness"];

/// The devices of a mirror.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paths {
    /// The leg that reads prefer.
    pub fast: PathBuf,
    /// The other leg.
    pub slow: PathBuf,
    /// A log in a third failure domain.
    pub witness: Option<PathBuf>,
}

impl Paths {
    fn of(&self, slot: Slot) -> Option<&Path> {
        match slot {
            FAST => Some(&self.fast),
            SLOW => Some(&self.slow),
            _ => self.witness.as_deref(),
        }
    }

    fn each(&self) -> impl Iterator<Item = (Slot, &Path)> {
        [FAST, SLOW, WITNESS].into_iter().filter_map(|slot| Some((slot, self.of(slot)?)))
    }

    /// Nothing is named twice, by whichever names.
    fn distinct(&self) -> Result<(), Failure> {
        let mut seen: Vec<(Slot, Identified)> = Vec::new();
        for (slot, path) in self.each() {
            let real = Identified::of(path);
            if let Some((other, _)) = seen.iter().find(|(_, known)| *known == real) {
                let (a, b) = (NAMES[*other], NAMES[slot]);
                return Err(Failure::input(format!("--{a} and --{b} are both {}", path.display()))
                    .expected("devices that fail independently of each other"));
            }
            seen.push((slot, real));
        }
        Ok(())
    }
}

/// What a path leads to, through loop devices.
#[derive(PartialEq, Eq)]
enum Identified {
    File { device: u64, inode: u64 },
    BlockDevice(u64),
    Nothing(PathBuf),
}

impl Identified {
    fn of(path: &Path) -> Identified {
        match std::fs::metadata(path) {
            Ok(found) => match loops::below(&found) {
                Some((file, _)) => Identified::of(&file),
                None if found.file_type().is_block_device() => {
                    Identified::BlockDevice(found.rdev())
                }
                None => Identified::File { device: found.dev(), inode: found.ino() },
            },
            Err(_) => Identified::Nothing(path.to_path_buf()),
        }
    }
}

/// Randomness for ids.
fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|why| Failure::machine(format!("cannot read /dev/urandom: {why}")))?;
    Ok(u128::from_le_bytes(bytes))
}

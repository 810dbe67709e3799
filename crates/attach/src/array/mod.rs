//! The hetero-mirror over real files and block devices: made, started, served.
//!
//! The protocol is [`mirror::core`]; here are the bytes, the threads that move them, and the one
//! event loop in which everything else happens.

mod create;
mod device;
mod engine;
mod media;
mod open;
mod serve;
mod status;
#[cfg(test)]
mod tests;
mod worker;

use std::io::Read;
use std::path::{Path, PathBuf};

use mirror::{DEVICES, FAST, SLOW, Slot, WITNESS};
use study::Failure;

pub use create::{Created, Plan, create};
pub use open::Start;
pub use serve::{Options, serve};
pub use status::{DeviceStatus, Live, Offline, ask, status};

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

    /// Nothing is named twice.
    fn distinct(&self) -> Result<(), Failure> {
        let mut seen: Vec<(Slot, PathBuf)> = Vec::new();
        for (slot, path) in self.each() {
            let real = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
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

/// Randomness for ids.
fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|why| Failure::machine(format!("cannot read /dev/urandom: {why}")))?;
    Ok(u128::from_le_bytes(bytes))
}

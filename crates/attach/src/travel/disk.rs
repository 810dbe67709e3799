//! A disk that one session prepares and others begin with.

use sim::{Bytes, Device, Nanos};
use study::{BuiltPart, Failure};

use crate::session::{DeviceOptions, Start};
use crate::store::Store;

use super::{Companion, Options, Report, journey};

/// A device with its data, at rest.
pub struct Disk {
    pub(crate) device: Box<dyn Device>,
    pub(crate) store: Store,
    pub(crate) at: Nanos,
    pub(crate) next_id: u64,
}

/// A session whose program's output is taken, not shown.
pub struct Heard {
    /// What was measured.
    pub report: Report,
    /// The program's exit code.
    pub code: u8,
    /// What it wrote, and what it said on stderr.
    pub said: [String; 2],
}

impl Disk {
    /// The disk as a session leaves it: of `part`, its only one.
    ///
    /// # Errors
    /// When the session fails, or its program does.
    pub fn prepared(part: BuiltPart, options: Options) -> Result<Disk, Failure> {
        let store = Store::temporary(part.device.limits().capacity, options.data_limit)?;
        let start = Start { store: store.share()?, at: Nanos(0), next_id: 0 };
        let companion = Companion { keeps_device: true, ..Companion::default() };
        let left = journey(DeviceOptions::only(part, start), options, &companion)?;
        if left.outcome.code != 0 {
            let [_, complaints] = &left.said;
            let mut last: Vec<&str> = complaints.trim().lines().rev().take(3).collect();
            last.reverse();
            let said = if last.is_empty() { "the program said nothing" } else { &last.join("; ") };
            return Err(Failure::input(format!("the disk could not be prepared: {said}")));
        }
        let (device, at, next_id) =
            left.device.ok_or_else(|| Failure::bug("a device that was to be kept was not"))?;
        Ok(Disk { device, store, at, next_id })
    }

    /// Begin a session with it, as the only disk; `part` says what it is.
    ///
    /// # Errors
    /// When the session fails.
    pub fn travel(self, part: BuiltPart, options: Options) -> Result<Heard, Failure> {
        let start = Start { store: self.store, at: self.at, next_id: self.next_id };
        let part = BuiltPart { device: self.device, ..part };
        let devices = DeviceOptions::only(part, start);
        let left = journey(devices, options, &Companion::default())?;
        Ok(Heard { report: left.outcome.report, code: left.outcome.code, said: left.said })
    }

    pub(crate) fn fork(&self, limit: Bytes) -> Result<(Box<dyn Device>, Start), Failure> {
        let start = Start { store: self.store.fork(limit)?, at: self.at, next_id: self.next_id };
        Ok((self.device.boxed_clone(), start))
    }
}

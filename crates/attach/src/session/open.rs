//! Devices, with their data and the state of an earlier session.

use std::path::PathBuf;

use sim::{Bytes, Counters, Device, Lba, Request};
use study::Failure;

use crate::clock::Timeline;
use crate::engine::Engine;
use crate::identity::Identity;
use crate::lab::Export;
use crate::state;
use crate::store::Store;

use super::DeviceOptions;

/// What a saved state and the report say about a device.
pub(crate) struct Origin {
    pub(crate) part: study::Part,
    pub(crate) model: String,
    pub(crate) digest: String,
    /// Where the state is kept; `None` when the data is in memory.
    state: Option<PathBuf>,
    /// What the device had counted before the session.
    before: Counters,
}

impl Origin {
    /// Save the device's state beside its data. Data in memory is gone with the session, and a
    /// state without it would lie.
    pub(crate) fn save(&self, engine: &mut Engine) -> Result<(), Failure> {
        let Some(path) = &self.state else { return Ok(()) };
        let synced = engine.data().store().sync();
        synced.map_err(|why| Failure::machine(format!("cannot write the device's data: {why}")))?;
        let (device, moment) = engine.at_rest();
        let moment = (moment, engine.next_id());
        state::save(path, &*device, &self.part.name, &self.digest, moment)
    }

    /// What the device has counted in this session.
    pub(crate) fn counted(&self, engine: &Engine) -> Counters {
        let mut counters = Counters::default();
        engine.device().counters(&mut counters);
        counters.since(&self.before)
    }

    /// True when there is a place for the state.
    pub(crate) fn is_kept(&self) -> bool {
        self.state.is_some()
    }
}

/// What holds for every device of a session.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) dilation: u64,
    pub(crate) power_cuts: bool,
    pub(crate) read_only: bool,
    pub(crate) fill: bool,
}

/// Open every device.
pub(crate) fn all(
    devices: Vec<DeviceOptions>,
    manner: Manner,
) -> Result<(Vec<Export>, Vec<Origin>), Failure> {
    let (mut exports, mut origins) = (Vec::new(), Vec::new());
    for device in devices {
        if exports.iter().any(|export: &Export| export.name == device.name) {
            return Err(Failure::input(format!("two devices are called `{}`", device.name))
                .help("name them: a=PART b=PART"));
        }
        let (export, origin) = open(device, manner)?;
        exports.push(export);
        origins.push(origin);
    }
    match exports.is_empty() {
        true => Err(Failure::input("there is no device to attach")),
        false => Ok((exports, origins)),
    }
}

fn open(device: DeviceOptions, manner: Manner) -> Result<(Export, Origin), Failure> {
    let DeviceOptions { name, mut part, data } = device;
    let capacity = part.device.limits().capacity;
    let store = match &data {
        Some(path) => Store::file(path, capacity)?,
        None => Store::memory(capacity)?,
    };
    let state = data.as_deref().map(state::path_beside);
    let restored = match &state {
        Some(path) => state::restore(path, &mut part)?,
        None => None,
    };
    if manner.fill && restored.is_none() {
        fill(&mut *part.device, capacity);
    }
    let mut before = Counters::default();
    part.device.counters(&mut before);
    let identity = Identity::new(&name, &part);
    let origin = Origin { part: part.part, model: part.model, digest: part.digest, state, before };
    let (start, next_id) = restored.unwrap_or_default();
    let line = Timeline { start, dilation: manner.dilation };
    let mut engine = Engine::new(part.device, store, line, next_id);
    if manner.power_cuts {
        engine.data().keep_volatile_log();
    }
    Ok((Export { name, identity, read_only: manner.read_only, engine }, origin))
}

/// Write every sector once, in no time: as far as the device can tell, all of it is in use.
fn fill(device: &mut dyn Device, capacity: Bytes) {
    /// 1 TiB: a device that can fill itself in bulk sees the whole span at once.
    const SECTORS_MAX: u64 = 1 << 31;
    let end = capacity.sectors();
    for lba in (0..end).step_by(SECTORS_MAX as usize) {
        let sectors = SECTORS_MAX.min(end - lba);
        device.apply(&Request::write(Lba(lba), sectors as u32));
    }
}

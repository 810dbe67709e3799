//! Devices, with their data and the state of an earlier session.

use std::path::PathBuf;

use study::Failure;

use crate::clock::Timeline;
use crate::engine::Engine;
use crate::lab::Export;
use crate::state;
use crate::store::Store;

use super::DeviceOptions;

/// What a saved state and the report say about a device.
pub(super) struct Identity {
    pub(super) part: study::Part,
    pub(super) model: String,
    pub(super) digest: String,
    /// Where the state is kept; `None` when the data is in memory.
    state: Option<PathBuf>,
}

impl Identity {
    /// Save the device's state beside its data. Data in memory is gone with the session, and a
    /// state without it would lie.
    pub(super) fn save(&self, engine: &mut Engine) -> Result<(), Failure> {
        let Some(path) = &self.state else { return Ok(()) };
        let synced = engine.data().store().sync();
        synced.map_err(|why| Failure::machine(format!("cannot write the device's data: {why}")))?;
        let (device, moment) = engine.at_rest();
        let moment = (moment, engine.next_id());
        state::save(path, &*device, &self.part.name, &self.digest, moment)
    }

    /// True when there is a place for the state.
    pub(super) fn is_kept(&self) -> bool {
        self.state.is_some()
    }
}

/// Open every device.
pub(super) fn all(
    devices: Vec<DeviceOptions>,
    dilation: u64,
    power_cuts: bool,
    read_only: bool,
) -> Result<(Vec<Export>, Vec<Identity>), Failure> {
    let (mut exports, mut identities) = (Vec::new(), Vec::new());
    for device in devices {
        if exports.iter().any(|export: &Export| export.name == device.name) {
            return Err(Failure::input(format!("two devices are called `{}`", device.name))
                .help("name them: a=PART b=PART"));
        }
        let (export, identity) = open(device, dilation, power_cuts, read_only)?;
        exports.push(export);
        identities.push(identity);
    }
    match exports.is_empty() {
        true => Err(Failure::input("there is no device to attach")),
        false => Ok((exports, identities)),
    }
}

fn open(
    device: DeviceOptions,
    dilation: u64,
    power_cuts: bool,
    read_only: bool,
) -> Result<(Export, Identity), Failure> {
    let DeviceOptions { name, mut part, data } = device;
    let capacity = part.device.limits().capacity;
    let store = match &data {
        Some(path) => Store::file(path, capacity)?,
        None => Store::memory(capacity)?,
    };
    let state = data.as_deref().map(state::path_beside);
    let (start, next_id) = match &state {
        Some(path) => state::restore(path, &mut part)?,
        None => Default::default(),
    };
    let description = match part.part.title.as_str() {
        "" => part.part.name.clone(),
        title => title.to_string(),
    };
    let identity = Identity { part: part.part, model: part.model, digest: part.digest, state };
    let mut engine = Engine::new(part.device, store, Timeline { start, dilation }, next_id);
    if power_cuts {
        engine.data().keep_volatile_log();
    }
    Ok((Export { name, description, read_only, engine }, identity))
}

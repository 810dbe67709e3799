//! Devices, with their data and the state of an earlier session.

use std::fs::File;
use std::path::{Path, PathBuf};

use sim::{Bytes, Counters, Device, Lba, Request};
use study::Failure;

use crate::clock::Timeline;
use crate::engine::Engine;
use crate::exclusive;
use crate::identity::Identity;
use crate::record::Recorder;
use crate::shared_state::Export;
use crate::state::{self, Mark, Moment};
use crate::store::Store;

use super::{DeviceOptions, Start};

/// What a saved state and the report say about a device.
pub(crate) struct Origin {
    pub(crate) part: study::Part,
    pub(crate) model: String,
    /// The policy, where the device is an elevator.
    pub(crate) elevator: Option<String>,
    pub(crate) digest: String,
    /// Where data and state are kept; `None` when the data goes with the session.
    kept: Option<Kept>,
    /// What the device had counted before the session.
    before: Counters,
}

/// Files that last from one session to the next.
struct Kept {
    data: PathBuf,
    state: PathBuf,
    read_only: bool,
    /// Set while clients may change the data.
    mark: Option<Mark>,
    /// Loop devices that are made of the data, which nobody may mount meanwhile.
    _held: Vec<File>,
}

impl Origin {
    /// From now on the data may change.
    fn mark(&mut self) -> Result<(), Failure> {
        if let Some(kept) = self.kept.as_mut().filter(|kept| !kept.read_only) {
            kept.mark = Some(Mark::set(&kept.data)?);
        }
        Ok(())
    }

    /// Data and state go together.
    fn unmark(&mut self) {
        self.kept.as_mut().and_then(|kept| kept.mark.take()).into_iter().for_each(Mark::clear);
    }

    /// Save the device's state beside its data. Data without a file of its own is gone with the
    /// session, and a state without it would lie.
    pub(crate) fn save(&self, engine: &mut Engine) -> Result<(), Failure> {
        let Some(Kept { state, .. }) = &self.kept else { return Ok(()) };
        let synced = engine.data().store().sync();
        synced.map_err(|why| Failure::machine(format!("cannot write the device's data: {why}")))?;
        let data_modified_ns = engine.data().store().modified_ns();
        let (device, at) = engine.at_rest();
        let moment = Moment { at, next_id: engine.next_id(), data_modified_ns };
        state::save(state, &*device, &self.part.name, &self.digest, moment)
    }

    /// What the device has counted in this session.
    pub(crate) fn counted(&self, engine: &Engine) -> Counters {
        let mut counters = Counters::default();
        engine.device().counters(&mut counters);
        counters.since(&self.before)
    }

    /// True when there is a place for the state.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }
}

/// From now on the data may change: a session that does not come to [`close`] has left the states
/// behind its data.
pub(crate) fn mark(origins: &mut [Origin]) -> Result<(), Failure> {
    let marked = origins.iter_mut().try_for_each(Origin::mark);
    if marked.is_err() {
        unmark(origins);
    }
    marked
}

/// The data did not change.
pub(crate) fn unmark(origins: &mut [Origin]) {
    origins.iter_mut().for_each(Origin::unmark);
}

/// Save every state and close every trace. Whatever fails, the rest is done.
pub(crate) fn close(exports: &mut [Export], origins: &mut [Origin]) -> Result<(), Failure> {
    let mut failed = None;
    for (export, origin) in exports.iter_mut().zip(origins) {
        let saved = origin.save(&mut export.engine);
        if saved.is_ok() {
            origin.unmark();
        }
        failed = failed.or(saved.err()).or(export.engine.finish_recording().err());
    }
    failed.map_or(Ok(()), Err)
}

/// Refuse traces, each given with its option, that would take the place of a file somebody may
/// still need, of a device's data or of each other. To be asked before anything is made.
pub(crate) fn check_places(
    devices: &[DeviceOptions],
    traces: &[(&str, &Option<PathBuf>)],
) -> Result<(), Failure> {
    let traces = traces.iter().filter_map(|(option, path)| Some((*option, path.as_deref()?)));
    let data = devices.iter().filter_map(|device| Some(("--data", device.data.as_deref()?)));
    let all: Vec<(&str, &Path)> = data.chain(traces.clone()).collect();
    study::check_distinct(&all)?;
    traces.into_iter().try_for_each(|(_, path)| study::check_overwrite(path, || false))
}

/// What holds for every device of a session.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) dilation: u64,
    pub(crate) power_cuts: bool,
    pub(crate) read_only: bool,
    pub(crate) fill: bool,
    /// Data that is in no file of the user's is in one without a name, which takes at most so much;
    /// `None`: in memory.
    pub(crate) data_limit: Option<Bytes>,
}

/// Open every device; what the user must know goes to `notes`.
pub(crate) fn all(
    devices: Vec<DeviceOptions>,
    manner: Manner,
    notes: &mut Vec<String>,
) -> Result<(Vec<Export>, Vec<Origin>), Failure> {
    let (mut exports, mut origins) = (Vec::new(), Vec::new());
    for device in devices {
        if exports.iter().any(|export: &Export| export.name == device.name) {
            return Err(Failure::input(format!("two devices are called `{}`", device.name))
                .help("name them: a=PART b=PART"));
        }
        let (export, origin) = open(device, manner, notes)?;
        exports.push(export);
        origins.push(origin);
    }
    if origins.iter().any(Origin::is_kept) {
        let lost = exports.iter().zip(&origins).filter(|(_, origin)| !origin.is_kept());
        notes.extend(lost.map(|(export, _)| {
            let name = if export.name.is_empty() { "a device" } else { &export.name };
            format!(
                "{name} has no file: its data goes with the session (--data once for each part)"
            )
        }));
    }
    if exports.is_empty() {
        Err(Failure::input("there is no device to attach"))
    } else {
        Ok((exports, origins))
    }
}

/// Write every request of the first device to a trace, if there is one.
pub(crate) fn record(exports: &mut [Export], trace: Option<&Path>) -> Result<(), Failure> {
    if let (Some(path), Some(first)) = (trace, exports.first_mut()) {
        first.engine.record(Recorder::new(path)?);
    }
    Ok(())
}

fn open(
    device: DeviceOptions,
    manner: Manner,
    notes: &mut Vec<String>,
) -> Result<(Export, Origin), Failure> {
    let DeviceOptions { name, mut part, data, start } = device;
    let capacity = part.device.limits().capacity;
    let (mut kept, mut restored) = (None, None);
    // Before anything is made: what is refused leaves nothing.
    if let Some(data) = &data {
        state::refuse_foreign(&state::path_beside(data))?;
        Mark::refuse_foreign(data)?;
        state::refuse_orphan(data)?;
    }
    let store = match (&data, start) {
        (Some(path), _) => Store::file(path, capacity)?,
        (None, None) => match manner.data_limit {
            Some(limit) => Store::temporary(capacity, limit)?,
            None => Store::memory(capacity)?,
        },
        (None, Some(Start { store, at, next_id })) => {
            restored = Some(Moment { at, next_id, data_modified_ns: None });
            store
        }
    };
    if let Some(data) = data {
        let held = if manner.read_only { Vec::new() } else { exclusive::hold_above(&data, None)? };
        let state = state::path_beside(&data);
        Mark::refuse_if_set(&data, &state)?;
        restored = state::restore(&state, &mut part)?;
        if manner.fill && restored.is_some() {
            let shown = state.display();
            return Err(Failure::input(format!("--fill: {shown} says what is on the drive"))
                .expected("a drive without an earlier session")
                .help("leave --fill out to go on with that one, or name a new file: --data FILE"));
        }
        notes.extend(doubt(&data, &state, &store, restored, manner.fill));
        kept = Some(Kept { data, state, read_only: manner.read_only, mark: None, _held: held });
    }
    if manner.fill && restored.is_none() {
        fill(&mut *part.device, capacity);
    }
    let mut before = Counters::default();
    part.device.counters(&mut before);
    let identity = Identity::new(&name, &part);
    let origin = Origin {
        part: part.part,
        model: part.model,
        elevator: part.elevator,
        digest: part.digest,
        kept,
        before,
    };
    let Moment { at, next_id, .. } = restored.unwrap_or_default();
    let line = Timeline { start: at, dilation: manner.dilation };
    let mut engine = Engine::new(part.device, store, line, next_id);
    if manner.power_cuts {
        engine.data().keep_volatile_log();
    }
    Ok((Export { name, identity, read_only: manner.read_only, engine }, origin))
}

/// What makes it doubtful that the device knows of all that is in its data.
fn doubt(
    data: &Path,
    state: &Path,
    store: &Store,
    restored: Option<Moment>,
    fill: bool,
) -> Option<String> {
    let (data, state) = (data.display(), state.display());
    match restored.map(|moment| moment.data_modified_ns) {
        Some(saved) if saved == store.modified_ns() => None,
        Some(_) => Some(format!(
            "{data} was changed or copied after {state} was saved: of what was written in between \
             the device knows nothing"
        )),
        None if fill || store.is_blank() => None,
        None => Some(format!(
            "{data} holds data but there is no {state}: to the device nothing was ever written, so \
             an SSD reads it in no time; begin with a full drive: --fill"
        )),
    }
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

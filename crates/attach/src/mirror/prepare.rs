//! A new medium for a slot of a mirror: looked at, then made to say nothing.

use std::path::Path;

use mirror::Slot;
use mirror::format::layout::SUPERBLOCKS;
use mirror::format::{Geometry, Layout};
use study::Failure;

use super::device::{Access, Device};
use super::media::{self, layout_of};
use super::operate::too_small;
use super::{NAMES, create};
use crate::beside::Beside;
use crate::control_socket::ClientId;
use crate::poll::Poll;

/// A device that is being looked at, and wiped if it is a new medium, beside the event loop: that
/// may take a while.
pub(super) struct Preparing {
    client: ClientId,
    slot: Slot,
    helper: Beside<Device>,
}

impl Preparing {
    /// Begin `work`, the end of which is `event`.
    pub(super) fn begin(
        (client, slot): (ClientId, Slot),
        event: (&Poll, u64),
        work: impl FnOnce() -> Result<Device, Failure> + Send + 'static,
    ) -> Result<Preparing, Failure> {
        Ok(Preparing { client, slot, helper: Beside::begin(event, "prepare", work)? })
    }

    /// It is done: who asked for it, and what came of it.
    pub(super) fn end(self, poll: &Poll) -> (ClientId, Slot, Result<Device, Failure>) {
        (self.client, self.slot, self.helper.end(poll, "a helper thread"))
    }
}

/// A device that another has taken the place of, and who is to be told.
pub(super) struct Replaced {
    pub(super) client: ClientId,
    pub(super) slot: Slot,
    pub(super) text: String,
}

/// What a new medium must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) array: u128,
    pub(super) slot: Slot,
    pub(super) geometry: Geometry,
    /// The identity of the medium that is replaced, if it is known.
    pub(super) old: Option<u128>,
}

/// Open the device at `path`, and make sure that it may be overwritten and is large enough.
pub(super) fn look(path: &Path, wanted: &Wanted, overwrite: bool) -> Result<Device, Failure> {
    let device = Device::open(path, Access::Own)?;
    let shown = path.display();
    let layout = layout_of(wanted.slot, &wanted.geometry);
    if device.pages() < layout.pages {
        return Err(too_small(&device, layout.pages));
    }
    if let Ok(found) = media::read_superblock(&device, None)
        && found.array == wanted.array
    {
        let name = NAMES[usize::from(found.device)];
        if usize::from(found.device) != wanted.slot {
            return Err(Failure::input(format!("{shown} is the {name} of this mirror"))
                .expected("another device"));
        }
        if Some(found.identity) == wanted.old {
            return Err(Failure::input(format!("{shown} is the device that is to be replaced"))
                .help(format!("to copy only what it lacks: blocklab mirror resync {name}")));
        }
    }
    if let (false, Some(holds)) = (overwrite, create::holds(&device)?) {
        return Err(Failure::input(format!("{shown} holds {holds}"))
            .expected("an empty device: zeros in its first and last MiB")
            .help(format!("to lose what it holds: --overwrite {shown}")));
    }
    Ok(device)
}

/// Forget every page that says something: superblocks first, then log, activity, bitmap and
/// table. An old one of this very mirror would be believed.
pub(super) fn wipe(device: &Device, layout: &Layout) -> std::io::Result<()> {
    create::wipe_superblocks(device, layout)?;
    let half = SUPERBLOCKS / 2;
    let end = if layout.blocks > 0 { layout.data } else { layout.pages - half };
    device.clear(half, end - half)?;
    device.sync()
}

/// [`look`], then [`wipe`].
pub(super) fn prepare(path: &Path, wanted: &Wanted, overwrite: bool) -> Result<Device, Failure> {
    let device = look(path, wanted, overwrite)?;
    let layout = layout_of(wanted.slot, &wanted.geometry);
    create::reserve(&device, &layout)?;
    let wiped = wipe(&device, &layout);
    wiped.map_err(|why| create::failed(&device, &why))?;
    Ok(device)
}

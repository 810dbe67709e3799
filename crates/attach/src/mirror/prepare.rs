//! A new medium for a slot of a mirror: looked at, then made to say nothing.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;

use mirror::Slot;
use mirror::format::layout::SUPERBLOCKS;
use mirror::format::{Geometry, Layout};
use study::Failure;

use super::device::{Access, Device};
use super::media::{self, layout_of};
use super::operate::too_small;
use super::{NAMES, create};
use crate::control_socket::ClientId;
use crate::poll::{Interest, Poll};

/// A device that is being looked at, and wiped if it is a new medium, beside the event loop: that
/// may take a while.
pub(super) struct Preparing {
    client: ClientId,
    slot: Slot,
    /// Readable when it is done.
    closed: UnixStream,
    helper: JoinHandle<Result<Device, Failure>>,
}

impl Preparing {
    /// Begin `work`, the end of which is the event `token`.
    pub(super) fn begin(
        (client, slot): (ClientId, Slot),
        (poll, token): (&Poll, u64),
        work: impl FnOnce() -> Result<Device, Failure> + Send + 'static,
    ) -> Result<Preparing, Failure> {
        let impossible = |why: std::io::Error| Failure::machine(format!("no helper: {why}"));
        let (held, closed) = UnixStream::pair().map_err(impossible)?;
        poll.add(&closed, token, Interest::READ).map_err(impossible)?;
        let helper = std::thread::Builder::new().name("prepare".into()).spawn(move || {
            // Dropped at the end, even of a panic: its closing is the event.
            let _held = held;
            work()
        });
        Ok(Preparing { client, slot, closed, helper: helper.map_err(impossible)? })
    }

    /// It is done: who asked for it, and what came of it.
    pub(super) fn end(self, poll: &Poll) -> (ClientId, Slot, Result<Device, Failure>) {
        poll.remove(&self.closed);
        let panicked = |_| Err(Failure::bug("a helper thread panicked"));
        (self.client, self.slot, self.helper.join().unwrap_or_else(panicked))
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

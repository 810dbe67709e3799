//! Changes to a mirror that is not served.

use std::path::Path;

use mirror::format::superblock::{Generations, Membership};
use mirror::format::{Layout, Superblock};
use mirror::policy::assemble::Role;
use mirror::{DEVICES, FAST, LEGS, Mode, Slot, other};
use study::Failure;

use super::device::{Access, Device};
use super::media::{Asked, layout_of};
use super::open::{Assembled, Start, assembled, look};
use super::operate::no_witness;
use super::prepare::{self, Wanted};
use super::{Identified, NAMES, Paths, create, random, request};

/// Hexadecimal digits of a mirror's id that name it well enough.
const ID_DIGITS: usize = 8;

/// Write a superblock where its update count says.
fn write(device: &Device, superblock: &Superblock) -> Result<(), Failure> {
    let layout = layout_of(superblock.device.into(), &superblock.geometry);
    for copy in Layout::copies_of(superblock.update) {
        let page = layout.superblock(copy);
        let bytes = superblock.encode(page);
        device.write(page, &bytes[..], true).map_err(|why| create::failed(device, &why))?;
    }
    Ok(())
}

/// Let a mirror run in another mode from its next start on. The mode that it had.
///
/// # Errors
/// When it must not start, or was not stopped in order.
pub fn set_mode(start: &Start, mode: Mode) -> Result<Mode, Failure> {
    let Assembled { slots, superblocks, assembly, .. } = assembled(start, &Asked::default())?;
    if !assembly.clean {
        return Err(Failure::input("the mirror was not stopped in order")
            .expected("nothing that a start has to recover")
            .help("serve it, and change the mode while it is served: --control PATH"));
    }
    let away = Role::Current != assembly.role[FAST];
    if away && assembly.newest.members[FAST] == Membership::Member {
        let text = "the fast leg is not there, and with both legs its mode is believed";
        return Err(Failure::input(text)
            .expected("the fast leg, or a mirror that has left it out")
            .help(
                "name it without --without. If it is gone: serve --without fast, and change the \
                 mode while it is served: --control PATH",
            ));
    }
    // The fast leg first: with both it is the one that is believed.
    for slot in 0..DEVICES {
        let (Some(device), Some(before)) = (&slots[slot], &superblocks[slot]) else { continue };
        if assembly.role[slot] == Role::Current && before.mode != mode {
            write(device, &Superblock { mode, update: before.update + 1, ..before.clone() })?;
        }
    }
    Ok(assembly.newest.mode)
}

/// Let a new medium take the place of the device `name`: the next start with it copies everything
/// to it. The mirror's devices are those of `start`; the one that is replaced may be missing.
///
/// # Errors
/// When the mirror could not start without the device, or the new medium does not fit.
pub fn replace(start: &Start, name: &str, with: &Path, overwrite: bool) -> Result<(), Failure> {
    let slot = request::slot(name)?;
    let mut there = start.paths.each().filter(|&(slot, _)| !start.without[slot]);
    let known = there.find(|(_, path)| Identified::of(path) == Identified::of(with));
    if let Some((known, _)) = known {
        let (shown, known) = (with.display(), NAMES[known]);
        return Err(Failure::input(format!("{shown} is the mirror's {known} already"))
            .expected("another device")
            .help(format!("if {shown} is a new medium with the old name: --without {name}")));
    }
    // Held, so that nobody serves it meanwhile.
    let Assembled { superblocks, assembly, slots: _held } = assembled(start, &Asked::default())?;
    let newest = &assembly.newest;
    if newest.members[slot] == Membership::Never {
        return Err(no_witness());
    }
    if slot < LEGS && assembly.role[other(slot)] != Role::Current {
        let leg = NAMES[other(slot)];
        return Err(Failure::input(format!(
            "only {name} has everything: {leg} was left out earlier"
        ))
        .help(format!("serve with both until `status` says that {leg} is a member")));
    }
    let old = superblocks[slot].as_ref().map(|own| own.identity);
    let wanted = Wanted { array: newest.array, slot, geometry: newest.geometry, old };
    let device = prepare::prepare(with, &wanted, overwrite)?;
    // Of no generation: nobody takes it for more than a medium to copy everything to.
    write(
        &device,
        &Superblock {
            device: slot as u8,
            identity: random()?,
            update: newest.seen[slot].next_update(0),
            generations: Generations::default(),
            clean: false,
            log_first: 1,
            ..newest.clone()
        },
    )
}

/// End a mirror: its devices are no longer any mirror's. Data blocks stay as they are. `id` is
/// the mirror's, or how it begins.
///
/// # Errors
/// When a device is served or is no device of this mirror, or the id is not given.
pub fn destroy(paths: &Paths, without: [bool; DEVICES], id: Option<&str>) -> Result<u128, Failure> {
    paths.distinct()?;
    let found = look(paths, without, Access::Own, &Asked::default())?;
    let (devices, superblocks) = super::open::refuse_strangers(paths, found)?;
    super::open::in_their_slots(paths, &superblocks)?;
    let Some(first) = superblocks.iter().flatten().next() else {
        return Err(Failure::input("there is no device to destroy"));
    };
    let (array, members) = (first.array, first.members);
    if let Some(slot) = (0..DEVICES).find(|&slot| {
        superblocks[slot].as_ref().is_some_and(|superblock| superblock.array != array)
    }) {
        let text = "the devices belong to different mirrors";
        return Err(Failure::input(format!("{text}: {}", NAMES[slot])));
    }
    let forgotten = |slot: &Slot| {
        members[*slot] != Membership::Never && superblocks[*slot].is_none() && !without[*slot]
    };
    if let Some(slot) = (0..DEVICES).find(forgotten) {
        let name = NAMES[slot];
        return Err(Failure::input(format!("the mirror has a {name}, which is not named"))
            .help(format!("--{name} PATH, or --without {name}: it stays a device of a mirror")));
    }
    let name = format!("{array:032x}");
    let given = id.unwrap_or_default();
    if given.len() < ID_DIGITS || !name.starts_with(given) {
        let message = match id {
            None => format!("this would end mirror {name} and all that is on it"),
            Some(id) => format!("--yes-destroy {id}: this is mirror {name}"),
        };
        return Err(Failure::input(message)
            .expected("its id, or the first eight digits of it or more")
            .help(format!("if it may go: --yes-destroy {}", &name[..ID_DIGITS])));
    }
    for (slot, device) in devices.iter().enumerate() {
        let (Some(device), Some(own)) = (device, &superblocks[slot]) else { continue };
        let wiped = prepare::wipe(device, &layout_of(slot, &own.geometry));
        wiped.map_err(|why| create::failed(device, &why))?;
    }
    Ok(array)
}

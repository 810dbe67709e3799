//! Starting a mirror: who is there, who may start, and the recovery.

use std::path::Path;

use mirror::core::Opened;
use mirror::format::{Damage, Superblock};
use mirror::policy::Rules;
use mirror::policy::assemble::{Accept, Assembly, Offer, Refusal, assemble};
use mirror::recovery::{Failed, recover};
use mirror::{DEVICES, LEGS, Slot};
use study::Failure;

use super::device::{Access, Device};
use super::media::{self, Broken, Devices};
use super::{NAMES, Paths, random};

/// A mirror to start.
#[derive(Clone, Debug)]
pub struct Start {
    /// The devices.
    pub paths: Paths,
    /// Devices that are not to be used: they are gone, by the operator's word.
    pub without: [bool; DEVICES],
    /// Start although acknowledged flushes may be missing from what is there.
    pub accept_loss: bool,
}

impl Start {
    fn accept(&self) -> Accept {
        let missing_leg = self.without[..LEGS].contains(&true);
        Accept { missing_leg, exposure: self.accept_loss }
    }
}

/// A device and what it says of itself.
pub(super) type Found = (Device, Result<Superblock, Vec<Damage>>);

/// Open the devices and read their superblocks.
pub(super) fn look(
    paths: &Paths,
    without: [bool; DEVICES],
    access: Access,
) -> Result<[Option<Found>; DEVICES], Failure> {
    let mut found: [Option<Found>; DEVICES] = Default::default();
    for (slot, path) in paths.each().filter(|&(slot, _)| !without[slot]) {
        let device = Device::open(path, access).map_err(|failure| match path.exists() {
            true => failure,
            false => failure.help(format!("to go on without it: --without {}", NAMES[slot])),
        })?;
        let superblock = media::read_superblock(&device, None);
        found[slot] = Some((device, superblock));
    }
    let known = { found.iter().flatten() }.find_map(|(_, found)| found.as_ref().ok());
    let geometry = known.map(|known| known.geometry);
    for (slot, found) in found.iter_mut().enumerate() {
        if let (Some((device, superblock @ Err(_))), Some(geometry)) = (found, &geometry) {
            *superblock = media::read_superblock(device, Some((slot, geometry)));
        }
    }
    Ok(found)
}

/// Devices that may start.
pub(super) struct Assembled {
    pub(super) slots: [Option<Device>; DEVICES],
    pub(super) superblocks: [Option<Superblock>; DEVICES],
    pub(super) assembly: Assembly,
}

/// Open the devices and decide who would start as what; nothing is changed.
pub(super) fn assembled(start: &Start) -> Result<Assembled, Failure> {
    start.paths.distinct()?;
    let found = look(&start.paths, start.without, Access::Own)?;
    let (slots, superblocks) = refuse_strangers(&start.paths, found)?;
    let offered = Offered::new(&slots, &superblocks);
    let Some(first) = superblocks.iter().flatten().next() else {
        return Err(Failure::input("there is no device to start from"));
    };
    let assembly = assemble(&Rules::new(first.mode), &offered.offers, start.accept());
    let assembly = assembly.map_err(|refusal| offered.refused(&start.paths, &refusal))?;
    in_their_slots(&start.paths, &superblocks)?;
    Ok(Assembled { slots, superblocks, assembly })
}

/// What is offered to the policy, and the slot as which each device was named.
struct Offered {
    order: Vec<Slot>,
    offers: Vec<Offer>,
}

impl Offered {
    fn new(
        slots: &[Option<Device>; DEVICES],
        superblocks: &[Option<Superblock>; DEVICES],
    ) -> Offered {
        let order: Vec<Slot> = (0..DEVICES).filter(|&slot| superblocks[slot].is_some()).collect();
        let offers = { order.iter() }
            .filter_map(|&slot| {
                Some(Devices::offer(slots[slot].as_ref()?, superblocks[slot].as_ref()?))
            })
            .collect();
        Offered { order, offers }
    }

    fn refused(&self, paths: &Paths, refusal: &Refusal) -> Failure {
        refused(refusal, |offer| name_of(paths, self.order[offer]))
    }
}

/// Open the devices, decide who starts as what, and recover.
pub(super) fn open(start: &Start) -> Result<(Devices, Opened), Failure> {
    let Assembled { slots, superblocks, assembly } = assembled(start)?;
    let Offered { order, offers } = Offered::new(&slots, &superblocks);
    // All agree on these.
    let Superblock { array, geometry, .. } = assembly.newest;
    let mode = superblocks.iter().flatten().next().map_or(assembly.newest.mode, |own| own.mode);
    let rules = Rules::new(mode);
    let mut devices = Devices { slots, array, geometry };
    match recover(&rules, &mut devices, &offers, start.accept(), random()?) {
        Ok(opened) => Ok((devices, opened)),
        Err(Failed::Refused(refusal)) => {
            Err(refused(&refusal, |offer| name_of(&start.paths, order[offer])))
        }
        Err(Failed::Device(Broken { slot, why })) => {
            let failure =
                Failure::machine(format!("{} failed: {why}", name_of(&start.paths, slot)));
            Err(failure.help(format!("to go on without it: --without {}", NAMES[slot])))
        }
    }
}

fn name_of(paths: &Paths, slot: Slot) -> String {
    paths.of(slot).unwrap_or(Path::new(NAMES[slot])).display().to_string()
}

pub(super) type Slots = ([Option<Device>; DEVICES], [Option<Superblock>; DEVICES]);

/// A device that is no part of any mirror is not touched.
pub(super) fn refuse_strangers(
    paths: &Paths,
    found: [Option<Found>; DEVICES],
) -> Result<Slots, Failure> {
    let mut slots: Slots = Default::default();
    for (slot, found) in found.into_iter().enumerate() {
        let Some((device, superblock)) = found else { continue };
        let superblock = superblock.map_err(|damages| {
            let lines: String = damages.iter().map(|damage| format!("\n    {damage}")).collect();
            let shown = name_of(paths, slot);
            Failure::input(format!("{shown} is no device of a mirror:{lines}"))
                .expected(format!("the {} leg, as `blocklab mirror create` made it", NAMES[slot]))
                .help(format!("to go on without it: --without {}", NAMES[slot]))
        })?;
        (slots.0[slot], slots.1[slot]) = (Some(device), Some(superblock));
    }
    Ok(slots)
}

/// Is each device what it was named as?
pub(super) fn in_their_slots(
    paths: &Paths,
    superblocks: &[Option<Superblock>; DEVICES],
) -> Result<(), Failure> {
    for (slot, superblock) in superblocks.iter().enumerate() {
        let is = superblock.as_ref().map_or(slot, |superblock| superblock.device.into());
        if is != slot {
            let shown = name_of(paths, slot);
            let (said, found) = (NAMES[slot], NAMES[is]);
            return Err(Failure::input(format!("{shown} is the mirror's {found}, not its {said}"))
                .expected("each device under its own name")
                .help(format!("swap --{said} and --{found}")));
        }
    }
    Ok(())
}

/// A refusal in the words of whoever named the devices.
fn refused(refusal: &Refusal, name: impl Fn(usize) -> String) -> Failure {
    let text = match refusal {
        Refusal::Foreign { offer, array, expected } => {
            let (device, first) = (name(*offer), name(0));
            format!("{device} belongs to mirror {array:032x}, but {first} to {expected:032x}")
        }
        Refusal::Clone { offers: [a, b], slot } => {
            let (a, b, slot) = (name(*a), name(*b), NAMES[*slot]);
            format!("{a} and {b} both claim to be the {slot} of the mirror: one is a copy")
        }
        // The first start is number 2.
        Refusal::Older { legs, witness } => {
            Refusal::Older { legs: legs - 1, witness: witness - 1 }.to_string()
        }
        Refusal::Smaller { offer, pages, needed } => {
            let device = name(*offer);
            format!("{device} has {} bytes, but its leg needs {}", pages * 4096, needed * 4096)
        }
        other => other.to_string(),
    };
    let help = match refusal {
        Refusal::MissingLeg { slot } => Some(format!("--without {}", NAMES[*slot])),
        Refusal::Exposed { slot, .. } => Some(format!("--without {} --accept-loss", NAMES[*slot])),
        _ => None,
    };
    let failure = Failure::input(format!("the mirror must not start: {text}"));
    match help {
        Some(help) => failure.help(format!("attach it, or accept by name: {help}")),
        None => failure.help("docs/mirror.md, Who starts as what"),
    }
}

//! Starting a mirror: who is there, who may start, and the recovery.

use std::path::Path;

use mirror::core::Opened;
use mirror::format::sums::BlockSums;
use mirror::format::superblock::Membership;
use mirror::format::{Damage, Superblock};
use mirror::policy::Rules;
use mirror::policy::assemble::{Accept, Assembly, Offer, Refusal, assemble};
use mirror::recovery::{Failed, recover};
use mirror::{DEVICES, LEGS, Slot, WITNESS};
use study::Failure;

use super::device::{Access, Device, is_full};
use super::media::{self, Asked, Broken, Devices};
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
    asked: &Asked,
) -> Result<[Option<Found>; DEVICES], Failure> {
    let mut found: [Option<Found>; DEVICES] = Default::default();
    for (slot, path) in paths.each().filter(|&(slot, _)| !without[slot]) {
        asked.begins(slot);
        let device = Device::open(path, access).map_err(|failure| {
            if path.exists() {
                failure
            } else {
                failure.help(format!("to go on without it: --without {}", NAMES[slot]))
            }
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
pub(super) fn assembled(start: &Start, asked: &Asked) -> Result<Assembled, Failure> {
    start.paths.distinct()?;
    let found = look(&start.paths, start.without, Access::Own, asked)?;
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

/// Why these would not start, whatever the operator accepts.
pub(super) fn refusal(paths: &Paths, found: [Option<Found>; DEVICES]) -> Option<String> {
    let (slots, superblocks) = refuse_strangers(paths, found).ok()?;
    let offered = Offered::new(&slots, &superblocks);
    let mode = superblocks.iter().flatten().next()?.mode;
    let accept = Accept { missing_leg: true, exposure: true };
    let refusal = assemble(&Rules::new(mode), &offered.offers, accept).err()?;
    Some(offered.refused(paths, &refusal).message)
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
        refused(refusal, |offer| name_of(paths, self.order[offer]), |slot| name_of(paths, slot))
    }
}

/// Open the devices, decide who starts as what, and recover. A device without room for what it
/// lacks is left out, as one that fails while the mirror is served.
pub(super) fn open(start: &Start, asked: &Asked) -> Result<(Devices, Opened), Failure> {
    let full = match attempt(start, asked) {
        Err(Unopened { full: Some(slot), failure }) => (slot, failure),
        opened => return opened.map_err(|Unopened { failure, .. }| failure),
    };
    let (slot, failure) = full;
    let mut others = start.clone();
    others.without[slot] = true;
    // Where that is refused, room is what is needed.
    let Ok((mut devices, opened)) = attempt(&others, asked) else { return Err(failure) };
    let (name, shown) = (NAMES[slot], name_of(&start.paths, slot));
    devices.notes.push(format!(
        "{name}: no space left for {shown}, so this start leaves it out: make room on its file \
         system, then stop and start again: what it lacks is copied"
    ));
    Ok((devices, opened))
}

/// A mirror that does not start.
struct Unopened {
    /// The device that has no room.
    full: Option<Slot>,
    failure: Failure,
}

impl From<Failure> for Unopened {
    fn from(failure: Failure) -> Unopened {
        Unopened { full: None, failure }
    }
}

fn attempt(start: &Start, asked: &Asked) -> Result<(Devices, Opened), Unopened> {
    let Assembled { slots, superblocks, assembly } = assembled(start, asked)?;
    let Offered { order, offers } = Offered::new(&slots, &superblocks);
    // All agree on these.
    let sums = BlockSums::of(&assembly.newest);
    let Superblock { array, geometry, .. } = assembly.newest;
    let mode = superblocks.iter().flatten().next().map_or(assembly.newest.mode, |own| own.mode);
    let rules = Rules::new(mode);
    let notes = forgotten_witness(start, &assembly.newest).into_iter().collect();
    let mut devices = Devices { slots, array, sums, geometry, notes, asked: asked.clone() };
    match recover(&rules, &mut devices, &offers, start.accept(), random()?) {
        Ok(opened) => Ok((devices, opened)),
        Err(Failed::Refused(refusal)) => {
            Err(Offered { order, offers }.refused(&start.paths, &refusal).into())
        }
        Err(Failed::Device(Broken { slot, why })) => {
            let failure =
                Failure::machine(format!("{} failed: {why}", name_of(&start.paths, slot)));
            let without = format!("to go on without it: --without {}", NAMES[slot]);
            let full = is_full(&why).then_some(slot);
            let failure = failure.help(match full {
                Some(_) => format!("make room on its file system; {without}"),
                None => without,
            });
            Err(Unopened { full, failure })
        }
    }
}

/// A mirror that has a witness starts without it, and is slower then.
fn forgotten_witness(start: &Start, newest: &Superblock) -> Option<String> {
    let has_one = newest.members[WITNESS] != Membership::Never;
    let named = start.paths.witness.is_some() || start.without[WITNESS];
    (has_one && !named).then(|| {
        "the mirror has a witness, which is not named: without it a flush waits for both legs; \
         --witness PATH, or --without witness if it is gone"
            .into()
    })
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
            // All copies are damaged alike in what never was a device of one.
            let mut lines: Vec<_> =
                damages.iter().map(|damage| format!("\n    {damage}")).collect();
            lines.dedup();
            let (shown, lines) = (name_of(paths, slot), lines.concat());
            let what = match slot {
                WITNESS => "the witness, of a mirror that was made with one".to_string(),
                _ => format!("the {} leg, as `blocklab mirror create` made it", NAMES[slot]),
            };
            Failure::input(format!("{shown} is no device of a mirror:{lines}"))
                .expected(what)
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
fn refused(
    refusal: &Refusal,
    name: impl Fn(usize) -> String,
    name_in: impl Fn(Slot) -> String,
) -> Failure {
    let text = match refusal {
        Refusal::Foreign { offer, array, expected } => {
            let (device, first) = (name(*offer), name(0));
            format!("{device} belongs to mirror {array:032x}, but {first} to {expected:032x}")
        }
        Refusal::Clone { offers: [a, b], slot } => {
            let (a, b, slot) = (name(*a), name(*b), NAMES[*slot]);
            format!("{a} and {b} both claim to be the {slot} of the mirror: one is a copy")
        }
        Refusal::Older { slot, by } => {
            let (device, slot, by) = (name_in(*slot), NAMES[*slot], NAMES[*by]);
            format!(
                "{device} is an older copy of the {slot}, or was replaced: the {by} has seen a \
                 newer one, and what was flushed since is not on this one"
            )
        }
        Refusal::Smaller { offer, pages, needed } => {
            let device = name(*offer);
            format!("{device} has {} bytes, but its leg needs {}", pages * 4096, needed * 4096)
        }
        Refusal::Stale { slot } => format!(
            "the {} was left out earlier, and the leg that went on is missing",
            NAMES[*slot]
        ),
        Refusal::MissingLeg { slot } => format!(
            "the {} is missing and may have gone on alone; without it or a witness nobody can tell",
            NAMES[*slot]
        ),
        Refusal::Exposed { slot, relaxed: true } => format!(
            "the {} is missing, or was left out, when the mirror ended in relaxed mode without \
             being stopped: flushes up to the cap may be lost",
            NAMES[*slot]
        ),
        Refusal::Exposed { slot, relaxed: false } => format!(
            "the {} and the witness are missing: flushed writes may be on them only",
            NAMES[*slot]
        ),
        Refusal::BrokenLog { slot, record } => format!(
            "the log of the {} lacks record {record} though later ones are there: it is corrupt, \
             not torn, and no other device holds what it said",
            NAMES[*slot]
        ),
        Refusal::NoLeg(_) | Refusal::SplitBrain { .. } => refusal.to_string(),
    };
    let help = match refusal {
        Refusal::Older { by: WITNESS, .. } => Some("--without witness".to_string()),
        Refusal::Older { slot, .. } => Some(format!("--without {}", NAMES[*slot])),
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

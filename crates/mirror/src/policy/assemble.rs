//! Which devices may start as what: generations compared, split brain and stale legs refused.

use std::fmt;

use super::Rules;
use crate::format::superblock::{Generations, Membership};
use crate::format::{Damage, Superblock};
use crate::mutant::planted;
use crate::types::{DEVICES, LEGS, Slot, WITNESS, other};

/// A device that was offered.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Its current superblock, or what is wrong with each copy.
    pub superblock: Result<Superblock, Vec<Damage>>,
    /// Its pages.
    pub pages: u64,
}

/// What a device starts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Not there.
    Absent,
    /// Holds all that was promised.
    Current,
    /// A leg that lacks what the bitmap and the activity logs name.
    Partial,
    /// A leg that must be copied whole, or a witness whose log is void.
    Whole,
}

/// What the operator accepts, said by name.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Accept {
    /// Start from one leg although nobody can say that the other did not go on alone.
    pub missing_leg: bool,
    /// Start although flushes acknowledged with one copy may be lost (relaxed mode), or although
    /// the witness that may hold some is not there.
    pub exposure: bool,
}

/// A start that is allowed.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// Per slot.
    pub role: [Role; DEVICES],
    /// Which offer fills the slot.
    pub offer: [Option<usize>; DEVICES],
    /// The superblock that knows most.
    pub newest: Superblock,
    /// Every current member stopped in order, so there is nothing to recover.
    pub clean: bool,
}

/// Why a start is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Neither device is a leg of a mirror. What is wrong with each copy of each superblock.
    NoLeg(Vec<Damage>),
    /// A device of another array.
    Foreign {
        /// Which offer.
        offer: usize,
        /// Its array.
        array: u128,
        /// The array of the first leg.
        expected: u128,
    },
    /// Two offers claim to be the same device: one is a clone.
    Clone {
        /// The two offers.
        offers: [usize; 2],
        /// The slot both claim.
        slot: Slot,
    },
    /// The device is smaller than its superblock says.
    Smaller {
        /// Which offer.
        offer: usize,
        /// Its pages.
        pages: u64,
        /// What it needs.
        needed: u64,
    },
    /// Each side went on without the other.
    SplitBrain {
        /// Generation and incarnation of the two.
        generations: [(u128, u64); 2],
    },
    /// The legs that are there were left out earlier; the one that went on is missing.
    Stale {
        /// The slot of the leg that is there.
        slot: Slot,
    },
    /// The witness has seen starts that no leg has: the legs are older copies of themselves.
    Older {
        /// Starts that the leg that knows most has seen.
        legs: u64,
        /// Starts that the witness has seen.
        witness: u64,
    },
    /// A leg is missing that this one knows as a member, and no witness says that it did not go on.
    MissingLeg {
        /// The missing slot.
        slot: Slot,
    },
    /// Acknowledged flushes may be missing from what is there.
    Exposed {
        /// The missing slot.
        slot: Slot,
        /// In relaxed mode; otherwise for want of the witness.
        relaxed: bool,
    },
    /// A leg's log is broken before its last record, and nothing else holds what it said.
    BrokenLog {
        /// The slot.
        slot: Slot,
        /// The record that is missing.
        record: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoLeg(damages) => {
                write!(f, "no leg of a mirror was offered")?;
                damages.iter().try_for_each(|damage| write!(f, "\n  superblock copy: {damage}"))
            }
            Refusal::Foreign { offer, array, expected } => {
                write!(f, "device {offer} belongs to array {array:032x}, not {expected:032x}")
            }
            Refusal::Clone { offers: [a, b], slot } => {
                write!(f, "devices {a} and {b} both claim to be slot {slot}: one is a copy")
            }
            Refusal::Smaller { offer, pages, needed } => {
                write!(f, "device {offer} has {pages} pages of 4 KiB, but needs {needed}")
            }
            Refusal::SplitBrain { generations: [a, b] } => write!(
                f,
                "split brain: generation {:032x} (start {}) and {:032x} (start {}) each went on \
                 without the other; choose the one to keep and replace the other",
                a.0, a.1, b.0, b.1
            ),
            Refusal::Stale { slot } => write!(
                f,
                "the leg in slot {slot} was left out earlier, and the leg that went on is missing"
            ),
            Refusal::Older { legs, witness } => write!(
                f,
                "the witness has seen {witness} starts, the legs {legs} only: they are older \
                 copies of themselves, and what was flushed since is not on them"
            ),
            Refusal::MissingLeg { slot } => write!(
                f,
                "the leg of slot {slot} is missing and may have gone on alone; without it or a \
                 witness nobody can tell. Attach it, or accept by name to start from one leg"
            ),
            Refusal::Exposed { slot, relaxed: true } => write!(
                f,
                "the leg of slot {slot} is missing after a stop in relaxed mode: flushes up to the \
                 configured cap may be lost. Attach it, or accept the loss by name"
            ),
            Refusal::Exposed { slot, relaxed: false } => write!(
                f,
                "the leg of slot {slot} and the witness are missing: flushed writes may be on them \
                 only. Attach either, or accept the loss by name"
            ),
            Refusal::BrokenLog { slot, record } => write!(
                f,
                "the log of slot {slot} lacks record {record} though later ones are there: it is \
                 corrupt, not torn, and no other device holds what it said"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// What a device with the generations `theirs` is to one with `ours`; `None` when neither follows
/// from the other or `theirs` is the newer.
fn follows(rules: &Rules, ours: &Generations, theirs: &Generations) -> Option<Role> {
    if ours.current == theirs.current {
        return Some(Role::Current);
    }
    if theirs.current == 0 {
        return Some(Role::Whole);
    }
    if ours.base == theirs.current {
        return Some(if planted!(rules, TrustOldLeg) { Role::Current } else { Role::Partial });
    }
    let known = ours.history.contains(&theirs.current);
    (known || planted!(rules, NoSplitBrain)).then_some(Role::Whole)
}

/// Did the device only miss the last news?
fn unsettled(rules: &Rules, newest: &Superblock, slot: Slot, them: &Superblock) -> bool {
    let id = them.generations.current;
    newest.members[slot] == Membership::Member
        && id != 0
        && newest.generations.history.contains(&id)
        && !planted!(rules, MissedNews)
}

/// Decide the roles of what was offered.
///
/// # Errors
/// Why the array must not start.
pub fn assemble(rules: &Rules, offers: &[Offer], accept: Accept) -> Result<Assembly, Refusal> {
    let (offer, found) = slots(offers)?;
    let present = |slot: Slot| found[slot].as_ref();
    let leads = |slot: &Slot| {
        let Some(ours) = present(*slot) else { return false };
        let mut all = found.iter().flatten();
        ours.generations.current != 0
            && all.all(|them| follows(rules, &ours.generations, &them.generations).is_some())
    };
    // A leg rather than the witness, the later start rather than the earlier.
    let lead = (0..DEVICES).filter(leads).max_by_key(|&slot| {
        (slot < LEGS, present(slot).map(|superblock| superblock.incarnation), DEVICES - slot)
    });
    let Some(lead) = lead else { return Err(no_leader(&found)) };
    let alike = match &found {
        [Some(a), Some(b), _] => a.generations.current == b.generations.current,
        _ => false,
    };
    let newest = found[lead].clone().expect("the leader is present");
    let role: [Role; DEVICES] = std::array::from_fn(|slot| match present(slot) {
        None => Role::Absent,
        // The leader names it a member, so it was not left out: it only lacks word of another
        // device's leaving, and nothing was promised without either before all had it.
        Some(them) if unsettled(rules, &newest, slot, them) => Role::Current,
        // Only the witness heard of a leg's leaving: it came to nothing.
        Some(_) if lead == WITNESS && slot < LEGS && alike && !planted!(rules, MissedNews) => {
            Role::Current
        }
        Some(them) => match follows(rules, &newest.generations, &them.generations) {
            Some(Role::Partial) if slot == WITNESS => Role::Whole,
            Some(role) => role,
            None => Role::Whole,
        },
    });
    if role[..LEGS].iter().all(|&role| role != Role::Current) {
        let slot = (0..LEGS).find(|&leg| role[leg] != Role::Absent).unwrap_or(0);
        return match planted!(rules, StartStale) {
            true => start_stale(offer, &found, slot),
            false => Err(Refusal::Stale { slot }),
        };
    }
    // A start is recorded on the legs before it is on the witness.
    let starts = |slot: Slot| present(slot).map_or(0, |superblock| superblock.incarnation);
    let legs = starts(0).max(starts(1));
    if starts(WITNESS) > legs && !planted!(rules, StartStale) {
        return Err(Refusal::Older { legs, witness: starts(WITNESS) });
    }
    let stopped = |slot: Slot| present(slot).is_some_and(|superblock| superblock.clean);
    let clean = (0..DEVICES).filter(|&slot| role[slot] == Role::Current).all(stopped);
    let assembly = Assembly { role, offer, newest, clean };
    lone_leg(rules, &assembly, accept)?;
    Ok(assembly)
}

/// The planted bug of trusting any leg.
fn start_stale(
    offer: [Option<usize>; DEVICES],
    found: &[Option<Superblock>; DEVICES],
    slot: Slot,
) -> Result<Assembly, Refusal> {
    let mut role = [Role::Absent; DEVICES];
    role[slot] = Role::Current;
    let newest = found[slot].clone().ok_or(Refusal::Stale { slot })?;
    Ok(Assembly { role, offer, newest, clean: false })
}

/// Which superblock fills which slot.
type Slots = ([Option<usize>; DEVICES], [Option<Superblock>; DEVICES]);

fn slots(offers: &[Offer]) -> Result<Slots, Refusal> {
    let (mut offer, mut found) = ([None; DEVICES], [const { None }; DEVICES]);
    let mut damages = Vec::new();
    let mut expected = None;
    for (index, offered) in offers.iter().enumerate() {
        let superblock = match &offered.superblock {
            Ok(superblock) => superblock,
            Err(found) => {
                damages.extend(found.iter().cloned());
                continue;
            }
        };
        let array = superblock.array;
        let expected = *expected.get_or_insert(array);
        if array != expected {
            return Err(Refusal::Foreign { offer: index, array, expected });
        }
        let slot = Slot::from(superblock.device);
        if let Some(earlier) = offer[slot] {
            return Err(Refusal::Clone { offers: [earlier, index], slot });
        }
        let layout = match slot < LEGS {
            true => crate::format::Layout::leg(&superblock.geometry),
            false => crate::format::Layout::witness(&superblock.geometry),
        };
        if offered.pages < layout.pages {
            let (pages, needed) = (offered.pages, layout.pages);
            return Err(Refusal::Smaller { offer: index, pages, needed });
        }
        (offer[slot], found[slot]) = (Some(index), Some(superblock.clone()));
    }
    match found[..LEGS].iter().any(Option::is_some) {
        true => Ok((offer, found)),
        false => Err(Refusal::NoLeg(damages)),
    }
}

fn no_leader(found: &[Option<Superblock>; DEVICES]) -> Refusal {
    let mut all = found.iter().flatten();
    let id = |superblock: &Superblock| (superblock.generations.current, superblock.incarnation);
    match (all.next(), all.next()) {
        (Some(a), Some(b)) => Refusal::SplitBrain { generations: [id(a), id(b)] },
        // A leg that is being filled.
        _ => Refusal::Stale { slot: (0..LEGS).find(|&l| found[l].is_some()).unwrap_or(0) },
    }
}

/// May the current legs start without the one that is not current?
fn lone_leg(rules: &Rules, assembly: &Assembly, accept: Accept) -> Result<(), Refusal> {
    let Assembly { role, newest, clean, .. } = assembly;
    let Some(slot) = (0..LEGS).find(|&leg| role[leg] != Role::Current) else { return Ok(()) };
    debug_assert!(role[other(slot)] == Role::Current, "the leader is a leg");
    if newest.armed_relaxed && !clean && !accept.exposure && !planted!(rules, IgnoreArmed) {
        return Err(Refusal::Exposed { slot, relaxed: true });
    }
    // The leader knows that it went on alone, or the other leg is here and older.
    if newest.members[slot] != Membership::Member || role[slot] != Role::Absent {
        return Ok(());
    }
    if role[WITNESS] == Role::Current {
        return Ok(());
    }
    // A witness that is here and older had not joined: nothing relies on it.
    let unread = newest.armed_witness && role[WITNESS] == Role::Absent;
    if unread && !clean && !accept.exposure && !planted!(rules, IgnoreArmed) {
        return Err(Refusal::Exposed { slot, relaxed: false });
    }
    match accept.missing_leg || planted!(rules, StartAlone) {
        true => Ok(()),
        false => Err(Refusal::MissingLeg { slot }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::superblock::tests::sample;
    use crate::types::Mode;

    const RULES: Rules = Rules::new(Mode::Log);

    fn member(slot: u8) -> Superblock {
        Superblock {
            device: slot,
            generations: Generations { current: 5, ..Generations::default() },
            members: [Membership::Member; DEVICES],
            armed_relaxed: false,
            ..sample()
        }
    }

    fn start(found: &[Superblock]) -> Result<[Role; DEVICES], Refusal> {
        start_accepting(found, Accept::default())
    }

    fn start_accepting(found: &[Superblock], accept: Accept) -> Result<[Role; DEVICES], Refusal> {
        let offers: Vec<_> =
            found.iter().map(|s| Offer { superblock: Ok(s.clone()), pages: 1 << 40 }).collect();
        Ok(assemble(&RULES, &offers, accept)?.role)
    }

    fn went_on(mut superblock: Superblock, without: Slot, id: u128) -> Superblock {
        superblock.generations.begin(id);
        superblock.members[without] = Membership::Out;
        superblock
    }

    use Role::{Absent, Current, Partial, Whole};

    #[test]
    fn equal_generations_start_and_older_ones_are_filled() {
        let [a, b, w] = [0, 1, 2].map(member);
        assert_eq!(start(&[w.clone(), b.clone(), a.clone()]).unwrap(), [Current; 3]);
        let b6 = went_on(b.clone(), 0, 6);
        assert_eq!(start(&[a.clone(), b6.clone()]).unwrap(), [Partial, Current, Absent]);
        assert_eq!(start(std::slice::from_ref(&b6)).unwrap(), [Absent, Current, Absent]);
        let mut b7 = b6.clone();
        b7.generations.base = 0;
        b7.generations.begin(7);
        assert_eq!(start(&[a.clone(), b7]).unwrap(), [Whole, Current, Absent]);
        // The witness is named a member: it only missed the news.
        assert_eq!(start(&[a, b6, w]).unwrap(), [Partial, Current, Current]);
    }

    #[test]
    fn split_brain_and_stale_legs_are_refused() {
        let [a, b, w] = [0, 1, 2].map(member);
        let split = start(&[went_on(a.clone(), 1, 6), went_on(b.clone(), 0, 7)]).unwrap_err();
        assert!(split.to_string().starts_with("split brain: generation"), "{split}");
        let stale = start(&[a.clone(), went_on(w.clone(), 0, 6)]).unwrap_err();
        assert_eq!(stale, Refusal::Stale { slot: 0 });
        // Nobody can tell: the other leg may have gone on. A witness can.
        let alone = start(std::slice::from_ref(&a)).unwrap_err();
        assert_eq!(alone, Refusal::MissingLeg { slot: 1 });
        assert_eq!(start(&[a.clone(), w]).unwrap(), [Current, Absent, Current]);
        let accept = Accept { missing_leg: true, ..Accept::default() };
        assert_eq!(start_accepting(&[a], accept).unwrap(), [Current, Absent, Absent]);
    }

    #[test]
    fn legs_that_are_older_than_the_witness_are_refused() {
        let [a, b, mut w] = [0, 1, 2].map(member);
        w.incarnation = a.incarnation + 1;
        let older = Refusal::Older { legs: a.incarnation, witness: w.incarnation };
        assert_eq!(start(&[a.clone(), b.clone(), w.clone()]).unwrap_err(), older);
        // One that died before it had told all is not that.
        let newer = Superblock { incarnation: w.incarnation, ..a };
        assert_eq!(start(&[newer, b, w]).unwrap(), [Current; 3]);
    }

    #[test]
    fn what_may_be_lost_must_be_accepted() {
        let armed = Superblock { armed_relaxed: true, ..went_on(member(0), 1, 6) };
        let refused = start(std::slice::from_ref(&armed)).unwrap_err();
        assert_eq!(refused, Refusal::Exposed { slot: 1, relaxed: true });
        let accept = Accept { exposure: true, ..Accept::default() };
        assert!(start_accepting(std::slice::from_ref(&armed), accept).is_ok());
        assert!(start(&[Superblock { clean: true, ..armed }]).is_ok());
        let witness = Superblock { armed_witness: true, ..member(0) };
        let refused = start(&[witness]).unwrap_err();
        assert_eq!(refused, Refusal::Exposed { slot: 1, relaxed: false });
    }

    #[test]
    fn strangers_clones_and_small_devices_are_refused() {
        let [a, b] = [0, 1].map(member);
        let foreign = start(&[a.clone(), Superblock { array: 1, ..b.clone() }]).unwrap_err();
        assert_eq!(foreign, Refusal::Foreign { offer: 1, array: 1, expected: 0xabc });
        let clone = start(&[a.clone(), b.clone(), a.clone()]).unwrap_err();
        assert_eq!(clone, Refusal::Clone { offers: [0, 2], slot: 0 });
        let small = [Offer { superblock: Ok(a), pages: 100 }];
        let small = assemble(&RULES, &small, Accept::default()).unwrap_err();
        assert!(matches!(small, Refusal::Smaller { offer: 0, pages: 100, .. }));
        let blank = Offer { superblock: Err(vec![Damage::Length { found: 0 }]), pages: 1 << 40 };
        let blank = assemble(&RULES, &[blank], Accept::default()).unwrap_err();
        assert!(blank.to_string().contains("the page has 0 bytes"), "{blank}");
        let filling = Superblock { generations: Generations::default(), ..b };
        assert_eq!(start(&[filling]).unwrap_err(), Refusal::Stale { slot: 1 });
    }
}

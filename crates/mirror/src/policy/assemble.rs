//! Which devices may start as what: generations compared, split brain and stale legs refused.

#[cfg(test)]
mod tests;

use std::fmt;

use super::Rules;
use super::fresh::{Standing, behind, standing};
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
    /// A leg is an older copy of itself, or a medium that was replaced, and where the one is that
    /// was a member last nobody can tell.
    Older {
        /// Its slot.
        slot: Slot,
        /// The device that has seen a newer one.
        by: Slot,
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
            Refusal::Older { slot, by } => write!(
                f,
                "the leg in slot {slot} is an older copy of itself, or was replaced: the device \
                 in slot {by} has seen a newer one. What was flushed since is not on it"
            ),
            Refusal::MissingLeg { slot } => write!(
                f,
                "the leg of slot {slot} is missing and may have gone on alone; without it or a \
                 witness nobody can tell. Attach it, or accept by name to start from one leg"
            ),
            Refusal::Exposed { slot, relaxed: true } => write!(
                f,
                "the leg of slot {slot} is missing, or was left out, when the mirror ended in \
                 relaxed mode without being stopped: flushes up to the cap may be lost. Attach it \
                 if it was not left out, or accept the loss by name"
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

/// Does the other device follow from this one? One that it left out follows as long as it is what
/// it was then, however many generations ago: the history forgets.
fn is_known(rules: &Rules, ours: &Superblock, them: &Superblock) -> bool {
    let slot = Slot::from(them.device);
    let left = ours.members[slot] == Membership::Out
        && ours.seen[slot].identity != 0
        && ours.seen[slot] == them.as_seen();
    left || follows(rules, &ours.generations, &them.generations).is_some()
}

/// Did the device only miss the last news?
fn unsettled(rules: &Rules, newest: &Superblock, slot: Slot, them: &Superblock) -> bool {
    let id = them.generations.current;
    // Version 1 does not say whether this one was replaced. But then there is news, of another one
    // or that it is joining, and nobody stopped in order before all had it.
    let news = newest.members.contains(&Membership::Out) || newest.generations.base == id;
    let told = newest.seen[slot].identity != 0 || (news && !newest.clean);
    newest.members[slot] == Membership::Member
        && told
        && id != 0
        && newest.generations.history.contains(&id)
        && !planted!(rules, MissedNews)
}

/// What is there, by slot.
struct Found {
    superblocks: [Option<Superblock>; DEVICES],
    /// Who has seen a newer superblock of this slot.
    older: [Option<Slot>; DEVICES],
}

impl Found {
    fn new(rules: &Rules, superblocks: [Option<Superblock>; DEVICES]) -> Found {
        let older = std::array::from_fn(|slot| {
            let them = superblocks[slot].as_ref()?;
            (0..DEVICES).filter(|&by| by != slot).find(|&by| {
                superblocks[by]
                    .as_ref()
                    .is_some_and(|by| standing(rules, them, by) == Standing::Older)
            })
        });
        Found { superblocks, older }
    }

    fn at(&self, slot: Slot) -> Option<&Superblock> {
        self.superblocks[slot].as_ref()
    }

    /// Starts that the device has seen.
    fn starts(&self, slot: Slot) -> u64 {
        self.at(slot).map_or(0, |superblock| superblock.incarnation)
    }

    /// The device that knows most: it is no older copy (unless `older`), and all others follow from
    /// it. A leg rather than the witness, the later start rather than the earlier.
    fn lead(&self, rules: &Rules, older: bool) -> Option<Slot> {
        let leads = |slot: &Slot| {
            let Some(ours) = self.at(*slot) else { return false };
            let mut all = self.superblocks.iter().flatten();
            (older || self.older[*slot].is_none())
                && ours.generations.current != 0
                && all.all(|them| is_known(rules, ours, them))
        };
        { 0..DEVICES }
            .filter(leads)
            .max_by_key(|&slot| (slot < LEGS, self.starts(slot), DEVICES - slot))
    }

    /// What a device is to the leader by its generation.
    fn by_generation(&self, rules: &Rules, lead: Slot, slot: Slot, them: &Superblock) -> Role {
        let newest = self.at(lead).expect("the leader is present");
        let alike = match &self.superblocks {
            [Some(a), Some(b), _] => a.generations.current == b.generations.current,
            _ => false,
        };
        // The leader names it a member, so it was not left out: it only lacks word of another
        // device's leaving, and nothing was promised without either before all had it.
        if unsettled(rules, newest, slot, them) {
            return Role::Current;
        }
        // Only the witness heard of a leg's leaving: it came to nothing.
        if lead == WITNESS && slot < LEGS && alike && !planted!(rules, MissedNews) {
            return Role::Current;
        }
        match follows(rules, &newest.generations, &them.generations) {
            Some(Role::Partial) if slot == WITNESS => Role::Whole,
            Some(role) => role,
            None => Role::Whole,
        }
    }

    /// What each device starts as. One that is not what the leader has seen of it holds nothing
    /// that can be relied on.
    fn roles(&mut self, rules: &Rules, lead: Slot) -> Result<[Role; DEVICES], Refusal> {
        let newest = self.at(lead).expect("the leader is present").clone();
        let mut roles = [Role::Absent; DEVICES];
        for (slot, role) in roles.iter_mut().enumerate() {
            let Some(them) = self.at(slot) else { continue };
            *role = self.by_generation(rules, lead, slot, them);
            if slot == lead {
                continue;
            }
            // A new medium has no generation.
            let named = newest.members[slot] == Membership::Member && them.generations.current != 0;
            match (standing(rules, them, &newest), *role) {
                (Standing::Apart, Role::Current) => {
                    return Err(Refusal::SplitBrain { generations: [id(&newest), id(them)] });
                }
                (Standing::Unknown, found)
                    if named && (found != Role::Current || behind(them, &newest)) =>
                {
                    self.older[slot] = Some(lead);
                }
                // The bitmap tells what it lacks since it was left out, if it is what it was then.
                (Standing::Apart | Standing::Unknown, Role::Partial) => *role = Role::Whole,
                _ => {}
            }
            if self.older[slot].is_some() {
                *role = Role::Whole;
            }
        }
        Ok(roles)
    }
}

/// Decide the roles of what was offered.
///
/// # Errors
/// Why the array must not start.
pub fn assemble(rules: &Rules, offers: &[Offer], accept: Accept) -> Result<Assembly, Refusal> {
    let (offer, superblocks) = slots(offers)?;
    let mut found = Found::new(rules, superblocks);
    let Some(lead) = found.lead(rules, false) else { return Err(no_leader(rules, &found)) };
    let role = found.roles(rules, lead)?;
    if role[..LEGS].iter().all(|&role| role != Role::Current) {
        let slot = (0..LEGS).find(|&leg| role[leg] != Role::Absent).unwrap_or(0);
        return match (found.older[slot], planted!(rules, StartStale)) {
            (Some(by), _) => Err(Refusal::Older { slot, by }),
            (None, true) => start_stale(offer, &found.superblocks, slot),
            (None, false) => Err(Refusal::Stale { slot }),
        };
    }
    // A start is recorded on the legs before it is on the witness.
    let starts = [0, 1, WITNESS].map(|slot| found.starts(slot));
    if starts[WITNESS] > starts[0].max(starts[1]) && !planted!(rules, StartStale) {
        let slot = usize::from(starts[0] < starts[1]);
        return Err(Refusal::Older { slot, by: WITNESS });
    }
    let stopped = |slot: Slot| found.at(slot).is_some_and(|superblock| superblock.clean);
    let clean = (0..DEVICES).filter(|&slot| role[slot] == Role::Current).all(stopped);
    let newest = found.at(lead).expect("the leader is present").clone();
    let assembly = Assembly { role, offer, newest, clean };
    lone_leg(rules, &assembly, &found.older, accept)?;
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

/// Generation and incarnation.
fn id(superblock: &Superblock) -> (u128, u64) {
    (superblock.generations.current, superblock.incarnation)
}

fn no_leader(rules: &Rules, found: &Found) -> Refusal {
    let older = found.lead(rules, true).and_then(|slot| {
        let by = found.older[slot]?;
        found.older[by].is_none().then_some(Refusal::Older { slot, by })
    });
    let all: Vec<_> = found.superblocks.iter().flatten().collect();
    let pairs = [(0, 1), (0, 2), (1, 2)];
    let mut pairs = pairs.iter().filter_map(|&(a, b)| Some((*all.get(a)?, *all.get(b)?)));
    let apart =
        |&(a, b): &(&Superblock, &Superblock)| !is_known(rules, a, b) && !is_known(rules, b, a);
    let first = pairs.clone().next();
    match (older, pairs.find(apart).or(first)) {
        (Some(older), _) => older,
        (None, Some((a, b))) => Refusal::SplitBrain { generations: [id(a), id(b)] },
        // A leg that is being filled.
        _ => Refusal::Stale { slot: (0..LEGS).find(|&l| found.at(l).is_some()).unwrap_or(0) },
    }
}

/// May the current legs start without the one that is not current?
fn lone_leg(
    rules: &Rules,
    assembly: &Assembly,
    older: &[Option<Slot>; DEVICES],
    accept: Accept,
) -> Result<(), Refusal> {
    let Assembly { role, newest, clean, .. } = assembly;
    let Some(slot) = (0..LEGS).find(|&leg| role[leg] != Role::Current) else { return Ok(()) };
    debug_assert!(role[other(slot)] == Role::Current, "the leader is a leg");
    if newest.armed_relaxed && !clean && !accept.exposure && !planted!(rules, IgnoreArmed) {
        return Err(Refusal::Exposed { slot, relaxed: true });
    }
    // An older copy in its place says nothing of where it is, and what it did.
    let away = |slot: Slot| role[slot] == Role::Absent || older[slot].is_some();
    // The leader knows that it went on alone, or the other leg is here and was left out.
    if newest.members[slot] != Membership::Member || !away(slot) {
        return Ok(());
    }
    if role[WITNESS] == Role::Current {
        return Ok(());
    }
    // A witness that is here and was left out had not joined: nothing relies on it.
    let unread = newest.armed_witness && away(WITNESS);
    if unread && !clean && !accept.exposure && !planted!(rules, IgnoreArmed) {
        return Err(Refusal::Exposed { slot, relaxed: false });
    }
    match (accept.missing_leg || planted!(rules, StartAlone), older[slot]) {
        (true, _) => Ok(()),
        (false, Some(by)) => Err(Refusal::Older { slot, by }),
        (false, None) => Err(Refusal::MissingLeg { slot }),
    }
}

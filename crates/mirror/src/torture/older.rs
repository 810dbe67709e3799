//! Devices that come back as what they once were: an older copy, a snapshot of a running one, a
//! medium that was replaced, a clone that went on without the others. None may pass for a member.

use sim::mix64;

use super::disk::Disk;
use super::media::Devices;
use super::restart::offers;
use super::world::World;
use crate::core::State;
use crate::policy::assemble::{Accept, Refusal};
use crate::recovery::recover;
use crate::types::{DEVICES, LEGS, Slot, WITNESS};

/// What a device once was.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    slot: Slot,
    disk: Disk,
    /// Since then the array was started or stopped in order, and all members know.
    outdated: bool,
}

/// The device whose place an older one has taken, and what belongs there.
#[derive(Clone, Debug)]
pub(super) struct Aside {
    slot: Slot,
    disk: Disk,
}

impl World<'_> {
    /// Keep what is on a device now, as a copy made without its cache.
    pub(super) fn keep(&mut self, slot: Slot) {
        let mut disk = self.disks[slot].clone();
        disk.settle();
        if disk.superblock().is_ok() {
            self.say(format_args!("! a copy of {slot} is kept"));
            self.kept = Some(Kept { slot, disk, outdated: false });
        }
    }

    /// The power is off and all is well: keep a copy of a device, or let a clone of it and of all
    /// others be started by somebody else.
    pub(super) fn keep_at_rest(&mut self) {
        let slot = self.rng.below(DEVICES as u64) as Slot;
        if self.kept.is_some() || self.aside.is_some() || self.devices[slot].absent {
            return;
        }
        match self.rng.below(4) {
            0 => self.keep(slot),
            1 => self.clone_apart(slot),
            _ => {}
        }
    }

    fn clone_apart(&mut self, slot: Slot) {
        let mut disks = self.disks.clone();
        let offers = offers(&disks, |slot| slot < LEGS || self.plan.witness);
        let mut media =
            Devices { disks: &mut disks, zeros: &self.zeros, steps: u64::MAX, flying: None };
        let entropy = u128::from(mix64(self.rng.next_u64()));
        let rules = self.plan.config.rules;
        if recover(&rules, &mut media, &offers, Accept::default(), entropy).is_ok() {
            self.say(format_args!("! clones were started; that of {slot} is kept"));
            let disk = disks[slot].clone();
            self.kept = Some(Kept { slot, disk, outdated: false });
        }
    }

    /// All members have seen a start through, or stopped in order.
    pub(super) fn outdate(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.outdated = true;
        }
    }

    /// The power is off and all was well: what is kept of a device takes its place. True if so.
    pub(super) fn put_back_older(&mut self) -> bool {
        let usable = self.kept.as_ref().is_some_and(|kept| {
            kept.outdated
                && (0..DEVICES).all(|slot| {
                    !self.devices[slot].absent || (slot == WITNESS && !self.plan.witness)
                })
        });
        if !usable || self.rng.below(3) > 0 {
            return false;
        }
        let Some(Kept { slot, disk, .. }) = self.kept.take() else { return false };
        self.say(format_args!("! {slot} comes back as an older one"));
        self.report.faults += 1;
        let disk = std::mem::replace(&mut self.disks[slot], disk);
        self.aside = Some(Aside { slot, disk });
        true
    }

    /// A start is refused while an older one is in the place of a device: the operator puts the
    /// right one back, or goes on without. False when it has another reason.
    pub(super) fn answer_older(&mut self, refusal: &Refusal, accept: &mut Accept) -> bool {
        let Some(slot) = self.aside.as_ref().map(|aside| aside.slot) else { return false };
        let by_name = match *refusal {
            Refusal::Older { slot: older, by } => older == slot && by < LEGS,
            Refusal::SplitBrain { .. } | Refusal::Exposed { relaxed: false, .. } => false,
            _ => return false,
        };
        if by_name && self.rng.below(2) == 0 {
            self.devices[slot].absent = true;
            accept.missing_leg = true;
        } else if let Some(Aside { slot, disk }) = self.aside.take() {
            self.disks[slot] = disk;
            // What was accepted was accepted for want of it.
            *accept = Accept::default();
        }
        true
    }

    /// The array started: did an older one pass for a member?
    pub(super) fn older_started(&mut self, state: &[State; DEVICES]) -> Option<Slot> {
        let Aside { slot, .. } = self.aside.take()?;
        (slot < LEGS && state[slot] == State::Member).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::core::{Meta, Opened};
    use crate::format::Layout;
    use crate::format::maps::{Activity, BITS_PER_PAGE, Bitmap, SUMS_PER_PAGE, TablePage};
    use crate::format::superblock::Generations;
    use crate::torture::disk::Effect;
    use crate::torture::plan::TorturePlan;
    use crate::torture::restart::create;
    use crate::types::{FAST, SLOW};

    /// A start with a slow leg that must be filled whole, over these maps of its own. Nothing is
    /// recorded on the fast leg but that no extent is hot.
    fn filled_over(maps: [Meta; 3]) -> Opened {
        let mut plan = TorturePlan::new(1, 1);
        plan.witness = false;
        let mut disks = [(); DEVICES].map(|()| Disk::new(&plan.geometry));
        create(&plan, &mut disks);
        let apply = |disk: &mut Disk, meta| disk.apply(&Effect::Meta(Rc::new(meta)));
        let write = |disk: &mut Disk, superblock: crate::format::Superblock| {
            for copy in Layout::copies_of(superblock.update) {
                let superblock = Box::new(superblock.clone());
                apply(disk, Meta::Superblock { copy, superblock });
            }
        };
        let [fast, slow] = [FAST, SLOW].map(|leg| disks[leg].superblock().unwrap());
        disks[FAST] = Disk::new(&plan.geometry);
        apply(&mut disks[FAST], Meta::Activity(Activity { version: 1, hot: Vec::new() }));
        write(&mut disks[FAST], fast);
        let generations = Generations::default();
        let update = slow.update + 1;
        write(&mut disks[SLOW], crate::format::Superblock { generations, update, ..slow });
        maps.into_iter().for_each(|meta| apply(&mut disks[SLOW], meta));
        let offers = offers(&disks, |slot| slot < LEGS);
        let zeros = Default::default();
        let mut media = Devices { disks: &mut disks, zeros: &zeros, steps: u64::MAX, flying: None };
        recover(&plan.config.rules, &mut media, &offers, Accept::default(), 7).unwrap()
    }

    /// Else they would be newer than what it is given from now on, and be believed at a later
    /// start.
    #[test]
    fn what_a_leg_that_is_filled_has_of_maps_is_outdone() {
        let sums = vec![(7, 1); SUMS_PER_PAGE as usize];
        let words = vec![0; (BITS_PER_PAGE / 64) as usize];
        for newest in 0..3 {
            let version = |map| if map == newest { 1001 } else { 900 };
            let opened = filled_over([
                Meta::Activity(Activity { version: version(0), hot: Vec::new() }),
                Meta::Bitmap(Bitmap { version: version(1), index: 0, words: words.clone() }),
                Meta::Table(TablePage { version: version(2), index: 0, sums: sums.clone() }),
            ]);
            assert_eq!(opened.state[SLOW], State::Filling);
            assert!(opened.map_version > 1001, "{newest}: {}", opened.map_version);
            // The next one does not overwrite that before it is whole.
            assert_eq!(opened.activity[SLOW], version(0));
            // What only that leg has will be written over.
            let page = opened.table.page(0).expect("the page is known");
            assert!(page.iter().all(|&entry| entry == (0, 0)));
        }
    }
}

//! Power cuts, what is lost with them, and starting again.

use sim::{Nanos, mix64};

use super::disk::{self, Disk};
use super::history::Violation;
use super::media::{Devices, PowerCut};
use super::plan::TorturePlan;
use super::world::World;
use crate::core::{Command, Core, Event, Meta, Opened, State};
use crate::format::Superblock;
use crate::format::maps::{Activity, SUMS_PER_PAGE, TablePage};
use crate::format::superblock::{Generations, Membership, Seen};
use crate::policy::assemble::{Accept, Offer, Refusal};
use crate::recovery::{Failed, recover};
use crate::types::{DEVICES, LEGS, Slot, WITNESS};

/// Attempts at a start: every refusal is answered by one thing that makes the next one better.
const ATTEMPTS: u32 = 50;

/// Make a new array on blank devices.
pub(super) fn create(plan: &TorturePlan, disks: &mut [Disk; DEVICES]) {
    let witness = if plan.witness { Membership::Member } else { Membership::Never };
    for (slot, disk) in disks.iter_mut().enumerate() {
        if slot == WITNESS && !plan.witness {
            continue;
        }
        let superblock = Box::new(Superblock {
            array: 0xb10c,
            device: slot as u8,
            identity: slot as u128 + 1,
            features: [0; 3],
            geometry: plan.geometry,
            update: 1,
            incarnation: 1,
            generations: Generations { current: 1, ..Generations::default() },
            members: [Membership::Member, Membership::Member, witness],
            mode: plan.config.rules.mode,
            clean: true,
            armed_relaxed: false,
            armed_witness: false,
            log_first: 1,
            run: 0,
            seen: std::array::from_fn(|slot| match slot == WITNESS && !plan.witness {
                true => Seen::default(),
                false => Seen { identity: slot as u128 + 1, update: 1, run: 0 },
            }),
        });
        let mut apply = |meta| disk.apply(&disk::Effect::Meta(std::rc::Rc::new(meta)));
        for copy in crate::format::Layout::copies_of(1) {
            apply(Meta::Superblock { copy, superblock: superblock.clone() });
        }
        if slot < LEGS {
            apply(Meta::Activity(Activity { version: 1, hot: Vec::new() }));
            let mut sums = vec![(0, 0); SUMS_PER_PAGE as usize];
            for (block, entry) in (0..plan.geometry.blocks).zip(&mut sums) {
                *entry = (disk::sum(block, 0), 1);
            }
            apply(Meta::Table(TablePage { version: 1, index: 0, sums }));
        }
    }
}

pub(super) fn offers(disks: &[Disk; DEVICES], there: impl Fn(Slot) -> bool) -> Vec<Offer> {
    let slots = (0..DEVICES).filter(|&slot| there(slot));
    slots.map(|slot| Offer { superblock: disks[slot].superblock(), pages: 1 << 40 }).collect()
}

/// The first start.
pub(super) fn open(plan: &TorturePlan, disks: &mut [Disk; DEVICES]) -> Result<Opened, Violation> {
    let offers = offers(disks, |slot| slot < LEGS || plan.witness);
    let zeros = Default::default();
    let mut media = Devices { disks, zeros: &zeros, steps: u64::MAX, flying: None };
    let entropy = u128::from(mix64(plan.seed));
    recover(&plan.config.rules, &mut media, &offers, Accept::default(), entropy)
        .map_err(|failed| Violation(format!("a new array does not start: {failed:?}")))
}

impl World<'_> {
    /// The power is cut; some devices may be gone with it; start again.
    pub(super) fn power_cut(&mut self) -> Result<(), Violation> {
        self.report.power_cuts += 1;
        self.history.check()?;
        let well = self.all_well();
        let stale = self.left_out();
        self.mend_before_cut();
        for slot in 0..DEVICES {
            let effects = self.flying_on(slot);
            let refs: Vec<_> = effects.iter().collect();
            self.disks[slot].power_cut(&refs, &mut self.rng);
        }
        self.forget_requests();
        for slot in 0..DEVICES {
            self.comes_with_power(slot);
        }
        let older = well && self.latent.is_empty() && self.put_back_older();
        if well && !older {
            self.keep_at_rest();
        }
        if older {
            // One fault at a time.
        } else if well && self.latent.is_empty() && self.rng.below(5) < 2 {
            let slot = self.rng.below(DEVICES as u64) as Slot;
            if self.core.states()[slot] == State::Member {
                self.report.losses += 1;
                self.devices[slot].absent = true;
                self.devices[slot].blank = self.rng.below(2) == 0;
            }
        } else if well && self.latent.is_empty() && self.rng.below(3) == 0 {
            self.rot_metadata();
        } else if self.rng.below(3) == 0 {
            self.stale_leg_first();
        }
        self.leaving = self.core.states().map(|state| state == State::Leaving);
        let there = self.devices.each_ref().map(|device| !device.absent);
        self.say(format_args!("! power cut; there: {there:?}, stale: {stale:?}"));
        self.relaxed_may_lose();
        self.restart(stale)
    }

    /// Which devices do not hold what the members do?
    fn left_out(&self) -> [bool; DEVICES] {
        self.core.states().map(|state| matches!(state, State::Out | State::Filling))
    }

    /// The leg that was left out is found first, the one that went on only later.
    fn stale_leg_first(&mut self) {
        let states = self.core.states();
        for leg in 0..LEGS {
            let current = 1 - leg;
            if states[leg] == State::Out
                && states[current] == State::Member
                && !self.devices[leg].blank
                && self.disks[leg].superblock().is_ok()
                && !self.nobody_knows(leg)
            {
                self.devices[leg].absent = false;
                self.devices[current].absent = true;
            }
        }
    }

    /// Were this leg and the witness left out at once, neither hearing of the other? They agree
    /// then, and without the leg that went on nothing says otherwise. See docs/mirror.md.
    fn nobody_knows(&self, leg: Slot) -> bool {
        let generation = |slot: Slot| {
            let superblock = self.disks[slot].superblock();
            superblock.map_or(0, |own| own.generations.current)
        };
        self.left_out()[WITNESS] && generation(leg) == generation(WITNESS)
    }

    /// A page of metadata of one device rots while the power is off.
    fn rot_metadata(&mut self) {
        let slot = self.rng.below(DEVICES as u64) as Slot;
        let kind = self.rng.below(5);
        if kind == 4 {
            return self.lose_activity(slot);
        }
        let superblock = self.disks[slot].superblock();
        // In relaxed mode a flush may rely on one record alone: that is its bargain.
        let lone_record = kind == 1 && superblock.as_ref().is_ok_and(|own| own.armed_relaxed);
        if superblock.is_ok() && !lone_record && self.disks[slot].rot_metadata(kind, &mut self.rng)
        {
            self.say(format_args!("! metadata of kind {kind} rots on {slot}"));
            self.report.faults += 1;
        }
    }

    /// The activity log of a leg, or of both, cannot be read.
    fn lose_activity(&mut self, slot: Slot) {
        self.say(format_args!("! no activity log can be read on {slot}; 2: on any leg"));
        self.report.faults += 1;
        for leg in (0..LEGS).filter(|&leg| slot == leg || slot == WITNESS) {
            self.disks[leg].lose_activity();
        }
    }

    /// What a device is after the power came back.
    fn comes_with_power(&mut self, slot: Slot) {
        let out = self.core.states()[slot] != State::Member;
        let stays_away = out && self.rng.below(2) == 0;
        let device = &mut self.devices[slot];
        (device.stalled_until, device.hung, device.errors) = (0, false, 0);
        (device.blind_until, device.slow.1) = (0, 0);
        device.misreads = false;
        device.failing = false;
        // A lost medium stays lost; a device that was out may be there or not.
        device.absent = device.blank || stays_away || (slot == WITNESS && !self.plan.witness);
    }

    /// A wrong copy whose right checksum is not on media, or whose block an older log record names,
    /// cannot be told from a right one after a power cut: two faults at once, which the mirror
    /// does not promise to survive. See docs/mirror.md.
    fn mend_before_cut(&mut self) {
        for latent in std::mem::take(&mut self.latent) {
            let block = latent.block as usize;
            let settled = (0..LEGS).all(|leg| {
                leg == latent.slot
                    || (self.disks[leg].is_stable(latent.block)
                        && self.disks[leg].data[block] == latent.right)
            });
            let written = (0..LEGS).any(|leg| {
                let effects = self.flying_on(leg);
                let refs: Vec<_> = effects.iter().collect();
                self.disks[leg].versions(&refs).iter().any(|&(b, _)| b == latent.block)
            });
            let logged = self.disks.iter().any(|disk| disk.logs(latent.block));
            if settled && !written && !logged {
                self.latent.push(latent);
            } else {
                self.disks[latent.slot].set(latent.block, latent.right);
            }
        }
    }

    fn forget_requests(&mut self) {
        self.events.clear();
        self.flying.clear();
        self.free.clear();
        self.buffers.clear();
        self.requests.clear();
        self.merges.clear();
        self.outstanding = 0;
        self.stopped = false;
    }

    /// Stop in order and start again: nothing may be lost, nothing need be recovered. A leg that
    /// was alone may have the other one back then, which nobody stopped.
    pub(super) fn clean_restart(&mut self) -> Result<(), Violation> {
        if !self.all_well() && !self.alone_and_well() {
            return Ok(());
        }
        self.drain()?;
        self.tell(Event::Command(Command::Stop));
        for _ in 0..100_000 {
            if self.stopped || !self.step() {
                break;
            }
        }
        if let Some(violation) = self.trouble.take() {
            return Err(violation);
        }
        if !self.stopped {
            return Err(Violation("the array does not stop (I7)".into()));
        }
        self.history.check()?;
        self.converged()?;
        self.mend_before_cut();
        // A freeze may outlast the drain: a leg that is left out for it meanwhile is told nothing.
        let stale = self.left_out();
        let says_so = |leg: Slot| self.disks[leg].superblock().is_ok_and(|own| own.clean);
        if !(0..LEGS).filter(|&leg| !stale[leg]).all(says_so) {
            return Err(Violation("it stopped, but does not say so on media".into()));
        }
        self.forget_requests();
        (0..DEVICES).filter(|&slot| stale[slot]).for_each(|slot| self.comes_with_power(slot));
        self.outdate();
        // One fault at a time.
        let well = stale == [false; DEVICES] && self.latent.is_empty();
        if well && !self.put_back_older() {
            self.keep_at_rest();
        }
        self.restart(stale)
    }

    /// Start, answering refusals as an operator would, with power cuts inside recovery.
    fn restart(&mut self, stale: [bool; DEVICES]) -> Result<(), Violation> {
        self.report.stats.add(self.core.stats());
        let mut accept = Accept::default();
        for _ in 0..ATTEMPTS {
            let steps = if self.rng.below(3) == 0 { self.rng.below(40) } else { u64::MAX };
            let entropy = u128::from(self.rng.next_u64()) << 64 | u128::from(self.next_id);
            let (devices, witness) = (&self.devices, self.plan.witness);
            let there = |slot: Slot| !devices[slot].absent && (slot != WITNESS || witness);
            let offers = offers(&self.disks, there);
            let (disks, zeros) = (&mut self.disks, &self.zeros);
            let mut media = Devices { disks, zeros, steps, flying: None };
            let rules = self.plan.config.rules;
            match recover(&rules, &mut media, &offers, accept, entropy) {
                Ok(opened) => return self.started(opened, stale, accept),
                Err(Failed::Device(PowerCut)) => {
                    let flying = media.flying.take();
                    self.say(format_args!("! power cut after {steps} writes of recovery"));
                    self.report.recovery_cuts += 1;
                    for slot in 0..DEVICES {
                        let out: Vec<_> = { flying.iter() }
                            .filter(|(on, _)| *on == slot)
                            .map(|(_, effect)| effect)
                            .collect();
                        self.disks[slot].power_cut(&out, &mut self.rng);
                    }
                }
                Err(Failed::Refused(refusal)) => {
                    self.report.refusals += 1;
                    self.say(format_args!("! refused: {refusal}"));
                    self.answer(&refusal, stale, &mut accept)?;
                }
            }
        }
        Err(Violation("the array does not start".into()))
    }

    /// What an operator does about a refusal.
    fn answer(
        &mut self,
        refusal: &Refusal,
        stale: [bool; DEVICES],
        accept: &mut Accept,
    ) -> Result<(), Violation> {
        let wrong = || Err(Violation(format!("a start is refused without reason: {refusal}")));
        if self.answer_older(refusal, accept) {
            return Ok(());
        }
        match *refusal {
            Refusal::MissingLeg { slot }
                if self.devices[slot].absent || self.disks[slot].superblock().is_err() =>
            {
                match stale[1 - slot] {
                    true => self.find(slot),
                    false => accept.missing_leg = true,
                }
                Ok(())
            }
            Refusal::Stale { slot } | Refusal::Older { slot, .. }
                if stale[slot] || self.leaving[slot] =>
            {
                self.find(1 - slot);
                Ok(())
            }
            Refusal::Exposed { slot, relaxed: true } => {
                match stale[1 - slot]
                    || self.devices[slot].absent
                        && !self.devices[slot].blank
                        && self.rng.below(2) == 0
                {
                    true => self.find(slot),
                    false => accept.exposure = true,
                }
                Ok(())
            }
            Refusal::Exposed { relaxed: false, .. } if self.devices[WITNESS].absent => {
                self.find(WITNESS);
                Ok(())
            }
            // The leg that is there was not told of its own leaving, and the witness is a new
            // medium by now: only the leg that went on can say that nothing is missing.
            Refusal::Exposed { slot, relaxed: false }
                if stale[1 - slot]
                    && self.devices[slot].absent
                    && self.disks[WITNESS].superblock().is_err() =>
            {
                self.find(slot);
                Ok(())
            }
            _ => wrong(),
        }
    }

    /// A device that was missing is found.
    fn find(&mut self, slot: Slot) {
        self.devices[slot].absent = false;
    }

    /// The array started: is what it holds what it may hold?
    fn started(
        &mut self,
        opened: Opened,
        stale: [bool; DEVICES],
        accept: Accept,
    ) -> Result<(), Violation> {
        self.say(format_args!("! started: {:?} {:?}", opened.state, opened.superblock));
        let legs: Vec<Slot> = (0..LEGS).filter(|&leg| opened.state[leg] == State::Member).collect();
        if let Some(&leg) = legs.iter().find(|&&leg| stale[leg]) {
            let text = format!("the stale leg {leg} started as current (I8)");
            return Err(Violation(text));
        }
        if let Some(leg) = self.older_started(&opened.state) {
            let text = format!("an older copy of leg {leg} started as current (I8)");
            return Err(Violation(text));
        }
        self.outdate();
        let Some(&leg) = legs.first() else {
            return Err(Violation("it started without a leg".into()));
        };
        if let [a, b] = legs[..] {
            let (a, b) = (&self.disks[a].data, &self.disks[b].data);
            let latent = |block: usize| self.latent.iter().any(|l| l.block == block as u64);
            let lost = |block: usize| opened.table.is_lost(block as u64);
            let differs = |&block: &usize| a[block] != b[block] && !latent(block) && !lost(block);
            if let Some(block) = (0..a.len()).find(differs) {
                return Err(Violation(format!(
                    "block {block}: after recovery the legs hold {:#x} and {:#x} (I4)",
                    a[block], b[block]
                )));
            }
        }
        let mut contents = self.disks[leg].data.clone();
        for latent in self.latent.iter().filter(|latent| latent.slot == leg) {
            contents[latent.block as usize] = latent.right;
        }
        self.lost_at_start(&opened.table, &mut contents)?;
        match accept.exposure {
            true => {
                let blocks = self.plan.config.exposed_blocks_max;
                self.history.check_prefix(&contents, blocks, self.steady)?;
            }
            false => self.history.check_survivors(&contents)?,
        }
        self.history.restart(contents.into_iter());
        let mode = opened.superblock.mode;
        let mut config = self.plan.config.clone();
        config.rules.mode = mode;
        self.steady = opened.state[..LEGS] == [State::Member; LEGS];
        let time = self.running.look(Nanos(self.now));
        self.core = Core::new(config, opened, time);
        self.losable_again();
        self.act();
        Ok(())
    }
}

//! Faults. At most one device at a time is in trouble, and a wrong copy is never the only one:
//! the mirror promises no more.

use sim::Nanos;

use super::world::{Flying, Latent, Op, World};
use super::{Violation, disk};
use crate::core::{Command, Event, State};
use crate::format::maps::SUMS_PER_PAGE;
use crate::types::{DEVICES, LEGS, Mode, Slot};

const MS: u64 = 1_000_000;

impl World<'_> {
    /// Perhaps something breaks.
    pub(super) fn inject(&mut self) -> Result<(), Violation> {
        let rates = self.plan.rates;
        let kinds = [
            rates.freeze,
            rates.hang,
            rates.error,
            rates.vanish,
            rates.corrupt,
            rates.cut,
            rates.operator,
            rates.unreadable,
            rates.slow,
            rates.pause,
        ];
        let mut draw = self.rng.below(10_000);
        for (kind, rate) in kinds.into_iter().enumerate() {
            if draw < rate {
                return self.inject_kind(kind);
            }
            draw -= rate;
        }
        self.bring_back();
        Ok(())
    }

    fn inject_kind(&mut self, kind: usize) -> Result<(), Violation> {
        let slot = self.rng.below(DEVICES as u64) as Slot;
        self.report.faults += 1;
        self.say(format_args!("! fault {kind} on {slot}"));
        match kind {
            0 if self.may_freeze() => {
                let device = &mut self.devices[slot];
                let time = 5 * MS + self.rng.below(2000 * MS) / (1 + self.rng.below(20));
                device.stalled_until = device.stalled_until.max(self.now + time);
                device.late_at = Some(self.running.at(Nanos(device.stalled_until)));
            }
            1 if self.all_well() => {
                let time = (5_000 + self.rng.below(20_000)) * MS;
                let device = &mut self.devices[slot];
                (device.stalled_until, device.hung) = (self.now + time, true);
                device.late_at = Some(self.running.at(Nanos(device.stalled_until)));
            }
            2 if self.all_well() => self.devices[slot].errors = 1 + self.rng.below(6) as u32,
            3 if self.all_well() => self.vanish(slot),
            4 if self.all_well() => self.corrupt(slot % LEGS),
            5 => return self.power_cut(),
            6 => return self.operate(slot),
            7 => self.spoil(slot % LEGS),
            8 if self.all_well() => {
                let (each, long) = (50 + self.rng.below(4000), 1000 + self.rng.below(20_000));
                self.devices[slot].slow = (each * MS, self.now + long * MS);
            }
            9 => self.now += (1000 + self.rng.below(19_000)) * MS,
            _ => self.report.faults -= 1,
        }
        Ok(())
    }

    /// Is nothing in trouble, so that the next thing may be?
    pub(super) fn all_well(&self) -> bool {
        self.well_but_for(None)
    }

    /// The same, but that one leg has been left out.
    pub(super) fn alone_and_well(&self) -> bool {
        let out = (0..LEGS).find(|&leg| self.core.states()[leg] == State::Out);
        out.is_some() && self.well_but_for(out)
    }

    fn well_but_for(&self, out: Option<Slot>) -> bool {
        let fine = |slot: Slot| {
            let device = &self.devices[slot];
            let there = match self.core.states()[slot] {
                State::Never => true,
                State::Member => !device.absent,
                _ => false,
            };
            let readable = { self.disks[slot].unreadable.iter() }.all(|&b| self.core.is_lost(b));
            there
                && readable
                && device.slow.1 <= self.now
                && device.blind_until <= self.now
                && !device.misreads
                && !device.is_broken()
                && (self.is_patient() || device.stalled_until <= self.now)
        };
        let read = self.requests.keys().next().is_none_or(|&first| first > self.misread_until);
        let others = (0..DEVICES).filter(|&slot| Some(slot) != out);
        read && self.latent.is_empty() && { others }.all(fine)
    }

    /// Does every freeze end before the device is left out for it?
    fn is_patient(&self) -> bool {
        self.plan.config.lag.slow.is_none()
    }

    /// A freeze for which a device is left out must not meet one that broke and that nobody has
    /// noticed.
    fn may_freeze(&self) -> bool {
        let broken = |slot: Slot| {
            let device = &self.devices[slot];
            self.core.states()[slot] == State::Member && (device.absent || device.is_broken())
        };
        self.is_patient() || !(0..DEVICES).any(broken)
    }

    /// A device loses its power: its cache is gone and every request fails until it is back.
    fn vanish(&mut self, slot: Slot) {
        let effects = self.flying_on(slot);
        let refs: Vec<_> = effects.iter().collect();
        self.disks[slot].power_cut(&refs, &mut self.rng);
        // What was out has had its chance to land.
        for flying in self.flying.iter_mut().flatten().filter(|flying| flying.slot == slot) {
            if let Op::Write(_) = flying.op {
                flying.op = Op::Flush(0);
            }
        }
        self.devices[slot].failing = true;
    }

    pub(super) fn flying_on(&self, slot: Slot) -> Vec<disk::Effect> {
        let out = self.flying.iter().flatten();
        out.filter_map(|flying| match flying {
            Flying { slot: on, op: Op::Write(effect), .. } if *on == slot => Some(effect.clone()),
            _ => None,
        })
        .collect()
    }

    /// A copy becomes wrong on one leg: rot, a lost write, a misdirected write. All look alike
    /// afterwards: the block holds something that is not its newest content.
    fn corrupt(&mut self, leg: Slot) {
        let block = self.rng.below(self.plan.geometry.blocks);
        let right = self.disks[leg].data[block as usize];
        let stable = self
            .disks
            .iter()
            .take(LEGS)
            .all(|disk| disk.is_stable(block) && disk.data[block as usize] == right);
        // Somebody must know the right checksum, in memory and on media.
        let known = (0..LEGS).all(|leg| {
            let page = self.disks[leg].table();
            page.is_some_and(|page| {
                page.sums[(block % SUMS_PER_PAGE) as usize].0 == disk::sum(block, right)
            })
        });
        let written = self.flying.iter().flatten().any(|flying| match &flying.op {
            Op::Write(disk::Effect::Data { start, blocks, .. }) => {
                (*start..start + u64::from(*blocks)).contains(&block)
            }
            _ => false,
        });
        if !stable || !known || written {
            self.report.faults -= 1;
            return;
        }
        match self.rng.below(4) {
            // A misdirected read.
            3 => {
                self.devices[leg].misreads = true;
                return;
            }
            // Rot: up to 64 bits flip.
            0 => {
                let bits = self.rng.next_u64() | 1;
                self.disks[leg].rot(block, bits);
            }
            // Another block's content: a misdirected write.
            1 => {
                let from = self.rng.below(self.plan.geometry.blocks);
                let content = self.disks[leg].data[from as usize];
                self.disks[leg].set(block, content);
            }
            // Old content: a lost write.
            _ => {
                let old = self.history.older(2 * block as usize, right as u32);
                self.disks[leg].set(block, u64::from(old) << 32 | u64::from(old));
            }
        }
        if self.disks[leg].data[block as usize] != right {
            let latent = Latent { slot: leg, block, right };
            self.say(format_args!("! corrupt: {latent:x?}"));
            self.latent.push(latent);
        }
    }

    /// The operator does something.
    fn operate(&mut self, slot: Slot) -> Result<(), Violation> {
        match self.rng.below(12) {
            0..3 => self.tell(Event::Command(Command::Scrub)),
            3..7 => {
                let modes = [Mode::Strict, Mode::Log, Mode::Relaxed];
                self.steady = false;
                let mode = modes[self.rng.below(3) as usize];
                self.tell(Event::Command(Command::SetMode(mode)));
            }
            7 if self.all_well() => self.tell(Event::Command(Command::Fail(slot))),
            8 if self.all_well() && self.core.states()[slot] == State::Member => {
                // Requests that are out on the old medium fail at once.
                self.fail_flying(slot);
                self.keep(slot);
                self.disks[slot] = disk::Disk::new(&self.plan.geometry);
                self.tell(Event::Command(Command::Replace(slot)));
            }
            9 => return self.clean_restart(),
            10 if self.all_well() => self.keep(slot),
            11 => return self.change_alike(),
            _ => {}
        }
        Ok(())
    }

    /// Every request that is out on a device never happens.
    pub(super) fn fail_flying(&mut self, slot: Slot) {
        for flying in self.flying.iter_mut().flatten().filter(|flying| flying.slot == slot) {
            if let Op::Write(_) = flying.op {
                flying.op = Op::Flush(0);
            }
        }
    }

    /// A device that was in trouble is well again, after a while.
    fn bring_back(&mut self) {
        if self.rng.below(40) == 0 {
            let slot = self.rng.below(DEVICES as u64) as Slot;
            self.bring_back_one(slot);
        }
    }

    fn bring_back_one(&mut self, slot: Slot) {
        let state = self.core.states()[slot];
        let device = &mut self.devices[slot];
        if device.hung && state == State::Out && self.rng.below(2) == 0 {
            // It answers again, but what it was asked before the hang is still to come.
            (device.stalled_until, device.hung) = (self.now, false);
            return;
        }
        if state != State::Out || device.hung {
            return;
        }
        let blank = std::mem::take(&mut device.blank) || !self.core.knows(slot);
        (device.failing, device.absent, device.errors) = (false, false, 0);
        match blank {
            true => {
                self.fail_flying(slot);
                self.disks[slot] = disk::Disk::new(&self.plan.geometry);
                self.tell(Event::Command(Command::Replace(slot)));
            }
            false => self.tell(Event::Returned(slot)),
        }
    }

    /// All devices are well again.
    pub(super) fn heal(&mut self) {
        for slot in 0..DEVICES {
            let device = &mut self.devices[slot];
            device.errors = 0;
            device.failing &= self.core.states()[slot] != State::Member;
            self.bring_back_one(slot);
        }
    }
}

//! Superblock transactions: one content, written to every member before anything relies on it.

use super::event::{Action, Meta};
use super::io::Purpose;
use super::member::State;
use super::{Core, Opened};
use crate::format::Layout;
use crate::format::Superblock;
use crate::format::superblock::{Generations, Membership};
use crate::mutant::planted;
use crate::policy::expect::Work;
use crate::types::{DEVICES, LEGS, Mode, Slot, Span, WITNESS};
use sim::{Loader, Saver, Snapshot, SnapshotError, mix64, snapshot_fields};

/// Pages of the table that a leg that joins is given at a time. Each is as old as the moment at
/// which it was given, so what waits behind too many of them would pass for a leg that hangs; and
/// each is held in memory until then.
const TABLE_PAGES_MAX: u32 = 32;

/// The steps of a join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Join {
    /// Its checksum table is being written and its old log made void: pages that are out, and the
    /// page of the table that comes next.
    Ready { out: u32, next: u64 },
    /// The members record it as one of them, at this version.
    Named(u64),
    /// It records itself, at this version.
    Written(u64),
}

impl Join {
    /// As numbers: which step, and what it carries.
    fn code(self) -> (u8, u64, u32) {
        match self {
            Join::Ready { out, next } => (0, next, out),
            Join::Named(version) => (1, version, 0),
            Join::Written(version) => (2, version, 0),
        }
    }
}

impl Default for Join {
    fn default() -> Join {
        Join::Ready { out: 0, next: 0 }
    }
}

impl Snapshot for Join {
    fn save(&self, to: &mut Saver) {
        self.code().save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let mut code = (0u8, 0, 0);
        code.restore(from)?;
        *self = match code {
            (0, next, out) => Join::Ready { out, next },
            (1, version, _) => Join::Named(version),
            (2, version, _) => Join::Written(version),
            (step, ..) => {
                return Err(SnapshotError::Damaged(format!("{step} is no step of a join")));
            }
        };
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Superblocks {
    content: Superblock,
    /// What was written last to each device.
    own: [Option<Superblock>; DEVICES],
    /// Version of `content`.
    wanted: u64,
    written: [u64; DEVICES],
    /// Copies that are being written.
    in_flight: [u32; DEVICES],
    /// The version that must be everywhere before the device counts as gone.
    settles: [u64; DEVICES],
    join: [Option<Join>; DEVICES],
    entropy: u128,
    drawn: u64,
    /// A mode to change to when the superblocks and the copies allow.
    pub(super) mode_wanted: Option<(Mode, u64)>,
    clean_wanted: Option<u64>,
    /// All members are clean, and the others are being told so.
    clean_told: bool,
}

snapshot_fields!(Superblocks {
    content,
    own,
    wanted,
    written,
    in_flight,
    settles,
    join,
    entropy,
    drawn,
    mode_wanted,
    clean_wanted,
    clean_told,
});

impl Superblocks {
    pub(super) fn new(opened: Opened) -> Superblocks {
        Superblocks {
            content: opened.superblock,
            own: opened.own,
            wanted: 1,
            written: [1; DEVICES],
            in_flight: [0; DEVICES],
            settles: [0; DEVICES],
            join: [None; DEVICES],
            entropy: opened.entropy,
            drawn: 0,
            mode_wanted: None,
            clean_wanted: None,
            clean_told: false,
        }
    }

    /// A new generation id; ids of different starts differ by their entropy.
    fn draw(&mut self) -> u128 {
        self.drawn += 1;
        let half = |seed: u64| u128::from(mix64(seed ^ mix64(self.drawn)));
        let id = half(self.entropy as u64) | half((self.entropy >> 64) as u64) << 64;
        id.max(1)
    }

    /// Has it begun to be recorded as a member?
    pub(super) fn joining(&self, slot: Slot) -> bool {
        matches!(self.join[slot], Some(Join::Named(_) | Join::Written(_)))
    }

    /// Was its superblock read at the start, or written since?
    pub(super) fn knows(&self, slot: Slot) -> bool {
        self.own[slot].is_some()
    }

    pub(super) fn own(&self, slot: Slot) -> Option<&Superblock> {
        self.own[slot].as_ref()
    }

    /// The update that was written last to the device and did not fail.
    pub(super) fn there(&self, slot: Slot) -> u64 {
        self.content.seen[slot].update
    }

    pub(super) fn writing(&self, slot: Slot) -> bool {
        self.in_flight[slot] > 0
    }

    /// It left: nothing is expected of it any more.
    pub(super) fn forget(&mut self, slot: Slot) {
        (self.in_flight[slot], self.join[slot]) = (0, None);
    }
}

impl Core {
    /// A member leaves: a new generation, so that it cannot pass for current later.
    pub(super) fn begin_generation(&mut self, slot: Slot) {
        let id = self.superblocks.draw();
        let content = &mut self.superblocks.content;
        if !planted!(self.config.rules, NoGeneration) {
            let base = content.generations.base;
            let current = content.generations.current;
            content.generations.begin(id);
            content.generations.base = if slot < LEGS { current } else { base };
        }
        content.members[slot] = Membership::Out;
        self.superblocks.wanted += 1;
        self.superblocks.settles[slot] = self.superblocks.wanted;
        if planted!(self.config.rules, LeaveAtOnce) {
            self.superblocks.settles[slot] = 0;
        }
    }

    /// Do all know that this device left who may pass for members after a power cut? One that the
    /// others have begun to name does.
    pub(super) fn superblocks_settled(&self, slot: Slot) -> bool {
        let named = |join: &Option<Join>| matches!(join, Some(Join::Named(_)));
        let untold = planted!(self.config.rules, JoinerUntold);
        (untold || !self.superblocks.join.iter().any(named))
            && self.recorded(self.superblocks.settles[slot])
    }

    /// Is this version on every device that says that it is a member?
    fn recorded(&self, version: u64) -> bool {
        let untold = planted!(self.config.rules, JoinerUntold);
        let counts = |slot: &Slot| {
            if untold {
                self.members[*slot].state == State::Member
            } else {
                self.says_member(*slot)
            }
        };
        (0..DEVICES).filter(counts).all(|slot| self.superblocks.written[slot] >= version)
    }

    /// A member, or one that is writing that it is.
    fn says_member(&self, slot: Slot) -> bool {
        self.members[slot].state == State::Member
            || matches!(self.superblocks.join[slot], Some(Join::Written(_)))
    }

    pub(super) fn pump_superblocks(&mut self) {
        for slot in 0..DEVICES {
            let all = &self.superblocks;
            if self.says_member(slot) && all.in_flight[slot] == 0 && all.written[slot] < all.wanted
            {
                let superblock = Box::new(self.superblock_of(slot));
                self.write_superblock(slot, superblock);
            }
        }
        self.pump_mode();
        self.disarm();
    }

    fn superblock_of(&self, slot: Slot) -> Superblock {
        let all = &self.superblocks;
        Superblock {
            device: slot as u8,
            identity: all.own[slot].as_ref().map_or(0, |own| own.identity),
            log_first: self.logs[slot].first_of_run(),
            ..all.content.clone()
        }
    }

    fn write_superblock(&mut self, slot: Slot, mut superblock: Box<Superblock>) {
        let all = &mut self.superblocks;
        let before = all.own[slot].as_ref().map_or(0, |own| own.update);
        superblock.update = all.content.seen[slot].next_update(before);
        all.own[slot] = Some(Superblock::clone(&superblock));
        let version = all.wanted;
        for copy in Layout::copies_of(superblock.update) {
            self.superblocks.in_flight[slot] += 1;
            let purpose = Purpose::Superblock { version };
            let io = self.issue(slot, purpose, Work::Write, Span::new(0, 1));
            let meta = Meta::Superblock { copy, superblock: superblock.clone() };
            self.out.push(Action::Meta { io, slot, meta });
        }
    }

    /// A new medium says that it is being filled, so that nobody takes it for more.
    pub(super) fn write_blank_superblock(&mut self, slot: Slot) {
        let id = self.superblocks.draw();
        let mut superblock = Box::new(self.superblock_of(slot));
        superblock.identity = id;
        superblock.generations = Generations::default();
        self.write_superblock(slot, superblock);
    }

    pub(super) fn superblock_done(&mut self, slot: Slot, version: u64) {
        self.superblocks.in_flight[slot] -= 1;
        if self.superblocks.in_flight[slot] > 0 {
            return;
        }
        // What is written to the others from now on tells them.
        if let Some(own) = &self.superblocks.own[slot] {
            self.superblocks.content.seen[slot] = own.as_seen();
        }
        if let Some(Join::Ready { out, .. }) = &mut self.superblocks.join[slot] {
            *out -= 1;
            return;
        }
        if self.members[slot].state != State::Filling {
            self.superblocks.written[slot] = version;
        }
    }

    /// One step of a join. The order matters: first the members name it, so that none of them
    /// takes itself for the sole survivor later; then it says so itself.
    pub(super) fn join_step(&mut self, slot: Slot) {
        let next = match self.superblocks.join[slot] {
            None => {
                let next = if slot < LEGS { 0 } else { self.table.pages() };
                Join::Ready { out: self.void_log(slot), next }
            }
            Some(Join::Ready { out, next }) if next < self.table.pages() => {
                // What a checkpoint writes of the table may be the same page at the same place.
                if out >= TABLE_PAGES_MAX || self.activity.in_checkpoint() {
                    return;
                }
                self.write_table(slot, out, next)
            }
            Some(Join::Ready { out: 0, .. }) if slot == WITNESS || self.activity_complete(slot) => {
                let content = &mut self.superblocks.content;
                content.members[slot] = Membership::Member;
                content.armed_witness |= slot == WITNESS;
                content.armed_relaxed |= content.mode == Mode::Relaxed;
                self.superblocks.wanted += 1;
                self.superblocks.written[slot] = 0;
                match planted!(self.config.rules, JoinBackwards) {
                    true => Join::Written(self.superblocks.wanted),
                    false => Join::Named(self.superblocks.wanted),
                }
            }
            Some(Join::Named(version)) if self.recorded(version) => Join::Written(version),
            Some(Join::Written(version)) if self.superblocks.written[slot] >= version => {
                self.superblocks.join[slot] = None;
                if slot < LEGS {
                    self.superblocks.content.generations.base = 0;
                    self.superblocks.wanted += 1;
                }
                return self.joined(slot);
            }
            Some(_) => return,
        };
        self.superblocks.join[slot] = Some(next);
        self.again = true;
    }

    /// The old log of the device says nothing any more. It must say so itself before the others
    /// name it: from then on it may pass for a member that only missed the last news.
    fn void_log(&mut self, slot: Slot) -> u32 {
        self.logs[slot].reset();
        let own = self.superblocks.own[slot].clone();
        let Some(own) = own.filter(|_| !planted!(self.config.rules, KeepOldLog)) else { return 0 };
        let log_first = self.logs[slot].first_of_run();
        self.write_superblock(slot, Box::new(Superblock { log_first, ..own }));
        1
    }

    /// Write the table from page `next` on, as far as the leg is given it at a time.
    fn write_table(&mut self, slot: Slot, mut out: u32, mut next: u64) -> Join {
        while next < self.table.pages() && out < TABLE_PAGES_MAX {
            if let Some(meta) = self.table_page_again(next) {
                let io = self.issue(slot, Purpose::JoinTable, Work::Write, Span::new(0, 1));
                self.out.push(Action::Meta { io, slot, meta });
                out += 1;
            }
            next += 1;
        }
        Join::Ready { out, next }
    }

    pub(super) fn join_table_done(&mut self, slot: Slot) {
        if let Some(Join::Ready { out, .. }) = &mut self.superblocks.join[slot] {
            *out -= 1;
        }
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        if self.superblocks.mode_wanted.is_some() || mode == self.config.rules.mode {
            return;
        }
        self.superblocks.content.mode = mode;
        if mode == Mode::Relaxed {
            // Both legs must know before the first flush relies on one: a frozen one cannot be
            // told later.
            self.superblocks.content.armed_relaxed = true;
        } else {
            self.config.rules.mode = mode;
        }
        self.superblocks.wanted += 1;
        self.superblocks.mode_wanted = Some((mode, self.superblocks.wanted));
        self.writes.recheck_all = true;
    }

    fn pump_mode(&mut self) {
        let Some((mode, version)) = self.superblocks.mode_wanted else { return };
        let recorded = self.recorded(version);
        if mode == Mode::Relaxed {
            let mut relaxed = self.config.rules;
            relaxed.mode = mode;
            let late = planted!(self.config.rules, ArmLate);
            // What is acknowledged already counts against the caps of the new mode.
            if (recorded || late) && self.expose_under(&relaxed) {
                self.config.rules.mode = Mode::Relaxed;
                self.superblocks.mode_wanted = None;
                self.again = true;
            }
        } else if recorded && !self.relies_on_one() {
            if self.superblocks.content.armed_relaxed {
                self.superblocks.content.armed_relaxed = false;
                self.superblocks.wanted += 1;
            }
            self.superblocks.mode_wanted = None;
            self.again = true;
        }
    }

    /// Is a flush acknowledged that one member leg does not hold?
    fn relies_on_one(&self) -> bool {
        self.writes
            .indices()
            .into_iter()
            .any(|index| self.writes.get(index).satisfied && !self.copies_of(index).homes_durable())
    }

    /// In relaxed mode with one leg left, nothing is at risk once that leg holds all.
    fn disarm(&mut self) {
        let armed = self.superblocks.content.armed_relaxed;
        let alone = (0..LEGS).any(|leg| self.members[leg].state == State::Out);
        let steady = self.superblocks.mode_wanted.is_none();
        if armed
            && alone
            && steady
            && self.superblocks.join == [None; DEVICES]
            && !self.relies_on_one()
        {
            self.superblocks.content.armed_relaxed = false;
            self.superblocks.wanted += 1;
            self.again = true;
        }
    }

    /// Stop in order: drain, make every extent cold, then say so, and then say that all have said
    /// so: an older copy of a member cannot pass for it later.
    pub(super) fn pump_stop(&mut self) {
        let busy = |slot: usize| {
            let state = self.members[slot].state;
            matches!(state, State::Leaving | State::Joining)
        };
        if !self.stopping || self.stopped || self.failed || (0..DEVICES).any(busy) {
            return;
        }
        let quiet = self.drained() && self.flushes.is_empty() && self.reads.is_empty();
        if !quiet || !self.activity.is_cold() || !self.marks.is_empty() {
            return;
        }
        match self.superblocks.clean_wanted {
            None => {
                debug_assert!(self.writes.indices().is_empty());
                self.superblocks.content.clean = true;
                self.superblocks.content.armed_relaxed = false;
                self.superblocks.wanted += 1;
                self.superblocks.clean_wanted = Some(self.superblocks.wanted);
                self.again = true;
            }
            Some(version) if self.recorded(version) => {
                let all = &mut self.superblocks;
                if all.clean_told || planted!(self.config.rules, StopUntold) {
                    self.stopped = true;
                    return self.out.push(Action::Stopped);
                }
                (all.clean_told, all.wanted) = (true, all.wanted + 1);
                all.clean_wanted = Some(all.wanted);
                self.again = true;
            }
            Some(_) => {}
        }
    }
}

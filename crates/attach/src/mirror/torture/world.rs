//! One mirror through many starts, cuts and deaths of its server.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use mirror::core::State;
use mirror::format::Superblock;
use mirror::format::superblock::Membership;
use mirror::policy::lag::LagRules;
use mirror::{DEVICES, FAST, LEGS, Mode, SLOW, Slot, WITNESS};
use sim::Rng;

use super::history::History;
use super::host::Host;
use super::machine::Shared;
use super::medium::{End, Medium, Page};
use super::pages;
use crate::clock::Clock;
use crate::mirror::engine::MirrorEngine;
use crate::mirror::media::{Asked, layout_of};
use crate::mirror::open::{Start, open};
use crate::mirror::{CreateOptions, Paths, create};

/// What the host is offered.
const BYTES: u64 = 2 << 20;
const LEG_PAGES: u64 = (18 << 20) / 4096 + 64;
const WITNESS_PAGES: u64 = (5 << 20) / 4096;

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct TorturePlan {
    pub(super) seed: u64,
    pub(super) mode: Mode,
    pub(super) witness: bool,
    /// Through the page cache, by threads.
    pub(super) cached: bool,
    /// Starts of the mirror.
    pub(super) starts: u32,
    /// Most steps from a start to its end, in half of them.
    pub(super) steps: u64,
}

/// What was done.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Tally {
    pub(super) starts: u64,
    pub(super) cuts: u64,
    pub(super) kills: u64,
    pub(super) stops: u64,
    pub(super) cut_starts: u64,
    pub(super) legs_missing: u64,
    pub(super) orders: u64,
    pub(super) replaced: u64,
    pub(super) resynced: u64,
    pub(super) losses_accepted: u64,
}

impl Tally {
    pub(super) fn add(&mut self, more: &Tally) {
        self.starts += more.starts;
        self.cuts += more.cuts;
        self.kills += more.kills;
        self.stops += more.stops;
        self.cut_starts += more.cut_starts;
        self.legs_missing += more.legs_missing;
        self.orders += more.orders;
        self.replaced += more.replaced;
        self.resynced += more.resynced;
        self.losses_accepted += more.losses_accepted;
    }
}

pub(super) struct World {
    pub(super) plan: TorturePlan,
    pub(super) rng: Rng,
    folder: PathBuf,
    files: u32,
    pub(super) machine: Shared,
    /// The number of the medium in each slot and its file.
    pub(super) slots: [(usize, PathBuf); DEVICES],
    /// Gone since a power cut.
    pub(super) absent: Option<Slot>,
    /// A new medium that nobody has told yet what it is.
    pub(super) blank: Option<Slot>,
    /// Both legs and the witness have all: one of them may be lost.
    well: bool,
    pub(super) history: History,
    pub(super) tally: Tally,
    /// What happened, for whoever looks for a fault: a seed does not give the same run again.
    diary: Vec<String>,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Durability is the machine's: memory does as well as a disk, and sooner.
pub(super) fn place() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if direct(&memory) { memory } else { std::env::temp_dir() }
}

/// Are there files past the page cache here?
pub(super) fn direct(folder: &Path) -> bool {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT;
    open(folder, flags, Mode::RUSR | Mode::WUSR).is_ok()
}

impl World {
    pub(super) fn new(plan: TorturePlan) -> World {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("blocklab-torture-{}-{number}", std::process::id());
        let folder = place().join(name);
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let mut world = World {
            plan,
            rng: Rng::new(plan.seed, "array"),
            folder,
            files: 0,
            machine: Shared::new(),
            slots: Default::default(),
            absent: None,
            blank: None,
            well: false,
            history: History::new(BYTES / 512),
            tally: Tally::default(),
            diary: Vec::new(),
        };
        world.insert([LEG_PAGES, LEG_PAGES, WITNESS_PAGES].map(Medium::new));
        let (paths, overwrite) = (world.paths(), Vec::new());
        let (bytes, log_bytes, extent_bytes) = (Some(BYTES), None, 64 << 10);
        let creation =
            CreateOptions { paths, bytes, mode: plan.mode, log_bytes, extent_bytes, overwrite };
        create(&creation).expect("new files make a mirror");
        world
    }

    /// A file for a medium, watched.
    pub(super) fn add(&mut self, medium: Medium) -> (usize, PathBuf) {
        self.files += 1;
        let path = self.folder.join(self.files.to_string());
        (self.machine.insert(&path, medium, self.plan.cached), path)
    }

    fn insert(&mut self, media: [Medium; DEVICES]) {
        let [fast, slow, witness] = media;
        self.slots = [self.add(fast), self.add(slow), self.add(witness)];
    }

    fn paths(&self) -> Paths {
        let [fast, slow, witness] = self.slots.each_ref().map(|(_, path)| path.clone());
        Paths { fast, slow, witness: self.plan.witness.then_some(witness) }
    }

    /// Start, use, and end it so many times.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let all = (0..self.plan.starts).try_for_each(|_| {
            self.tally.starts += 1;
            self.life()?;
            self.next_life()
        });
        all.map_err(|why| format!("{why}\n{}", self.diary.join("\n")))
    }

    /// From a start to the end of the machine.
    fn life(&mut self) -> Result<(), String> {
        let steps = match self.rng.below(4) {
            // In the recovery, or soon after it.
            0 => 1 + self.rng.below(50),
            1 => 1 + self.rng.below(300),
            _ => 1 + self.rng.below(self.plan.steps),
        };
        self.machine.stop_in(steps);
        let mut without = [false; DEVICES];
        if let Some(slot) = self.absent {
            without[slot] = true;
        }
        let mut start = Start { paths: self.paths(), without, accept_loss: false };
        let mut opened = open(&start, &Asked::default());
        if let (Err(_), Some(leg)) = (&opened, self.left_while_exposed()) {
            start.without[leg] = true;
            start.accept_loss = true;
            self.absent = Some(leg);
            self.history.forget();
            self.tally.losses_accepted += 1;
            opened = open(&start, &Asked::default());
        }
        self.note(format!("start {}, up to {steps} steps, without {without:?}", self.tally.starts));
        let opened = opened.map_err(|why| format!("no start: {why}\n{}", self.found()));
        let (devices, opened) = opened?;
        if self.machine.has_stopped() {
            self.tally.cut_starts += 1;
            return Ok(());
        }
        let clock = Clock::start();
        let array = MirrorEngine::new(devices, opened, LagRules::default(), clock.now())
            .map_err(|why| why.to_string())?;
        let mut host = Host::new(self, array, clock);
        let lived = host.live();
        let well = host.was_well();
        host.end();
        lived?;
        self.well = well;
        Ok(())
    }

    /// The machine is off: what is left, in new files.
    fn next_life(&mut self) -> Result<(), String> {
        let before = self.machine.stop();
        let end = [End::PowerCut, End::PowerCut, End::Killed][self.rng.below(3) as usize];
        let mut media: [Medium; DEVICES] =
            self.slots.each_ref().map(|&(number, _)| before[number].after(end, &mut self.rng));
        match end {
            End::PowerCut => self.tally.cuts += 1,
            End::Killed => self.tally.kills += 1,
        }
        let said = [FAST, SLOW].map(|leg| pages::superblock(&before[self.slots[leg].0], leg));
        for leg in 0..LEGS {
            // The maps of one that is left out are written anew when it joins, until which nothing
            // relies on them.
            let member = |by: &Superblock| by.members[leg] == Membership::Member;
            if said.iter().flatten().all(member) {
                pages::none_lost(&before[self.slots[leg].0], &media[leg], leg)?;
            }
        }
        self.blank = (0..LEGS).find(|&leg| pages::superblock(&media[leg], leg).is_none());
        self.note(format!("{end:?}, well {}, blank {:?}", self.well, self.blank));
        match self.absent {
            _ if self.blank.is_some() => self.absent = self.blank,
            Some(_) if self.rng.below(2) == 0 => self.absent = None,
            None if self.well && end == End::PowerCut && self.rng.below(3) > 0 => {
                let count = if self.plan.witness { DEVICES } else { LEGS };
                self.absent = Some(self.rng.below(count as u64) as Slot);
                self.tally.legs_missing += 1;
                self.well = false;
            }
            _ => {}
        }
        // A leg that is alone has nothing but its own log to go by.
        let leg = [FAST, SLOW][self.rng.below(2) as usize];
        if end == End::PowerCut && self.absent != Some(leg) && self.rng.below(2) == 0 {
            self.note(format!("a copy of the log of leg {leg} rots"));
            pages::rot_activity(&mut media[leg], leg, &mut self.rng);
        }
        // The dead go on in files that nobody looks at any more.
        let old: Vec<PathBuf> = self.slots.iter().map(|(_, path)| path.clone()).collect();
        self.machine = Shared::new();
        self.insert(media);
        old.iter().for_each(|path| drop(std::fs::remove_file(path)));
        Ok(())
    }

    /// After a stop in order both legs are the same.
    pub(super) fn legs_are_alike(&self) -> Result<(), String> {
        let legs = [FAST, SLOW].map(|leg| self.machine.medium(self.slots[leg].0));
        pages::alike(&legs, BYTES / 4096).map_err(|block| {
            let about = self.about(block * 8);
            let lost = self.history.is_perhaps_lost(block * 8..block * 8 + 8);
            format!("the legs differ in block {block}, perhaps lost {lost}; {about}")
        })
    }

    /// In relaxed mode a leg was left out, and the machine stopped before the other one held all:
    /// flushes may be lost, and to start is refused until that is accepted.
    fn left_while_exposed(&self) -> Option<Slot> {
        let said = [FAST, SLOW].map(|leg| {
            let medium = self.machine.medium(self.slots[leg].0);
            pages::superblock(&medium, leg)
        });
        let exposed = |by: &&Superblock| by.armed_relaxed && !by.clean;
        let left =
            |by: &Superblock| by.members[..LEGS].iter().position(|&is| is == Membership::Out);
        said.iter().flatten().filter(exposed).find_map(left)
    }

    pub(super) fn note(&mut self, what: String) {
        self.diary.push(what);
    }

    /// What each leg holds of a sector, read now and for good.
    pub(super) fn about(&self, sector: u64) -> String {
        let of = |leg: Slot| {
            let medium = self.machine.medium(self.slots[leg].0);
            let Some(superblock) = pages::superblock(&medium, leg) else { return "blank".into() };
            let page = layout_of(leg, &superblock.geometry).data + sector / 8;
            let at = (sector % 8 * 512) as usize;
            let value = |page: Option<&Page>| {
                let bytes = page.map_or([0; 8], |page| page[at..at + 8].try_into().expect("8"));
                u64::from_le_bytes(bytes)
            };
            let (newest, kept) = (value(medium.newest(page)), value(medium.kept(page)));
            format!("leg {leg} holds {newest}, {kept} for good, members {:?}", superblock.members)
        };
        [FAST, SLOW].map(of).join("; ")
    }

    /// What the legs say, for whoever looks for a fault.
    fn found(&self) -> String {
        let legs = [FAST, SLOW].map(|leg| {
            let medium = self.machine.medium(self.slots[leg].0);
            pages::superblock(&medium, leg)
        });
        format!("absent {:?}, blank {:?}, {legs:#?}", self.absent, self.blank)
    }

    pub(super) fn sectors(&self) -> Range<u64> {
        0..self.history.sectors()
    }

    pub(super) fn has_all(&self, array: &MirrorEngine) -> bool {
        let states = array.core.states();
        let witness = if self.plan.witness { State::Member } else { State::Never };
        states[FAST] == State::Member && states[SLOW] == State::Member && states[WITNESS] == witness
    }
}

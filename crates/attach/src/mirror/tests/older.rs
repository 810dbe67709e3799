//! Legs that are older copies of themselves, or were replaced: none may pass for a member.

use mirror::core::Event;
use mirror::format::crc::crc32c;
use mirror::format::page::MAGIC;
use mirror::format::{PageAddress, Superblock};

use super::super::live::Live;
use super::*;

pub(super) const NONE: [bool; DEVICES] = [false; DEVICES];
pub(super) const NO_FAST: [bool; DEVICES] = [true, false, false];
pub(super) const NO_SLOW: [bool; DEVICES] = [false, true, false];

impl Folder {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Keep a copy of a file, or put the copy back.
    pub(super) fn copy(&self, from: &str, to: &str) {
        std::fs::copy(self.file(from), self.file(to)).unwrap();
    }

    fn refuses(&self, witness: bool, without: [bool; DEVICES], says: &str) {
        let refused = open(&self.start(witness, without), &Asked::default())
            .err()
            .expect("it starts")
            .to_string();
        assert!(refused.contains(says), "{refused}");
    }

    /// Start, write `value` at `offset`, and stop in order.
    pub(super) fn session(&self, witness: bool, offset: u64, value: u8) {
        let mut host = Host::new(&self.start(witness, NONE));
        assert!(host.is(SLOW, State::Member));
        host.write(offset, &[value; 8192]);
        host.flush();
        host.stop();
    }

    /// The leg in the slow slot is not believed: nothing starts before the operator says that it
    /// may go on without it, and then all is copied.
    fn slow_is_older(&self) {
        self.refuses(false, NONE, "older copy");
        drop(Host::new(&self.start(false, NO_SLOW)));
        let mut host = Host::new(&self.start(false, NONE));
        assert!(!host.is(SLOW, State::Member), "it passed for a member");
        let whole = host.array.bytes() / 4096;
        host.until("it is filled", |array| array.core.states()[SLOW] == State::Member);
        assert_eq!(host.array.core.stats().copied_blocks, whole);
        host.stop();
    }
}

impl Host {
    pub(super) fn stop(mut self) {
        self.array.stop();
        self.until("it has stopped", MirrorEngine::over);
    }

    fn replace(&mut self, with: &PathBuf) {
        std::fs::File::create(with).unwrap().set_len(32 << 20).unwrap();
        self.array.may_replace(SLOW, with).unwrap();
        let (array, geometry) = (self.array.id(), self.array.geometry());
        let wanted = super::super::prepare::Wanted { array, slot: SLOW, geometry, old: None };
        let device = super::super::prepare::prepare(with, &wanted, false).unwrap();
        self.array.replace(SLOW, device).unwrap();
        self.until("it is filled", |array| array.core.states()[SLOW] == State::Member);
    }
}

#[test]
fn a_leg_that_was_replaced_is_no_member_any_more() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::new(&folder.start(false, NONE));
    host.write(0, &[1; 65536]);
    host.flush();
    host.replace(&folder.file("new"));
    host.write(8 << 20, &[2; 65536]);
    host.flush();
    host.stop();
    let after = folder.cut();
    std::fs::copy(folder.file("new"), after.file("slow")).unwrap();
    let apart = folder.cut();
    folder.slow_is_older();
    // What was written since is on the leg that was copied to it.
    let mut host = Host::new(&folder.start(false, NO_FAST));
    assert_eq!(host.read(8 << 20, 65536), [2; 65536]);
    // The one that took its place is a member.
    let host = Host::new(&after.start(false, NONE));
    assert!(host.is(SLOW, State::Member));
    // Alone it starts by the operator's word, and is the other side of a split brain from then on.
    let told = |folder: &Folder| super::super::status(&folder.paths(false), NONE).unwrap();
    assert_eq!(told(&folder).trouble, None);
    Host::new(&apart.start(false, NO_FAST)).stop();
    apart.refuses(false, NONE, "split brain");
    // So says who only looks.
    assert!(told(&apart).trouble.unwrap().contains("split brain"));
}

#[test]
fn legs_that_each_went_on_alone_are_told_apart_at_rest() {
    let folder = Folder::created(false, Mode::Log);
    folder.session(false, 0, 1);
    let told = || super::super::status(&folder.paths(false), NONE).unwrap();
    Host::new(&folder.start(false, NO_SLOW)).stop();
    assert_eq!(told().trouble, None);
    Host::new(&folder.start(false, NO_FAST)).stop();
    let told = told();
    assert!(told.devices.iter().all(|device| device.trouble.is_none()));
    assert!(told.trouble.unwrap().contains("split brain"));
}

#[test]
fn a_leg_that_was_replaced_at_rest_is_no_member_any_more() {
    let folder = Folder::created(false, Mode::Log);
    folder.session(false, 0, 1);
    std::fs::File::create(folder.file("new")).unwrap().set_len(32 << 20).unwrap();
    super::super::replace(&folder.start(false, NONE), "slow", &folder.file("new"), false).unwrap();
    folder.copy("slow", "old");
    folder.copy("new", "slow");
    let mut host = Host::new(&folder.start(false, NONE));
    host.until("it is filled", |array| array.core.states()[SLOW] == State::Member);
    host.write(8 << 20, &[2; 65536]);
    host.flush();
    host.stop();
    folder.copy("old", "slow");
    folder.slow_is_older();
}

#[test]
fn an_older_copy_of_a_leg_is_no_member() {
    let folder = Folder::created(false, Mode::Log);
    folder.session(false, 0, 1);
    folder.copy("fast", "old-fast");
    folder.copy("slow", "old-slow");
    folder.session(false, 1 << 20, 2);
    folder.copy("slow", "new-slow");
    let both = folder.cut();
    folder.copy("old-slow", "slow");
    let told = super::super::status(&folder.paths(false), NONE).unwrap();
    assert_eq!(told.devices[0].trouble, None);
    let trouble = told.devices[1].trouble.as_ref().unwrap();
    assert!(trouble.contains("older copy"), "{trouble}");
    folder.slow_is_older();
    // The fast leg is the older one.
    folder.copy("old-fast", "fast");
    folder.copy("new-slow", "slow");
    folder.refuses(false, NONE, "older copy of the fast");
    let mut host = Host::new(&folder.start(false, NO_FAST));
    assert_eq!(host.read(1 << 20, 8192), [2; 8192]);
    // Both are of one moment: that is what they are.
    for name in ["fast", "slow"] {
        std::fs::copy(folder.file(&format!("old-{name}")), both.file(name)).unwrap();
    }
    let mut host = Host::new(&both.start(false, NONE));
    assert!(host.is(SLOW, State::Member));
    assert_eq!(host.read(0, 8192), [1; 8192]);
    assert_eq!(host.read(1 << 20, 8192), [0; 8192]);
}

#[test]
fn the_witness_knows_older_copies() {
    let folder = Folder::created(true, Mode::Log);
    folder.session(true, 0, 1);
    let before = folder.cut();
    folder.session(true, 1 << 20, 2);
    let restore = |to: &Folder, name: &str| {
        std::fs::copy(before.file(name), to.file(name)).unwrap();
    };
    // It says that nobody went on alone, so nothing need be asked.
    let one = folder.cut();
    restore(&one, "slow");
    let mut host = Host::new(&one.start(true, NONE));
    assert!(!host.is(SLOW, State::Member));
    let whole = host.array.bytes() / 4096;
    host.until("it is filled", |array| array.core.states()[SLOW] == State::Member);
    assert_eq!(host.array.core.stats().copied_blocks, whole);
    assert_eq!(host.read(1 << 20, 8192), [2; 8192]);
    // Both legs are older, or the only one there is.
    restore(&folder, "slow");
    folder.refuses(true, NO_FAST, "the witness has seen a newer one");
    restore(&folder, "fast");
    folder.refuses(true, NONE, "the witness has seen a newer one");
    let mut host = Host::new(&folder.start(true, [false, false, true]));
    assert_eq!(host.read(1 << 20, 8192), [0; 8192]);
}

#[test]
fn a_leg_is_not_what_it_was_before_it_left_and_came_back() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::new(&folder.start(false, NONE));
    host.write(0, &[1; 65536]);
    host.flush();
    folder.copy("slow", "old");
    host.array.tell(Event::Command(mirror::core::Command::Fail(SLOW)));
    host.until("it is out", |array| array.core.states()[SLOW] == State::Out);
    host.write(8 << 20, &[2; 65536]);
    host.flush();
    host.array.resync(SLOW).unwrap();
    host.until("it is back", |array| array.core.states()[SLOW] == State::Member);
    let cut = folder.cut();
    host.stop();
    for after in [&folder, &cut] {
        std::fs::copy(folder.file("old"), after.file("slow")).unwrap();
        after.slow_is_older();
    }
}

/// It lacks what was written between the last two superblocks, and nothing else says so.
#[test]
fn a_copy_of_a_leg_that_is_one_superblock_old_is_not_taken_back() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::new(&folder.start(false, NONE));
    host.write(0, &[1; 65536]);
    host.flush();
    folder.copy("slow", "old");
    host.array.set_mode(Mode::Strict).unwrap();
    host.until("it is strict", |array| array.core.mode_wanted().is_none());
    host.write(8 << 20, &[2; 65536]);
    host.flush();
    let fails = |host: &mut Host| {
        host.array.tell(Event::Command(mirror::core::Command::Fail(SLOW)));
        host.until("it is out", |array| {
            array.core.states()[SLOW] == State::Out && array.unanswered(SLOW) == 0
        });
    };
    fails(&mut host);
    folder.copy("slow", "new");
    folder.copy("old", "slow");
    let refused = host.array.resync(SLOW).unwrap_err().to_string();
    assert!(refused.contains("is not as it was left"), "{refused}");
    folder.copy("new", "slow");
    host.array.resync(SLOW).unwrap();
    host.until("it is back", |array| array.core.states()[SLOW] == State::Member);
}

/// What failed with the leg is not there, and need not be.
#[test]
fn a_leg_whose_last_superblock_failed_is_taken_back() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::new(&folder.start(false, NONE));
    host.write(0, &[1; 65536]);
    host.flush();
    host.broken[SLOW].store(true, Ordering::SeqCst);
    host.array.set_mode(Mode::Strict).unwrap();
    host.until("it is out", |array| array.core.states()[SLOW] == State::Out);
    host.array.resync(SLOW).unwrap();
    host.until("it is back", |array| array.core.states()[SLOW] == State::Member);
}

#[test]
fn a_mode_without_the_leg_that_leads_is_refused() {
    let folder = Folder::created(false, Mode::Log);
    folder.session(false, 0, 1);
    let set = |without, mode| super::super::set_mode(&folder.start(false, without), mode);
    let runs = |without| {
        let host = Host::new(&folder.start(false, without));
        let mode = host.array.core.mode();
        host.stop();
        mode
    };
    let refused = set(NO_FAST, Mode::Strict).unwrap_err().to_string();
    assert!(refused.contains("with both legs its mode is believed"), "{refused}");
    assert_eq!(set(NO_SLOW, Mode::Strict).unwrap(), Mode::Log);
    assert_eq!(runs(NONE), Mode::Strict);
    // One that was left out does not lead.
    assert_eq!(runs(NO_FAST), Mode::Strict);
    assert_eq!(set(NO_FAST, Mode::Relaxed).unwrap(), Mode::Strict);
    assert_eq!(runs(NONE), Mode::Relaxed);
}

/// The page as version 1 wrote it: less in a superblock, and another number.
fn downgrade(device: usize, page: u64, bytes: &mut [u8]) {
    if bytes[..8] != MAGIC {
        return;
    }
    if bytes[8] == 1 {
        bytes[400..].fill(0);
    }
    bytes[9] = 1;
    bytes[12..16].fill(0);
    let mut place = [0; 10];
    place[..8].copy_from_slice(&page.to_le_bytes());
    (place[8], place[9]) = (device as u8, bytes[8]);
    let crc = crc32c(crc32c(0, &place), bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}

impl Folder {
    fn downgrade(&self) {
        for (device, name) in NAMES.iter().enumerate() {
            let mut bytes = std::fs::read(self.file(name)).unwrap();
            for (page, bytes) in bytes.chunks_mut(4096).enumerate() {
                downgrade(device, page as u64, bytes);
            }
            std::fs::write(self.file(name), bytes).unwrap();
        }
    }

    fn version(&self, name: &str) -> u8 {
        std::fs::read(self.file(name)).unwrap()[9]
    }
}

#[test]
fn a_mirror_of_version_1_is_upgraded_by_its_next_start() {
    let folder = Folder::created(true, Mode::Log);
    folder.session(true, 0, 1);
    folder.downgrade();
    assert_eq!(NAMES.map(|name| folder.version(name)), [1; DEVICES]);
    folder.copy("slow", "old");
    let mut host = Host::new(&folder.start(true, NONE));
    assert_eq!(host.array.core.states(), [State::Member; DEVICES]);
    assert_eq!(host.read(0, 8192), [1; 8192]);
    host.write(1 << 20, &[2; 8192]);
    host.flush();
    host.stop();
    assert_eq!(NAMES.map(|name| folder.version(name)), [2; DEVICES]);
    folder.copy("old", "slow");
    let host = Host::new(&folder.start(true, NONE));
    assert!(!host.is(SLOW, State::Member), "a copy of version 1 passed for a member");
}

#[test]
fn of_version_1_a_leg_that_is_starts_behind_is_refused() {
    let folder = Folder::created(false, Mode::Log);
    folder.session(false, 0, 1);
    folder.copy("slow", "old");
    folder.session(false, 1 << 20, 2);
    folder.copy("old", "slow");
    folder.downgrade();
    folder.slow_is_older();
}

impl Folder {
    /// Overwrite a place of a device.
    pub(super) fn spoil(&self, name: &str, page: u64, bytes: &[u8]) {
        let file = std::fs::OpenOptions::new().write(true).open(self.file(name)).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, page * 4096).unwrap();
    }
}

/// A directory of ext4 ends so: over each state of it, and over an older one, every CRC-32C is the
/// same.
fn own_checksum(value: u8) -> Vec<u8> {
    let mut bytes = vec![value; 4096];
    let own = !crc32c(77, &bytes[..4092]);
    bytes[4092..].copy_from_slice(&own.to_le_bytes());
    bytes
}

#[test]
fn an_older_state_of_what_ends_in_its_own_checksum_is_not_returned() {
    let folder = Folder::created(false, Mode::Strict);
    let mut host = Host::new(&folder.start(false, NONE));
    let layout = [0, 1].map(|leg| host.array.layout(leg));
    for value in [1, 2] {
        host.write(0, &own_checksum(value));
        host.flush();
    }
    host.stop();
    for (leg, name) in [(0, "fast"), (1, "slow")] {
        folder.spoil(name, layout[leg].data, &own_checksum(1));
    }
    let mut host = Host::new(&folder.start(false, NONE));
    assert_eq!(host.ask(Command::Read, 0, &[0; 4096]), Err(Refusal::Io));
    host.stop();
}

impl Folder {
    /// As it would be, had it been made when blocks were summed by CRC-32C.
    fn with_older_sums(&self) {
        for (device, name) in NAMES.iter().enumerate().filter(|(_, name)| self.file(name).exists())
        {
            let mut bytes = std::fs::read(self.file(name)).unwrap();
            for (page, bytes) in bytes.chunks_mut(4096).enumerate() {
                let place = PageAddress { device: device as u8, page: page as u64 };
                let Ok(mut found) = Superblock::decode(place, bytes) else { continue };
                found.features[2] = 0;
                bytes.copy_from_slice(&found.encode(page as u64)[..]);
            }
            std::fs::write(self.file(name), bytes).unwrap();
        }
    }
}

#[test]
fn an_array_of_before_goes_on_with_its_own_sums() {
    let folder = Folder::created(false, Mode::Log);
    folder.with_older_sums();
    folder.session(false, 0, 1);
    let mut host = Host::new(&folder.start(false, NONE));
    let layout = host.array.layout(SLOW);
    folder.spoil("fast", layout.data, &[7; 4096]);
    assert_eq!(host.read(0, 8192), [1; 8192]);
    for name in ["fast", "slow"] {
        folder.spoil(name, layout.data + 1, &[7; 4096]);
    }
    assert_eq!(host.ask(Command::Read, 4096, &[0; 4096]), Err(Refusal::Io));
    host.stop();
    let started = std::fs::read(folder.file("fast")).unwrap();
    let first = PageAddress { device: 0, page: 0 };
    assert_eq!(Superblock::decode(first, &started[..4096]).unwrap().features, [0; 3]);
}

#[test]
fn two_copies_that_are_wrong_alike_are_not_returned() {
    let folder = Folder::created(false, Mode::Log);
    folder.session(false, 0, 1);
    let mut host = Host::new(&folder.start(false, NONE));
    let layout = host.array.layout(SLOW);
    for name in ["fast", "slow"] {
        folder.spoil(name, layout.data, &[7; 4096]);
    }
    assert_eq!(host.ask(Command::Read, 0, &[0; 4096]), Err(Refusal::Io));
    host.array.scrub().unwrap();
    host.until("it is compared", |array| array.core.scrub_position().is_none());
    assert_eq!(host.array.history.scrubs.undecided, 1);
    // Nobody learnt the wrong checksum, neither by that nor by a start.
    host.stop();
    let mut host = Host::new(&folder.start(false, NONE));
    assert_eq!(host.ask(Command::Read, 0, &[0; 4096]), Err(Refusal::Io));
    assert_eq!(host.read(4096, 4096), [1; 4096]);
    host.write(0, &[3; 4096]);
    assert_eq!(host.read(0, 8192), [[3; 4096], [1; 4096]].concat());
}

#[test]
fn what_a_read_finds_after_a_scrub_is_no_finding_of_it() {
    let folder = Folder::created(false, Mode::Log);
    folder.session(false, 0, 1);
    let mut host = Host::new(&folder.start(false, NONE));
    let layout = host.array.layout(SLOW);
    let compare = |host: &mut Host, number| {
        assert_eq!(host.array.scrub().unwrap(), number);
        host.until("it is compared", |array| array.core.scrub_position().is_none());
        let scrub = Live::of(&host.array, host.clock.now()).scrub;
        assert_eq!(scrub.last_completed, number);
        scrub.mismatches
    };
    folder.spoil("slow", layout.data, &[7; 4096]);
    assert_eq!(compare(&mut host, 1), 1);
    host.until("it is repaired", |array| array.core.wrong_blocks() == [0, 0]);
    assert_eq!(compare(&mut host, 2), 0);
    // A block for each, so that one copy is right whichever leg is asked.
    for (name, at) in [("fast", 0), ("slow", 4096)] {
        folder.spoil(name, layout.data + at / 4096, &[7; 4096]);
        assert_eq!(host.read(at, 4096), [1; 4096]);
    }
    let live = Live::of(&host.array, host.clock.now());
    assert!(live.mismatches > 1, "no read found a wrong copy");
    assert_eq!((live.scrub.mismatches, live.scrub.last_completed), (0, 2));
}

#[test]
fn without_a_log_of_hot_extents_every_block_is_compared() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::new(&folder.start(false, NONE));
    host.write(0, &[1; 65536]);
    host.flush();
    let layout = host.array.layout(SLOW);
    let after = folder.cut();
    for name in ["fast", "slow"] {
        after.spoil(name, layout.activity, &[0; 4 * 4096]);
    }
    // A write that no flush covers had reached one leg only.
    after.spoil("slow", layout.data + 1, &[9; 4096]);
    let mut host = Host::new(&after.start(false, NONE));
    let told = host.array.notices();
    assert!(told.iter().any(|text| text.contains("every block was compared")), "{told:?}");
    let legs = ["fast", "slow"].map(|name| std::fs::read(after.file(name)).unwrap());
    let data = layout.data as usize * 4096..layout.superblock(2) as usize * 4096;
    assert!(legs[0][data.clone()] == legs[1][data], "the legs differ");
    assert_eq!(host.read(0, 4096), [1; 4096]);
}

//! The engine on real files, with a leg that freezes and a power cut that takes the other one.

mod discards;
mod filled;
mod older;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mirror::core::{Io, State};
use mirror::policy::lag::LagRules;
use mirror::{DEVICES, FAST, LEGS, Mode, SLOW, Span, WITNESS};
use sim::Nanos;

use super::engine::MirrorEngine;
use super::media::Asked;
use super::open::{Start, open};
use super::work::{Done, MediumId};
use super::{CreateOptions, NAMES, Paths, create, media};
use crate::buffer_pool::BufferPool;
use crate::clock::Clock;
use crate::order::{Command, Order, Refusal, Ticket};
use crate::poll::wait_readable;
use crate::target::Target;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("blocklab-array-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        for name in NAMES {
            std::fs::File::create(path.join(name)).unwrap().set_len(32 << 20).unwrap();
        }
        Folder(path)
    }

    fn paths(&self, witness: bool) -> Paths {
        let [fast, slow, third] = NAMES.map(|name| self.0.join(name));
        Paths { fast, slow, witness: witness.then_some(third) }
    }

    /// What a power cut leaves: the files as they are, in another folder.
    fn cut(&self) -> Folder {
        let after = Folder::new();
        for name in NAMES {
            std::fs::copy(self.0.join(name), after.0.join(name)).unwrap();
        }
        after
    }

    fn created(witness: bool, mode: Mode) -> Folder {
        let folder = Folder::new();
        let paths = folder.paths(witness);
        let (log_bytes, extent_bytes, overwrite) = (None, super::EXTENT_BYTES, Vec::new());
        let plan = CreateOptions { paths, bytes: None, mode, log_bytes, extent_bytes, overwrite };
        create(&plan).unwrap();
        folder
    }

    fn start(&self, witness: bool, without: [bool; DEVICES]) -> Start {
        Start { paths: self.paths(witness), without, accept_loss: false }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What no descriptor tells of, a timer or a device that is no longer frozen, is seen so soon.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// An array and somebody who asks it one thing at a time.
struct Host {
    array: MirrorEngine,
    clock: Clock,
    frozen: [Arc<AtomicBool>; LEGS],
    broken: [Arc<AtomicBool>; LEGS],
    /// So many requests fail.
    fails: [Arc<AtomicU32>; LEGS],
}

impl Host {
    /// A new device that may take the slow leg's place.
    fn in_place_of_slow(&mut self, folder: &Folder) -> super::device::Device {
        let new = folder.0.join("new");
        std::fs::File::create(&new).unwrap().set_len(32 << 20).unwrap();
        self.array.may_replace(SLOW, &new).unwrap();
        let (array, geometry) = (self.array.id(), self.array.geometry());
        let wanted = super::prepare::Wanted { array, slot: SLOW, geometry, old: None };
        super::prepare::prepare(&new, &wanted, false).unwrap()
    }

    fn new(start: &Start) -> Host {
        Host::with(start, LagRules::default())
    }

    /// Leaves no leg out as time goes by, so that a machine that pauses changes nothing.
    fn patient(start: &Start) -> Host {
        let (stuck_after, fail_after) = (Nanos::from_secs(3600), Nanos::from_secs(7200));
        let rules =
            LagRules { stuck_after, fail_after, flush_deadline: None, ..LagRules::default() };
        Host::with(start, LagRules { slow: None, ..rules })
    }

    fn with(start: &Start, rules: LagRules) -> Host {
        let (devices, opened) = open(start, &Asked::default()).unwrap();
        let frozen = [0, 1].map(|leg: usize| {
            devices.slots[leg].as_ref().map_or_else(Default::default, |d| d.frozen.clone())
        });
        let broken = [0, 1].map(|leg: usize| {
            devices.slots[leg].as_ref().map_or_else(Default::default, |d| d.broken.clone())
        });
        let fails = [0, 1].map(|leg: usize| {
            devices.slots[leg].as_ref().map_or_else(Default::default, |d| d.fails.clone())
        });
        let clock = Clock::start();
        Host {
            array: MirrorEngine::new(devices, opened, rules, clock.now()).unwrap(),
            clock,
            frozen,
            broken,
            fails,
        }
    }

    fn ask(&mut self, command: Command, offset: u64, data: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (ticket, bytes) = (Ticket::default(), data.len() as u32);
        let order = Order::new(ticket, command, offset, bytes);
        let sink = matches!(command, Command::Write { .. }).then(|| {
            let mut sink = self.array.begin_write(offset, bytes).unwrap();
            self.array.write(&mut sink, data, &mut BufferPool::default());
            sink
        });
        self.array.submit(self.clock.now(), order, sink, &mut BufferPool::default());
        let (mut replies, began) = (Vec::new(), Instant::now());
        while replies.is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "{command:?} is not answered");
            wait_readable(self.array.wakeup(), LOOK_EVERY);
            self.array.advance(self.clock.now(), &mut replies);
        }
        replies.pop().unwrap().result
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.ask(Command::Write { fua: false }, offset, data).unwrap();
    }

    fn read(&mut self, offset: u64, bytes: usize) -> Vec<u8> {
        self.ask(Command::Read, offset, &vec![0; bytes]).unwrap()
    }

    fn flush(&mut self) {
        self.ask(Command::Flush, 0, &[]).unwrap();
    }

    /// Let it work until something is so.
    fn until(&mut self, what: &str, so: impl Fn(&MirrorEngine) -> bool) {
        let began = Instant::now();
        while !so(&self.array) {
            assert!(began.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
            wait_readable(self.array.wakeup(), LOOK_EVERY);
            self.array.advance(self.clock.now(), &mut Vec::new());
        }
    }

    fn is(&self, slot: usize, state: State) -> bool {
        self.array.core.states()[slot] == state
    }
}

/// The point of all this: the slow leg is frozen, a flush is answered all the same, the power is
/// cut, the fast leg is gone with it, and nothing that was flushed is missing.
#[test]
fn a_flush_during_a_freeze_survives_the_loss_of_the_other_leg() {
    let folder = Folder::created(true, Mode::Log);
    let mut host = Host::patient(&folder.start(true, [false; DEVICES]));
    host.write(0, &[1; 16384]);
    host.flush();
    host.frozen[SLOW].store(true, Ordering::SeqCst);
    let data: Vec<u8> = (0..700_000u32).map(|n| (n % 251) as u8).collect();
    host.write(4096 + 100, &data);
    host.ask(Command::WriteZeroes { fua: false, may_discard: true }, 0, &[0; 4096]).unwrap();
    host.flush();
    assert!(host.array.core.stats().records > 0, "nothing was logged");
    let after = folder.cut();
    let mut host = Host::new(&after.start(true, [true, false, false]));
    assert_eq!(host.read(0, 4096), [0; 4096]);
    assert_eq!(host.read(4096, 100), [1; 100]);
    assert!(host.read(4196, data.len()) == data, "what was flushed is not there");
}

/// With a frozen leg and no witness, a flush waits: it may not lie.
#[test]
fn without_a_witness_a_frozen_leg_is_waited_for_until_it_is_left_out_and_it_comes_back() {
    let folder = Folder::created(false, Mode::Strict);
    let mut host = Host::new(&folder.start(false, [false; DEVICES]));
    host.frozen[SLOW].store(true, Ordering::SeqCst);
    host.write(0, &[3; 4096]);
    host.flush();
    // It was answered only because the others recorded that the leg is out.
    assert_eq!(host.array.core.states()[SLOW], State::Out);
    let because = host.array.history.left_because[SLOW].clone().unwrap();
    let back = "; it comes back if it answers within 60 s; later: blocklab mirror resync slow";
    assert!(because.ends_with(back), "{because}");
    let after = folder.cut();
    let mut alone = Host::new(&after.start(false, [false, true, false]));
    assert_eq!(alone.read(0, 4096), [3; 4096]);
    // Both are there again: the one that was out is filled and does not lead.
    let again = after.cut();
    let mut both = Host::new(&again.start(false, [false; DEVICES]));
    assert_eq!(both.read(0, 4096), [3; 4096]);

    // The frozen one thaws: what it lacks is copied, and it alone would do.
    host.frozen[SLOW].store(false, Ordering::SeqCst);
    host.until("it is back", |array| array.core.states()[SLOW] == State::Member);
    let after = folder.cut();
    let mut slow = Host::new(&after.start(false, [true, false, false]));
    assert_eq!(slow.read(0, 4096), [3; 4096]);
}

#[test]
fn a_request_beyond_the_end_is_refused() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::new(&folder.start(false, [false; DEVICES]));
    let end = host.array.limits().capacity.0;
    assert_eq!(host.ask(Command::Read, end - 512, &[0; 1024]), Err(Refusal::BeyondEnd));
    assert_eq!(host.array.begin_write(end, 512), Err(Refusal::BeyondEnd));
    // Of a discard, only whole blocks are given up; less than one is nothing to do.
    host.write(8192, &[9; 4096]);
    host.ask(Command::Discard, 8192 + 512, &[0; 3000]).unwrap();
    assert_eq!(host.read(8192, 4096), [9; 4096]);
    host.ask(Command::Discard, 8192 - 512, &[0; 5120]).unwrap();
    assert_eq!(host.read(8192, 4096), [0; 4096]);
}

/// A leg fails for good. Nobody knows that it is well again but the operator.
#[test]
fn a_leg_that_failed_is_taken_back_when_asked_for() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::new(&folder.start(false, [false; DEVICES]));
    host.write(0, &[1; 16384]);
    host.flush();
    host.broken[SLOW].store(true, Ordering::SeqCst);
    host.write(8192, &[2; 300_000]);
    host.flush();
    host.until("it is out", |array| array.core.states()[SLOW] == State::Out);
    let scrub = host.array.scrub().unwrap_err().to_string();
    assert!(scrub.contains("slow is out"), "{scrub}");
    assert!(host.array.resync(0).unwrap().contains("full member"));

    // An old copy of it is not what was left out.
    let slow = folder.0.join("slow");
    let aside = folder.0.join("aside");
    std::fs::rename(&slow, &aside).unwrap();
    let refused = host.array.resync(SLOW).unwrap_err().to_string();
    assert!(refused.contains("cannot open"), "{refused}");
    std::fs::File::create(&slow).unwrap().set_len(32 << 20).unwrap();
    let refused = host.array.resync(SLOW).unwrap_err().to_string();
    assert!(refused.contains("no longer a device of a mirror"), "{refused}");
    std::fs::copy(folder.0.join("fast"), &slow).unwrap();
    let refused = host.array.resync(SLOW).unwrap_err().to_string();
    assert!(refused.contains("is not the device that was left out"), "{refused}");
    assert!(host.is(SLOW, State::Out));

    std::fs::rename(&aside, &slow).unwrap();
    assert_eq!(host.array.resync(SLOW).unwrap(), "slow is taken back");
    host.until("it is back", |array| array.core.states()[SLOW] == State::Member);
    assert!(host.array.core.stats().copied_blocks < 32 << 20 >> 12, "all of it was copied");
    let after = folder.cut();
    let mut alone = Host::new(&after.start(false, [true, false, false]));
    assert_eq!(alone.read(0, 8192), [1; 8192]);
    assert!(alone.read(8192, 300_000) == vec![2; 300_000]);
}

/// What nobody waits for any more, such as the rest of a leg that was left out, fills no log.
#[test]
fn requests_that_fail_are_told_in_few_lines() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::patient(&folder.start(false, [false; DEVICES]));
    host.array.notices();
    for number in 0..1000 {
        let (medium, io) = (MediumId { slot: SLOW, past: 0 }, Io(1 << 40 | number));
        let outcome = Err(std::io::ErrorKind::UnexpectedEof.into());
        host.array.done(Done { medium, io, outcome });
    }
    let lines = host.array.notices();
    assert!(!lines.is_empty() && lines.len() <= 10, "{} lines: {}", lines.len(), lines[0]);
}

/// A drive may remap what it cannot write: also a write that must be durable at once, and zeros,
/// are tried twice, and what was written before them is not in doubt.
#[test]
fn a_write_that_must_be_durable_at_once_is_tried_twice() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::patient(&folder.start(false, [false; DEVICES]));
    host.write(0, &[1; 4096]);
    host.flush();
    host.until("all is quiet", |array| array.core.quiet());
    let zeros = Command::WriteZeroes { fua: true, may_discard: true };
    for (nth, command) in [Command::Write { fua: true }, zeros].into_iter().enumerate() {
        host.fails[SLOW].store(1, Ordering::SeqCst);
        host.ask(command, nth as u64 * 4096, &[7; 4096]).unwrap();
        assert_eq!(host.fails[SLOW].load(Ordering::SeqCst), 0, "nothing failed");
        host.flush();
        host.until("all is quiet", |array| array.core.quiet());
        assert!(host.is(SLOW, State::Member), "{:?}", host.array.notices());
    }
    let after = folder.cut();
    let mut alone = Host::new(&after.start(false, [true, false, false]));
    assert_eq!(alone.read(0, 8192), [[7; 4096], [0; 4096]].concat());
    // Twice is too often.
    host.fails[SLOW].store(2, Ordering::SeqCst);
    host.ask(Command::Write { fua: true }, 0, &[8; 4096]).unwrap();
    assert!(!host.is(SLOW, State::Member));
}

/// A leg hangs in a request and never answers: it can be replaced all the same, and whatever it
/// does later concerns nobody.
#[test]
fn a_leg_that_hangs_is_replaced() {
    let folder = Folder::created(false, Mode::Strict);
    let mut host = Host::new(&folder.start(false, [false; DEVICES]));
    host.frozen[SLOW].store(true, Ordering::SeqCst);
    host.write(0, &[3; 4096]);
    host.flush();
    host.until("it is out", |array| array.core.states()[SLOW] == State::Out);
    let refused = host.array.resync(SLOW).unwrap_err().to_string();
    assert!(refused.contains("has not answered"), "{refused}");
    let device = host.in_place_of_slow(&folder);
    host.array.replace(SLOW, device).unwrap();
    host.until("it is filled", |array| array.core.states()[SLOW] == State::Member);
    host.write(4096, &[4; 4096]);
    host.frozen[SLOW].store(false, Ordering::SeqCst);
    host.flush();
    assert_eq!(host.read(0, 8192), [[3; 4096], [4; 4096]].concat());
    let after = folder.cut();
    std::fs::copy(folder.0.join("new"), after.0.join("slow")).unwrap();
    let mut alone = Host::new(&after.start(false, [true, false, false]));
    assert_eq!(alone.read(0, 8192), [[3; 4096], [4; 4096]].concat());
}

/// The log is smaller than what is flushed while a leg is frozen: flushes wait, and are answered
/// when the leg is left out. None is answered for nothing.
#[test]
fn a_full_log_makes_flushes_wait_and_loses_nothing() {
    let folder = Folder::created(true, Mode::Log);
    let mut host = Host::new(&folder.start(true, [false; DEVICES]));
    let log_bytes = host.array.log_bytes();
    host.frozen[SLOW].store(true, Ordering::SeqCst);
    let began = Instant::now();
    let mut value = 0u8;
    let mut used = 0;
    // Twice the log, in pieces that are flushed one by one.
    for at in (0..2 * log_bytes).step_by(512 << 10) {
        value += 1;
        host.write(at % (8 << 20), &vec![value; 512 << 10]);
        host.flush();
        used = used.max(host.array.core.log_pages_used()[WITNESS] * 4096);
        let after = value.is_multiple_of(4).then(|| folder.cut());
        if let Some(after) = after {
            let mut survivor = Host::new(&after.start(true, [false, true, false]));
            assert!(survivor.read(at % (8 << 20), 512 << 10) == vec![value; 512 << 10]);
        }
    }
    assert!(used > log_bytes / 2 && used <= log_bytes, "{used} of {log_bytes}");
    // Only leaving it out let the flushes go on.
    assert!(began.elapsed() > Duration::from_secs(4));
    assert!(!host.is(SLOW, State::Member));
}

/// A record is missing before the last one: that log is not believed. With both legs nothing is
/// lost; without the leg that has everything it is refused.
#[test]
fn a_hole_in_the_log_of_the_witness_is_not_taken_for_its_end() {
    let folder = Folder::created(true, Mode::Log);
    let mut host = Host::new(&folder.start(true, [false; DEVICES]));
    host.write(0, &[1; 16384]);
    host.flush();
    host.frozen[SLOW].store(true, Ordering::SeqCst);
    for value in 2..8u8 {
        host.write(u64::from(value) * 8192, &[value; 8192]);
        host.flush();
    }
    let after = folder.cut();
    let witness = std::fs::OpenOptions::new().write(true).open(after.0.join("witness")).unwrap();
    let layout = media::layout_of(WITNESS, &host.array.geometry());
    // The head of the first record.
    std::os::unix::fs::FileExt::write_all_at(&witness, &[0; 4096], layout.log * 4096).unwrap();
    // A slow machine may have made a record of the first flush: then it was no longer needed, and
    // the rest is whole.
    let alone = after.cut();
    if open(&alone.start(true, [true, false, false]), &Asked::default()).is_ok() {
        let mut slow = Host::new(&alone.start(true, [true, false, false]));
        for value in 2..8u8 {
            assert_eq!(slow.read(u64::from(value) * 8192, 8192), [value; 8192]);
        }
    }
    let mut both = Host::new(&after.start(true, [false; DEVICES]));
    for value in 2..8u8 {
        assert_eq!(both.read(u64::from(value) * 8192, 8192), [value; 8192]);
    }
}

/// The survivor has bad sectors: the rest is copied, and what is lost is named, kept, and healed by
/// a write.
#[test]
fn bad_sectors_of_the_survivor_are_lost_and_nothing_else_is() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::new(&folder.start(false, [false; DEVICES]));
    host.write(0, &[1; 1 << 20]);
    host.flush();
    let device = host.in_place_of_slow(&folder);
    host.array.unreadable[FAST] = [21, 22, 200].into();
    host.array.replace(SLOW, device).unwrap();
    host.until("it is filled", |array| array.core.states()[SLOW] == State::Member);
    assert_eq!(host.array.core.lost_ranges(9), [Span::new(21, 2), Span::new(200, 1)]);
    assert_eq!(host.ask(Command::Read, 21 << 12, &[0; 512]), Err(Refusal::Io));
    assert_eq!(host.read(16 << 12, 5 << 12), [1; 5 << 12]);
    let live = super::Live::of(&host.array, host.clock.now());
    assert_eq!(live.lost_blocks, 3);
    assert_eq!(live.lost[0].to_string(), "blocks 21 to 22 (sectors 168 to 183)");
    assert!(super::prometheus(&live).contains("\nblocklab_mirror_lost_blocks 3\n"));
    // One line per range, however often it was tried.
    host.array.stop();
    host.until("it is stopped", MirrorEngine::over);
    let lines = host.array.notices();
    let lost: Vec<_> = lines.iter().filter(|line| line.starts_with("lost: ")).collect();
    assert_eq!(lost.len(), 2, "{lines:#?}");
    assert!(lines.iter().filter(|line| line.starts_with("fast: ")).count() < 8, "{lines:#?}");

    // It is on both legs, also after a power cut, and gone when it is written.
    for without in [[true, false, false], [false, true, false]] {
        let after = folder.cut();
        std::fs::copy(folder.0.join("new"), after.0.join("slow")).unwrap();
        let mut alone = Host::new(&after.start(false, without));
        assert_eq!(alone.ask(Command::Read, 200 << 12, &[0; 4096]), Err(Refusal::Io));
        alone.write(200 << 12, &[7; 4096]);
        alone.flush();
        let again = after.cut();
        let mut alone = Host::new(&again.start(false, without));
        assert_eq!(alone.read(200 << 12, 4096), [7; 4096]);
        assert_eq!(alone.array.core.lost_ranges(9), [Span::new(21, 2)]);
    }
}

/// The server is stopped for longer than a leg may take: that is not the leg's doing.
#[test]
fn time_that_the_server_does_not_run_is_no_legs() {
    let folder = Folder::created(false, Mode::Strict);
    let mut host = Host::new(&folder.start(false, [false; DEVICES]));
    host.frozen[SLOW].store(true, Ordering::SeqCst);
    let (ticket, offset, bytes) = (Ticket::default(), 0, 4096);
    let order = Order::new(ticket, Command::Write { fua: true }, offset, bytes);
    let mut sink = host.array.begin_write(0, bytes).unwrap();
    host.array.write(&mut sink, &[3; 4096], &mut BufferPool::default());
    host.array.submit(host.clock.now(), order, Some(sink), &mut BufferPool::default());
    let mut replies = Vec::new();
    let mut pause = 0;
    let began = Instant::now();
    while replies.is_empty() {
        // The leg is well again while the server does not run.
        if host.array.core.frozen()[SLOW] && pause == 0 {
            host.array.next_due();
            host.frozen[SLOW].store(false, Ordering::SeqCst);
            pause = 20_000_000_000;
        }
        host.array.advance(host.clock.now().plus(pause), &mut replies);
        host.array.next_due();
        wait_readable(host.array.wakeup(), LOOK_EVERY);
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    assert!(host.is(SLOW, State::Member), "{:?}", host.array.notices());
    assert_eq!(host.array.core.stats().drops, 0);
    assert!(host.array.missed().as_secs_f64() > 19.0, "{}", host.array.missed());
}

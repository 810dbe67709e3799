//! The crash lab: a program runs once in a guest, the power is cut at any of its moments, and
//! guests find out what is left.
//!
//! The run is kept as the calls of the device's engine. They are made again, up to the moment of
//! each cut, so the medium of a cut is what the device model says it is, the device's own state
//! included, and no program runs a second time.

mod content;
mod cuts;
mod journal;
mod recovery;
mod replay;
mod report;
mod shrink;
mod subsets;
mod timeline;

use std::any::Any;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use sim::{Bytes, Device, Nanos, SECTOR_BYTES};
use study::{Block, BuiltPart, Failure, Part};

use crate::request_log::RequestLog;
use crate::session::DeviceOptions;
use crate::store::Store;
use crate::travel::{self, Companion, Disk, Kept, calls, journey, memory};

pub use cuts::Cuts;
pub use report::{Coverage, CutReport, EndedEarly, Report, Verdict};
pub use shrink::Smallest;
pub use timeline::{Event, Kind};

pub(crate) use recovery::check_of;
use recovery::{Found, Recovery};
use replay::{Left, Medium, Replay};

/// What to do.
pub struct Options {
    /// The device.
    pub part: BuiltPart,
    /// What the run begins with; `None`: the device as it comes out of the box.
    pub start: Option<Disk>,
    /// How the program runs. It has no traces.
    pub travel: travel::Options,
    /// When the power is cut.
    pub cuts: Cuts,
    /// What a cut leaves.
    pub media: Media,
    /// What looks at what is left: a line for `/bin/sh`.
    pub check: Option<String>,
    /// Guests at a time.
    pub guests: usize,
    /// Trace the program's system calls, for the time line.
    pub calls: bool,
    /// A guest that looks at a medium for longer ends the sweep.
    pub wall_limit: std::time::Duration,
}

/// What is left of the writes that were not safe yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Media {
    /// What the model of the device says.
    Modelled,
    /// All of them: the kernel dies, the drive keeps its power.
    Panicked,
    /// So many of the subsets that the contract of flush and FUA allows, whatever the model says.
    Subsets(u32),
    /// One of those, by its number.
    Subset(u32),
}

impl Media {
    /// The subsets that are looked at where `at_risk` writes are not safe.
    fn subsets(self, at_risk: usize) -> Vec<Option<u32>> {
        match self {
            Media::Modelled | Media::Panicked => vec![None],
            Media::Subset(number) => vec![Some(number)],
            Media::Subsets(_) if at_risk == 0 => vec![Some(0)],
            Media::Subsets(count) => (0..count).map(Some).collect(),
        }
    }
}

/// One medium that is looked at.
pub(crate) struct Cut {
    at: Nanos,
    subset: Option<u32>,
    at_risk: usize,
}

/// How far it is; for whoever watches, and for whoever wants it to end.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Cuts that were checked, and those there are; 0 while the program runs.
    pub done: AtomicU64,
    /// See `done`.
    pub all: AtomicU64,
    /// Set to end it.
    pub stopped: AtomicBool,
    /// Asked now and then; a failure ends it, too.
    outside: Outside<'a>,
}

struct Outside<'a>(&'a (dyn Fn() -> Result<(), Failure> + Sync));

impl std::fmt::Debug for Outside<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outside")
    }
}

impl Default for Progress<'_> {
    fn default() -> Self {
        Progress::with(&|| Ok(()))
    }
}

impl<'a> Progress<'a> {
    /// Ended by a failure of `outside`, which is asked now and then.
    pub(crate) fn with(outside: &'a (dyn Fn() -> Result<(), Failure> + Sync)) -> Progress<'a> {
        Progress {
            done: AtomicU64::new(0),
            all: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            outside: Outside(outside),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        match self.stopped.load(Ordering::Relaxed) {
            true => Err(Failure::interrupted()),
            false => (self.outside.0)(),
        }
    }
}

/// A promise: text that was acknowledged at a moment.
pub(crate) struct Ack {
    at: Nanos,
    text: String,
}

/// What the run left to be cut.
pub(crate) struct Recorded {
    log: RequestLog,
    acks: Vec<Ack>,
    calls: Vec<calls::Call>,
    /// When the program began, when it ended, and when its data was written back.
    moments: [Nanos; 3],
}

/// What is the same of the device in every session.
struct Template {
    model: String,
    elevator: Option<String>,
    part: Part,
    block: Block,
    digest: String,
}

impl Template {
    /// The device as it comes out of the box, and the rest.
    fn of(part: BuiltPart) -> (Box<dyn Device>, Template) {
        let BuiltPart { device, model, elevator, part, block, digest } = part;
        (device, Template { model, elevator, part, block, digest })
    }

    /// What the drive writes whole or not at all: its logical block.
    fn atom_bytes(&self) -> u64 {
        self.block.logical_block.map_or(SECTOR_BYTES, |size| size.0.0)
    }

    /// As the only device of a session.
    fn with(&self, device: Box<dyn Device>) -> BuiltPart {
        let Part { name, title, status } = &self.part;
        BuiltPart {
            device,
            model: self.model.clone(),
            elevator: self.elevator.clone(),
            part: Part { name: name.clone(), title: title.clone(), status: status.clone() },
            block: self.block.clone(),
            digest: self.digest.clone(),
        }
    }
}

/// What a sweep came to.
pub struct Sweep {
    /// The cuts that were looked at.
    pub report: Report,
    /// What ended it before all of them were, or before the first failure was explained.
    pub ended: Option<Failure>,
    /// What the session of the program left.
    pub(crate) left: travel::Left,
}

/// Run the program, cut the power, and look at what is left each time.
///
/// # Errors
/// When the program fails, its check fails without a cut, or the machine lacks something, before
/// any cut was looked at.
pub fn crash(options: Options, progress: &Progress<'_>) -> Result<Sweep, Failure> {
    let Options { part, start, mut travel, cuts, media, check, guests, calls, wall_limit } =
        options;
    let recovery = Recovery::new(&travel, check)?;
    let (limit, seed) = (travel.data_limit, travel.seed);
    // A drive with faults may lose something without any cut.
    let faulty = !travel.faults.is_empty();
    let guests = memory::guests_at_a_time(guests, travel.memory_mib);
    let (device, template) = Template::of(part);
    let command = travel.command.clone();
    if calls {
        travel.command = calls::traced(travel.command)?;
    }
    let disk = match start {
        Some(disk) => disk,
        None => {
            let store = Store::temporary(device.limits().capacity, limit)?;
            Disk { device, store, at: Nanos(0), next_id: 0 }
        }
    };
    let (recorded, left) = record(&disk, &template, travel, progress)?;
    let of_media = (media, template.atom_bytes());
    let replay = || Replay::new(&disk, &recorded.log, limit, of_media);
    let moments = cuts.moments(&recorded, replay, progress)?;
    let acks = &recorded.acks;
    let shared = Shared { template: &template, acks, progress, media, seed, limit, wall_limit };
    if !faulty {
        shared.sound(&recovery, replay()?)?;
    }
    let each = if let Media::Subsets(count) = media { u64::from(count) } else { 1 };
    progress.all.store(each * moments.len() as u64, Ordering::Relaxed);
    let mut checked = Checked::default();
    let mut ended = shared.check_all(&recovery, replay()?, &moments, guests, &mut checked).err();
    if checked.found.is_empty() {
        return Err(ended.unwrap_or_else(|| Failure::bug("no cut was looked at")));
    }
    let host = left.outcome.report.host.clone();
    let mut report = Report::of(&recorded, command, host, media, checked);
    if let Some(why) = &ended {
        let all = progress.all.load(Ordering::Relaxed) as usize;
        report.ended_early = Some(EndedEarly { all, why: why.message.clone() });
    } else {
        ended = shared.explain(&mut report, &recovery, replay, &recorded).err();
    }
    Ok(Sweep { report, ended, left })
}

/// Run the program and keep all that the device was asked.
fn record(
    disk: &Disk,
    template: &Template,
    mut options: travel::Options,
    progress: &Progress<'_>,
) -> Result<(Recorded, travel::Left), Failure> {
    let (device, start) = disk.fork(options.data_limit)?;
    let devices = DeviceOptions::only(template.with(device), start);
    options.settings.environment.extend(travel::ack::environment());
    let check = || progress.check();
    let companion = Companion { keeps_requests: true, check: &check, ..Companion::default() };
    let mut left = journey(devices, options, &companion)?;
    let code = left.outcome.code;
    if code != 0 {
        let words = left.said.concat();
        let last = words.trim().lines().next_back().unwrap_or("it said nothing").to_string();
        let failure = Failure::input(format!("the command ended with code {code}: {last}"))
            .expected("a command that succeeds where no power is cut");
        return Err(travel::ended::with_words(failure, &left.kernel_said));
    }
    let Kept { log, acks, calls } =
        left.kept.take().ok_or_else(|| Failure::bug("the run was not kept"))?;
    let (acks, calls) = (promises(&acks)?, calls::parse(&calls));
    Ok((Recorded { log, acks, calls, moments: left.moments }, left))
}

/// The promises, oldest first.
fn promises(text: &str) -> Result<Vec<Ack>, Failure> {
    let mut acks = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let ack = line.split_once(' ').and_then(|(at, text)| {
            Some(Ack { at: Nanos(at.parse().ok()?), text: text.to_string() })
        });
        acks.push(ack.ok_or_else(|| {
            Failure::input(format!("acknowledgement {}: `{line}` is none", index + 1))
                .expected("the moment in nanoseconds (CLOCK_MONOTONIC), a blank, and a text")
                .help("blocklab-ack TEXT writes such a line")
        })?);
    }
    acks.sort_by_key(|ack| ack.at);
    Ok(acks)
}

/// Read `bytes` as all that a guest's program can leave: promises, strace's lines, a write.
///
/// # Errors
/// When they are no promises; it never panics.
pub fn read_evidence(bytes: &[u8]) -> Result<(), Failure> {
    let text = String::from_utf8_lossy(bytes);
    let (calls, mark) = (calls::parse(&text), journal::mark(bytes));
    assert!(calls.len() <= 2 * bytes.len() && mark.is_none_or(|mark| !mark.is_empty()));
    promises(&text).map(drop)
}

/// What all guests have in common.
struct Shared<'a> {
    template: &'a Template,
    acks: &'a [Ack],
    progress: &'a Progress<'a>,
    media: Media,
    seed: u64,
    limit: Bytes,
    wall_limit: std::time::Duration,
}

/// A medium that waits for a guest: the first cut it is of.
type Waiting = (usize, Nanos, Medium);

/// What was found.
#[derive(Default)]
pub(crate) struct Checked {
    cuts: Vec<Cut>,
    /// By the index of the cut.
    found: BTreeMap<usize, Found>,
    /// By the index of a cut that was not looked at, the earlier one that it equals.
    equal: BTreeMap<usize, usize>,
    build_ns_max: u64,
}

/// What guests found, and the first failure of one.
#[derive(Default)]
struct Results {
    found: BTreeMap<usize, Found>,
    failed: Option<Failure>,
}

impl Shared<'_> {
    /// Why the first failure is one.
    fn explain<'r>(
        &self,
        report: &mut Report,
        recovery: &Recovery,
        replay: impl Fn() -> Result<Replay<'r>, Failure>,
        recorded: &Recorded,
    ) -> Result<(), Failure> {
        if let Some(at) = report.explained() {
            report.timeline = self.timeline(replay()?, recorded, at)?;
        }
        if let Some((at, number)) = report.first_failure().and_then(CutReport::subset) {
            report.smallest = Some(self.shrink(recovery, replay()?, at, number)?);
        }
        Ok(())
    }

    /// Fails when what the run leaves without any cut is not as the check wants it.
    fn sound(&self, recovery: &Recovery, mut replay: Replay<'_>) -> Result<(), Failure> {
        let found = self.look(recovery, replay.without_cut()?, self.acks, None);
        let found = found.map_err(|why| why.of("the check, without any power cut"))?;
        if found.verdict == Verdict::Clean {
            return Ok(());
        }
        let said = if found.said.trim().is_empty() { "it said nothing".into() } else { found.said };
        Err(Failure::input(format!("the check fails without any power cut: {said}"))
            .expected("a check that exits with 0 for what the command leaves when nothing fails")
            .help(
                "try it: blocklab travel PART --mkfs FS -- sh -c 'CMD && CHECK'; if it takes \
                 longer than that: --limit",
            ))
    }

    fn look(
        &self,
        recovery: &Recovery,
        medium: Medium,
        acks: &[Ack],
        at: Option<Nanos>,
    ) -> Result<Found, Failure> {
        let began = Instant::now();
        let check = || {
            self.progress.check()?;
            if began.elapsed() <= self.wall_limit {
                return Ok(());
            }
            let limit = config::Duration(Nanos(self.wall_limit.as_nanos() as u64));
            let cut = at.map_or("what no cut leaves".into(), |at| format!("a cut at {}ns", at.0));
            Err(Failure::machine(format!(
                "a guest looked at {cut} for more than {limit} of this machine's time"
            ))
            .help("does the check come to an end? if it does: --wall-limit 10h"))
        };
        let found = recovery.look(medium, acks, self.template, &check);
        // Asked to end, a guest says so: that is no finding.
        check()?;
        found.map_err(|why| match at {
            Some(at) => why.of(format!("a cut at {}ns", at.0)),
            None => why,
        })
    }

    /// Build every medium once, and check each in a guest; a failure leaves what was found before.
    fn check_all(
        &self,
        recovery: &Recovery,
        mut replay: Replay<'_>,
        moments: &[Nanos],
        guests: usize,
        checked: &mut Checked,
    ) -> Result<(), Failure> {
        let (send, receive) = sync_channel::<Waiting>(guests);
        let receive = Mutex::new(receive);
        let results = Mutex::new(Results::default());
        let mut known = BTreeMap::new();
        let sent = std::thread::scope(|scope| -> Result<(), Failure> {
            let send = send; // dropped before the guests are waited for, also on failure
            for _ in 0..guests {
                let (own, receive, results) = (recovery.clone(), &receive, &results);
                scope.spawn(move || self.serve(own, receive, results));
            }
            // All that comes before the first cut is no part of building a medium.
            moments.first().map_or(Ok(()), |&first| replay.advance_to(first))?;
            for &at in moments {
                replay.advance_to(at)?;
                let at_risk = match self.media {
                    Media::Modelled | Media::Panicked => 0,
                    _ => replay.at_risk().len(),
                };
                let subsets = self.media.subsets(at_risk);
                if let Media::Subsets(count) = self.media {
                    let fewer = u64::from(count) - subsets.len() as u64;
                    self.progress.done.fetch_add(fewer, Ordering::Relaxed);
                }
                for subset in subsets {
                    self.progress.check()?;
                    let index = checked.cuts.len();
                    checked.cuts.push(Cut { at, subset, at_risk });
                    let before = own_ns();
                    let left = self.cut(&mut replay, &checked.cuts[index])?;
                    let promised = self.acks.partition_point(|ack| ack.at <= at);
                    match known.entry((left.hash, promised)) {
                        Entry::Occupied(first) => {
                            checked.equal.insert(index, *first.get());
                            self.progress.done.fetch_add(1, Ordering::Relaxed);
                        }
                        Entry::Vacant(place) => {
                            place.insert(index);
                            let medium = replay.medium(left, self.limit)?;
                            let took = own_ns() - before;
                            checked.build_ns_max = checked.build_ns_max.max(took);
                            if send.send((index, at, medium)).is_err() {
                                return Ok(()); // every guest has given up, and says why
                            }
                        }
                    }
                }
            }
            Ok(())
        });
        let Results { found, failed } =
            results.into_inner().unwrap_or_else(PoisonError::into_inner);
        checked.found = found;
        // A guest that failed stops all else: it is the one to say why.
        failed.map_or(sent, Err)
    }

    /// What `cut` leaves; the replay is there already.
    fn cut(&self, replay: &mut Replay<'_>, cut: &Cut) -> Result<Left, Failure> {
        let fates =
            cut.subset.map(|number| subsets::fates(cut.at_risk, number, self.seed, cut.at.0));
        replay.cut(cut.at, fates.as_deref())
    }

    /// Check media until there are no more.
    fn serve(
        &self,
        recovery: Recovery,
        media: &Mutex<Receiver<Waiting>>,
        results: &Mutex<Results>,
    ) {
        loop {
            let next = media.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((index, at, medium)) = next else { return };
            let promised = self.acks.partition_point(|ack| ack.at <= at);
            let look = || self.look(&recovery, medium, &self.acks[..promised], Some(at));
            // With a thread less the media would wait for ever.
            let found = catch_unwind(AssertUnwindSafe(look))
                .unwrap_or_else(|payload| Err(panicked(at, &*payload)));
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            match found {
                Ok(found) => drop(results.found.insert(index, found)),
                Err(why) => {
                    results.failed.get_or_insert(why);
                    self.progress.stopped.store(true, Ordering::Relaxed);
                }
            }
            self.progress.done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn panicked(at: Nanos, payload: &(dyn Any + Send)) -> Failure {
    let text = study::panic_text(payload);
    Failure::bug(format!("a cut at {}ns: looking at it panicked: {text}", at.0))
        .help("this is a bug in blocklab; please report it")
}

/// This thread's own time: guests that run beside it make nothing longer.
fn own_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_come_in_the_order_of_their_moments() {
        let acks = promises("20 b c\n10 a\n").unwrap();
        let found: Vec<_> = acks.iter().map(|ack| (ack.at.0, ack.text.as_str())).collect();
        assert_eq!(found, [(10, "a"), (20, "b c")]);
        assert!(promises("10 a\nsoon b\n").is_err_and(|why| why.message.contains("2: `soon b`")));
    }

    /// Another size of its sectors makes another file system, and another journal.
    #[test]
    fn every_session_has_the_device_as_its_part_presents_it() {
        let sets = ["block.logical_block=4KiB", "block.serial=A1"].map(String::from);
        let part = study::build_part_behind(None, "tlc-3d-128", &sets, 1).unwrap();
        let block = part.block.clone();
        let (device, template) = Template::of(part);
        assert_eq!((template.with(device).block, template.atom_bytes()), (block, 4096));
        let plain = study::build_part_behind(None, "tlc-3d-128", &[], 1).unwrap();
        assert_eq!(Template::of(plain).1.atom_bytes(), 512);
    }

    /// Nobody would take the media that come after it, and the sweep would wait for ever.
    #[test]
    fn a_panic_beside_a_guest_ends_the_sweep() {
        let part = study::build_part_behind(None, "tlc-3d-128", &[], 1).unwrap();
        let (device, template) = Template::of(part);
        let (limit, mut log) = (Bytes::from_gib(1), RequestLog::new(Bytes::from_mib(1)).unwrap());
        let store = Store::temporary(device.limits().capacity, limit).unwrap();
        let moments: Vec<Nanos> = (1..9).map(Nanos).collect();
        for at in &moments {
            let ticket = crate::volatile::WriteTicket(at.0);
            log.arrived(ticket, &[at.0 as u8; 4096]).unwrap();
            let command = crate::order::Command::Write { fua: false };
            let order = crate::order::Order::new(Default::default(), command, at.0 << 12, 4096);
            log.submitted(crate::clock::Wall(at.0), order, Some(ticket));
        }
        let disk = Disk { device, store, at: Nanos(0), next_id: 0 };
        let here = std::thread::current().id();
        let planted = || {
            assert_eq!(std::thread::current().id(), here, "planted");
            Ok(())
        };
        let shared = Shared {
            template: &template,
            acks: &[],
            progress: &Progress::with(&planted),
            media: Media::Panicked,
            seed: 1,
            limit,
            wall_limit: std::time::Duration::MAX,
        };
        let recovery = Recovery::new(&travel::ended::options(), Some("true".into())).unwrap();
        let replay = Replay::new(&disk, &log, limit, (Media::Panicked, 512)).unwrap();
        let mut checked = Checked::default();
        let why = shared.check_all(&recovery, replay, &moments, 1, &mut checked).unwrap_err();
        assert_eq!(why.kind, config::Kind::Bug, "{why}");
        assert!(why.message.starts_with("a cut at 1ns: looking at it panicked"), "{why}");
    }
}

//! `suspend`: the whole machine into an image, over `/dev/snapshot`, for the loader to resume.

mod convert;
mod machine;
mod mounts;
mod namespaces;
mod renew;
mod sample;
mod snapshot;
mod still;
mod swsusp;
mod target;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use resume::kernel::{StreamHeader, listed};
use resume::machine::Range;
use resume::{Header, Kind, Layout, Mark, PAGE_BYTES, RUN_BYTES, Room, Run, Runner, checksum};
use rustix::mm::{MlockAllFlags, mlockall};

use crate::Why;
use crate::policy::{self, After, Known, Left, Policy};
use snapshot::{Snapshot, Source};
use still::Stood;
use target::{Data, HEADER_PAGE, Store, Target};

/// The loader lies below this frame.
const SCRATCH_FROM: u64 = 16 << 20 >> 12;
/// What it reads first lies below 4 GiB.
const SCRATCH_TO: u64 = 1 << 20;

/// What a suspend is asked for.
pub(crate) struct Order {
    /// Where the image goes; `None` to count only.
    pub(crate) target: Option<PathBuf>,
    /// Which pages leave memory first.
    pub(crate) policy: Box<dyn Policy>,
    /// Where a policy that learns keeps what it knows.
    pub(crate) record: Option<PathBuf>,
    /// Is the data packed by LZ4, where that makes it shorter?
    pub(crate) packs: bool,
}

/// Does this name of a way to pack mean LZ4, and not none?
pub(crate) fn packs(name: &str) -> Result<bool, String> {
    match name {
        "none" => Ok(false),
        "lz4" => Ok(true),
        other => Err(format!("--compress {other}: expected none or lz4")),
    }
}

/// What is in an image, and what it took.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Report {
    pub(crate) pages: u64,
    pub(crate) zero_pages: u64,
    pub(crate) word_pages: u64,
    pub(crate) data_pages: u64,
    /// Pages of data as they are on the target: fewer when they are packed.
    pub(crate) stored_pages: u64,
    pub(crate) runs: u64,
    pub(crate) left: Left,
    /// Pages that were written to swap meanwhile.
    pub(crate) swapped_pages: u64,
    pub(crate) written_bytes: u64,
    pub(crate) create: Duration,
    pub(crate) write: Duration,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "pages={} zero={} word={} data={} stored={} runs={} left={} kept={} swapped={} \
             written_bytes={} create_s={:.3} write_s={:.3}",
            self.pages,
            self.zero_pages,
            self.word_pages,
            self.data_pages,
            self.stored_pages,
            self.runs,
            self.left.pages,
            self.left.kept,
            self.swapped_pages,
            self.written_bytes,
            self.create.as_secs_f64(),
            self.write.as_secs_f64()
        )
    }
}

/// How a suspend ended.
pub(crate) enum Ended {
    /// The image is there, or was counted; the machine goes on.
    Written(Report, Option<Target>),
    /// This is the machine that was resumed from the image, with what is to be done at once.
    Resumed(After),
}

const USAGE: &str = "usage: suspend TARGET|--measure [--policy NAME[:ARGUMENT] [--record FILE]]
                                [--compress lz4]
       suspend --dry-run [TARGET] [--policy NAME[:ARGUMENT] [--record FILE]] [--compress lz4]
       suspend --prepare TARGET
  TARGET     a disk, or by UEFI a partition, that holds an image of ours, or zeros
  --measure  make the image, count its pages, and go on
  --dry-run  say what would be in it, about; nothing stands still, and nothing is written
  --prepare  tell TARGET of this machine, for an image that the kernel makes by itself
  --compress pack each MiB of the data that becomes shorter so: none or lz4 [default: none]
  --record   what a policy that learns knows from one suspend to the next
  --policy   which pages leave for swap first [default: everything], one of
";

fn usage() -> String {
    format!("{USAGE}{}", policy::help())
}

/// What the verb is asked to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Suspend,
    Measure,
    DryRun,
    Prepare,
}

/// The verb.
pub(crate) fn verb(arguments: &[String]) -> Result<u8, Why> {
    let (order, task) = asked(arguments).map_err(Why::Input)?;
    if let (Task::Prepare, Some(target)) = (task, &order.target) {
        return convert::prepare(target).map(|()| 0);
    }
    if task == Task::DryRun {
        crate::tell(format!("image {}", dry_run(&order)?));
        return Ok(0);
    }
    let target = match run(&order)? {
        Ended::Written(report, target) => {
            crate::tell(format!("image {report}"));
            target.filter(|_| task == Task::Suspend)
        }
        Ended::Resumed(after) => {
            crate::tell("resumed");
            after.fetch();
            after.keep();
            return Ok(0);
        }
    };
    let Some(mut target) = target else { return Ok(0) };
    match off() {
        Ok(()) => Ok(0),
        Err(why) => Err(without_image(&mut target, why).into()),
    }
}

/// The machine goes on although there may be an image, which would bring back an older state of it
/// some day: why that is, and what became of the image.
fn without_image(store: &mut dyn Store, why: String) -> String {
    match store.erase_mark() {
        Ok(()) => format!("{why}; there is no image any more"),
        Err(other) => format!(
            "{why}; and an image may be there, which MUST NOT be resumed: write zeros over its \
             first sector ({other})"
        ),
    }
}

/// What the arguments ask for.
fn asked(arguments: &[String]) -> Result<(Order, Task), String> {
    let policy = policy::find("everything")?;
    let mut order = Order { target: None, policy, record: None, packs: false };
    let mut tasks = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--measure" => tasks.push(Task::Measure),
            "--prepare" => tasks.push(Task::Prepare),
            "--dry-run" => tasks.push(Task::DryRun),
            "--policy" => {
                order.policy = policy::find(rest.next().map_or("", String::as_str))?;
            }
            "--compress" => order.packs = packs(rest.next().map_or("", String::as_str))?,
            "--record" => order.record = rest.next().map(PathBuf::from),
            path if !path.starts_with('-') && order.target.is_none() => {
                order.target = Some(path.into());
            }
            other => return Err(format!("`{other}`\n{}", usage())),
        }
    }
    let task = match tasks[..] {
        [] => Task::Suspend,
        [one] => one,
        _ => return Err(format!("expected one thing to do\n{}", usage())),
    };
    match (task, &order.target) {
        (Task::DryRun, _) if order.policy.watches().is_some() => {
            return Err(
                "--dry-run: what this policy lets leave is known at the suspend only".into()
            );
        }
        (Task::Measure, Some(_)) | (Task::Prepare | Task::Suspend, None) => {
            return Err(format!("expected a target or --measure\n{}", usage()));
        }
        _ => {}
    }
    match &order.record {
        // What is damaged in it is told before anything stands still.
        Some(_) if order.policy.learns() => drop(known(&order)?),
        None if order.policy.learns() => {
            return Err("this policy learns: expected --record FILE".into());
        }
        _ => {}
    }
    Ok((order, task))
}

/// Switch the machine off: what it was goes on from the image.
pub(crate) fn off() -> Result<(), String> {
    rustix::system::reboot(rustix::system::RebootCommand::PowerOff)
        .map_err(|why| format!("power off: {why}"))
}

pub(crate) use convert::{convert, prepare, verb as convert_verb};

/// A target that the loader finds.
fn to_suspend_to(path: &Path) -> Result<Target, Why> {
    machine::check_target(path).map_err(Why::Input)?;
    Target::open(path)
}

/// What the policy knows from earlier suspends.
fn known(order: &Order) -> Result<Known, String> {
    Known::read(order.policy.as_ref(), order.record.as_deref())
}

/// Make the image.
pub(crate) fn run(order: &Order) -> Result<Ended, Why> {
    // What is refused is refused before anything stands still or leaves, and what was asked for is
    // looked at first.
    let mut target = order.target.as_deref().map(to_suspend_to).transpose()?;
    let map = machine::memory_map()?;
    machine::header(&map)?;
    let mut snapshot = Snapshot::open()?;
    let known = known(order)?;
    known.check_kept()?;
    // Nothing of this program may have to be fetched from a disk that is frozen.
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .map_err(|why| format!("mlock: {why}"))?;
    policy::watch(order.policy.as_ref())?;
    let store = target.as_mut().map(|target| target as &mut dyn Store);
    match still::stand_still(&mut snapshot, order, &known, &map, store)? {
        Stood::Resumed(after) => Ok(Ended::Resumed(after)),
        Stood::Written(mut report) => {
            if let Some(target) = &target {
                report.written_bytes = target.written_bytes;
                // What it froze would be thawed.
                std::mem::forget(snapshot);
            }
            Ok(Ended::Written(report, target))
        }
    }
}

/// What `run` would do, as far as that can be told while programs run.
pub(crate) fn dry_run(order: &Order) -> Result<String, Why> {
    let target = order.target.as_deref().map(to_suspend_to).transpose()?;
    let map = machine::memory_map()?;
    machine::header(&map)?;
    drop(Snapshot::open()?);
    let left = policy::would_leave(order.policy.as_ref(), &known(order)?)?;
    let frames = machine::frames_in_use(&map)?;
    let pages = (frames.len() as u64).saturating_sub(left.pages);
    if let Some(target) = &target {
        fits(pages * PAGE_BYTES as u64, target.pages())?;
    }
    let told = format!("would_be={pages} left={} kept={}", left.pages, left.kept);
    let Some(sample) = sample::sample(&frames) else { return Ok(told) };
    let packed = if order.packs { sample.packed } else { 1.0 };
    let stored = (pages as f64 * sample.data * packed).round() as u64;
    Ok(format!("{told} would_store={stored}"))
}

/// The runs of an image, and the checksums of its data.
struct Taken {
    pages: u64,
    runs: Vec<Run>,
    data_pages: u64,
    stored_pages: u64,
    sums: Vec<u8>,
}

impl Taken {
    fn report(&self) -> Report {
        let count = |wanted: fn(Kind) -> bool| {
            let runs = self.runs.iter().filter(|run| wanted(run.kind));
            runs.map(|run| u64::from(run.count)).sum()
        };
        Report {
            pages: self.pages,
            zero_pages: count(|kind| kind == Kind::Word(0)),
            word_pages: count(|kind| matches!(kind, Kind::Word(word) if word != 0)),
            data_pages: self.data_pages,
            stored_pages: self.stored_pages,
            runs: self.runs.len() as u64,
            ..Report::default()
        }
    }
}

/// Take the image from the kernel and write it, packed if it `packs`. `header` has what is known of
/// the machine.
fn write(
    source: &mut dyn Source,
    header: Header,
    map: &[Range],
    packs: bool,
    store: &mut dyn Store,
) -> Result<Report, Why> {
    let mut page = [0; PAGE_BYTES];
    let bytes = source.bytes()?;
    source.page(&mut page)?;
    let stream = StreamHeader::read(&page).map_err(unknown)?;
    fits(bytes, store.pages())?;
    store.erase_mark()?;
    let taken = take(source, stream, packs, store)?;
    let mark = finish(Header { entry: stream.entry, ..header }, map, &taken, store)?;
    source.give_up()?;
    store.write_mark(mark).map_err(|why| without_image(store, why))?;
    Ok(taken.report())
}

fn unknown(why: resume::Refusal) -> String {
    format!("/dev/snapshot: {why}")
}

/// Is there room, even if each page were a run of its own?
fn fits(bytes: u64, has_pages: u64) -> Result<(), Why> {
    let pages = bytes.div_ceil(PAGE_BYTES as u64);
    let most = pages + pages * (RUN_BYTES + 4) as u64 / PAGE_BYTES as u64 + 8;
    if most <= has_pages {
        return Ok(());
    }
    let (needs, has) = (most.div_ceil(256), has_pages / 256);
    Err(Why::Input(format!("the image may take {needs} MiB, the target has {has} MiB")))
}

/// Read the stream, and write the data as it comes.
fn take(
    source: &mut dyn Source,
    stream: StreamHeader,
    packs: bool,
    store: &mut dyn Store,
) -> Result<Taken, String> {
    let mut page = [0; PAGE_BYTES];
    let mut frames = Vec::new();
    for _ in 0..stream.list_pages {
        source.page(&mut page)?;
        frames.extend(listed(&page));
    }
    let rising = frames.windows(2).all(|pair| pair[0].frame < pair[1].frame);
    let with_data = frames.iter().filter(|listed| !listed.zero).count() as u64;
    if !rising || with_data != stream.data_pages {
        return Err(unknown(resume::Refusal::Kernel));
    }
    let (mut runner, mut runs) = (Runner::default(), Vec::new());
    let mut data = Data::new(Header::empty().layout().data, packs);
    for listed in &frames {
        if listed.zero {
            runs.extend(runner.zeros(listed.frame));
            continue;
        }
        source.page(&mut page)?;
        runs.extend(runner.page(listed.frame, &page));
        if runner.is_data() {
            data.add(&page, store)?;
        }
    }
    runs.extend(runner.end());
    data.flush(store)?;
    let (pages, data_pages) = (frames.len() as u64, runner.data_pages());
    Ok(Taken { pages, runs, data_pages, stored_pages: data.stored_pages, sums: data.sums })
}

/// Write what makes an image of the data, all but the mark.
fn finish(
    mut header: Header,
    map: &[Range],
    taken: &Taken,
    store: &mut dyn Store,
) -> Result<Mark, String> {
    let table: Vec<u8> = taken.runs.iter().flat_map(Run::to_bytes).collect();
    let mut id = [0; 8];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
        .map_err(|why| format!("random numbers: {why}"))?;
    header.id = u64::from_le_bytes(id);
    header.runs = taken.runs.len() as u64;
    header.data_pages = taken.data_pages;
    header.stored_pages = taken.stored_pages;
    header.pages = taken.pages;
    header.table_sum = checksum(&table);
    header.sums_sum = checksum(&taken.sums);
    (header.scratch, header.scratch_count) = scratch(&header, map, &taken.runs)?;
    let Layout { table: table_at, sums, .. } = header.layout();
    store.write_bytes(table_at, &table)?;
    store.write_bytes(sums, &taken.sums)?;
    let (bytes, header_sum) = header.to_bytes();
    store.write_bytes(HEADER_PAGE, &bytes)?;
    store.sync()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let written = now.map_or(0, |time| time.as_secs());
    Ok(Mark { id: header.id, header_sum, written })
}

/// Frames in a row that the image does not have, for the loader: the first, and how many.
fn scratch(header: &Header, map: &[Range], runs: &[Run]) -> Result<(u64, u64), String> {
    let least = Room::frames(header, Room::LOADER_FRAMES);
    let wanted = [Room::frames_wanted(header, Room::LOADER_FRAMES), least];
    let found = wanted.into_iter().find_map(|count| Some((free(map, runs, count)?, count)));
    let why = || format!("no {} KiB of memory in a row are free for the loader", least * 4);
    found.ok_or_else(why)
}

/// The first of so many frames in a row that the image does not have, where the loader can be.
fn free(map: &[Range], runs: &[Run], count: u64) -> Option<u64> {
    let page = PAGE_BYTES as u64;
    for range in map.iter().filter(|range| range.kind == Range::USABLE) {
        let mut free = range.start.div_ceil(page).max(SCRATCH_FROM);
        let end = ((range.start + range.bytes) / page).min(SCRATCH_TO);
        for run in runs {
            if free + count <= run.start.min(end) {
                return Some(free);
            }
            free = free.max(run.end());
        }
        if free + count <= end {
            return Some(free);
        }
    }
    None
}

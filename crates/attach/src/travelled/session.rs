//! One point: its disk is prepared by a session of its own, its program runs in another.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Map, Value};
use sim::{Histogram, Op};
use study::{Amount, AxisValue, BlockUse, BuiltPart, Failure, Job, Part, Progress};
use study::{RunResult, Session, Setup, Travel, WriteCache, name_of};

use crate::private_folder::PrivateFolder;
use crate::session::{DeviceOptions, Start};
use crate::store::Store;
use crate::travel::ended::with_words;
use crate::travel::{Companion, Disk, DiskReport, FaultReport, Left, Options, Settings, journey};

use super::disk::{Disks, setup_arguments};
use super::words::end_of;
use super::{GuestBinaries, check, crashed};

/// Above this share of free CPU a result is called distorted.
const DISTORTED: f64 = 0.1;
/// Run a point.
pub(super) fn run(
    host: &GuestBinaries,
    disks: &Disks,
    job: Job,
    travel: &Travel,
) -> Result<RunResult, Failure> {
    let Job { run, setup, device, start, progress, .. } = job;
    let began = Instant::now();
    let guest = Guest { host, travel, setup: &setup, progress };
    let part = |device| BuiltPart {
        device,
        model: run.point.device.name().into(),
        elevator: study::elevator_of(&run.point.device),
        part: run.part.clone().unwrap_or_else(|| Part {
            name: run.point.device.name().into(),
            title: String::new(),
            status: String::new(),
        }),
        block: setup.block.clone(),
        digest: run.digest.clone(),
    };
    let prepare =
        || {
            let store = Store::temporary(run.limits.capacity, travel.data_limit.0)?;
            let start = Start { store: store.share()?, at: start, next_id: 0 };
            guest
                .prepare(DeviceOptions::only(part(device), start))
                .map(|(device, at, next_id)| Disk { device, store, at, next_id })
        };
    let (device, start) = disks.fork(&setup, travel, prepare)?;
    let has_cache = run.limits.write_cache;
    let part = part(device);
    let folder = PrivateFolder::new()?;
    let mut options = guest.measured()?;
    options.record_queue = travel.record_queue.then(|| folder.path.join("queue"));
    let Some(crash) = &run.point.crash else {
        let left = guest.journey(DeviceOptions::only(part, start), options, false)?;
        succeeded("the program", &left)?;
        return Ok(measured(left, travel, has_cache, began)?.result(travel.program));
    };
    let check = || in_time(progress, travel, began);
    let (left, cuts, notes) = crashed::sweep(part, start, options, crash, &check)?;
    let mut session = measured(left, travel, has_cache, began)?;
    session.crash = Some(cuts);
    session.notes.extend(notes);
    Ok(session.result(travel.program))
}

/// What the sessions of a point have in common.
struct Guest<'a> {
    host: &'a GuestBinaries,
    travel: &'a Travel,
    setup: &'a Setup<'a>,
    progress: &'a Progress,
}

impl Guest<'_> {
    /// Make the file system and run the setup.
    fn prepare(
        &self,
        devices: Vec<DeviceOptions>,
    ) -> Result<(Box<dyn sim::Device>, sim::Nanos, u64), Failure> {
        let travel = self.travel;
        let mut options = self.options("setup", &travel.setup, setup_arguments(travel));
        options.mkfs = travel.file_system.as_ref().map(name_of);
        options.settings.mkfs_options =
            travel.mkfs_options.split_whitespace().map(String::from).collect();
        options.settings.keep_fill =
            !self.setup.point.precondition.is_empty() && !travel.mkfs_discard;
        let left = self.journey(devices, options, true)?;
        succeeded("setup", &left)?;
        left.device.ok_or_else(|| Failure::bug("a device that was to be kept was not"))
    }

    /// How the program is run.
    fn measured(&self) -> Result<Options, Failure> {
        let travel = self.travel;
        let mut options = self.options("travel", &travel.command, travel.arguments.iter());
        options.host = self.setup.host()?;
        options.faults = check::faults(travel)?;
        options.scheduler = travel.scheduler.as_ref().map(name_of);
        options.read_ahead_kib = travel.read_ahead_kb;
        options.write_back = travel.write_cache.map(|cache| cache != WriteCache::Off);
        options.settings.never_flush = travel.write_cache == Some(WriteCache::WriteThrough);
        options.settings.wbt_us = travel.wbt.map(|wbt| wbt.0.0 / 1000);
        options.settings.mount = travel.file_system.as_ref().map(name_of);
        let limits = [("dirty", travel.dirty), ("dirty_background", travel.dirty_background)];
        for (name, limit) in limits {
            let (name, value) = match limit {
                Some(Amount::Percent(percent)) => (format!("{name}_ratio"), percent as u64),
                Some(Amount::Size(size)) => (format!("{name}_bytes"), size.0.0),
                None => continue,
            };
            options.settings.memory.insert(name, value);
        }
        Ok(options)
    }

    /// What both have in common; their random numbers begin with what `purpose` names.
    fn options<'a>(
        &self,
        purpose: &str,
        command: &str,
        arguments: impl Iterator<Item = (&'a String, &'a AxisValue)>,
    ) -> Options {
        let travel = self.travel;
        let command = if command.trim().is_empty() { "true" } else { command };
        let command = ["/bin/sh", "-c", command].map(String::from).into();
        Options {
            memory_mib: travel.memory.0.0 >> 20,
            seed: self.setup.rng().split(purpose).next_u64(),
            limit: travel.limit.0,
            compute_limit: travel.compute_limit,
            data_limit: travel.data_limit.0,
            settings: Settings {
                mount_options: travel.mount_options.clone(),
                environment: arguments.map(|(name, value)| (name.clone(), value.label())).collect(),
                ..Settings::default()
            },
            ..Options::new(self.host.kernel.clone(), self.host.program.clone(), command)
        }
    }

    fn journey(
        &self,
        devices: Vec<DeviceOptions>,
        options: Options,
        keeps_device: bool,
    ) -> Result<Left, Failure> {
        let began = Instant::now();
        let check = || in_time(self.progress, self.travel, began);
        let companion = Companion { keeps_device, check: &check, ..Companion::default() };
        journey(devices, options, &companion)
    }
}

/// Fails when what began at `began` is to end.
fn in_time(progress: &Progress, travel: &Travel, began: Instant) -> Result<(), Failure> {
    progress.check()?;
    let limit = travel.wall_limit;
    let spent = sim::Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    if spent <= limit.0 {
        return Ok(());
    }
    Err(Failure::machine(format!("the session took more than {limit} of this machine's time"))
        .help("does it compute for ever? if not: --set travel.wall_limit=10h"))
}

/// Its exit code is 0.
fn succeeded(what: &str, left: &Left) -> Result<(), Failure> {
    let code = left.outcome.code;
    if code == 0 {
        return Ok(());
    }
    let hint = match code {
        137 => " (killed: did it take more memory than the guest has?)",
        _ => "",
    };
    let [out, err] = &left.said;
    let said = if err.trim().is_empty() { end_of(out) } else { end_of(err) };
    let failure = Failure::input(format!("{what} ended with code {code}{hint}: {said}"));
    Err(with_words(failure, &left.kernel_said))
}

fn measured(
    left: Left,
    travel: &Travel,
    has_cache: bool,
    began: Instant,
) -> Result<Session, Failure> {
    let name = travel.program.name();
    let numbers = travel.program.read(&left.said[0]).map_err(|why| {
        Failure::input(format!("what the program wrote is not {name}'s output: {why}"))
    })?;
    let report = &left.outcome.report;
    let (histograms, bytes) = left.device_use;
    let seconds = |s: f64| sim::Nanos((s * 1e9).round() as u64);
    let mut settings = settings(&left.settings, &report.kernel, report.memory_mib);
    let mut notes = Vec::new();
    if report.processor_s.is_some() {
        settings.insert("host".into(), report.host.clone().into());
    }
    let free = report.free_cpu_share.filter(|_| report.processor_s.is_none());
    if let Some(share) = free.filter(|share| *share >= DISTORTED) {
        notes.push(format!(
            "free CPU is {:.0} % of the run: compare by it, but its seconds are not those of a \
             real machine",
            share * 100.0
        ));
    }
    if travel.write_cache.is_some() && !has_cache {
        notes.push("the device has no write cache: travel.write_cache changes nothing".into());
    }
    let faults = report.disks.iter().flat_map(|disk| &disk.faults);
    notes.extend(faults.map(FaultReport::note));
    Ok(Session {
        histograms,
        bytes,
        program_bytes: left.program_bytes,
        counters: left.counters,
        program: seconds(report.command_s),
        sync: seconds(report.sync_s),
        processor: report.processor_s.map(seconds),
        block: report
            .disks
            .first()
            .map(|disk| block(disk, left.queue.as_ref()))
            .unwrap_or_default(),
        numbers,
        digest: report.digest.clone(),
        settings,
        notes,
        crash: None,
        wall: began.elapsed(),
    })
}

/// The program's and what came when its data was written back, together.
fn block(disk: &DiskReport, queue: Option<&[Histogram; 4]>) -> Vec<BlockUse> {
    let of = |op: Op| {
        let us = queue.map(|all| &all[op as usize]).filter(|times| times.count() > 0);
        let us = us.map(|times| {
            [0.5, 0.95, 0.99, 1.0].map(|q| times.quantile(q).unwrap_or(0) as f64 / 1e3)
        });
        let mut all = BlockUse { op, queued: 0, merged: 0, dispatched: 0, bytes: 0, us };
        for one in disk.block.iter().chain(&disk.block_sync).filter(|one| one.op == op.name()) {
            all.queued += one.queued;
            all.merged += one.merged;
            all.dispatched += one.dispatched;
            all.bytes += one.bytes;
        }
        all
    };
    Op::ALL.map(of).into()
}

/// Numbers as numbers.
fn settings(read: &BTreeMap<String, String>, kernel: &str, memory_mib: u64) -> Map<String, Value> {
    let value =
        |text: &String| text.parse::<i64>().map_or_else(|_| text.clone().into(), Value::from);
    let mut all: Map<String, Value> =
        read.iter().map(|(name, text)| (name.clone(), value(text))).collect();
    all.insert("kernel".into(), kernel.into());
    all.insert("memory_mib".into(), memory_mib.into());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_numbers_where_they_can_be() {
        let read = [("read_ahead_kb", "128"), ("scheduler", "bfq"), ("wbt_lat_usec", "-1")];
        let read = read.map(|(name, text)| (name.to_string(), text.to_string())).into();
        let all = settings(&read, "6.1", 256);
        assert_eq!((&all["read_ahead_kb"], &all["wbt_lat_usec"]), (&128.into(), &(-1).into()));
        assert_eq!((&all["scheduler"], &all["kernel"]), (&"bfq".into(), &"6.1".into()));
    }
}

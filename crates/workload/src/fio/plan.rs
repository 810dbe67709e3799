//! From options to jobs that fit one device: clones, regions, amounts, groups.

use config::ConfigError;
use sim::{Nanos, Rng, SECTOR_BYTES};

use super::options::{BlockSize, Options};
use super::parse::{JobFile, JobSpec};
use super::value::Extent;
use crate::Context;

/// Jobs at once, as in fio.
const JOBS_MAX: u64 = 4096;

/// What a report needs to know of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobInfo {
    /// Its name; clones of `numjobs` share it.
    pub name: String,
    /// Its group: jobs between two stonewalls run together.
    pub group: u32,
    /// What its requests carry as [`sim::Request::process`].
    pub process: u32,
    /// Requests it keeps in flight.
    pub depth: u64,
    /// How long after its first request measuring starts.
    pub ramp: Nanos,
    /// What the job file said about it.
    pub given: Vec<(String, String)>,
}

/// The jobs of a file or table on one device, ready to start.
#[derive(Clone, Debug)]
pub struct JobPlan {
    /// One per clone, in the order of the file.
    pub jobs: Vec<JobInfo>,
    /// What was accepted without effect or adapted to the device.
    pub notes: Vec<String>,
    /// What the `[global]` sections said.
    pub global: Vec<(String, String)>,
    pub(super) resolved: Vec<Resolved>,
}

/// One clone of one job: its options with every size in sectors of the device.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    pub(super) name: String,
    pub(super) options: Options,
    pub(super) process: u32,
    pub(super) group: u32,
    pub(super) rng: Rng,
    /// First sector and length of its region.
    pub(super) first: u64,
    pub(super) sectors: u64,
    /// Sectors to transfer in all.
    pub(super) total: u64,
    /// Without repeats within a pass.
    pub(super) random_map: bool,
}

impl JobPlan {
    pub(super) fn new(file: &JobFile, context: &Context) -> Result<JobPlan, ConfigError> {
        let mut plan = JobPlan {
            jobs: Vec::new(),
            notes: file.notes.clone(),
            global: file.global.clone(),
            resolved: Vec::new(),
        };
        let mut group = 0;
        let clones: u64 = file.jobs.iter().map(|spec| spec.options.numjobs).sum();
        if clones > JOBS_MAX {
            let message = format!("expected at most {JOBS_MAX} jobs in all, got {clones}");
            return Err(ConfigError::new("numjobs", message));
        }
        for (index, spec) in file.jobs.iter().enumerate() {
            group += u32::from(spec.options.stonewall && index > 0);
            plan.remark(spec, context);
            for clone in 0..spec.options.numjobs {
                let process = plan.jobs.len() as u32 + 1;
                let path = format!("{}/{index}.{clone}/{}", spec.name, spec.options.randseed);
                let resolved =
                    resolve(spec, clone, process, group, context.rng.split(&path), context)
                        .map_err(|error| ConfigError {
                            message: format!("job \"{}\": {}", spec.name, error.message),
                            ..error
                        })?;
                plan.resolved.push(resolved);
                plan.jobs.push(JobInfo {
                    name: spec.name.clone(),
                    group,
                    process,
                    depth: spec.options.iodepth,
                    ramp: spec.options.ramp_time,
                    given: spec.given.clone(),
                });
            }
        }
        Ok(plan)
    }

    fn remark(&mut self, spec: &JobSpec, context: &Context) {
        let o = &spec.options;
        let mut note = |text: String| self.notes.push(format!("job \"{}\": {text}", spec.name));
        let room = u64::from(context.limits.queue_depth_max);
        if o.iodepth > room {
            note(format!(
                "iodepth {} exceeds the device's queue of {room}: the others wait in the host",
                o.iodepth
            ));
        }
        if o.rw.random && !o.norandommap && plain(o) && single_size(o).is_none() {
            note("several block sizes: blocks may repeat within a pass".into());
        }
        if o.inline && o.is_paced() && o.iodepth > 1 {
            note(
                "when it is ahead of its rate it waits for all that it has in flight before it \
                 sleeps, as fio does; io_submit_mode=offload does not"
                    .into(),
            );
        }
        if o.rw.does[super::options::TRIM] && !context.limits.discard {
            note("the device does not understand trims: they complete without effect".into());
        }
    }
}

/// True when nothing but `norandommap` decides on the random map.
fn plain(o: &Options) -> bool {
    let aligned = |(ba, bs): (&Option<u64>, &BlockSize)| ba.is_none_or(|ba| ba == bs.min());
    o.distribution == crate::distribution::Distribution::Uniform
        && o.ba.iter().zip(&o.bs).all(aligned)
}

/// The block size when every direction has the same single one.
fn single_size(o: &Options) -> Option<u64> {
    let mut sizes = o.bs.iter().zip(o.rw.does).filter(|(_, does)| *does).map(|(size, _)| size);
    let first = match sizes.next()? {
        BlockSize::Fixed(size) => *size,
        BlockSize::Range(low, high) if low == high => *low,
        _ => return None,
    };
    sizes.all(|size| size.min() == first && size.max() == first).then_some(first)
}

fn resolve(
    spec: &JobSpec,
    clone: u64,
    process: u32,
    group: u32,
    rng: Rng,
    context: &Context,
) -> Result<Resolved, ConfigError> {
    let o = &spec.options;
    let capacity = context.limits.capacity.0;
    let offset =
        offset(o, clone, capacity).filter(|&offset| offset < capacity).ok_or_else(|| {
            let message = format!(
                "clone {clone} starts at or behind the device's end at {}: lower offset, \
             offset_increment or numjobs",
                context.limits.capacity
            );
            ConfigError::new("offset", message)
        })?;
    let rest = capacity - offset;
    // As in fio, a percentage counts what is left behind the offset.
    let size = o.size.map_or(rest, |size| size.of(rest)) / SECTOR_BYTES * SECTOR_BYTES;
    if size > rest {
        let message = format!(
            "offset {} + size {} reaches beyond the device's end at {}: use size=100%",
            sim::Bytes(offset),
            sim::Bytes(size),
            context.limits.capacity
        );
        return Err(ConfigError::new("size", message));
    }
    let smallest = o.bs.iter().zip(&o.ba).zip(o.rw.does).filter(|(_, does)| *does);
    let smallest = smallest.map(|((bs, ba), _)| bs.min().max(ba.unwrap_or(0))).max().unwrap_or(0);
    if size < smallest {
        let message = format!(
            "expected a region of at least one block of {}, got {}",
            sim::Bytes(smallest),
            sim::Bytes(size)
        );
        return Err(ConfigError::new("size", message));
    }
    let zone = super::stride::range(o) * SECTOR_BYTES;
    if zone > size || (zone > 0 && zone < smallest) {
        let message = format!(
            "expected a zone of at least one block of {} and at most the region of {}, got {}",
            sim::Bytes(smallest),
            sim::Bytes(size),
            sim::Bytes(zone)
        );
        return Err(ConfigError::new("zonerange", message));
    }
    Ok(Resolved {
        name: spec.name.clone(),
        options: o.clone(),
        process,
        group,
        rng,
        first: offset / SECTOR_BYTES,
        sectors: size / SECTOR_BYTES,
        total: total(o, size) / SECTOR_BYTES,
        random_map: !o.norandommap && plain(o) && single_size(o).is_some(),
    })
}

/// Where the region of this clone begins, in bytes. As in fio, a percentage is rounded up to the
/// smallest block size, so that its requests are aligned; what is given in bytes stays as it is.
fn offset(o: &Options, clone: u64, capacity: u64) -> Option<u64> {
    let step = o.offset_increment.of(capacity);
    let offset = clone.checked_mul(step)?.checked_add(o.offset.of(capacity))?;
    let is_share = |extent: Extent| matches!(extent, Extent::Percent(1..));
    if !is_share(o.offset) && !is_share(o.offset_increment) {
        return Some(offset / SECTOR_BYTES * SECTOR_BYTES);
    }
    // fio takes the smallest of all three directions, whatever the job does.
    let smallest = o.bs.iter().map(BlockSize::min).min().unwrap_or(SECTOR_BYTES);
    offset.checked_next_multiple_of(smallest).map(|at| at / SECTOR_BYTES * SECTOR_BYTES)
}

/// Bytes to transfer in all.
fn total(o: &Options, size: u64) -> u64 {
    if o.time_based {
        return u64::MAX;
    }
    let once = match (o.io_size, single_size(o)) {
        (Some(amount), _) => amount.of(size),
        // A pass ends with the last whole block.
        (None, Some(block)) => size / block * block,
        (None, None) => size,
    };
    // A trim and the write of the same range count once.
    let sides = 1 + u64::from(o.rw.trim_write());
    once.saturating_mul(o.loops).saturating_mul(sides)
}

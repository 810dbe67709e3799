//! Every key of fio that blocklab knows: what it does with it, or why it cannot.

use super::options::{self, Options};
use super::slips::nearest;
use super::value::Value;

/// Nanoseconds in the unit of bare times of most keys, the second.
const SECONDS: u64 = 1_000_000_000;
/// Nanoseconds in the unit of bare think times, the microsecond.
const MICROSECONDS: u64 = 1_000;

/// Sets an option to a value, or says what was expected.
pub(super) type Setter = fn(&mut Options, Value) -> Result<(), String>;

/// How a key is treated.
#[derive(Clone, Copy)]
pub(super) enum Standing {
    /// Sets an option.
    Honoured(Setter),
    /// Has no meaning for a modelled device; accepted, and said aloud with this reason.
    Harmless(&'static str),
    /// Both: sets an option, and what else it does has no meaning.
    InPart(Setter, &'static str),
    /// Would change what is measured; refused with this advice.
    Refused(&'static str),
}

/// A key, its synonyms, and how it is treated.
pub(super) struct Key {
    pub(super) names: &'static [&'static str],
    pub(super) standing: Standing,
}

const fn honoured(names: &'static [&'static str], set: Setter) -> Key {
    Key { names, standing: Standing::Honoured(set) }
}

const fn harmless(names: &'static [&'static str], why: &'static str) -> Key {
    Key { names, standing: Standing::Harmless(why) }
}

const fn in_part(names: &'static [&'static str], set: Setter, why: &'static str) -> Key {
    Key { names, standing: Standing::InPart(set, why) }
}

const fn refused(names: &'static [&'static str], advice: &'static str) -> Key {
    Key { names, standing: Standing::Refused(advice) }
}

/// The keys that mean something here, in the order of fio's manual.
const HONOURED: &[Key] = &[
    honoured(&["loops"], |o, v| v.int(1, u64::MAX).map(|n| o.loops = n)),
    honoured(&["numjobs"], |o, v| v.int(1, 4096).map(|n| o.numjobs = n)),
    honoured(&["runtime", "timeout"], |o, v| v.time(SECONDS).map(|t| o.runtime = t)),
    honoured(&["time_based"], |o, v| v.boolean().map(|b| o.time_based = b)),
    honoured(&["startdelay"], |o, v| v.time(SECONDS).map(|t| o.startdelay = t)),
    honoured(&["ramp_time"], |o, v| v.time(SECONDS).map(|t| o.ramp_time = t)),
    honoured(&["zonemode"], |o, v| {
        o.strided = match v.str()? {
            "none" => Some(false),
            "strided" => Some(true),
            other => {
                return Err(format!(
                    "expected none or strided, got \"{other}\": zoned devices are not modelled"
                ));
            }
        };
        Ok(())
    }),
    honoured(&["zonerange"], |o, v| v.bytes().map(|n| o.zonerange = n)),
    honoured(&["zonesize"], |o, v| v.bytes().map(|n| o.zonesize = n)),
    honoured(&["zoneskip"], |o, v| v.bytes().map(|n| o.zoneskip = n)),
    honoured(&["rw", "readwrite"], |o, v| options::rw(v).map(|p| o.rw = p)),
    honoured(&["rw_sequencer"], |o, v| {
        v.choice(&["sequential"], &["identical"]).map(|b| o.identical = b)
    }),
    honoured(&["randseed"], |o, v| v.int(0, u64::MAX).map(|n| o.randseed = n)),
    honoured(&["offset", "fileoffset"], |o, v| v.extent().map(|e| o.offset = e)),
    honoured(&["offset_increment"], |o, v| v.extent().map(|e| o.offset_increment = e)),
    honoured(&["number_ios"], |o, v| v.int(0, u64::MAX).map(|n| o.number_ios = n)),
    honoured(&["fsync"], |o, v| v.int(0, u64::MAX).map(|n| o.fsync = n)),
    honoured(&["fdatasync"], |o, v| v.int(0, u64::MAX).map(|n| o.fdatasync = n)),
    honoured(&["end_fsync"], |o, v| v.boolean().map(|b| o.end_fsync = b)),
    honoured(&["sync"], |o, v| {
        v.choice(&["none", "0"], &["sync", "dsync", "1"]).map(|b| o.fua = b)
    }),
    honoured(&["rwmixread"], |o, v| v.int(0, 100).map(|n| o.rwmixread = n)),
    honoured(&["direct"], |o, v| v.boolean().map(|b| o.direct = b)),
    honoured(&["buffered"], |o, v| v.boolean().map(|b| o.direct = !b)),
    honoured(&["prioclass"], |o, v| v.int(0, 3).map(|n| o.prioclass = n as u8)),
    honoured(&["prio"], |o, v| v.int(0, 7).map(|n| o.prio = n as u8)),
    honoured(&["rwmixwrite"], |o, v| v.int(0, 100).map(|n| o.rwmixread = 100 - n)),
    honoured(&["random_distribution"], |o, v| {
        options::distribution(v).map(|(law, abs)| (o.distribution, o.zoned_abs) = (law, abs))
    }),
    honoured(&["percentage_random"], |o, v| {
        v.triple(&[100; 3], |p| p.int(0, 100)).map(|p| o.percentage_random = p)
    }),
    honoured(&["norandommap"], |o, v| v.boolean().map(|b| o.norandommap = b)),
    honoured(&["bs", "blocksize"], |o, v| {
        v.triple(&Options::default().bs, options::bs).map(|bs| o.bs = bs)
    }),
    honoured(&["bsrange", "blocksize_range"], |o, v| {
        v.triple(&Options::default().bs, options::bs_range).map(|bs| o.bs = bs)
    }),
    honoured(&["bssplit"], |o, v| {
        v.triple(&Options::default().bs, options::bs_split).map(|bs| o.bs = bs)
    }),
    honoured(&["blocksize_unaligned", "bs_unaligned"], |o, v| {
        v.boolean().map(|b| o.bs_unaligned = b)
    }),
    honoured(&["blockalign", "ba"], |o, v| {
        v.triple(&[None; 3], |p| p.int(512, 1 << 40).map(Some)).map(|ba| o.ba = ba)
    }),
    honoured(&["size"], |o, v| v.extent().map(|e| o.size = Some(e))),
    honoured(&["io_size", "io_limit"], |o, v| v.extent().map(|e| o.io_size = Some(e))),
    honoured(&["iodepth"], |o, v| v.int(1, u64::from(u32::MAX)).map(|n| o.iodepth = n)),
    honoured(&["io_submit_mode"], |o, v| v.choice(&["offload"], &["inline"]).map(|b| o.inline = b)),
    honoured(&["thinktime"], |o, v| v.time(MICROSECONDS).map(|t| o.thinktime = t)),
    honoured(&["thinktime_blocks"], |o, v| v.int(1, u64::MAX).map(|n| o.thinktime_blocks = n)),
    honoured(&["thinktime_blocks_type"], |o, v| {
        v.choice(&["complete"], &["issue"]).map(|b| o.thinktime_at_issue = b)
    }),
    honoured(&["rate"], |o, v| v.triple(&[0; 3], Value::rate).map(|r| o.rate = r)),
    honoured(&["rate_iops"], |o, v| {
        v.triple(&[0; 3], |p| p.int(0, 1_000_000_000)).map(|r| o.rate_iops = r)
    }),
    honoured(&["rate_process"], |o, v| v.choice(&["linear"], &["poisson"]).map(|b| o.poisson = b)),
    honoured(&["rate_ignore_thinktime"], |o, v| v.boolean().map(|b| o.rate_ignore_thinktime = b)),
    honoured(&["stonewall", "wait_for_previous"], |o, v| v.boolean().map(|b| o.stonewall = b)),
];

const ONE_DEVICE: &str = "every job addresses the one modelled device from its offset on";
const NO_HOST: &str = "the host's CPU, memory and page cache are not modelled";
const NO_DATA: &str = "a model holds no payload bytes";
const OWN_LOGS: &str = "blocklab writes its own results; see the run directory";
const SEEDED: &str = "every run is seeded: the same study gives the same requests";

/// The keys that change nothing, or not much, on a modelled device.
const HARMLESS: &[Key] = &[
    in_part(
        &["ioengine"],
        |o, v| v.str().map(|name| o.ioengine = Some(name.into())),
        "the host's time in it is not modelled, only how many requests it has in flight",
    ),
    harmless(&["description", "name"], "a remark"),
    harmless(&["kb_base", "unit_base"], "used to read the numbers of this file"),
    harmless(
        &[
            "filename",
            "directory",
            "filename_format",
            "unique_filename",
            "lockfile",
            "nrfiles",
            "openfiles",
            "file_service_type",
            "fallocate",
            "filesize",
            "overwrite",
            "opendir",
            "allow_file_create",
            "allow_mounted_write",
            "create_serialize",
            "create_fsync",
            "create_on_open",
            "unlink",
            "unlink_each_loop",
            "fsync_on_close",
            "pre_read",
        ],
        ONE_DEVICE,
    ),
    harmless(
        &[
            "thread",
            "atomic",
            "invalidate",
            "mem",
            "iomem",
            "lockmem",
            "hugepage-size",
            "cpumask",
            "cpus_allowed",
            "cpus_allowed_policy",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "nice",
            "clocksource",
            "gtod_reduce",
            "gtod_cpu",
            "fadvise_hint",
            "hipri",
            "fixedbufs",
            "registerfiles",
            "nonvectored",
            "sqthread_poll",
            "sqthread_poll_cpu",
            "uncached",
            "userspace_reap",
            "uid",
            "gid",
            "cgroup",
            "cgroup_weight",
            "cgroup_nodelete",
            "thinktime_spin",
            "iomem_align",
            "mem_align",
            "force_async",
            "exec_prerun",
            "exec_postrun",
            "ioscheduler",
            "softrandommap",
            "random_generator",
            "group_reporting",
            "new_group",
            "rwmixcycle",
            "ignore_error",
            "continue_on_error",
            "error_dump",
        ],
        NO_HOST,
    ),
    harmless(
        &[
            "zero_buffers",
            "refill_buffers",
            "scramble_buffers",
            "buffer_pattern",
            "buffer_compress_percentage",
            "buffer_compress_chunk",
            "dedupe_percentage",
            "dedupe_mode",
            "dedupe_global",
            "dedupe_working_set_percentage",
            "do_verify",
            "verify_fatal",
            "verify_dump",
            "verify_pattern",
            "verify_interval",
            "verify_offset",
            "verify_async",
            "verify_backlog",
            "verify_state_save",
            "verify_state_load",
        ],
        NO_DATA,
    ),
    harmless(&["randrepeat", "allrandrepeat", "use_os_rand"], SEEDED),
    harmless(
        &[
            "write_bw_log",
            "write_lat_log",
            "write_iops_log",
            "write_hist_log",
            "write_iolog",
            "per_job_logs",
            "log_avg_msec",
            "log_hist_msec",
            "log_hist_coarseness",
            "log_max_value",
            "log_offset",
            "log_compression",
            "log_entries",
            "log_prio",
            "log_store_compressed",
            "log_unix_epoch",
            "log_alternate_epoch",
            "bwavgtime",
            "iopsavgtime",
            "disk_util",
            "stats",
            "disable_lat",
            "disable_clat",
            "disable_slat",
            "disable_bw_measurement",
            "clat_percentiles",
            "lat_percentiles",
            "slat_percentiles",
            "percentile_list",
            "significant_figures",
            "unified_rw_reporting",
            "block_error_percentiles",
            "eta",
            "output-format",
        ],
        OWN_LOGS,
    ),
];

/// The keys that would change the requests or their timing in a way that is not modelled.
const REFUSED: &[Key] = &[
    refused(
        &[
            "read_iolog",
            "replay_no_stall",
            "replay_scale",
            "replay_time_scale",
            "replay_align",
            "replay_redirect",
            "replay_skip",
            "merge_blktrace_file",
        ],
        "replay a log with [workload.trace] instead",
    ),
    refused(
        &[
            "zonecapacity",
            "max_open_zones",
            "job_max_open_zones",
            "read_beyond_wp",
            "zone_reset_threshold",
            "zone_reset_frequency",
        ],
        "zoned devices are not modelled",
    ),
    refused(
        &["steadystate", "steadystate_duration", "steadystate_ramp_time"],
        "use [[precondition]] until_steady in the study",
    ),
    refused(
        &[
            "latency_target",
            "latency_window",
            "latency_percentile",
            "latency_run",
            "max_latency",
            "rate_min",
            "rate_iops_min",
            "rate_cycle",
        ],
        "write an [[expect]] on the metric in the study",
    ),
    refused(
        &[
            "verify",
            "verify_only",
            "trim_percentage",
            "trim_verify_zero",
            "trim_backlog",
            "trim_backlog_batch",
            "experimental_verify",
        ],
        "it adds reads or trims that are not modelled; give them as jobs of their own",
    ),
    refused(
        &[
            "iodepth_batch",
            "iodepth_batch_submit",
            "iodepth_batch_complete",
            "iodepth_batch_complete_min",
            "iodepth_batch_complete_max",
            "iodepth_low",
            "serialize_overlap",
        ],
        "requests are submitted and reaped one by one; remove it and choose iodepth",
    ),
    refused(
        &["cmdprio_percentage", "cmdprio_class", "cmdprio_hint", "cmdprio", "cmdprio_bssplit"],
        "elevators tell priorities apart; what has another one is a job with prioclass and prio",
    ),
    refused(
        &[
            "wait_for",
            "exitall",
            "exit_what",
            "exitall_on_error",
            "flow",
            "flow_id",
            "flow_sleep",
            "flow_watermark",
        ],
        "jobs are ordered by stonewall only",
    ),
    refused(
        &[
            "fill_device",
            "fill_fs",
            "file_append",
            "write_barrier",
            "sync_file_range",
            "bs_is_seq_rand",
            "thinktime_iotime",
            "offset_align",
            "profile",
            "bwavg",
            "fdp",
            "write_hint",
            "sprandom",
        ],
        "it is not modelled; remove it",
    ),
];

impl Standing {
    /// What sets an option, if anything.
    pub(super) fn setter(self) -> Option<Setter> {
        match self {
            Standing::Honoured(set) | Standing::InPart(set, _) => Some(set),
            Standing::Harmless(_) | Standing::Refused(_) => None,
        }
    }
}

/// Whether a refused key has a value that asks for nothing: most often its usual one.
pub(super) fn is_usual(key: &str, value: &str) -> bool {
    match key {
        // Where they are 0 fio takes the depth.
        "iodepth_batch" | "iodepth_batch_submit" => value == "1",
        // Names of files, jobs and profiles.
        "read_iolog" | "merge_blktrace_file" | "replay_redirect" | "wait_for" | "profile" => false,
        _ if key.starts_with("iodepth_batch_complete") => ["0", "1"].contains(&value),
        _ => ["0", "none"].contains(&value),
    }
}

/// Find a key by any of its names.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    [HONOURED, HARMLESS, REFUSED].into_iter().flatten().find(|key| key.names.contains(&name))
}

/// The known name nearest to `name`.
pub(super) fn nearest_key(name: &str) -> Option<&'static str> {
    let names = [HONOURED, HARMLESS].into_iter().flatten().flat_map(|key| key.names);
    nearest(name, names.copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_key() {
        for (slip, key) in [
            ("iodpeth", "iodepth"),
            ("rwmixred", "rwmixread"),
            ("blocksise", "blocksize"),
            ("ramptime", "ramp_time"),
            ("RW", "rw"),
        ] {
            assert_eq!(nearest_key(slip), Some(key), "{slip}");
        }
        assert_eq!(nearest_key("completely_different_thing"), None);
    }

    #[test]
    fn no_name_is_listed_twice() {
        let all = [HONOURED, HARMLESS, REFUSED].into_iter().flatten().flat_map(|key| key.names);
        let mut names: Vec<_> = all.collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

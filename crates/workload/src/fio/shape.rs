//! What of a job that was run elsewhere makes its requests others than its pattern, size and depth
//! say.

use super::keys::{self, Standing};
use super::options::Options;
use super::value::{Dialect, Value};

/// Honoured keys that say no more than what is asked for, how often, where and for how long.
const PLAIN: &[&str] = &[
    "loops",
    "numjobs",
    "runtime",
    "timeout",
    "time_based",
    "startdelay",
    "ramp_time",
    "rw",
    "readwrite",
    "rw_sequencer",
    "randseed",
    "offset",
    "fileoffset",
    "offset_increment",
    "number_ios",
    "end_fsync",
    "rwmixread",
    "rwmixwrite",
    "direct",
    "buffered",
    "io_submit_mode",
    "prioclass",
    "prio",
    "norandommap",
    "bs",
    "blocksize",
    "bsrange",
    "blocksize_range",
    "bssplit",
    "bs_unaligned",
    "blocksize_unaligned",
    "size",
    "io_size",
    "io_limit",
    "iodepth",
    "rate_iops",
    "rate_process",
    "stonewall",
    "wait_for_previous",
    // Of pauses that `thinktime` makes.
    "thinktime_blocks",
    "thinktime_blocks_type",
    "rate_ignore_thinktime",
];

/// Keys that a study refuses, which say when jobs begin and end, or what fio makes of what it
/// measured.
const AROUND: &[&str] = &[
    "wait_for",
    "exitall",
    "exit_what",
    "exitall_on_error",
    "steadystate",
    "steadystate_duration",
    "steadystate_ramp_time",
    "latency_window",
    "latency_percentile",
    "latency_run",
    "max_latency",
    "rate_min",
    "rate_iops_min",
    "rate_cycle",
    "fill_device",
    "fill_fs",
    "file_append",
    "fdp",
    "write_hint",
];

/// Keys that reads take no notice of.
const OF_WRITES: &[&str] = &["fsync", "fdatasync", "sync", "write_barrier", "sync_file_range"];
/// Keys that a sequential job takes no notice of.
const OF_RANDOM: &[&str] = &["random_distribution", "percentage_random"];

/// A number of a job file: `8k` is 8192, or 8000 with a `kb_base` of 1000.
///
/// # Errors
/// Says what was expected.
pub fn number(text: &str, kb_base: u64) -> Result<u64, String> {
    Value { text: Some(text), dialect: Dialect::Job { kb_base } }.int(0, u64::MAX)
}

/// Whether this option, as fio gives it back, makes requests of a job of `rw` others than those of
/// a job of that `rw`, size, depth and rate without it, or has them come at other times.
#[must_use]
pub fn reshapes(rw: &str, key: &str, value: &str) -> bool {
    let value = value.trim();
    let unheard = rw.ends_with("read") && OF_WRITES.contains(&key)
        || !rw.starts_with("rand") && OF_RANDOM.contains(&key);
    match keys::find(key).map(|known| known.standing) {
        Some(Standing::Honoured(_)) if (key, value) == ("zonemode", "none") => false,
        Some(Standing::Honoured(set)) if !unheard && !PLAIN.contains(&key) => {
            let mut options = Options::default();
            // Only whether it is the usual value is asked.
            let dialect = Dialect::Job { kb_base: 1024 };
            let set = set(&mut options, Value { text: Some(value), dialect });
            set.is_err() || options != Options::default()
        }
        Some(Standing::Refused(_)) if !unheard && !AROUND.contains(&key) => {
            !keys::is_usual(key, value)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_other_requests_is_told_from_what_does_not() {
        for (rw, key, value) in [
            ("read", "rate", "100m"),
            ("read", "thinktime", "50"),
            ("write", "fsync", "1"),
            ("randwrite", "fdatasync", "32"),
            ("write", "sync", "dsync"),
            ("randread", "random_distribution", "zipf:1.2"),
            ("randread", "percentage_random", "50"),
            ("read", "iodepth_batch_submit", "8"),
            ("write", "verify", "crc32c"),
            ("read", "zonemode", "zbd"),
            ("read", "zonesize", "256m"),
            ("read", "iodepth_batch", "0"),
            ("read", "thinktime", "long"),
        ] {
            assert!(reshapes(rw, key, value), "{rw} {key}={value}");
        }
        for (rw, key, value) in [
            ("read", "rate", "0"),
            ("read", "thinktime", "0"),
            ("write", "fsync", "0"),
            ("randread", "fsync", "1"),
            ("write", "sync", "none"),
            ("randread", "random_distribution", "random"),
            ("read", "random_distribution", "zipf:1.2"),
            ("randread", "percentage_random", "100"),
            ("read", "iodepth_batch", "1"),
            ("read", "zonemode", "none"),
            ("read", "exitall", ""),
            ("read", "ioengine", "io_uring"),
            ("read", "uri", "nbd://x"),
        ] {
            assert!(!reshapes(rw, key, value), "{rw} {key}={value}");
        }
    }

    #[test]
    fn each_key_that_is_named_is_one_of_its_kind() {
        let standing = |key: &&str| keys::find(key).map(|known| known.standing);
        for key in PLAIN.iter().chain(&OF_WRITES[..3]).chain(OF_RANDOM) {
            assert!(matches!(standing(key), Some(Standing::Honoured(_))), "{key}");
        }
        for key in AROUND.iter().chain(&OF_WRITES[3..]) {
            assert!(matches!(standing(key), Some(Standing::Refused(_))), "{key}");
        }
    }

    #[test]
    fn numbers_are_in_the_base_that_the_job_says() {
        assert_eq!((number("8k", 1024), number("8k", 1000)), (Ok(8192), Ok(8000)));
        assert!(number("many", 1024).is_err());
    }
}

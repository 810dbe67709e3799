//! Engines of fio: how many requests they have in flight, and what they wait for.

use super::flushes::Flushes;
use super::options::Options;

/// Those that have one request in flight whatever the depth, and `null`, which asks no drive.
pub const SYNCHRONOUS: [&str; 10] = [
    "sync",
    "psync",
    "vsync",
    "pvsync",
    "pvsync2",
    "mmap",
    "splice",
    "falloc",
    "ftruncate",
    "null",
];

/// What fio takes on Linux where none is named.
pub const USUAL: &str = "psync";

/// Those that submit reads and writes and go on, but call the kernel for a trim and wait for it.
const TRIMS_WAIT: [&str; 4] = ["libaio", "io_uring", "io_uring_cmd", "posixaio"];

/// Those that submit a flush as they do a write; all others call the kernel and wait for it.
const SUBMIT_FLUSHES: [&str; 3] = ["io_uring", "io_uring_cmd", "posixaio"];

/// Have a job of a file wait for its flushes and trims as its engine does.
pub(super) fn set_waits(options: &mut Options) {
    let engine = options.ioengine.as_deref().unwrap_or(USUAL);
    // With io_submit_mode=offload another thread waits.
    options.trims_wait = options.inline && TRIMS_WAIT.contains(&engine);
    let submits = !options.inline || SUBMIT_FLUSHES.contains(&engine);
    options.flushes = if submits { Flushes::Pass } else { Flushes::Hold };
}

/// Have a job of a file keep as many requests in flight as its engine would under fio, and say so.
pub(super) fn limit_depth(name: &str, options: &mut Options) -> Option<String> {
    let (named, depth) = (options.ioengine.as_deref(), options.iodepth);
    let engine = named.unwrap_or(USUAL);
    let one_by_one = SYNCHRONOUS.contains(&engine) && engine != "null";
    // With io_submit_mode=offload there is a thread for each of iodepth requests.
    if depth == 1 || !options.inline || !one_by_one {
        return None;
    }
    let what = match named {
        Some(engine) => format!("ioengine={engine} takes no notice of iodepth={depth}"),
        None => format!(
            "no ioengine is named, and fio's usual one, {USUAL}, takes no notice of iodepth={depth}"
        ),
    };
    options.iodepth = 1;
    Some(format!(
        "job \"{name}\": {what}: one request is in flight, as under fio; ioengine=libaio has as \
         many as iodepth says"
    ))
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;

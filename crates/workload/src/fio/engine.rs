//! Engines of fio: how many requests they have in flight.

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

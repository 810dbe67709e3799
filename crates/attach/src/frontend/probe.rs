//! The path's own round trip: what a request takes besides the device's time.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use study::Failure;

use crate::aligned::Aligned;

/// Round trips that are measured, after some that are not.
const PROBES: u64 = 2000;
const WARM_UP: u64 = 300;
/// Nobody waits longer than this for a loaded machine.
const TIME_MAX: Duration = Duration::from_secs(2);

/// What each request takes in the device meanwhile. Both sides fall asleep in it, as they do in
/// use, and waking up is a good part of the path.
pub(crate) const PAUSE_NS: u64 = 100_000;

/// Median time of one round trip at queue depth 1 without the device's share, in nanoseconds.
pub(crate) fn median_ns(mut round_trip: impl FnMut(u64) -> io::Result<()>) -> io::Result<u64> {
    let mut times = Vec::with_capacity(PROBES as usize);
    let began = Instant::now();
    for probe in 0..WARM_UP + PROBES {
        let sent = Instant::now();
        round_trip(probe)?;
        if probe >= WARM_UP {
            times.push(sent.elapsed().as_nanos() as u64);
        }
        if began.elapsed() > TIME_MAX && !times.is_empty() {
            break;
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2].saturating_sub(PAUSE_NS))
}

/// Median time of a direct read of 4 KiB of the block device at `path`, in nanoseconds.
pub(crate) fn direct_read(path: &Path) -> Result<u64, Failure> {
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let measured = File::options().read(true).custom_flags(flags).open(path).and_then(|file| {
        let mut page = Aligned::new(1);
        median_ns(|_| file.read_exact_at(page.bytes_mut(), 0))
    });
    measured.map_err(unmeasured)
}

/// What a user is told when it cannot be measured.
pub(crate) fn unmeasured(why: io::Error) -> Failure {
    Failure::machine(format!("cannot measure the path's round trip: {why}"))
        .help("--compensate off, or a time such as --compensate 15us")
}

//! How long a request takes that takes no time: the path's own round trip.

use std::io;
use std::time::{Duration, Instant};

use study::Failure;

/// Round trips that are measured, after some that are not.
const PROBES: u64 = 2000;
const WARM_UP: u64 = 300;
/// Nobody waits longer than this for a loaded machine.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Median time of one round trip at queue depth 1, in nanoseconds.
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
    Ok(times[times.len() / 2])
}

/// What a user is told when it cannot be measured.
pub(crate) fn unmeasured(why: io::Error) -> Failure {
    Failure::machine(format!("cannot measure the path's round trip: {why}"))
        .help("--compensate off, or a time such as --compensate 15us")
}

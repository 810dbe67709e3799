//! The path's own round trip: what a request takes besides the device's time.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use study::Failure;

use crate::aligned::Aligned;

/// Round trips that are measured, after some that are not.
const PROBES: usize = 2000;
const WARM_UP: usize = 300;
/// Nobody waits longer than this for a loaded machine.
const TIME_MAX: Duration = Duration::from_secs(2);

/// What each request takes in the device meanwhile. Both sides fall asleep in it, as they do in
/// use, and waking up is a good part of the path.
pub(crate) const PAUSE_NS: u64 = 100_000;

/// Round trips are judged in so many groups, each of as many as followed one another.
const GROUPS: usize = 8;
/// Of a group counts the round trip that a tenth is below: that is the path. What is above is what
/// the machine did in between.
const LOW: f64 = 0.1;
/// Fewer round trips say nothing.
const PROBES_MIN: usize = 20 * GROUPS;
/// Groups agree while half of them are below twice the least, and this.
const GRACE_NS: u64 = 5_000;
/// What takes longer is no path but a machine that is busy with something else.
const PATH_NS_MAX: u64 = 100_000;

/// Round trips at queue depth 1 without the device's share, in nanoseconds, in their order.
pub(crate) fn round_trips(
    mut round_trip: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<Vec<u64>> {
    let mut times = Vec::with_capacity(PROBES);
    let began = Instant::now();
    for probe in 0..WARM_UP + PROBES {
        let sent = Instant::now();
        round_trip(probe as u64)?;
        if probe >= WARM_UP {
            times.push((sent.elapsed().as_nanos() as u64).saturating_sub(PAUSE_NS));
        }
        if began.elapsed() > TIME_MAX {
            break;
        }
    }
    Ok(times)
}

/// What the path takes by itself, in nanoseconds.
///
/// # Errors
/// Says why that cannot be told from these round trips.
pub(crate) fn judge(round_trips: &[u64]) -> Result<u64, String> {
    let unknown = |why: String| {
        Err(format!(
            "no compensation: {why}; clients see the path's own time on top of the model's. Start \
             again when the machine is quiet, or say what the path takes: --compensate 15us"
        ))
    };
    let count = round_trips.len();
    if count < PROBES_MIN {
        let s = TIME_MAX.as_secs();
        return unknown(format!("only {count} round trips of the path came back in {s} s"));
    }
    let low = |group: &[u64]| {
        let mut sorted = group.to_vec();
        sorted.sort_unstable();
        sorted[(sorted.len() as f64 * LOW) as usize]
    };
    let mut lows: Vec<u64> = round_trips.chunks(count.div_ceil(GROUPS)).map(low).collect();
    lows.sort_unstable();
    let (least, typical, most) = (lows[0], lows[lows.len() / 2], lows[lows.len() - 1]);
    let us = |ns: u64| ns as f64 / 1e3;
    if typical > 2 * least + GRACE_NS {
        let (least, most) = (us(least), us(most));
        return unknown(format!("the path took now {least:.0}, now {most:.0} us"));
    }
    if typical > PATH_NS_MAX {
        unknown(format!(
            "a round trip of the path took {:.0} us, and more than {:.0} us is a busy machine",
            us(typical),
            us(PATH_NS_MAX)
        ))
    } else {
        Ok(typical)
    }
}

/// Direct reads of 4 KiB of the block device at `path`.
pub(crate) fn direct_reads(path: &Path) -> Result<Vec<u64>, Failure> {
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let measured = File::options().read(true).custom_flags(flags).open(path).and_then(|file| {
        let mut page = Aligned::new(1);
        round_trips(|_| file.read_exact_at(page.bytes_mut(), 0))
    });
    measured.map_err(unmeasured)
}

/// What a user is told when it cannot be measured.
pub(crate) fn unmeasured(why: io::Error) -> Failure {
    Failure::machine(format!("cannot measure the path's round trip: {why}"))
        .help("--compensate off, or a time such as --compensate 15us")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of 10 us, of which `busy` of 10 take 8 ms.
    fn mixed(busy: usize) -> Vec<u64> {
        (0..2000).map(|i| if i * 7 % 10 < busy { 8_000_000 } else { 10_000 + i as u64 }).collect()
    }

    #[test]
    fn the_path_is_what_a_round_trip_takes_when_the_machine_does_nothing_else() {
        for busy in [0, 3, 7] {
            let path = judge(&mixed(busy)).unwrap();
            assert!((10_000..12_000).contains(&path), "{busy} of 10: {path}");
        }
    }

    #[test]
    fn a_machine_that_is_always_busy_says_nothing_about_the_path() {
        let why = judge(&mixed(9)).unwrap_err();
        assert!(why.contains("is a busy machine") && why.contains("--compensate"), "{why}");
        let why = judge(&[100; PROBES_MIN - 1]).unwrap_err();
        assert!(why.contains("only 159 round trips"), "{why}");
        // Quiet at first, busy since.
        let mut changed = mixed(0);
        changed[600..].fill(200_000);
        let why = judge(&changed).unwrap_err();
        assert!(why.contains("now 10, now 200 us"), "{why}");
        changed[600..].fill(22_000);
        assert_eq!(judge(&changed), Ok(22_000));
    }
}

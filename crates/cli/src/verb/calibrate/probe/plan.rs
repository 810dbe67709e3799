//! What is measured, in which order.

use crate::verb::measured::steady::ROUNDS;

/// One load.
pub(super) struct Job {
    /// Also of its file.
    pub(super) name: String,
    /// As fio's command line has them, without the dashes.
    pub(super) options: Vec<String>,
    /// It writes.
    pub(super) writes: bool,
    pub(super) length: Length,
    /// How often at most, each time in a file of its own.
    pub(super) rounds: u32,
    /// Repeated until it gives the same again.
    pub(super) steady: bool,
    /// Offered at this many percent of the steady rate.
    pub(super) load: Option<u32>,
    /// Whether a part is fitted to it: what a part cannot be run with is only kept.
    pub(super) fitted: bool,
}

/// How long a load lasts.
pub(super) enum Length {
    /// As long as was said.
    Time,
    /// Once over the whole drive, however long that takes.
    Whole,
    Share(Share),
}

/// This many bytes, or what can be done of them in a time.
pub(super) struct Share {
    /// That part of the drive.
    one_of: u64,
    /// Of a small drive more: fewer requests than these would be chance.
    least: u64,
    pub(super) seconds: u64,
}

impl Share {
    /// Of a drive of `capacity` bytes, in whole requests.
    pub(super) fn bytes(&self, capacity: u64) -> u64 {
        (capacity / self.one_of).max(self.least) / REQUEST * REQUEST
    }
}

/// What is asked for.
pub(super) struct Wish {
    pub(super) overwrite: bool,
    pub(super) is_block: bool,
    /// Seconds that each load is measured for.
    pub(super) runtime: u32,
    /// That preconditioning may take.
    pub(super) hours: u32,
}

/// Seconds before each load for which nothing is counted.
pub(super) const RAMP_SECONDS: u32 = 2;
/// Rounds after which steady state is not waited for any longer.
pub(super) const ROUNDS_MAX: u32 = 25;
/// What uses up the flash that the drive has beyond its capacity.
pub(super) const PRECONDITION: &str = "precondition";
/// How often the whole drive is written at random before steady state is looked for.
pub(super) const PRECONDITION_TIMES: u64 = 2;
/// Preconditioning that is interrupted goes on at the next of these parts.
const PRECONDITION_PARTS: u64 = 20;
/// A round is that part of the drive: five of them are more than most drives have beyond it.
const ROUND_ONE_OF: u64 = 20;
/// Bytes of a random write.
const REQUEST: u64 = 4096;
/// Bytes a second that are assumed where time is estimated: of a SATA drive, and 25,000 random
/// writes a second.
const ASSUMED_FILL: u64 = 500_000_000;
const ASSUMED_RANDOM: u64 = 100_000_000;
pub(super) const ASSUMED: &str = "if it takes 500 MB/s in sequence and 100 MB/s at random";

impl Job {
    fn new(rw: &str, bs: &str, depth: u32) -> Job {
        Job {
            name: format!("{rw}-{bs}-{depth}"),
            options: vec![format!("rw={rw}"), format!("bs={bs}"), format!("iodepth={depth}")],
            writes: rw.contains("write") || rw.contains("trim") || rw == "randrw",
            length: Length::Time,
            rounds: 1,
            steady: false,
            load: None,
            fitted: true,
        }
    }

    /// Of its files.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let numbered = |round| match self.rounds {
            1 => self.name.clone(),
            _ => format!("{}-{round:02}", self.name),
        };
        (1..=self.rounds).map(numbered)
    }

    /// About how long it takes on a drive of `capacity` bytes.
    pub(super) fn seconds(&self, runtime: u32, capacity: u64) -> u64 {
        let rounds = if self.steady { 2 * ROUNDS as u64 } else { u64::from(self.rounds) };
        rounds
            * match &self.length {
                Length::Time => u64::from(runtime + RAMP_SECONDS),
                Length::Whole => capacity / ASSUMED_FILL,
                Length::Share(share) => {
                    share.seconds.min(share.bytes(capacity).div_ceil(ASSUMED_RANDOM))
                }
            }
    }

    /// Bytes of all its rounds, of a drive of `capacity` bytes, if they are known before.
    pub(super) fn bytes(&self, capacity: u64) -> Option<u64> {
        match &self.length {
            Length::Time => None,
            _ if capacity == 0 => None,
            Length::Whole => Some(capacity),
            Length::Share(share) => Some(share.bytes(capacity) * u64::from(self.rounds)),
        }
    }

    /// How much it writes and in which time, unless that is as long as all loads take.
    pub(super) fn told(&self, capacity: u64) -> String {
        let Length::Share(share) = &self.length else {
            return self.bytes(capacity).map(gigabytes).unwrap_or_default();
        };
        let times = match self.steady {
            true => format!("{ROUNDS} to {}", self.rounds),
            false => self.rounds.to_string(),
        };
        let bytes = match capacity {
            0 => format!("1/{} of it", share.one_of),
            _ => gigabytes(share.bytes(capacity)),
        };
        format!("{times} times {bytes}, each in {} s at most", share.seconds)
    }

    /// Seconds that one round takes at most, but for what goes over the whole drive.
    pub(super) fn seconds_max(&self, runtime: u32) -> u64 {
        match &self.length {
            Length::Share(share) => share.seconds,
            _ => u64::from(runtime + RAMP_SECONDS),
        }
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.3} GB", bytes as f64 / 1e9)
}

/// Reads by depth and size. With `overwrite`, the drive is filled before, and written to until it
/// is in steady state: a part that is fitted to all of it is in one state for all loads, and pages
/// that were written in order are read from other dies at once than those written at random.
pub(super) fn jobs(wish: &Wish) -> Vec<Job> {
    let mut jobs = Vec::new();
    if wish.overwrite {
        let fill = Job::new("write", "128k", 32);
        jobs.push(Job { name: "fill".into(), length: Length::Whole, fitted: false, ..fill });
        jobs.extend(until_steady(wish));
    }
    for depth in [1, 2, 4, 8, 16, 32, 64, 128] {
        jobs.push(Job::new("randread", "4k", depth));
    }
    for (rw, bs) in [("randread", "16k"), ("randread", "128k"), ("read", "128k")] {
        jobs.extend([1, 32].map(|depth| Job::new(rw, bs, depth)));
    }
    if wish.overwrite {
        for depth in [1, 4, 32, 128] {
            jobs.push(Job::new("randwrite", "4k", depth));
        }
        let mut mixed = Job::new("randrw", "4k", 32);
        mixed.options.push("rwmixread=70".into());
        jobs.push(Job { name: "mixed-70-4k-32".into(), fitted: false, ..mixed });
        for percent in [25, 50, 75, 90] {
            let load = Job::new("randwrite", "4k", 128);
            let name = format!("load-{percent}");
            jobs.push(Job { name, load: Some(percent), ..load });
        }
        if wish.is_block {
            jobs.push(Job { fitted: false, ..Job::new("randtrim", "4k", 32) });
        }
    }
    jobs
}

/// Random writes that are not judged, and rounds that are.
fn until_steady(wish: &Wish) -> Vec<Job> {
    let seconds = u64::from(wish.hours) * 3600;
    let random = |name: &str, rounds: u32, share: Share| {
        let length = Length::Share(share);
        let job = Job::new("randwrite", "4k", 32);
        Job { name: name.into(), rounds, length, fitted: false, ..job }
    };
    let before = Share {
        one_of: PRECONDITION_PARTS / PRECONDITION_TIMES,
        least: 256 * REQUEST,
        seconds: seconds / PRECONDITION_PARTS,
    };
    let judged = Share {
        one_of: ROUND_ONE_OF,
        least: 16_384 * REQUEST,
        // As fast a drive as preconditioning allows for, and never less than other loads.
        seconds: (seconds / PRECONDITION_TIMES / ROUND_ONE_OF)
            .max(u64::from(wish.runtime + RAMP_SECONDS)),
    };
    let judged = Job { steady: true, ..random("steady", ROUNDS_MAX, judged) };
    let before = random(PRECONDITION, PRECONDITION_PARTS as u32, before);
    if wish.hours == 0 { vec![judged] } else { vec![before, judged] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(overwrite: bool, hours: u32) -> Vec<Job> {
        jobs(&Wish { overwrite, is_block: !overwrite, runtime: 20, hours })
    }

    #[test]
    fn only_what_is_asked_for_writes() {
        assert!(asked(false, 6).iter().all(|job| !job.writes && job.fitted));
        let jobs = asked(true, 6);
        assert!(matches!(jobs[0].length, Length::Whole) && jobs.iter().any(|job| job.steady));
        assert!(jobs.iter().all(|job| job.writes != job.options[0].ends_with("read")));
    }

    /// As the part is that is fitted to them.
    #[test]
    fn all_that_a_part_is_fitted_to_is_of_one_state() {
        let jobs = asked(true, 6);
        let steady = jobs.iter().position(|job| job.steady).unwrap();
        assert!(!jobs[..steady].iter().any(|job| job.fitted));
        assert_eq!(jobs[steady..].iter().filter(|job| job.fitted).count(), 22);
    }

    #[test]
    fn twice_the_drive_is_written_before_rounds_that_are_parts_of_it() {
        let drive = 1_000_204_886_016;
        let share = |jobs: &[Job], name: &str| {
            let job = jobs.iter().find(|job| job.name == name)?;
            let Length::Share(share) = &job.length else { return None };
            Some((job.names().count(), share.bytes(drive), share.seconds))
        };
        let jobs = asked(true, 6);
        assert_eq!(share(&jobs, "precondition"), Some((20, 100_020_486_144, 1080)));
        assert_eq!(share(&jobs, "steady"), Some((25, 50_010_243_072, 540)));
        // The writes of five rounds are more than a quarter of a drive.
        let none = asked(true, 0);
        assert_eq!(share(&none, "precondition"), None);
        assert_eq!(share(&none, "steady"), Some((25, 50_010_243_072, 22)));
    }
}

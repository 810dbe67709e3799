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
    /// Once over the whole drive, however long that takes.
    pub(super) whole: bool,
    /// Repeated until it gives the same again.
    pub(super) steady: bool,
    /// Offered at this many percent of the steady rate.
    pub(super) load: Option<u32>,
    /// Whether a part is fitted to it: what a part cannot be run with is only kept.
    pub(super) fitted: bool,
}

/// Seconds before each load for which nothing is counted.
pub(super) const RAMP_SECONDS: u32 = 2;
/// Rounds after which steady state is not waited for any longer.
pub(super) const ROUNDS_MAX: u32 = 25;

impl Job {
    fn new(rw: &str, bs: &str, depth: u32) -> Job {
        Job {
            name: format!("{rw}-{bs}-{depth}"),
            options: vec![format!("rw={rw}"), format!("bs={bs}"), format!("iodepth={depth}")],
            writes: rw.contains("write") || rw.contains("trim") || rw == "randrw",
            whole: false,
            steady: false,
            load: None,
            fitted: true,
        }
    }

    /// About how long it takes, but for what goes over the whole drive.
    pub(super) fn seconds(&self, runtime: u32) -> u64 {
        let rounds = if self.steady { 2 * ROUNDS as u64 } else { 1 };
        rounds * u64::from(runtime + RAMP_SECONDS)
    }
}

/// Reads by depth and size. With `overwrite`, the drive is filled before, and then written to until
/// it is in steady state.
pub(super) fn jobs(overwrite: bool, is_block: bool) -> Vec<Job> {
    let mut jobs = Vec::new();
    if overwrite {
        let fill = Job::new("write", "128k", 32);
        jobs.push(Job { name: "fill".into(), whole: true, fitted: false, ..fill });
    }
    for depth in [1, 2, 4, 8, 16, 32, 64, 128] {
        jobs.push(Job::new("randread", "4k", depth));
    }
    for (rw, bs) in [("randread", "16k"), ("randread", "128k"), ("read", "128k")] {
        jobs.extend([1, 32].map(|depth| Job::new(rw, bs, depth)));
    }
    if overwrite {
        let steady = Job::new("randwrite", "4k", 32);
        jobs.push(Job { name: "steady".into(), steady: true, fitted: false, ..steady });
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
        if is_block {
            jobs.push(Job { fitted: false, ..Job::new("randtrim", "4k", 32) });
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_writes() {
        assert!(jobs(false, true).iter().all(|job| !job.writes && job.fitted));
        let jobs = jobs(true, false);
        assert!(jobs[0].whole && jobs.iter().any(|job| job.steady));
        assert!(jobs.iter().all(|job| job.writes != job.options[0].ends_with("read")));
    }
}

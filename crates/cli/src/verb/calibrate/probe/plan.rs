//! What is measured, in which order.

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
/// Rounds that are compared (SNIA, Solid State Storage Performance Test Specification, 2.0.1).
const WINDOW: usize = 5;

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
        let rounds = if self.steady { 2 * WINDOW as u64 } else { 1 };
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
            jobs.push(Job { name, load: Some(percent), fitted: false, ..load });
        }
        if is_block {
            jobs.push(Job { fitted: false, ..Job::new("randtrim", "4k", 32) });
        }
    }
    jobs
}

/// Whether the last rounds say the same: none further than a tenth from their mean, and a line
/// through them that changes by no more than that.
pub(super) fn is_steady(iops: &[f64]) -> bool {
    let Some(last) = iops.len().checked_sub(WINDOW).map(|begin| &iops[begin..]) else {
        return false;
    };
    let mean = last.iter().sum::<f64>() / WINDOW as f64;
    let middle = (WINDOW - 1) as f64 / 2.0;
    let offsets = || (0..WINDOW).map(|round| round as f64 - middle);
    let slope = offsets().zip(last).map(|(at, iops)| at * iops).sum::<f64>()
        / offsets().map(|at| at * at).sum::<f64>();
    let (least, most) = last.iter().fold((f64::MAX, 0f64), |(a, b), &x| (a.min(x), b.max(x)));
    most - least <= 0.2 * mean && (slope * (WINDOW - 1) as f64).abs() <= 0.1 * mean
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

    #[test]
    fn steady_is_flat_and_narrow() {
        assert!(!is_steady(&[100.0; 4]));
        assert!(is_steady(&[900.0, 100.0, 104.0, 98.0, 101.0, 100.0]));
        assert!(!is_steady(&[100.0, 104.0, 98.0, 125.0, 100.0]), "one apart");
        assert!(!is_steady(&[108.0, 104.0, 100.0, 96.0, 92.0]), "falling");
    }
}

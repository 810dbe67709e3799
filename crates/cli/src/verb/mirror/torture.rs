//! `blocklab mirror torture`: seeds until one fails, the time is up, or all have passed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use mirror::torture::{Report, TorturePlan, replay, run};
use serde_json::json;
use study::Failure;

use crate::say;

/// There is a line of progress this often.
const LINE_EVERY: Duration = Duration::from_secs(15);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Runs at most [default: 1000, or without end if --seconds is given]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "B", default_value_t = 1)]
    seed_base: u64,
    /// Runs at a time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Host requests per run
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,
    /// Print every event and action of the one seed --seed-base, on stdout
    #[arg(long, conflicts_with_all = ["seeds", "seconds", "json"])]
    trace: bool,
    /// One JSON object on stdout and nothing else
    #[arg(long)]
    json: bool,
}

/// A seed that failed, and how.
type Failed = (u64, String);

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        if self.trace {
            let mut line = |what: std::fmt::Arguments<'_>| say(what);
            let plan = TorturePlan::new(self.seed_base, self.operations);
            let outcome = attempt(|| replay(&plan, &mut line));
            return match outcome {
                Ok(_) => Ok(0),
                Err(violation) => Err(self.failure(&(self.seed_base, violation))),
            };
        }
        let began = Instant::now();
        let (seeds, total, failed) = self.runs(began);
        let seconds = began.elapsed().as_secs_f64();
        if self.json {
            say(self.object(seeds, seconds, &total, failed.as_ref()))
        } else {
            lines(seeds, seconds, &total).iter().for_each(say)
        }
        match failed {
            None => Ok(0),
            Some(failed) => Err(self.failure(&failed)),
        }
    }

    /// Every thread takes the next seed until one fails; the sums do not depend on who took which.
    fn runs(&self, began: Instant) -> (u64, Report, Option<Failed>) {
        let cores = || available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.map_or_else(cores, usize::from);
        let most = self.seeds.unwrap_or(if self.seconds.is_some() { u64::MAX } else { 1000 });
        let limit = self.seconds.map(Duration::from_secs);
        let (next, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let total = Mutex::new((Report::default(), 0, began));
        let seeds = || {
            if over.load(Ordering::SeqCst) || limit.is_some_and(|limit| began.elapsed() >= limit) {
                return None;
            }
            let nth = next.fetch_add(1, Ordering::SeqCst);
            (nth < most).then(|| self.seed_base.wrapping_add(nth))
        };
        let work = || {
            while let Some(seed) = seeds() {
                let outcome = attempt(|| run(&TorturePlan::new(seed, self.operations)));
                let mut all = total.lock().unwrap_or_else(PoisonError::into_inner);
                let (total, ended, said) = &mut *all;
                *ended += 1;
                match outcome {
                    Ok(report) => total.add(&report),
                    Err(violation) => {
                        over.store(true, Ordering::SeqCst);
                        return Some((seed, violation));
                    }
                }
                if said.elapsed() >= LINE_EVERY {
                    *said = Instant::now();
                    let rate = *ended as f64 / began.elapsed().as_secs_f64();
                    crate::warn(format!("{ended} seeds, {rate:.0} per second, no violation"));
                }
            }
            None
        };
        let failed = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            let ended = threads.into_iter().filter_map(|thread| thread.join().ok().flatten());
            ended.min_by_key(|failed| failed.0)
        });
        let (total, ended, _) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        (ended, total, failed)
    }

    /// The command line that repeats a run.
    fn replay(&self, seed: u64) -> String {
        let operations = match self.operations {
            1000 => String::new(),
            other => format!(" --operations {other}"),
        };
        format!("blocklab mirror torture --seeds 1 --seed-base {seed}{operations}")
    }

    fn failure(&self, (seed, violation): &Failed) -> Failure {
        let help =
            format!("this is a bug in blocklab; please report it with\n    {}", self.replay(*seed));
        Failure::bug(format!("seed {seed}: {violation}")).help(help)
    }

    fn object(
        &self,
        seeds: u64,
        seconds: f64,
        total: &Report,
        failed: Option<&Failed>,
    ) -> serde_json::Value {
        json!({
            "ok": failed.is_none(),
            "seed_base": self.seed_base,
            "seeds": seeds,
            "operations_per_seed": self.operations,
            "operations": total.operations,
            "seconds": seconds,
            "power_cuts": total.power_cuts,
            "recovery_cuts": total.recovery_cuts,
            "losses": total.losses,
            "refusals": total.refusals,
            "faults": total.faults,
            "drops": total.stats.drops,
            "joins": total.stats.joins,
            "freezes": total.stats.freezes,
            "digest": format!("{:016x}", total.digest),
            "failed_seed": failed.map(|failed| failed.0),
            "violation": failed.map(|failed| &failed.1),
            "replay": failed.map(|failed| self.replay(failed.0)),
        })
    }
}

/// A panic of the core is a violation as well.
fn attempt(
    work: impl FnOnce() -> Result<Report, mirror::torture::Violation>,
) -> Result<Report, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(|violation| violation.0),
        Err(_) => Err("the core stopped with an assertion, printed above".into()),
    }
}

fn lines(seeds: u64, seconds: f64, total: &Report) -> Vec<String> {
    let stats = &total.stats;
    vec![
        format!(
            "{seeds} seeds, {} host requests, {seconds:.1} s, digest {:016x}",
            total.operations, total.digest
        ),
        format!(
            "{} power cuts ({} inside recovery, {} with a device lost), {} other faults",
            total.power_cuts, total.recovery_cuts, total.losses, total.faults
        ),
        format!(
            "{} refused starts, {} freezes, {} devices left out, {} legs taken back",
            total.refusals, stats.freezes, stats.drops, stats.joins
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_seed_gives_the_line_that_repeats_it() {
        let args = Args {
            seeds: Some(7),
            seconds: None,
            seed_base: 1,
            jobs: None,
            operations: 50,
            trace: false,
            json: false,
        };
        let failure = args.failure(&(41, "block 3 is lost (I1)".into()));
        assert_eq!(failure.exit_code(), 101);
        let text = failure.to_string();
        let line = "blocklab mirror torture --seeds 1 --seed-base 41 --operations 50";
        assert!(text.contains(line) && text.contains("seed 41: block 3 is lost (I1)"), "{text}");
    }
}

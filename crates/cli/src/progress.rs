//! Progress with an estimate of what is left, on stderr, for anything over a second.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use study::{PlannedStudy, Watch};

/// Shorter studies show no progress.
const QUIET: Duration = Duration::from_secs(1);
/// Without a terminal there is one line per this long.
pub(crate) const LINE_EVERY: Duration = Duration::from_secs(15);
const STEPS: u64 = 1000;

/// Show progress while `work` runs.
pub(crate) fn during<T>(plan: &PlannedStudy, watch: &Watch, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (stop, stopped) = channel();
        let shower = spawn(scope, plan, watch, stopped);
        let _stop: Sender<()> = stop; // dropped when the work is done, or panics
        let result = work();
        drop(_stop);
        // A shower that panicked has nothing to say about the result.
        let _ = shower.join();
        result
    })
}

fn spawn<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    plan: &'env PlannedStudy,
    watch: &'env Watch,
    stopped: Receiver<()>,
) -> ScopedJoinHandle<'scope, ()> {
    scope.spawn(move || {
        let began = Instant::now();
        if wait(&stopped, QUIET) {
            return;
        }
        if std::io::stderr().is_terminal() {
            bar(plan, watch, &stopped)
        } else {
            lines(plan, watch, &stopped, began)
        }
    })
}

/// True when the work is done.
fn wait(stopped: &Receiver<()>, time: Duration) -> bool {
    !matches!(stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout))
}

fn bar(plan: &PlannedStudy, watch: &Watch, stopped: &Receiver<()>) {
    let bar = ProgressBar::new(STEPS);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    let mut estimate = Estimate::since(Instant::now());
    while !wait(stopped, Duration::from_millis(100)) {
        let share = watch.share(plan);
        bar.set_position((share * STEPS as f64) as u64);
        bar.set_message(message(plan, watch, share, &mut estimate));
    }
    bar.finish_and_clear();
}

fn lines(plan: &PlannedStudy, watch: &Watch, stopped: &Receiver<()>, began: Instant) {
    let mut estimate = Estimate::since(began);
    while !wait(stopped, LINE_EVERY) {
        let share = watch.share(plan);
        crate::warn(format!(
            "{:3.0} %  {}",
            share * 100.0,
            message(plan, watch, share, &mut estimate)
        ));
    }
}

fn message(plan: &PlannedStudy, watch: &Watch, share: f64, estimate: &mut Estimate) -> String {
    let done = watch.finished();
    let requests: u64 = watch.runs.iter().map(|run| run.requests.load(Ordering::Relaxed)).sum();
    let mut text = format!("{done}/{} runs", plan.runs.len());
    text += &match requests {
        0 if plan.travels() => String::new(),
        0 => ", preconditioning".to_string(),
        n => format!(", {} requests", HumanCount(n)),
    };
    let taken = watch.taken.load(Ordering::Relaxed) as f64 / plan.runs.len() as f64;
    if let Some(left) = estimate.left(estimate.began.elapsed(), share, taken) {
        text += &format!(", {} left", HumanDuration(left));
    }
    text
}

/// How long the rest will take. It is said anew only when more of the study is done: while a
/// drive is preconditioned the share stands still, and what was said before counts down, and then
/// is silent.
struct Estimate {
    began: Instant,
    share: f64,
    /// When all will be done, counted from the beginning.
    end: Option<Duration>,
}

impl Estimate {
    fn since(began: Instant) -> Estimate {
        Estimate { began, share: 0.0, end: None }
    }

    /// After `elapsed`, once a percent is done here; the share `taken` was done before.
    fn left(&mut self, elapsed: Duration, share: f64, taken: f64) -> Option<Duration> {
        let here = share - taken;
        if share > self.share && here > 0.01 {
            self.end = Some(elapsed + elapsed.mul_f64((1.0 - share) / here));
        }
        self.share = share;
        self.end?.checked_sub(elapsed).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    #[test]
    fn what_was_done_before_says_nothing_about_the_pace() {
        let left = |share, taken| Estimate::since(Instant::now()).left(TEN, share, taken);
        assert_eq!(left(0.75, 0.5), Some(TEN));
        assert_eq!(left(0.5, 0.0), Some(TEN));
        assert_eq!(left(0.5, 0.5), None);
    }

    #[test]
    fn it_does_not_rise_while_nothing_is_finished() {
        let mut estimate = Estimate::since(Instant::now());
        let mut left = |seconds| estimate.left(Duration::from_secs(seconds), 0.5, 0.0);
        assert_eq!([left(10), left(14)], [10, 6].map(|s| Some(Duration::from_secs(s))));
        assert_eq!([left(20), left(30)], [None, None]);
    }
}

//! How far a fit is: parts, or amounts of flash, that were tried.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::progress::LINE_EVERY;

/// Steps of which there are so many at most, one after the other.
pub(super) struct Steps {
    bar: ProgressBar,
    what: &'static str,
    most: u64,
    began: Instant,
    /// When the last line was written, without a terminal; `None` with one.
    line: Option<Cell<Instant>>,
}

impl Steps {
    /// `shown` unless whoever reads the answer is a program.
    pub(super) fn new(what: &'static str, most: u64, shown: bool) -> Steps {
        let began = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        let bar = if shown && terminal { ProgressBar::new(most) } else { ProgressBar::hidden() };
        let text = format!("{{bar:30}} {{pos}} of at most {{len}} {what}, at most {{eta}} left");
        if let Ok(style) = ProgressStyle::with_template(&text) {
            bar.set_style(style);
        }
        let line = (shown && !terminal).then(|| Cell::new(began));
        Steps { bar, what, most, began, line }
    }

    /// So many are done.
    pub(super) fn at(&self, done: u64) {
        self.bar.set_position(done);
        if done > self.most {
            self.bar.set_length(done);
        }
        if let Some(last) = self.line.as_ref().filter(|last| last.get().elapsed() >= LINE_EVERY) {
            last.set(Instant::now());
            crate::warn(self.told(done, self.began.elapsed()));
        }
    }

    fn told(&self, done: u64, elapsed: Duration) -> String {
        if done > self.most {
            // What says how well all is known is run in any case.
            return format!("{done} {}, {} more than asked for", self.what, done - self.most);
        }
        let each = elapsed.as_secs_f64() / done.max(1) as f64;
        let left = Duration::from_secs_f64(each * self.most.saturating_sub(done) as f64);
        let (most, what) = (self.most, self.what);
        format!("{done} of at most {most} {what}, at most {} left", HumanDuration(left))
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_say_how_long_the_rest_takes_at_most() {
        let told = |done| Steps::new("parts", 80, false).told(done, Duration::from_secs(10));
        assert_eq!(told(20), "20 of at most 80 parts, at most 30 seconds left");
        assert_eq!(told(90), "90 parts, 10 more than asked for");
    }
}

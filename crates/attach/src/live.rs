//! One line on a terminal, once a second: what the device is doing.

use std::io::Write;

use sim::{Counters, Nanos};
use study::metrics;

use crate::clock::Wall;
use crate::engine::Engine;
use crate::statistics::Quantiles;

/// Nanoseconds between two lines.
pub(crate) const EVERY_NS: u64 = 1_000_000_000;

/// What was counted when the last line was written.
#[derive(Debug, Default)]
pub(crate) struct Live {
    at: Wall,
    replies: u64,
    transferred: u64,
    counters: Counters,
    written: bool,
}

impl Live {
    /// Write the line for what happened since the last one.
    pub(crate) fn show(&mut self, now: Wall, name: &str, counters: Counters, engine: &mut Engine) {
        let dilation = engine.timeline().dilation;
        let faults = engine.faults().list().count();
        let statistics = engine.statistics();
        let seconds = now.since(self.at) as f64 / 1e9;
        let rate = (statistics.replies() - self.replies) as f64 / seconds;
        let megabytes = (statistics.transferred() - self.transferred) as f64 / seconds / 1e6;
        let recent = statistics.take_recent();
        let (served, late) = (Quantiles::of(&recent.served), Quantiles::of(&recent.lateness));
        let mut line = format!(
            "{name}: {rate:.0} IOPS {megabytes:.1} MB/s  served p50 {:.0} p99 {:.0} us  \
             late p99 {:.1} us",
            served.p50, served.p99, late.p99
        );
        let since = counters.since(&self.counters);
        if let Some(waf) = metrics::value(&since, "waf") {
            line += &format!("  WAF {waf:.2}");
        }
        let modelled = Nanos(now.since(self.at) / dilation);
        if let Some((busy, _)) = metrics::utilisation(&since, modelled) {
            line += &format!("  busy {:.0} %", busy * 100.0);
        }
        if faults > 0 {
            line += &format!("  {faults} fault(s)");
        }
        let mut stderr = std::io::stderr().lock();
        // A terminal that went away shows nothing.
        let _ = write!(stderr, "\r\x1b[2K{line}").and_then(|()| stderr.flush());
        self.written = true;
        self.at = now;
        (self.replies, self.transferred) = (statistics.replies(), statistics.transferred());
        self.counters = counters;
    }

    /// Leave the line standing and go to the next.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.written) {
            config::warn("");
        }
    }
}

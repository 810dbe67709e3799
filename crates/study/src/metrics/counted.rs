//! Metrics that models declare, computed from what their device counted: for the device, and for
//! each part of it that counts.

use models::registry;
use sim::Counters;
use sim::metric::{Formula, Metric};

use super::Metrics;
use crate::observe::Series;

/// Every metric that a model declares.
pub(super) fn declared() -> impl Iterator<Item = &'static Metric> {
    registry::counted().into_iter().flat_map(|table| table.metrics)
}

/// Readings that metrics follow from.
#[derive(Clone, Copy)]
pub(super) struct Readings<'a> {
    /// What was counted while measuring.
    pub(super) total: &'a Counters,
    /// Levels over the measured time, where they were read.
    pub(super) series: Option<&'a Series>,
    /// The power was cut, and `total` was read after that.
    pub(super) after_cut: bool,
}

impl Readings<'_> {
    /// Add the metric of the device, also where it is undefined, and of its parts that define it,
    /// under the part's name.
    pub(super) fn add(&self, metric: &Metric, metrics: &mut Metrics) {
        metrics.insert(metric.name.into(), self.value(metric));
        for part in &self.total.parts {
            if let Some(value) = self.of(metric.formula, &[part]) {
                metrics.insert(format!("{part}.{}", metric.name), Some(value));
            }
        }
    }

    /// The metric of the device: its own, or else that of its parts together.
    pub(super) fn value(&self, metric: &Metric) -> Option<f64> {
        let formula = metric.formula;
        let counts = |at: &str| formula.reads().iter().any(|name| self.has(at, name));
        if counts("") {
            return self.of(formula, &[""]);
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in &self.total.parts {
            // A part of a part is in what that one says.
            let within =
                |outer: &&str| part.strip_prefix(*outer).is_some_and(|r| r.starts_with('.'));
            if counts(part) && !parts.iter().any(within) {
                parts.push(part);
            }
        }
        self.of(formula, &parts)
    }

    /// The formula over these parts; `""` is the device itself.
    fn of(&self, formula: Formula, parts: &[&str]) -> Option<f64> {
        let divided = |value: Option<f64>, by: u64| value.map(|value| value / by as f64);
        match formula {
            Formula::Count(name) => self.sum(parts, name).map(|count| count as f64),
            Formula::Scaled(name, by) => divided(self.sum(parts, name).map(|c| c as f64), by),
            Formula::Ratio(of, per) => {
                let dividend = self.sum(parts, of)?;
                let divisor: u64 = per.iter().filter_map(|name| self.sum(parts, name)).sum();
                (divisor > 0).then(|| dividend as f64 / divisor as f64)
            }
            Formula::Mean(name, by) => divided(self.over_time(parts, name).map(|l| l.0), by),
            Formula::Highest(name, by) => divided(self.over_time(parts, name).map(|l| l.1), by),
            Formula::Last(name, by) => divided(self.last(parts, name), by),
            Formula::AfterPowerCut(name, by) => {
                divided(self.last(parts, name).filter(|_| self.after_cut), by)
            }
        }
    }

    fn has(&self, part: &str, name: &str) -> bool {
        let levels = &self.total.levels;
        self.sum(&[part], name).is_some() || levels.iter().any(|(n, _)| is(n, part, name))
    }

    /// The sum of the counts of that name; `None` when there is none.
    fn sum(&self, parts: &[&str], name: &str) -> Option<u64> {
        let ours = |counted: &str| parts.iter().any(|part| is(counted, part, name));
        let mut counts = self.total.counts.iter().filter(|(n, _)| ours(n)).peekable();
        counts.peek().is_some().then(|| counts.map(|(_, count)| *count).sum())
    }

    fn last(&self, parts: &[&str], name: &str) -> Option<f64> {
        let ours = |level: &str| parts.iter().any(|part| is(level, part, name));
        let levels = self.total.levels.iter().filter(|(n, _)| ours(n));
        levels.map(|&(_, level)| level as f64).reduce(f64::max)
    }

    fn over_time(&self, parts: &[&str], name: &str) -> Option<(f64, f64)> {
        self.series?.level(|level| parts.iter().any(|part| is(level, part, name)))
    }
}

/// Is `counted` what the device's part `part` counts under `name`? A name that ends in `.*` stands
/// for all that begin so.
fn is(counted: &str, part: &str, name: &str) -> bool {
    let own = match part {
        "" => Some(counted),
        part => counted.strip_prefix(part).and_then(|rest| rest.strip_prefix('.')),
    };
    own.is_some_and(|own| sim::metric::stands_for(name, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 pages of 16 KiB, a quarter of each written by the host.
    fn drive() -> Counters {
        let mut total = Counters::default();
        for (name, count) in [
            ("host_writes", 100),
            ("host_bytes_written", 100 * 4096),
            ("flash_programs.host", 98), // two were overwritten in the buffer
            ("flash_programs.gc", 50),
            ("flash_copybacks.gc", 10), // among the 50
            ("flash_bytes_programmed.host", 98 * 16384),
            ("flash_bytes_programmed.gc", 50 * 16384),
            ("flash_bytes_programmed.parity", 37 * 16384),
            ("map_lookups", 8),
            ("map_hits", 6),
        ] {
            total.add(name, count);
        }
        total
    }

    fn metrics(total: &Counters) -> Metrics {
        let mut metrics = Metrics::new();
        let readings = Readings { total, series: None, after_cut: false };
        declared().for_each(|metric| readings.add(metric, &mut metrics));
        metrics
    }

    #[test]
    fn write_amplification_is_split_by_cause() {
        let metrics = metrics(&drive());
        let parts = ["waf_host", "waf_gc", "waf_parity"].map(|part| metrics[part].unwrap());
        assert_eq!((metrics["waf"], parts.iter().sum::<f64>()), (Some(4.0 * 1.85), 4.0 * 1.85));
        assert_eq!((metrics["waf_host"], metrics["waf_gc"]), (Some(4.0 * 0.98), Some(4.0 * 0.5)));
        assert_eq!(metrics["flash_programs"], Some(148.0));
        assert_eq!(metrics["map_hit_ratio"], Some(0.75));
        for none in ["waf_wear", "flash_erases", "mirror_freezes"] {
            assert_eq!(metrics[none], None, "{none}");
        }
    }

    #[test]
    fn a_part_has_metrics_of_its_own_and_adds_to_those_of_the_whole() {
        let mut outer = Counters::default();
        outer.add("freezes", 3);
        let mut half = drive();
        half.add("freezes", 100); // of a mirror in the mirror
        half.counts.iter_mut().find(|(n, _)| n == "flash_programs.gc").unwrap().1 = 0;
        half.counts.iter_mut().find(|(n, _)| n == "flash_bytes_programmed.gc").unwrap().1 = 0;
        outer.nest("fast", drive());
        outer.nest("slow", half);
        let metrics = metrics(&outer);
        assert_eq!(
            (metrics["fast.waf"], metrics["slow.waf"]),
            (Some(4.0 * 1.85), Some(4.0 * 1.35))
        );
        assert_eq!(metrics["waf"], Some(4.0 * 1.6), "bytes by bytes");
        assert_eq!(metrics["flash_programs"], Some(98.0 + 98.0 + 50.0));
        assert_eq!(
            (metrics["mirror_freezes"], metrics["slow.mirror_freezes"]),
            (Some(3.0), Some(100.0))
        );
    }

    #[test]
    fn a_part_of_a_part_is_counted_once() {
        let mut pair = Counters::default();
        pair.nest("first", drive());
        pair.nest("second", drive());
        let mut outer = Counters::default();
        outer.nest("fast", pair);
        outer.nest("slow", Counters::default());
        let metrics = metrics(&outer);
        assert_eq!(metrics["host_pages_written"], Some(200.0));
        assert_eq!(metrics["fast.first.waf"], metrics["waf"]);
    }
}

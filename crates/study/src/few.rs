//! Percentiles of too few requests, which say nothing.

use crate::metrics::{self, Metrics};
use crate::spoken::number;

/// Requests that must lie beyond a percentile for it to say something.
const BEYOND_MIN: f64 = 10.0;

/// Why a percentile says nothing: one of the runs has so few requests of its kind.
pub(crate) fn requests<'a>(
    metric: &str,
    runs: impl Iterator<Item = &'a Metrics>,
) -> Option<String> {
    // Every share is of a power of ten: what is off is the last bit of a float.
    let needed = (BEYOND_MIN / (1.0 - metrics::percentile(metric)?)).round();
    let fewest = runs.filter_map(|run| count(metric, run)).min_by(f64::total_cmp)?.round();
    (fewest < needed).then(|| {
        let (few, needed) = (number(fewest, 12), number(needed, 12));
        format!("a run has {few} such requests, and this percentile takes {needed}")
    })
}

/// The requests that a response time is of; at most so many flushes, which no metric counts.
fn count(metric: &str, run: &Metrics) -> Option<f64> {
    let of = |name: &str| run.get(name).copied().flatten();
    let (kind, _) = metric.rsplit_once("latency_us_")?;
    // What a program in a guest saw, and the guest's kernel.
    if kind.starts_with("fio_") {
        return of(&format!("{kind}requests"));
    }
    if kind.starts_with("block_") {
        return of(&format!("{kind}dispatched"));
    }
    if kind == "flush_" {
        return metrics::flushes(run);
    }
    // A job has a time of its own.
    let job = kind.rfind('.').map_or("", |dot| &kind[..=dot]);
    Some(of(&format!("{kind}iops"))? * of(&format!("{job}{}", metrics::TIME))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(metric: &str, run: &[(&str, f64)]) -> Option<String> {
        let run: Metrics =
            run.iter().map(|(name, value)| (name.to_string(), Some(*value))).collect();
        requests(metric, [&run].into_iter())
    }

    #[test]
    fn what_a_percentile_is_of_is_counted_and_nothing_else() {
        let flushed = [("host_requests", 1010.0), ("iops", 10.0), ("simulated_s", 2.0)];
        assert!(of("latency_us_p99", &flushed).unwrap().contains("has 20 such"), "no flushes");
        assert!(of("flush_latency_us_p99", &flushed).unwrap().contains("has 990 such"));
        assert_eq!(of("flush_latency_us_p90", &flushed), None);
        let discarded = [&flushed[..], &[("discard_iops", 490.0)]].concat();
        assert!(of("flush_latency_us_p99", &discarded).unwrap().contains("has 10 such"));
        assert!(of("discard_latency_us_p99", &discarded).unwrap().contains("has 980 such"));
        assert_eq!(of("latency_us_p90", &[("iops", 100.0), ("simulated_s", 1.0)]), None);
        let named = [("job.latency-bound.read_iops", 5.0), ("job.latency-bound.simulated_s", 2.0)];
        let few = of("job.latency-bound.read_latency_us_p50", &named).unwrap();
        assert!(few.contains("has 10 such requests, and this percentile takes 20"), "{few}");
    }

    /// The rate of fio's is of its own time, and the block layer has counts.
    #[test]
    fn what_travelled_is_counted_by_who_counted_it() {
        let run = [
            ("block_read_dispatched", 5.0),
            ("fio_write_requests", 100.0),
            ("fio_write_iops", 1000.0),
            ("simulated_s", 1.6),
        ];
        assert!(of("block_read_latency_us_p95", &run).unwrap().contains("has 5 such requests"));
        assert!(of("fio_write_latency_us_p99", &run).unwrap().contains("has 100 such requests"));
        assert_eq!(of("fio_write_latency_us_p50", &run), None);
    }
}

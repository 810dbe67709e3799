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
    let needed = (BEYOND_MIN / (1.0 - metrics::percentile(metric)?)).ceil();
    let fewest = runs.filter_map(|run| count(metric, run)).min_by(f64::total_cmp)?.round();
    (fewest < needed).then(|| {
        let (few, needed) = (number(fewest, 12), number(needed, 12));
        format!("a run has {few} such requests, and this percentile takes {needed}")
    })
}

fn count(metric: &str, run: &Metrics) -> Option<f64> {
    let of = |name: &str| run.get(name).copied().flatten();
    let (kind, _) = metric.split_once("latency")?;
    if kind.is_empty() {
        return of("host_requests");
    }
    // A job has a time of its own.
    let job = kind.rfind('.').map_or("", |dot| &kind[..=dot]);
    Some(of(&format!("{kind}iops"))? * of(&format!("{job}{}", metrics::TIME))?)
}

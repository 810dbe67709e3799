//! Expectations: statements about the results that hold or do not.

use serde::Serialize;

use crate::document::Expect;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::plan::PlannedRun;

/// What became of an expectation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// The claim, in words.
    pub text: String,
    /// Whether it holds.
    pub ok: bool,
    /// The metric's value: of the first point where the claim fails, or else of the first point.
    pub value: Option<f64>,
    /// What was expected of it.
    pub expected: String,
}

/// An expectation needs bounds that make sense.
pub(crate) fn check_bounds(expect: &Expect) -> Result<(), Failure> {
    let Expect { min, max, equal, tolerance_percent, .. } = expect;
    let bounded = min.is_some() || max.is_some();
    let sense = match equal {
        Some(_) => !bounded,
        None => bounded && tolerance_percent.is_none(),
    };
    match sense {
        true => Ok(()),
        false => Err(Failure::input("the expectation claims nothing that can be checked")
            .expected("min, max or both; or equal, with tolerance_percent")),
    }
}

/// Check an expectation. Repeats of a point are averaged; every selected point must hold.
pub(crate) fn check(expect: &Expect, runs: &[(&PlannedRun, &Metrics)]) -> Verdict {
    let mut points: Vec<(&PlannedRun, Vec<Option<f64>>)> = Vec::new();
    for (run, metrics) in runs.iter().filter(|(run, _)| selected(expect, run)) {
        let value = metrics.get(&expect.metric).copied().flatten();
        let by_repeat = expect.which.contains_key("repeat");
        match points.iter_mut().find(|(point, _)| point.params == run.params && !by_repeat) {
            Some((_, values)) => values.push(value),
            None => points.push((run, vec![value])),
        }
    }
    let means: Vec<Option<f64>> = points.iter().map(|(_, values)| mean(values)).collect();
    let failing = means.iter().find(|value| !value.is_some_and(|value| holds(expect, value)));
    let value = failing.or(means.first()).copied().flatten();
    let ok = failing.is_none() && !means.is_empty();
    Verdict { text: expect.text.clone(), ok, value, expected: wanted(expect) }
}

fn selected(expect: &Expect, run: &PlannedRun) -> bool {
    expect.which.iter().all(|(axis, wanted)| match axis.as_str() {
        "repeat" => wanted.0.as_integer() == Some(i64::from(run.repeat)),
        _ => run.params.iter().any(|(name, value)| {
            name == axis && (value == wanted || value.label() == wanted.label())
        }),
    })
}

fn mean(values: &[Option<f64>]) -> Option<f64> {
    let known: Option<Vec<f64>> = values.iter().copied().collect();
    known.map(|known| known.iter().sum::<f64>() / known.len() as f64)
}

fn holds(expect: &Expect, value: f64) -> bool {
    let tolerance = expect.tolerance_percent.unwrap_or(0.0) / 100.0;
    expect.min.is_none_or(|min| value >= min)
        && expect.max.is_none_or(|max| value <= max)
        && expect.equal.is_none_or(|equal| (value - equal).abs() <= tolerance * equal.abs())
}

fn wanted(expect: &Expect) -> String {
    let metric = &expect.metric;
    match (expect.equal, expect.min, expect.max) {
        (Some(equal), ..) => {
            format!("{metric} = {equal} within {} %", expect.tolerance_percent.unwrap_or(0.0))
        }
        (None, Some(min), Some(max)) => format!("{min} <= {metric} <= {max}"),
        (None, Some(min), None) => format!("{metric} >= {min}"),
        (None, None, Some(max)) => format!("{metric} <= {max}"),
        (None, None, None) => metric.clone(),
    }
}

//! Expectations and claims: statements about the results, and whether they hold.

use std::collections::BTreeMap;

use config::Failure;
use serde::Serialize;

use crate::axis_value::AxisValue;
use crate::document::{Band, Claim, Expect};
use crate::few;
use crate::metrics::Metrics;
use crate::planned::PlannedRun;
use crate::spoken;

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
    /// The same for people, with the run that it is of and how far it is off.
    pub measured: String,
    /// False where it is of too few requests to say so, as `measured` tells.
    #[serde(skip)]
    pub is_evidence: bool,
}

/// An expectation needs bounds that make sense.
pub(crate) fn check_bounds(expect: &Expect) -> Result<(), Failure> {
    let Expect { min, max, equal, tolerance_percent, .. } = expect;
    let bound = min.and(Some("min")).or(max.and(Some("max")));
    let wrong = match (equal, bound, tolerance_percent) {
        (Some(_), Some(bound), _) => Some(format!("`equal` beside `{bound}` claims two things")),
        (None, _, Some(_)) => Some("`tolerance_percent` is nothing without `equal`".into()),
        (None, None, None) => Some("the expectation claims nothing that can be checked".into()),
        _ => None,
    };
    if let Some(what) = wrong {
        return Err(
            Failure::input(what).expected("min, max or both; or equal, with tolerance_percent")
        );
    }
    if equal.or(*tolerance_percent).is_some_and(|value| !value.is_finite()) {
        return Err(Failure::input("nothing equals a value that is no number").expected("a number"));
    }
    check_ends(Band { min: *min, max: *max })
}

/// Some value must be within, and some beyond.
pub(crate) fn check_band(band: Band) -> Result<(), Failure> {
    if band == Band::default() {
        let failure =
            Failure::input("the claim says nothing that can be checked: every value fits");
        return Err(failure.expected("a band with min, max or both, such as { min = 1.5 }"));
    }
    check_ends(band)
}

fn check_ends(band: Band) -> Result<(), Failure> {
    let Band { min, max } = band;
    if let Some(bound) = [min, max].into_iter().flatten().find(|bound| !bound.is_finite()) {
        return Err(Failure::input(format!("{bound} bounds nothing")).expected("a number"));
    }
    match (min, max) {
        (Some(min), Some(max)) if min > max => {
            Err(Failure::input(format!("nothing is at least {min} and at most {max}"))
                .expected("min <= max"))
        }
        _ => Ok(()),
    }
}

/// Which numbers a statement is about.
#[derive(Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) metric: &'a str,
    pub(crate) per: Option<&'a str>,
    pub(crate) which: &'a BTreeMap<String, AxisValue>,
    pub(crate) relative_to: &'a BTreeMap<String, AxisValue>,
}

impl Expect {
    pub(crate) fn selection(&self) -> Selection<'_> {
        let Expect { metric, per, which, relative_to, .. } = self;
        Selection { metric, per: per.as_deref(), which, relative_to }
    }
}

impl Claim {
    pub(crate) fn selection(&self) -> Selection<'_> {
        let Claim { metric, per, which, relative_to, .. } = self;
        Selection { metric, per: per.as_deref(), which, relative_to }
    }
}

pub(crate) type Runs<'a> = [(&'a PlannedRun, &'a Metrics)];
pub(crate) type Params = [(String, AxisValue)];
/// By the labels of the point, each of which an axis has once, and the repeat.
type Bases<'a> = BTreeMap<(Vec<String>, u32), &'a Metrics>;

impl Selection<'_> {
    fn values(&self, runs: &Runs) -> Vec<Option<f64>> {
        self.points(runs).into_iter().map(|(_, value)| value).collect()
    }

    /// The metric at every selected point, repeats averaged, divided by that of the point it is
    /// relative to.
    pub(crate) fn points<'a>(&self, runs: &Runs<'a>) -> Vec<(&'a Params, Option<f64>)> {
        let points = self.repeats(runs).into_iter();
        points.map(|(point, values)| (point, mean(&values))).collect()
    }

    /// The same, each repeat by itself.
    pub(crate) fn repeats<'a>(&self, runs: &Runs<'a>) -> Vec<(&'a Params, Vec<Option<f64>>)> {
        let mut points: Vec<(&'a Params, Vec<Option<f64>>)> = Vec::new();
        let by_repeat = self.which.contains_key("repeat");
        let bases = self.bases(runs);
        for (run, metrics) in runs.iter().filter(|(run, _)| self.selects(run)) {
            let value = self.value(run, metrics, &bases);
            // The repeats of a point follow each other.
            match points.last_mut().filter(|(point, _)| *point == run.params && !by_repeat) {
                Some((_, values)) => values.push(value),
                None => points.push((&run.params, vec![value])),
            }
        }
        points
    }

    /// What to say of a percentile of too few requests, those divided by included.
    fn too_few(&self, runs: &Runs) -> String {
        let bases = self.bases(runs);
        let of = |metric| {
            let selected = runs.iter().filter(|(run, _)| self.selects(run));
            few::requests(
                metric,
                selected.map(|(_, metrics)| *metrics).chain(bases.values().copied()),
            )
        };
        let few = of(self.metric).or_else(|| of(self.per?));
        few.map(|few| format!("; no evidence yet: {few}")).unwrap_or_default()
    }

    fn value(&self, run: &PlannedRun, metrics: &Metrics, bases: &Bases) -> Option<f64> {
        let value = self.own_value(metrics)?;
        if self.relative_to.is_empty() {
            return Some(value);
        }
        let base = self.own_value(bases.get(&self.base_of(run))?)?;
        (base != 0.0).then(|| value / base)
    }

    /// The runs that others are relative to. They are looked for by every selected run.
    fn bases<'a>(&self, runs: &Runs<'a>) -> Bases<'a> {
        let is_base = |run: &PlannedRun| {
            let wanted = |axis: &String| self.relative_to.get(axis);
            run.params.iter().all(|(axis, own)| wanted(axis).is_none_or(|wanted| own.same(wanted)))
        };
        let runs = runs.iter().filter(|(run, _)| !self.relative_to.is_empty() && is_base(run));
        runs.map(|(run, metrics)| (self.base_of(run), *metrics)).collect()
    }

    /// The labels of the point that a run is relative to, and the repeat.
    fn base_of(&self, run: &PlannedRun) -> (Vec<String>, u32) {
        let base =
            |(axis, own): &(String, AxisValue)| self.relative_to.get(axis).unwrap_or(own).label();
        (run.params.iter().map(base).collect(), run.repeat)
    }

    /// The metric of a run, divided by the other one.
    fn own_value(&self, metrics: &Metrics) -> Option<f64> {
        let of = |name: &str| metrics.get(name).copied().flatten();
        let value = of(self.metric)?;
        let Some(per) = self.per else { return Some(value) };
        of(per).filter(|&per| per != 0.0).map(|per| value / per)
    }

    fn selects(&self, run: &PlannedRun) -> bool {
        self.which.iter().all(|(axis, wanted)| match axis.as_str() {
            "repeat" => AxisValue(i64::from(run.repeat).into()).among(wanted),
            _ => run.params.iter().any(|(name, value)| name == axis && value.among(wanted)),
        })
    }
}

/// Check an expectation. Repeats of a point are averaged; every selected point must hold.
pub(crate) fn check(expect: &Expect, runs: &Runs) -> Verdict {
    let points = expect.selection().points(runs);
    let failing = points.iter().find(|(_, value)| !value.is_some_and(|v| holds(expect, v)));
    let ok = failing.is_none() && !points.is_empty();
    let point = failing.or(points.first());
    let value = point.and_then(|(_, value)| *value);
    let measured = match (point, value) {
        (None, _) => "no run".to_string(),
        (Some(_), None) => "undefined".to_string(),
        (Some(_), Some(value)) => measured(expect, value),
    };
    let at = point.filter(|_| points.len() > 1).map(|(params, _)| at(params)).unwrap_or_default();
    let too_few = expect.selection().too_few(runs);
    let is_evidence = too_few.is_empty();
    let measured = measured + &at + &too_few;
    let (text, expected) = (expect.text.clone(), wanted(expect));
    Verdict { text, ok, value, expected, measured, is_evidence }
}

/// The value with its unit, and how far it is beyond its bounds.
fn measured(expect: &Expect, value: f64) -> String {
    let selection = expect.selection();
    let is_ratio = selection.per.is_some() || !selection.relative_to.is_empty();
    let text =
        if is_ratio { spoken::number(value, 4) } else { spoken::of(selection.metric, value) };
    let bound = expect.min.filter(|min| value < *min).or(expect.max.filter(|max| value > *max));
    match bound.or(expect.equal).filter(|bound| *bound != 0.0 && !holds(expect, value)) {
        Some(bound) => {
            let percent = 100.0 * (value / bound - 1.0);
            let word = if percent < 0.0 { "too little" } else { "too much" };
            format!("{text}, {} % {word}", spoken::number(percent.abs(), 2))
        }
        None => text,
    }
}

/// Which point it is.
fn at(params: &Params) -> String {
    let labels: Vec<String> = params.iter().map(|(_, value)| value.label()).collect();
    if labels.is_empty() { String::new() } else { format!(" ({})", labels.join(", ")) }
}

/// How much of a claim holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum Standing {
    /// At every selected point.
    #[serde(rename = "holds")]
    Holds,
    /// Not everywhere, but nowhere beyond the wider band.
    #[serde(rename = "holds in part")]
    InPart,
    /// Some point is beyond both bands, undefined, or there is none.
    #[serde(rename = "does not hold")]
    Not,
}

/// What became of a claim.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// The claim, in words.
    pub text: String,
    /// Who says so.
    pub source: String,
    /// How much of it holds.
    pub standing: Standing,
    /// Smallest and largest value of the metric over the selected points.
    pub range: Option<(f64, f64)>,
    /// What would make it hold.
    pub expected: String,
}

/// Judge a claim. Repeats of a point are averaged; the worst point decides, or the mean of all.
pub(crate) fn judge(claim: &Claim, runs: &Runs) -> Judged {
    let mut values = claim.selection().values(runs);
    if claim.mean && !values.is_empty() {
        values = vec![mean(&values)];
    }
    let standing = |value: &Option<f64>| match value {
        Some(value) if claim.holds.holds(*value) => Standing::Holds,
        Some(value) if claim.in_part.is_some_and(|band| band.holds(*value)) => Standing::InPart,
        _ => Standing::Not,
    };
    let known: Vec<f64> = values.iter().copied().flatten().collect();
    let ends = known.iter().fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
    Judged {
        text: claim.text.clone(),
        source: claim.source.clone(),
        standing: values.iter().map(standing).max().unwrap_or(Standing::Not),
        range: (!known.is_empty()).then_some(ends),
        expected: bounds(&name(claim.selection()), claim.holds) + &claim.selection().too_few(runs),
    }
}

/// Never outside of its values: of three times 0.1 it would be 0.10000000000000002.
fn mean(values: &[Option<f64>]) -> Option<f64> {
    let known: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
    let least = known.iter().copied().reduce(f64::min)?;
    let most = known.iter().copied().reduce(f64::max)?;
    Some((known.iter().sum::<f64>() / known.len() as f64).clamp(least, most))
}

fn holds(expect: &Expect, value: f64) -> bool {
    let tolerance = expect.tolerance_percent.unwrap_or(0.0) / 100.0;
    expect.min.is_none_or(|min| value >= min)
        && expect.max.is_none_or(|max| value <= max)
        && expect.equal.is_none_or(|equal| (value - equal).abs() <= tolerance * equal.abs())
}

/// The metric in words.
pub(crate) fn name(selection: Selection) -> String {
    let base: Vec<String> = selection.relative_to.values().map(AxisValue::label).collect();
    let metric = match selection.per {
        Some(per) => format!("{} per {per}", selection.metric),
        None => selection.metric.to_string(),
    };
    match base[..] {
        [] => metric,
        _ => format!("{metric} / that of {}", base.join(", ")),
    }
}

fn bounds(metric: &str, band: Band) -> String {
    match (band.min, band.max) {
        (Some(min), Some(max)) => format!("{min} <= {metric} <= {max}"),
        (Some(min), None) => format!("{metric} >= {min}"),
        (None, Some(max)) => format!("{metric} <= {max}"),
        (None, None) => metric.to_string(),
    }
}

fn wanted(expect: &Expect) -> String {
    let metric = name(expect.selection());
    match expect.equal {
        Some(equal) => {
            format!("{metric} = {equal} within {} %", expect.tolerance_percent.unwrap_or(0.0))
        }
        None => bounds(&metric, Band { min: expect.min, max: expect.max }),
    }
}

#[cfg(test)]
mod tests {
    use super::mean;

    #[test]
    fn a_mean_is_never_outside_of_its_values() {
        assert_eq!(mean(&[Some(0.1); 3]), Some(0.1));
        assert_eq!(mean(&[Some(1.0), Some(2.0)]), Some(1.5));
        assert_eq!((mean(&[Some(1.0), None]), mean(&[])), (None, None));
    }
}

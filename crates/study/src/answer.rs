//! The answer to a study's question, in a sentence: its metric by its axis.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::axis_value::AxisValue;
use crate::chance;
use crate::document::AnswerMetric;
use crate::expect::{Params, Runs, Selection};
use crate::few;
use crate::figure::Figure;
use crate::plan::PlannedStudy;
use crate::planned::PlannedRun;
use crate::spoken::{self, number};

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Answer {
    /// The metric that it is about.
    pub metric: String,
    /// The axis.
    pub by: Option<String>,
    /// In a sentence.
    pub text: String,
}

/// Values of an axis that a sentence can name.
const NAMED_MAX: usize = 4;
/// Axes beside the first that have a sentence each.
const SENTENCES_MAX: usize = 2;
/// What is told of a study that asks for nothing, if it is defined.
const USUAL: [&str; 5] = ["crash_lost_share", "program_s", "iops", "waf", "latency_us_mean"];
/// The same of runs that neither read nor write.
const DISCARDS: &str = "discard_iops";

/// What `runs` answer; nothing where no metric is defined.
pub(crate) fn answer(plan: &PlannedStudy, runs: &Runs) -> Option<Answer> {
    if let Some(AnswerMetric { metric, by }) = &plan.header.answer
        && !is_defined(metric, runs)
    {
        let text = format!("There is no answer: {metric} is undefined in every run.");
        return Some(Answer { metric: metric.clone(), by: by.clone(), text });
    }
    let metric = asked(plan, runs)?;
    let selection = Selection {
        metric: &metric,
        per: None,
        which: &Default::default(),
        relative_to: &Default::default(),
    };
    let points: Vec<(&Params, f64)> = selection
        .points(runs)
        .into_iter()
        .filter_map(|(params, value)| Some((params, value?)))
        .collect();
    let axes = plan.axes.iter().filter(|axis| varies(&points, axis));
    let axes: Vec<&str> = axes.map(String::as_str).collect();
    let by = by(plan, &axes);
    let mut text = match by {
        None => format!("{metric} is {}", span(&metric, points.iter().map(|(_, value)| *value))),
        Some(by) => Cases::of(&points, by, &axes).sentence(&metric, by),
    };
    text += ".";
    // What was swept was asked about; devices and workloads are where it is asked.
    let swept = axes.iter().filter(|axis| axis.contains('.') && Some(**axis) != by);
    for axis in swept.take(SENTENCES_MAX) {
        text += &Cases::of(&points, axis, &axes).change(axis).unwrap_or_default();
    }
    // A run that does not define it is not what the sentence is about.
    let told = runs.iter().filter(|(_, metrics)| metrics.get(&metric).is_some_and(Option::is_some));
    text += &few::requests(&metric, told.map(|(_, metrics)| *metrics))
        .map(|few| format!(" That is no answer yet: {few}."))
        .unwrap_or_default();
    text += &chance::said(&selection, runs, plan.travels()).unwrap_or_default();
    Some(Answer { by: by.map(String::from), metric, text })
}

impl Answer {
    /// The metric against its axis, if that is of numbers.
    pub(crate) fn figure(&self, plan: &PlannedStudy) -> Option<Figure> {
        let by = self.by.as_ref()?;
        let number = |run: &PlannedRun| {
            value_of(&run.params, by)
                .is_some_and(|value| value.0.is_integer() || value.0.is_float())
        };
        let axis = by.rsplit('.').next().unwrap_or(by);
        plan.runs.iter().all(number).then(|| Figure {
            name: "answer".into(),
            title: format!("{} by {axis}", self.metric),
            x_label: Some(axis.into()),
            x: by.clone(),
            y: self.metric.clone(),
            ..Figure::default()
        })
    }
}

/// The metric: what the study says, or what it states first of all, or what is usual.
fn asked(plan: &PlannedStudy, runs: &Runs) -> Option<String> {
    let stated = plan.header.answer.iter().map(|asked| asked.metric.as_str());
    let usual = USUAL.map(|metric| match metric {
        "iops" if only_discards(runs) => DISCARDS,
        metric => metric,
    });
    let all = stated.chain(plan.asked()).chain(usual);
    all.into_iter().find(|metric| is_defined(metric, runs)).map(String::from)
}

/// Whether there was something to do, and it was to discard.
fn only_discards(runs: &Runs) -> bool {
    let some = |metric: &str| {
        let mut values = runs.iter().filter_map(|(_, metrics)| *metrics.get(metric)?);
        values.any(|value| value > 0.0)
    };
    some(DISCARDS) && !some("iops")
}

fn is_defined(metric: &str, runs: &Runs) -> bool {
    let mut values = runs.iter().filter_map(|(_, metrics)| metrics.get(metric)?.as_ref());
    values.any(|value| value.is_finite())
}

/// The axis whose values are compared, of those that vary.
fn by<'a>(plan: &'a PlannedStudy, axes: &[&'a str]) -> Option<&'a str> {
    let varies = |axis: &&str| axes.contains(axis);
    let stated = plan.header.answer.iter().filter_map(|asked| asked.by.as_deref());
    let claims = plan.claims.iter().flat_map(|claim| claim.relative_to.keys());
    let expectations = plan.expectations.iter().flat_map(|expect| expect.relative_to.keys());
    let figures = plan.report.figure.iter().map(|figure| &figure.x);
    let told = claims.chain(expectations).chain(figures).map(String::as_str);
    stated.chain(told).chain(["device"]).chain(axes.iter().copied()).find(varies)
}

fn varies(points: &[(&Params, f64)], axis: &str) -> bool {
    let value = |params: &Params| value_of(params, axis).map(AxisValue::label);
    points.iter().any(|(params, _)| value(params) != value(points[0].0))
}

fn value_of<'a>(params: &'a Params, axis: &str) -> Option<&'a AxisValue> {
    params.iter().find(|(name, _)| name == axis).map(|(_, value)| value)
}

/// The points by their value on one axis, and as cases that differ in that value alone.
struct Cases {
    /// Its values, in the order of the grid.
    labels: Vec<String>,
    /// The cases by name: the values of the other axes.
    cases: Vec<String>,
    /// By case, by value.
    values: Vec<Vec<Option<f64>>>,
    /// Whether the values are numbers, or amounts such as `7%`: more and less mean something.
    amounts: bool,
}

impl Cases {
    /// By one of `axes`, those that vary.
    fn of(points: &[(&Params, f64)], by: &str, axes: &[&str]) -> Cases {
        let (mut labels, mut cases) = (Numbers::default(), Numbers::default());
        let mut values: Vec<Vec<Option<f64>>> = Vec::new();
        let mut amounts = true;
        for (params, value) in points {
            let Some(own) = value_of(params, by) else { continue };
            amounts &= own.label().starts_with(|c: char| c.is_ascii_digit() || c == '-');
            let others = params.iter().filter(|(name, _)| name != by);
            let others = others.filter(|(name, _)| axes.contains(&name.as_str()));
            let others: Vec<String> = others.map(|(_, value)| value.label()).collect();
            let case = cases.of(others.join(" "));
            let label = labels.of(own.label());
            values.resize(cases.0.len(), Vec::new());
            let row = &mut values[case];
            row.resize(row.len().max(label + 1), None);
            row[label] = Some(*value);
        }
        let (labels, cases) = (labels.in_order(), cases.in_order());
        values.iter_mut().for_each(|row| row.resize(labels.len(), None));
        Cases { labels, cases, values, amounts }
    }

    fn sentence(&self, metric: &str, by: &str) -> String {
        let axis = by.rsplit('.').next().unwrap_or(by);
        let last = self.labels.len() - 1;
        let with = |index: usize| {
            if self.amounts {
                format!("at {axis} {}", self.labels[index])
            } else {
                format!("with {}", self.labels[index])
            }
        };
        if self.amounts || last >= NAMED_MAX {
            let (low, high) =
                if self.amounts { (0, last) } else { (self.extreme(false), self.extreme(true)) };
            // A stretch has a `to` of its own.
            let (is, and) =
                if self.values.len() == 1 { ("goes from", "to") } else { ("is", "and") };
            let ends = format!(
                "{metric} {is} {} {} {and} {} {}",
                self.spans(metric, low),
                with(low),
                self.spans(metric, high),
                with(high)
            );
            return ends + &self.growth(metric, low, high) + &self.between(metric, &with);
        }
        let each: Vec<String> = (0..=last)
            .map(|index| format!("{} {}", self.spans(metric, index), with(index)))
            .collect();
        let more = match self.factor(0, 1) {
            Some((low, high)) if last == 1 => {
                let (more, less) = if low * high < 1.0 { (0, 1) } else { (1, 0) };
                match factors(low, high, self.values.len()).as_str() {
                    "1" => format!("; {}", self.same(metric, 0, 1)),
                    by => format!("; {by} times as much {} as {}", with(more), with(less)),
                }
            }
            _ => self.always().unwrap_or_default(),
        };
        format!("{metric} is {}{more}", each.join(", "))
    }

    /// Which label has the most and which the least, where that is so in every case.
    fn always(&self) -> Option<String> {
        let same = |pick: fn(&f64, &f64) -> bool| {
            let best = |row: &Vec<Option<f64>>| {
                let mut best = None;
                for (label, value) in row.iter().enumerate() {
                    let value = (*value)?;
                    if best.is_none_or(|(_, other)| pick(&value, &other)) {
                        best = Some((label, value));
                    }
                }
                best.map(|(label, _)| &self.labels[label])
            };
            let first = best(self.values.first()?)?;
            self.values.iter().all(|row| best(row) == Some(first)).then_some(first)
        };
        let (most, least) = (same(f64::gt), same(f64::lt));
        if most == least {
            return None;
        }
        let most = most.map(|label| format!("the most with {label}"));
        let least = least.map(|label| format!("the least with {label}"));
        let said: Vec<String> = most.into_iter().chain(least).collect();
        let always = if self.values.len() > 1 { "always " } else { "" };
        (!said.is_empty()).then(|| format!("; {always}{}", said.join(", ")))
    }

    /// What its last label changes against its first, in a sentence of its own.
    fn change(&self, by: &str) -> Option<String> {
        let axis = by.rsplit('.').next().unwrap_or(by);
        let last = self.labels.len() - 1;
        if !self.amounts && last > 1 {
            return Some(format!(" By {axis} it is {}.", self.always()?.trim_start_matches("; ")));
        }
        let ratio = |row: &Vec<Option<f64>>| Some(row[last]? / row[0].filter(|v| *v != 0.0)?);
        let told = self.cases.iter().zip(&self.values);
        let told: Vec<(&str, f64)> =
            told.filter_map(|(case, row)| Some((case.as_str(), ratio(row)?))).collect();
        let (low, high) = told
            .iter()
            .fold((f64::MAX, 0.0_f64), |(low, high), (_, r)| (low.min(*r), high.max(*r)));
        let changes = match &told[..] {
            [] => return None,
            [(_, ratio)] if self.cases.len() == 1 => changed(*ratio),
            few if few.len() <= NAMED_MAX => {
                let each =
                    few.iter().map(|(case, ratio)| format!("{} with {case}", changed(*ratio)));
                each.collect::<Vec<_>>().join(", ")
            }
            many => {
                let of = match self.cases.len() {
                    all if all == many.len() => String::new(),
                    all => format!("of {all} "),
                };
                format!("{} to {} in {} {of}cases", changed(low), changed(high), many.len())
            }
        };
        Some(format!(
            " With {axis} {} instead of {}: {changes}.",
            self.labels[last], self.labels[0]
        ))
    }

    /// By how much it changes from one label to another.
    fn growth(&self, metric: &str, from: usize, to: usize) -> String {
        let Some((low, high)) = self.factor(from, to) else { return String::new() };
        match factors(low, high, self.values.len()).as_str() {
            "1" => format!(": {}", self.same(metric, from, to)),
            by => format!(": by a factor of {by}"),
        }
    }

    /// What a factor of 1 is: nothing, or too little for three digits.
    fn same(&self, metric: &str, from: usize, to: usize) -> &'static str {
        let same = self.spans(metric, from) == self.spans(metric, to);
        if same { "no change" } else { "less than 1 % apart" }
    }

    /// Where it is more, or less, in the middle than at both ends of an axis of numbers.
    fn between(&self, metric: &str, with: &dyn Fn(usize) -> String) -> String {
        let [row] = &self.values[..] else { return String::new() };
        if !self.amounts {
            return String::new();
        }
        let known: Vec<(usize, f64)> =
            row.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?))).collect();
        let most = known.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let least = known.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let inside = |found: Option<&(usize, f64)>, word: &str| {
            let &(index, value) = found?;
            let ends = [known.first()?.1, known.last()?.1];
            let apart = ends.iter().all(|end| (value - end).abs() > 0.05 * end.abs());
            let text = format!("; {word} is {} {}", spoken::of(metric, value), with(index));
            apart.then_some(text)
        };
        inside(most, "the most").or_else(|| inside(least, "the least")).unwrap_or_default()
    }

    /// The values of a label, over the cases.
    fn spans(&self, metric: &str, label: usize) -> String {
        span(metric, self.values.iter().filter_map(|row| row[label]))
    }

    /// How many times as much one label has as another: the least and the most of all cases, if
    /// each has something with both.
    fn factor(&self, from: usize, to: usize) -> Option<(f64, f64)> {
        let some = |value: Option<f64>| value.filter(|value| *value != 0.0);
        let mut ratios = self.values.iter().map(|row| Some(some(row[to])? / some(row[from])?));
        let first = ratios.next()??;
        ratios.try_fold((first, first), |(low, high), ratio| {
            let ratio = ratio?;
            Some((ratio.min(low), ratio.max(high)))
        })
    }

    /// The label that is highest, or lowest, over all cases.
    fn extreme(&self, highest: bool) -> usize {
        let mean = |label: usize| {
            let known = self.values.iter().filter_map(|row| row[label]);
            let (sum, count) = known.fold((0.0, 0_u32), |(sum, count), v| (sum + v, count + 1));
            sum / f64::from(count.max(1))
        };
        let labels = 0..self.labels.len();
        let found = if highest {
            labels.max_by(|a, b| mean(*a).total_cmp(&mean(*b)))
        } else {
            labels.min_by(|a, b| mean(*a).total_cmp(&mean(*b)))
        };
        found.unwrap_or(0)
    }
}

/// Both ends of a factor, turned over where it is less than one.
fn factors(low: f64, high: f64, cases: usize) -> String {
    let (low, high) = if low * high < 1.0 { (1.0 / high, 1.0 / low) } else { (low, high) };
    let (low, high) = (number(low, 3), number(high, 3));
    match cases {
        1 => high,
        _ if low == high => high,
        _ => format!("{low} to {high} (in {cases} cases)"),
    }
}

/// By how much something changed: `-16 %`, or `3.1 times as much`.
fn changed(ratio: f64) -> String {
    match (100.0 * (ratio - 1.0)).round() {
        0.0 => "no change".into(),
        percent if ratio > 0.05 && ratio < 2.0 => format!("{percent:+} %"),
        _ => format!("{} times as much", number(ratio, 3)),
    }
}

/// Names and their numbers, in the order in which they are met.
#[derive(Default)]
struct Numbers(BTreeMap<String, usize>);

impl Numbers {
    fn of(&mut self, name: String) -> usize {
        let next = self.0.len();
        *self.0.entry(name).or_insert(next)
    }

    fn in_order(self) -> Vec<String> {
        let mut names: Vec<_> = self.0.into_iter().collect();
        names.sort_by_key(|(_, number)| *number);
        names.into_iter().map(|(name, _)| name).collect()
    }
}

/// One value, or from the smallest to the largest.
fn span(metric: &str, values: impl Iterator<Item = f64>) -> String {
    let ends = values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    let (low, high) = (spoken::of(metric, ends.0), spoken::of(metric, ends.1));
    if low == high { low } else { format!("{low} to {high}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::run::{Watch, run};

    fn cases(values: &[&[f64]], labels: &[toml::Value]) -> Cases {
        let points: Vec<(Vec<(String, AxisValue)>, f64)> = values
            .iter()
            .enumerate()
            .flat_map(|(case, row)| {
                let other = ("other".to_string(), AxisValue((case as i64).into()));
                row.iter().zip(labels).map(move |(value, label)| {
                    let own = ("device.by".to_string(), AxisValue(label.clone()));
                    (vec![own, other.clone()], *value)
                })
            })
            .collect();
        let points: Vec<(&Params, f64)> =
            points.iter().map(|(params, value)| (params.as_slice(), *value)).collect();
        Cases::of(&points, "device.by", &["device.by", "other"])
    }

    #[test]
    fn two_names_are_compared_case_by_case() {
        let labels = ["ssd".into(), "disk".into()];
        let two = cases(&[&[100.0, 50.0], &[400.0, 40.0]], &labels);
        assert_eq!(
            two.sentence("iops", "device.by"),
            "iops is 100/s to 400/s with ssd, 40/s to 50/s with disk; 2 to 10 (in 2 cases) \
             times as much with ssd as with disk"
        );
        let one = cases(&[&[50.0, 100.0]], &labels).sentence("iops", "device.by");
        assert!(one.ends_with("; 2 times as much with disk as with ssd"), "{one}");
    }

    #[test]
    fn a_run_that_lacks_the_metric_makes_no_evidence_missing() {
        let text = "[study]\nanswer = { metric = 'read_latency_us_p99' }\n\
                    [device.null]\nlatency = '20us'\n[workload.fio]\n\
                    [sweep]\n'workload.fio.rw' = ['randread', 'randwrite']\n";
        let answer = |requests: u32| {
            let text = format!("{text}[run]\nrequests = {requests}\n");
            let plan = PlannedStudy::parse("few", &text).unwrap();
            let folder = std::env::temp_dir().join(format!("blocklab-few-{}", std::process::id()));
            let options = Options { out: Some(folder.join("out")), ..Options::default() };
            let results = run(&plan, &options, &Watch::new(&plan));
            std::fs::remove_dir_all(folder).unwrap();
            results.unwrap().answer.unwrap().text
        };
        assert_eq!(answer(1000), "read_latency_us_p99 is 20 us.");
        assert!(answer(20).ends_with(
            "That is no answer yet: a run has 20 such requests, and this \
                                      percentile takes 1,000."
        ));
    }

    #[test]
    fn nothing_is_no_times_as_much() {
        let labels = ["read", "write"].map(Into::into);
        let none = cases(&[&[15_224.0, 0.0]], &labels).sentence("iops", "device.by");
        assert!(none.ends_with("; the most with read, the least with write"), "{none}");
        let mixed = cases(&[&[10.0, 10.0], &[0.0, 5.0], &[3.0, 1.0]], &labels);
        assert!(!mixed.sentence("iops", "device.by").contains("times"));
        let numbers = [1.into(), 4.into(), 16.into()];
        let rises = cases(&[&[0.0, 1.0, 2.0]], &numbers).sentence("waf", "device.by");
        assert_eq!(rises, "waf goes from 0 at by 1 to 2 at by 16");
        // Of one case of two nothing is known.
        let one = cases(&[&[0.0, 2.0], &[100.0, 97.0]], &labels).change("device.by").unwrap();
        assert_eq!(one, " With by write instead of read: -3 % with 1.");
        let rows: [&[f64]; 6] =
            [&[1.0, 1.2], &[2.0, 1.6], &[1.0, 1.0], &[1.0, 1.0], &[1.0, 1.0], &[1.0]];
        let five = cases(&rows, &labels).change("device.by").unwrap();
        assert!(five.ends_with("-20 % to +20 % in 5 of 6 cases."), "{five}");
    }

    #[test]
    fn a_factor_of_one_is_no_change() {
        let sentence = |values: &[f64], labels: &[toml::Value]| {
            cases(&[values], labels).sentence("iops", "device.by")
        };
        let ends = sentence(&[100.0, 100.0], &[1.into(), 4.into()]);
        assert_eq!(ends, "iops goes from 100/s at by 1 to 100/s at by 4: no change");
        let near = sentence(&[5740.0, 5760.0], &[1.into(), 4.into()]);
        assert!(near.ends_with("5,760/s at by 4: less than 1 % apart"), "{near}");
        let two = sentence(&[100.0, 100.0], &["ssd".into(), "disk".into()]);
        assert_eq!(two, "iops is 100/s with ssd, 100/s with disk; no change");
    }

    #[test]
    fn an_axis_of_numbers_has_ends_and_a_middle() {
        let labels = [1.into(), 4.into(), 16.into()];
        let falls = cases(&[&[9.0, 4.0, 3.0]], &labels).sentence("waf", "device.by");
        assert_eq!(falls, "waf goes from 9 at by 1 to 3 at by 16: by a factor of 3");
        let peak = cases(&[&[10.0, 40.0, 20.0]], &labels).sentence("iops", "device.by");
        assert!(peak.ends_with(": by a factor of 2; the most is 40/s at by 4"), "{peak}");
    }

    #[test]
    fn three_names_have_a_winner_where_it_is_the_same_one_in_every_case() {
        let labels = ["evo", "bx", "qlc"].map(Into::into);
        let same = cases(&[&[3.0, 4.0, 2.0], &[6.0, 7.0, 5.0]], &labels);
        let said = same.sentence("waf", "device.by");
        assert!(said.ends_with("; always the most with bx, the least with qlc"), "{said}");
        let turns = cases(&[&[3.0, 4.0, 2.0], &[6.0, 7.0, 8.0]], &labels);
        assert_eq!(cases(&[&[1.0, 1.0, 1.0]], &labels).always(), None);
        assert!(turns.sentence("waf", "device.by").ends_with("2 to 8 with qlc"));
    }

    #[test]
    fn what_was_swept_besides_says_what_it_changes() {
        let labels = ["7%", "14%", "28%"].map(Into::into);
        let two = cases(&[&[100.0, 90.0, 84.0], &[10.0, 20.0, 40.0]], &labels);
        assert_eq!(
            two.change("device.by").unwrap(),
            " With by 28% instead of 7%: -16 % with 0, 4 times as much with 1."
        );
        let one = cases(&[&[100.0, 90.0, 100.1]], &labels).change("device.by");
        assert_eq!(one.unwrap(), " With by 28% instead of 7%: no change.");
        let rows: [&[f64]; 5] =
            [&[1.0, 1.0, 1.2], &[2.0, 2.0, 1.6], &[1.0; 3], &[1.0; 3], &[1.0; 3]];
        let many = cases(&rows, &labels).change("device.by");
        assert_eq!(many.unwrap(), " With by 28% instead of 7%: -20 % to +20 % in 5 cases.");
        let names = ["a", "b", "c"].map(Into::into);
        assert_eq!(
            cases(&[&[1.0, 2.0, 3.0]], &names).change("device.by").unwrap(),
            " By by it is the most with c, the least with a."
        );
        assert_eq!(cases(&[&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]], &names).change("device.by"), None);
    }

    #[test]
    fn many_names_have_a_highest_and_a_lowest() {
        let labels: Vec<toml::Value> = ["a", "b", "c", "d", "e"].map(Into::into).into();
        let many = cases(&[&[3.0, 1.0, 2.0, 5.0, 4.0]], &labels).sentence("waf", "device.by");
        assert_eq!(many, "waf goes from 1 with b to 5 with d: by a factor of 5");
    }
}

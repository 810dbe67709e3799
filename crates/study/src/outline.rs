//! What stands outside the grid: expectations, claims and the report. All of it names axes, values
//! and metrics, and a wrong name is found before the first run starts.

use std::collections::BTreeMap;

use config::{Failure, names};

use crate::axis_value::AxisValue;
use crate::document::{Claim, Expect, Frame, Plot};
use crate::expect::{self, Selection};
use crate::figure::{Figure, Kind};
use crate::gone::Gone;
use crate::grid::Axis;
use crate::jobs;
use crate::load::Loaded;
use crate::locate;
use crate::metrics;
use crate::tree::Node;

const PLOTS_MAX: usize = 5;
const FIGURES_MAX: usize = 8;

/// A failure, and the keys from the statement to what it is about.
type Wrong = (Failure, Vec<String>);

/// A statement about an axis or a value that is gone says nothing about this grid.
fn is_beside(selection: &Selection, gone: &Gone) -> bool {
    let mut named = selection.which.iter().chain(selection.relative_to);
    named.any(|(axis, wanted)| gone.is_in(axis, wanted))
}

/// The figure without the axes that are gone; `None` when it was about one of them.
fn left_of(figure: &Figure, gone: &Gone) -> Option<Figure> {
    let keep = |axis: &Option<String>| axis.clone().filter(|name| !gone.axes.contains(name));
    let (series, panels) = (keep(&figure.series), keep(&figure.panels));
    let lost = gone.axes.contains(&figure.x) || is_beside(&figure.selection(), gone);
    (!lost).then(|| Figure { series, panels, ..figure.clone() })
}

/// Leave out what is about axes and values that the grid no longer has: of the outline, and of the
/// document, which is run again, and which a report looks bounds up in by their number.
pub(crate) fn narrow(loaded: &mut Loaded) {
    let Loaded { gone, frame, tree, notes, .. } = loaded;
    if gone.is_nothing() {
        return;
    }
    let Frame { expect, claim, report, study, .. } = frame;
    let figure = &mut report.figure;
    let less = keep(expect, tree.get_mut("expect"), |e| !is_beside(&e.selection(), gone))
        + keep(claim, tree.get_mut("claim"), |claim| !is_beside(&claim.selection(), gone))
        + keep(figure, figures_of(tree), |figure| left_of(figure, gone).is_some());
    let tables = figures_of(tree).map(Node::items_mut).unwrap_or_default();
    for (figure, table) in figure.iter_mut().zip(tables) {
        *figure = left_of(figure, gone).expect("those that are lost went above");
        for (key, axis) in [("series", &figure.series), ("panels", &figure.panels)] {
            if axis.is_none() {
                table.take(key);
            }
        }
    }
    if let Some(asked) = &mut study.answer
        && asked.by.take_if(|by| gone.axes.contains(by)).is_some()
        && let Some(answer) = tree.get_mut("study").and_then(|study| study.get_mut("answer"))
    {
        answer.take("by");
    }
    if less > 0 {
        notes.push(format!("{less} expectations, claims and figures about that are left out"));
    }
}

/// The tables of the study's own figures.
fn figures_of(tree: &mut Node) -> Option<&mut Node> {
    tree.get_mut("report")?.get_mut("figure")
}

/// Keep what `stays` of a list, and of the tables that it was read from. Gives how many went.
fn keep<T>(list: &mut Vec<T>, tables: Option<&mut Node>, stays: impl Fn(&T) -> bool) -> usize {
    let kept: Vec<bool> = list.iter().map(stays).collect();
    if let Some(tables) = tables {
        tables.retain(&kept);
    }
    let mut flags = kept.iter();
    list.retain(|_| flags.next() == Some(&true));
    kept.len() - list.len()
}

/// Check everything outside the grid that has these axes.
pub(crate) fn check(loaded: &Loaded, axes: &[Axis]) -> Result<(), Failure> {
    let at = |statement: &[&str], index: usize, (failure, keys): Wrong| {
        let statement = statement.iter().map(|s| (*s).to_string());
        let path: Vec<String> = statement.chain([index.to_string()]).chain(keys).collect();
        match locate::place_of(&loaded.tree, &path) {
            Some(place) => failure.at(place),
            None => failure,
        }
    };
    let gone = &loaded.gone;
    let document = loaded.tree.to_value();
    let jobs = |selection: &Selection, key: &str| jobs_of(selection, key, &document);
    for (index, expectation) in loaded.frame.expect.iter().enumerate() {
        if is_beside(&expectation.selection(), gone) {
            continue;
        }
        about(&Expect::selection(expectation), "metric", axes)
            .and_then(|()| jobs(&expectation.selection(), "metric"))
            .and_then(|()| expect::check_bounds(expectation).map_err(here))
            .map_err(|wrong| at(&["expect"], index, wrong))?;
    }
    for (index, claim) in loaded.frame.claim.iter().enumerate() {
        if is_beside(&claim.selection(), gone) {
            continue;
        }
        let bands = [("holds", Some(claim.holds)), ("in_part", claim.in_part)];
        let mut bands = bands.into_iter().filter_map(|(key, band)| Some((key, band?)));
        let check =
            |(key, band)| expect::check_band(band).map_err(|failure| wrong(failure, &[key]));
        about(&Claim::selection(claim), "metric", axes)
            .and_then(|()| jobs(&claim.selection(), "metric"))
            .and_then(|()| bands.try_for_each(check))
            .map_err(|wrong| at(&["claim"], index, wrong))?;
    }
    if let Some(asked) = &loaded.frame.study.answer {
        let at = |(failure, key): (Failure, &str)| {
            let path = ["study", "answer", key].map(String::from);
            match locate::place_of(&loaded.tree, &path) {
                Some(place) => failure.at(place),
                None => failure,
            }
        };
        metrics::check_name(&asked.metric).map_err(|failure| at((failure, "metric")))?;
        let by = asked.by.as_ref().filter(|by| !gone.axes.contains(by));
        by.map_or(Ok(()), |by| find(by, axes, None).map(drop)).map_err(|f| at((f, "by")))?;
    }
    let report = &loaded.frame.report;
    if report.plots().len() > PLOTS_MAX {
        let wrong = (Failure::input("a report has at most five plots"), Vec::new());
        return Err(at(&["report", "plots"], PLOTS_MAX, wrong));
    }
    for (index, drawn) in report.figure.iter().enumerate() {
        let earlier = &report.figure[..index];
        let Some(drawn) = left_of(drawn, gone) else { continue };
        figure(&drawn, earlier, axes)
            .and_then(|()| jobs(&drawn.selection(), "y"))
            .and_then(|()| jobs(&Selection { metric: &drawn.x, ..drawn.selection() }, "x"))
            .map_err(|wrong| at(&["report", "figure"], index, wrong))?;
    }
    Ok(())
}

/// The statement as a whole is wrong.
fn here(failure: Failure) -> Wrong {
    (failure, Vec::new())
}

fn wrong(failure: Failure, keys: &[&str]) -> Wrong {
    (failure, keys.iter().map(|key| (*key).to_string()).collect())
}

/// The names in a statement about a metric, which stands at `metric`.
fn about(selection: &Selection, metric: &str, axes: &[Axis]) -> Result<(), Wrong> {
    metrics::check_name(selection.metric).map_err(|failure| wrong(failure, &[metric]))?;
    if let Some(per) = selection.per {
        metrics::check_name(per).map_err(|failure| wrong(failure, &["per"]))?;
    }
    values("where", selection.which, axes)?;
    values("relative_to", selection.relative_to, axes)
}

/// The jobs in a statement about a metric, which stands at `metric`.
fn jobs_of(selection: &Selection, metric: &str, document: &toml::Value) -> Result<(), Wrong> {
    let named = [(metric, Some(selection.metric)), ("per", selection.per)];
    named.into_iter().filter_map(|(key, name)| Some((key, name?))).try_for_each(|(key, name)| {
        jobs::check(name, document).map_err(|failure| wrong(failure, &[key]))
    })
}

/// The axes of the table at `key`, and their values.
fn values(key: &str, table: &BTreeMap<String, AxisValue>, axes: &[Axis]) -> Result<(), Wrong> {
    for (name, wanted) in table {
        let repeat = (key == "where").then_some("repeat");
        if repeat == Some(name) {
            continue;
        }
        let axis = find(name, axes, repeat).map_err(|failure| wrong(failure, &[key, name]))?;
        let list = match wanted.0.as_array() {
            // A list stands for its values, unless it is itself a value of the axis.
            Some(list) if key == "where" && !axis.values().any(|v| v.same(wanted)) => {
                list.iter().cloned().map(AxisValue).collect()
            }
            _ => vec![wanted.clone()],
        };
        for wanted in &list {
            if !axis.values().any(|value| value.same(wanted)) {
                return Err(wrong(no_value(axis, wanted), &[key, name]));
            }
        }
    }
    Ok(())
}

fn no_value(axis: &Axis, wanted: &AxisValue) -> Failure {
    let labels: Vec<String> = axis.values().map(AxisValue::label).collect();
    let wanted = wanted.label();
    Failure::input(format!("the axis `{}` has no value `{wanted}`", axis.name))
        .expected(names::expected(&wanted, labels.iter().map(String::as_str)))
}

fn find<'a>(name: &str, axes: &'a [Axis], also: Option<&str>) -> Result<&'a Axis, Failure> {
    axes.iter().find(|axis| axis.name == name).ok_or_else(|| {
        let known = axes.iter().map(|axis| axis.name.as_str()).chain(also);
        let failure = Failure::input(format!("the study has no axis `{name}`"));
        if axes.is_empty() && also.is_none() {
            return failure.expected("several [devices], or an axis of [sweep]");
        }
        failure.expected(names::expected(name, known))
    })
}

fn figure(figure: &Figure, earlier: &[Figure], axes: &[Axis]) -> Result<(), Wrong> {
    if earlier.len() == FIGURES_MAX {
        return Err(wrong(Failure::input("a report has at most eight figures"), &[]));
    }
    file_name(&figure.name, earlier).map_err(|failure| wrong(failure, &["name"]))?;
    about(&figure.selection(), "y", axes)?;
    let across = axes.iter().find(|axis| axis.name == figure.x);
    if across.is_none() && metrics::check_name(&figure.x).is_err() {
        return Err(wrong(neither(&figure.x, axes), &["x"]));
    }
    let mut taken = vec![&figure.x];
    for (key, name) in [("series", &figure.series), ("panels", &figure.panels)] {
        let Some(name) = name else { continue };
        find(name, axes, None).map_err(|failure| wrong(failure, &[key]))?;
        if taken.contains(&name) {
            let failure = Failure::input(format!("the figure shows the axis `{name}` twice"));
            return Err(wrong(failure.expected("another axis"), &[key]));
        }
        taken.push(name);
    }
    scales(figure, across)?;
    match (across, &figure.series) {
        (Some(_), Some(_)) => one_each(figure, &taken, axes),
        _ => Ok(()),
    }
}

/// The name becomes a file's, and must not hide a plot.
fn file_name(name: &str, earlier: &[Figure]) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let plot: Result<Plot, _> = toml::Value::from(name).try_into();
    let what = if name.is_empty() || !name.chars().all(plain) || name.starts_with('-') {
        "is no name of a figure"
    } else if plot.is_ok() {
        "is the name of a plot"
    } else if earlier.iter().any(|other| other.name == name) {
        "is the name of another figure"
    } else {
        return Ok(());
    };
    Err(Failure::input(format!("`{name}` {what}"))
        .expected("a name of its own of small letters, digits and hyphens"))
}

fn neither(name: &str, axes: &[Axis]) -> Failure {
    let list: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    let metrics = metrics::definitions();
    let known = list.iter().copied().chain(metrics.iter().map(|metric| metric.name.as_str()));
    let near = names::nearest(name, known).map(|near| format!("; did you mean `{near}`?"));
    let axes = match list[..] {
        [] => "the study has no axes".to_string(),
        _ => format!("an axis ({})", list.join(", ")),
    };
    Failure::input(format!("`{name}` is neither an axis of the study nor a metric"))
        .expected(format!("{axes}, or a metric{}", near.unwrap_or_default()))
        .help("blocklab list metrics")
}

/// What the kind of a figure and its horizontal axis allow.
fn scales(figure: &Figure, across: Option<&Axis>) -> Result<(), Wrong> {
    let number = |value: &AxisValue| value.0.is_integer() || value.0.is_float();
    let numbers = across.is_none_or(|axis| axis.values().all(number));
    let bars = match figure.kind {
        Some(kind) => kind == Kind::Bars,
        None => !numbers,
    };
    let (what, expected, key) = if bars && across.is_none() {
        ("bars stand over an axis of the grid, not over a metric", "lines or points", "kind")
    } else if figure.front.is_some() && across.is_some() {
        ("a front lies over a metric, not over an axis of the grid", "a metric as `x`", "front")
    } else if !figure.measured.is_empty() && (bars || !numbers || figure.panels.is_some()) {
        let what = "points measured elsewhere have no place in this figure";
        (what, "lines or points over numbers, in one panel", "measured")
    } else if !figure.measured.iter().flatten().all(|number| number.is_finite()) {
        ("a measured point has no place", "two numbers, such as [10.0, 2.5]", "measured")
    } else if figure.x_log && (bars || !numbers) {
        ("there are no numbers on the horizontal axis", "x_log over a metric", "x_log")
    } else if figure.y_log && bars {
        ("the length of a bar means nothing on a logarithmic axis", "lines or points", "y_log")
    } else {
        return logarithmic(figure);
    };
    Err(wrong(Failure::input(what).expected(expected), &[key]))
}

/// A logarithmic axis has no place for what is not positive.
fn logarithmic(figure: &Figure) -> Result<(), Wrong> {
    let axes = [("x_log", figure.x_log), ("y_log", figure.y_log)];
    for (index, point) in figure.measured.iter().enumerate() {
        for (coordinate, (key, on)) in point.iter().zip(axes) {
            if on && *coordinate <= 0.0 {
                let what =
                    format!("the measured point's {coordinate} has no place on {key}'s axis");
                let failure = Failure::input(what)
                    .expected("more than 0")
                    .help(format!("leave the point out, or draw without {key}"));
                return Err(wrong(failure, &["measured", &index.to_string()]));
            }
        }
    }
    Ok(())
}

/// Over an axis, each series has one point per value: no other axis may vary.
fn one_each(figure: &Figure, taken: &[&String], axes: &[Axis]) -> Result<(), Wrong> {
    let selected = |axis: &Axis| match figure.which.get(&axis.name) {
        Some(wanted) => axis.values().filter(|value| value.among(wanted)).count(),
        None => axis.values().count(),
    };
    let free = axes.iter().find(|axis| !taken.contains(&&axis.name) && selected(axis) > 1);
    match free {
        None => Ok(()),
        Some(axis) => {
            let what = format!("the figure leaves the axis `{}` open", axis.name);
            let expected = "it in `panels`, one of its values in `where`, or no `series`";
            Err(wrong(Failure::input(what).expected(expected), &["series"]))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::plan::PlannedStudy;

    const STUDY: &str = "
[study]
answer = { metric = 'iops', by = 'device.null.latency' }
[device.null]
[workload.fio]
rw = 'randread'
[sweep]
'device.null.latency' = ['1us', '2us']
'workload.fio.iodepth' = [1, 2]
[[expect]]
text = 'gone'
metric = 'iops'
where = { 'device.null.latency' = '1us' }
min = 1
[[expect]]
text = 'stays'
metric = 'iops'
where = { 'workload.fio.iodepth' = 2 }
max = 7
[[claim]]
text = 'gone'
source = 's'
metric = 'iops'
relative_to = { 'device.null.latency' = '2us' }
holds = { min = 1 }
[[report.figure]]
name = 'gone'
title = 't'
x = 'device.null.latency'
y = 'iops'
[[report.figure]]
name = 'stays'
title = 't'
x = 'workload.fio.iodepth'
y = 'iops'
series = 'device.null.latency'
";

    /// What a run writes is what it was: without the axis that is gone, it is read again.
    #[test]
    fn the_document_that_is_written_is_without_what_is_gone() {
        let read = |text: &str, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
            PlannedStudy::parse_in(Path::new(""), "t", text, &sets).unwrap()
        };
        let whole = read(STUDY, &[]);
        assert_eq!((whole.expectations.len(), whole.report.figure.len()), (2, 2));
        let narrow = read(STUDY, &["device.null.latency=3us"]);
        let again = read(&narrow.resolved, &[]);
        assert_eq!(again.digest, narrow.digest);
        assert_eq!((&again.header, &again.report), (&narrow.header, &narrow.report));
        assert_eq!((&again.expectations, &again.claims), (&narrow.expectations, &narrow.claims));
        assert_eq!(again.resolved, narrow.resolved);
        let [stays] = &again.expectations[..] else { panic!("{:?}", again.expectations) };
        assert_eq!((&*stays.text, stays.max), ("stays", Some(7.0)));
        assert_eq!(again.report.figure[0].series, None);
    }

    #[test]
    fn a_measured_point_that_a_logarithmic_axis_cannot_show_is_refused_at_its_line() {
        let read = |more: &str, points: &str| {
            let figure = "name = 'stays'\ntitle = 't'\nx = 'workload.fio.iodepth'\n";
            let to = format!("{figure}measured = [\n[1, 2],\n{points},\n]\n{more}\n");
            let text = STUDY.replace(figure, &to);
            let line = text.lines().position(|line| line == format!("{points},")).unwrap() + 1;
            PlannedStudy::parse("t", &text).map(drop).map_err(|why| (why.to_string(), line))
        };
        for (more, points, fine) in [
            ("x_log = true", "[0, 1]", false),
            ("y_log = true", "[1, -2.5]", false),
            ("x_log = true", "[1, -2.5]", true),
            ("y_log = true", "[0, 1]", true),
            ("", "[0, -1]", true),
        ] {
            match read(more, points) {
                Ok(()) => assert!(fine, "{more} with {points}"),
                Err((error, line)) => {
                    assert!(!fine && error.contains("expected: more than 0"), "{error}");
                    assert!(error.contains(&format!("t:{line}:")), "{line}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_claim_that_every_value_bears_out_is_refused() {
        let refused = |from: &str, to: &str| {
            let text = STUDY.replace(from, to);
            PlannedStudy::parse("t", &text).unwrap_err().to_string()
        };
        for to in ["holds = {}", "holds = { min = 1 }\nin_part = {}"] {
            let error = refused("holds = { min = 1 }", to);
            assert!(error.contains("says nothing that can be checked"), "{error}");
            let line = STUDY.lines().position(|line| line == "holds = { min = 1 }").unwrap() + 1;
            let line = line + to.lines().count() - 1;
            assert!(error.contains(&format!("t:{line}:")), "{error}");
        }
        let error = refused("holds = { min = 1 }", "holds = { min = 2, max = 1 }");
        assert!(error.contains("nothing is at least 2 and at most 1"), "{error}");
    }
}

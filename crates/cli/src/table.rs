//! The runs of a study as a table: a column for each axis, then what the study asks for, then what
//! is known of every drive.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;
use study::{Failure, PlannedStudy, RunSummary, metrics};

/// Runs up to this number are shown when not all are asked for.
const ROWS_MAX: usize = 40;
/// Columns of a terminal whose width nobody knows.
const WIDTH: usize = 100;
/// Longest value of an axis.
const VALUE_MAX: usize = 30;

/// How it is written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub(crate) enum Format {
    /// For a terminal: as wide as that is
    #[default]
    Table,
    /// Comma-separated values, every run and every digit
    Csv,
    /// A table of Markdown, every run
    Markdown,
}

/// (heading, metric, digits after the point).
const KNOWN: [(&str, &str, usize); 15] = [
    ("cuts", "crash_cuts", 0),
    ("lost share", LOST_SHARE, 3),
    ("program s", "program_s", 3),
    ("reads", "block_read_dispatched", 0),
    ("writes", "block_write_dispatched", 0),
    ("flushes", "block_flushes", 0),
    ("IOPS", "iops", 0),
    ("MB/s", "throughput_mb_s", 1),
    ("mean us", "latency_us_mean", 1),
    ("p99 us", "latency_us_p99", 1),
    ("discards/s", "discard_iops", 0),
    ("discard p99 us", "discard_latency_us_p99", 1),
    ("flush p99 us", FLUSH, 1),
    ("WAF", "waf", 3),
    ("busy", "utilisation_mean", 2),
];
/// How many of them are of runs in a guest only, and of others only.
const TRAVELLED: usize = 6;
const SIMULATED: usize = 7;

/// What waits for a flush does not wait for the write before it.
const FLUSH: &str = "flush_latency_us_p99";
/// Fewer flushes than this, of all requests, are not where the time goes.
const FLUSHES_MIN: f64 = 0.01;
/// Of power cuts: none of them is an answer.
const LOST_SHARE: &str = "crash_lost_share";

/// A column: its heading and its cells.
struct Column {
    heading: String,
    cells: Vec<String>,
    /// It is not an axis, nor asked for: it may go when there is no room.
    optional: bool,
    is_number: bool,
}

/// The table's lines.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn lines(
    plan: &PlannedStudy,
    runs: &[RunSummary],
    format: Format,
    all: bool,
) -> Result<Vec<String>, Failure> {
    let whole = all || format != Format::Table;
    let shown = if whole { runs.len() } else { runs.len().min(ROWS_MAX) };
    let mut columns = columns(plan, runs, shown, format == Format::Csv);
    if format == Format::Csv {
        return csv(&columns);
    }
    let width = terminal_size::terminal_size().map_or(WIDTH, |(width, _)| width.0.into());
    while !whole && self::width(&columns) > width {
        let Some(last) = columns.iter().rposition(|column| column.optional) else { break };
        columns.remove(last);
    }
    let mut table = Table::new();
    table.load_style(match format {
        Format::Markdown => presets::ASCII_MARKDOWN,
        _ => presets::NOTHING,
    });
    let escaped = |cell: &str| if format == Format::Markdown { escaped(cell) } else { cell.into() };
    table.set_header(columns.iter().map(|column| escaped(&column.heading)));
    for row in 0..shown {
        table.add_row(columns.iter().map(|column| escaped(&column.cells[row])));
    }
    let numbers = columns.iter().enumerate().filter(|(_, column)| column.is_number);
    for (index, _) in numbers {
        if let Some(place) = table.column_mut(index) {
            place.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines: Vec<String> = table.lines().map(|line| line.trim_end().to_string()).collect();
    if shown < runs.len() {
        lines.push(format!("... and {} more runs; --all shows them", runs.len() - shown));
    }
    Ok(lines)
}

/// A cell of a table of Markdown: a bar would end it, and what looks like HTML would be that.
fn escaped(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    for letter in cell.chars() {
        match letter {
            '|' | '\\' => text.extend(['\\', letter]),
            '<' => text += "&lt;",
            '&' => text += "&amp;",
            '\n' | '\r' => text.push(' '),
            _ => text.push(letter),
        }
    }
    text
}

/// What a table of these takes, with a blank on both sides of each.
fn width(columns: &[Column]) -> usize {
    let wide = |column: &Column| {
        let cells = column.cells.iter().chain([&column.heading]);
        cells.map(|cell| cell.chars().count() + 2).max().unwrap_or(0)
    };
    columns.iter().map(wide).sum()
}

fn columns(plan: &PlannedStudy, runs: &[RunSummary], shown: usize, exact: bool) -> Vec<Column> {
    let mut columns = Vec::new();
    let repeats = runs.iter().any(|run| run.params.get("repeat").is_some_and(|n| *n != 0));
    let axes = plan.axes.iter().map(String::as_str).chain(repeats.then_some("repeat"));
    for axis in axes {
        let cell = |run: &RunSummary| axis_cell(run.params.get(axis), exact);
        let cells: Vec<String> = runs[..shown].iter().map(cell).collect();
        let is_number = cells.iter().all(|cell| cell.starts_with(|c: char| c.is_ascii_digit()));
        let heading = if exact { axis.into() } else { short(axis, &plan.axes) };
        columns.push(Column { heading, cells, optional: false, is_number });
    }
    if columns.is_empty() {
        let cells = runs[..shown].iter().map(|run| run.label.clone()).collect();
        let heading = if exact { "run".into() } else { String::new() };
        columns.push(Column { heading, cells, optional: false, is_number: false });
    }
    let asked = plan.asked();
    let travelled = runs.iter().any(|run| run.metrics.contains_key("program_s"));
    let usual = if travelled {
        [&KNOWN[..TRAVELLED], &KNOWN[TRAVELLED + SIMULATED..]].concat()
    } else {
        KNOWN[TRAVELLED..].to_vec()
    };
    let usual = usual.iter().map(|(_, metric, _)| *metric).filter(|metric| !asked.contains(metric));
    // What is zero in every run, such as a latency where no time passes, says nothing.
    let says = |metric: &&str| {
        let says = |value: f64| value != 0.0 || *metric == LOST_SHARE;
        let counts = |run: &&RunSummary| *metric != FLUSH || flushes_often(run);
        runs.iter().filter(counts).any(|run| value(run, metric).is_some_and(says))
    };
    let before = columns.len();
    for (metric, optional) in
        asked.iter().map(|metric| (*metric, false)).chain(usual.filter(says).map(|m| (m, true)))
    {
        columns.push(metric_column(&runs[..shown], metric, optional, exact));
    }
    if columns.len() == before {
        columns.push(metric_column(&runs[..shown], "iops", false, exact));
    }
    columns
}

/// Whether flushes are more than a few of a run's requests.
fn flushes_often(run: &RunSummary) -> bool {
    let flushes = metrics::flushes(&run.metrics).zip(value(run, "host_requests"));
    flushes.is_some_and(|(flushes, all)| flushes > FLUSHES_MIN * all)
}

fn metric_column(runs: &[RunSummary], metric: &str, optional: bool, exact: bool) -> Column {
    let known = KNOWN.iter().find(|(_, known, _)| *known == metric);
    let values = runs.iter().filter_map(|run| value(run, metric));
    let digits = known.map_or_else(|| digits(values), |(.., digits)| *digits);
    let cell = |run: &RunSummary| match value(run, metric) {
        None if exact => String::new(),
        None => "-".into(),
        Some(value) if exact => value.to_string(),
        Some(value) => format!("{value:.digits$}"),
    };
    let heading = match known {
        Some((heading, ..)) if !exact => *heading,
        _ => metric,
    };
    let cells = runs.iter().map(cell).collect();
    Column { heading: heading.into(), cells, optional, is_number: true }
}

/// Digits after the point, so that the smallest value of a column has three that count.
fn digits(values: impl Iterator<Item = f64>) -> usize {
    let smallest = values.map(f64::abs).filter(|value| *value > 0.0).reduce(f64::min);
    smallest.map_or(0, |value| (2.0 - value.log10().floor()).clamp(0.0, 6.0) as usize)
}

fn axis_cell(value: Option<&Value>, exact: bool) -> String {
    let text = match value {
        None => "-".to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if exact || text.chars().count() <= VALUE_MAX {
        return text;
    }
    // The end of a path says more than its begin.
    let skipped = text.chars().count() - (VALUE_MAX - 3);
    "...".chars().chain(text.chars().skip(skipped)).collect()
}

/// The last word of an axis' name, with as much before it as tells it from the others.
fn short(axis: &str, axes: &[String]) -> String {
    let words: Vec<&str> = axis.split('.').collect();
    let ends = |from: usize| words[from..].join(".");
    let alone = |end: &String| {
        let same = |other: &&String| other.as_str() == end || other.ends_with(&format!(".{end}"));
        axes.iter().filter(same).count() <= 1
    };
    (0..words.len()).rev().map(ends).find(alone).unwrap_or_else(|| axis.into())
}

fn value(run: &RunSummary, metric: &str) -> Option<f64> {
    run.metrics.get(metric).copied().flatten()
}

fn csv(columns: &[Column]) -> Result<Vec<String>, Failure> {
    let wrong = |why: csv::Error| Failure::bug(format!("the table as CSV: {why}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns.iter().map(|column| &column.heading)).map_err(wrong)?;
    for row in 0..columns.first().map_or(0, |column| column.cells.len()) {
        writer.write_record(columns.iter().map(|column| &column.cells[row])).map_err(wrong)?;
    }
    let bytes = writer.into_inner().map_err(|why| wrong(why.into_error().into()))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_the_shortest_names_that_tell_them_apart() {
        let axes = ["device", "workload.fio.iodepth", "device.ssd.part", "devices.b.part"];
        let axes = axes.map(str::to_string);
        let found: Vec<String> = axes.iter().map(|axis| short(axis, &axes)).collect();
        assert_eq!(found, ["device", "iodepth", "ssd.part", "b.part"]);
    }

    #[test]
    fn the_smallest_number_has_three_digits_that_count() {
        assert_eq!(digits([90.76, 0.041_91, 0.0].into_iter()), 4);
        assert_eq!(digits([1642.0, 33_096.0].into_iter()), 0);
        assert_eq!(digits([1.7, -12.0].into_iter()), 2);
        assert_eq!(digits([1e-9].into_iter()), 6);
        assert_eq!(digits(std::iter::empty()), 0);
    }

    #[test]
    fn a_bar_in_a_label_ends_no_cell_of_markdown() {
        let text = "[workload.fio]\n[run]\nrequests = 9\n[devices]\n\
                    'a|<i>x</i>\\b'.null = {}\nplain.null = {}\n";
        let plan = PlannedStudy::parse("t", text).unwrap();
        let folder = std::env::temp_dir().join(format!("blocklab-bar-{}", std::process::id()));
        let options = study::Options { out: Some(folder.join("out")), ..study::Options::default() };
        let results = study::run(&plan, &options, &study::Watch::new(&plan));
        std::fs::remove_dir_all(folder).unwrap();
        let runs = results.unwrap().runs;
        let lines = lines(&plan, &runs, Format::Markdown, true).unwrap();
        let bars = |line: &String| line.replace("\\|", "").matches('|').count();
        assert!(lines.iter().all(|line| bars(line) == bars(&lines[0])), "{lines:?}");
        assert!(lines[2].starts_with(r"| a\|&lt;i>x&lt;/i>\\b |"), "{lines:?}");
        let plain = super::lines(&plan, &runs, Format::Table, true).unwrap();
        assert!(plain[1].contains(r"a|<i>x</i>\b"), "{plain:?}");
    }

    #[test]
    fn a_long_value_keeps_its_end() {
        let long = Value::String(format!("traces/{}/end.blkparse", "x".repeat(40)));
        let cell = axis_cell(Some(&long), false);
        assert_eq!(cell.chars().count(), VALUE_MAX);
        assert!(cell.starts_with("...xx") && cell.ends_with("/end.blkparse"), "{cell}");
        assert!(axis_cell(Some(&long), true).starts_with("traces/"));
    }
}

//! The answer on the terminal: verdict, a small table, notes, where the rest is; about ten lines.

use study::{Results, RunSummary};

const LINES_MAX: usize = 11;
/// Expectations that fail are listed up to this number.
const FAILING_MAX: usize = 2;
/// A note is cut at this many columns; result.json and the report have it whole.
const NOTE_COLUMNS: usize = 100;
const LABEL_MAX: usize = 34;

/// (heading, metric, digits after the point).
const COLUMNS: [(&str, &str, usize); 6] = [
    ("IOPS", "iops", 0),
    ("MB/s", "throughput_mb_s", 1),
    ("mean us", "latency_us_mean", 1),
    ("p99 us", "latency_us_p99", 1),
    ("WAF", "waf", 3),
    ("busy", "utilisation_mean", 2),
];

/// The lines; `report` says where the report is, or how to get one.
pub(crate) fn lines(results: &Results, report: Option<String>) -> Vec<String> {
    let mut head = verdict(results);
    let mut tail = notes(results);
    tail.push(format!("results {}", results.directory.display()));
    tail.extend(report);
    let rows = LINES_MAX - head.len() - tail.len();
    head.extend(table(&results.runs, rows));
    head.extend(tail);
    head
}

fn verdict(results: &Results) -> Vec<String> {
    let all = results.expectations.len();
    let failing: Vec<_> = results.expectations.iter().filter(|verdict| !verdict.ok).collect();
    let name = if results.title.is_empty() { &results.study } else { &results.title };
    let mut lines = vec![match (all, failing.len()) {
        (0, _) => name.clone(),
        (1, 0) => format!("{name}: as expected"),
        (_, 0) => format!("{name}: as expected, all {all} expectations hold"),
        (_, wrong) => format!("{name}: NOT as expected, {wrong} of {all} expectations fail"),
    }];
    for verdict in failing.iter().take(FAILING_MAX) {
        let value = verdict.value.map_or("undefined".into(), |value| format!("{value:.4}"));
        lines.push(format!("  {}: {value}, expected {}", verdict.text, verdict.expected));
    }
    lines
}

/// The first note, cut to fit, and how many more there are.
fn notes(results: &Results) -> Vec<String> {
    let of_runs = results.runs.iter().flat_map(|run| {
        run.notes.iter().map(|note| format!("note: {}: {}", run.label, without_file(note)))
    });
    let of_study = results.notes.iter().map(|note| format!("note: {note}"));
    let mut all = of_study.chain(of_runs);
    let Some(first) = all.next() else { return Vec::new() };
    let end = match all.count() {
        0 => String::new(),
        more => format!(" (and {more} more in result.json)"),
    };
    vec![shorten(&first, NOTE_COLUMNS - end.len()) + &end]
}

/// A note without the name of the trace it is about: the run's label is short and says enough.
fn without_file(note: &str) -> &str {
    match note.split_once(": ") {
        Some((file, rest)) if !file.contains(' ') => rest,
        _ => note,
    }
}

/// A heading and one line per run, at most `rows` lines; the last one counts what is left out.
fn table(runs: &[RunSummary], rows: usize) -> Vec<String> {
    // What is zero in every run, such as a latency where no time passes, says nothing.
    let says_something =
        |metric| runs.iter().any(|run| value(run, metric).is_some_and(|v| v != 0.0));
    let columns: Vec<_> = COLUMNS.iter().filter(|(_, metric, _)| says_something(metric)).collect();
    let label = |run: &RunSummary| shorten(&run.label, LABEL_MAX);
    let width = runs.iter().map(|run| label(run).chars().count()).max().unwrap_or(0);
    let mut lines = vec![" ".repeat(width)];
    columns.iter().for_each(|(heading, ..)| lines[0] += &format!("  {heading:>10}"));
    let room = rows.saturating_sub(1);
    let shown = if runs.len() <= room { runs.len() } else { room.saturating_sub(1) };
    for run in &runs[..shown] {
        let mut line = format!("{:width$}", label(run));
        for (_, metric, digits) in &columns {
            line += &match value(run, metric) {
                Some(value) => format!("  {value:>10.digits$}"),
                None => format!("  {:>10}", "-"),
            };
        }
        lines.push(line);
    }
    if shown < runs.len() {
        lines.push(format!("... and {} more runs in runs.parquet", runs.len() - shown));
    }
    lines
}

fn value(run: &RunSummary, metric: &str) -> Option<f64> {
    run.metrics.get(metric).copied().flatten()
}

fn shorten(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_string();
    }
    text.chars().take(columns - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_and_says_so() {
        assert_eq!(shorten("as it is", 8), "as it is");
        assert_eq!(shorten("somewhat longer", 8), "somew...");
    }

    #[test]
    fn a_note_does_without_the_file_in_front() {
        assert_eq!(without_file("a/b.zst: 3 of 4 wrapped"), "3 of 4 wrapped");
        assert_eq!(
            without_file("waf was not steady: in transition"),
            "waf was not steady: in transition"
        );
    }
}

//! The answer on the terminal, but for its table: verdict, notes, where the rest is.

use study::{Judged, Results, RunSummary, Standing, Verdict};

/// Expectations that fail are listed up to this number, and as many that hold without evidence.
const FAILING_MAX: usize = 2;
/// Notes up to this number are told whole; the others are in result.json and the report.
const NOTES_MAX: usize = 3;
const NOTE_COLUMNS: usize = 100;
/// A note about more runs than this names so many of them.
const NAMED_MAX: usize = 2;

/// The lines around the table: before it, and behind it. `report` says where the report is, or how
/// to get one.
pub(crate) fn around(results: &Results, report: Option<String>) -> (Vec<String>, Vec<String>) {
    let mut tail = notes(results);
    tail.push(format!("results {}", results.directory.display()));
    tail.extend(report);
    (verdict(results), tail)
}

fn verdict(results: &Results) -> Vec<String> {
    let all = results.expectations.len();
    let (holding, failing): (Vec<_>, Vec<_>) =
        results.expectations.iter().partition(|verdict| verdict.ok);
    let bare: Vec<_> = holding.iter().filter(|verdict| !verdict.is_evidence).copied().collect();
    let name = if results.title.is_empty() { &results.study } else { &results.title };
    let without = match (holding.len(), bare.len()) {
        (_, 0) => String::new(),
        (1, 1) => ", without evidence".into(),
        (hold, bare) => format!("; {hold} hold, {bare} of them without evidence"),
    };
    let mut lines = vec![match (all, failing.len()) {
        (0, _) => name.clone(),
        (1, 0) => format!("{name}: as expected{without}"),
        (_, 0) if !bare.is_empty() => format!("{name}: as expected{without}"),
        (_, 0) => format!("{name}: as expected, all {all} expectations hold"),
        (_, wrong) if holding.len() == bare.len() && bare.len() == 1 => {
            format!("{name}: NOT as expected, {wrong} of {all} expectations fail; 1 holds{without}")
        }
        (_, wrong) => {
            format!("{name}: NOT as expected, {wrong} of {all} expectations fail{without}")
        }
    }];
    lines.extend(results.answer.iter().flat_map(|answer| wrap(&answer.text)));
    lines.extend(failed(&results.runs));
    lines.extend(claims(&results.claims));
    let shown = failing.iter().take(FAILING_MAX).chain(bare.iter().take(FAILING_MAX));
    for Verdict { text, measured, expected, .. } in shown {
        lines.push(format!("  {text}: {measured}; expected {expected}"));
    }
    lines
}

/// How many runs came to nothing, and why the first of them.
fn failed(runs: &[RunSummary]) -> Vec<String> {
    let why = |run: &RunSummary| Some((run.label.clone(), run.failed.clone()?));
    let failed: Vec<_> = runs.iter().filter_map(why).collect();
    let mut lines = Vec::new();
    if !failed.is_empty() {
        lines.push(format!("{} of {} runs FAILED", failed.len(), runs.len()));
    }
    let first = |text: String| text.lines().next().unwrap_or_default().to_string();
    let shown = failed.into_iter().take(FAILING_MAX);
    lines.extend(shown.map(|(label, why)| format!("  {label}: {}", first(why))));
    lines
}

/// How many of the claims hold, and the first that do not.
fn claims(claims: &[Judged]) -> Vec<String> {
    if claims.is_empty() {
        return Vec::new();
    }
    let count = |standing| claims.iter().filter(|claim| claim.standing == standing).count();
    let (hold, part) = (count(Standing::Holds), count(Standing::InPart));
    let not = claims.len() - hold - part;
    let mut lines =
        vec![format!("claims: {hold} hold, {part} in part, {not} do not (in the report, each)")];
    let wrong = claims.iter().filter(|claim| claim.standing == Standing::Not);
    for claim in wrong.take(FAILING_MAX) {
        let range = claim.range.map_or("undefined".into(), |(low, high)| {
            if low == high { format!("{low:.3}") } else { format!("{low:.3} to {high:.3}") }
        });
        lines.push(format!("  not: {}: {range}, claimed {}", claim.text, claim.expected));
    }
    lines
}

/// The first notes, each once with the runs it is about, and how many more there are.
fn notes(results: &Results) -> Vec<String> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    all.extend(results.notes.iter().map(|note| (note.as_str(), Vec::new())));
    // Of those that failed, the verdict tells why.
    for run in results.runs.iter().filter(|run| run.failed.is_none()) {
        for note in run.notes.iter().map(|note| without_file(note)) {
            match all.iter_mut().find(|(other, runs)| *other == note && !runs.is_empty()) {
                Some((_, runs)) => runs.push(&run.label),
                None => all.push((note, vec![&run.label])),
            }
        }
    }
    let text = |(note, runs): &(&str, Vec<&str>)| {
        let named = runs.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
        match runs.len() {
            0 => format!("note: {note}"),
            n if n <= NAMED_MAX => format!("note: {named}: {note}"),
            n => format!("note: {named} and {} more: {note}", n - NAMED_MAX),
        }
    };
    let mut lines: Vec<String> = all.iter().take(NOTES_MAX).flat_map(|n| wrap(&text(n))).collect();
    match all.len().saturating_sub(NOTES_MAX) {
        0 => {}
        1 => lines.push("... and one more note in result.json".into()),
        more => lines.push(format!("... and {more} more notes in result.json")),
    }
    lines
}

/// A paragraph in lines, those after the first indented.
fn wrap(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= NOTE_COLUMNS => {
                *line += " ";
                *line += word;
            }
            Some(_) => lines.push(format!("  {word}")),
            None => lines.push(word.to_string()),
        }
    }
    lines
}

/// A note without the name of the trace it is about: the run's label is short and says enough.
fn without_file(note: &str) -> &str {
    match note.split_once(": ") {
        Some((file, rest)) if !file.contains(' ') => rest,
        _ => note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_told_whole() {
        let note = "word ".repeat(50);
        let lines = wrap(&format!("note: {note}"));
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.chars().count() <= NOTE_COLUMNS), "{lines:?}");
        assert!(lines[1].starts_with("  word"));
        let words: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
        assert_eq!(words.len(), 51);
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

//! A record, or two of them, as one page of HTML: processes on an axis of time, the ranking, and
//! the difference.

use std::fmt::Write;

use super::bars::{Bar, Doing, bars};
use super::difference;
use super::ranking::{self, Row};
use super::record::{Milestone, Record, Unit};
use super::units;

/// Places of the ranking, and rows of the difference, that are shown.
const ROWS: usize = 20;
/// Of the picture, in pixels.
const LABEL: u64 = 170;
const WIDTH: u64 = 900;
const ROW: u64 = 14;
const TOP: u64 = 44;
/// A row of milestones, and a letter of one at the most.
const LEVEL: u64 = 13;
const LETTER: f64 = 6.5;

const STYLE: &str = "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1120px;\
    color:#1b1b1b}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
    td,th{padding:2px 12px;text-align:right;border-bottom:1px solid #e3e3e3}\
    td:last-child,th:last-child{text-align:left}svg{display:block;font-size:10px}\
    h2{margin-top:2em}.key{display:inline-block;width:.9em;height:.9em;margin:0 .4em 0 1.2em;\
    vertical-align:-1px}p{max-width:75ch}";

/// Of a unit that starts.
const STARTS: &str = "#7d6ba8";

fn colour(doing: Doing) -> &'static str {
    match doing {
        Doing::Runs => "#3b76af",
        Doing::Queues => "#efb73e",
        Doing::WaitsForStorage => "#c3423f",
    }
}

/// The page of named records, the second beside the first.
pub fn page(records: &[(String, Record)]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><!-- made by blocklab --><meta charset=\"utf-8\">\n\
         <title>Who waits in a boot</title>\n<style>{STYLE}</style>\n<h1>Who waits in a boot</h1>\n"
    );
    for (name, record) in records {
        section(&mut out, name, record);
    }
    if let [(first, a), (second, b)] = records {
        compared(&mut out, (first, a), (second, b));
    }
    out.push_str("</html>\n");
    out
}

fn section(out: &mut String, name: &str, record: &Record) {
    let _ = writeln!(out, "<h2>{}</h2>", escaped(name));
    let text = ranking::lines(record, 0);
    let told: Vec<String> = text
        .iter()
        .filter(|line| !line.trim_start().starts_with("I/O delay s"))
        .map(|line| escaped(line))
        .collect();
    let _ = writeln!(out, "<p>{}</p>", told.join("<br>\n"));
    out.push_str("<p>");
    for doing in Doing::ALL {
        let (colour, name) = (colour(doing), doing.name());
        let _ = write!(out, "<span class=\"key\" style=\"background:{colour}\"></span>{name}");
    }
    out.push_str("<span class=\"key\" style=\"background:#e6e6e6\"></span>lives</p>\n");
    picture(out, record);
    if !record.processes.is_empty() {
        table(out, &ranking::ranking(record));
    }
    if !record.units.is_empty() {
        of_units(out, record);
        chain(out, record);
    }
}

fn of_units(out: &mut String, record: &Record) {
    out.push_str(
        "<h3>Units of systemd</h3>\n<table><tr><th>I/O delay s<th>processor s<th>run queue \
         s<th>to start s<th>read MB<th>page faults with I/O<th>processes<th>unit</tr>\n",
    );
    for row in units::units(record).iter().take(ROWS) {
        let start = units::told_start(row.start_ns);
        let _ = writeln!(
            out,
            "<tr><td>{:.6}<td>{:.6}<td>{:.6}<td>{start}<td>{:.2}<td>{}<td>{}<td>{}</tr>",
            row.io_ns as f64 / 1e9,
            row.cpu_ns as f64 / 1e9,
            row.queue_ns as f64 / 1e9,
            row.read_bytes as f64 / 1e6,
            row.major_faults,
            row.processes,
            escaped(&row.unit)
        );
    }
    out.push_str("</table>\n");
}

fn chain(out: &mut String, record: &Record) {
    let _ = writeln!(
        out,
        "<h3>The chain of units to {}</h3>\n<p>Each began after the one above it was reached, the \
         last of those that it is ordered after.</p>\n<table><tr><th>from s<th>took s<th>I/O \
         delay s<th>processor s<th>unit</tr>",
        escaped(&record.head.until)
    );
    let (start, _) = record.window_ns();
    for link in units::chain(record) {
        let _ = writeln!(
            out,
            "<tr><td>{:.6}<td>{:.6}<td>{:.6}<td>{:.6}<td>{}</tr>",
            link.from_ns.saturating_sub(start) as f64 / 1e9,
            link.to_ns.saturating_sub(link.from_ns) as f64 / 1e9,
            link.io_ns as f64 / 1e9,
            link.cpu_ns as f64 / 1e9,
            escaped(&link.unit)
        );
    }
    out.push_str("</table>\n");
}

/// A round step of the axis: at most ten of them.
fn step_ns(window_ns: u64) -> u64 {
    let mut step: u64 = 1;
    loop {
        for factor in [1, 2, 5] {
            if step.saturating_mul(factor).saturating_mul(10) >= window_ns {
                return step * factor;
            }
        }
        step = step.saturating_mul(10);
    }
}

fn picture(out: &mut String, record: &Record) {
    let (start, end) = record.window_ns();
    let window = (end - start).max(1);
    let x =
        |ns: u64| LABEL as f64 + (ns.saturating_sub(start)) as f64 / window as f64 * WIDTH as f64;
    let all = bars(record);
    // Where no process is known, what is known is drawn.
    let drawn = if all.is_empty() { record.units.as_slice() } else { &[] };
    let mut drawn: Vec<&Unit> = drawn.iter().filter(|unit| unit.activating_ns <= end).collect();
    drawn.sort_by_key(|unit| unit.activating_ns);
    let marks: Vec<&Milestone> =
        record.milestones.iter().filter(|one| one.at_ns > start && one.at_ns <= end).collect();
    let labels: Vec<(f64, usize)> =
        marks.iter().map(|one| (x(one.at_ns), one.milestone.chars().count())).collect();
    let levels = levels(&labels);
    let top = TOP + levels.iter().max().copied().unwrap_or(0) * LEVEL;
    let height = top + (all.len() + drawn.len()) as u64 * ROW + 6;
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {w} {height}\" width=\"{w}\" height=\"{height}\" \
         xmlns=\"http://www.w3.org/2000/svg\">",
        w = LABEL + WIDTH + 20
    );
    let step = step_ns(window);
    for mark in (0..=window / step).map(|index| start + index * step) {
        let at = x(mark);
        let seconds = (mark - start) as f64 / 1e9;
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{height}\" \
             stroke=\"#eee\"/><text x=\"{at:.1}\" y=\"{}\" fill=\"#666\">{} s</text>",
            top - 4,
            plain(seconds)
        );
    }
    for (index, bar) in all.iter().enumerate() {
        draw(out, bar, top + index as u64 * ROW, &x);
    }
    for (index, unit) in drawn.iter().enumerate() {
        draw_unit(out, unit, top + index as u64 * ROW, (start, end), &x);
    }
    for ((one, (at, _)), level) in marks.iter().zip(&labels).zip(levels) {
        let y = 12 + level * LEVEL;
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{}\" y2=\"{height}\" stroke=\"#2a7f3f\"/>\
             <text x=\"{at:.1}\" y=\"{y}\" text-anchor=\"end\" fill=\"#2a7f3f\">{}</text>",
            y + 4,
            escaped(&one.milestone)
        );
    }
    out.push_str("</svg>\n");
}

/// The row of each label, which ends at a place and has so many letters: none lies on another.
fn levels(labels: &[(f64, usize)]) -> Vec<u64> {
    let mut placed: Vec<(f64, f64, u64)> = Vec::new();
    for &(end, letters) in labels {
        let begin = end - letters as f64 * LETTER;
        let is_free = |level: &u64| {
            !placed.iter().any(|&(from, to, row)| row == *level && from < end && begin < to)
        };
        let level = (0..).find(is_free).unwrap_or_default();
        placed.push((begin, end, level));
    }
    placed.into_iter().map(|(_, _, level)| level).collect()
}

fn draw_unit(
    out: &mut String,
    unit: &Unit,
    y: u64,
    (start, end): (u64, u64),
    x: &impl Fn(u64) -> f64,
) {
    let from = unit.activating_ns.clamp(start, end);
    let to = unit.active_ns.unwrap_or(end).clamp(from, end);
    let _ = writeln!(
        out,
        "<g><title>{name}: {} s</title><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>\
         <rect x=\"{:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\" fill=\"{STARTS}\"/></g>",
        plain((to - from) as f64 / 1e9),
        LABEL - 6,
        y + ROW - 4,
        x(from),
        y + 2,
        (x(to) - x(from)).max(0.5),
        ROW - 4,
        name = escaped(&unit.unit),
    );
}

fn draw(out: &mut String, bar: &Bar, y: u64, x: &impl Fn(u64) -> f64) {
    let name = if bar.process.is_kernel() {
        format!("[{}]", bar.process.name)
    } else {
        bar.process.name.clone()
    };
    let seconds = |ns: u64| plain(ns as f64 / 1e9);
    let told = format!(
        "{name} ({}): ran {} s, waited {} s for the processor, {} s for storage",
        bar.process.pid,
        seconds(bar.process.cpu_ns),
        seconds(bar.process.queue_ns),
        seconds(bar.process.io_ns)
    );
    let rectangle = |from: u64, to: u64, colour: &str| {
        let (left, width) = (x(from), x(to) - x(from));
        format!(
            "<rect x=\"{left:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\" fill=\"{colour}\"/>",
            y + 2,
            width.max(0.1),
            ROW - 4
        )
    };
    let _ = write!(
        out,
        "<g><title>{}</title><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>{}",
        escaped(&told),
        LABEL - 6,
        y + ROW - 4,
        escaped(&name),
        rectangle(bar.from_ns, bar.to_ns, "#e6e6e6")
    );
    for piece in &bar.pieces {
        out.push_str(&rectangle(piece.from_ns, piece.to_ns, colour(piece.doing)));
    }
    out.push_str("</g>\n");
}

fn table(out: &mut String, rows: &[Row]) {
    out.push_str(
        "<h3>Who waited longest for storage</h3>\n<table><tr><th>I/O delay s<th>waits<th>processor \
         s<th>run queue s<th>read MB<th>written MB<th>process</tr>\n",
    );
    for row in rows.iter().take(ROWS) {
        let name = if row.kernel { format!("[{}]", row.name) } else { row.name.clone() };
        let _ = writeln!(
            out,
            "<tr><td>{:.6}<td>{}<td>{:.6}<td>{:.6}<td>{:.2}<td>{:.2}<td>{}</tr>",
            row.io_ns as f64 / 1e9,
            row.io_waits,
            row.cpu_ns as f64 / 1e9,
            row.queue_ns as f64 / 1e9,
            row.read_bytes as f64 / 1e6,
            row.write_bytes as f64 / 1e6,
            escaped(&name)
        );
    }
    out.push_str("</table>\n");
}

fn compared(out: &mut String, (first, a): (&str, &Record), (second, b): (&str, &Record)) {
    let length = |record: &Record| {
        let (start, end) = record.window_ns();
        (end - start) as f64 / 1e9
    };
    let _ = writeln!(
        out,
        "<h2>Difference</h2>\n<p>{} s and {} s of process 1. I/O delay, all processes of a name \
         together; of units also the time to start.</p>",
        plain(length(a)),
        plain(length(b)),
    );
    let (first, second) = (escaped(first), escaped(second));
    let boots = [a, b];
    let of_units = difference::of_units(boots);
    for (what, rows) in [("process", difference::of_processes(boots)), ("unit", of_units)] {
        if rows.is_empty() {
            continue;
        }
        let starts = match what {
            "unit" => format!("<th>{first} to start s<th>{second} to start s"),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "<table><tr><th>{first} s<th>{second} s<th>difference s{starts}<th>{what}</tr>"
        );
        for row in rows.iter().take(ROWS) {
            let [a, b] = row.io_ns.map(|ns| ns as f64 / 1e9);
            let _ = write!(out, "<tr><td>{a:.6}<td>{b:.6}<td>{:+.6}", row.io_more_s());
            if what == "unit" {
                for ns in row.start_ns {
                    let _ = write!(out, "<td>{}", units::told_start(ns));
                }
            }
            let _ = writeln!(out, "<td>{}</tr>", escaped(&row.name));
        }
        out.push_str("</table>\n");
    }
}

/// As many digits as are needed.
fn plain(seconds: f64) -> String {
    let text = format!("{seconds:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::SMALL;
    use super::*;

    #[test]
    fn a_page_has_a_bar_for_each_process_and_no_name_is_markup() {
        let record = Record::parse(SMALL).unwrap();
        let one = page(&[("x & y".into(), record.clone())]);
        assert_eq!(one.matches("<g>").count(), 3);
        assert!(one.contains("a &lt;b&gt;") && !one.contains("a <b>") && one.contains("x &amp; y"));
        assert!(one.contains(">a.target</text>") && !one.contains("Difference"));
        let mut slower = record.clone();
        slower.processes[4].io_ns = 1500;
        assert!(page(&[("a".into(), record), ("b".into(), slower)]).contains("+0.000001"));
    }

    #[test]
    fn units_have_a_table_and_a_chain_where_they_are_known() {
        let of = |record: Record| page(&[("a".into(), record)]);
        let told = of(units::tests::with_units());
        assert!(told.contains("<td>b.service</tr>") && told.contains("to a.target</h3>"));
        assert!(!of(Record::parse(SMALL).unwrap()).contains("Units of systemd"));
        let two =
            [("a".into(), units::tests::with_units()), ("b".into(), units::tests::with_units())];
        assert!(page(&two).contains("<th>b to start s<th>unit</tr>"));
    }

    #[test]
    fn no_milestone_lies_on_another() {
        // 13 letters take 85 pixels to the left of their place.
        let labels = [(100.0, 13), (130.0, 13), (140.0, 13), (216.0, 13), (400.0, 13)];
        assert_eq!(levels(&labels), [0, 1, 2, 0, 0]);
        assert!(levels(&[]).is_empty());
    }

    #[test]
    fn the_axis_has_round_steps() {
        assert_eq!([5_750_000_000, 10, 1].map(step_ns), [1_000_000_000, 1, 1]);
        assert_eq!(step_ns(210_000_000), 50_000_000);
        assert_eq!([plain(0.25), plain(1.0), plain(0.0)], ["0.25", "1", "0"]);
    }
}

//! Two boots beside each other: what waits longer in the one than in the other.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ranking;
use super::record::Record;
use super::units;

/// A name in both boots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// Of processes, all of that name together, or of a unit.
    pub name: String,
    /// I/O delay in the first boot and in the second.
    pub io_ns: [u64; 2],
    /// Of a unit: from its begin until it was reached, where it was.
    pub start_ns: [Option<u64>; 2],
}

impl Row {
    /// Of the second less the first.
    pub fn io_more_s(&self) -> f64 {
        let [a, b] = self.io_ns.map(|ns| ns as f64 / 1e9);
        b - a
    }
}

/// Processes by name, the largest difference of I/O delay first.
pub fn of_processes(boots: [&Record; 2]) -> Vec<Row> {
    paired(boots.map(|record| {
        let rows = ranking::ranking(record).into_iter();
        rows.map(|row| (row.name, row.io_ns, None)).collect()
    }))
}

/// Units, the same.
pub fn of_units(boots: [&Record; 2]) -> Vec<Row> {
    paired(boots.map(|record| {
        let rows = units::units(record).into_iter();
        rows.map(|row| (row.unit, row.io_ns, row.start_ns)).collect()
    }))
}

fn paired(boots: [Vec<(String, u64, Option<u64>)>; 2]) -> Vec<Row> {
    let mut all: BTreeMap<String, Row> = BTreeMap::new();
    for (which, rows) in boots.into_iter().enumerate() {
        for (name, io_ns, start_ns) in rows {
            let empty = || Row { name: name.clone(), io_ns: [0; 2], start_ns: [None; 2] };
            let row = all.entry(name.clone()).or_insert_with(empty);
            row.io_ns[which] = row.io_ns[which].saturating_add(io_ns);
            row.start_ns[which] = start_ns;
        }
    }
    let mut all: Vec<Row> = all.into_values().collect();
    let by = |[a, b]: [u64; 2]| a.abs_diff(b);
    all.sort_by_key(|row| {
        let start = row.start_ns.map(Option::unwrap_or_default);
        std::cmp::Reverse((by(row.io_ns), by(start)))
    });
    all
}

/// What a person reads: the first `rows` of both, where there are any.
pub fn lines(names: [&str; 2], boots: [&Record; 2], rows: usize) -> Vec<String> {
    let [first, second] = names;
    let mut out = Vec::new();
    for (what, all) in [("process", of_processes(boots)), ("unit", of_units(boots))] {
        let starts = what == "unit";
        if all.is_empty() || rows == 0 {
            continue;
        }
        out.push(format!("I/O delay in {second} less that in {first}, by {what}:"));
        let (a, b) = if starts { ("to start s", "to start s") } else { ("", "") };
        out.push(format!(
            "{:>11} {:>11} {:>11} {a:>11} {b:>11}  {what}",
            "first s", "second s", "more s"
        ));
        for row in all.iter().take(rows) {
            let [a, b] = row.io_ns.map(|ns| ns as f64 / 1e9);
            let [from, to] =
                if starts { row.start_ns.map(units::told_start) } else { Default::default() };
            let (more, name) = (row.io_more_s(), &row.name);
            out.push(format!("{a:11.6} {b:11.6} {more:+11.6} {from:>11} {to:>11}  {name}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::units::tests::with_units;
    use super::*;

    #[test]
    fn what_waits_longer_comes_first_and_a_unit_says_how_long_it_took_to_start() {
        let record = with_units();
        let mut slower = record.clone();
        slower.processes[4].io_ns += 1000;
        let unit = slower.units.iter_mut().find(|unit| unit.unit == "b.service").unwrap();
        unit.active_ns = Some(1990);
        let first = &of_processes([&record, &slower])[0];
        assert_eq!((first.name.as_str(), first.io_ns), ("a <b>", [500, 1500]));
        let first = &of_units([&record, &slower])[0];
        assert_eq!((first.name.as_str(), first.io_ns), ("b.service", [540, 1540]));
        assert_eq!(first.start_ns, [Some(710), Some(800)]);
        let told = lines(["hdd", "ssd"], [&slower, &record], 3).join("\n");
        assert!(told.starts_with("I/O delay in ssd less that in hdd, by process:"), "{told}");
        assert!(told.contains("  -0.000001 ") && told.contains("  b.service"), "{told}");
        assert!(lines(["a", "b"], [&record, &record], 0).is_empty());
    }
}

//! A record in Chrome's trace format, which <https://ui.perfetto.dev> opens.

use serde_json::{Value, json};

use super::bars::bars;
use super::record::Record;

/// No process has this number.
const UNITS: u32 = u32::MAX >> 1;

/// How each begins, and no trace of another program.
pub const BEGIN: &str =
    r#"{"displayTimeUnit":"ms","otherData":{"made_by":"blocklab boot report"},"#;

/// The trace.
pub fn trace(record: &Record) -> Value {
    let us = |ns: u64| ns as f64 / 1e3;
    let (start, end) = record.window_ns();
    let mut events = Vec::new();
    for bar in bars(record) {
        let (pid, name) = (bar.process.pid, &bar.process.name);
        events.push(json!({
            "ph": "M", "name": "process_name", "pid": pid, "tid": pid, "args": { "name": name },
        }));
        for piece in &bar.pieces {
            events.push(json!({
                "ph": "X", "name": piece.doing.name(), "pid": pid, "tid": pid,
                "ts": us(piece.from_ns - start), "dur": us(piece.to_ns - piece.from_ns),
            }));
        }
    }
    if !record.units.is_empty() {
        events.push(json!({
            "ph": "M", "name": "process_name", "pid": UNITS, "tid": UNITS,
            "args": { "name": "units of systemd" },
        }));
    }
    for (id, unit) in record.units.iter().enumerate() {
        let to = unit.active_ns.unwrap_or(end);
        if unit.activating_ns < start || to > end || to < unit.activating_ns {
            continue;
        }
        // Units overlap: each is an asynchronous event of its own.
        for (phase, at) in [("b", unit.activating_ns), ("e", to)] {
            events.push(json!({
                "ph": phase, "cat": "unit", "id": id, "name": unit.unit, "pid": UNITS,
                "tid": UNITS, "ts": us(at - start),
            }));
        }
    }
    for one in record.milestones.iter().filter(|one| one.at_ns >= start) {
        events.push(json!({
            "ph": "i", "s": "g", "name": one.milestone, "pid": record.head.init,
            "tid": record.head.init, "ts": us(one.at_ns - start),
        }));
    }
    json!({
        "displayTimeUnit": "ms",
        "otherData": { "made_by": "blocklab boot report" },
        "traceEvents": events,
    })
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::SMALL;
    use super::*;

    #[test]
    fn a_unit_begins_and_ends() {
        let trace = trace(&super::super::units::tests::with_units());
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |phase: &str| {
            let found = events.iter().find(|one| one["ph"] == phase && one["name"] == "b.service");
            found.unwrap()["ts"].as_f64().unwrap()
        };
        assert_eq!((of("b"), of("e")), (0.19, 0.9));
    }

    #[test]
    fn every_piece_and_milestone_is_an_event() {
        let trace = trace(&Record::parse(SMALL).unwrap());
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |phase: &str| events.iter().filter(|one| one["ph"] == phase).count();
        assert_eq!((of("M"), of("i")), (3, 2));
        let first = events.iter().find(|one| one["ph"] == "X" && one["pid"] == 50).unwrap();
        assert_eq!((&first["name"], &first["ts"]), (&json!("runs"), &json!(0.2)));
    }
}

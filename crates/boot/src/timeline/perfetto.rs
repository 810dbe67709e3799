//! A record in Chrome's trace format, which <https://ui.perfetto.dev> opens.

use serde_json::{Value, json};

use super::bars::bars;
use super::record::Record;

/// The trace.
pub fn trace(record: &Record) -> Value {
    let us = |ns: u64| ns as f64 / 1e3;
    let (start, _) = record.window_ns();
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
    for one in record.milestones.iter().filter(|one| one.at_ns >= start) {
        events.push(json!({
            "ph": "i", "s": "g", "name": one.milestone, "pid": record.head.init,
            "tid": record.head.init, "ts": us(one.at_ns - start),
        }));
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::SMALL;
    use super::*;

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

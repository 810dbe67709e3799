//! A served mirror in the text format of Prometheus: for the textfile collector of its node
//! exporter, or whatever else reads it.

use std::fmt::Write;

use mirror::LEGS;

use super::NAMES;
use super::live::{DeviceState, Live};

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let name = format!("blocklab_mirror_{name}");
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                format!("{key}=\"{value}\"")
            })
            .collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "blocklab_mirror_{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// One sample per leg; none for what is not known.
    fn legs(&mut self, (name, kind): (&str, &str), help: &str, values: [Option<f64>; LEGS]) {
        self.family(name, kind, help);
        for (leg, value) in values.into_iter().enumerate() {
            if let Some(value) = value {
                self.sample(name, &[("leg", NAMES[leg])], value);
            }
        }
    }
}

/// The metrics of `live`.
pub fn prometheus(live: &Live) -> String {
    let mut text = Text(String::new());
    text.family("info", "gauge", "Always 1; its labels tell which mirror this is and its mode.");
    text.sample("info", &[("array", &live.array), ("mode", &live.mode)], 1.0);
    text.one("size_bytes", "gauge", "What the host is offered.", live.bytes as f64);
    text.family("device_state", "gauge", "1 for the state that the device is in, 0 for others.");
    for (slot, name) in NAMES.iter().enumerate() {
        for state in DeviceState::ALL {
            let labels = [("device", *name), ("state", state.name())];
            text.sample("device_state", &labels, f64::from(u8::from(live.states[slot] == state)));
        }
    }
    let at_risk = live.bytes_at_risk as f64;
    let help = "Bytes acknowledged that are in one failure domain only.";
    text.one("at_risk_bytes", "gauge", help, at_risk);
    let help = "Age of the oldest byte at risk, 0 when there is none.";
    let age_s = live.age_at_risk_ms.unwrap_or(0.0) / 1e3;
    text.one("at_risk_age_seconds", "gauge", help, age_s);
    let help = "Blocks of 4 KiB that can be read from no leg.";
    text.one("lost_blocks", "gauge", help, live.lost_blocks as f64);
    let help = "How long the server did not run although it wanted to.";
    text.one("not_running_seconds_total", "counter", help, live.not_running_s);
    by_leg(&mut text, live);
    logs(&mut text, live);
    scrub(&mut text, live);
    for (name, help, value) in [
        ("early_acks_total", "Writes acknowledged before the second copy.", live.early_acks),
        ("logged_acks_total", "Flushes that were safe only by a log record.", live.logged_acks),
        ("log_records_total", "Log records written.", live.log_records),
        ("drops_total", "Times a device was left out.", live.drops),
        ("joins_total", "Times a device became a full member again.", live.joins),
        ("copied_bytes_total", "Bytes copied to fill or repair a leg.", live.copied_bytes),
        ("mismatches_total", "Wrong copies found.", live.mismatches),
        ("undecided_total", "Blocks that differ, neither known right.", live.undecided),
    ] {
        text.one(name, "counter", help, value as f64);
    }
    text.0
}

fn by_leg(text: &mut Text, live: &Live) {
    let known = |values: [u64; LEGS]| values.map(|value| Some(value as f64));
    let help = "Bytes that the leg was not given yet or has not answered.";
    text.legs(("lag_bytes", "gauge"), help, known(live.lag_bytes));
    let help = "Seconds until it owes nothing, at the pace of the last 10 s; absent if unknown.";
    text.legs(("drain_eta_seconds", "gauge"), help, live.drain_eta_s);
    let help = "1 while the leg counts as frozen.";
    text.legs(("frozen", "gauge"), help, live.frozen.map(|frozen| Some(f64::from(frozen))));
    text.legs(("freezes_total", "counter"), "Freezes seen.", known(live.freezes));
    let help = "How long freezes took, those that are over.";
    text.legs(("frozen_seconds_total", "counter"), help, live.frozen_ms.map(|ms| Some(ms / 1e3)));
    let help = "Bytes that the leg lacks.";
    text.legs(("out_of_sync_bytes", "gauge"), help, known(live.out_of_sync_bytes));
    let help = "Seconds until it lacks nothing, at the pace of the last 10 s; absent if unknown.";
    text.legs(("resync_eta_seconds", "gauge"), help, live.resync_eta_s);
}

fn logs(text: &mut Text, live: &Live) {
    text.one("log_bytes", "gauge", "Size of each device's log.", live.log_bytes as f64);
    text.family("log_used_bytes", "gauge", "Bytes of the device's log that may be needed.");
    let there = |slot: &usize| live.states[*slot] != DeviceState::Never;
    for slot in (0..NAMES.len()).filter(there) {
        let labels = [("device", NAMES[slot])];
        text.sample("log_used_bytes", &labels, live.log_used_bytes[slot] as f64);
    }
}

fn scrub(text: &mut Text, live: &Live) {
    let scrub = &live.scrub;
    let running = f64::from(scrub.position_bytes.is_some());
    text.one("scrub_running", "gauge", "1 while a scrub goes on.", running);
    let help = "Bytes compared by the scrub that goes on, 0 when none does.";
    text.one("scrub_position_bytes", "gauge", help, scrub.position_bytes.unwrap_or(0) as f64);
    let help = "Scrubs that went through to the end.";
    text.one("scrubs_completed_total", "counter", help, scrub.completed as f64);
    let help = "Wrong copies that are known and not repaired yet.";
    text.one("unrepaired_blocks", "gauge", help, scrub.unrepaired as f64);
}

//! Serving the control socket.

use serde_json::json;
use sim::Bytes;

use crate::clock::Wall;
use crate::control::{self, Line, Verb};
use crate::fault::{FaultId, Rule};
use crate::poll::Event;
use crate::shared_state::Export;

use super::Session;

/// A fault that never strikes would look like software that stands it.
fn check_place(rule: &Rule, capacity: Bytes) -> Result<(), String> {
    let at = rule.range.start;
    if at < capacity.0 {
        return Ok(());
    }
    Err(format!("range={at}+...: it would never strike: the device has {} bytes", capacity.0))
}

/// Lift every fault of these devices.
pub(super) fn lift_all(exports: &mut [Export], now: Wall) {
    for engine in exports.iter_mut().map(|export| &mut export.engine) {
        let all: Vec<FaultId> = engine.faults().list().map(|(id, ..)| id).collect();
        for id in all {
            engine.lift(id, now);
        }
    }
}

impl Session {
    /// Something happened on the control socket.
    pub(super) fn command(&mut self, event: Event) {
        for (client, line) in self.event_loop.command_lines(event) {
            let answer = match control::parse(&line).and_then(|line| self.obey(line)) {
                Ok(answer) if answer.is_empty() => "ok".to_string(),
                Ok(answer) => format!("ok {answer}"),
                Err(why) => format!("error {why}"),
            };
            self.event_loop.answer_line(client, &answer);
        }
    }

    /// The export of that name, or the first.
    fn export(&self, name: Option<&str>) -> Result<usize, String> {
        let Some(name) = name else { return Ok(0) };
        let exports = &self.event_loop.shared.exports;
        let found = exports.iter().position(|export| export.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
            let known = match &names[..] {
                [""] => "the only one has no name".to_string(),
                all => format!("there are {}", all.join(", ")),
            };
            format!("there is no export `{name}`; {known}")
        })
    }

    fn obey(&mut self, line: Line) -> Result<String, String> {
        let index = self.export(line.export.as_deref())?;
        let now = self.event_loop.shared.clock.now();
        let exports = &mut self.event_loop.shared.exports;
        let engine = &mut exports[index].engine;
        match line.verb {
            Verb::Inject(rule) => {
                check_place(&rule, engine.limits().capacity)?;
                Ok(engine.inject(rule, now).0.to_string())
            }
            Verb::Lift(None) => {
                // Of the device that was named, or of all.
                let chosen =
                    if line.export.is_some() { index..index + 1 } else { 0..exports.len() };
                lift_all(&mut exports[chosen], now);
                Ok(String::new())
            }
            Verb::Lift(Some(id)) => {
                if engine.lift(id, now) {
                    Ok(String::new())
                } else {
                    Err(format!("there is no fault {}; ask for `faults`", id.0))
                }
            }
            Verb::Faults => {
                let faults = engine.faults().list().map(|(id, rule, hits)| {
                    json!({ "id": id.0, "rule": rule.to_string(), "hits": hits })
                });
                Ok(json!(faults.collect::<Vec<_>>()).to_string())
            }
            Verb::Status => {
                let dilation = engine.timeline().dilation;
                let in_flight = engine.in_flight();
                let summary = engine.statistics().summary(self.late_share, dilation);
                let moment = engine.moment().0;
                let name = &exports[index].name;
                Ok(json!({ "export": name, "device_ns": moment, "in_flight": in_flight,
                    "measured": summary })
                .to_string())
            }
            Verb::Save => {
                if self.origins[index].is_kept() {
                    let saved = self.origins[index].save(engine);
                    saved.map(|()| String::new()).map_err(|failure| failure.message)
                } else {
                    Err("the data is in memory; a state without it would lie".into())
                }
            }
            Verb::PowerCut => {
                if !engine.data().loses_unflushed() {
                    return Err("start with --power-cuts: what writes replace was not kept".into());
                }
                let cut = engine.power_cut(now).map_err(|why| why.to_string())?;
                let (lost, forgotten) = (cut.lost_writes, cut.forgotten.len());
                let all = &mut self.event_loop;
                all.frontend.power_cut(index, &cut.forgotten, &mut all.shared, &all.poll);
                Ok(json!({ "lost_writes": lost, "in_flight": forgotten }).to_string())
            }
            Verb::Quit => {
                self.event_loop.supervisor.end();
                Ok(String::new())
            }
        }
    }
}

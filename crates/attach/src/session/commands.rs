//! Serving the control socket.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use serde_json::json;
use study::Failure;

use crate::clock::Wall;
use crate::control::{self, Line, Verb};
use crate::engine::Engine;
use crate::fault::FaultId;
use crate::frontend::nbd;
use crate::poll::{Event, Interest, Poll};

use super::Session;

/// Askers at a time, and the longest line of one.
const ASKERS_MAX: usize = 16;
const LINE_MAX: usize = 4096;

/// The socket and who is connected to it.
pub(super) struct Control {
    path: PathBuf,
    listener: UnixListener,
    token: u64,
    askers: Vec<Option<Asker>>,
}

struct Asker {
    stream: UnixStream,
    line: Vec<u8>,
}

impl Control {
    pub(super) fn new(path: &Path, poll: &Poll, token: u64) -> Result<Control, Failure> {
        let listener = nbd::bind(path)?;
        let quiet = listener.set_nonblocking(true);
        quiet
            .and_then(|()| poll.add(&listener, token, Interest::READ))
            .map_err(|why| Failure::machine(format!("cannot listen for commands: {why}")))?;
        Ok(Control { path: path.to_path_buf(), listener, token, askers: Vec::new() })
    }

    fn accept(&mut self, poll: &Poll) {
        while let Ok((stream, _)) = self.listener.accept() {
            let free = self.askers.iter().position(Option::is_none);
            let index = match free {
                Some(index) => index,
                None if self.askers.len() < ASKERS_MAX => {
                    self.askers.push(None);
                    self.askers.len() - 1
                }
                // One too many: it sees the end of the connection.
                None => continue,
            };
            let token = self.token + 1 + index as u64;
            let watched = stream
                .set_nonblocking(true)
                .and_then(|()| poll.add(stream.as_fd(), token, Interest::READ));
            if watched.is_ok() {
                self.askers[index] = Some(Asker { stream, line: Vec::new() });
            }
        }
    }

    /// Complete lines of an asker; nothing and `false` when it is gone.
    fn lines(&mut self, index: usize) -> (Vec<String>, bool) {
        let Some(asker) = self.askers.get_mut(index).and_then(Option::as_mut) else {
            return (Vec::new(), true);
        };
        let mut buffer = [0; 1024];
        let mut alive = true;
        loop {
            match asker.stream.read(&mut buffer) {
                Ok(0) => alive = false,
                Ok(got) => {
                    asker.line.extend(&buffer[..got]);
                    if asker.line.len() <= LINE_MAX {
                        continue;
                    }
                    alive = false;
                }
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => alive = false,
            }
            break;
        }
        let mut lines = Vec::new();
        while let Some(end) = asker.line.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = asker.line.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim().to_string());
        }
        (lines, alive)
    }

    fn say(&mut self, index: usize, answer: &str) {
        if let Some(asker) = self.askers.get_mut(index).and_then(Option::as_mut) {
            // Whoever does not listen to its answer misses it.
            let _ = asker.stream.write_all(format!("{answer}\n").as_bytes());
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Ours since `bind`; when it is gone already, all the better.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Lift every fault.
pub(super) fn lift_all(engine: &mut Engine, now: Wall) {
    let all: Vec<FaultId> = engine.faults().list().map(|(id, ..)| id).collect();
    for id in all {
        engine.lift(id, now);
    }
}

impl Session {
    /// Something happened on the control socket.
    pub(super) fn command(&mut self, event: Event) {
        let Some(control) = &mut self.control else { return };
        if event.token == control.token {
            return control.accept(&self.poll);
        }
        let index = (event.token - control.token - 1) as usize;
        let (lines, alive) = control.lines(index);
        for line in lines {
            let answer = match control::parse(&line).and_then(|line| self.obey(line)) {
                Ok(answer) if answer.is_empty() => "ok".to_string(),
                Ok(answer) => format!("ok {answer}"),
                Err(why) => format!("error {why}"),
            };
            if let Some(control) = &mut self.control {
                control.say(index, &answer);
            }
        }
        if let Some(control) = self.control.as_mut().filter(|_| !alive) {
            control.askers[index] = None;
        }
    }

    fn obey(&mut self, line: Line) -> Result<String, String> {
        let names: Vec<String> = self.lab.exports.iter().map(|e| e.name.clone()).collect();
        let index = match &line.export {
            None => 0,
            Some(name) => names.iter().position(|known| known == name).ok_or_else(|| {
                format!("there is no export `{name}`; there are {}", names.join(", "))
            })?,
        };
        let now = self.lab.clock.now();
        let engine = &mut self.lab.exports[index].engine;
        match line.verb {
            Verb::Inject(rule) => Ok(engine.inject(rule).0.to_string()),
            Verb::Lift(None) => {
                lift_all(engine, now);
                Ok(String::new())
            }
            Verb::Lift(Some(id)) => match engine.lift(id, now) {
                true => Ok(String::new()),
                false => Err(format!("there is no fault {}; ask for `faults`", id.0)),
            },
            Verb::Faults => {
                let faults = engine.faults().list().map(|(id, rule, hits)| {
                    json!({ "id": id.0, "rule": rule.to_string(), "hits": hits })
                });
                Ok(json!(faults.collect::<Vec<_>>()).to_string())
            }
            Verb::Status => {
                let dilation = engine.timeline().dilation;
                let share = crate::statistics::LATE_SHARE;
                let in_flight = engine.in_flight();
                let summary = engine.statistics().summary(share, dilation);
                let moment = engine.moment().0;
                Ok(json!({ "export": names[index], "device_ns": moment, "in_flight": in_flight,
                    "measured": summary })
                .to_string())
            }
            Verb::Save => match self.origins[index].is_kept() {
                true => {
                    let saved = self.origins[index].save(engine);
                    saved.map(|()| String::new()).map_err(|failure| failure.message)
                }
                false => Err("the data is in memory; a state without it would lie".into()),
            },
            Verb::PowerCut => {
                if !engine.data().loses_unflushed() {
                    return Err("start with --power-cuts: what writes replace was not kept".into());
                }
                let cut = engine.power_cut(now).map_err(|why| why.to_string())?;
                let (lost, forgotten) = (cut.lost_writes, cut.forgotten.len());
                self.frontend.power_cut(index, &cut.forgotten, &mut self.lab, &self.poll);
                Ok(json!({ "lost_writes": lost, "in_flight": forgotten }).to_string())
            }
            Verb::Quit => {
                match &mut self.captive {
                    Some(captive) => captive.end(),
                    None => self.stopping = true,
                }
                Ok(String::new())
            }
        }
    }
}

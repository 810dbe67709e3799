//! A session: devices, a frontend, and the one event loop that serves them.

mod commands;
pub(crate) mod open;

use std::path::{Path, PathBuf};

use sim::{Bytes, Lba, Nanos, Request};
use study::metrics;
use study::{BuiltPart, Failure};

use crate::client_side::ClientSide;
use crate::clock::{Clock, Wall};
use crate::control_socket::ControlSocket;
use crate::engine::Engine;
use crate::event_loop::{EventLoop, FREE, Serving, Supervisor};
use crate::frontend::{Address, Choice, Started, probe};
use crate::live::{self, Live};
use crate::order::Timing;
use crate::poll::{Event, Poll};
use crate::realtime::{self, Priority};
use crate::report::{DeviceReport, Report};
use crate::shared_state::SharedState;
use crate::spin::Spin;
use crate::store::Store;

use open::{Manner, Origin};

/// How a request's arrival is dated back by what the transport itself takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compensation {
    /// Not at all.
    Off,
    /// By the path's own round trip, measured at the start.
    Measured,
    /// By this many nanoseconds.
    Fixed(u64),
}

impl Compensation {
    fn ns(self, round_trip_ns: Option<u64>) -> u64 {
        match self {
            Compensation::Off => 0,
            Compensation::Fixed(ns) => ns,
            Compensation::Measured => round_trip_ns.unwrap_or(0),
        }
    }
}

/// One device to attach.
pub struct DeviceOptions {
    /// The clients' name for it.
    pub name: String,
    /// The device.
    pub part: BuiltPart,
    /// The file that keeps its data; `None`: it goes with the session.
    pub data: Option<PathBuf>,
    /// Where it goes on, when it is not new and comes with its data.
    pub start: Option<Start>,
}

impl DeviceOptions {
    /// The only disk of a guest, which goes on from `start`.
    pub(crate) fn only(part: BuiltPart, start: Start) -> Vec<DeviceOptions> {
        vec![DeviceOptions { name: "vda".into(), part, data: None, start: Some(start) }]
    }
}

/// Where a device goes on that an earlier session left.
#[derive(Debug)]
pub struct Start {
    pub(crate) store: Store,
    pub(crate) at: Nanos,
    pub(crate) next_id: u64,
}

/// Sectors that are written at a time where a device is told of an image.
const IMAGE_SECTORS: u64 = 2048;

impl Start {
    /// A device that comes with what is in the sparse file at `path`, which nobody else needs: each
    /// stretch of data in it was written, in order and in no time.
    ///
    /// # Errors
    /// When it cannot be read, or is larger than the device.
    pub fn with_image(part: &mut BuiltPart, path: &Path) -> Result<Start, Failure> {
        let store = Store::image(path, part.device.limits().capacity)?;
        let wrong = |why: std::io::Error| Failure::machine(format!("{}: {why}", path.display()));
        let mut at = 0;
        for extent in store.extents(0, store.bytes(), usize::MAX).map_err(wrong)? {
            let (from, to) = (Bytes(at).sectors(), Bytes(at + extent.bytes).sectors());
            at += extent.bytes;
            for first in (from..to).step_by(IMAGE_SECTORS as usize).filter(|_| !extent.hole) {
                let sectors = IMAGE_SECTORS.min(to - first) as u32;
                part.device.apply(&Request::write(Lba(first), sectors));
            }
        }
        Ok(Start { store, at: Nanos(0), next_id: 0 })
    }
}

/// What to do.
pub struct Options {
    /// At least one.
    pub devices: Vec<DeviceOptions>,
    /// How clients reach them.
    pub frontend: Choice,
    /// Wall nanoseconds per modelled nanosecond; at least 1.
    pub dilation: u64,
    /// Dating back.
    pub compensation: Compensation,
    /// The share of the median modelled time that the p99 of lateness may reach.
    pub late_share: f64,
    /// Run this by the shell, and end with it.
    pub run: Option<String>,
    /// Write every request of the first device to this trace.
    pub record: Option<PathBuf>,
    /// Listen for commands on this Unix socket.
    pub control: Option<PathBuf>,
    /// A power cut loses what was not flushed.
    pub power_cuts: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// Begin with every sector of a new device written.
    pub fill: bool,
    /// Ask for a real-time priority.
    pub realtime: bool,
    /// Show on stderr what is going on.
    pub live: bool,
}

/// How a session ended.
#[derive(Debug)]
pub struct Outcome {
    /// What was measured.
    pub report: Report,
    /// The exit code of the program that ran, if one did.
    pub code: Option<u8>,
    /// What went wrong after it.
    pub stopped: Result<(), Failure>,
}

struct Session {
    /// Dropped first.
    event_loop: EventLoop<Engine>,
    origins: Vec<Origin>,
    /// (export, bytes, moments) of the replies that are about to leave.
    leaving: Vec<(usize, u32, Timing)>,
    live: Option<Live>,
    /// The share of the median modelled time that the p99 of lateness may reach.
    late_share: f64,
    /// When the live line is due.
    tick: Wall,
}

/// Attach devices until the program ends, a signal comes, or the control socket says so. `ready`
/// is called once, when clients may come; `note` is told what the user must know at once.
///
/// # Errors
/// When something of the machine or of the options does not fit.
pub fn attach(
    options: Options,
    ready: impl FnOnce(&Address),
    mut note: impl FnMut(&str),
) -> Result<Outcome, Failure> {
    let Options { frontend, compensation, run, live, realtime, dilation, late_share, .. } = options;
    let name = frontend.name();
    let devices = options.devices;
    open::check_places(&devices, &[("--record", &options.record)])?;
    let (power_cuts, read_only, fill) = (options.power_cuts, options.read_only, options.fill);
    let manner = Manner { dilation, power_cuts, read_only, fill, data_limit: None };
    let mut notes = Vec::new();
    let (exports, origins) = open::all(devices, manner, &mut notes)?;
    let mut shared = SharedState::new(exports, Clock::start());
    open::record(&mut shared.exports, options.record.as_deref())?;
    let frontend = frontend.build(&shared.exports)?;
    let poll = Poll::new()?;
    let supervisor = Supervisor::new(&poll)?;
    let control = options.control.map(|path| ControlSocket::new(&path, &poll, FREE)).transpose()?;
    let priority =
        if realtime { realtime::raise() } else { Priority::Normal("not asked for".into()) };
    priority.warning().filter(|_| realtime).iter().for_each(|warning| note(warning));
    let spin = Spin::new(priority == Priority::Realtime);
    let mut session = Session {
        event_loop: EventLoop::new((poll, supervisor), frontend, shared, control, Some(spin)),
        origins,
        leaving: Vec::new(),
        live: live.then(Live::default),
        late_share,
        tick: Wall::NEVER,
    };
    open::mark(&mut session.origins)?;
    let started = session.start_bypassed().inspect_err(|_| open::unmark(&mut session.origins))?;
    let compensation_ns = compensation.ns(started.round_trip_ns);
    session
        .event_loop
        .shared
        .exports
        .iter_mut()
        .for_each(|export| export.engine.compensate(compensation_ns));
    notes.extend(started.notes);
    notes.iter().for_each(|text| note(text));
    session.event_loop.open();
    ready(&started.address);
    let began = session.event_loop.shared.clock.now();
    let served = session.serve(run.as_deref(), &started.address);
    let wall_s = session.event_loop.shared.clock.now().since(began) as f64 / 1e9;
    let seen = session.event_loop.frontend.seen();
    let stopped = session.stop();
    let code = served?;
    let compensation_us = compensation_ns as f64 / 1e3;
    let devices = session.devices(dilation, &seen, compensation_us);
    let report = Report {
        frontend: name,
        wall_s,
        dilation,
        round_trip_us: started.round_trip_ns.map(|ns| ns as f64 / 1e3),
        compensation_us,
        priority,
        late_share,
        faithful: devices.iter().all(|device| device.measured.faithful),
        notes,
        devices,
    };
    Ok(Outcome { report, code, stopped })
}

/// A reply that is due so soon is waited for first: a look at the sockets takes longer.
const LAST_NS: u64 = 1_000;

impl Session {
    /// Start the frontend while reads bypass the model.
    fn start_bypassed(&mut self) -> Result<Started, Failure> {
        self.set_bypass(Some(probe::PAUSE_NS));
        let started = self.start()?;
        self.set_bypass(None);
        Ok(started)
    }

    fn set_bypass(&mut self, ns: Option<u64>) {
        self.event_loop.shared.exports.iter_mut().for_each(|export| export.engine.set_bypass(ns));
    }

    /// Serve until the program ends, or a signal or command asks for the end.
    fn serve(&mut self, run: Option<&str>, address: &Address) -> Result<Option<u8>, Failure> {
        if self.live.is_some() {
            self.tick = self.event_loop.shared.clock.now();
        }
        let code = self.run(run, address)?;
        if let Some(live) = &mut self.live {
            live.end();
        }
        self.tick = Wall::NEVER;
        Ok(code)
    }

    /// Disconnect the clients and save the devices.
    fn stop(&mut self) -> Result<(), Failure> {
        let now = self.event_loop.shared.clock.now();
        // What a fault holds back would never end.
        commands::lift_all(&mut self.event_loop.shared.exports, now);
        let stopped = self.stop_frontend();
        let closed = open::close(&mut self.event_loop.shared.exports, &mut self.origins);
        stopped.and(closed)
    }

    /// Send every reply that is due at `now`; returns when something is due next.
    fn answer_at(&mut self, now: Wall) -> Wall {
        for index in 0..self.event_loop.shared.exports.len() {
            let engine = &mut self.event_loop.shared.exports[index].engine;
            if engine.next_due() > now {
                continue;
            }
            let mut replies = std::mem::take(&mut self.event_loop.replies);
            engine.advance(now, &mut replies);
            engine.tidy();
            for reply in replies.drain(..) {
                if let Err(why) = reply.result {
                    self.event_loop.shared.exports[index]
                        .engine
                        .statistics()
                        .failed(reply.timing.op, why);
                }
                self.leaving.push((index, reply.moved(), reply.timing));
                self.event_loop.frontend.reply(index, reply, &mut self.event_loop.shared);
            }
            self.event_loop.replies = replies;
        }
        let sent = self.event_loop.shared.clock.now();
        self.event_loop.frontend.flush(&mut self.event_loop.shared, &self.event_loop.poll);
        for (index, bytes, timing) in self.leaving.drain(..) {
            self.event_loop.shared.exports[index].engine.statistics().replied(&timing, bytes, sent);
        }
        if now >= self.tick {
            self.tick = now.plus(live::EVERY_NS);
            if let (Some(live), Some(first)) =
                (&mut self.live, self.event_loop.shared.exports.first_mut())
            {
                let origin = &self.origins[0];
                let name = if first.name.is_empty() { &origin.part.name } else { &first.name };
                let counters = origin.counted(&first.engine);
                live.show(now, name, counters, &mut first.engine);
            }
        }
        let due = self.event_loop.shared.exports.iter().map(|export| export.engine.next_due());
        due.fold(self.tick.min(self.event_loop.frontend.due()), Wall::min)
    }

    /// The devices' part of the report.
    fn devices(
        &mut self,
        dilation: u64,
        seen: &ClientSide,
        compensation_us: f64,
    ) -> Vec<DeviceReport> {
        let mut reports = Vec::new();
        let late_share = self.late_share;
        let both = self.event_loop.shared.exports.iter_mut().zip(&self.origins);
        for (index, (export, origin)) in both.enumerate() {
            let mut measured = export.engine.statistics().summary(late_share, dilation);
            let clients = seen.beyond(index, &measured, compensation_us);
            measured.judge(clients.as_ref());
            let counters = origin.counted(&export.engine);
            reports.push(DeviceReport {
                export: export.name.clone(),
                part: origin.part.name.clone(),
                model: origin.model.clone(),
                status: origin.part.status.clone(),
                digest: origin.digest.clone(),
                waf: metrics::value(&counters, "waf"),
                clients,
                measured,
            });
        }
        reports
    }
}

impl Serving for Session {
    type Target = Engine;

    fn event_loop(&mut self) -> &mut EventLoop<Engine> {
        &mut self.event_loop
    }

    fn answer(&mut self) -> Wall {
        let due = self.answer_at(self.event_loop.now());
        if due > self.event_loop.now().plus(LAST_NS) {
            return due;
        }
        self.answer_at(self.event_loop.shared.clock.poll_until(due))
    }

    fn take(&mut self, event: Event) {
        self.command(event);
    }
}

#[cfg(test)]
mod tests {
    use sim::Stepper;

    use super::*;

    #[test]
    fn a_device_knows_of_the_image_that_it_comes_with() {
        let folder = crate::PrivateFolder::new().unwrap();
        let path = folder.path.join("image");
        std::fs::write(&path, [7; 8192]).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
        let build = || study::build_part("slc2010-paper", &[], 1).unwrap();
        let (mut with, without) = (build(), build());
        let start = Start::with_image(&mut with, &path).unwrap();
        assert_eq!(start.store.bytes(), with.device.limits().capacity.0);
        let read_ns = |part: BuiltPart, lba| {
            let mut stepper = Stepper::new(part.device);
            stepper.submit(Request::read(Lba(lba), 8)).unwrap();
            stepper.drain()[0].at.0
        };
        // An SSD reads what was never written in no time.
        assert!(read_ns(with, 8) > read_ns(without, 8));
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 42).unwrap();
        let failure = Start::with_image(&mut build(), &path).unwrap_err();
        assert_eq!(failure.exit_code(), 2, "{failure}");
    }
}

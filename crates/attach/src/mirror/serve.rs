//! Serving a mirror: one event loop over a frontend, the devices, and signals.

use std::path::PathBuf;

use mirror::policy::lag::LagRules;
use study::Failure;

use super::engine::MirrorEngine;
use super::live::Live;
use super::notify::Manager;
use super::open::Start;
use super::prepare::{Preparing, Replaced};
use super::starting;
use crate::clock::{Clock, Wall};
use crate::control_socket::ControlSocket;
use crate::event_loop::{EventLoop, FREE, Serving, Supervisor};
use crate::frontend::{Address, Choice};
use crate::identity::Identity;
use crate::order::{Command, Order, Ticket};
use crate::poll::{Event, Interest, Poll};
use crate::shared_state::{Export, SharedState};
use crate::target::Target;

/// What to serve, and how.
pub struct Options {
    /// The mirror.
    pub start: Start,
    /// How clients reach it.
    pub frontend: Choice,
    /// Run this by the shell, and end with it.
    pub run: Option<String>,
    /// Answer every [`super::Request`] on this Unix socket.
    pub control: Option<PathBuf>,
    /// When a device is too late.
    pub lag: LagRules,
}

/// How it ended.
#[derive(Debug)]
pub struct Served {
    /// The mirror after its last request.
    pub mirror: Live,
    /// The program's exit code, or 0.
    pub code: u8,
}

/// A device has done something.
const WAKEUP: u64 = FREE;
/// A new medium is ready.
pub(super) const PREPARED: u64 = FREE + 1;
/// A device that was left out has been looked at.
pub(super) const RETURNING: u64 = FREE + 2;
/// And those that follow.
const CONTROL: u64 = FREE + 3;

/// A stop in order is given up when the devices do nothing for longer: what is left is recovered at
/// the next start.
const STOP_NS_MAX: u64 = 60_000_000_000;

/// How long a stop goes on.
struct Patience {
    done: u64,
    until: Wall,
}

impl Patience {
    fn new(now: Wall, done: u64) -> Patience {
        Patience { done, until: now.plus(STOP_NS_MAX) }
    }

    /// True while the devices have done something lately; they have done `done` requests by now.
    fn lasts(&mut self, now: Wall, done: u64) -> bool {
        if self.done != done {
            *self = Patience::new(now, done);
        }
        now < self.until
    }
}

pub(super) struct Server<'n> {
    /// Dropped first.
    pub(super) event_loop: EventLoop<MirrorEngine>,
    pub(super) preparing: Option<Preparing>,
    pub(super) returning: Option<Preparing>,
    /// Who replaced a device waits for the others to have recorded that the old one left.
    pub(super) replaced: Option<Replaced>,
    manager: Manager,
    note: &'n mut dyn FnMut(&str),
    pub(super) stopping: bool,
}

/// Start the mirror and serve it until the program ends or a signal comes; then stop in order.
/// `ready` is called once, when clients may come; `note` is told what the user must know at once.
///
/// # Errors
/// When the mirror must not start, the machine lacks something, or it could not stop in order.
pub fn serve(
    options: Options,
    ready: impl FnOnce(&Address),
    note: &mut dyn FnMut(&str),
) -> Result<Served, Failure> {
    let Options { start, frontend, run, control, lag } = options;
    let mut poll = Poll::new()?;
    let mut supervisor = Supervisor::new(&poll)?;
    // A start changes the legs, so what nobody could reach must not get so far.
    frontend.check()?;
    let control = control.map(|path| ControlSocket::new(&path, &poll, CONTROL)).transpose()?;
    let (devices, opened) = starting::open(start, &mut poll, &mut supervisor, note)?;
    let clock = Clock::start();
    let refused = |why: std::io::Error| Failure::machine(format!("cannot serve: {why}"));
    let identity = identity(devices.array);
    let array = MirrorEngine::new(devices, opened, lag, clock.now()).map_err(refused)?;
    poll.add(array.wakeup(), WAKEUP, Interest::READ).map_err(refused)?;
    let export = Export { name: String::new(), identity, read_only: false, engine: array };
    let shared = SharedState::new(vec![export], clock);
    let frontend = frontend.build(&shared.exports)?;
    let mut server = Server {
        event_loop: EventLoop::new((poll, supervisor), frontend, shared, control, None),
        preparing: None,
        returning: None,
        replaced: None,
        manager: Manager::from_environment(),
        note,
        stopping: false,
    };
    let started = match server.start() {
        Ok(started) => started,
        Err(why) => {
            // Nobody was served, so it is as it was; what else fails is the next start's to say.
            let _ = server.stop();
            return Err(why);
        }
    };
    started.notes.iter().for_each(|text| (server.note)(text));
    server.event_loop.open();
    ready(&started.address);
    server.manager.ready(server.event_loop.now());
    let code = server.run(run.as_deref(), &started.address)?;
    server.stop()?;
    let now = server.event_loop.now();
    Ok(Served { mirror: Live::of(server.engine(), now), code: code.unwrap_or(0) })
}

fn identity(array: u128) -> Identity {
    Identity {
        model: "blocklab mirror".into(),
        serial: format!("{:016x}", (array >> 64) as u64),
        rotational: false,
        logical_block_bytes: 512,
        physical_block_bytes: 4096,
        request_bytes_max: None,
        discard_granularity_bytes: 4096,
    }
}

impl Server<'_> {
    pub(super) fn engine(&mut self) -> &mut MirrorEngine {
        &mut self.event_loop.shared.exports[0].engine
    }

    /// Disconnect the clients, flush every leg, and mark the legs as stopped in order.
    fn stop(&mut self) -> Result<(), Failure> {
        self.manager.stopping();
        self.stopping = true;
        let freed = self.stop_frontend();
        // Clients that are still there are answered, but asked nothing more.
        let all = &mut self.event_loop;
        all.poll = Poll::new()?;
        let watch = all.poll.add(all.shared.exports[0].engine.wakeup(), WAKEUP, Interest::READ);
        watch.map_err(|why| Failure::machine(format!("cannot wait for the devices: {why}")))?;
        let now = all.now();
        let flush = Order::new(NOBODY, Command::Flush, 0, 0);
        let SharedState { exports, pool, .. } = &mut all.shared;
        exports[0].engine.submit(now, flush, None, pool);
        self.engine().stop();
        let mut patience = Patience::new(now, 0);
        while !self.engine().over() && !self.event_loop.supervisor.interrupted() {
            let (now, done) = (self.event_loop.now(), self.engine().requests_done());
            if !patience.lasts(now, done) {
                break;
            }
            let due = self.answer().min(self.event_loop.now().plus(100_000_000));
            if self.engine().over() {
                break;
            }
            self.event_loop.wait(due);
        }
        match (self.engine().failed(), self.engine().over()) {
            (true, _) => Err(Failure::machine("no leg was left; see above")
                .help("repair the devices and serve again: what was flushed is recovered")),
            (false, false) => Err(Failure::machine("the devices did not let the mirror stop")
                .help("what was flushed is safe; the next start recovers the rest")),
            (false, true) => freed,
        }
    }
}

impl Serving for Server<'_> {
    type Target = MirrorEngine;

    fn event_loop(&mut self) -> &mut EventLoop<MirrorEngine> {
        &mut self.event_loop
    }

    /// Take what the devices have done and send what is to be sent.
    fn answer(&mut self) -> Wall {
        let all = &mut self.event_loop;
        let now = all.now();
        all.shared.exports[0].engine.advance(now, &mut all.replies);
        // Our own flush at the end is no client's.
        for reply in all.replies.drain(..).filter(|reply| reply.order.ticket != NOBODY) {
            all.frontend.reply(0, reply, &mut all.shared);
        }
        all.frontend.flush(&mut all.shared, &all.poll);
        for text in self.engine().notices() {
            (self.note)(&text);
            self.manager.status(&text);
        }
        self.answer_replaced();
        let due = self.engine().next_due().min(self.event_loop.frontend.due());
        due.min(self.manager.turns(now))
    }

    fn take(&mut self, event: Event) {
        match event.token {
            WAKEUP => {}
            PREPARED => self.prepared(),
            RETURNING => self.looked(),
            _ => self.command(event),
        }
    }
}

/// A ticket that no client has.
const NOBODY: Ticket = Ticket { connection: u32::MAX, generation: 0, tag: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_lasts_as_long_as_the_devices_do_something() {
        let now = |seconds: u64| Wall(seconds * 1_000_000_000);
        let mut patience = Patience::new(now(0), 5);
        assert!(patience.lasts(now(59), 5) && patience.lasts(now(59), 6));
        assert!(patience.lasts(now(118), 6) && !patience.lasts(now(119), 6));
    }
}

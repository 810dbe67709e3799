//! Serving a mirror: one event loop over a frontend, the devices, and signals.

use std::path::PathBuf;

use mirror::policy::lag::LagRules;
use study::Failure;

use super::engine::Array;
use super::live::Live;
use super::notify::Manager;
use super::open::{self, Start};
use super::prepare::Preparing;
use crate::askers::Askers;
use crate::clock::{Clock, Wall};
use crate::frontend::{Address, Choice, Frontend};
use crate::identity::Identity;
use crate::lab::{Export, Lab};
use crate::order::{Command, Order, Reply, Ticket};
use crate::poll::{Event, Interest, Poll};
use crate::serving::{Crew, FREE, OWN, Serving};
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

const BELL: u64 = FREE;
/// A new medium is ready.
pub(super) const PREPARED: u64 = FREE + 1;
const CONTROL: u64 = FREE + 2;

/// A stop in order that takes longer is given up: what is left is recovered at the next start.
const STOP_NS_MAX: u64 = 60_000_000_000;

pub(super) struct Server<'n> {
    crew: Crew,
    frontend: Box<dyn Frontend<Array>>,
    pub(super) lab: Lab<Array>,
    pub(super) poll: Poll,
    events: Vec<Event>,
    replies: Vec<Reply>,
    pub(super) control: Option<Askers>,
    pub(super) preparing: Option<Preparing>,
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
    let poll = Poll::new()?;
    let crew = Crew::new(&poll)?;
    let (devices, opened) = open::open(&start)?;
    let clock = Clock::start();
    let refused = |why: std::io::Error| Failure::machine(format!("cannot serve: {why}"));
    let identity = identity(devices.array);
    let array = Array::new(devices, opened, lag, clock.now()).map_err(refused)?;
    poll.add(array.bell(), BELL, Interest::READ).map_err(refused)?;
    let export = Export { name: String::new(), identity, read_only: false, engine: array };
    let lab = Lab::new(vec![export], clock);
    let frontend = frontend.build(&lab.exports)?;
    let control = control.map(|path| Askers::new(&path, &poll, CONTROL)).transpose()?;
    let mut server = Server {
        crew,
        frontend,
        lab,
        poll,
        events: Vec::new(),
        replies: Vec::new(),
        control,
        preparing: None,
        manager: Manager::from_environment(),
        note,
        stopping: false,
    };
    let errand = server.frontend.start(&mut server.lab, &server.poll)?;
    let started = server.during(errand)?;
    started.notes.iter().for_each(|text| (server.note)(text));
    ready(&started.address);
    server.manager.ready(server.lab.clock.now());
    let code = server.run(run.as_deref(), &started.address)?;
    server.stop()?;
    let now = server.lab.clock.now();
    Ok(Served { mirror: Live::of(server.array(), now), code: code.unwrap_or(0) })
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
    fn array(&mut self) -> &mut Array {
        &mut self.lab.exports[0].engine
    }

    /// Take what the devices have done and send what is to be sent; returns what is due next.
    fn answer(&mut self) -> Wall {
        let now = self.lab.clock.now();
        let mut replies = std::mem::take(&mut self.replies);
        self.array().advance(now, &mut replies);
        for reply in replies.drain(..) {
            self.frontend.reply(0, reply, &mut self.lab);
        }
        self.replies = replies;
        self.frontend.flush(&mut self.lab, &self.poll);
        for text in self.array().notices() {
            (self.note)(&text);
            self.manager.status(&text);
        }
        let due = self.array().next_due().min(self.frontend.due());
        due.min(self.manager.turns(now))
    }

    /// Let everybody go, make all of it durable on every leg, and say so on the legs.
    fn stop(&mut self) -> Result<(), Failure> {
        self.manager.stopping();
        self.stopping = true;
        let freed = match self.frontend.stop(&self.poll) {
            Some(errand) => self.during(errand),
            None => Ok(()),
        };
        // Clients that are still there are answered, but asked nothing more.
        let poll = std::mem::replace(&mut self.poll, Poll::new()?);
        let watch = self.poll.add(self.lab.exports[0].engine.bell(), BELL, Interest::READ);
        watch.map_err(|why| Failure::machine(format!("cannot wait for the devices: {why}")))?;
        drop(poll);
        let now = self.lab.clock.now();
        let flush = Order { ticket: NOBODY, command: Command::Flush, offset: 0, bytes: 0 };
        let Lab { exports, pool, .. } = &mut self.lab;
        exports[0].engine.submit(now, flush, None, pool);
        self.array().stop();
        let end = now.plus(STOP_NS_MAX);
        while !self.array().over() && self.lab.clock.now() < end && !self.crew.interrupted() {
            let due = self.answer().min(self.lab.clock.now().plus(100_000_000));
            if self.array().over() {
                break;
            }
            self.poll.wait(due.since(self.lab.clock.now()), &mut self.events);
        }
        match (self.array().failed(), self.array().over()) {
            (true, _) => Err(Failure::machine("no leg was left; see above")
                .help("repair the devices and serve again: what was flushed is recovered")),
            (false, false) => Err(Failure::machine("the devices did not let the mirror stop")
                .help("what was flushed is safe; the next start recovers the rest")),
            (false, true) => freed,
        }
    }
}

impl Serving for Server<'_> {
    fn crew(&mut self) -> &mut Crew {
        &mut self.crew
    }

    fn poll(&self) -> &Poll {
        &self.poll
    }

    fn is_over(&self) -> bool {
        self.frontend.is_over()
    }

    fn turn(&mut self) {
        let due = self.answer();
        let sleep_ns = match due {
            Wall::NEVER => u64::MAX,
            due => due.since(self.lab.clock.now()),
        };
        self.poll.wait(sleep_ns, &mut self.events);
        let events = std::mem::take(&mut self.events);
        for &event in &events {
            match event.token {
                0..OWN => self.frontend.ready(event, &mut self.lab, &self.poll),
                BELL => {}
                PREPARED => self.prepared(),
                CONTROL.. => self.asked(event),
                _ => self.crew.take(event),
            }
        }
        self.events = events;
    }
}

/// A ticket that no client has.
const NOBODY: Ticket = Ticket { connection: u32::MAX, generation: 0, tag: 0 };

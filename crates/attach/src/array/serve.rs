//! Serving a mirror: one event loop over a frontend, the threads at the devices, and signals.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use study::Failure;

use super::engine::Array;
use super::open::{self, Start};
use super::status::Live;
use crate::clock::{Clock, Wall};
use crate::engine::{Command, Order, Reply, Ticket};
use crate::frontend::{Address, Choice, Frontend, nbd};
use crate::identity::Identity;
use crate::lab::{Export, Lab};
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
    /// Answer everybody who connects to this Unix socket with [`Live`] as JSON.
    pub control: Option<PathBuf>,
}

const BELL: u64 = FREE;
const CONTROL: u64 = FREE + 1;

/// A stop in order that takes longer is given up: what is left is recovered at the next start.
const STOP_NS_MAX: u64 = 60_000_000_000;

struct Server<'n> {
    crew: Crew,
    frontend: Box<dyn Frontend<Array>>,
    lab: Lab<Array>,
    poll: Poll,
    events: Vec<Event>,
    replies: Vec<Reply>,
    control: Option<Control>,
    note: &'n mut dyn FnMut(&str),
}

/// The socket that tells the status; its name goes with it.
struct Control(UnixListener, PathBuf);

impl Drop for Control {
    fn drop(&mut self) {
        // When it is gone already, all the better.
        let _ = std::fs::remove_file(&self.1);
    }
}

/// Start the mirror and serve it until the program ends or a signal comes; then stop in order.
/// `ready` is called once, when clients may come; `note` is told what the user must know at once.
/// Returns the program's exit code, or 0.
///
/// # Errors
/// When the mirror must not start, the machine lacks something, or it could not stop in order.
pub fn serve(
    options: Options,
    ready: impl FnOnce(&Address),
    note: &mut dyn FnMut(&str),
) -> Result<u8, Failure> {
    let Options { start, frontend, run, control } = options;
    let poll = Poll::new()?;
    let crew = Crew::new(&poll)?;
    let (devices, opened) = open::open(&start)?;
    let clock = Clock::start();
    let refused = |why: std::io::Error| Failure::machine(format!("cannot serve: {why}"));
    let identity = identity(devices.array);
    let array = Array::new(devices, opened, clock.now()).map_err(refused)?;
    poll.add(array.bell(), BELL, Interest::READ).map_err(refused)?;
    let export = Export { name: String::new(), identity, read_only: false, engine: array };
    let lab = Lab::new(vec![export], clock);
    let frontend = frontend.build(&lab.exports)?;
    let control = control.map(|path| listen(&path, &poll)).transpose()?;
    let mut server = Server {
        crew,
        frontend,
        lab,
        poll,
        events: Vec::new(),
        replies: Vec::new(),
        control,
        note,
    };
    let errand = server.frontend.start(&server.lab, &server.poll)?;
    let started = server.during(errand)?;
    started.notes.iter().for_each(|text| (server.note)(text));
    ready(&started.address);
    let code = server.run(run.as_deref(), &started.address)?;
    server.stop()?;
    Ok(code.unwrap_or(0))
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

fn listen(path: &Path, poll: &Poll) -> Result<Control, Failure> {
    let control = Control(nbd::bind(path)?, path.to_path_buf());
    let quiet = control.0.set_nonblocking(true);
    quiet
        .and_then(|()| poll.add(&control.0, CONTROL, Interest::READ))
        .map_err(|why| Failure::machine(format!("cannot listen for questions: {why}")))?;
    Ok(control)
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
        }
        self.array().next_due()
    }

    fn tell_status(&mut self) {
        let now = self.lab.clock.now();
        let live = Live::of(&self.lab.exports[0].engine, now);
        let Some(control) = &self.control else { return };
        while let Ok((mut stream, _)) = control.0.accept() {
            // One line fits into a new socket; whoever does not listen misses it.
            let text = serde_json::to_string(&live).unwrap_or_default();
            let _ = stream
                .set_nonblocking(true)
                .and_then(|()| stream.write_all(format!("{text}\n").as_bytes()));
        }
    }

    /// Let everybody go, make all of it durable on every leg, and say so on the legs.
    fn stop(&mut self) -> Result<(), Failure> {
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
                CONTROL => self.tell_status(),
                _ => self.crew.take(event),
            }
        }
        self.events = events;
    }
}

/// A ticket that no client has.
const NOBODY: Ticket = Ticket { connection: u32::MAX, generation: 0, tag: 0 };

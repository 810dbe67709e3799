//! What every server on the wall clock is: one event loop over a frontend, a control socket, a
//! program that may run beside it, and signals.

use study::Failure;

use crate::beside::Beside;
use crate::captive::{self, Captive};
use crate::clock::Wall;
use crate::control_socket::{ClientId, ControlSocket};
use crate::frontend::{Address, BackgroundTask, Frontend};
use crate::order::Reply;
use crate::poll::{Event, Poll};
use crate::shared_state::SharedState;
use crate::signals::Signals;
use crate::spin::Spin;
use crate::target::Target;

/// Tokens from here on are the server's own, those below are its frontend's.
const OWN: u64 = 1 << 32;
const STOP: u64 = OWN;
const CHILD: u64 = OWN + 1;
const TASK: u64 = OWN + 2;
/// From here on a server chooses.
pub(crate) const FREE: u64 = OWN + 16;

/// The program that a server runs for, and the signals that end it.
pub(crate) struct Supervisor {
    captive: Option<Captive>,
    signals: Signals,
    stopping: bool,
    /// How often a signal asked for the end.
    interrupts: u32,
    /// The program may have ended.
    child_changed: bool,
}

impl Supervisor {
    /// From here on a signal no longer kills us in the middle of something.
    pub(crate) fn new(poll: &Poll) -> Result<Supervisor, Failure> {
        let signals = Signals::new(poll, STOP, CHILD)?;
        let (captive, stopping, interrupts, child_changed) = (None, false, 0, false);
        Ok(Supervisor { captive, signals, stopping, interrupts, child_changed })
    }

    /// Take one of the loop's own events.
    fn take(&mut self, event: Event) {
        match event.token {
            STOP => {
                if self.interrupted() {
                    self.end();
                }
            }
            CHILD => self.child_changed |= self.signals.take_child(),
            _ => debug_assert_eq!(event.token, TASK, "an unknown token"),
        }
    }

    /// Has a signal asked for the end since the last time?
    pub(crate) fn interrupted(&mut self) -> bool {
        let asked = self.signals.take_stop();
        self.interrupts += u32::from(asked);
        asked
    }

    /// End the server. A program that runs is asked first.
    pub(crate) fn end(&mut self) {
        match &mut self.captive {
            Some(captive) => captive.end(),
            None => self.stopping = true,
        }
    }
}

/// What the event loop of every server works on.
pub(crate) struct EventLoop<T: Target> {
    /// Dropped first: its program must not use a device that is going away.
    pub(crate) supervisor: Supervisor,
    pub(crate) frontend: Box<dyn Frontend<T>>,
    pub(crate) shared: SharedState<T>,
    pub(crate) control: Option<ControlSocket>,
    pub(crate) poll: Poll,
    pub(crate) replies: Vec<Reply>,
    events: Vec<Event>,
    /// Polls before something is due, where a reply has a moment to be sent at.
    spin: Option<Spin>,
}

impl<T: Target> EventLoop<T> {
    /// A loop that waits with `poll`; it polls before something is due when there is a `spin`.
    pub(crate) fn new(
        (poll, supervisor): (Poll, Supervisor),
        frontend: Box<dyn Frontend<T>>,
        shared: SharedState<T>,
        control: Option<ControlSocket>,
        spin: Option<Spin>,
    ) -> EventLoop<T> {
        let (replies, events) = (Vec::new(), Vec::new());
        EventLoop { supervisor, frontend, shared, control, poll, replies, events, spin }
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Wall {
        self.shared.clock.now()
    }

    /// Let clients in, and those who have commands.
    pub(crate) fn open(&mut self) {
        self.frontend.open(&self.poll);
        self.control.iter().for_each(|control| control.open(&self.poll));
    }

    /// Wait for events until `due`.
    pub(crate) fn wait(&mut self, due: Wall) {
        let now = self.now();
        let sleep_ns = match (&self.spin, due) {
            (Some(spin), _) => spin.sleep_ns(now, due),
            (None, Wall::NEVER) => u64::MAX,
            (None, due) => due.since(now),
        };
        let slept = self.poll.wait(sleep_ns, &mut self.events);
        if slept && sleep_ns > 0 && sleep_ns != u64::MAX {
            let woken = self.now();
            if let Some(spin) = &mut self.spin {
                spin.learn(now.plus(sleep_ns), woken);
            }
        }
    }

    /// The lines that came with an event of the control socket.
    pub(crate) fn command_lines(&mut self, event: Event) -> Vec<(ClientId, String)> {
        let control = self.control.as_mut();
        control.map_or_else(Vec::new, |control| control.take(event, &self.poll))
    }

    /// Answer a line of the control socket.
    pub(crate) fn answer_line(&mut self, client: ClientId, answer: &str) {
        if let Some(control) = &mut self.control {
            control.answer(client, answer);
        }
    }
}

/// A server: what it does in its event loop.
pub(crate) trait Serving {
    /// What its frontend serves.
    type Target: Target;

    /// Its loop.
    fn event_loop(&mut self) -> &mut EventLoop<Self::Target>;

    /// Send every reply that is due; returns when something is due next.
    fn answer(&mut self) -> Wall;

    /// Take one of its own events, whose tokens begin at [`FREE`].
    fn take(&mut self, event: Event);

    /// Answer what is due, wait for what comes next, and take it.
    fn turn(&mut self) {
        let due = self.answer();
        self.event_loop().wait(due);
        let events = std::mem::take(&mut self.event_loop().events);
        for &event in &events {
            let all = self.event_loop();
            match event.token {
                0..OWN => all.frontend.ready(event, &mut all.shared, &all.poll),
                FREE.. => self.take(event),
                _ => all.supervisor.take(event),
            }
        }
        self.event_loop().events = events;
    }

    /// Start the frontend.
    fn start(&mut self) -> Result<crate::frontend::Started, Failure> {
        let all = self.event_loop();
        let task = all.frontend.start(&mut all.shared, &all.poll)?;
        self.during(task)
    }

    /// Close the frontend to new clients, and serve until those that are there have gone.
    fn stop_frontend(&mut self) -> Result<(), Failure> {
        let all = self.event_loop();
        match all.frontend.stop(&all.poll) {
            Some(task) => self.during(task),
            None => Ok(()),
        }
    }

    /// Serve until the task is done, or a signal interrupts it.
    fn during<R: Send + 'static>(&mut self, task: BackgroundTask<R>) -> Result<R, Failure> {
        let helper = Beside::begin((&self.event_loop().poll, TASK), "background", task)?;
        let before = self.event_loop().supervisor.interrupts;
        while !helper.is_finished() && self.event_loop().supervisor.interrupts == before {
            self.turn();
        }
        if !helper.is_finished() {
            // Its requests are answered no longer, so it ends.
            return Err(Failure::interrupted());
        }
        helper.end(&self.event_loop().poll, "a helper thread")
    }

    /// Serve until the program ends, or a signal or command asks for the end; the program's exit
    /// code.
    fn run(&mut self, run: Option<&str>, address: &Address) -> Result<Option<u8>, Failure> {
        if let Some(command) = run {
            let supervisor = &mut self.event_loop().supervisor;
            supervisor.captive = Some(Captive::start(command, address)?);
            supervisor.child_changed = true;
        }
        let mut code = None;
        while !self.event_loop().supervisor.stopping && !self.is_over() {
            self.turn();
            let supervisor = &mut self.event_loop().supervisor;
            if std::mem::take(&mut supervisor.child_changed)
                && let Some(status) = supervisor.captive.as_mut().and_then(Captive::ended)
            {
                code = Some(captive::exit_code(status));
                break;
            }
        }
        // One that is in the middle of I/O ends only when that is answered.
        while !self.is_over()
            && let Some(captive) = &mut self.event_loop().supervisor.captive
        {
            captive.kill();
            if captive.ended().is_some() {
                break;
            }
            self.turn();
        }
        self.event_loop().supervisor.captive = None;
        Ok(code)
    }

    /// The frontend's other side is gone and cannot come back.
    fn is_over(&mut self) -> bool {
        self.event_loop().frontend.is_over()
    }
}

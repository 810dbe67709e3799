//! What every server is: one event loop, a program that may run beside it, and signals.

use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use study::Failure;

use crate::captive::{self, Captive};
use crate::frontend::{Address, Errand};
use crate::poll::{Event, Interest, Poll};
use crate::session::signals::Signals;

/// Tokens from here on are the server's own, those below are its frontend's.
pub(crate) const OWN: u64 = 1 << 32;
const STOP: u64 = OWN;
const CHILD: u64 = OWN + 1;
const ERRAND: u64 = OWN + 2;
/// From here on a server chooses.
pub(crate) const FREE: u64 = OWN + 16;

/// The program that a server runs for, and the signals that end it.
pub(crate) struct Crew {
    captive: Option<Captive>,
    signals: Signals,
    stopping: bool,
    /// How often a signal asked for the end.
    interrupts: u32,
    /// The program may have ended.
    child_changed: bool,
}

impl Crew {
    /// From here on a signal no longer kills us in the middle of something.
    pub(crate) fn new(poll: &Poll) -> Result<Crew, Failure> {
        let signals = Signals::new(poll, STOP, CHILD)?;
        let (captive, stopping, interrupts, child_changed) = (None, false, 0, false);
        Ok(Crew { captive, signals, stopping, interrupts, child_changed })
    }

    /// Take one of the loop's own events.
    pub(crate) fn take(&mut self, event: Event) {
        match event.token {
            STOP => {
                if self.interrupted() {
                    self.end();
                }
            }
            CHILD => self.child_changed |= self.signals.take_child(),
            _ => debug_assert_eq!(event.token, ERRAND, "whose is it?"),
        }
    }

    /// Has a signal asked for the end since the last time?
    pub(crate) fn interrupted(&mut self) -> bool {
        let asked = self.signals.take_stop();
        self.interrupts += u32::from(asked);
        asked
    }

    /// Somebody wants the end. A program that runs is asked first.
    pub(crate) fn end(&mut self) {
        match &mut self.captive {
            Some(captive) => captive.end(),
            None => self.stopping = true,
        }
    }
}

/// A server: the rest of its loop.
pub(crate) trait Serving {
    /// Its crew. Where it is kept, it is dropped first: nobody may use a device that goes.
    fn crew(&mut self) -> &mut Crew;

    /// What it waits with.
    fn poll(&self) -> &Poll;

    /// The other side is gone for good.
    fn is_over(&self) -> bool;

    /// Answer what is due, wait for what comes next, and take it.
    fn turn(&mut self);

    /// Serve until the errand is done, or somebody loses patience.
    fn during<T: Send + 'static>(&mut self, errand: Errand<T>) -> Result<T, Failure> {
        let impossible = |why: std::io::Error| Failure::machine(format!("no helper: {why}"));
        let (bell, rings) = UnixStream::pair().map_err(impossible)?;
        self.poll().add(&rings, ERRAND, Interest::READ).map_err(impossible)?;
        let helper: JoinHandle<Result<T, Failure>> = std::thread::Builder::new()
            .name("errand".into())
            .spawn(move || {
                // Dropped at the end, come what may: that is what rings.
                let _bell = bell;
                errand()
            })
            .map_err(impossible)?;
        let before = self.crew().interrupts;
        while !helper.is_finished() && self.crew().interrupts == before {
            self.turn();
        }
        self.poll().remove(&rings);
        if !helper.is_finished() {
            // It sees that nobody answers any more, and ends.
            return Err(Failure::machine("interrupted"));
        }
        helper.join().unwrap_or_else(|_| Err(Failure::bug("a helper thread panicked")))
    }

    /// Serve until the program ends or somebody says so; the program's exit code.
    fn run(&mut self, run: Option<&str>, address: &Address) -> Result<Option<u8>, Failure> {
        if let Some(command) = run {
            self.crew().captive = Some(Captive::start(command, address)?);
            self.crew().child_changed = true;
        }
        let mut code = None;
        while !self.crew().stopping && !self.is_over() {
            self.turn();
            let crew = self.crew();
            if std::mem::take(&mut crew.child_changed)
                && let Some(status) = crew.captive.as_mut().and_then(Captive::ended)
            {
                code = Some(captive::exit_code(status));
                break;
            }
        }
        // One that is in the middle of I/O ends only when that is answered.
        while !self.is_over()
            && let Some(captive) = &mut self.crew().captive
        {
            captive.kill();
            if captive.ended().is_some() {
                break;
            }
            self.turn();
        }
        self.crew().captive = None;
        Ok(code)
    }
}

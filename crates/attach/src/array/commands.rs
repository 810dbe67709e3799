//! The control socket of a served mirror.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use mirror::format::Geometry;
use study::Failure;

use super::live::Live;
use super::prepare::{self, Preparing, Wanted};
use super::request::{self, Answer, Request};
use super::serve::{PREPARED, Server};
use crate::askers::Who;
use crate::poll::{Event, Interest};

impl Server<'_> {
    /// Something happened on the control socket.
    pub(super) fn asked(&mut self, event: Event) {
        let Some(control) = &mut self.control else { return };
        for (who, line) in control.take(event, &self.poll) {
            let request = serde_json::from_str(&line).map_err(|why| {
                Failure::input(format!("`{line}` is no request: {why}"))
                    .expected("one line of JSON, as `blocklab mirror` sends it")
            });
            let answer = request.and_then(|request| self.obey(who, request));
            if let Some(answer) = answer.unwrap_or_else(|why| Some(Answer::refused(&why))) {
                self.tell(who, &answer);
            }
        }
    }

    fn tell(&mut self, who: Who, answer: &Answer) {
        let text = serde_json::to_string(answer).unwrap_or_default();
        if let Some(control) = &mut self.control {
            control.say(who, &text);
        }
    }

    /// `None` when the answer comes later.
    fn obey(&mut self, who: Who, request: Request) -> Result<Option<Answer>, Failure> {
        let now = self.lab.clock.now();
        if self.stopping && request != (Request::Status {}) {
            return Err(Failure::input("the mirror is being stopped"));
        }
        let array = &mut self.lab.exports[0].engine;
        let (text, number) = match request {
            Request::Status {} => {
                return Ok(Some(Answer::Status(Box::new(Live::of(array, now)))));
            }
            Request::Scrub {} => {
                let number = array.scrub()?;
                (format!("scrub {number} compares both legs"), number)
            }
            Request::Resync { device } => (array.resync(request::slot(&device)?)?, 0),
            Request::SetMode { mode } => (array.set_mode(request::mode(&mode)?)?, 0),
            Request::Replace { device, with, overwrite } => {
                self.prepare(who, request::slot(&device)?, with, overwrite)?;
                return Ok(None);
            }
        };
        Ok(Some(Answer::Done { text, number }))
    }

    /// Look at a new medium, beside the event loop.
    fn prepare(
        &mut self,
        who: Who,
        slot: usize,
        path: PathBuf,
        overwrite: bool,
    ) -> Result<(), Failure> {
        if self.preparing.is_some() {
            return Err(Failure::input("another device is being prepared").help("try again later"));
        }
        let array = &mut self.lab.exports[0].engine;
        array.may_replace(slot, &path)?;
        let geometry: Geometry = array.geometry();
        let old = array.core.superblock(slot).map(|own| own.identity);
        let wanted = Wanted { array: array.id(), slot, geometry, old };
        let impossible = |why: std::io::Error| Failure::machine(format!("no helper: {why}"));
        let (bell, rings) = UnixStream::pair().map_err(impossible)?;
        self.poll.add(&rings, PREPARED, Interest::READ).map_err(impossible)?;
        let helper = std::thread::Builder::new().name("prepare".into()).spawn(move || {
            // Dropped at the end, come what may: that is what rings.
            let _bell = bell;
            prepare::prepare(&path, &wanted, overwrite)
        });
        self.preparing = Some(Preparing { who, slot, rings, helper: helper.map_err(impossible)? });
        Ok(())
    }

    /// The new medium is ready, or is not one.
    pub(super) fn prepared(&mut self) {
        let Some(Preparing { who, slot, rings, helper }) = self.preparing.take() else { return };
        self.poll.remove(&rings);
        let device =
            helper.join().unwrap_or_else(|_| Err(Failure::bug("a helper thread panicked")));
        let done = device.and_then(|device| self.lab.exports[0].engine.replace(slot, device));
        let answer = match done {
            Ok(text) => Answer::Done { text, number: 0 },
            Err(failure) => Answer::refused(&failure),
        };
        self.tell(who, &answer);
    }
}

//! The control socket of a served mirror.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use mirror::format::Geometry;
use study::Failure;

use super::live::Live;
use super::prepare::{self, Preparing, Replaced, Wanted};
use super::request::{self, Answer, Request};
use super::serve::{PREPARED, Server};
use crate::control_socket::ClientId;
use crate::poll::{Event, Interest};

impl Server<'_> {
    /// Something happened on the control socket.
    pub(super) fn command(&mut self, event: Event) {
        for (client, line) in self.event_loop.command_lines(event) {
            let request = serde_json::from_str(&line).map_err(|why| {
                Failure::input(format!("`{line}` is no request: {why}"))
                    .expected("one line of JSON, as `blocklab mirror` sends it")
            });
            let answer = request.and_then(|request| self.obey(client, request));
            if let Some(answer) = answer.unwrap_or_else(|why| Some(Answer::refused(&why))) {
                self.tell(client, &answer);
            }
        }
    }

    fn tell(&mut self, client: ClientId, answer: &Answer) {
        let text = serde_json::to_string(answer).unwrap_or_default();
        self.event_loop.answer_line(client, &text);
    }

    /// `None` when the answer comes later.
    fn obey(&mut self, client: ClientId, request: Request) -> Result<Option<Answer>, Failure> {
        let now = self.event_loop.now();
        if self.stopping && request != (Request::Status {}) {
            return Err(Failure::input("the mirror is being stopped"));
        }
        let array = self.engine();
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
                self.prepare(client, request::slot(&device)?, with, overwrite)?;
                return Ok(None);
            }
        };
        Ok(Some(Answer::Done { text, number }))
    }

    /// Look at a new medium, beside the event loop.
    fn prepare(
        &mut self,
        client: ClientId,
        slot: usize,
        path: PathBuf,
        overwrite: bool,
    ) -> Result<(), Failure> {
        if self.preparing.is_some() || self.replaced.is_some() {
            return Err(Failure::input("another device is being prepared").help("try again later"));
        }
        let array = self.engine();
        array.may_replace(slot, &path)?;
        let geometry: Geometry = array.geometry();
        let old = array.core.superblock(slot).map(|own| own.identity);
        let wanted = Wanted { array: array.id(), slot, geometry, old };
        let impossible = |why: std::io::Error| Failure::machine(format!("no helper: {why}"));
        let (held, closed) = UnixStream::pair().map_err(impossible)?;
        self.event_loop.poll.add(&closed, PREPARED, Interest::READ).map_err(impossible)?;
        let helper = std::thread::Builder::new().name("prepare".into()).spawn(move || {
            // Dropped at the end, even of a panic: its closing is the event.
            let _held = held;
            prepare::prepare(&path, &wanted, overwrite)
        });
        self.preparing =
            Some(Preparing { client, slot, closed, helper: helper.map_err(impossible)? });
        Ok(())
    }

    /// The new medium is ready, or is not one.
    pub(super) fn prepared(&mut self) {
        let Some(Preparing { client, slot, closed, helper }) = self.preparing.take() else {
            return;
        };
        self.event_loop.poll.remove(&closed);
        let device =
            helper.join().unwrap_or_else(|_| Err(Failure::bug("a helper thread panicked")));
        let done = device.and_then(|device| self.engine().replace(slot, device));
        match done {
            Ok(text) => self.replaced = Some(Replaced { client, slot, text }),
            Err(failure) => self.tell(client, &Answer::refused(&failure)),
        }
    }

    /// Tell who replaced a device, once a start no longer believes the old one.
    pub(super) fn answer_replaced(&mut self) {
        let Some(slot) = self.replaced.as_ref().map(|replaced| replaced.slot) else { return };
        if self.engine().leaves(slot) {
            return;
        }
        if let Some(Replaced { client, text, .. }) = self.replaced.take() {
            self.tell(client, &Answer::Done { text, number: 0 });
        }
    }
}

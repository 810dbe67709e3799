//! The control socket of a served mirror.

use std::path::PathBuf;

use mirror::Slot;
use mirror::format::Geometry;
use study::Failure;

use super::live::Live;
use super::operate::Resync;
use super::prepare::{self, Preparing, Replaced, Wanted};
use super::request::{self, Answer, Request};
use super::serve::{PREPARED, RETURNING, Server};
use crate::control_socket::ClientId;
use crate::poll::Event;

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
            Request::Resync { device } => {
                let text = self.resync(client, request::slot(&device)?)?;
                return Ok(text.map(|text| Answer::Done { text, number: 0 }));
            }
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
        let poll = (&self.event_loop.poll, PREPARED);
        self.preparing = Some(Preparing::begin((client, slot), poll, move || {
            prepare::prepare(&path, &wanted, overwrite)
        })?);
        Ok(())
    }

    /// The new medium is ready, or is not one.
    pub(super) fn prepared(&mut self) {
        let Some(preparing) = self.preparing.take() else { return };
        let (client, slot, device) = preparing.end(&self.event_loop.poll);
        let done = device.and_then(|device| self.engine().replace(slot, device));
        match done {
            Ok(text) => self.replaced = Some(Replaced { client, slot, text }),
            Err(failure) => self.tell(client, &Answer::refused(&failure)),
        }
    }

    /// Look at a device that was left out, beside the event loop: it may hang still. What there is
    /// to say if there is nothing to look at.
    fn resync(&mut self, client: ClientId, slot: Slot) -> Result<Option<String>, Failure> {
        if self.returning.is_some() {
            return Err(Failure::input("a device is being taken back").help("try again later"));
        }
        let left_out = match self.engine().may_resync(slot)? {
            Resync::Needless(text) => return Ok(Some(text)),
            Resync::Look(left_out) => left_out,
        };
        let poll = (&self.event_loop.poll, RETURNING);
        self.returning = Some(Preparing::begin((client, slot), poll, move || left_out.open())?);
        Ok(None)
    }

    /// It is as it was left, or it is not.
    pub(super) fn looked(&mut self) {
        let Some(returning) = self.returning.take() else { return };
        let (client, slot, device) = returning.end(&self.event_loop.poll);
        let done = device.and_then(|device| self.engine().take_back(slot, device));
        let answer = match done {
            Ok(text) => Answer::Done { text, number: 0 },
            Err(failure) => Answer::refused(&failure),
        };
        self.tell(client, &answer);
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

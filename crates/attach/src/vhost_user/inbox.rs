//! Messages and the descriptors that come with them, off a socket that never blocks.

use std::collections::VecDeque;
use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use super::message::{HEADER_BYTES, Header, Malformed, Message, PAYLOAD_BYTES_MAX, REGIONS_MAX};

/// Descriptors that wait for their message.
const FILES_MAX: usize = 4 * REGIONS_MAX;

/// What has come in and was not taken yet.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    filled: usize,
    files: VecDeque<File>,
}

/// How reading went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filled {
    /// Something came.
    More,
    /// Nothing is there.
    Nothing,
    /// The other side is gone.
    End,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox {
            bytes: vec![0; HEADER_BYTES + PAYLOAD_BYTES_MAX],
            filled: 0,
            files: VecDeque::new(),
        }
    }

    /// Read once.
    ///
    /// # Errors
    /// When far too many descriptors came, or the socket fails.
    pub(crate) fn fill(&mut self, socket: impl AsFd) -> Result<Filled, Malformed> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REGIONS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut room = [IoSliceMut::new(&mut self.bytes[self.filled..])];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = match recvmsg(socket, &mut room, &mut control, flags) {
            Ok(received) => received,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(Filled::Nothing),
            Err(rustix::io::Errno::CONNRESET) => return Ok(Filled::End),
            Err(why) => return Err(Malformed(format!("the connection: {why}"))),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.files.extend(descriptors.map(File::from));
            }
        }
        if self.files.len() > FILES_MAX || received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Malformed("descriptors that belong to no message".into()));
        }
        self.filled += received.bytes;
        match received.bytes {
            0 => Ok(Filled::End),
            _ => Ok(Filled::More),
        }
    }

    /// The next whole message, with its descriptors.
    ///
    /// # Errors
    /// When it breaks the protocol.
    pub(crate) fn next(&mut self) -> Result<Option<(Header, Message, Vec<File>)>, Malformed> {
        let Some(head) = self.bytes[..self.filled].first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = Header::parse(head)?;
        let end = HEADER_BYTES + header.payload_bytes;
        if end > self.filled {
            return Ok(None);
        }
        let message = Message::parse(&header, &self.bytes[HEADER_BYTES..end])?;
        self.bytes.copy_within(end..self.filled, 0);
        self.filled -= end;
        let wanted = message.descriptors();
        if wanted > self.files.len() {
            let what = format!("message {} came without its descriptors", header.request);
            return Err(Malformed(what));
        }
        Ok(Some((header, message, self.files.drain(..wanted).collect())))
    }
}

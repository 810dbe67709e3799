//! One connection of the protocol, sans I/O: bytes in, requests out, replies in, bytes out.

use crate::order::Refusal;
use crate::store::Extent;

use super::handshake::{Agreement, ExportInfo, Handshake, Progress};
use super::wire::{self, be16, be32, be64, chunk, command, command_flag, errno};

/// What a client asked for after the negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Read.
    Read,
    /// Write; [`Parsed::Payload`] follows until its data is complete.
    Write,
    /// Flush.
    Flush,
    /// Trim.
    Trim,
    /// Write zeroes.
    WriteZeroes,
    /// Block status.
    BlockStatus,
}

/// A request's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What.
    pub ask: Ask,
    /// Durable at the reply.
    pub fua: bool,
    /// Zeroes must take room.
    pub no_hole: bool,
    /// At most one extent of block status.
    pub one_extent: bool,
    /// The client's name for it.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u32,
}

/// What became of some input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// Nothing can be said before more bytes are there.
    Need,
    /// So many bytes were used; there may be something to send.
    Used(usize),
    /// So many bytes were used, and the transmission begins.
    Agreed(usize),
    /// So many bytes were used, and this is to be done.
    Request(usize, Request),
    /// The first so many bytes of the input belong to the write asked for last; with them it is
    /// complete or not.
    Payload {
        /// How many.
        bytes: usize,
        /// Nothing is missing now.
        complete: bool,
    },
    /// The connection ends.
    Over,
}

#[derive(Debug)]
enum State {
    Handshake(Handshake),
    Ready,
    /// A write's data.
    Payload {
        left: u32,
    },
    /// The data of a write that is refused.
    Refused {
        cookie: u64,
        error: u32,
        left: u32,
    },
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct Machine {
    state: State,
    agreement: Agreement,
}

impl Machine {
    /// Begin: the greeting goes to `out`.
    pub fn new(out: &mut Vec<u8>) -> Machine {
        Machine { state: State::Handshake(Handshake::new(out)), agreement: Agreement::default() }
    }

    /// What was agreed on; of no meaning before [`Parsed::Agreed`].
    pub fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// While there is no place for another client, nobody comes to an agreement.
    pub fn set_full(&mut self, full: bool) {
        if let State::Handshake(handshake) = &mut self.state {
            handshake.full = full;
        }
    }

    /// True when the negotiation is over.
    pub fn agreed(&self) -> bool {
        !matches!(self.state, State::Handshake(_))
    }

    /// Look at the beginning of `input`. What is answered at once goes to `out`.
    pub fn step(&mut self, input: &[u8], exports: &[ExportInfo], out: &mut Vec<u8>) -> Parsed {
        match &mut self.state {
            State::Handshake(handshake) => match handshake.step(input, exports, out) {
                Progress::Need => Parsed::Need,
                Progress::Used(bytes) => Parsed::Used(bytes),
                Progress::Agreed(bytes, agreement) => {
                    self.agreement = agreement;
                    self.state = State::Ready;
                    Parsed::Agreed(bytes)
                }
                Progress::Over => Parsed::Over,
            },
            State::Ready => self.request(input, exports, out),
            State::Payload { .. } | State::Refused { .. } if input.is_empty() => Parsed::Need,
            State::Payload { left } => {
                let bytes = (*left).min(input.len() as u32);
                *left -= bytes;
                let complete = *left == 0;
                if complete {
                    self.state = State::Ready;
                }
                Parsed::Payload { bytes: bytes as usize, complete }
            }
            &mut State::Refused { cookie, error, left } => {
                let bytes = left.min(input.len() as u32);
                self.state = State::Refused { cookie, error, left: left - bytes };
                if bytes == left {
                    self.state = State::Ready;
                    self.error(cookie, error, out);
                }
                Parsed::Used(bytes as usize)
            }
        }
    }

    fn request(&mut self, input: &[u8], exports: &[ExportInfo], out: &mut Vec<u8>) -> Parsed {
        if input.len() < wire::REQUEST_BYTES {
            return Parsed::Need;
        }
        if be32(input, 0) != wire::REQUEST_MAGIC {
            return Parsed::Over;
        }
        let (flags, kind) = (be16(input, 4), be16(input, 6));
        let (cookie, offset, bytes) = (be64(input, 8), be64(input, 16), be32(input, 24));
        let ask = match kind {
            command::READ => Ask::Read,
            command::WRITE => Ask::Write,
            command::DISCONNECT => return Parsed::Over,
            command::FLUSH => Ask::Flush,
            command::TRIM => Ask::Trim,
            command::WRITE_ZEROES => Ask::WriteZeroes,
            command::BLOCK_STATUS => Ask::BlockStatus,
            // Resize, cache and whatever comes: none of them has a payload.
            _ => {
                self.error(cookie, errno::INVALID, out);
                return Parsed::Used(wire::REQUEST_BYTES);
            }
        };
        let request = Request {
            ask,
            fua: flags & command_flag::FUA != 0,
            no_hole: flags & command_flag::NO_HOLE != 0,
            one_extent: flags & command_flag::REQ_ONE != 0,
            cookie,
            offset,
            bytes: if ask == Ask::Flush { 0 } else { bytes },
        };
        match self.refusal(&request, flags, &exports[self.agreement.export]) {
            Some(error) if ask == Ask::Write && bytes > 0 => {
                self.state = State::Refused { cookie, error, left: bytes };
                Parsed::Used(wire::REQUEST_BYTES)
            }
            Some(error) => {
                self.error(cookie, error, out);
                Parsed::Used(wire::REQUEST_BYTES)
            }
            None => {
                if ask == Ask::Write {
                    self.state = State::Payload { left: bytes };
                }
                Parsed::Request(wire::REQUEST_BYTES, request)
            }
        }
    }

    /// Why a request cannot be done, as the protocol numbers it.
    fn refusal(&self, request: &Request, flags: u16, export: &ExportInfo) -> Option<u32> {
        use command_flag::{DF, FUA, NO_HOLE, REQ_ONE};
        let allowed = match request.ask {
            Ask::Read if self.agreement.structured => DF | FUA,
            Ask::WriteZeroes => FUA | NO_HOLE,
            Ask::BlockStatus => REQ_ONE | FUA,
            Ask::Read | Ask::Write | Ask::Flush | Ask::Trim => FUA,
        };
        let writes = matches!(request.ask, Ask::Write | Ask::Trim | Ask::WriteZeroes);
        let moves = matches!(request.ask, Ask::Read | Ask::Write);
        let end = request.offset.checked_add(u64::from(request.bytes));
        let beyond = end.is_none_or(|end| end > export.bytes);
        let unasked = match request.ask {
            Ask::BlockStatus => !self.agreement.block_status,
            Ask::Trim => !export.discard,
            _ => false,
        };
        if flags & !allowed != 0 || unasked {
            return Some(errno::INVALID);
        }
        if writes && export.read_only {
            return Some(errno::PERM);
        }
        if moves && request.bytes > wire::PAYLOAD_MAX {
            return Some(errno::OVERFLOW);
        }
        if request.bytes == 0 && request.ask != Ask::Flush {
            return Some(errno::INVALID);
        }
        match (request.ask, beyond) {
            (Ask::Flush, _) | (_, false) => None,
            (Ask::Write | Ask::WriteZeroes, true) => Some(errno::NO_SPACE),
            (_, true) => Some(errno::INVALID),
        }
    }

    /// The data of a write that was asked for is not wanted: it failed before it came.
    pub fn refuse_payload(&mut self, request: &Request, why: Refusal) {
        let (cookie, left) = (request.cookie, request.bytes);
        self.state = State::Refused { cookie, error: number(why), left };
    }

    /// The reply to anything but a read that succeeded.
    pub fn done(&self, cookie: u64, result: Result<(), Refusal>, out: &mut Vec<u8>) {
        match result {
            Err(why) => self.error(cookie, number(why), out),
            Ok(()) if self.agreement.structured => {
                chunk_header(cookie, chunk::NONE, 0, out);
            }
            Ok(()) => simple_header(cookie, 0, out),
        }
    }

    /// What goes before the `bytes` of data of a read that succeeded.
    pub fn before_data(&self, cookie: u64, offset: u64, bytes: u32, out: &mut Vec<u8>) {
        if self.agreement.structured {
            chunk_header(cookie, chunk::OFFSET_DATA, 8 + bytes, out);
            out.extend(offset.to_be_bytes());
        } else {
            simple_header(cookie, 0, out);
        }
    }

    /// The reply to a question for block status.
    pub fn block_status(&self, cookie: u64, extents: &[Extent], out: &mut Vec<u8>) {
        chunk_header(cookie, chunk::BLOCK_STATUS, 4 + 8 * extents.len() as u32, out);
        out.extend(wire::ALLOCATION_ID.to_be_bytes());
        for extent in extents {
            out.extend((extent.bytes as u32).to_be_bytes());
            let state = if extent.hole { wire::HOLE_AND_ZERO } else { 0 };
            out.extend(state.to_be_bytes());
        }
    }

    fn error(&self, cookie: u64, error: u32, out: &mut Vec<u8>) {
        if self.agreement.structured {
            chunk_header(cookie, chunk::ERROR, 6, out);
            out.extend(error.to_be_bytes());
            out.extend(0u16.to_be_bytes());
        } else {
            simple_header(cookie, error, out);
        }
    }
}

fn number(why: Refusal) -> u32 {
    match why {
        Refusal::Io => errno::IO,
        Refusal::BeyondEnd => errno::INVALID,
        Refusal::NoSpace => errno::NO_SPACE,
    }
}

/// Every reply of ours is one chunk.
fn chunk_header(cookie: u64, kind: u16, bytes: u32, out: &mut Vec<u8>) {
    out.extend(wire::CHUNK_MAGIC.to_be_bytes());
    out.extend(chunk::DONE.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(bytes.to_be_bytes());
}

fn simple_header(cookie: u64, error: u32, out: &mut Vec<u8>) {
    out.extend(wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend(error.to_be_bytes());
    out.extend(cookie.to_be_bytes());
}

//! Fixed newstyle negotiation, sans I/O.

use super::wire::{self, answer, be16, be32, be64, flag, info, option};

/// What negotiation says about one export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportInfo {
    /// The client's name for it.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Smallest request, to which all are aligned: a power of two from 512 on.
    pub minimum: u32,
    /// Preferred size of requests: a power of two from the smallest on.
    pub preferred: u32,
    /// Longest request that clients are asked to send.
    pub maximum: u32,
    /// Discards are understood.
    pub discard: bool,
    /// A rotating medium.
    pub rotational: bool,
    /// Writes are refused.
    pub read_only: bool,
}

impl ExportInfo {
    /// The transmission flags.
    fn flags(&self, structured: bool) -> u16 {
        let when = |on: bool, flag: u16| if on { flag } else { 0 };
        flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::SEND_WRITE_ZEROES
            // All connections share one device: a flush on one covers the others.
            | flag::CAN_MULTI_CONN
            | when(self.discard, flag::SEND_TRIM)
            | when(self.rotational, flag::ROTATIONAL)
            | when(self.read_only, flag::READ_ONLY)
            | when(structured, flag::SEND_DF)
    }
}

/// What the two sides agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Agreement {
    /// Which export.
    pub export: usize,
    /// Replies come as chunks.
    pub structured: bool,
    /// Block status may be asked for.
    pub block_status: bool,
}

/// What became of some input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Nothing can be said before more bytes are there.
    Need,
    /// So many bytes were used.
    Used(usize),
    /// So many bytes were used, and the transmission begins.
    Agreed(usize, Agreement),
    /// The client went away in good order, or made no sense.
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    ClientFlags,
    Options,
    /// The rest of an option that was too long.
    Skip {
        option: u32,
        left: u32,
    },
}

/// The server's side of the negotiation.
#[derive(Debug)]
pub(crate) struct Handshake {
    state: State,
    no_zeroes: bool,
    structured: bool,
    /// There is no place left for another client.
    pub(crate) full: bool,
    /// The export whose block status was chosen.
    context_of: Option<usize>,
}

impl Handshake {
    /// Begin: the greeting goes to `out`.
    pub(crate) fn new(out: &mut Vec<u8>) -> Handshake {
        out.extend(wire::NBDMAGIC.to_be_bytes());
        out.extend(wire::IHAVEOPT.to_be_bytes());
        out.extend((wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes());
        Handshake {
            state: State::ClientFlags,
            no_zeroes: false,
            structured: false,
            full: false,
            context_of: None,
        }
    }

    /// Take the next step of the negotiation; answers go to `out`.
    pub(crate) fn step(
        &mut self,
        input: &[u8],
        exports: &[ExportInfo],
        out: &mut Vec<u8>,
    ) -> Progress {
        match self.state {
            State::ClientFlags if input.len() < 4 => Progress::Need,
            State::ClientFlags => {
                let flags = be32(input, 0);
                let known = u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES);
                if flags & !known != 0 {
                    return Progress::Over;
                }
                self.no_zeroes = flags & u32::from(wire::NO_ZEROES) != 0;
                self.state = State::Options;
                Progress::Used(4)
            }
            State::Skip { .. } if input.is_empty() => Progress::Need,
            State::Skip { option, left } => {
                let used = left.min(input.len() as u32);
                self.state = State::Skip { option, left: left - used };
                if used == left {
                    reply(out, option, answer::TOO_BIG, b"the option is too long");
                    self.state = State::Options;
                }
                Progress::Used(used as usize)
            }
            State::Options => self.option(input, exports, out),
        }
    }

    fn option(&mut self, input: &[u8], exports: &[ExportInfo], out: &mut Vec<u8>) -> Progress {
        if input.len() < 16 {
            return Progress::Need;
        }
        if be64(input, 0) != wire::IHAVEOPT {
            return Progress::Over;
        }
        let (option, length) = (be32(input, 8), be32(input, 12));
        if length > wire::OPTION_BYTES_MAX {
            if option == option::EXPORT_NAME {
                // This option has no way to say no.
                return Progress::Over;
            }
            self.state = State::Skip { option, left: length };
            return Progress::Used(16);
        }
        let used = 16 + length as usize;
        let Some(data) = input.get(16..used) else { return Progress::Need };
        match option {
            // This option has no way to say why.
            option::EXPORT_NAME if self.full => Progress::Over,
            option::GO if self.full => {
                reply(out, option, answer::POLICY, wire::FULL);
                Progress::Used(used)
            }
            option::EXPORT_NAME => match self.export_name(data, exports, out) {
                Some(agreement) => Progress::Agreed(used, agreement),
                None => Progress::Over,
            },
            option::ABORT => {
                reply(out, option, answer::ACK, b"");
                Progress::Over
            }
            option::GO | option::INFO => match self.info(option, data, exports, out) {
                Some(agreement) if option == option::GO => Progress::Agreed(used, agreement),
                _ => Progress::Used(used),
            },
            option::LIST => {
                list(data, exports, out);
                Progress::Used(used)
            }
            option::STRUCTURED_REPLY => {
                match data {
                    [] => {
                        self.structured = true;
                        reply(out, option, answer::ACK, b"");
                    }
                    _ => reply(out, option, answer::INVALID, b"this option has no data"),
                }
                Progress::Used(used)
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_context(option, data, exports, out);
                Progress::Used(used)
            }
            _ => {
                reply(out, option, answer::UNSUPPORTED, b"");
                Progress::Used(used)
            }
        }
    }

    fn agreement(&self, export: usize) -> Agreement {
        let block_status = self.structured && self.context_of == Some(export);
        Agreement { export, structured: self.structured, block_status }
    }

    /// The old way: the answer is the size, or the end of the connection.
    fn export_name(
        &self,
        name: &[u8],
        exports: &[ExportInfo],
        out: &mut Vec<u8>,
    ) -> Option<Agreement> {
        let export = find(name, exports)?;
        out.extend(exports[export].bytes.to_be_bytes());
        out.extend(exports[export].flags(self.structured).to_be_bytes());
        if !self.no_zeroes {
            out.extend([0; 124]);
        }
        Some(self.agreement(export))
    }

    fn info(
        &self,
        option: u32,
        data: &[u8],
        exports: &[ExportInfo],
        out: &mut Vec<u8>,
    ) -> Option<Agreement> {
        let Some((name, wanted)) = name_and_rest(data).filter(|(_, rest)| valid_list(rest)) else {
            reply(out, option, answer::INVALID, b"the option does not hold what it claims");
            return None;
        };
        let Some(index) = find(name, exports) else {
            reply(out, option, answer::UNKNOWN, b"there is no export of that name");
            return None;
        };
        let export = &exports[index];
        let wants = |kind: u16| wanted[2..].chunks_exact(2).any(|pair| be16(pair, 0) == kind);
        let mut item = info::EXPORT.to_be_bytes().to_vec();
        item.extend(export.bytes.to_be_bytes());
        item.extend(export.flags(self.structured).to_be_bytes());
        reply(out, option, answer::INFO, &item);
        let mut item = info::BLOCK_SIZE.to_be_bytes().to_vec();
        for size in [export.minimum, export.preferred, export.maximum] {
            item.extend(size.to_be_bytes());
        }
        reply(out, option, answer::INFO, &item);
        for (kind, text) in [(info::NAME, &export.name), (info::DESCRIPTION, &export.description)] {
            if wants(kind) {
                let mut item = kind.to_be_bytes().to_vec();
                item.extend(text.as_bytes());
                reply(out, option, answer::INFO, &item);
            }
        }
        reply(out, option, answer::ACK, b"");
        Some(self.agreement(index))
    }

    fn meta_context(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &[ExportInfo],
        out: &mut Vec<u8>,
    ) {
        let set = option == option::SET_META_CONTEXT;
        if set {
            // Whatever was chosen before is void, even when this fails.
            self.context_of = None;
        }
        if set && !self.structured {
            let why = b"negotiate structured replies first";
            return reply(out, option, answer::INVALID, why);
        }
        let parsed = name_and_rest(data).and_then(|(name, rest)| Some((name, queries(rest)?)));
        let Some((name, queries)) = parsed else {
            let why = b"the option does not hold what it claims";
            return reply(out, option, answer::INVALID, why);
        };
        let Some(export) = find(name, exports) else {
            return reply(out, option, answer::UNKNOWN, b"there is no export of that name");
        };
        let all = !set && queries.is_empty();
        let asked = |query: &&[u8]| *query == wire::ALLOCATION.as_bytes();
        let namespace = |query: &&[u8]| !set && *query == b"base:";
        if all || queries.iter().any(|query| asked(query) || namespace(query)) {
            let mut item = wire::ALLOCATION_ID.to_be_bytes().to_vec();
            item.extend(wire::ALLOCATION.as_bytes());
            reply(out, option, answer::META_CONTEXT, &item);
            if set {
                self.context_of = Some(export);
            }
        }
        reply(out, option, answer::ACK, b"");
    }
}

/// The index of the export called `name`; the empty name is the first.
fn find(name: &[u8], exports: &[ExportInfo]) -> Option<usize> {
    match name {
        [] => (!exports.is_empty()).then_some(0),
        _ => exports.iter().position(|export| export.name.as_bytes() == name),
    }
}

fn list(data: &[u8], exports: &[ExportInfo], out: &mut Vec<u8>) {
    if !data.is_empty() {
        return reply(out, option::LIST, answer::INVALID, b"this option has no data");
    }
    for export in exports {
        let mut item = (export.name.len() as u32).to_be_bytes().to_vec();
        item.extend(export.name.as_bytes());
        item.extend(export.description.as_bytes());
        reply(out, option::LIST, answer::SERVER, &item);
    }
    reply(out, option::LIST, answer::ACK, b"");
}

/// A 32-bit length, a name of that length, and what follows.
fn name_and_rest(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = data.get(..4).map(|_| be32(data, 0) as usize)?;
    data[4..].split_at_checked(length)
}

/// A 16-bit count and that many 16-bit numbers.
fn valid_list(rest: &[u8]) -> bool {
    rest.len() >= 2 && rest.len() == 2 + 2 * be16(rest, 0) as usize
}

/// A 32-bit count and that many strings of a 32-bit length.
fn queries(mut rest: &[u8]) -> Option<Vec<&[u8]>> {
    let count = rest.get(..4).map(|_| be32(rest, 0))?;
    rest = &rest[4..];
    let mut queries = Vec::new();
    for _ in 0..count {
        let (query, tail) = name_and_rest(rest)?;
        queries.push(query);
        rest = tail;
    }
    rest.is_empty().then_some(queries)
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(wire::OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

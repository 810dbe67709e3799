//! The messages of vhost-user, as QEMU's `vhost-user.rst` and Linux's `virtio_uml` define them.
//!
//! Pure: bytes in, a message out. What is not understood is refused with its number.

/// Bytes of a header: request, flags, size.
pub const HEADER_BYTES: usize = 12;
/// Longer payloads are refused before they are read: the largest is a configuration space.
pub const PAYLOAD_BYTES_MAX: usize = 4096;
/// Memory regions the protocol allows in one table.
pub const REGIONS_MAX: usize = 8;
/// Queues we offer at most.
pub const QUEUES_MAX: u32 = 64;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;
/// In the payload of a kick, call or error descriptor: there is none.
const NO_DESCRIPTOR: u64 = 1 << 8;

/// What the two sides may agree on beside the device's own features.
pub mod protocol {
    /// Every message may be acknowledged.
    pub const REPLY_ACK: u64 = 1 << 3;
    /// More than one queue.
    pub const MQ: u64 = 1 << 0;
    /// A channel for requests to the driver's side.
    pub const BACKEND_CHANNEL: u64 = 1 << 5;
    /// The configuration space is ours.
    pub const CONFIG: u64 = 1 << 9;
    /// Kicks and calls are messages.
    pub const INBAND: u64 = 1 << 14;
}

/// A message that breaks the protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

/// The front of every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What is asked.
    pub request: u32,
    /// The sender wants to know when it is done.
    pub need_reply: bool,
    /// Bytes that follow.
    pub payload_bytes: usize,
}

impl Header {
    /// Read a header.
    ///
    /// # Errors
    /// When it is a reply, of another version, or announces too much.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Malformed> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (request, flags, size) = (word(0), word(4), word(8) as usize);
        if flags & VERSION_MASK != VERSION {
            return malformed(format!("message {request} is of version {}", flags & VERSION_MASK));
        }
        if flags & REPLY != 0 {
            return malformed(format!("message {request} is a reply to nothing"));
        }
        if size > PAYLOAD_BYTES_MAX {
            return malformed(format!("message {request} announces {size} bytes"));
        }
        Ok(Header { request, need_reply: flags & NEED_REPLY != 0, payload_bytes: size })
    }

    /// The answer to this message.
    pub fn reply(&self, payload: &[u8]) -> Vec<u8> {
        frame(self.request, VERSION | REPLY, payload)
    }
}

fn frame(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + payload.len());
    out.extend(request.to_le_bytes());
    out.extend(flags.to_le_bytes());
    out.extend((payload.len() as u32).to_le_bytes());
    out.extend(payload);
    out
}

/// Our request to the driver's side: queue `index` has something for you. It is answered.
pub fn vring_call(index: u32) -> Vec<u8> {
    let mut state = index.to_le_bytes().to_vec();
    state.extend(0u32.to_le_bytes());
    frame(4, VERSION | NEED_REPLY, &state)
}

/// Bytes of the answer to [`vring_call`].
pub const CALL_REPLY_BYTES: usize = HEADER_BYTES + 8;

/// Check the answer to [`vring_call`].
///
/// # Errors
/// When it is something else, or a refusal.
pub fn check_call_reply(bytes: &[u8; CALL_REPLY_BYTES]) -> Result<(), Malformed> {
    let expected = frame(4, VERSION | REPLY, &0u64.to_le_bytes());
    if bytes[..] == expected { Ok(()) } else { malformed("the guest refused a call") }
}

/// Part of the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Where the guest sees it.
    pub guest: u64,
    /// Its length.
    pub bytes: u64,
    /// Where the driver's side sees it; ring addresses are such.
    pub user: u64,
    /// Where it begins in its descriptor's file.
    pub offset: u64,
}

/// Where a queue's three parts are, as the driver's side sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingAddresses {
    /// Descriptor table.
    pub descriptors: u64,
    /// Used ring.
    pub used: u64,
    /// Available ring.
    pub available: u64,
}

/// What the driver's side asks or tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Which features there are.
    GetFeatures,
    /// Which features it is to be.
    SetFeatures(u64),
    /// This connection begins.
    SetOwner,
    /// This connection is over; newer drivers reset without it.
    ResetOwner,
    /// Here is memory; one descriptor for each region.
    SetMemTable(Vec<Region>),
    /// So many entries.
    SetVringNum {
        /// The queue.
        index: u32,
        /// Entries.
        num: u32,
    },
    /// Here are its parts.
    SetVringAddr {
        /// The queue.
        index: u32,
        /// Its parts.
        addresses: RingAddresses,
    },
    /// Go on from this available entry.
    SetVringBase {
        /// The queue.
        index: u32,
        /// The entry.
        num: u32,
    },
    /// Stop, and say where.
    GetVringBase {
        /// The queue.
        index: u32,
    },
    /// A descriptor that is readable when there is work; with none, we poll.
    SetVringKick {
        /// The queue.
        index: u32,
        /// Whether a descriptor came along.
        descriptor: bool,
    },
    /// A descriptor to be written when there are answers.
    SetVringCall {
        /// The queue.
        index: u32,
        /// Whether a descriptor came along.
        descriptor: bool,
    },
    /// A descriptor to be written when the queue is broken.
    SetVringErr {
        /// The queue.
        index: u32,
        /// Whether a descriptor came along.
        descriptor: bool,
    },
    /// Which features of the protocol there are.
    GetProtocolFeatures,
    /// Which it is to be.
    SetProtocolFeatures(u64),
    /// How many queues there are.
    GetQueueNum,
    /// Serve the queue, or do not.
    SetVringEnable {
        /// The queue.
        index: u32,
        /// Serve it.
        enabled: bool,
    },
    /// A descriptor for our own requests.
    SetBackendChannel,
    /// Part of the configuration space.
    GetConfig {
        /// First byte.
        offset: u32,
        /// Bytes.
        bytes: u32,
    },
    /// Change part of the configuration space.
    SetConfig {
        /// First byte.
        offset: u32,
        /// New content.
        content: Vec<u8>,
    },
    /// There is work in the queue.
    VringKick {
        /// The queue.
        index: u32,
    },
}

/// Takes numbers off the front of a payload of exactly the right length.
struct Fields<'a> {
    request: u32,
    rest: &'a [u8],
}

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.rest.split_first_chunk::<N>() {
            Some((first, rest)) => {
                self.rest = rest;
                Ok(*first)
            }
            None => malformed(format!("message {} is too short", self.request)),
        }
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn queue(&mut self) -> Result<u32, Malformed> {
        let index = self.u32()?;
        if index < QUEUES_MAX {
            Ok(index)
        } else {
            malformed(format!("message {} is about queue {index}", self.request))
        }
    }

    /// Queue and whether a descriptor comes along.
    fn descriptor(&mut self) -> Result<(u32, bool), Malformed> {
        let word = self.u64()?;
        let index = (word & 0xff) as u32;
        if index < QUEUES_MAX {
            Ok((index, word & NO_DESCRIPTOR == 0))
        } else {
            malformed(format!("message {} is about queue {index}", self.request))
        }
    }

    fn regions(&mut self) -> Result<Vec<Region>, Malformed> {
        let (count, _padding) = (self.u32()? as usize, self.u32()?);
        if count == 0 || count > REGIONS_MAX {
            return malformed(format!("a table of {count} memory regions"));
        }
        let mut regions = Vec::with_capacity(count);
        for _ in 0..count {
            let (guest, bytes) = (self.u64()?, self.u64()?);
            regions.push(Region { guest, bytes, user: self.u64()?, offset: self.u64()? });
        }
        // Linux sends its whole array, whatever the count.
        self.rest = &[];
        Ok(regions)
    }

    fn config(&mut self) -> Result<(u32, u32), Malformed> {
        let (offset, bytes, _flags) = (self.u32()?, self.u32()?, self.u32()?);
        if u64::from(offset) + u64::from(bytes) > 256 {
            return malformed(format!("configuration bytes {offset}+{bytes}"));
        }
        Ok((offset, bytes))
    }
}

impl Message {
    /// Read the message behind `header`.
    ///
    /// # Errors
    /// When it is unknown, or its payload has the wrong length or absurd content.
    pub fn parse(header: &Header, payload: &[u8]) -> Result<Message, Malformed> {
        let mut fields = Fields { request: header.request, rest: payload };
        let message = Message::fields(header.request, &mut fields)?;
        match fields.rest.len() {
            0 => Ok(message),
            more => malformed(format!("message {} is {more} bytes too long", header.request)),
        }
    }

    fn fields(request: u32, fields: &mut Fields<'_>) -> Result<Message, Malformed> {
        Ok(match request {
            1 => Message::GetFeatures,
            2 => Message::SetFeatures(fields.u64()?),
            3 => Message::SetOwner,
            4 => Message::ResetOwner,
            5 => Message::SetMemTable(fields.regions()?),
            8 => Message::SetVringNum { index: fields.queue()?, num: fields.u32()? },
            9 => {
                let (index, _flags) = (fields.queue()?, fields.u32()?);
                let (descriptors, used) = (fields.u64()?, fields.u64()?);
                let (available, _log) = (fields.u64()?, fields.u64()?);
                let addresses = RingAddresses { descriptors, used, available };
                Message::SetVringAddr { index, addresses }
            }
            10 => Message::SetVringBase { index: fields.queue()?, num: fields.u32()? },
            11 => {
                let (index, _) = (fields.queue()?, fields.u32()?);
                Message::GetVringBase { index }
            }
            12..=14 => {
                let (index, descriptor) = fields.descriptor()?;
                match request {
                    12 => Message::SetVringKick { index, descriptor },
                    13 => Message::SetVringCall { index, descriptor },
                    _ => Message::SetVringErr { index, descriptor },
                }
            }
            15 => Message::GetProtocolFeatures,
            16 => Message::SetProtocolFeatures(fields.u64()?),
            17 => Message::GetQueueNum,
            18 => Message::SetVringEnable { index: fields.queue()?, enabled: fields.u32()? == 1 },
            21 => Message::SetBackendChannel,
            24 => {
                let (offset, bytes) = fields.config()?;
                // What it holds before the answer says nothing.
                fields.rest = &[];
                Message::GetConfig { offset, bytes }
            }
            25 => {
                let (offset, bytes) = fields.config()?;
                let content = std::mem::take(&mut fields.rest).to_vec();
                if content.len() != bytes as usize {
                    return malformed("a configuration change of another length than it says");
                }
                Message::SetConfig { offset, content }
            }
            35 => {
                let (index, _) = (fields.queue()?, fields.u32()?);
                Message::VringKick { index }
            }
            _ => return malformed(format!("message {request} is not understood")),
        })
    }

    /// How many descriptors come along.
    pub fn descriptors(&self) -> usize {
        match self {
            Message::SetMemTable(regions) => regions.len(),
            Message::SetVringKick { descriptor, .. }
            | Message::SetVringCall { descriptor, .. }
            | Message::SetVringErr { descriptor, .. } => usize::from(*descriptor),
            Message::SetBackendChannel => 1,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(request: u32, payload: &[u8]) -> Result<Message, Malformed> {
        let bytes = frame(request, VERSION | NEED_REPLY, payload);
        let header = Header::parse(bytes[..HEADER_BYTES].try_into().unwrap())?;
        assert!(header.need_reply && header.payload_bytes == payload.len());
        Message::parse(&header, payload)
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn messages_are_read() {
        assert_eq!(parse(1, &[]), Ok(Message::GetFeatures));
        assert_eq!(parse(2, &words(&[7])), Ok(Message::SetFeatures(7)));
        let kick = Message::SetVringKick { index: 3, descriptor: false };
        assert_eq!(parse(12, &words(&[0x103])), Ok(kick));
        let table = parse(5, &words(&[1, 10, 20, 30, 40, 0, 0, 0, 0])).unwrap();
        assert_eq!(table.descriptors(), 1);
        let region = Region { guest: 10, bytes: 20, user: 30, offset: 40 };
        assert_eq!(table, Message::SetMemTable(vec![region]));
        let address = parse(9, &words(&[2, 16, 32, 48, 0])).unwrap();
        let addresses = RingAddresses { descriptors: 16, used: 32, available: 48 };
        assert_eq!(address, Message::SetVringAddr { index: 2, addresses });
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        assert!(parse(99, &[]).unwrap_err().0.contains("99 is not understood"));
        assert!(parse(2, &[1]).unwrap_err().0.contains("too short"));
        assert!(parse(1, &[1]).unwrap_err().0.contains("1 bytes too long"));
        assert!(parse(8, &words(&[64])).unwrap_err().0.contains("queue 64"));
        assert!(parse(12, &words(&[0x40])).is_err());
        assert!(parse(5, &words(&[9])).unwrap_err().0.contains("9 memory regions"));
        assert!(parse(5, &words(&[2, 0, 0, 0, 0])).is_err());
        assert!(parse(24, &[255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(parse(25, &[0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1]).is_err());
        let reply = frame(1, VERSION | REPLY, &[]);
        assert!(Header::parse(reply[..].try_into().unwrap()).is_err());
        let version = frame(1, 2, &[]);
        assert!(Header::parse(version[..].try_into().unwrap()).is_err());
        let mut long = frame(1, VERSION, &[]);
        long[8..12].copy_from_slice(&5000u32.to_le_bytes());
        assert!(Header::parse(long[..].try_into().unwrap()).is_err());
    }

    #[test]
    fn a_call_wants_its_answer() {
        assert_eq!(vring_call(3)[..4], 4u32.to_le_bytes());
        let answer = |value: u64| -> [u8; CALL_REPLY_BYTES] {
            frame(4, VERSION | REPLY, &value.to_le_bytes()).try_into().unwrap()
        };
        assert!(check_call_reply(&answer(0)).is_ok());
        assert!(check_call_reply(&answer(1)).is_err());
    }
}

//! What clients want, as the core is given it: orders cut into its requests, with their payloads,
//! and their answers put together again.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use mirror::core::{Content, Event, HostId, Io, Source};
use mirror::format::PAGE_BYTES;
use mirror::format::sums::BlockSums;
use mirror::{Block, Span};

use super::device::PAGE;
use super::mutant::planted;
use super::work::{Bytes, sums};
use crate::clock::Wall;
use crate::order::{Command, Order, Refusal};

/// The core sees no larger requests: each must fit into a log record.
const PIECE_BLOCKS: u64 = 128;
/// Pieces of discards and zeros that the core has at a time, half of what its memory has room for.
/// A client may ask for thousands of them at once, each with room for one request, and what comes
/// behind waits no longer than for so many extents.
const ZEROS_MAX: u32 = 64;

/// A request that the core is given: a piece of a client's order.
struct CoreRequest {
    order: u64,
    span: Span,
    payload: Payload,
}

enum Payload {
    Read,
    Flush,
    Zeros {
        /// They must take room.
        keep: bool,
    },
    Data(Bytes),
    /// A write of less than its blocks: what they hold, what comes over it, and where.
    Part {
        old: Vec<u8>,
        new: Bytes,
        at: usize,
    },
}

/// A client's order that is not answered.
struct PendingOrder {
    order: Order,
    arrived: Wall,
    pieces: u32,
    /// What has not been cut into pieces yet, in bytes.
    rest: Range<u64>,
    failed: bool,
    /// Whole blocks for a read.
    buffer: Vec<u8>,
}

/// What the core is to be told of a piece.
pub(super) enum Told {
    Flush { id: HostId },
    Read { id: HostId, span: Span },
    Part { id: HostId, span: Span, fua: bool },
    Write { id: HostId, span: Span, content: Content, fua: bool, sums: Vec<u32> },
}

impl Told {
    pub(super) fn event(&self) -> Event<'_> {
        match *self {
            Told::Flush { id } => Event::Flush { id },
            Told::Read { id, span } => Event::Read { id, span },
            Told::Part { id, span, fua } => Event::WritePart { id, span, fua },
            Told::Write { id, span, content, fua, ref sums } => {
                Event::Write { id, span, content, fua, sums }
            }
        }
    }
}

/// An order that is over.
pub(super) struct Finished {
    pub(super) order: Order,
    pub(super) arrived: Wall,
    pub(super) result: Result<Vec<u8>, Refusal>,
}

/// All that are not answered.
pub(super) struct Orders {
    sums: BlockSums,
    /// What reads of the devices read, while the core may still want it.
    reads: BTreeMap<Io, Bytes>,
    requests: BTreeMap<HostId, CoreRequest>,
    orders: BTreeMap<u64, PendingOrder>,
    /// Discards and zeros with a rest, oldest first.
    zeros: VecDeque<u64>,
    /// Pieces of such that are not answered.
    zeros_out: u32,
    next_id: u64,
}

impl Orders {
    /// Of the array `array`: checksums are made for it.
    pub(super) fn new(sums: BlockSums) -> Orders {
        let (reads, requests, orders, zeros) = Default::default();
        Orders { sums, reads, requests, orders, zeros, zeros_out: 0, next_id: 0 }
    }

    /// Begin an order; `data` is what a write writes, `None` for zeros, the pieces of which come by
    /// [`Orders::more`]. `None` is returned for one that asks for nothing, and is forgotten.
    pub(super) fn begin(
        &mut self,
        arrived: Wall,
        order: Order,
        data: Option<Vec<u8>>,
    ) -> Option<Vec<Told>> {
        let (mut from, mut end) = (order.offset, order.offset + u64::from(order.bytes));
        if order.command == Command::Discard {
            // The rest of a block was not given up.
            (from, end) = (from.next_multiple_of(PAGE), end / PAGE * PAGE);
        }
        if order.command == Command::Read {
            (from, end) = (from / PAGE * PAGE, end.next_multiple_of(PAGE));
        }
        let flush = order.command == Command::Flush;
        if from >= end && !flush {
            return None;
        }
        let buffer = match order.command {
            Command::Read => vec![0; (end - from) as usize],
            _ => Vec::new(),
        };
        self.next_id += 1;
        let name = self.next_id;
        let (pieces, rest, failed) = (0, end..end, false);
        let mut pending = PendingOrder { order, arrived, pieces, rest, failed, buffer };
        if is_zeros(&order) {
            pending.rest = from..end;
            self.zeros.push_back(name);
            self.orders.insert(name, pending);
            return Some(Vec::new());
        }
        let cuts = cuts(from, end);
        pending.pieces = cuts.len().max(1) as u32;
        self.orders.insert(name, pending);
        if flush {
            let id = self.add(name, Span::new(0, 1), Payload::Flush);
            return Some(vec![Told::Flush { id }]);
        }
        let data = data.map(Arc::new);
        Some(cuts.into_iter().map(|cut| self.piece(name, &order, cut, data.as_ref())).collect())
    }

    /// The next piece of a discard or of zeros, if there is one and the core may have more.
    pub(super) fn more(&mut self) -> Option<Told> {
        let name = *self.zeros.front().filter(|_| self.zeros_out < ZEROS_MAX)?;
        let pending = self.orders.get_mut(&name)?;
        let Range { start, end } = pending.rest;
        let next = cut(start, end);
        pending.rest.start = next;
        pending.pieces += 1;
        let order = pending.order;
        if next == end {
            self.zeros.pop_front();
        }
        self.zeros_out += 1;
        Some(self.piece(name, &order, (start, next), None))
    }

    /// Has the core been given all that was begun?
    pub(super) fn all_given(&self) -> bool {
        self.zeros.is_empty()
    }

    fn add(&mut self, order: u64, span: Span, payload: Payload) -> HostId {
        self.next_id += 1;
        self.requests.insert(self.next_id, CoreRequest { order, span, payload });
        self.next_id
    }

    fn piece(
        &mut self,
        name: u64,
        order: &Order,
        (at, next): (u64, u64),
        data: Option<&Arc<Vec<u8>>>,
    ) -> Told {
        let first: Block = at / PAGE;
        let span = Span::new(first, (next.div_ceil(PAGE) - first) as u32);
        let fua = match order.command {
            Command::Read => {
                let id = self.add(name, span, Payload::Read);
                return Told::Read { id, span };
            }
            Command::Write { fua } | Command::WriteZeroes { fua, .. } => fua,
            Command::Flush | Command::Discard => false,
        };
        let fua = fua && !planted!(FuaAsPlain);
        let range = (at - order.offset) as usize..(next - order.offset) as usize;
        let bytes = data.map(|data| Bytes { data: Arc::clone(data), range });
        let length = (next - at) as usize;
        if at % PAGE != 0 || next % PAGE != 0 {
            let old = vec![0; span.blocks as usize * PAGE_BYTES];
            let new = bytes.unwrap_or_else(|| Bytes::all(vec![0; length]));
            let at = (at % PAGE) as usize;
            let id = self.add(name, span, Payload::Part { old, new, at });
            return Told::Part { id, span, fua };
        }
        let (content, payload, sums) = match bytes {
            Some(bytes) => {
                let sums = sums(self.sums, first, bytes.get());
                (Content::Data, Payload::Data(bytes), sums)
            }
            None => {
                let keep = matches!(order.command, Command::WriteZeroes { may_discard: false, .. });
                let sums = sums(self.sums, first, &vec![0; length]);
                (Content::Zeros, Payload::Zeros { keep }, sums)
            }
        };
        let id = self.add(name, span, payload);
        Told::Write { id, span, content, fua, sums }
    }

    /// A read of a device read this.
    pub(super) fn keep(&mut self, io: Io, bytes: Vec<u8>) {
        self.reads.insert(io, Bytes::all(bytes));
    }

    /// The core wants it no longer.
    pub(super) fn forget_read(&mut self, io: Io) {
        self.reads.remove(&io);
    }

    /// The core needs its payload no longer.
    pub(super) fn forget_request(&mut self, id: HostId) {
        self.requests.remove(&id);
    }

    /// `blocks` blocks of what the core names; `None` for zeros.
    pub(super) fn content(&self, from: Source, blocks: u32) -> Option<Bytes> {
        match from {
            Source::Read { io, offset } => Some(self.reads[&io].blocks(offset, blocks)),
            Source::Host { id, offset } => match &self.requests[&id].payload {
                Payload::Data(bytes) => Some(bytes.blocks(offset, blocks)),
                _ => None,
            },
        }
    }

    /// Must the zeros that the core names take room?
    pub(super) fn keeps_room(&self, from: Source) -> bool {
        let Source::Host { id, .. } = from else { return false };
        matches!(self.requests.get(&id).map(|it| &it.payload), Some(Payload::Zeros { keep: true }))
    }

    /// `blocks` blocks of what a request reads, or lays something over, are these.
    pub(super) fn deliver(&mut self, id: HostId, offset: u32, blocks: u32, from: Source) {
        let content = self.content(from, blocks);
        let Some(request) = self.requests.get_mut(&id) else { return };
        let (buffer, first) = match &mut request.payload {
            Payload::Part { old, .. } => (old, 0),
            _ => {
                let Some(pending) = self.orders.get_mut(&request.order) else { return };
                (&mut pending.buffer, request.span.start - pending.order.offset / PAGE)
            }
        };
        let start = (first + u64::from(offset)) as usize * PAGE_BYTES;
        let into = &mut buffer[start..start + blocks as usize * PAGE_BYTES];
        match content {
            Some(bytes) => into.copy_from_slice(bytes.get()),
            None => into.fill(0),
        }
    }

    /// Lay a partial write over what its blocks hold; the checksums of what comes of it.
    pub(super) fn merge(&mut self, id: HostId) -> Option<Vec<u32>> {
        let request = self.requests.get_mut(&id)?;
        let Payload::Part { old, new, at } = &mut request.payload else { return None };
        old[*at..*at + new.range.len()].copy_from_slice(new.get());
        let whole = std::mem::take(old);
        let sums = sums(self.sums, request.span.start, &whole);
        request.payload = Payload::Data(Bytes::all(whole));
        Some(sums)
    }

    /// A piece of an order is done; the order, if that was its last.
    pub(super) fn reply(&mut self, id: HostId, ok: bool) -> Option<Finished> {
        let request = self.requests.get(&id)?;
        let order = request.order;
        // Only a write's payload is still needed.
        if matches!(request.payload, Payload::Read | Payload::Flush) {
            self.requests.remove(&id);
        }
        let pending = self.orders.get_mut(&order)?;
        self.zeros_out -= u32::from(is_zeros(&pending.order));
        pending.failed |= !ok && !planted!(PieceErrorForgotten);
        pending.pieces -= 1;
        if pending.failed && !pending.rest.is_empty() {
            pending.rest.start = pending.rest.end;
            self.zeros.retain(|&waiting| waiting != order);
        }
        if pending.pieces > 0 || !pending.rest.is_empty() {
            return None;
        }
        let PendingOrder { order, arrived, failed, mut buffer, .. } = self.orders.remove(&order)?;
        let result = match (failed, order.command) {
            (true, _) => Err(Refusal::Io),
            (false, Command::Read) => {
                buffer.drain(..(order.offset % PAGE) as usize);
                buffer.truncate(order.bytes as usize);
                Ok(buffer)
            }
            (false, _) => Ok(Vec::new()),
        };
        Some(Finished { order, arrived, result })
    }

    /// In tests: reads, pieces and orders that are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> [usize; 3] {
        [self.reads.len(), self.requests.len(), self.orders.len()]
    }
}

/// Does it need no data of a client's?
fn is_zeros(order: &Order) -> bool {
    matches!(order.command, Command::Discard | Command::WriteZeroes { .. })
}

/// The pieces of a range that the core is given: whole blocks, and what is less than a block.
fn cuts(mut at: u64, end: u64) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    while at < end {
        let next = cut(at, end);
        pieces.push((at, next));
        at = next;
    }
    pieces
}

/// Where the first piece of a range ends.
fn cut(at: u64, end: u64) -> u64 {
    let block = at / PAGE * PAGE;
    let whole = end / PAGE * PAGE;
    if at != block || whole <= at {
        (block + PAGE).min(end)
    } else {
        let piece = PIECE_BLOCKS * PAGE;
        (at / piece * piece + piece).min(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_blocks_and_at_the_largest_piece() {
        assert_eq!(cuts(512, 1024), [(512, 1024)]);
        assert_eq!(
            cuts(512, 3 * PAGE + 512),
            [(512, PAGE), (PAGE, 3 * PAGE), (3 * PAGE, 3 * PAGE + 512)]
        );
        let most = PIECE_BLOCKS * PAGE;
        assert_eq!(cuts(PAGE, 2 * most), [(PAGE, most), (most, 2 * most)]);
        assert_eq!(cuts(PAGE, PAGE), []);
    }
}

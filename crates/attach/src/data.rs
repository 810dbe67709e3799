//! The payload of one device: the store, under the faults, above the log of a power cut.

use std::collections::BTreeSet;
use std::io;
use std::ops::{Range, RangeInclusive};

use sim::{LostWrite, Op, RequestId, Rng, SECTOR_BYTES};

use study::Failure;

use crate::buffer_pool::BufferPool;
use crate::fault::{Faults, Placement, Verdict};
use crate::order::{Command, Order, Refusal};
use crate::patch::{Patch, Patched};
use crate::request_log::RequestLog;
use crate::store::{Extent, Store};
use crate::volatile::{AtRisk, VolatileLog, WriteTicket};

/// Zeroing of more data at once is not kept: as much as the largest write has.
const ZEROED_MAX: u64 = 64 << 20;

/// Replaced data is looked through for durable writes when it has grown to this.
const PRUNE_BYTES: usize = 64 << 20;

/// A write whose data is coming in. Nothing of it reaches the store before all of it is there.
#[derive(Debug)]
pub struct WriteSink {
    ticket: WriteTicket,
    /// Where it lands: a fault may direct it elsewhere.
    offset: u64,
    bytes: u64,
    /// What has come, when it came in pieces.
    pieces: Vec<u8>,
    verdict: Verdict,
    /// How it went; `None` while something is missing.
    result: Option<Result<(), Refusal>>,
}

impl WriteSink {
    /// The write's name before the device has named it.
    pub fn ticket(&self) -> WriteTicket {
        self.ticket
    }

    /// Where its first byte landed.
    pub(crate) fn landed(&self) -> u64 {
        self.offset
    }

    /// What becomes of its answer.
    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// How the moving of the data went.
    pub(crate) fn finish(self) -> Result<(), Refusal> {
        self.result.unwrap_or(Err(Refusal::Io))
    }
}

/// The bytes of one device and everything that can happen to them.
#[derive(Debug)]
pub struct Data {
    store: Store,
    bytes: u64,
    pub(crate) faults: Faults,
    /// Kept only when power cuts are to lose something.
    log: Option<VolatileLog>,
    prune_at: usize,
    next_ticket: u64,
    /// Everything that is asked, where that is wanted.
    pub(crate) requests: Option<RequestLog>,
    /// Reads of so many bytes leave their data in the store.
    in_place: Option<RangeInclusive<u32>>,
}

impl Data {
    /// The data in `store` of a device of `bytes`.
    pub fn new(store: Store, bytes: u64, rng: Rng) -> Data {
        let faults = Faults::new(rng);
        Data {
            store,
            bytes,
            faults,
            log: None,
            prune_at: PRUNE_BYTES,
            next_ticket: 0,
            requests: None,
            in_place: None,
        }
    }

    /// Keep what writes replace, so that a power cut can lose what was not flushed.
    pub fn keep_volatile_log(&mut self) {
        self.log = Some(VolatileLog::default());
    }

    /// True when a power cut loses what was not flushed.
    pub fn loses_unflushed(&self) -> bool {
        self.log.is_some()
    }

    /// Where the data is kept.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Why a write found no room: here, or in what is kept of the requests.
    pub(crate) fn full(&self) -> Failure {
        let log = self.requests.as_ref().map(RequestLog::store).filter(|log| log.is_used_up());
        log.unwrap_or(&self.store).full()
    }

    /// Let reads of so many bytes leave their data in the store, for whoever answers them.
    pub(crate) fn leave_reads(&mut self, bytes: RangeInclusive<u32>) {
        self.in_place = Some(bytes);
    }

    pub(crate) fn begin_write(&mut self, offset: u64, bytes: u32) -> WriteSink {
        self.next_ticket += 1;
        WriteSink {
            ticket: WriteTicket(self.next_ticket),
            offset,
            bytes: u64::from(bytes),
            pieces: Vec::new(),
            verdict: Verdict::default(),
            result: None,
        }
    }

    /// The next piece of a write's data; with the last one all of it reaches the store.
    pub fn write(&mut self, sink: &mut WriteSink, piece: &[u8], pool: &mut BufferPool) {
        if piece.len() as u64 == sink.bytes {
            return self.apply(sink, piece);
        }
        if sink.pieces.is_empty() {
            sink.pieces = pool.take_empty(sink.bytes as usize);
        }
        sink.pieces.extend_from_slice(piece);
        if sink.pieces.len() as u64 == sink.bytes {
            let whole = std::mem::take(&mut sink.pieces);
            self.apply(sink, &whole);
            pool.put(whole);
        }
    }

    fn apply(&mut self, sink: &mut WriteSink, data: &[u8]) {
        let &mut WriteSink { ticket, offset, bytes, .. } = sink;
        if let Some(Err(why)) = self.requests.as_mut().map(|log| log.arrived(ticket, data)) {
            sink.result = Some(Err(refusal(&why)));
            return;
        }
        let mut placement = Placement { offset, keep: bytes };
        if !self.faults.is_empty() {
            sink.verdict = self.faults.verdict(Op::Write, offset, bytes);
            placement = self.faults.place(offset, bytes, self.bytes);
            sink.offset = placement.offset;
        }
        let kept = &data[..placement.keep as usize];
        sink.result = Some(if sink.verdict.error || kept.is_empty() {
            Ok(())
        } else {
            self.put(ticket, (offset, placement.offset), kept).map_err(|why| refusal(&why))
        });
    }

    /// Write what was asked for at one place and lands at another.
    fn put(&mut self, ticket: WriteTicket, (asked, at): (u64, u64), data: &[u8]) -> io::Result<()> {
        if let Some(log) = &mut self.log {
            log.before_write(&self.store, ticket, (asked, at), data.len())?;
        }
        self.show_replaced(at, data.len() as u64)?;
        self.store.write(at, data)
    }

    /// Stale faults keep the sectors that are about to be replaced.
    fn show_replaced(&mut self, at: u64, bytes: u64) -> io::Result<()> {
        /// Larger ranges are shown in parts.
        const PART: u64 = 1 << 20;
        if self.faults.is_empty() || !self.faults.wants_replaced(at, bytes) {
            return Ok(());
        }
        let end = (at + bytes).next_multiple_of(SECTOR_BYTES);
        let mut from = at / SECTOR_BYTES * SECTOR_BYTES;
        let mut before = Vec::new();
        while from < end {
            before.resize(PART.min(end - from) as usize, 0);
            self.store.read(from, &mut before)?;
            self.faults.replaced(from, &before);
            from += before.len() as u64;
        }
        Ok(())
    }

    /// The client of a write went away before all of its data had come: nothing was written.
    pub fn abandon(&mut self, sink: WriteSink, pool: &mut BufferPool) {
        pool.put(sink.pieces);
    }

    pub(crate) fn submitted(&mut self, ticket: WriteTicket, id: RequestId) {
        if let Some(log) = &mut self.log {
            log.submitted(ticket, id);
        }
    }

    /// A flush was submitted.
    pub(crate) fn flush_came(&mut self, id: RequestId) {
        if let Some(log) = &mut self.log {
            log.flush_came(id);
        }
    }

    /// The host was told that it is done.
    pub(crate) fn acknowledged(&mut self, id: RequestId, command: Command) {
        let Some(log) = &mut self.log else { return };
        match command {
            Command::Write { fua } | Command::WriteZeroes { fua, .. } => {
                log.acknowledged(id, fua);
            }
            Command::Flush => log.flush_done(id),
            _ => {}
        }
    }

    /// Move the data of anything but a write: a read's comes back, and the name of what is kept of
    /// what zeroes replaced.
    pub(crate) fn perform(
        &mut self,
        order: &Order,
        pool: &mut BufferPool,
    ) -> Result<(Vec<u8>, Option<WriteTicket>), Refusal> {
        let done = match order.command {
            Command::Read => {
                return self.read(order.offset, order.bytes, pool).map(|data| (data, None));
            }
            Command::Write { .. } | Command::Flush => Ok(None),
            Command::Discard | Command::WriteZeroes { .. } => self.clear(order),
        };
        done.map(|ticket| (Vec::new(), ticket)).map_err(|why| refusal(&why))
    }

    fn read(&mut self, offset: u64, bytes: u32, pool: &mut BufferPool) -> Result<Vec<u8>, Refusal> {
        let in_place = self.in_place.as_ref().is_some_and(|lengths| lengths.contains(&bytes));
        if in_place && self.faults.is_empty() {
            return Ok(Vec::new());
        }
        let mut buffer = pool.take(bytes as usize);
        if let Err(why) = self.store.read(offset, &mut buffer) {
            pool.put(buffer);
            return Err(refusal(&why));
        }
        if !self.faults.is_empty() {
            self.faults.spoil(offset, &mut buffer);
        }
        Ok(buffer)
    }

    /// Zero a range; of a discard only whole sectors, because the rest was not given up.
    fn clear(&mut self, order: &Order) -> io::Result<Option<WriteTicket>> {
        let (from, end) = (order.offset, order.offset + u64::from(order.bytes));
        let (from, end) = match order.command {
            Command::Discard => {
                (from.next_multiple_of(SECTOR_BYTES), end / SECTOR_BYTES * SECTOR_BYTES)
            }
            _ => (from, end),
        };
        if from >= end {
            return Ok(None);
        }
        self.show_replaced(from, end - from)?;
        let Command::WriteZeroes { may_discard, .. } = order.command else {
            return self.store.clear(from, end - from).map(|()| None);
        };
        let kept = self.keep_zeroed(from, end)?;
        match may_discard {
            true => self.store.clear(from, end - from),
            false => self.store.zero(from, end - from),
        }
        .map(|()| kept)
    }

    /// Zeroes are a write: keep what they are about to replace. Nothing of what is zero already, so
    /// that zeroing a new device costs nothing.
    fn keep_zeroed(&mut self, from: u64, end: u64) -> io::Result<Option<WriteTicket>> {
        let Some(log) = &mut self.log else { return Ok(None) };
        let Some(range) = not_zero(&self.store, from, end)? else { return Ok(None) };
        let bytes = range.end - range.start;
        if bytes > ZEROED_MAX {
            return Ok(None);
        }
        self.next_ticket += 1;
        let ticket = WriteTicket(self.next_ticket);
        log.before_write(&self.store, ticket, (range.start, range.start), bytes as usize)?;
        Ok(Some(ticket))
    }

    /// The extents of a range, at most `most`.
    ///
    /// # Errors
    /// Those of the store.
    pub fn extents(&self, offset: u64, bytes: u64, most: usize) -> io::Result<Vec<Extent>> {
        self.store.extents(offset, bytes, most)
    }

    pub(crate) fn power_cut(&mut self, lost: &[LostWrite]) -> io::Result<()> {
        match &mut self.log {
            Some(log) => log.power_cut(&mut &self.store, lost),
            None => Ok(()),
        }
    }

    /// What is different of the data as a power cut now leaves it: `undo` makes it so with what is
    /// kept of volatile writes.
    pub(crate) fn after_power_cut(
        &self,
        undo: impl FnOnce(&mut VolatileLog, &mut Patched<'_>) -> io::Result<()>,
    ) -> Result<Patch, Failure> {
        let mut patched = Patched { store: &self.store, patch: Patch::default() };
        undo(&mut self.log.clone().unwrap_or_default(), &mut patched)
            .map_err(|why| Failure::machine(format!("cannot build a medium: {why}")))?;
        Ok(patched.patch)
    }

    /// From now on know which writes the contract makes safe, whatever the device does;
    /// `write_cache` where the host was told of a volatile one, blocks of `atom_bytes` are whole.
    pub(crate) fn keep_contract(&mut self, write_cache: bool, atom_bytes: u64) {
        if let Some(log) = &mut self.log {
            log.keep_contract(write_cache, atom_bytes);
        }
    }

    /// By the contract, the writes that are not safe, oldest first.
    pub(crate) fn at_risk(&self) -> Vec<AtRisk> {
        self.log.as_ref().map(VolatileLog::at_risk).unwrap_or_default()
    }

    /// See [`VolatileLog::has_at_risk`].
    pub(crate) fn has_at_risk(&mut self) -> bool {
        self.log.as_mut().is_some_and(VolatileLog::has_at_risk)
    }

    /// See [`VolatileLog::exposed`].
    pub(crate) fn exposed(&self) -> Option<BTreeSet<RequestId>> {
        self.log.as_ref().and_then(VolatileLog::exposed)
    }

    pub(crate) fn wants_pruning(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.bytes() > self.prune_at)
    }

    pub(crate) fn prune(&mut self, lost: &[LostWrite]) {
        if let Some(log) = &mut self.log {
            log.prune(lost);
            // What stays is at risk: look again only when as much has come on top of it.
            self.prune_at = PRUNE_BYTES + log.bytes();
        }
    }
}

/// From the first sector of a range that is not zero to the last.
fn not_zero(store: &Store, from: u64, end: u64) -> io::Result<Option<Range<u64>>> {
    let mut found: Option<Range<u64>> = None;
    store.for_each_written_of(from..end, |offset, data| {
        let mut at = offset;
        for sector in data.chunks(SECTOR_BYTES as usize) {
            let next = at + sector.len() as u64;
            if sector.iter().any(|&byte| byte != 0) {
                found = Some(found.as_ref().map_or(at, |found| found.start)..next);
            }
            at = next;
        }
        Ok(())
    })?;
    Ok(found)
}

fn refusal(why: &io::Error) -> Refusal {
    match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Refusal::NoSpace
        }
        _ => Refusal::Io,
    }
}

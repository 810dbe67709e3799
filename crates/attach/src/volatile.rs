//! What a power cut would undo.
//!
//! Data moves when a request arrives, so the store is always ahead of the device's volatile cache.
//! This log keeps what each write replaced until the write is durable. At a power cut the writes
//! the model lost are taken back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use sim::{LostWrite, RequestId, SECTOR_BYTES, mix64};

use crate::patch::ByteStore;
use crate::store::Store;

/// Names one write before the device has named it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WriteTicket(pub u64);

/// Grain in which overlapping writes are told apart when old ones are forgotten.
const BLOCK_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug)]
struct Entry {
    ticket: WriteTicket,
    /// Where it landed.
    offset: u64,
    /// Where the device was asked to write: its own names of places are these.
    asked: u64,
    /// Shared with the copies of a log that are undone to see what a cut would leave.
    before: Arc<Vec<u8>>,
}

impl Entry {
    fn blocks(&self) -> std::ops::RangeInclusive<u64> {
        let last = self.offset + (self.before.len() as u64).max(1) - 1;
        self.offset / BLOCK_BYTES..=last / BLOCK_BYTES
    }
}

/// What a host may rely on, whatever the device does: a write is safe when it was done by FUA, or
/// when a flush is done that came after it. Of a device that says that it has no volatile cache
/// nobody asks for either: a write is safe when it is done.
#[derive(Clone, Default, Debug)]
struct Contract {
    write_cache: bool,
    /// What the drive writes whole or not at all: its logical block.
    atom_bytes: u64,
    /// What each flush that is not done makes safe.
    flushes: BTreeMap<RequestId, BTreeSet<RequestId>>,
    safe: BTreeSet<RequestId>,
}

/// What becomes of a write that was not safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is there.
    Kept,
    /// None of it is.
    Lost,
    /// Each logical block is there or not, drawn from this random number.
    Torn(u64),
}

/// A write that is not safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct AtRisk {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Writes that are not known to be durable, oldest first.
#[derive(Clone, Default, Debug)]
pub(crate) struct VolatileLog {
    entries: VecDeque<Entry>,
    contract: Option<Contract>,
    bytes: usize,
    /// The device's names of the writes.
    ids: BTreeMap<WriteTicket, RequestId>,
    acknowledged: BTreeSet<RequestId>,
}

impl VolatileLog {
    /// Bytes of replaced data that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keep what a write of `length` bytes is about to replace, which was asked for at the first
    /// place and lands at the second: a fault may have directed it elsewhere.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn before_write(
        &mut self,
        store: &Store,
        ticket: WriteTicket,
        (asked, offset): (u64, u64),
        length: usize,
    ) -> io::Result<()> {
        let mut before = vec![0; length];
        store.read(offset, &mut before)?;
        let before = Arc::new(before);
        self.bytes += length;
        self.entries.push_back(Entry { ticket, offset, asked, before });
        Ok(())
    }

    /// The device took the write of that ticket, which was the last one to come, as `id`.
    pub(crate) fn submitted(&mut self, ticket: WriteTicket, id: RequestId) {
        // One that a fault kept from the store replaced nothing.
        if self.entries.back().is_some_and(|last| last.ticket == ticket) {
            self.ids.insert(ticket, id);
        }
    }

    /// From now on know what the host may rely on, and not what the device does; `write_cache`
    /// where it was told of a volatile one. A write is torn between blocks of `atom_bytes`.
    pub(crate) fn keep_contract(&mut self, write_cache: bool, atom_bytes: u64) {
        self.contract = Some(Contract { write_cache, atom_bytes, ..Contract::default() });
    }

    /// The host was told that write `id` is done.
    pub(crate) fn acknowledged(&mut self, id: RequestId, fua: bool) {
        self.acknowledged.insert(id);
        if let Some(contract) = self.contract.as_mut().filter(|c| fua || !c.write_cache) {
            contract.safe.insert(id);
        }
    }

    /// A flush came.
    pub(crate) fn flush_came(&mut self, id: RequestId) {
        if let Some(contract) = &mut self.contract {
            contract.flushes.insert(id, self.acknowledged.clone());
        }
    }

    /// A flush is done.
    pub(crate) fn flush_done(&mut self, id: RequestId) {
        if let Some(contract) = &mut self.contract {
            contract.safe.extend(contract.flushes.remove(&id).unwrap_or_default());
        }
    }

    /// By the contract, the writes that are not safe, oldest first.
    pub(crate) fn at_risk(&self) -> Vec<AtRisk> {
        let at_risk = self.entries.iter().filter(|entry| !self.is_safe(entry));
        at_risk
            .map(|entry| AtRisk { offset: entry.offset, bytes: entry.before.len() as u64 })
            .collect()
    }

    /// Whether there is one. If not, nothing is kept any more.
    pub(crate) fn has_at_risk(&mut self) -> bool {
        // The newest are the likeliest.
        let some = self.entries.iter().rev().any(|entry| !self.is_safe(entry));
        if !some && !self.entries.is_empty() {
            self.prune(&[]);
        }
        some
    }

    /// The device's names of the writes at risk; `None` where the contract is not kept.
    pub(crate) fn exposed(&self) -> Option<BTreeSet<RequestId>> {
        self.contract.as_ref()?;
        let at_risk = self.entries.iter().filter(|entry| !self.is_safe(entry));
        Some(at_risk.filter_map(|entry| self.ids.get(&entry.ticket).copied()).collect())
    }

    fn is_safe(&self, entry: &Entry) -> bool {
        let id = self.ids.get(&entry.ticket);
        self.contract.as_ref().zip(id).is_some_and(|(contract, id)| contract.safe.contains(id))
    }

    /// Forget every write that a power cut now would not undo; `lost` are those it would.
    pub(crate) fn prune(&mut self, lost: &[LostWrite]) {
        let lost: BTreeSet<RequestId> = lost.iter().map(|lost| lost.id).collect();
        let (ids, acknowledged) = (self.ids.clone(), self.acknowledged.clone());
        let safe = self.contract.as_ref().map(|contract| contract.safe.clone());
        let durable = |entry: &Entry| {
            ids.get(&entry.ticket).is_some_and(|id| match &safe {
                Some(safe) => safe.contains(id),
                None => acknowledged.contains(id) && !lost.contains(id),
            })
        };
        // A durable write over an older one at risk must be written again after the undoing.
        let mut at_risk = BTreeSet::new();
        self.retain(|entry| {
            let keep = !durable(entry) || entry.blocks().any(|block| at_risk.contains(&block));
            if keep {
                at_risk.extend(entry.blocks());
            }
            keep
        });
        let left: BTreeSet<WriteTicket> = self.entries.iter().map(|entry| entry.ticket).collect();
        self.ids.retain(|ticket, _| left.contains(ticket));
        let named: BTreeSet<RequestId> = self.ids.values().copied().collect();
        self.acknowledged.retain(|id| named.contains(id));
        if let Some(contract) = &mut self.contract {
            contract.safe.retain(|id| named.contains(id));
        }
    }

    fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.entries.retain(keep);
        self.bytes = self.entries.iter().map(|entry| entry.before.len()).sum();
    }

    /// Undo what the power cut lost: every write that was not acknowledged, and `lost`.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn power_cut(
        &mut self,
        store: &mut impl ByteStore,
        lost: &[LostWrite],
    ) -> io::Result<()> {
        self.undo(store)?;
        for entry in &self.entries {
            let id = self.ids.get(&entry.ticket);
            if let Some(&id) = id.filter(|id| self.acknowledged.contains(id)) {
                write_survivors(store, entry, id, lost)?;
            }
        }
        *self = VolatileLog::default();
        Ok(())
    }

    /// The same, but what becomes of the writes [at risk](VolatileLog::at_risk) is said: the
    /// contract allows all of it.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn power_cut_as(
        &mut self,
        store: &mut impl ByteStore,
        fates: &[Fate],
    ) -> io::Result<()> {
        self.undo(store)?;
        let atom = self.contract.as_ref().map_or(SECTOR_BYTES, |contract| contract.atom_bytes);
        let mut fates = fates.iter().copied();
        for entry in &self.entries {
            let fate =
                if self.is_safe(entry) { Fate::Kept } else { fates.next().unwrap_or(Fate::Lost) };
            match fate {
                Fate::Kept => store.write(entry.offset, &entry.before)?,
                Fate::Lost => {}
                Fate::Torn(bits) => {
                    let blocks = (0_u64..).zip(entry.before.chunks(atom as usize));
                    for (index, block) in blocks {
                        if mix64(bits ^ index) & 1 == 1 {
                            store.write(entry.offset + index * atom, block)?;
                        }
                    }
                }
            }
        }
        *self = VolatileLog::default();
        Ok(())
    }

    /// Take every write back; what each wrote is in its `before` then.
    fn undo(&mut self, store: &mut impl ByteStore) -> io::Result<()> {
        // Newest to oldest, exchange what is there for what was there before. What survives is
        // written again oldest to newest.
        for entry in self.entries.iter_mut().rev() {
            let mut written = vec![0; entry.before.len()];
            store.read(entry.offset, &mut written)?;
            store.write(entry.offset, &entry.before)?;
            entry.before = Arc::new(written);
        }
        Ok(())
    }
}

/// Write the sectors of `entry` that are not among `lost`.
fn write_survivors(
    store: &mut impl ByteStore,
    entry: &Entry,
    id: RequestId,
    lost: &[LostWrite],
) -> io::Result<()> {
    let length = entry.before.len() as u64;
    let mut keep = vec![true; entry.before.len()];
    for lost in lost.iter().filter(|lost| lost.id == id) {
        let inside = |lba: u64| (lba * SECTOR_BYTES).saturating_sub(entry.asked).min(length);
        let (from, to) = (inside(lost.lba.0), inside(lost.lba.0 + u64::from(lost.sectors)));
        keep[from as usize..to as usize].fill(false);
    }
    let mut at = 0;
    for run in keep.chunk_by(|a, b| a == b) {
        if run[0] {
            store.write(entry.offset + at as u64, &entry.before[at..at + run.len()])?;
        }
        at += run.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Bytes, Lba};

    fn write(log: &mut VolatileLog, store: &Store, id: u64, lba: u64, value: u8) {
        let (ticket, offset) = (WriteTicket(id), lba * SECTOR_BYTES);
        log.before_write(store, ticket, (offset, offset), 1024).unwrap();
        store.write(offset, &[value; 1024]).unwrap();
        log.submitted(ticket, RequestId(id));
    }

    fn sectors(store: &Store) -> Vec<u8> {
        let mut buffer = vec![0; 4 * 512];
        store.read(0, &mut buffer).unwrap();
        buffer.chunks(512).map(|sector| sector[0]).collect()
    }

    #[test]
    fn a_survivor_over_a_lost_write_stays() {
        let store = Store::memory(Bytes::from_mib(1)).unwrap();
        let mut log = VolatileLog::default();
        write(&mut log, &store, 1, 0, 1); // lost
        write(&mut log, &store, 2, 1, 2); // survives
        write(&mut log, &store, 3, 2, 3); // its first sector is lost
        write(&mut log, &store, 4, 0, 4); // never acknowledged
        (1..=3).for_each(|id| log.acknowledged(RequestId(id), false));
        let lost = [
            LostWrite { id: RequestId(1), lba: Lba(0), sectors: 2 },
            LostWrite { id: RequestId(3), lba: Lba(2), sectors: 1 },
        ];
        log.power_cut(&mut &store, &lost).unwrap();
        assert_eq!(sectors(&store), [0, 2, 2, 3]);
    }

    #[test]
    fn a_misdirected_write_that_is_lost_is_gone_from_where_it_landed() {
        // Beyond its own length, inside of it, and in part.
        for (by, lost_sectors, expected) in
            [(2, 2, [7, 7, 7, 7]), (1, 2, [7, 7, 7, 7]), (2, 1, [7, 7, 7, 1])]
        {
            let store = Store::memory(Bytes::from_mib(1)).unwrap();
            store.write(0, &[7; 4 * 512]).unwrap();
            let mut log = VolatileLog::default();
            let at = by * SECTOR_BYTES;
            log.before_write(&store, WriteTicket(1), (0, at), 1024).unwrap();
            store.write(at, &[1; 1024]).unwrap();
            log.submitted(WriteTicket(1), RequestId(1));
            log.acknowledged(RequestId(1), false);
            let lost = [LostWrite { id: RequestId(1), lba: Lba(0), sectors: lost_sectors }];
            log.power_cut(&mut &store, &lost).unwrap();
            assert_eq!(sectors(&store), expected, "by {by}, {lost_sectors} sectors");
        }
    }

    #[test]
    fn a_durable_write_over_one_at_risk_is_kept_in_mind() {
        let store = Store::memory(Bytes::from_mib(1)).unwrap();
        let mut log = VolatileLog::default();
        write(&mut log, &store, 1, 0, 1); // lost
        write(&mut log, &store, 2, 0, 2); // durable
        (1..=2).for_each(|id| log.acknowledged(RequestId(id), false));
        let lost = [LostWrite { id: RequestId(1), lba: Lba(0), sectors: 2 }];
        log.prune(&lost);
        log.power_cut(&mut &store, &lost).unwrap();
        assert_eq!(sectors(&store), [2, 2, 0, 0]);
    }

    #[test]
    fn durable_writes_are_forgotten_and_what_never_came_to_the_store_costs_nothing() {
        let store = Store::memory(Bytes::from_mib(1)).unwrap();
        let mut log = VolatileLog::default();
        write(&mut log, &store, 1, 0, 1);
        write(&mut log, &store, 2, 200, 2);
        log.acknowledged(RequestId(1), false);
        log.prune(&[]);
        assert_eq!(log.bytes(), 1024);
        log.submitted(WriteTicket(3), RequestId(3));
        assert_eq!(log.ids.len(), 1);
        log.power_cut(&mut &store, &[]).unwrap();
        assert_eq!(sectors(&store), [1, 1, 0, 0]);
    }

    #[test]
    fn only_a_flush_that_came_later_makes_a_write_safe() {
        let store = Store::memory(Bytes::from_mib(1)).unwrap();
        let mut log = VolatileLog::default();
        log.keep_contract(true, SECTOR_BYTES);
        let id = |number| RequestId(number);
        write(&mut log, &store, 1, 0, 1);
        write(&mut log, &store, 2, 1, 2);
        log.acknowledged(id(1), false);
        log.flush_came(id(9));
        log.acknowledged(id(2), false); // after the flush had come
        let sectors_at_risk = |log: &VolatileLog| -> Vec<u64> {
            log.at_risk().iter().map(|write| write.offset / SECTOR_BYTES).collect()
        };
        assert_eq!(sectors_at_risk(&log), [0, 1]);
        log.flush_done(id(9));
        // The device may say what it likes.
        log.prune(&[]);
        assert_eq!(sectors_at_risk(&log), [1]);
        let mut flushed = log.clone();
        assert!(flushed.has_at_risk());
        flushed.flush_came(id(10));
        flushed.flush_done(id(10));
        assert!(!flushed.has_at_risk() && flushed.bytes() == 0);
        write(&mut log, &store, 3, 2, 3);
        log.acknowledged(id(3), true);
        assert_eq!(sectors_at_risk(&log), [1]);

        let cut = |fate| {
            let copy = store.fork(Bytes::from_mib(2)).unwrap();
            log.clone().power_cut_as(&mut &copy, &[fate]).unwrap();
            sectors(&copy)
        };
        assert_eq!(cut(Fate::Lost), [1, 1, 3, 3]);
        assert_eq!(cut(Fate::Kept), [1, 2, 3, 3]);
        assert_eq!(cut(Fate::Torn(1)), [1, 2, 3, 3]);
        assert_eq!(cut(Fate::Torn(0)), [1, 1, 3, 3]);
    }

    #[test]
    fn a_long_write_is_not_torn_in_steps() {
        const SECTORS: usize = 256;
        let store = Store::memory(Bytes::from_mib(1)).unwrap();
        let mut log = VolatileLog::default();
        log.keep_contract(true, SECTOR_BYTES);
        let bytes = SECTORS * SECTOR_BYTES as usize;
        log.before_write(&store, WriteTicket(1), (0, 0), bytes).unwrap();
        store.write(0, &vec![1; bytes]).unwrap();
        log.power_cut_as(&mut &store, &[Fate::Torn(0x0123_4567_89ab_cdef)]).unwrap();
        let mut found = vec![0; bytes];
        store.read(0, &mut found).unwrap();
        let there: Vec<u8> = found.chunks(512).map(|sector| sector[0]).collect();
        let kept = there.iter().filter(|&&there| there == 1).count();
        assert!((SECTORS / 3..2 * SECTORS / 3).contains(&kept), "{kept} of {SECTORS}");
        for step in 1..=SECTORS / 2 {
            assert!(there[step..] != there[..SECTORS - step], "the same again after {step}");
        }
    }

    #[test]
    fn a_write_is_not_torn_inside_a_logical_block() {
        const BYTES: usize = 64 << 12;
        let store = Store::memory(Bytes::from_mib(1)).unwrap();
        let mut log = VolatileLog::default();
        log.keep_contract(true, 4096);
        log.before_write(&store, WriteTicket(1), (0, 0), BYTES).unwrap();
        store.write(0, &[1; BYTES]).unwrap();
        log.power_cut_as(&mut &store, &[Fate::Torn(0x0123_4567_89ab_cdef)]).unwrap();
        let mut found = vec![0; BYTES];
        store.read(0, &mut found).unwrap();
        let kept = found.chunks(4096).filter(|block| block.iter().all(|&byte| byte == 1)).count();
        let lost = found.chunks(4096).filter(|block| block.iter().all(|&byte| byte == 0)).count();
        assert_eq!(kept + lost, 64, "a block is there in part");
        assert!(kept > 20 && lost > 20, "{kept} and {lost}");
    }

    #[test]
    fn what_a_device_without_a_cache_has_done_is_safe() {
        let store = Store::memory(Bytes::from_mib(1)).unwrap();
        let mut log = VolatileLog::default();
        log.keep_contract(false, SECTOR_BYTES);
        write(&mut log, &store, 1, 0, 1);
        write(&mut log, &store, 2, 1, 2);
        assert_eq!(log.at_risk().len(), 2);
        log.acknowledged(RequestId(2), false);
        assert!(matches!(log.at_risk()[..], [AtRisk { offset: 0, .. }]), "{:?}", log.at_risk());
        log.power_cut_as(&mut &store, &[Fate::Lost]).unwrap();
        assert_eq!(sectors(&store), [0, 2, 2, 0]);
    }
}

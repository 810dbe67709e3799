//! A log record: a head page with entries, followed by the payload of those that carry one.
//!
//! Records are numbered without a gap and name the checksum of their predecessor. A record counts
//! when its head and every block of payload match their checksums; there is no separate commit.

use super::crc::crc32c;
use super::field::{Reader, Writer};
use super::page::{BODY_BYTES, Damage, PAGE_BYTES, PageAddress, PageKind, open_own, seal};

const FIXED_BYTES: usize = 4 * 8 + 2 * 4;
const ENTRY_BYTES: usize = 2 * 8 + 4 + 1;

/// What an entry says of its blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EntryKind {
    /// The newest content is on this device's home position (rule R1).
    Reference = 0,
    /// The newest content is zeros.
    Zero = 1,
    /// The newest content follows in the record.
    Payload = 2,
}

/// One entry: some blocks and their newest write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First block.
    pub block: u64,
    /// The write's number: greater is newer.
    pub sequence: u64,
    /// What is said of the blocks.
    pub kind: EntryKind,
    /// A checksum per block, as [`super::sums::BlockSums`]. Its length is the number of blocks.
    pub sums: Box<[u32]>,
}

/// The head of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Counts the records of this device.
    pub number: u64,
    /// Records before this number are retired (rule R3).
    pub tail: u64,
    /// The start of the array that wrote it.
    pub incarnation: u64,
    /// The epoch it closes.
    pub epoch: u64,
    /// [`Record::chain`] of its predecessor; 0 for the first of an incarnation.
    pub previous: u32,
    /// What it says.
    pub entries: Vec<Entry>,
}

impl Record {
    /// Does one more entry of so many blocks fit into the head beside `entries`?
    pub fn fits(entries: &[Entry], blocks: usize) -> bool {
        let bytes: usize = entries.iter().map(|e| ENTRY_BYTES + 4 * e.sums.len()).sum();
        FIXED_BYTES + bytes + ENTRY_BYTES + 4 * blocks <= BODY_BYTES
    }

    /// Pages of payload that follow the head.
    pub fn payload_pages(&self) -> u32 {
        let payload = self.entries.iter().filter(|e| e.kind == EntryKind::Payload);
        payload.map(|e| e.sums.len() as u32).sum()
    }

    /// What the successor names: a digest of number, incarnation and every checksum.
    pub fn chain(&self) -> u32 {
        let mut crc = crc32c(self.previous, &self.number.to_le_bytes());
        crc = crc32c(crc, &self.incarnation.to_le_bytes());
        for entry in &self.entries {
            crc = crc32c(crc, &entry.sequence.to_le_bytes());
            for sum in &entry.sums {
                crc = crc32c(crc, &sum.to_le_bytes());
            }
        }
        crc
    }

    /// The head page for `place`.
    pub fn encode(&self, array: u128, place: PageAddress) -> Box<[u8; PAGE_BYTES]> {
        let mut w = Writer::default();
        for value in [self.number, self.tail, self.incarnation, self.epoch] {
            w.u64(value);
        }
        w.u32(self.previous);
        w.u32(self.entries.len() as u32);
        for entry in &self.entries {
            w.u64(entry.block);
            w.u64(entry.sequence);
            w.u32(entry.sums.len() as u32);
            w.u8(entry.kind as u8);
            entry.sums.iter().for_each(|&sum| w.u32(sum));
        }
        seal(PageKind::Record, array, place, &w.0)
    }

    /// Read the head page at `place`.
    ///
    /// # Errors
    /// The first thing wrong with the page.
    pub fn decode(array: u128, place: PageAddress, page: &[u8]) -> Result<Record, Damage> {
        let mut r = Reader::new(open_own(PageKind::Record, array, place, page)?);
        let number = r.u64("number")?;
        let offset = r.offset();
        let tail = r.u64("tail")?;
        if tail > number {
            let expected = "no later than the record's own number";
            return Err(Damage::Field { name: "tail", offset, value: tail, expected });
        }
        let incarnation = r.u64("incarnation")?;
        let epoch = r.u64("epoch")?;
        let previous = r.u32("previous")?;
        let count = r.count("entries", ENTRY_BYTES)?;
        let entries = (0..count).map(|_| entry(&mut r)).collect::<Result<_, _>>()?;
        Ok(Record { number, tail, incarnation, epoch, previous, entries })
    }
}

fn entry(r: &mut Reader<'_>) -> Result<Entry, Damage> {
    let block = r.u64("entry block")?;
    let sequence = r.u64("entry sequence")?;
    let blocks = r.count("entry blocks", 4)?;
    let kind = match r.below(3, "entry kind", "0 reference, 1 zero, 2 payload")? {
        0 => EntryKind::Reference,
        1 => EntryKind::Zero,
        _ => EntryKind::Payload,
    };
    let sums = (0..blocks).map(|_| r.u32("entry sum")).collect::<Result<_, _>>()?;
    Ok(Entry { block, sequence, kind, sums })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: PageAddress = PageAddress { device: 2, page: 40 };

    fn sample() -> Record {
        let entry = |block, kind| Entry { block, sequence: 5, kind, sums: [1, 2].into() };
        let entries = vec![entry(9, EntryKind::Payload), entry(70, EntryKind::Reference)];
        Record { number: 12, tail: 10, incarnation: 2, epoch: 4, previous: 99, entries }
    }

    #[test]
    fn what_is_written_is_read() {
        let record = sample();
        let page = record.encode(7, HERE);
        assert_eq!(Record::decode(7, HERE, &page[..]).unwrap(), record);
        assert_eq!(record.payload_pages(), 2);
    }

    #[test]
    fn as_many_entries_as_fit() {
        let mut record = sample();
        while Record::fits(&record.entries, 2) {
            record.entries.push(record.entries[0].clone());
        }
        assert_eq!(Record::decode(7, HERE, &record.encode(7, HERE)[..]).unwrap(), record);
    }

    #[test]
    fn a_tail_in_the_future_is_refused() {
        let record = Record { tail: 13, ..sample() };
        let text = Record::decode(7, HERE, &record.encode(7, HERE)[..]).unwrap_err().to_string();
        assert_eq!(text, "byte 40: tail is 13, expected no later than the record's own number");
    }

    #[test]
    fn the_chain_depends_on_all_that_matters() {
        let record = sample();
        let mut other = record.clone();
        other.entries[0].sums[1] ^= 1;
        assert_ne!(record.chain(), other.chain());
        assert_ne!(record.chain(), Record { previous: 98, ..sample() }.chain());
    }
}

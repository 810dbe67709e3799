//! Reading a log: every page of the ring is looked at, the chain is followed from the last record
//! back to its tail. What is missing at the end is torn; what is missing before it is corrupt.

use std::collections::BTreeMap;

use super::Media;
use crate::format::Superblock;
use crate::format::record::{EntryKind, Record};
use crate::mutant::planted;
use crate::policy::Rules;
use crate::types::{Block, Slot};

/// What an unretired record says of one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) block: Block,
    pub(super) sequence: u64,
    pub(super) kind: EntryKind,
    /// Page of the ring with the payload.
    pub(super) page: u64,
    pub(super) sum: u32,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    pub(super) said: Vec<Said>,
    /// A number that no record on media has, nor any after it.
    pub(super) next: u64,
    /// The first record that should be there and is not.
    pub(super) hole: Option<u64>,
}

pub(super) fn scan<M: Media>(
    rules: &Rules,
    media: &mut M,
    slot: Slot,
    superblock: &Superblock,
    pages: u64,
) -> Result<Scan, M::Error> {
    let mut found: BTreeMap<u64, (u64, Record)> = BTreeMap::new();
    for page in 0..pages {
        let Some(record) = media.record(slot, page)? else { continue };
        let this_run = record.incarnation == superblock.incarnation;
        if this_run && record.number >= superblock.log_first {
            found.insert(record.number, (page, record));
        }
    }
    let mut scan = Scan::default();
    let last = found.keys().next_back().copied();
    scan.next = last.map_or(superblock.log_first, |last| last + 1);
    let Some(last) = last else { return Ok(scan) };
    // Only the last record can be torn: it was written alone, after all others were durable.
    let (page, record) = &found[&last];
    if !whole(media, slot, *page, record)? && !planted!(rules, TornTail) {
        found.remove(&last);
        let rotten = (superblock.log_first..last).next_back().filter(|n| !found.contains_key(n));
        if rotten.is_some() && !planted!(rules, TornHidesRot) {
            scan.hole = rotten;
            return Ok(scan);
        }
    }
    let Some((_, (_, newest))) = found.last_key_value() else { return Ok(scan) };
    let (tail, newest) = (newest.tail.max(superblock.log_first), newest.number);
    let mut previous: Option<&Record> = None;
    for number in tail..=newest {
        let Some((page, record)) = found.get(&number) else {
            scan.hole = Some(number);
            break;
        };
        let chained = previous.is_none_or(|previous| previous.chain() == record.previous);
        if !chained || (number != last && !whole(media, slot, *page, record)?) {
            scan.hole = Some(number);
            break;
        }
        say(&mut scan.said, *page, record);
        previous = Some(record);
    }
    if scan.hole.is_some() && planted!(rules, HoleIsTail) {
        scan.hole = None;
    }
    Ok(scan)
}

/// Does every block of payload match its checksum?
fn whole<M: Media>(
    media: &mut M,
    slot: Slot,
    page: u64,
    record: &Record,
) -> Result<bool, M::Error> {
    let mut said = Vec::new();
    say(&mut said, page, record);
    for said in said.iter().filter(|said| said.kind == EntryKind::Payload) {
        if !media.payload(slot, said.page, said.block, said.sum)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn say(all: &mut Vec<Said>, page: u64, record: &Record) {
    let mut payload = page + 1;
    for entry in &record.entries {
        for (block, &sum) in (entry.block..).zip(&entry.sums) {
            let (sequence, kind) = (entry.sequence, entry.kind);
            all.push(Said { block, sequence, kind, page: payload, sum });
            payload += u64::from(kind == EntryKind::Payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::Mutant;
    use crate::core::Meta;
    use crate::format::maps::{Activity, Bitmap, TablePage};
    use crate::format::record::Entry;
    use crate::types::Mode;

    /// A ring of records, one a page.
    struct Ring(Vec<Option<Record>>);

    impl Media for Ring {
        type Error = Infallible;

        fn record(&mut self, _: Slot, page: u64) -> Result<Option<Record>, Infallible> {
            Ok(self.0[page as usize].clone())
        }
        fn payload(&mut self, _: Slot, _: u64, _: Block, _: u32) -> Result<bool, Infallible> {
            Ok(false)
        }
        fn activity(&mut self, _: Slot) -> Result<Option<Activity>, Infallible> {
            unreachable!()
        }
        fn bitmap(&mut self, _: Slot, _: u64) -> Result<Option<Bitmap>, Infallible> {
            unreachable!()
        }
        fn table(&mut self, _: Slot, _: u64) -> Result<Option<TablePage>, Infallible> {
            unreachable!()
        }
        fn sum(&mut self, _: Slot, _: Block) -> Result<Option<u32>, Infallible> {
            unreachable!()
        }
        fn replay(&mut self, _: Slot, _: u64, _: Slot, _: Block) -> Result<(), Infallible> {
            unreachable!()
        }
        fn zero(&mut self, _: Slot, _: Block, _: u32) -> Result<(), Infallible> {
            unreachable!()
        }
        fn copy(&mut self, _: Slot, _: Slot, _: Block) -> Result<(), Infallible> {
            unreachable!()
        }
        fn flush(&mut self, _: Slot) -> Result<(), Infallible> {
            unreachable!()
        }
        fn meta(&mut self, _: Slot, _: Meta) -> Result<(), Infallible> {
            unreachable!()
        }
    }

    /// Five records in a chain, none of them retired.
    fn ring() -> Vec<Option<Record>> {
        let mut previous = 0;
        let record = |number| {
            let sums = [number as u32].into();
            let kind = EntryKind::Reference;
            let entries = vec![Entry { block: number, sequence: number, kind, sums }];
            let record =
                Record { number, tail: 1, incarnation: 3, epoch: number, previous, entries };
            previous = record.chain();
            Some(record)
        };
        (1..=5).map(record).collect()
    }

    fn scanned(rules: &Rules, ring: Vec<Option<Record>>) -> (Vec<Block>, Option<u64>) {
        let superblock = Superblock { incarnation: 3, log_first: 1, ..Superblock::default() };
        let pages = ring.len() as u64;
        let Ok(scan) = scan(rules, &mut Ring(ring), 0, &superblock, pages);
        (scan.said.iter().map(|said| said.block).collect(), scan.hole)
    }

    /// The torture cannot tell: a record that rots while only that log has what it said is more
    /// than one fault.
    #[test]
    fn a_record_that_is_gone_before_the_last_is_no_end() {
        let mut rules = Rules::new(Mode::Log);
        assert_eq!(scanned(&rules, ring()), (vec![1, 2, 3, 4, 5], None));
        let mut torn = ring();
        torn[4] = None;
        assert_eq!(scanned(&rules, torn), (vec![1, 2, 3, 4], None));
        let mut rotten = ring();
        rotten[2] = None;
        assert_eq!(scanned(&rules, rotten.clone()).1, Some(3));
        let mut strange = ring();
        strange[2].as_mut().unwrap().entries[0].sequence = 99;
        assert_eq!(scanned(&rules, strange).1, Some(4), "the next one names another");
        rules.mutant = Some(Mutant::HoleIsTail);
        assert_eq!(scanned(&rules, rotten).1, None, "the planted bug");
    }

    /// What record 4 retires would come back.
    #[test]
    fn a_record_that_is_gone_before_a_torn_one_is_no_end() {
        let mut rules = Rules::new(Mode::Log);
        let mut rotten = ring();
        rotten[4].as_mut().unwrap().entries[0].kind = EntryKind::Payload;
        assert_eq!(scanned(&rules, rotten.clone()), (vec![1, 2, 3, 4], None));
        rotten[3] = None;
        assert_eq!(scanned(&rules, rotten.clone()), (vec![], Some(4)));
        rules.mutant = Some(Mutant::TornHidesRot);
        assert_eq!(scanned(&rules, rotten), (vec![1, 2, 3], None), "the planted bug");
    }

    #[test]
    fn before_the_first_record_of_all_there_is_none_to_miss() {
        let entry = Entry { block: 7, sequence: 0, kind: EntryKind::Payload, sums: [7].into() };
        let torn = Record {
            number: 0,
            tail: 0,
            incarnation: 3,
            epoch: 0,
            previous: 0,
            entries: vec![entry],
        };
        let superblock = Superblock { incarnation: 3, log_first: 0, ..Superblock::default() };
        let mut ring = Ring(vec![Some(torn)]);
        let Ok(scan) = scan(&Rules::new(Mode::Log), &mut ring, 0, &superblock, 1);
        assert_eq!((scan.said.len(), scan.hole), (0, None));
    }
}

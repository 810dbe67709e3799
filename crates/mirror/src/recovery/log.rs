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

//! The list of live writes, and where each of them is.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use sim::{Nanos, snapshot_enum, snapshot_fields};

use super::event::{Content, HostId};
use super::io::WriteIndex;
use crate::types::{Block, DEVICES, LEGS, Slot, Span};

/// A write on one leg.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum OnLeg {
    /// The leg takes no part.
    #[default]
    None,
    Queued,
    Issued,
    /// Completed; perhaps only in the leg's cache.
    Done,
    Durable,
}

/// A write in one log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Logged {
    #[default]
    No,
    Wanted,
    InFlight,
    Durable,
}

snapshot_enum!(OnLeg { None, Queued, Issued, Done, Durable });
snapshot_enum!(Logged { No, Wanted, InFlight, Durable });

#[derive(Clone, Default, Debug)]
pub(super) struct Write {
    /// Greater is newer.
    pub(super) sequence: u64,
    pub(super) id: HostId,
    pub(super) span: Span,
    pub(super) content: Content,
    pub(super) fua: bool,
    pub(super) epoch: u64,
    /// When it was admitted.
    pub(super) since: Nanos,
    pub(super) sums: Vec<u32>,
    pub(super) legs: [OnLeg; LEGS],
    pub(super) payload: [Logged; DEVICES],
    pub(super) reference: [Logged; LEGS],
    pub(super) acked: bool,
    /// The first flush that covers it.
    pub(super) cover: Option<u64>,
    /// Safe enough for the flush or the FUA write.
    pub(super) satisfied: bool,
    pub(super) exposed: bool,
    /// Done everywhere; only the caps keep it from being acknowledged.
    pub(super) starved: bool,
    /// It is in the queue for room below the caps.
    pub(super) roomless: bool,
    /// Its records need not be kept (R3).
    pub(super) released: bool,
    /// The records that name it.
    pub(super) records: Vec<(Slot, u64)>,
    /// The version of the activity log that must be durable before it is issued.
    pub(super) activity: u64,
    /// It is over a lost block, whose mark it lifts.
    pub(super) lifts: bool,
    /// It fills a leg rather than being the host's; the number of the copy.
    pub(super) copy: Option<u32>,
    /// Its content is there.
    pub(super) ready: bool,
}

snapshot_fields!(Write {
    sequence,
    id,
    span,
    content,
    fua,
    epoch,
    since,
    sums,
    legs,
    payload,
    reference,
    acked,
    cover,
    satisfied,
    exposed,
    starved,
    roomless,
    released,
    records,
    activity,
    lifts,
    copy,
    ready,
});

/// A host write that is not admitted yet.
#[derive(Clone, Default, Debug)]
pub(super) struct Waiting {
    pub(super) id: HostId,
    pub(super) span: Span,
    pub(super) content: Content,
    pub(super) fua: bool,
    /// `None` until a partial write is merged.
    pub(super) sums: Option<Vec<u32>>,
    /// The read of a partial write has begun.
    pub(super) reading: bool,
}

snapshot_fields!(Waiting { id, span, content, fua, sums, reading });

impl Waiting {
    pub(super) fn id(&self) -> HostId {
        self.id
    }
}

#[derive(Clone, Debug)]
pub(super) struct Writes {
    pub(super) slab: Vec<Option<Write>>,
    pub(super) free: Vec<WriteIndex>,
    /// Live writes per block, oldest first.
    pub(super) chains: BTreeMap<Block, Vec<WriteIndex>>,
    pub(super) spare: Vec<Vec<WriteIndex>>,
    pub(super) live: u32,
    pub(super) next_sequence: u64,
    pub(super) epoch: u64,
    pub(super) live_blocks: u64,
    pub(super) exposed_blocks: u64,
    pub(super) exposed: VecDeque<(WriteIndex, u64, Nanos)>,
    /// Writes that are not acknowledged, and since when, oldest first.
    pub(super) unanswered: VecDeque<(WriteIndex, u64, Nanos)>,
    /// Writes that only the caps keep from being acknowledged.
    pub(super) starved: u32,
    /// Writes that one leg has and that wait for room below the caps, with their numbers.
    pub(super) roomless: VecDeque<(WriteIndex, u64)>,
    pub(super) recheck: Vec<WriteIndex>,
    pub(super) recheck_all: bool,
}

// `spare` only saves allocations.
snapshot_fields!(Writes {
    slab,
    free,
    chains,
    live,
    next_sequence,
    epoch,
    live_blocks,
    exposed_blocks,
    exposed,
    unanswered,
    starved,
    roomless,
    recheck,
    recheck_all,
});

impl Writes {
    pub(super) fn new(incarnation: u64) -> Writes {
        Writes {
            slab: Vec::new(),
            free: Vec::new(),
            chains: BTreeMap::new(),
            spare: Vec::new(),
            live: 0,
            // Numbers never repeat, whatever was lost: each start has its own range.
            next_sequence: (incarnation << 40) + 1,
            epoch: 1,
            live_blocks: 0,
            exposed_blocks: 0,
            exposed: VecDeque::new(),
            unanswered: VecDeque::new(),
            starved: 0,
            roomless: VecDeque::new(),
            recheck: Vec::new(),
            recheck_all: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(super) fn get(&self, index: WriteIndex) -> &Write {
        self.slab[index as usize].as_ref().expect("the write is live")
    }

    pub(super) fn get_mut(&mut self, index: WriteIndex) -> &mut Write {
        self.slab[index as usize].as_mut().expect("the write is live")
    }

    /// The live write with this number, if it still is.
    pub(super) fn find(&mut self, index: WriteIndex, sequence: u64) -> Option<&mut Write> {
        self.slab[index as usize].as_mut().filter(|write| write.sequence == sequence)
    }

    pub(super) fn indices(&self) -> Vec<WriteIndex> {
        let live = self.slab.iter().enumerate().filter(|(_, write)| write.is_some());
        live.map(|(index, _)| index as WriteIndex).collect()
    }

    pub(super) fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    pub(super) fn insert(&mut self, write: Write) -> WriteIndex {
        let span = write.span;
        let index = match self.free.pop() {
            Some(index) => {
                self.slab[index as usize] = Some(write);
                index
            }
            None => {
                self.slab.push(Some(write));
                self.slab.len() as WriteIndex - 1
            }
        };
        for block in span.iter() {
            let spare = &mut self.spare;
            let chain = self.chains.entry(block);
            chain.or_insert_with(|| spare.pop().unwrap_or_default()).push(index);
        }
        self.live += 1;
        index
    }

    /// A copy takes its place among the writes of its blocks.
    pub(super) fn insert_copy(&mut self, span: Span, legs: [OnLeg; LEGS], copy: u32) -> WriteIndex {
        let sequence = self.sequence();
        let copy = Some(copy);
        self.insert(Write { sequence, span, legs, copy, ..Write::default() })
    }

    /// Take a write out; whatever comes after it may be able to go on.
    pub(super) fn remove(&mut self, index: WriteIndex) -> Write {
        let write = self.slab[index as usize].take().expect("the write is live");
        self.free.push(index);
        self.live -= 1;
        for block in write.span.iter() {
            let Entry::Occupied(mut chain) = self.chains.entry(block) else {
                unreachable!("a live write is in its chains");
            };
            chain.get_mut().retain(|&member| member != index);
            match chain.get().first() {
                Some(&next) => self.recheck.push(next),
                None => self.spare.push(chain.remove()),
            }
        }
        write
    }

    /// Look at this write again soon.
    pub(super) fn recheck_later(&mut self, index: WriteIndex) {
        self.recheck.push(index);
    }

    /// The live writes of each block of `span` that has some, oldest first.
    pub(super) fn chains(&self, span: Span) -> impl Iterator<Item = &[WriteIndex]> {
        self.chains.range(span.iter()).map(|(_, chain)| chain.as_slice())
    }

    /// Is `index` the oldest live write of each of its blocks?
    pub(super) fn oldest(&self, index: WriteIndex) -> bool {
        self.chains(self.get(index).span).all(|chain| chain.first() == Some(&index))
    }

    /// The newest host write of a block.
    pub(super) fn newest(&self, block: Block) -> Option<&Write> {
        let chain = self.chains.get(&block)?;
        chain.iter().rev().map(|&index| self.get(index)).find(|write| write.copy.is_none())
    }

    pub(super) fn oldest_exposed(&self) -> Option<Nanos> {
        self.exposed.front().map(|&(.., since)| since)
    }

    /// Since when the oldest write that is not acknowledged has waited for that.
    pub(super) fn oldest_unanswered(&self) -> Option<Nanos> {
        self.unanswered.front().map(|&(.., since)| since)
    }

    /// Forget those that are acknowledged.
    pub(super) fn trim_unanswered(&mut self) {
        while let Some(&(index, sequence, _)) = self.unanswered.front() {
            let write = self.slab[index as usize].as_ref();
            if write.is_some_and(|write| write.sequence == sequence && !write.acked) {
                return;
            }
            self.unanswered.pop_front();
        }
    }

    /// Forget exposed writes that no longer are.
    pub(super) fn trim_exposed(&mut self) {
        while let Some(&(index, sequence, _)) = self.exposed.front() {
            let write = self.slab[index as usize].as_ref();
            if write.is_some_and(|write| write.sequence == sequence && write.exposed) {
                return;
            }
            self.exposed.pop_front();
        }
    }
}

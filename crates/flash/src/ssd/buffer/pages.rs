//! The pages in the write buffer, found by their logical page: a hash table of chains that run
//! through the pages themselves. Nothing but [`Pages::sorted`] depends on where a page lies.

use sim::snapshot_fields;

use super::absorbed::List;
use super::writer::Writer;

/// No page: the end of a chain.
const NONE: u32 = u32::MAX;

/// A page in the buffer.
#[derive(Clone, Default, Debug)]
pub(super) struct Page {
    pub(super) lpn: u32,
    /// The next page of its chain, or of those that are free.
    next: u32,
    /// When it became dirty, as a count; 0 is no page.
    pub(super) dirty: u64,
    /// When it became dirty again while its program is under way; 0 when it did not.
    pub(super) again: u64,
    /// Its program is under way; the data in RAM may be newer (`again`).
    pub(super) programming: bool,
    /// Programs of data that newer ones did not take the place of, waiting and under way.
    pub(super) older_waiting: u32,
    pub(super) older_programming: u32,
    pub(super) stream: u16,
    /// Writes whose newest data is here only, for the account after a power failure.
    pub(super) writers: Vec<Writer>,
    /// The same for the data being programmed.
    pub(super) programmed_writers: Vec<Writer>,
    /// Writes that `writers` cover: what they wrote was never programmed, and comes with these.
    pub(super) absorbed: List,
    /// The same for the data being programmed.
    pub(super) programmed_absorbed: List,
}

snapshot_fields!(Page {
    lpn,
    dirty,
    again,
    programming,
    older_waiting,
    older_programming,
    stream,
    writers,
    programmed_writers,
    absorbed,
    programmed_absorbed
});

/// How many sectors of `from..to` some of these writes cover.
fn covered(writers: &[Writer], from: u64, to: u64) -> u32 {
    let (mut at, mut sectors) = (from, 0);
    while at < to {
        let reached = writers.iter().filter(|writer| writer.lba <= at).map(Writer::end).max();
        match reached.filter(|&end| end > at) {
            Some(end) => {
                sectors += end.min(to) - at;
                at = end;
            }
            None => match writers.iter().map(|writer| writer.lba).filter(|&lba| lba > at).min() {
                Some(next) => at = next,
                None => break,
            },
        }
    }
    sectors as u32
}

impl Page {
    /// The count of its newest data.
    #[inline]
    pub(super) fn newest(&self) -> u64 {
        if self.again > 0 { self.again } else { self.dirty }
    }

    /// Its newest data wait for their program.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.dirty > 0 && (!self.programming || self.again > 0)
    }

    /// Its newest data are of this count now, and were of another one that waits.
    pub(super) fn again_at(&mut self, count: u64) {
        *(if self.again > 0 { &mut self.again } else { &mut self.dirty }) = count;
    }

    /// A write came; those that it covers leave the list, and `absorb` has them.
    #[inline]
    pub(super) fn written_by(&mut self, writer: Writer, mut absorb: impl FnMut(&mut List, Writer)) {
        let absorbed = &mut self.absorbed;
        self.writers.retain(|other| {
            let covered = writer.covers(other);
            if covered {
                absorb(absorbed, *other);
            }
            !covered
        });
        self.writers.push(writer);
    }

    /// How many sectors of `from..to` it has. A program completes the page first.
    #[inline]
    pub(super) fn has(&self, from: u64, to: u64) -> u32 {
        if self.programming { (to - from) as u32 } else { covered(&self.writers, from, to) }
    }

    /// How many sectors of it the program under way writes.
    #[inline]
    pub(super) fn programmed_sectors(&self) -> u32 {
        covered(&self.programmed_writers, 0, u64::MAX)
    }
}

/// Where a page lies until it is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(u32);

#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// The first page of each chain. Their number is a power of two and at least that of the pages.
    heads: Vec<u32>,
    /// Pages, and places of removed ones, whose lists of writers keep their memory.
    pages: Vec<Page>,
    free: u32,
    len: usize,
}

impl Pages {
    pub(super) fn new() -> Pages {
        Pages { heads: vec![NONE; 64], pages: Vec::new(), free: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn chain(&self, lpn: u32) -> usize {
        // The upper bits of a product with 2^32 / golden ratio: neighbours are spread evenly.
        let bits = self.heads.len().trailing_zeros();
        (lpn.wrapping_mul(0x9E37_79B9) >> (32 - bits)) as usize
    }

    #[inline]
    pub(super) fn find(&self, lpn: u32) -> Option<Slot> {
        let mut slot = self.heads[self.chain(lpn)];
        while slot != NONE {
            let page = &self.pages[slot as usize];
            if page.lpn == lpn {
                return Some(Slot(slot));
            }
            slot = page.next;
        }
        None
    }

    #[inline]
    pub(super) fn get(&self, slot: Slot) -> &Page {
        &self.pages[slot.0 as usize]
    }

    #[inline]
    pub(super) fn at(&mut self, slot: Slot) -> &mut Page {
        &mut self.pages[slot.0 as usize]
    }

    /// Add a page that is not there yet, with nothing in it.
    #[inline]
    pub(super) fn insert(&mut self, lpn: u32) -> Slot {
        if self.len == self.heads.len() {
            self.grow();
        }
        let slot = match self.free {
            NONE => {
                self.pages.push(Page::default());
                self.pages.len() as u32 - 1
            }
            free => {
                self.free = self.pages[free as usize].next;
                free
            }
        };
        self.pages[slot as usize].lpn = lpn;
        self.link(slot);
        self.len += 1;
        Slot(slot)
    }

    /// Put a page in front of its chain.
    #[inline]
    fn link(&mut self, slot: u32) {
        let chain = self.chain(self.pages[slot as usize].lpn);
        self.pages[slot as usize].next = std::mem::replace(&mut self.heads[chain], slot);
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) {
        let Slot(slot) = slot;
        let chain = self.chain(self.pages[slot as usize].lpn);
        let next = self.pages[slot as usize].next;
        let mut before = self.heads[chain];
        if before == slot {
            self.heads[chain] = next;
        } else {
            while self.pages[before as usize].next != slot {
                before = self.pages[before as usize].next;
            }
            self.pages[before as usize].next = next;
        }
        let page = &mut self.pages[slot as usize];
        (page.dirty, page.again, page.programming) = (0, 0, false);
        (page.older_waiting, page.older_programming) = (0, 0);
        page.writers.clear();
        page.programmed_writers.clear();
        (page.absorbed, page.programmed_absorbed) = (List::default(), List::default());
        page.next = self.free;
        self.free = slot;
        self.len -= 1;
    }

    #[cold]
    fn grow(&mut self) {
        self.heads = vec![NONE; 2 * self.heads.len()];
        for slot in 0..self.pages.len() as u32 {
            if self.pages[slot as usize].dirty > 0 {
                self.link(slot);
            }
        }
    }

    /// All pages, as they lie.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Page> {
        self.pages.iter_mut().filter(|page| page.dirty > 0)
    }

    /// All pages by logical page.
    pub(super) fn sorted(&self) -> Vec<Page> {
        let mut pages: Vec<Page> =
            self.pages.iter().filter(|page| page.dirty > 0).cloned().collect();
        pages.sort_unstable_by_key(|page| page.lpn);
        pages
    }

    /// These pages and no others.
    pub(super) fn replace(&mut self, pages: Vec<Page>) {
        *self = Pages::new();
        for page in pages {
            let Slot(slot) = self.insert(page.lpn);
            let next = self.pages[slot as usize].next;
            self.pages[slot as usize] = Page { next, ..page };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_sector_that_was_written_twice_counts_once() {
        let writer = |(lba, sectors)| Writer { id: 0, lba, sectors };
        let of = |writes: &[(u64, u32)], from, to| {
            let writers: Vec<Writer> = writes.iter().copied().map(writer).collect();
            covered(&writers, from, to)
        };
        assert_eq!(of(&[(0, 16), (8, 16)], 0, 32), 24);
        assert_eq!(of(&[(8, 16), (0, 16)], 0, u64::MAX), 24);
        assert_eq!(of(&[(24, 8), (0, 8)], 0, 32), 16);
        assert_eq!(of(&[(24, 8), (0, 8), (4, 24)], 2, 30), 28);
        assert_eq!(of(&[(24, 8), (0, 8)], 8, 24), 0);
        assert_eq!(of(&[], 8, 24), 0);
    }

    #[test]
    fn it_is_a_map_by_logical_page() {
        let mut rng = sim::Rng::new(3, "pages");
        let (mut pages, mut plain) = (Pages::new(), BTreeMap::new());
        for step in 1..30_000u64 {
            let lpn = rng.below(400) as u32 * 64;
            match pages.find(lpn) {
                Some(slot) => {
                    assert_eq!(plain.get(&lpn), Some(&pages.at(slot).dirty));
                    if rng.below(2) == 0 {
                        pages.remove(slot);
                        plain.remove(&lpn);
                    }
                }
                None => {
                    assert!(!plain.contains_key(&lpn));
                    let slot = pages.insert(lpn);
                    let page = pages.at(slot);
                    assert!(page.newest() == 0 && page.writers.is_empty() && !page.programming);
                    page.dirty = step;
                    page.writers.push(Writer::default());
                    plain.insert(lpn, step);
                }
            }
            assert_eq!(pages.len(), plain.len());
            if step % 1_000 == 0 {
                let sorted = pages.sorted();
                let both = |page: &Page| (page.lpn, page.dirty);
                let expected: Vec<_> = plain.iter().map(|(&lpn, &dirty)| (lpn, dirty)).collect();
                assert_eq!(sorted.iter().map(both).collect::<Vec<_>>(), expected);
                pages.replace(sorted);
            }
        }
        assert!(pages.heads.len() > 64, "it grew");
    }
}

//! Maps kept in memory: checksums per block, bits per region.

use std::collections::BTreeMap;

use crate::format::maps::{LOST, SUMS_PER_PAGE};
use crate::types::{Block, Span};

/// Checksum and tag of each block of a page.
type Page = Vec<(u32, u32)>;

/// The recorded checksum of every block that was written, page by page as it is on media.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pages: Vec<Option<Page>>,
    /// How many blocks of a page are lost, for pages with any.
    lost: BTreeMap<u64, u32>,
}

sim::snapshot_fields!(Table { pages, lost });

impl Table {
    /// Nothing is known of `blocks` blocks.
    pub fn new(blocks: u64) -> Table {
        let pages = vec![None; blocks.div_ceil(SUMS_PER_PAGE) as usize];
        Table { pages, lost: BTreeMap::new() }
    }

    /// The page of a block.
    pub fn page_of(block: Block) -> u64 {
        block / SUMS_PER_PAGE
    }

    /// (checksum, tag) of a block, if known. The tag is 0 for nothing else.
    #[inline]
    pub fn get(&self, block: Block) -> Option<(u32, u32)> {
        let page = self.pages[Table::page_of(block) as usize].as_ref()?;
        let entry = page[(block % SUMS_PER_PAGE) as usize];
        (entry.1 != 0).then_some(entry)
    }

    /// Record the checksum of the write with number `sequence`.
    #[inline]
    pub fn set(&mut self, block: Block, sum: u32, sequence: u64) {
        self.put(block, (sum, (sequence as u32).max(1)));
    }

    /// Nothing is known of this block any more.
    pub fn forget(&mut self, block: Block) {
        if self.pages[Table::page_of(block) as usize].is_some() {
            self.put(block, (0, 0));
        }
    }

    /// The content of this block could be read from no leg: it is lost until somebody writes it.
    pub fn lose(&mut self, block: Block) {
        self.put(block, LOST);
    }

    #[inline]
    fn put(&mut self, block: Block, entry: (u32, u32)) {
        let index = Table::page_of(block);
        let page = &mut self.pages[index as usize];
        let page = page.get_or_insert_with(|| vec![(0, 0); SUMS_PER_PAGE as usize]);
        let before = std::mem::replace(&mut page[(block % SUMS_PER_PAGE) as usize], entry);
        if (before == LOST) != (entry == LOST) {
            self.count_lost(index);
        }
    }

    fn count_lost(&mut self, index: u64) {
        let page = self.pages[index as usize].iter().flatten();
        match page.filter(|&&entry| entry == LOST).count() {
            0 => self.lost.remove(&index),
            count => self.lost.insert(index, count as u32),
        };
    }

    /// Is it lost?
    #[inline]
    pub fn is_lost(&self, block: Block) -> bool {
        let index = Table::page_of(block);
        self.lost.contains_key(&index)
            && self.pages[index as usize]
                .as_ref()
                .is_some_and(|page| page[(block % SUMS_PER_PAGE) as usize] == LOST)
    }

    /// The first lost block of a span, if any.
    pub fn first_lost(&self, span: Span) -> Option<Block> {
        if self.lost.is_empty() {
            return None;
        }
        span.iter().find(|&block| self.is_lost(block))
    }

    /// How many blocks are lost.
    pub fn lost(&self) -> u64 {
        self.lost.values().map(|&count| u64::from(count)).sum()
    }

    /// The first `most` ranges of lost blocks.
    pub fn lost_ranges(&self, most: usize) -> Vec<Span> {
        let mut ranges: Vec<Span> = Vec::new();
        for &index in self.lost.keys() {
            let start = index * SUMS_PER_PAGE;
            for block in (start..start + SUMS_PER_PAGE).filter(|&block| self.is_lost(block)) {
                let full = ranges.len() == most;
                match ranges.last_mut() {
                    Some(last) if last.end() == block => last.blocks += 1,
                    _ if full => return ranges,
                    _ => ranges.push(Span::new(block, 1)),
                }
            }
        }
        ranges
    }

    /// A page as it goes to media, if anything of it is known.
    pub fn page(&self, index: u64) -> Option<&[(u32, u32)]> {
        self.pages[index as usize].as_deref()
    }

    /// Take a page as it came from media.
    pub fn load(&mut self, index: u64, sums: &[(u32, u32)]) {
        if let Some(page) = self.pages.get_mut(index as usize) {
            *page = Some(sums.into());
            self.count_lost(index);
        }
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.pages.len() as u64
    }
}

/// A set of regions.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    words: Vec<u64>,
    region_blocks: u64,
    count: u64,
}

sim::snapshot_fields!(Regions { words, region_blocks, count });

impl Regions {
    /// No region of `blocks` blocks.
    pub fn new(blocks: u64, region_blocks: u32) -> Regions {
        let region_blocks = u64::from(region_blocks);
        let regions = blocks.div_ceil(region_blocks);
        Regions { words: vec![0; regions.div_ceil(64) as usize], region_blocks, count: 0 }
    }

    /// Add the regions that `span` touches.
    pub fn insert(&mut self, span: Span) {
        for region in span.start / self.region_blocks..=(span.end() - 1) / self.region_blocks {
            let word = &mut self.words[(region / 64) as usize];
            self.count += u64::from(*word >> (region % 64) & 1 == 0);
            *word |= 1 << (region % 64);
        }
    }

    /// Remove one region.
    pub fn remove(&mut self, region: u64) {
        let word = &mut self.words[(region / 64) as usize];
        self.count -= *word >> (region % 64) & 1;
        *word &= !(1 << (region % 64));
    }

    /// Remove the regions that `span` touches.
    pub fn remove_span(&mut self, span: Span) {
        for region in span.start / self.region_blocks..=(span.end() - 1) / self.region_blocks {
            self.remove(region);
        }
    }

    /// Does `span` touch a region of the set?
    #[inline]
    pub fn touches(&self, span: Span) -> bool {
        self.count > 0
            && (span.start / self.region_blocks..=(span.end() - 1) / self.region_blocks)
                .any(|region| self.words[(region / 64) as usize] >> (region % 64) & 1 == 1)
    }

    /// Is `span` within the set?
    pub fn covers(&self, span: Span) -> bool {
        self.count > 0
            && (span.start / self.region_blocks..=(span.end() - 1) / self.region_blocks)
                .all(|region| self.words[(region / 64) as usize] >> (region % 64) & 1 == 1)
    }

    /// The first region from `from` on, if any.
    pub fn next(&self, from: u64) -> Option<u64> {
        let mut index = (from / 64) as usize;
        let mut word = self.words.get(index)? & (u64::MAX << (from % 64));
        while word == 0 {
            index += 1;
            word = *self.words.get(index)?;
        }
        Some(index as u64 * 64 + u64::from(word.trailing_zeros()))
    }

    /// Number of regions in the set.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// No region is in the set.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bits of one page of the bitmap.
    pub fn words(&self, first: usize, count: usize) -> Vec<u64> {
        let end = (first + count).min(self.words.len());
        self.words[first.min(end)..end].to_vec()
    }

    /// Add the bits of one page of the bitmap.
    pub fn merge(&mut self, first: usize, words: &[u64]) {
        for (mine, theirs) in self.words.iter_mut().skip(first).zip(words) {
            *mine |= theirs;
        }
        self.count = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
    }

    /// The blocks of a region, cut at the end of `blocks`.
    pub fn span(&self, region: u64, blocks: u64) -> Span {
        let start = region * self.region_blocks;
        Span::new(start, (blocks - start).min(self.region_blocks) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_counted_once() {
        let mut regions = Regions::new(1000, 10);
        regions.insert(Span::new(5, 10));
        regions.insert(Span::new(11, 1));
        assert_eq!((regions.len(), regions.next(0), regions.next(2)), (2, Some(0), None));
        assert!(regions.touches(Span::new(19, 5)) && !regions.touches(Span::new(20, 5)));
        assert!(regions.covers(Span::new(0, 20)) && !regions.covers(Span::new(0, 21)));
        regions.remove(0);
        regions.remove(0);
        assert_eq!((regions.len(), regions.next(0)), (1, Some(1)));
        assert_eq!(regions.span(99, 995), Span::new(990, 5));
        regions.merge(0, &[1 << 5]);
        assert_eq!((regions.len(), regions.words(0, 9)[0]), (2, 1 << 5 | 1 << 1));
    }

    #[test]
    fn the_table_knows_what_was_written() {
        let mut table = Table::new(1000);
        assert_eq!(table.get(999), None);
        table.set(999, 7, 1 << 32);
        assert_eq!(table.get(999), Some((7, 1)));
        assert!(table.page(0).is_none() && table.page(1).is_some());
        table.forget(999);
        assert_eq!(table.get(999), None);
    }

    #[test]
    fn a_lost_block_is_known_as_such_until_it_is_written() {
        let mut table = Table::new(2000);
        [3, 4, 5, 507, 508, 1999].iter().for_each(|&block| table.lose(block));
        assert_eq!((table.lost(), table.get(4), table.is_lost(4)), (6, None, true));
        let all = [Span::new(3, 3), Span::new(507, 2), Span::new(1999, 1)];
        assert_eq!(table.lost_ranges(9), all);
        assert_eq!(table.lost_ranges(2), all[..2]);
        assert_eq!(table.first_lost(Span::new(0, 4)), Some(3));
        assert_eq!(table.first_lost(Span::new(6, 400)), None);
        // As it is on media, so it is read back.
        let mut again = Table::new(2000);
        (0..table.pages()).for_each(|index| {
            if let Some(page) = table.page(index) {
                again.load(index, page);
            }
        });
        assert_eq!(again.lost_ranges(9), all);
        table.set(4, 7, 9);
        table.forget(3);
        assert_eq!((table.lost(), table.get(4), table.is_lost(3)), (4, Some((7, 9)), false));
    }
}

//! Many small files in neighbourhoods: requests to 64 KiB extents, some hot, some new.
//!
//! Files that are used together lie together. The next neighbourhood is drawn by how many others
//! were used since its last use (an LRU stack model), which gives the reuse of whole areas that
//! recorded workstations have; within it, some extents are popular and new ones follow in order.

use sim::{Lba, Op, Request, Rng};

use crate::distribution::{Once, RankOrder, Zipf};
use crate::size_mix::Deck;

/// Sectors per extent and per page, and pages per extent.
const EXTENT: u64 = 128;
const PAGE: u64 = 8;
const PAGES: u32 = (EXTENT / PAGE) as u32;
/// Extents per neighbourhood: 16 MiB; and how many of them are used before the next so many are.
/// Files lie where there was room, so neither starts where the disk's addresses are round nor lies
/// in the order of use.
const NEIGHBOURHOOD: u64 = 256;
const CLUSTER: u64 = 64;
/// Exponent of the LRU stack distances, fitted to the ARC traces P3, P6 and P12: the share of
/// accesses with distance w or more falls as w to the minus 0.3.
const DISTANCE: f64 = 0.3;

/// How the extents are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Neighbourhoods in use.
    pub(crate) neighbourhoods: u64,
    /// Share of the requests that go to another neighbourhood than the one before.
    pub(crate) wander: f64,
    /// Extents among which Zipf's law chooses, over all neighbourhoods, and its exponent.
    pub(crate) extents: u64,
    pub(crate) theta: f64,
    /// Share of first writes that open a new extent.
    pub(crate) new: f64,
    /// Share of the requests that continue the one before.
    pub(crate) sequential: f64,
    /// Share of writes.
    pub(crate) writes: f64,
    /// Share of the written pages that nobody wrote before.
    pub(crate) first_touch: f64,
}

/// Draws the places of the requests.
#[derive(Clone, Debug)]
pub(crate) struct Extents {
    habits: Habits,
    /// Which pages of each extent of the span were written.
    written: Vec<u16>,
    /// Neighbourhoods, the most recently used first.
    stack: Vec<u32>,
    /// Extents opened in each neighbourhood, and where its first one lies.
    opened: Vec<u16>,
    starts: Vec<u16>,
    /// Extents of a neighbourhood, and the order of use in a cluster of them.
    size: u64,
    scatter: Once,
    zipf: Zipf,
    rng: Rng,
    ops: Deck,
    /// Pages written so far, and those that were written for the first time.
    pages_written: u64,
    pages_first: u64,
    continues: Deck,
    last: Option<Request>,
}

impl Extents {
    /// Extents over the first `span` sectors, at least one extent.
    pub(crate) fn new(habits: Habits, span: u64, rng: Rng) -> Extents {
        let count = span / EXTENT;
        let cluster = CLUSTER.min(count);
        let size = NEIGHBOURHOOD.min(count) / cluster * cluster;
        let all = count / size;
        let used = habits.neighbourhoods.min(all).max(1);
        let order = Once::new(all, &mut rng.split("order"));
        let local = (habits.extents / used).clamp(1, size);
        let mut starts = rng.split("starts");
        Extents {
            habits,
            written: vec![0; count as usize],
            stack: (0..used).map(|index| order.at(index) as u32).collect(),
            opened: vec![0; all as usize],
            starts: (0..all).map(|_| starts.below(size) as u16).collect(),
            size,
            scatter: Once::new(cluster, &mut rng.split("scatter")),
            zipf: Zipf::new(local, habits.theta, RankOrder::Shift(0)),
            rng: rng.split("places"),
            ops: Deck::new(rng.split("ops")),
            pages_written: 0,
            pages_first: 0,
            continues: Deck::new(rng.split("continues")),
            last: None,
        }
    }

    /// One past the last sector of the span.
    pub(crate) fn end(&self) -> u64 {
        self.written.len() as u64 * EXTENT
    }

    /// The next request, of the given length.
    pub(crate) fn next_request(&mut self, sectors: u32) -> Request {
        let continues = self.continues.chance(self.habits.sequential);
        let last =
            self.last.filter(|last| continues && last.end().0 + u64::from(sectors) <= self.end());
        let request = match last {
            Some(last) => {
                let request = Request::new(last.op, last.end(), sectors);
                if request.op == Op::Write {
                    self.mark(&request);
                }
                request
            }
            None => {
                self.wander();
                if self.ops.chance(self.habits.writes) {
                    self.write(sectors)
                } else {
                    self.read(sectors)
                }
            }
        };
        self.last = Some(request);
        request
    }

    /// A write where nothing was written as long as such pages are behind their share, so that
    /// continued requests, which cannot choose, are made up for; otherwise an overwrite.
    pub(crate) fn write(&mut self, sectors: u32) -> Request {
        let pages = pages(sectors);
        let wanted = self.habits.first_touch * self.pages_written as f64;
        let fresh = self.pages_first as f64 <= wanted;
        let place = if fresh { self.clear_place(pages) } else { None };
        let (extent, page) = place.unwrap_or_else(|| self.written_place(pages));
        let request = Request::write(Lba(extent * EXTENT + u64::from(page) * PAGE), sectors);
        self.mark(&request);
        request
    }

    /// Go to a neighbourhood at a drawn distance in the stack.
    fn wander(&mut self) {
        if self.stack.len() > 1 && self.rng.chance(self.habits.wander) {
            let beyond = libm::pow(self.stack.len() as f64, -DISTANCE);
            let share = beyond + self.rng.unit() * (1.0 - beyond);
            let distance = libm::pow(share, -1.0 / DISTANCE) as usize;
            let place = distance.clamp(1, self.stack.len() - 1);
            self.stack[..=place].rotate_right(1);
        }
    }

    /// The extent of that rank in the present neighbourhood.
    fn extent(&self, rank: u64) -> u64 {
        let here = self.stack[0];
        let (cluster, place) = (rank / CLUSTER, rank % CLUSTER);
        let rank = cluster * CLUSTER + self.scatter.at(place);
        let start = u64::from(self.starts[here as usize]);
        u64::from(here) * self.size + (start + rank) % self.size
    }

    fn read(&mut self, sectors: u32) -> Request {
        let extent = self.popular();
        let room = u64::from(PAGES - pages(sectors)) + 1;
        Request::read(Lba(extent * EXTENT + self.rng.below(room) * PAGE), sectors)
    }

    fn popular(&mut self) -> u64 {
        let rank = self.zipf.draw(&mut self.rng);
        self.extent(rank)
    }

    /// A run of pages nobody wrote, in the extent that was opened last or in a new one.
    fn clear_place(&mut self, pages: u32) -> Option<(u64, u32)> {
        let here = self.stack[0] as usize;
        let mut opened = u64::from(self.opened[here]);
        if opened > 0 && !self.rng.chance(self.habits.new) {
            let extent = self.extent(opened - 1);
            if let Some(page) = clear_run(self.written[extent as usize], pages) {
                return Some((extent, page));
            }
        }
        while opened < self.size {
            let extent = self.extent(opened);
            opened += 1;
            self.opened[here] = opened as u16;
            if self.written[extent as usize] == 0 {
                return Some((extent, 0));
            }
        }
        None
    }

    /// A place that overlaps what was written, in an extent that is as popular as its rank.
    fn written_place(&mut self, pages: u32) -> (u64, u32) {
        let mut extent = self.popular();
        for _ in 0..8 {
            if self.written[extent as usize] != 0 {
                break;
            }
            extent = self.popular();
        }
        let mut rest = self.written[extent as usize];
        let nth = self.rng.below(u64::from(rest.count_ones().max(1)));
        (0..nth).for_each(|_| rest &= rest - 1);
        (extent, rest.trailing_zeros().min(PAGES - pages))
    }

    fn mark(&mut self, request: &Request) {
        for page in request.lba.0 / PAGE..request.end().0.div_ceil(PAGE) {
            let extent = (page / u64::from(PAGES)) as usize;
            let bit = 1 << (page % u64::from(PAGES));
            self.pages_written += 1;
            self.pages_first += u64::from(self.written[extent] & bit == 0);
            self.written[extent] |= bit;
        }
    }
}

/// The longest request, in sectors: one extent.
pub(crate) const SECTORS_MAX: u64 = EXTENT;

fn pages(sectors: u32) -> u32 {
    sectors.div_ceil(PAGE as u32).min(PAGES)
}

/// First of `pages` clear bits in a row.
fn clear_run(mask: u16, pages: u32) -> Option<u32> {
    let run = (1u32 << pages) - 1;
    (0..=PAGES - pages).find(|&page| u32::from(mask) & run << page == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_runs_are_found_where_they_are() {
        assert_eq!(clear_run(0, 16), Some(0));
        assert_eq!(clear_run(0b1, 16), None);
        assert_eq!(clear_run(0b1011, 1), Some(2));
        assert_eq!(clear_run(0xfff1, 3), Some(1));
        assert_eq!(clear_run(0xfff1, 4), None);
    }
}

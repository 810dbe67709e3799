//! What the collector moved while the table entry was on flash only.

use sim::snapshot_fields;

use crate::ssd::plan::NONE;

/// The moves that no map page tells of yet: found by map page, and by the plane they happened in.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    records: Vec<Record>,
    free: Vec<u32>,
    /// First record of each map page.
    heads: Vec<u32>,
    /// Records of each map page.
    counts: Vec<u32>,
    /// Records of each plane; those without a position were taken since.
    planes: Vec<Vec<u32>>,
}

/// One move.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// [`NONE`] when it was taken.
    position: u32,
    ppn: u32,
    /// Next record of the same map page.
    next: u32,
}

snapshot_fields!(Record { position, ppn, next });
snapshot_fields!(Moved { records, free, heads, counts, planes });

impl Moved {
    pub(super) fn new(pages: u32, planes: u32) -> Moved {
        Moved {
            records: Vec::new(),
            free: Vec::new(),
            heads: vec![NONE; pages as usize],
            counts: vec![0; pages as usize],
            planes: vec![Vec::new(); planes as usize],
        }
    }

    /// A page was moved, for the first time since its map page was written or once more.
    pub(super) fn insert(&mut self, position: u32, page: u32, plane: u32, ppn: u32) {
        if let Some(index) = self.find(position, page) {
            self.records[index as usize].ppn = ppn;
            return;
        }
        let next = self.heads[page as usize];
        let record = Record { position, ppn, next };
        let index = match self.free.pop() {
            Some(index) => {
                self.records[index as usize] = record;
                index
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        };
        self.heads[page as usize] = index;
        self.counts[page as usize] += 1;
        self.planes[plane as usize].push(index);
    }

    /// Moves of a map page.
    #[inline]
    pub(super) fn count(&self, page: u32) -> u32 {
        self.counts[page as usize]
    }

    fn find(&self, position: u32, page: u32) -> Option<u32> {
        let first = Some(self.heads[page as usize]).filter(|&index| index != NONE);
        let next =
            |&index: &u32| Some(self.records[index as usize].next).filter(|&index| index != NONE);
        std::iter::successors(first, next)
            .find(|&index| self.records[index as usize].position == position)
    }

    /// The move of a position of `page`, if there is one.
    #[inline]
    pub(super) fn get(&self, position: u32, page: u32) -> Option<u32> {
        self.find(position, page).map(|index| self.records[index as usize].ppn)
    }

    /// Every move of a map page.
    pub(super) fn peek_page(&self, page: u32, mut each: impl FnMut(u32, u32)) {
        let mut index = self.heads[page as usize];
        while index != NONE {
            let Record { position, ppn, next } = self.records[index as usize];
            each(position, ppn);
            index = next;
        }
    }

    /// As [`Moved::get`], and forget it.
    #[inline]
    pub(super) fn take(&mut self, position: u32, page: u32) -> Option<u32> {
        let (mut before, mut index) = (NONE, self.heads[page as usize]);
        while index != NONE {
            let Record { position: at, ppn, next } = self.records[index as usize];
            if at == position {
                match before {
                    NONE => self.heads[page as usize] = next,
                    _ => self.records[before as usize].next = next,
                }
                self.records[index as usize].position = NONE;
                self.counts[page as usize] -= 1;
                return Some(ppn);
            }
            (before, index) = (index, next);
        }
        None
    }

    /// Take every move of a map page; false when there is none.
    pub(super) fn take_page(&mut self, page: u32, mut each: impl FnMut(u32, u32)) -> bool {
        let mut index = std::mem::replace(&mut self.heads[page as usize], NONE);
        self.counts[page as usize] = 0;
        let some = index != NONE;
        while index != NONE {
            let record = &mut self.records[index as usize];
            each(record.position, record.ppn);
            record.position = NONE;
            index = record.next;
        }
        some
    }

    /// Take every move of a plane as (position, PPN).
    pub(super) fn drain_plane(
        &mut self,
        plane: u32,
        page_of: impl Fn(u32) -> u32,
        to: &mut Vec<(u32, u32)>,
    ) {
        let mut indexes = std::mem::take(&mut self.planes[plane as usize]);
        for index in indexes.drain(..) {
            let Record { position, ppn, .. } = self.records[index as usize];
            if position != NONE {
                self.take(position, page_of(position));
                to.push((position, ppn));
            }
            self.free.push(index);
        }
        self.planes[plane as usize] = indexes;
    }

    /// Forget the records of a plane that were taken.
    pub(super) fn compact(&mut self, plane: u32) {
        let Moved { records, free, planes, .. } = self;
        planes[plane as usize].retain(|&index| {
            let taken = records[index as usize].position == NONE;
            if taken {
                free.push(index);
            }
            !taken
        });
    }

    /// The power failed.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.free.clear();
        self.heads.fill(NONE);
        self.counts.fill(0);
        self.planes.iter_mut().for_each(Vec::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_moved_twice_is_one_move() {
        let mut moved = Moved::new(2, 1);
        (0..3).for_each(|position| moved.insert(position, 0, 0, 10 + position));
        moved.insert(7, 1, 0, 20);
        moved.insert(1, 0, 0, 30);
        assert_eq!((moved.count(0), moved.count(1)), (3, 1));
        assert_eq!((moved.get(1, 0), moved.get(2, 0), moved.get(7, 0)), (Some(30), Some(12), None));
        assert_eq!(moved.take(0, 0), Some(10));
        assert_eq!(moved.count(0), 2);
        let mut taken = Vec::new();
        assert!(moved.take_page(0, |position, ppn| taken.push((position, ppn))));
        assert_eq!(taken, [(2, 12), (1, 30)]);
        // What was taken is forgotten, and its places are used again.
        moved.compact(0);
        assert_eq!((moved.planes[0].len(), moved.free.len()), (1, 3));
        (0..3).for_each(|position| moved.insert(position, 0, 0, 40));
        assert_eq!((moved.records.len(), moved.count(0)), (4, 3));
    }
}

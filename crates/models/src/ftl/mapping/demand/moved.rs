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
snapshot_fields!(Moved { records, free, heads, planes });

impl Moved {
    pub(super) fn new(pages: u32, planes: u32) -> Moved {
        Moved {
            records: Vec::new(),
            free: Vec::new(),
            heads: vec![NONE; pages as usize],
            planes: vec![Vec::new(); planes as usize],
        }
    }

    pub(super) fn insert(&mut self, position: u32, page: u32, plane: u32, ppn: u32) {
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
        self.planes[plane as usize].push(index);
    }

    /// The move of a position of `page`, if there is one.
    #[inline]
    pub(super) fn get(&self, position: u32, page: u32) -> Option<u32> {
        let mut index = self.heads[page as usize];
        while index != NONE {
            let Record { position: at, ppn, next } = self.records[index as usize];
            if at == position {
                return Some(ppn);
            }
            index = next;
        }
        None
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
                return Some(ppn);
            }
            (before, index) = (index, next);
        }
        None
    }

    /// Take every move of a map page; false when there is none.
    pub(super) fn take_page(&mut self, page: u32, mut each: impl FnMut(u32, u32)) -> bool {
        let mut index = std::mem::replace(&mut self.heads[page as usize], NONE);
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

    /// The power failed.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.free.clear();
        self.heads.fill(NONE);
        self.planes.iter_mut().for_each(Vec::clear);
    }
}

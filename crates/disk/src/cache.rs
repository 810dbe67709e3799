//! The segmented read cache: runs of consecutive sectors, replaced least recently used first.

use sim::snapshot_fields;

/// One run of cached sectors.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Segment {
    /// First cached sector.
    pub start: u64,
    /// First sector behind the run; equal to `start` when the segment is empty.
    pub end: u64,
    /// When it was last used: larger is later.
    used: u64,
    /// It holds written data.
    written: bool,
}

snapshot_fields!(Segment { start, end, used, written });

/// The segments of a read cache.
#[derive(Clone, Debug)]
pub struct Segments {
    list: Vec<Segment>,
    uses: u64,
    sectors_max: u64,
}

snapshot_fields!(Segments { list, uses });

impl Segments {
    /// `count` empty segments of up to `sectors_max` sectors.
    pub fn new(count: u32, sectors_max: u64) -> Segments {
        Segments { list: vec![Segment::default(); count as usize], uses: 0, sectors_max }
    }

    /// True when there is no read cache.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.list.is_empty()
    }

    /// Segment `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Segment {
        self.list[index]
    }

    /// The segment that holds sector `lba`; the one that reaches furthest when several do.
    #[inline]
    pub fn find(&self, lba: u64) -> Option<usize> {
        let mut best = None;
        let mut end = lba;
        for (index, segment) in self.list.iter().enumerate() {
            if segment.start <= lba && end < segment.end {
                (best, end) = (Some(index), segment.end);
            }
        }
        best
    }

    /// Mark segment `index` as just used.
    #[inline]
    pub fn touch(&mut self, index: usize) {
        self.uses += 1;
        self.list[index].used = self.uses;
    }

    /// Empty the least recently used segment and take it for a run from `start`.
    #[inline]
    pub fn claim(&mut self, start: u64) -> usize {
        let mut index = 0;
        for candidate in 1..self.list.len() {
            if self.list[candidate].used < self.list[index].used {
                index = candidate;
            }
        }
        self.uses += 1;
        self.list[index] = Segment { start, end: start, used: self.uses, written: false };
        index
    }

    /// Segment `index` now reaches to `end`; what no longer fits falls off its front.
    #[inline]
    pub fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.list[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.sectors_max));
    }

    /// Keep written data for later reads, behind the last written run where it continues one.
    pub fn keep_written(&mut self, start: u64, end: u64) {
        let index = match self.list.iter().position(|s| s.written && s.end == start) {
            Some(index) => index,
            None => self.claim(start),
        };
        self.list[index].written = true;
        self.extend(index, end);
        self.touch(index);
    }

    /// Forget sectors from `start` to `end`: each segment keeps what lies before them.
    #[inline]
    pub fn forget(&mut self, start: u64, end: u64) {
        for segment in &mut self.list {
            if segment.start < end && start < segment.end {
                segment.end = start.max(segment.start);
            }
        }
    }

    /// Forget everything.
    pub fn clear(&mut self) {
        self.list.fill(Segment::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_segment_is_replaced() {
        let mut cache = Segments::new(2, 100);
        let a = cache.claim(0);
        cache.extend(a, 50);
        let b = cache.claim(1_000);
        cache.extend(b, 1_050);
        cache.touch(a);
        assert_eq!(cache.claim(5_000), b);
        assert_eq!(cache.find(49), Some(a));
        assert_eq!(cache.find(50), None);
        assert_eq!(cache.find(1_000), None);
    }

    #[test]
    fn a_full_segment_loses_its_front() {
        let mut cache = Segments::new(1, 100);
        let index = cache.claim(0);
        cache.extend(index, 250);
        assert_eq!((cache.get(index).start, cache.get(index).end), (150, 250));
    }

    #[test]
    fn writes_cut_and_written_runs_grow() {
        let mut cache = Segments::new(3, 100);
        let index = cache.claim(0);
        cache.extend(index, 50);
        cache.forget(20, 30);
        assert_eq!(cache.get(index).end, 20);
        cache.keep_written(200, 210);
        cache.keep_written(210, 230);
        let written = cache.find(205).unwrap();
        assert_eq!((cache.get(written).start, cache.get(written).end), (200, 230));
        cache.clear();
        assert_eq!(cache.find(205), None);
    }
}

//! Learned segments: lines through (offset, PPN) points, and the groups that hold them.

use sim::{CowVec, snapshot_fields};

use crate::ssd::plan::NONE;

/// Positions of a group.
pub(super) const GROUP: u32 = 256;
/// Bytes of a segment: start, length, slope with the flag, intercept.
const SEGMENT_BYTES: u64 = 8;
/// Slopes count in 1 / 2^14, so that one between 0 and 1 and the flag take two bytes.
const SLOPE_BITS: u32 = 14;

/// A line: offset `start + n` of the group is at about `intercept + n x slope`.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Segment {
    intercept: u32,
    slope: u16,
    start: u8,
    /// The prediction may be off by the error bound.
    approximate: bool,
    /// Positions whose newest copy this segment tells of.
    members: u16,
}

snapshot_fields!(Segment { intercept, slope, start, approximate, members });

impl Segment {
    /// One position, known exactly.
    fn point(offset: u8, ppn: u32) -> Segment {
        Segment { intercept: ppn, slope: 0, start: offset, approximate: false, members: 0 }
    }

    #[inline]
    fn predict(&self, offset: u8) -> u32 {
        let rise = u32::from(offset - self.start) * u32::from(self.slope);
        self.intercept + ((rise + (1 << (SLOPE_BITS - 1))) >> SLOPE_BITS)
    }
}

/// What the table says about a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Prediction {
    /// It is there, or nowhere ([`NONE`]).
    Exact(u32),
    /// It is at `ppn` or within the error bound of it, in the block of `anchor`.
    Near {
        /// What the line says.
        ppn: u32,
        /// The page of the line's first point.
        anchor: u32,
    },
}

/// The segments of a group. A slot without members is free.
#[derive(Clone, Default, Debug)]
struct Group {
    segments: Vec<Segment>,
    free: Vec<u16>,
}

snapshot_fields!(Group { segments, free });

/// The whole table.
#[derive(Clone)]
pub(super) struct Table {
    /// Position to the slot of its newest segment in the group; [`UNOWNED`] when there is none.
    owner: CowVec<u16>,
    groups: Vec<Group>,
    /// Segments in use, and members of the approximate ones among them and their number.
    segments: u64,
    listed: u64,
}

snapshot_fields!(Table { owner, groups, segments, listed });

const UNOWNED: u16 = u16::MAX;

impl Table {
    /// A table that says nothing of `groups` groups.
    pub(super) fn new(groups: u32) -> Table {
        Table {
            owner: CowVec::new((groups * GROUP) as usize, UNOWNED),
            groups: vec![Group::default(); groups as usize],
            segments: 0,
            listed: 0,
        }
    }

    /// Where the newest copy of a position is sought.
    #[inline]
    pub(super) fn predict(&mut self, position: u32) -> Prediction {
        let slot = self.owner.get(position as usize);
        if slot == UNOWNED {
            return Prediction::Exact(NONE);
        }
        let segment = &self.groups[(position / GROUP) as usize].segments[usize::from(slot)];
        let ppn = segment.predict((position % GROUP) as u8);
        if segment.approximate {
            Prediction::Near { ppn, anchor: segment.intercept }
        } else {
            Prediction::Exact(ppn)
        }
    }

    /// Say of one position where it is now, exactly.
    pub(super) fn set(&mut self, position: u32, ppn: u32) {
        self.forget(position);
        let segment = Segment::point((position % GROUP) as u8, ppn);
        let slot = self.add(position / GROUP, segment);
        self.join(position, slot);
    }

    /// Learn where positions of one block are now: `points` are (position, PPN) in rising order.
    /// Each is predicted within `error_bound` afterwards.
    pub(super) fn learn(&mut self, mut points: &[(u32, u32)], error_bound: u32) {
        while let [first, ..] = points {
            let group = first.0 / GROUP;
            let (segment, count) = fit(points, error_bound);
            let (covered, rest) = points.split_at(count);
            points = rest;
            if count == 1 {
                // Its position is known exactly since it was written.
                continue;
            }
            covered.iter().for_each(|&(position, _)| self.forget(position));
            let continued = self.continued(covered, segment);
            let slot = continued.unwrap_or_else(|| self.add(group, segment));
            covered.iter().for_each(|&(position, _)| self.join(position, slot));
        }
    }

    /// The accurate segment that a new one is the continuation of: its stream went on in the next
    /// block.
    fn continued(&mut self, covered: &[(u32, u32)], new: Segment) -> Option<u16> {
        let [(first, ppn), (second, _), ..] = *covered else { return None };
        let before = first.checked_sub(second - first).filter(|at| at / GROUP == first / GROUP)?;
        let slot = Some(self.owner.get(before as usize)).filter(|&slot| slot != UNOWNED)?;
        let old = &self.groups[(first / GROUP) as usize].segments[usize::from(slot)];
        let continues = !old.approximate
            && !new.approximate
            && old.slope == new.slope
            && old.predict(new.start) == ppn;
        continues.then_some(slot)
    }

    /// No segment tells of a position any more: it holds nothing, or a newer one is about to.
    pub(super) fn forget(&mut self, position: u32) {
        let slot = self.owner.get(position as usize);
        if slot == UNOWNED {
            return;
        }
        let group = &mut self.groups[(position / GROUP) as usize];
        let segment = &mut group.segments[usize::from(slot)];
        segment.members -= 1;
        self.listed -= u64::from(segment.approximate);
        if segment.members == 0 {
            self.listed -= u64::from(segment.approximate);
            self.segments -= 1;
            group.free.push(slot);
        }
        self.owner.set(position as usize, UNOWNED);
    }

    fn add(&mut self, group: u32, segment: Segment) -> u16 {
        self.segments += 1;
        self.listed += u64::from(segment.approximate);
        let group = &mut self.groups[group as usize];
        match group.free.pop() {
            Some(slot) => {
                group.segments[usize::from(slot)] = segment;
                slot
            }
            None => {
                group.segments.push(segment);
                group.segments.len() as u16 - 1
            }
        }
    }

    fn join(&mut self, position: u32, slot: u16) {
        let group = &mut self.groups[(position / GROUP) as usize];
        let segment = &mut group.segments[usize::from(slot)];
        segment.members += 1;
        self.listed += u64::from(segment.approximate);
        self.owner.set(position as usize, slot);
    }

    /// Segments in use.
    #[cfg(test)]
    pub(super) fn segments(&self) -> u64 {
        self.segments
    }

    /// 8 bytes for each segment, and the members of each approximate one listed with a separator.
    pub(super) fn bytes(&self) -> u64 {
        self.segments * SEGMENT_BYTES + self.listed
    }

    /// The power failed.
    pub(super) fn clear(&mut self) {
        *self = Table::new(self.groups.len() as u32);
    }

    /// Prepare for cheap clones.
    pub(super) fn freeze(&mut self) {
        self.owner.freeze();
    }
}

/// The segment through the first of `points` that reaches farthest, and how many it covers: an
/// accurate one (points at a fixed stride on consecutive pages) or, if it covers more, one whose
/// predictions are within the error bound.
fn fit(points: &[(u32, u32)], error_bound: u32) -> (Segment, usize) {
    let (first, ppn) = points[0];
    let same = points.iter().take_while(|&&(at, _)| at / GROUP == first / GROUP);
    let points = &points[..same.count()];
    let start = (first % GROUP) as u8;
    let stride = points.get(1).map_or(1, |&(at, _)| at - first);
    let follows = |&(step, &(at, page)): &(usize, &(u32, u32))| {
        at == first + step as u32 * stride && page == ppn + step as u32
    };
    let accurate = points.iter().enumerate().take_while(follows).count();
    let slope = ((1 << SLOPE_BITS) + stride / 2) / stride;
    let line = Segment { slope: slope as u16, ..Segment::point(start, ppn) };
    if error_bound == 0 {
        return (line, accurate);
    }
    let (cone, covered) = widest(points, i64::from(error_bound));
    if covered <= accurate {
        return (line, accurate);
    }
    (Segment { slope: cone, approximate: true, ..line }, covered)
}

/// The slope whose line from the first point passes most of the following ones within `bound`, and
/// how many points that makes.
fn widest(points: &[(u32, u32)], bound: i64) -> (u16, usize) {
    let (first, ppn) = points[0];
    let (mut least, mut most) = (0, 1 << SLOPE_BITS);
    for (count, &(at, page)) in points.iter().enumerate().skip(1) {
        let (run, rise) = (i64::from(at - first), i64::from(page) - i64::from(ppn));
        // Rounding up and down keeps a slope in whole steps within the bound.
        let low = (((rise - bound) << SLOPE_BITS) + run - 1).div_euclid(run).max(least);
        let high = ((rise + bound) << SLOPE_BITS).div_euclid(run).min(most);
        if low > high {
            return ((least + most) as u16 / 2, count);
        }
        (least, most) = (low, high);
    }
    ((least + most) as u16 / 2, points.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The predictions of what was learned from `points`, and the segments that took.
    fn learned(points: &[(u32, u32)], error_bound: u32) -> (Vec<Prediction>, u64) {
        let mut table = Table::new(4);
        points.iter().for_each(|&(position, ppn)| table.set(position, ppn));
        assert_eq!(table.bytes(), 8 * points.len() as u64, "each point is known exactly");
        table.learn(points, error_bound);
        (points.iter().map(|&(at, _)| table.predict(at)).collect(), table.segments())
    }

    #[test]
    fn a_run_is_one_accurate_segment_at_any_stride() {
        for stride in 1..100 {
            let count = 256 / stride;
            let points: Vec<_> = (0..count).map(|i| (i * stride, 7_000 + i)).collect();
            let (predictions, segments) = learned(&points, 0);
            assert_eq!(segments, 1, "stride {stride}");
            let exact: Vec<_> = points.iter().map(|&(_, ppn)| Prediction::Exact(ppn)).collect();
            assert_eq!(predictions, exact, "stride {stride}");
        }
    }

    #[test]
    fn predictions_stay_within_the_error_bound_and_wider_bounds_need_less() {
        let mut rng = sim::Rng::new(1, "fit");
        let mut segments = Vec::new();
        for bound in [0, 1, 4, 16] {
            let mut at = 0;
            let points: Vec<_> = (0..256)
                .map(|i| {
                    at += 1 + rng.below(3) as u32;
                    (at, 1_000 + i)
                })
                .collect();
            let (predictions, count) = learned(&points, bound);
            for (&(at, ppn), prediction) in points.iter().zip(predictions) {
                let (Prediction::Exact(near) | Prediction::Near { ppn: near, .. }) = prediction;
                assert!(near.abs_diff(ppn) <= bound, "{at}: {near} for {ppn} within {bound}");
            }
            segments.push(count);
        }
        assert!(segments.is_sorted_by(|more, less| more >= less), "{segments:?}");
        // At best one for each of the two or three groups.
        assert!(segments[0] > 20 * segments[3] && segments[3] <= 3, "{segments:?}");
    }

    #[test]
    fn newer_segments_take_over_and_emptied_ones_cost_nothing() {
        let mut table = Table::new(1);
        let points: Vec<_> = (0..256).map(|i| (i, 5_000 + i)).collect();
        points.iter().for_each(|&(position, ppn)| table.set(position, ppn));
        table.learn(&points, 0);
        assert_eq!(table.bytes(), 8);
        table.set(100, 9_000);
        assert_eq!((table.bytes(), table.predict(100)), (16, Prediction::Exact(9_000)));
        assert_eq!(table.predict(101), Prediction::Exact(5_101));
        (0..256).for_each(|position| table.set(position, 20_000 - 2 * position));
        assert_eq!(table.bytes(), 256 * 8, "the line has no members left");
        table.forget(100);
        assert_eq!((table.bytes(), table.predict(100)), (255 * 8, Prediction::Exact(NONE)));
    }

    #[test]
    fn members_of_approximate_segments_are_listed() {
        let mut table = Table::new(1);
        let points = [(0, 100), (1, 101), (3, 102), (4, 103), (9, 105)];
        points.iter().for_each(|&(position, ppn)| table.set(position, ppn));
        table.learn(&points, 1);
        assert_eq!(table.bytes(), 8 + 5 + 1);
        table.set(1, 500);
        assert_eq!(table.bytes(), 8 + 4 + 1 + 8);
    }
}

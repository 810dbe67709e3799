//! Whose data a write of the device carried: what a power cut takes must be told by the host's
//! names.

use std::collections::{BTreeMap, VecDeque};

use sim::{Lba, LostWrite, RequestId, snapshot_fields};

/// Parts of writes that are remembered: at 4 KiB each 256 MiB, more than any write cache here.
const PARTS_MAX: usize = 1 << 16;

/// A part of one request of the host in one request of the device.
#[derive(Clone, Copy, Default, Debug)]
struct Part {
    below: RequestId,
    host: RequestId,
    lba: Lba,
    sectors: u32,
}

snapshot_fields!(Part { below, host, lba, sectors });

/// Completed writes that no completed flush covers.
#[derive(Clone, Default, Debug)]
pub(crate) struct Written {
    parts: VecDeque<Part>,
    /// Parts that were forgotten.
    forgotten: u64,
}

snapshot_fields!(Written { parts, forgotten });

impl Written {
    pub(crate) fn add(&mut self, below: RequestId, host: RequestId, lba: u64, sectors: u32) {
        if self.parts.len() == PARTS_MAX {
            self.parts.pop_front();
            self.forgotten += 1;
        }
        self.parts.push_back(Part { below, host, lba: Lba(lba), sectors });
    }

    /// What a flush that is sent now will cover.
    pub(crate) fn mark(&self) -> u64 {
        self.forgotten + self.parts.len() as u64
    }

    /// The flush that was sent at `mark` is complete.
    pub(crate) fn flushed(&mut self, mark: u64) {
        let covered = mark.saturating_sub(self.forgotten) as usize;
        self.parts.drain(..covered.min(self.parts.len()));
        self.forgotten = self.forgotten.max(mark);
    }

    /// The same losses by the host's names; nothing of those that were not acknowledged.
    pub(crate) fn name(&mut self, lost: &[LostWrite], inside: &[RequestId]) -> Vec<LostWrite> {
        let mut parts: BTreeMap<RequestId, Vec<Part>> = BTreeMap::new();
        for part in self.parts.drain(..) {
            parts.entry(part.below).or_default().push(part);
        }
        self.forgotten = 0;
        let mut named = Vec::new();
        for loss in lost {
            let end = loss.lba.0 + u64::from(loss.sectors);
            for part in parts.get(&loss.id).into_iter().flatten() {
                let from = part.lba.0.max(loss.lba.0);
                let to = (part.lba.0 + u64::from(part.sectors)).min(end);
                if from < to && !inside.contains(&part.host) {
                    let sectors = (to - from) as u32;
                    named.push(LostWrite { id: part.host, lba: Lba(from), sectors });
                }
            }
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(id: u64, lba: u64, sectors: u32) -> LostWrite {
        LostWrite { id: RequestId(id), lba: Lba(lba), sectors }
    }

    #[test]
    fn a_loss_is_told_to_each_whose_data_it_was() {
        let mut written = Written::default();
        written.add(RequestId(90), RequestId(1), 0, 8);
        let mark = written.mark();
        written.add(RequestId(91), RequestId(2), 8, 8);
        written.add(RequestId(91), RequestId(3), 16, 8);
        written.add(RequestId(91), RequestId(4), 24, 8);
        written.flushed(mark);
        let lost = [loss(90, 0, 8), loss(91, 12, 16)];
        let named = written.name(&lost, &[RequestId(4)]);
        assert_eq!(named, [loss(2, 12, 4), loss(3, 16, 8)]);
    }

    #[test]
    fn memory_is_bounded_and_marks_outlive_it() {
        let mut written = Written::default();
        let mark = written.mark();
        for n in 0..PARTS_MAX as u64 + 5 {
            written.add(RequestId(n), RequestId(n), n * 8, 8);
        }
        written.flushed(mark);
        assert_eq!(written.parts.len(), PARTS_MAX);
        let mark = written.mark() - 2;
        written.flushed(mark);
        assert_eq!(written.parts.len(), 2);
        assert_eq!(written.mark(), PARTS_MAX as u64 + 5);
    }
}

//! What may be in one request, and how long it may become.

use sim::{Op, Request};

use super::pool::Rq;
use crate::elevator::mutant::planted;

/// How long one request may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) sectors_max: u32,
    pub(crate) segments_max: u32,
    /// Off: every bio is a request.
    pub(crate) merge: bool,
    #[cfg(test)]
    pub(crate) mutant: Option<crate::elevator::mutant::Mutant>,
}

/// Can other bios join it at all?
pub(super) fn is_mergeable(what: &Request) -> bool {
    matches!(what.op, Op::Read | Op::Write) && !what.fua
}

impl Extent {
    /// The longest piece that is let in.
    pub(super) fn piece_sectors(&self) -> u32 {
        self.sectors_max.min(self.segments_max.saturating_mul(8))
    }

    /// May something of this kind and length join the request?
    pub(super) fn fits(&self, rq: &Rq, what: &Request, more_segments: u32) -> bool {
        let short = rq.what.sectors + what.sectors <= self.sectors_max
            && rq.segments + more_segments <= self.segments_max;
        let direction = rq.what.op == what.op || planted!(self, MixDirections);
        let plain = !rq.barrier && (!rq.what.fua || planted!(self, MergeFua));
        direction && plain && (short || planted!(self, IgnoreLimits))
    }
}

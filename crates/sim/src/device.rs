//! The contract: a block device as pure timing.

use std::fmt;

use crate::counters::{Counters, Wear};
use crate::request::{Op, Request, RequestId};
use crate::snapshot::Snapshot;
use crate::span::Span;
use crate::units::{Bytes, Lba, Nanos, SECTOR_BYTES};

/// What a device can take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Usable size.
    pub capacity: Bytes,
    /// Preferred unit of transfers. Requests need only be aligned to sectors.
    pub block_bytes: u32,
    /// Requests the device accepts before it answers [`Busy`].
    pub queue_depth_max: u32,
    /// True when the device has a rotating medium (Linux's `rotational`).
    pub rotational: bool,
    /// True when completed writes may be lost until a flush (a volatile write cache).
    pub write_cache: bool,
    /// True when discards are understood; otherwise they complete without effect.
    pub discard: bool,
}

/// A request that no device of these limits can take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadRequest {
    /// The range ends beyond the device.
    BeyondEnd {
        /// First sector of the range.
        lba: Lba,
        /// Its length in sectors.
        sectors: u32,
        /// The size of the device in sectors.
        device_sectors: u64,
    },
    /// A read, write or discard of no sectors.
    Empty(Op),
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRequest::BeyondEnd { lba, sectors, device_sectors } => write!(
                f,
                "sector {} + {sectors} lies beyond the device's end \
                 at sector {device_sectors} ({})",
                lba.0,
                Bytes(device_sectors * SECTOR_BYTES),
            ),
            BadRequest::Empty(op) => write!(f, "a {} of no sectors", op.name()),
        }
    }
}

impl std::error::Error for BadRequest {}

impl Limits {
    /// The size in sectors.
    pub const fn sectors(&self) -> u64 {
        self.capacity.sectors()
    }

    /// Check that a request fits the device.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn check(&self, request: &Request) -> Result<(), BadRequest> {
        if request.op == Op::Flush {
            return Ok(());
        }
        if request.sectors == 0 {
            return Err(BadRequest::Empty(request.op));
        }
        if request.lba.0.checked_add(request.sectors as u64).is_none_or(|e| e > self.sectors()) {
            return Err(BadRequest::BeyondEnd {
                lba: request.lba,
                sectors: request.sectors,
                device_sectors: self.sectors(),
            });
        }
        Ok(())
    }
}

/// The device's queue is full: submit again after the next completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

/// The end of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Which request.
    pub id: RequestId,
    /// When it completed.
    pub at: Nanos,
}

/// Where a device puts what happened during [`Device::advance`].
#[derive(Clone, Default, Debug)]
pub struct Completions {
    /// Completed requests, in the order of (time, sequence).
    pub done: Vec<Completion>,
    /// What the media did; filled only when asked for.
    pub spans: Option<Vec<Span>>,
}

impl Completions {
    /// A buffer that takes completions only.
    pub fn new() -> Completions {
        Completions::default()
    }

    /// A buffer that takes media spans as well.
    pub fn with_spans() -> Completions {
        Completions { done: Vec::new(), spans: Some(Vec::new()) }
    }

    /// Report a completed request.
    #[inline]
    pub fn complete(&mut self, id: RequestId, at: Nanos) {
        self.done.push(Completion { id, at });
    }

    /// Report what a part of the media did, if anybody wants to know.
    #[inline]
    pub fn span(&mut self, span: impl FnOnce() -> Span) {
        if let Some(spans) = &mut self.spans {
            spans.push(span());
        }
    }
}

/// An acknowledged write that a power failure undid, wholly or in part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostWrite {
    /// The request whose data is gone.
    pub id: RequestId,
    /// First lost sector.
    pub lba: Lba,
    /// Number of lost sectors.
    pub sectors: u32,
}

/// What endures a power failure: every acknowledged write except these.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Survivors {
    /// Acknowledged writes that are lost, in the order they were acknowledged.
    pub lost: Vec<LostWrite>,
}

/// A block device as pure timing: payload bytes live elsewhere.
///
/// The caller owns time. It submits requests at `now`, asks when the device can next change by
/// itself, and lets the device do all that is due at that moment. The laws every device obeys are
/// in [`crate::laws`], as tests that run over every registered device.
pub trait Device: Snapshot + Send {
    /// Sizes and abilities. They never change during a run.
    fn limits(&self) -> Limits;

    /// Accept a request at `now`. It passes [`Limits::check`] and its id is not in use.
    ///
    /// # Errors
    /// [`Busy`] when `queue_depth_max` requests are already inside; nothing has changed then.
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy>;

    /// When the device can next change by itself; `None` when it waits for requests only.
    fn next_event(&self) -> Option<Nanos>;

    /// Do all that is due at `now`.
    fn advance(&mut self, now: Nanos, out: &mut Completions);

    /// Do what is due by `until`, moment by moment, and stop at the latest after the moment that
    /// something is answered. Returns the last moment at which anything was due; `None` when
    /// nothing is by `until`. A device with many events between two answers saves its caller the
    /// way to each of them.
    fn advance_until(&mut self, until: Nanos, out: &mut Completions) -> Option<Nanos> {
        let next = self.next_event().filter(|&next| next <= until)?;
        self.advance(next, out);
        Some(next)
    }

    /// Lose power at `now` and come back empty-handed: requests inside are forgotten, volatile
    /// state is gone.
    fn power_fail(&mut self, now: Nanos) -> Survivors;

    /// Take the effect of a request in no time: this is how a drive is filled and aged before a
    /// run. Only legal while the device is idle. A device whose timing does not depend on what was
    /// written before does nothing.
    fn apply(&mut self, request: &Request) {
        let _ = request;
    }

    /// Where a request goes that comes soon, about [`AHEAD`](crate::AHEAD) others before it: the
    /// model may fetch what it will touch into the processor's cache. Changes nothing, and the
    /// request need not come.
    fn prefetch(&mut self, request: &Request) {
        let _ = request;
    }

    /// Add what the device has counted since it was built.
    fn counters(&self, out: &mut Counters) {
        let _ = out;
    }

    /// How worn a flash device is, per unit; nothing on other devices.
    fn wear(&self) -> Vec<Wear> {
        Vec::new()
    }

    /// Prepare for cheap clones: large tables become shared.
    fn freeze(&mut self) {}

    /// A copy that will do exactly the same.
    fn boxed_clone(&self) -> Box<dyn Device>;
}

impl Device for Box<dyn Device> {
    fn limits(&self) -> Limits {
        (**self).limits()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        (**self).submit(now, request)
    }
    fn next_event(&self) -> Option<Nanos> {
        (**self).next_event()
    }
    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        (**self).advance(now, out);
    }
    fn advance_until(&mut self, until: Nanos, out: &mut Completions) -> Option<Nanos> {
        (**self).advance_until(until, out)
    }
    fn power_fail(&mut self, now: Nanos) -> Survivors {
        (**self).power_fail(now)
    }
    fn apply(&mut self, request: &Request) {
        (**self).apply(request);
    }
    fn prefetch(&mut self, request: &Request) {
        (**self).prefetch(request);
    }
    fn counters(&self, out: &mut Counters) {
        (**self).counters(out);
    }
    fn wear(&self) -> Vec<Wear> {
        (**self).wear()
    }
    fn freeze(&mut self) {
        (**self).freeze();
    }
    fn boxed_clone(&self) -> Box<dyn Device> {
        (**self).boxed_clone()
    }
}

impl Clone for Box<dyn Device> {
    fn clone(&self) -> Box<dyn Device> {
        self.boxed_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_refuse_what_does_not_fit() {
        let limits = Limits {
            capacity: Bytes(4096),
            block_bytes: 512,
            queue_depth_max: 1,
            rotational: false,
            write_cache: false,
            discard: false,
        };
        assert_eq!(limits.check(&Request::read(Lba(7), 1)), Ok(()));
        assert_eq!(limits.check(&Request::flush()), Ok(()));
        assert!(limits.check(&Request::read(Lba(7), 2)).is_err());
        assert!(limits.check(&Request::read(Lba(u64::MAX), 2)).is_err());
        assert_eq!(limits.check(&Request::write(Lba(0), 0)), Err(BadRequest::Empty(Op::Write)));
    }
}

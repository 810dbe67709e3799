//! Where parsers put records.

use sim::{Lba, Nanos, Op, Request};

use crate::{Record, Remarks};

/// Takes the records of one line.
pub(crate) struct Sink<'a> {
    pub(crate) out: &'a mut Vec<Record>,
    pub(crate) remarks: &'a mut Remarks,
    /// Line number or byte offset of what is being parsed.
    pub(crate) place: u64,
}

impl Sink<'_> {
    /// Add a request. One without sectors is counted and left out, unless it is a flush.
    #[inline]
    pub(crate) fn push(&mut self, time: Option<u64>, device: u32, request: Request) {
        if request.sectors == 0 && request.op != Op::Flush {
            return self.remarks.skip("requests of no sectors");
        }
        self.out.push(self.record(time, device, request));
    }

    /// The record of a request at this place.
    #[inline]
    pub(crate) fn record(&self, time: Option<u64>, device: u32, request: Request) -> Record {
        Record {
            time: time.map(Nanos),
            request,
            device,
            response: None,
            plugged: Nanos::ZERO,
            place: self.place,
        }
    }

    /// Add a plain request with a known response time, or without.
    #[inline]
    pub(crate) fn push_io(&mut self, time: u64, device: u32, op: Op, extent: (u64, u32)) {
        self.push(Some(time), device, Request::new(op, Lba(extent.0), extent.1));
    }

    /// The response time of the record pushed last.
    #[inline]
    pub(crate) fn respond(&mut self, before: usize, response: u64) {
        if self.out.len() > before
            && let Some(last) = self.out.last_mut()
        {
            last.response = Some(Nanos(response));
        }
    }
}

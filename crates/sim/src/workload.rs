//! Where requests come from.

use std::fmt;

use crate::device::Completion;
use crate::request::Request;
use crate::units::{Lba, Nanos};

/// What a workload wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// Issue this request now. The driver sets its id: from 0, in the order of issue.
    Issue(Request),
    /// Nothing before this moment (later than now); ask again then, or after a completion.
    At(Nanos),
    /// Nothing until a request completes.
    Wait,
    /// Nothing more, ever.
    End,
}

/// A workload cannot go on: its trace is damaged, a request does not fit the device, ...
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadError(pub String);

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WorkloadError {}

/// So many requests ahead a device is told where one goes: enough for several looks at memory, one
/// after the other, and few enough that what was fetched is still in the cache.
pub const AHEAD: usize = 32;

/// A stream of requests that may depend on completions.
pub trait Workload {
    /// What to do at `now`. The driver asks again until the answer is not [`Demand::Issue`].
    ///
    /// # Errors
    /// When the stream is damaged; the run ends.
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError>;

    /// One of its requests completed.
    fn complete(&mut self, request: &Request, completion: Completion) {
        let _ = (request, completion);
    }

    /// Where the request goes that comes [`AHEAD`] requests after the latest one, if that is known
    /// by now. A hint: it changes nothing, and need not come true.
    fn ahead(&self) -> Option<Lba> {
        None
    }

    /// What a reader of the results must know: addresses that were wrapped, flags that were
    /// invented. One sentence each; asked for after the run.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// How long after its first request measuring should start: the ramp the workload itself asks
    /// for. The workload never sees the difference.
    fn measure_from(&self) -> Nanos {
        Nanos::ZERO
    }

    /// How long it goes on after its last request completed, when it answered [`Demand::End`]:
    /// computing that needs no device but belongs to what is measured.
    fn busy_after(&self) -> Nanos {
        Nanos::ZERO
    }

    /// When each of its processes was at work, by number from 1 on: when it began, and when it had
    /// nothing more to do. [`Nanos::MAX`] is what has not come. Empty where it tells of none.
    fn at_work(&self) -> Vec<(Nanos, Nanos)> {
        Vec::new()
    }

    /// How long what it watches waited for the device, where it watches something.
    fn waited(&self) -> Option<Nanos> {
        None
    }
}

impl<W: Workload + ?Sized> Workload for Box<W> {
    fn busy_after(&self) -> Nanos {
        (**self).busy_after()
    }
    fn at_work(&self) -> Vec<(Nanos, Nanos)> {
        (**self).at_work()
    }
    fn waited(&self) -> Option<Nanos> {
        (**self).waited()
    }
    fn measure_from(&self) -> Nanos {
        (**self).measure_from()
    }
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        (**self).next(now)
    }
    fn complete(&mut self, request: &Request, completion: Completion) {
        (**self).complete(request, completion);
    }
    fn ahead(&self) -> Option<Lba> {
        (**self).ahead()
    }
    fn notes(&self) -> Vec<String> {
        (**self).notes()
    }
}

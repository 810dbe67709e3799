//! A closed loop of random requests.

use sim::{Completion, Demand, Lba, Nanos, Op, Request, Rng, Workload, WorkloadError};

/// Requests of `sectors` at uniformly random ones of `pages`, as many inside as are `free` first.
pub(crate) struct Closed {
    pub(crate) op: Op,
    pub(crate) rng: Rng,
    pub(crate) pages: u64,
    pub(crate) sectors: u32,
    pub(crate) free: u32,
}

impl Workload for Closed {
    fn next(&mut self, _now: Nanos) -> Result<Demand, WorkloadError> {
        if self.free == 0 {
            return Ok(Demand::Wait);
        }
        self.free -= 1;
        let lba = Lba(self.rng.below(self.pages) * u64::from(self.sectors));
        Ok(Demand::Issue(Request::new(self.op, lba, self.sectors)))
    }
    fn complete(&mut self, _request: &Request, _completion: Completion) {
        self.free += 1;
    }
}

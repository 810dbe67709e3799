//! A closed loop: a generator's requests, a fixed number of them in flight.

use sim::{Completion, Demand, Nanos, Op, Request, Workload, WorkloadError};

use config::{ConfigError, Size};

/// An endless stream of requests.
pub(crate) trait Source {
    fn next_request(&mut self) -> Request;
}

/// Issues a source's requests until their total size is reached.
#[derive(Clone, Debug)]
pub(crate) struct ClosedLoop<S> {
    source: S,
    depth: u32,
    in_flight: u32,
    /// Sectors still to transfer.
    left: u64,
    notes: Vec<String>,
}

impl<S: Source> ClosedLoop<S> {
    /// # Errors
    /// When the depth is 0.
    pub(crate) fn new(
        source: S,
        total: Size,
        depth: u32,
        notes: Vec<String>,
    ) -> Result<ClosedLoop<S>, ConfigError> {
        if depth == 0 {
            return Err(ConfigError::new("queue_depth", "expected at least 1, got 0"));
        }
        Ok(ClosedLoop { source, depth, in_flight: 0, left: total.0.sectors(), notes })
    }
}

impl<S: Source> Workload for ClosedLoop<S> {
    fn next(&mut self, _now: Nanos) -> Result<Demand, WorkloadError> {
        if self.left == 0 {
            return Ok(Demand::End);
        }
        if self.in_flight == self.depth {
            return Ok(Demand::Wait);
        }
        let request = self.source.next_request();
        self.in_flight += 1;
        if request.op != Op::Flush {
            self.left = self.left.saturating_sub(u64::from(request.sectors));
        }
        Ok(Demand::Issue(request))
    }

    fn complete(&mut self, _request: &Request, _completion: Completion) {
        self.in_flight -= 1;
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// What the tests of every generator measure.
#[cfg(test)]
pub(crate) mod testing {
    use sim::{Bytes, Demand, Limits, Nanos, Op, Request, Rng, Workload};

    use crate::Context;

    /// Every request of a workload whose requests complete at once.
    pub(crate) fn all(mut workload: Box<dyn Workload + Send>) -> Vec<Request> {
        let mut requests = Vec::new();
        while let Demand::Issue(request) = workload.next(Nanos::ZERO).unwrap() {
            requests.push(request);
            workload.complete(&request, sim::Completion { id: request.id, at: Nanos::ZERO });
        }
        requests
    }

    /// A 4 GiB device.
    pub(crate) fn context(seed: u64) -> Context<'static> {
        let limits = Limits {
            capacity: Bytes::from_gib(4),
            block_bytes: 4096,
            queue_depth_max: 32,
            rotational: false,
            write_cache: false,
            discard: true,
        };
        Context {
            rng: Rng::new(seed, "workload"),
            limits,
            open: &|_| Err(std::io::ErrorKind::NotFound.into()),
        }
    }

    pub(crate) struct Summary {
        pub(crate) bytes: f64,
        pub(crate) mean: f64,
        /// Shares of the requests.
        pub(crate) writes: f64,
        pub(crate) sequential: f64,
        /// Share of the written 4 KiB pages that were not written before.
        pub(crate) first_touch: f64,
        /// Distinct 4 KiB pages touched, in bytes, and distinct 64 KiB extents.
        pub(crate) unique: f64,
        pub(crate) extents: usize,
    }

    pub(crate) fn summary(requests: &[Request]) -> Summary {
        let data: Vec<&Request> = requests.iter().filter(|r| r.op != Op::Flush).collect();
        let n = data.len() as f64;
        let bytes: u64 = data.iter().map(|r| r.bytes().0).sum();
        let device = context(1).limits.sectors();
        let mut written = vec![false; (device / 8) as usize];
        let mut touched = written.clone();
        let (mut pages, mut fresh) = (0u32, 0u32);
        for request in &data {
            for page in request.lba.0 / 8..request.end().0.div_ceil(8) {
                touched[page as usize] = true;
                if request.op == Op::Write {
                    pages += 1;
                    fresh += u32::from(!std::mem::replace(&mut written[page as usize], true));
                }
            }
        }
        Summary {
            bytes: bytes as f64,
            mean: bytes as f64 / n,
            writes: data.iter().filter(|r| r.op == Op::Write).count() as f64 / n,
            sequential: data.windows(2).filter(|w| w[0].end() == w[1].lba).count() as f64 / n,
            first_touch: f64::from(fresh) / f64::from(pages),
            unique: touched.iter().filter(|&&t| t).count() as f64 * 4096.0,
            extents: touched.chunks(16).filter(|pages| pages.contains(&true)).count(),
        }
    }

    /// The contract of the generators: total within 0.1 %, mean size within 0.5 %, every request
    /// on the device.
    pub(crate) fn check(requests: &[Request], total_mib: f64, mean_kib: f64) -> Summary {
        let got = summary(requests);
        assert!((got.bytes / (total_mib * 1048576.0) - 1.0).abs() < 1e-3, "total {}", got.bytes);
        assert!((got.mean / (mean_kib * 1024.0) - 1.0).abs() < 5e-3, "mean {}", got.mean / 1024.0);
        let limits = context(1).limits;
        assert!(requests.iter().all(|r| limits.check(r).is_ok()));
        got
    }
}

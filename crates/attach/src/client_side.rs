//! What clients see besides the device's time: the path to them, watched during the run. Replies
//! that leave on time are of no use to a client whom the machine lets wait for them.

use sim::Histogram;

use crate::statistics::{Beyond, Summary};

/// What a frontend found out about its clients' side.
#[derive(Clone, Debug)]
pub enum ClientSide {
    /// Nothing.
    Unknown,
    /// Round trips, in nanoseconds, of requests that the device never saw: a client of our own
    /// sends them now and then.
    Probes(Histogram),
    /// The kernel's own account of each export's reads and writes.
    Accounts(Vec<Account>),
}

/// Reads and writes of a block device, from when the kernel had them to when they were done.
#[derive(Clone, Copy, Default, Debug)]
pub struct Account {
    /// How many.
    pub requests: u64,
    /// How long they took together, in milliseconds: that is what the kernel tells.
    pub total_ms: u64,
}

/// Fewer say nothing.
const REQUESTS_MIN: u64 = 20;
/// The kernel tells whole milliseconds, of reads and of writes: so much may be missing.
const ROUNDED_US: f64 = 2_000.0;
/// It must not be more than this part of what the verdict is about.
const COARSE: f64 = 4.0;

impl ClientSide {
    /// How long the clients of `export` waited beyond the times in `summary`; `None` when it is not
    /// known.
    pub(crate) fn beyond(
        &self,
        export: usize,
        summary: &Summary,
        compensation_us: f64,
    ) -> Option<Beyond> {
        match self {
            ClientSide::Unknown => None,
            ClientSide::Probes(trips) if trips.count() < REQUESTS_MIN => None,
            ClientSide::Probes(trips) => Some(Beyond {
                source: "median of probes",
                requests: trips.count(),
                beyond_us: trips.quantile(0.5).unwrap_or(0) as f64 / 1e3 - compensation_us,
            }),
            ClientSide::Accounts(accounts) => accounts.get(export)?.beyond(summary),
        }
    }
}

impl Account {
    /// What came between `earlier` and this.
    pub(crate) fn since(self, earlier: Account) -> Account {
        Account {
            requests: self.requests.saturating_sub(earlier.requests),
            total_ms: self.total_ms.saturating_sub(earlier.total_ms),
        }
    }

    fn beyond(self, summary: &Summary) -> Option<Beyond> {
        let moved = summary.operations.iter().filter(|op| matches!(op.op, "read" | "write"));
        let (mut requests, mut modelled_us) = (0, 0.0);
        for op in moved {
            requests += op.requests;
            modelled_us += op.modelled_us.mean * op.requests as f64;
        }
        // Where the kernel splits or merges, its requests are not the device's.
        let same = requests.abs_diff(self.requests) * 50 <= requests;
        let limit_us = summary.lateness.limit_p99_us;
        let fine = requests as f64 * limit_us >= COARSE * ROUNDED_US;
        (same && fine && requests >= REQUESTS_MIN).then(|| Beyond {
            source: "mean of the block layer",
            requests,
            beyond_us: self.total_ms as f64 * 1e3 / self.requests as f64
                - modelled_us / requests as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Wall;
    use crate::order::Timing;
    use crate::statistics::{LATE_SHARE, Statistics};
    use sim::Op;

    /// 1,000 reads of 10 ms, each answered on time.
    fn summary() -> Summary {
        reads(1000, 10_000)
    }

    fn reads(count: u64, us: u64) -> Summary {
        let mut statistics = Statistics::default();
        let (arrived, due) = (Wall(0), Wall(us * 1000));
        let timing = Timing { op: Op::Read, arrived, due, modelled_ns: Some(us * 1000) };
        (0..count).for_each(|_| statistics.replied(&timing, 4096, due));
        statistics.summary(LATE_SHARE, 1)
    }

    #[test]
    fn probes_are_compared_with_the_compensation() {
        let mut trips = Histogram::new();
        (0..19).for_each(|_| trips.record(30_000));
        let beyond =
            |trips: &Histogram| ClientSide::Probes(trips.clone()).beyond(0, &summary(), 12.0);
        assert!(beyond(&trips).is_none(), "too few");
        trips.record(30_000);
        assert!((beyond(&trips).unwrap().beyond_us - 18.0).abs() < 0.5);
        assert!(ClientSide::Unknown.beyond(0, &summary(), 0.0).is_none());
    }

    #[test]
    fn the_kernels_account_is_compared_with_the_model() {
        let account = |requests: u64, total_ms: u64| {
            let earlier = Account { requests: 7, total_ms: 70 };
            let now = Account { requests: requests + 7, total_ms: total_ms + 70 };
            let accounts = ClientSide::Accounts(vec![now.since(earlier)]);
            accounts.beyond(0, &summary(), 12.0).map(|beyond| beyond.beyond_us)
        };
        // The compensation is inside the times of the kernel already.
        assert!((account(1000, 12_500).unwrap() - 2_500.0).abs() < 20.0);
        assert!((account(1000, 2_490).unwrap() + 7_510.0).abs() < 20.0);
        assert_eq!(account(500, 6_000), None, "merged");
        assert_eq!(account(2000, 24_000), None, "split");
        // A millisecond is much to 100 reads of 100 us, and little to as many of 10 ms.
        let of_100 = ClientSide::Accounts(vec![Account { requests: 100, total_ms: 1_200 }]);
        assert!(of_100.beyond(0, &reads(100, 100), 0.0).is_none());
        assert!(of_100.beyond(0, &reads(100, 10_000), 0.0).is_some());
    }
}

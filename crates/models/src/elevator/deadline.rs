//! deadline, of Linux 2.6.26: requests by sector in batches, but none waits for ever.
//!
//! # What it models
//! Reads and writes each wait in the order of their sectors and in the order of their coming. A
//! batch goes on by sector. When it ends, reads go before writes unless writes were passed over
//! `writes_starved` times; the next batch begins with the oldest request of its direction if that
//! has expired, if there is none further up, or if the direction changed.
//!
//! # Equation
//! A request that has expired is served within one batch of each direction per batch before it.
//!
//! # Parameters
//! `read_expire`, `write_expire`, `fifo_batch`, `writes_starved`, `front_merges`, under the
//! kernel's names and with its defaults.
//!
//! # What it leaves out
//! Nothing of the policy. A batch ends, as in the kernel, as soon as the next request does not
//! begin where the last one ended.
//!
//! # Validated against
//! State tables by hand from the description, in its tests. No kernel that still has it was run
//! beside it.
//!
//! # References
//! Linux 2.6.27, `block/deadline-iosched.c`, `Documentation/block/deadline-iosched.txt`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Counters, Nanos, snapshot_fields};

use super::counted::EXPIRY;
use super::linux::batches::{Batches, KeptPlace, Rules, Turn};
use super::linux::pool::{Piece, Pool};
use super::{Built, Context, Kind, Policy, within};
use config::{ConfigError, Duration};

/// Parameters of the policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// A read should be served within this time.
    pub read_expire: Duration,
    /// A write should be served within this time.
    pub write_expire: Duration,
    /// Requests of a batch.
    pub fifo_batch: u32,
    /// Times that reads may go before writes.
    pub writes_starved: u32,
    /// Look for a request that begins where a bio ends.
    pub front_merges: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            read_expire: Duration(Nanos::from_millis(500)),
            write_expire: Duration(Nanos::from_secs(5)),
            fifo_batch: 16,
            writes_starved: 2,
            front_merges: true,
        }
    }
}

impl Params {
    /// What the policy counts.
    pub const COUNTED: sim::metric::Declarations = &[&EXPIRY];

    /// Build the policy.
    ///
    /// # Errors
    /// When a batch would have no request.
    pub fn build(&self, _context: &Context) -> Result<Built, ConfigError> {
        within("fifo_batch", self.fifo_batch, 1..=1 << 20)?;
        let rules = Rules {
            expire: [self.read_expire.0, self.write_expire.0],
            fifo_batch: self.fifo_batch,
            writes_starved: self.writes_starved,
            only_sequential: true,
            place: KeptPlace::UntilOtherDirection,
            tick: Nanos(1),
        };
        let deadline = Deadline {
            front_merges: self.front_merges,
            batches: Batches::new(rules),
            turn: Turn::of_reads(),
            expired: 0,
        };
        Ok(Built { policy: Box::new(deadline), kind: Kind::ERA })
    }
}

#[derive(Clone)]
struct Deadline {
    front_merges: bool,
    batches: Batches,
    turn: Turn,
    expired: u64,
}

snapshot_fields!(Deadline { batches, turn, expired });

impl Policy for Deadline {
    fn add(&mut self, now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        self.batches.add(now, pool, rq);
        false
    }

    fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    fn dispatch(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        if let Some((rq, expired)) = self.batches.next(now, pool, &mut self.turn) {
            self.turn.count();
            self.expired += u64::from(expired);
            self.batches.take(pool, rq);
            out.push(rq);
        }
    }

    fn drain(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        while !self.is_empty() {
            self.dispatch(now, pool, out);
        }
    }

    fn front(&self, _pool: &Pool, piece: &Piece) -> Option<u32> {
        self.batches.front(piece).filter(|_| self.front_merges)
    }

    fn grown(&mut self, pool: &Pool, rq: u32, old: u64) {
        self.batches.grown(pool, rq, old);
    }

    fn latter(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.batches.latter(pool, rq)
    }

    fn former(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.batches.former(pool, rq)
    }

    fn joined(&mut self, pool: &mut Pool, first: u32, second: u32) {
        self.batches.joined(pool, first, second);
    }

    fn counters(&self, out: &mut Counters) {
        out.add("expired", self.expired);
    }

    fn clear(&mut self) {
        self.batches.clear();
        self.turn = Turn::of_reads();
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::ElevatorPolicy;
    use crate::elevator::linux::tests::harness::{Medium, Rig};

    fn rig(change: impl Fn(&mut Params)) -> Rig {
        let mut params = Params::default();
        change(&mut params);
        Rig::new(&ElevatorPolicy::Deadline(params), Medium::fixed(1000))
    }

    /// Something in the device, so that what follows waits: a read of sector 900,000.
    fn occupied(change: impl Fn(&mut Params)) -> Rig {
        let mut rig = rig(change);
        rig.read(9, 900_000, 8);
        rig.until_us(0);
        rig
    }

    /// By hand: the batch's next is above 900,008: there is none, so the FIFO's head begins. Its
    /// next is not sequential, so every request begins a batch, from the next in sector order.
    #[test]
    fn reads_go_up_from_the_oldest_one() {
        let mut rig = occupied(|_| {});
        for lba in [500, 100, 700, 300] {
            rig.read(1, lba, 8);
        }
        assert_eq!(rig.drain()[1..], [500, 700, 100, 300]);
    }

    /// By hand: reads, and again reads (starved 0, 1), then the writes' turn.
    #[test]
    fn every_third_batch_is_writes() {
        let mut rig = occupied(|_| {});
        for n in 0..6 {
            rig.read(1, 1000 * (n + 1), 8);
            rig.write(2, 500_000 + 1000 * n, 8);
        }
        let order = rig.drain();
        let writes: Vec<bool> = order[1..].iter().map(|&lba| lba >= 500_000).collect();
        let expected =
            [false, false, true, false, false, true, false, false, true, true, true, true];
        assert_eq!(writes, expected);
    }

    /// The first request was a read when no write waited: it did not count as passing over.
    #[test]
    fn writes_starved_zero_serves_writes_first() {
        let mut rig = occupied(|params| params.writes_starved = 0);
        rig.read(1, 1000, 8);
        rig.write(2, 5000, 8);
        assert_eq!(rig.drain()[1..], [5000, 1000]);
    }

    /// A batch of sequential requests that were not merged: sixteen, then writes get a look in.
    #[test]
    fn a_sequential_batch_ends_after_sixteen() {
        let policy = ElevatorPolicy::Deadline(Params { writes_starved: 0, ..Params::default() });
        let mut rig = Rig::with(&policy, Medium::fixed(1000), |settings| {
            settings.extent.merge = false;
        });
        rig.read(9, 900_000, 8);
        rig.until_us(0);
        (0..40).for_each(|n| rig.write(2, 5000 + n * 8, 8));
        rig.until_us(1000);
        rig.read(1, 0, 8);
        let order = rig.drain();
        // One read at the head, a batch of writes, and then writes again: they are preferred.
        assert_eq!(order.iter().position(|&lba| lba == 0), Some(41));
        let policy = ElevatorPolicy::Deadline(Params::default());
        let mut rig = Rig::with(&policy, Medium::fixed(1000), |settings| {
            settings.extent.merge = false;
        });
        rig.read(9, 900_000, 8);
        rig.until_us(0);
        (0..40).for_each(|n| rig.write(2, 5000 + n * 8, 8));
        rig.until_us(1000);
        rig.read(1, 0, 8);
        assert_eq!(rig.drain().iter().position(|&lba| lba == 0), Some(17));
    }

    /// A read below the arm, and others that keep coming above it: after 500 ms it is served.
    #[test]
    fn an_expired_read_is_next() {
        let mut rig = occupied(|_| {});
        rig.read(1, 950_000, 8);
        rig.read(2, 10, 8);
        let mut served = None;
        for ms in 1..700u64 {
            rig.until_us(ms * 1000 - 500);
            rig.read(1, 950_000 + ms * 100, 8);
            rig.until_us(ms * 1000);
            served = served.or_else(|| rig.times().into_iter().find(|&(_, lba)| lba == 10));
        }
        assert_eq!(served, Some((500_000, 10)));
        assert!(rig.count("expired") >= 1);
    }

    #[test]
    fn front_merges_can_be_switched_off() {
        for (on, requests) in [(true, 3), (false, 4)] {
            let mut rig = occupied(|params| params.front_merges = on);
            // The policy is not asked about 500, which took the last bio.
            for lba in [500, 100, 92] {
                rig.write(1, lba, 8);
            }
            rig.drain();
            let merged = rig.count("merged_front");
            assert_eq!((merged, rig.count("dequeued")), (4 - requests, requests), "{on}");
        }
    }

    #[test]
    fn a_batch_of_nothing_is_refused() {
        let params = Params { fifo_batch: 0, ..Params::default() };
        let context = Context { nr_requests: 256, rotational: true };
        let error = params.build(&context).unwrap_err().to_string();
        assert_eq!(error, "fifo_batch: expected 1 to 1048576, got 0");
    }
}

//! A drive by the six numbers of Linux's `io.cost.model`.
//!
//! # What it models
//! One server whose time a request takes by whether it reads or writes, its size, and whether it
//! is sequential: the linear model by which the kernel's `blk-iocost` controller shares a drive
//! out. At saturation the drive gives the six numbers, `bps` by large requests: in shipped parts
//! those of 4 MiB give it within 4 %, of 1 MiB within 14 %, of 128 KiB 46 % of it at worst. It
//! stands for a drive of which no more is known, such as those of the iocost database.
//!
//! # Equation
//! `cost = 1 / iops + (bytes - 4096) / bps`: `iops` is `seqiops` where a request begins within
//! 16 MiB of the end of the one before it, else `randiops`. A request of less than 4 KiB takes at
//! least its share of one. Where 4 KiB take less than `4096 / bps` (small writes that stayed in a
//! drive's cache), the kernel counts `4096 / bps`, and its model misses that number.
//!
//! # Parameters
//! `capacity`, `rbps`, `rseqiops`, `rrandiops`, `wbps`, `wseqiops`, `wrandiops`, `queue_depth_max`.
//!
//! # What it leaves out
//! Latency below saturation: a request of an idle drive takes its cost, where a real drive takes
//! longer and does several at once. State, caches, collection. Flushes and discards cost nothing.
//!
//! # Validated against
//! Its own tests, and the six numbers of each part in devices/iocost.
//!
//! # References
//! Heo et al., "IOCost: Block IO Control for Containers in Datacenters", ASPLOS 2022; Linux,
//! `block/blk-iocost.c` (`calc_lcoefs`, `LCOEF_RANDIO_PAGES`).

use std::collections::VecDeque;

use config::device::Context;
use config::{ConfigError, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{
    Busy, Bytes, Completions, Counters, Device, Limits, Nanos, Op, Request, RequestId, Survivors,
    Unit, snapshot_fields,
};

use crate::device::check_depth;

/// The size whose IOPS the numbers are.
const PAGE_SECTORS: u64 = 8;
/// Requests that begin no farther from the end of the one before are sequential, in sectors.
const NEAR_SECTORS: u64 = (16 << 20) / 512;

/// Parameters of a drive by six numbers, by the kernel's names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Usable size.
    pub capacity: Size,
    /// Bytes read in a second, sequentially.
    pub rbps: Rate,
    /// Sequential reads of 4 KiB in a second.
    pub rseqiops: u64,
    /// Random reads of 4 KiB in a second.
    pub rrandiops: u64,
    /// Bytes written in a second, sequentially.
    pub wbps: Rate,
    /// Sequential writes of 4 KiB in a second.
    pub wseqiops: u64,
    /// Random writes of 4 KiB in a second.
    pub wrandiops: u64,
    /// Requests accepted at once.
    pub queue_depth_max: u32,
}

impl Default for Params {
    /// The kernel's default for an SSD behind a queue (`AUTOP_SSD_DFL`).
    fn default() -> Params {
        Params {
            capacity: Size(Bytes::from_gib(256)),
            rbps: Rate(488_636_629),
            rseqiops: 8_932,
            rrandiops: 8_518,
            wbps: Rate(427_891_549),
            wseqiops: 28_755,
            wrandiops: 21_940,
            queue_depth_max: 1024,
        }
    }
}

/// Costs in picoseconds: of 4 KiB, and of each sector more or less.
#[derive(Clone, Copy, Debug)]
struct Costs {
    sequential_ps: u64,
    random_ps: u64,
    sector_ps: u64,
}

const SECOND_PS: u64 = 1_000_000_000_000;

impl Costs {
    fn new(keys: [&str; 3], bps: u64, seqiops: u64, randiops: u64) -> Result<Costs, ConfigError> {
        for (key, value) in keys.into_iter().zip([bps, seqiops, randiops]) {
            if value == 0 {
                return Err(ConfigError::new(key, "expected more than 0"));
            }
        }
        Ok(Costs {
            sequential_ps: SECOND_PS / seqiops,
            random_ps: SECOND_PS / randiops,
            sector_ps: (u128::from(SECOND_PS) * 512 / u128::from(bps)) as u64,
        })
    }
}

impl Params {
    /// Nothing that other devices do not count.
    pub const COUNTED: sim::metric::Declarations = &[];

    /// Build the drive.
    ///
    /// # Errors
    /// Names the key that is 0 or out of range.
    pub fn build(&self, _context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        check_depth(self.queue_depth_max)?;
        if self.capacity.0.sectors() == 0 {
            return Err(ConfigError::new("capacity", "expected at least a sector of 512 bytes"));
        }
        let reads = ["rbps", "rseqiops", "rrandiops"];
        let writes = ["wbps", "wseqiops", "wrandiops"];
        Ok(Box::new(Iocost {
            capacity: self.capacity.0,
            depth: self.queue_depth_max,
            reads: Costs::new(reads, self.rbps.0, self.rseqiops, self.rrandiops)?,
            writes: Costs::new(writes, self.wbps.0, self.wseqiops, self.wrandiops)?,
            queue: VecDeque::new(),
            free_at_ps: 0,
            cursor: 0,
            busy_ps: [0; 2],
        }))
    }
}

#[derive(Clone)]
struct Iocost {
    capacity: Bytes,
    depth: u32,
    reads: Costs,
    writes: Costs,
    /// (when it is done, request): one server, so in order.
    queue: VecDeque<(Nanos, RequestId)>,
    /// When the server has done all of these. In picoseconds, so that costs do not round.
    free_at_ps: u128,
    /// The sector after the last request.
    cursor: u64,
    /// Time spent on reads and on writes.
    busy_ps: [u128; 2],
}

snapshot_fields!(Iocost { queue, free_at_ps, cursor, busy_ps });

impl Iocost {
    fn cost_ps(&self, request: &Request) -> u64 {
        let costs = match request.op {
            Op::Read => &self.reads,
            Op::Write => &self.writes,
            Op::Flush | Op::Discard => return 0,
        };
        let near = request.lba.0.abs_diff(self.cursor) <= NEAR_SECTORS;
        let page_ps = if near { costs.sequential_ps } else { costs.random_ps };
        let sectors = u64::from(request.sectors);
        match sectors.checked_sub(PAGE_SECTORS) {
            Some(more) => page_ps + more * costs.sector_ps,
            None => {
                let less = page_ps.saturating_sub((PAGE_SECTORS - sectors) * costs.sector_ps);
                less.max(page_ps * sectors / PAGE_SECTORS)
            }
        }
    }
}

impl Device for Iocost {
    fn limits(&self) -> Limits {
        Limits {
            capacity: self.capacity,
            block_bytes: 4096,
            queue_depth_max: self.depth,
            rotational: false,
            write_cache: false,
            discard: true,
        }
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.queue.len() >= self.depth as usize {
            return Err(Busy);
        }
        let cost = u128::from(self.cost_ps(&request));
        self.free_at_ps = self.free_at_ps.max(u128::from(now.0) * 1000) + cost;
        if matches!(request.op, Op::Read | Op::Write) {
            self.cursor = request.end().0;
            self.busy_ps[usize::from(request.op == Op::Write)] += cost;
        }
        let done = Nanos(self.free_at_ps.div_ceil(1000) as u64);
        self.queue.push_back((done, request.id));
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.queue.front().map(|&(at, _)| at)
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        while let Some(&(at, id)) = self.queue.front()
            && at <= now
        {
            self.queue.pop_front();
            out.complete(id, at);
        }
    }

    fn power_fail(&mut self, now: Nanos) -> Survivors {
        self.queue.clear();
        self.free_at_ps = u128::from(now.0) * 1000;
        Survivors::default()
    }

    fn counters(&self, out: &mut Counters) {
        let [read, write] = self.busy_ps.map(|ps| Nanos((ps / 1000) as u64));
        out.units.push(Unit::medium("drive", vec![("read", read), ("write", write)]));
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use sim::{Lba, Rng, Stepper};

    use super::*;

    /// Requests in a second of `sectors` each, back to back.
    fn rate(params: &Params, op: Op, sectors: u32, random: bool) -> f64 {
        let device = params.build(&Context { rng: Rng::new(1, "iocost") }).unwrap();
        let mut host = Stepper::new(device);
        let pages = host.device.limits().sectors() / u64::from(sectors);
        let (mut rng, count) = (Rng::new(1, "pages"), 20_000);
        for id in 0..count {
            let page = if random { rng.below(pages) } else { id % pages };
            host.answered(Request::new(op, Lba(page * u64::from(sectors)), sectors));
        }
        count as f64 / host.now().as_secs_f64()
    }

    #[test]
    fn a_saturated_drive_gives_its_six_numbers() {
        let params = Params::default();
        for (op, [bps, seqiops, randiops]) in [
            (Op::Read, [params.rbps.0, params.rseqiops, params.rrandiops]),
            (Op::Write, [params.wbps.0, params.wseqiops, params.wrandiops]),
        ] {
            let big = rate(&params, op, 1 << 14, false) * (512 << 14) as f64;
            for (what, got, expected) in [
                ("bps", big, bps),
                ("seqiops", rate(&params, op, 8, false), seqiops),
                ("randiops", rate(&params, op, 8, true), randiops),
            ] {
                let error = got / expected as f64 - 1.0;
                assert!(error.abs() < 0.02, "{} {what}: {got}, not {expected}", op.name());
            }
        }
    }

    #[test]
    fn values_that_cannot_be_name_their_key() {
        let key = |params: Params| {
            let context = Context { rng: Rng::new(1, "iocost") };
            params.build(&context).map(drop).unwrap_err().key
        };
        let none = Params::default();
        assert_eq!(key(Params { rbps: Rate(0), ..none.clone() }), "rbps");
        assert_eq!(key(Params { wrandiops: 0, ..none.clone() }), "wrandiops");
        assert_eq!(key(Params { queue_depth_max: 0, ..none.clone() }), "queue_depth_max");
        assert_eq!(key(Params { capacity: Size(Bytes(1)), ..none }), "capacity");
    }
}

//! A closed queueing model: so many customers who think, ask, wait, and think again.
//!
//! # What it models
//! Each customer thinks for a while, issues one request, and thinks again when it is answered. The
//! offered load is what they would ask for if answers took no time. Sizes are drawn evenly from a
//! range in steps and rounded up to whole blocks, as a file system does; places are drawn evenly.
//! After every `flush_every` writes of all customers, the one whose write was the last issues a
//! flush and waits for it too.
//!
//! # Equation
//! `Z = customers / offered` is the mean think time; with response time R and throughput X, the
//! law of interactive systems says `R = customers / X - Z`.
//!
//! # Parameters
//! `customers`, `offered` (requests per second), `think` (`exponential` or `constant`), `sizes`
//! (`min`, `max`, `step`), `block`, `span`, `writes`, `flush_every`, `time`.
//!
//! # What it leaves out
//! Arrivals that do not wait for answers; files, names and metadata.
//!
//! # Validated against
//! The law of interactive systems, exactly, and the mean size, in its own tests.
//!
//! # References
//! Denning and Buzen, "The operational analysis of queueing network models", Computing Surveys
//! 10(3), 1978. CSIM's closed model, as used by Byun, J. KAIS 11(12), 2010.

use std::collections::BTreeSet;

use config::{ConfigError, Duration, Size, check_share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, Completion, Demand, Lba, Nanos, Op, Request, Rng, Workload, WorkloadError};

use crate::Context;

/// Bytes of the largest request, and of the largest block: rounded up, one has a number of sectors.
const SIZE_MAX: u64 = 1 << 30;

/// The law of the think times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Think {
    /// Exponentially distributed.
    #[default]
    Exponential,
    /// Always the mean.
    Constant,
}

/// From which sizes requests are drawn.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sizes {
    /// Smallest.
    pub min: Size,
    /// Largest.
    pub max: Size,
    /// Distance between two.
    pub step: Size,
}

impl Default for Sizes {
    fn default() -> Sizes {
        let kib = |n| Size(Bytes::from_kib(n));
        Sizes { min: kib(10), max: kib(500), step: kib(10) }
    }
}

/// Parameters of the closed model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// How many.
    pub customers: u32,
    /// Requests per second they would make if answers took no time.
    pub offered: f64,
    /// The law of their think times.
    pub think: Think,
    /// Sizes of requests.
    pub sizes: Sizes,
    /// Sizes are rounded up to, and places aligned to, blocks of this size.
    pub block: Size,
    /// The part of the device they use, from its start; a smaller device is used whole.
    pub span: Size,
    /// Share of writes; the rest are reads.
    pub writes: f64,
    /// A flush after so many writes; 0 for never.
    pub flush_every: u32,
    /// Nothing is issued after this time.
    pub time: Duration,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            customers: 6,
            offered: 100.0,
            think: Think::Exponential,
            sizes: Sizes::default(),
            block: Size(Bytes::from_kib(4)),
            span: Size(Bytes::from_gib(1)),
            writes: 1.0,
            flush_every: 0,
            time: Duration(Nanos::from_secs(180)),
        }
    }
}

impl Params {
    /// Build the workload.
    ///
    /// # Errors
    /// Names the key whose value is out of range, the value and the range.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Workload + Send>, ConfigError> {
        check_share("writes", self.writes)?;
        if !(1..=1 << 20).contains(&self.customers) {
            let message = format!("expected 1 to 1048576, got {}", self.customers);
            return Err(ConfigError::new("customers", message));
        }
        if !(self.offered > 0.0 && self.offered <= 1e9) {
            let message = format!("expected more than 0, got {}", self.offered);
            return Err(ConfigError::new("offered", message));
        }
        let block = self.block.0.0;
        if block == 0 || !block.is_multiple_of(512) || block > SIZE_MAX {
            let message = format!(
                "expected whole sectors of 512 bytes, 1GiB at most, got \"{}\"",
                self.block
            );
            return Err(ConfigError::new("block", message));
        }
        let Sizes { min, max, step } = self.sizes;
        if min.0.0 == 0 || step.0.0 == 0 || max < min || max.0.0 > SIZE_MAX {
            let message =
                format!("expected 0 < min <= max <= 1GiB and a step, got {min} to {max} by {step}");
            return Err(ConfigError::new("sizes", message));
        }
        let span = self.span.0.min(context.limits.capacity).0 / block;
        if span < max.0.0.div_ceil(block) {
            let message = format!("expected room for a request of {max}, got {}", self.span);
            return Err(ConfigError::new("span", message));
        }
        let think_ns = f64::from(self.customers) / self.offered * 1e9;
        let mut rng = context.rng.split("think");
        let wakes = (0..self.customers).map(|customer| {
            let think = draw(self.think, think_ns, &mut rng);
            (think, customer)
        });
        Ok(Box::new(Customers {
            wakes: wakes.collect(),
            params: self.clone(),
            think_ns,
            span,
            think: rng,
            requests: context.rng.split("requests"),
            unflushed: 0,
        }))
    }
}

fn draw(law: Think, mean_ns: f64, rng: &mut Rng) -> Nanos {
    let share = match law {
        Think::Exponential => -libm::log(1.0 - rng.unit()),
        Think::Constant => 1.0,
    };
    Nanos((mean_ns * share) as u64)
}

#[derive(Clone, Debug)]
struct Customers {
    params: Params,
    think_ns: f64,
    /// Blocks that are used.
    span: u64,
    think: Rng,
    requests: Rng,
    /// (when it asks next, customer), for those who think.
    wakes: BTreeSet<(Nanos, u32)>,
    /// Writes since the last flush.
    unflushed: u32,
}

impl Customers {
    fn request(&mut self) -> Request {
        let Params { sizes: Sizes { min, max, step }, block, writes, .. } = self.params;
        let steps = (max.0.0 - min.0.0) / step.0.0 + 1;
        let bytes = min.0.0 + self.requests.below(steps) * step.0.0;
        let blocks = bytes.div_ceil(block.0.0);
        let place = self.requests.below(self.span - blocks + 1);
        let sectors = block.0.sectors();
        let op = if self.requests.chance(writes) { Op::Write } else { Op::Read };
        Request::new(op, Lba(place * sectors), (blocks * sectors) as u32)
    }
}

impl Workload for Customers {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        if now >= self.params.time.0 {
            return Ok(Demand::End);
        }
        let Some(&(at, customer)) = self.wakes.first() else { return Ok(Demand::Wait) };
        if at > now {
            return Ok(Demand::At(at));
        }
        self.wakes.pop_first();
        let every = self.params.flush_every;
        let mut request = if every > 0 && self.unflushed >= every {
            self.unflushed = 0;
            Request::flush()
        } else {
            self.request()
        };
        request.process = customer + 1;
        Ok(Demand::Issue(request))
    }

    fn complete(&mut self, request: &Request, completion: Completion) {
        self.unflushed += u32::from(request.op == Op::Write);
        let every = self.params.flush_every;
        let flushes = every > 0 && self.unflushed >= every && request.op == Op::Write;
        let think = if flushes {
            Nanos::ZERO
        } else {
            draw(self.params.think, self.think_ns, &mut self.think)
        };
        self.wakes.insert((completion.at.saturating_add(think), request.process - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::testing::context;

    #[test]
    fn sizes_are_files_in_whole_blocks_and_flushes_come_after_every_eighth() {
        let mut workload =
            Params { flush_every: 8, ..Params::default() }.build(&context(1)).unwrap();
        let (mut sum, mut writes, mut flushes, mut now) = (0, 0u64, 0u64, Nanos::ZERO);
        loop {
            let request = match workload.next(now).unwrap() {
                Demand::Issue(request) => request,
                Demand::At(at) => {
                    now = at;
                    continue;
                }
                Demand::Wait | Demand::End => break,
            };
            match request.op {
                Op::Flush => flushes += 1,
                _ => {
                    assert!(request.sectors % 8 == 0 && (24..=1000).contains(&request.sectors));
                    (sum, writes) = (sum + u64::from(request.sectors), writes + 1);
                }
            }
            workload.complete(&request, Completion { id: request.id, at: now });
        }
        // 255 KiB and on average 1 KiB to fill the last block.
        assert!((sum as f64 / writes as f64 / 2.0 / 256.2 - 1.0).abs() < 0.01, "{sum} {writes}");
        assert!(writes > 15_000 && flushes == writes / 8, "{writes} {flushes}");
    }

    #[test]
    fn values_out_of_range_name_their_key() {
        let error = |params: Params| params.build(&context(1)).map(drop).unwrap_err().key;
        assert_eq!(error(Params { customers: 0, ..Params::default() }), "customers");
        assert_eq!(error(Params { offered: 0.0, ..Params::default() }), "offered");
        assert_eq!(error(Params { writes: 2.0, ..Params::default() }), "writes");
        assert_eq!(error(Params { span: Size(Bytes(4096)), ..Params::default() }), "span");
        // A request of one such block has no number of sectors.
        let block = Size(Bytes::from_gib(2048));
        assert_eq!(error(Params { block, ..Params::default() }), "block");
        let step = Size(Bytes(0));
        let sizes = Sizes { step, ..Sizes::default() };
        assert_eq!(error(Params { sizes, ..Params::default() }), "sizes");
    }
}

//! kyber: each kind of request has so many places in the device that the others stay fast.
//!
//! # What it models
//! Reads, writes and discards (domains) queue by themselves and go in the order of their coming, in
//! batches that take turns. A request needs a token of its domain while it is in the device. Ten
//! times a second the response times are looked at: when the 90th percentile in the device of a
//! domain misses its target, every domain gets as many tokens as the 99th percentile of its whole
//! times asks for, so that those who have time to spare make room. Requests that nobody waits for
//! may use three quarters of the pool.
//!
//! # Equation
//! `tokens = tokens * (bucket + 1) / 4`, where bucket 0 to 7 is that of the 99th percentile in
//! quarters of the target; at least 1, at most the domain's own number
//!
//! # Parameters
//! `read_lat_nsec`, `write_lat_nsec` under the kernel's names (measured: 2 and 10 ms on 6.18).
//! `tokens` (256, 128, 64) and `batch` (16, 8, 1) for reads, writes and discards are constants
//! there, here as remembered. A histogram is read when it has 500 samples or is a second old; the
//! two of a domain share that second, which the first one takes.
//!
//! # What it leaves out
//! Several processors, each with software queues of its own. Flushes pass it by.
//!
//! # Validated against
//! State tables by hand from the description, in its tests. The number of requests that its rule of
//! merging makes of recordings of Linux 6.18 is 0.4 to 4.4 % too low.
//!
//! # References
//! Linux 6.18, `block/kyber-iosched.c`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::metric::{Counted, Counter};
use sim::{Counters, Nanos, Op, Request, snapshot_fields};

use super::linux::pool::{Fifo, Pool};
use super::linux::tags::map::Words;
use super::{Built, Context, Kind, Merging, Policy, within};
use config::{ConfigError, Duration};

/// Reads, writes, discards.
const DOMAINS: usize = 3;
/// Of a histogram; four of them are within the target.
const BUCKETS: usize = 8;
const GOOD_BUCKETS: usize = 4;
const SAMPLES_MIN: u64 = 500;
const SAMPLES_AGE: Nanos = Nanos::from_secs(1);
const PERIOD: Nanos = Nanos::from_millis(100);
/// Share of the pool for what nobody waits for.
const ASYNC_PERCENT: u32 = 75;
const DISCARD_TARGET: Nanos = Nanos::from_secs(5);

/// What only Kyber counts.
static TOKENS: Counted = Counted {
    counters: &[
        Counter::new("throttled", "waits", "times that a request's turn came without a token"),
        Counter::new("read_tokens", "requests", "reads that may be out at once, now"),
        Counter::new("write_tokens", "requests", "the same of writes"),
        Counter::new("discard_tokens", "requests", "the same of discards"),
    ],
    metrics: &[],
};

/// Parameters of the policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Reads should be in the device for no longer than this.
    pub read_lat_nsec: Duration,
    /// Writes should be in the device for no longer than this.
    pub write_lat_nsec: Duration,
    /// Reads, writes and discards in the device at once, at most.
    pub tokens: [u32; DOMAINS],
    /// Reads, writes and discards in a row.
    pub batch: [u32; DOMAINS],
}

impl Default for Params {
    fn default() -> Params {
        Params {
            read_lat_nsec: Duration(Nanos::from_millis(2)),
            write_lat_nsec: Duration(Nanos::from_millis(10)),
            tokens: [256, 128, 64],
            batch: [16, 8, 1],
        }
    }
}

impl Params {
    /// What the policy counts.
    pub const COUNTED: sim::metric::Declarations = &[&TOKENS];

    /// Build the policy.
    ///
    /// # Errors
    /// When a target is 0, or a domain would have no token or no batch.
    pub fn build(&self, context: &Context) -> Result<Built, ConfigError> {
        for (key, value) in
            [("read_lat_nsec", self.read_lat_nsec), ("write_lat_nsec", self.write_lat_nsec)]
        {
            if value.0 == Nanos::ZERO {
                return Err(ConfigError::new(key, "expected more than 0, got \"0ns\""));
            }
        }
        self.tokens.iter().try_for_each(|&n| within("tokens", n, 1..=1 << 16))?;
        self.batch.iter().try_for_each(|&n| within("batch", n, 1..=1 << 16))?;
        let targets = [self.read_lat_nsec.0, self.write_lat_nsec.0, DISCARD_TARGET];
        let policy = Kyber {
            async_depth: Words::of(context.nr_requests).requests * ASYNC_PERCENT / 100,
            batch: self.batch,
            domains: std::array::from_fn(|n| Domain::new(targets[n], self.tokens[n])),
            current: 0,
            batching: 0,
            look_at: Nanos::MAX,
        };
        let kind = Kind { merging: Merging::Recent, ..Kind::TODAY };
        Ok(Built { policy: Box::new(policy), kind })
    }
}

/// Response times in quarters of a target.
#[derive(Clone, Copy, Default, Debug)]
struct Times {
    buckets: [u64; BUCKETS],
}

snapshot_fields!(Times { buckets });

impl Times {
    fn add(&mut self, time: Nanos, target: Nanos) {
        let quarter = (target.0 / GOOD_BUCKETS as u64).max(1);
        let bucket = time.0.saturating_sub(1) / quarter;
        self.buckets[(bucket as usize).min(BUCKETS - 1)] += 1;
    }

    /// The bucket of a percentile, once enough is known; then it begins anew. Fewer samples are
    /// enough from `ready` on, which the histograms of a domain share: where the one is read each
    /// second, the other waits for all its samples.
    fn percentile(&mut self, ready: &mut Option<Nanos>, now: Nanos, percent: u64) -> Option<usize> {
        let samples: u64 = self.buckets.iter().sum();
        if samples == 0 {
            return None;
        }
        let old_enough = *ready.get_or_insert(now + SAMPLES_AGE);
        if samples < SAMPLES_MIN && now < old_enough {
            return None;
        }
        *ready = None;
        let mut left = (samples * percent).div_ceil(100);
        let bucket = self.buckets[..BUCKETS - 1].iter().position(|&count| {
            let found = count >= left;
            left = left.saturating_sub(count);
            found
        });
        *self = Times::default();
        Some(bucket.unwrap_or(BUCKETS - 1))
    }
}

/// Requests of one kind.
#[derive(Clone, Debug)]
struct Domain {
    target: Nanos,
    tokens_max: u32,
    tokens: u32,
    used: u32,
    /// Newly come: a bio may join the last few.
    software: Fifo,
    /// On their way to the device.
    hardware: Fifo,
    in_device: Times,
    whole: Times,
    /// From when on few times are enough.
    ready: Option<Nanos>,
    /// The percentile of the last period in which nothing was late.
    before: Option<usize>,
    /// Times that its turn came, and it had a request and no token.
    throttled: u64,
}

snapshot_fields!(Domain {
    tokens,
    used,
    software,
    hardware,
    in_device,
    whole,
    ready,
    before,
    throttled
});

impl Domain {
    fn new(target: Nanos, tokens_max: u32) -> Domain {
        Domain {
            target,
            tokens_max,
            tokens: tokens_max,
            used: 0,
            software: Fifo::default(),
            hardware: Fifo::default(),
            in_device: Times::default(),
            whole: Times::default(),
            ready: None,
            before: None,
            throttled: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.software.is_empty() && self.hardware.is_empty()
    }

    /// The next request, if there are one and a token for it.
    fn next(&mut self, pool: &mut Pool) -> Option<u32> {
        if self.used >= self.tokens {
            self.throttled += u64::from(!self.is_empty());
            return None;
        }
        if self.hardware.is_empty() {
            std::mem::swap(&mut self.hardware, &mut self.software);
        }
        let rq = self.hardware.head()?;
        self.hardware.remove(pool, rq);
        self.used += 1;
        Some(rq)
    }
}

#[derive(Clone, Debug)]
struct Kyber {
    async_depth: u32,
    batch: [u32; DOMAINS],
    domains: [Domain; DOMAINS],
    current: usize,
    batching: u32,
    /// When the times are looked at next.
    look_at: Nanos,
}

snapshot_fields!(Kyber { domains, current, batching, look_at });

fn domain(op: Op) -> usize {
    match op {
        Op::Write => 1,
        Op::Discard => 2,
        Op::Read | Op::Flush => 0,
    }
}

impl Policy for Kyber {
    fn add(&mut self, _now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        self.domains[domain(pool[rq].what.op)].software.push(pool, rq);
        false
    }

    fn is_empty(&self) -> bool {
        self.domains.iter().all(Domain::is_empty)
    }

    fn dispatch(&mut self, _now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        if self.batching < self.batch[self.current]
            && let Some(rq) = self.domains[self.current].next(pool)
        {
            self.batching += 1;
            return out.push(rq);
        }
        self.batching = 0;
        for _ in 0..DOMAINS {
            self.current = (self.current + 1) % DOMAINS;
            if let Some(rq) = self.domains[self.current].next(pool) {
                self.batching = 1;
                return out.push(rq);
            }
        }
    }

    fn drain(&mut self, _now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        for domain in &mut self.domains {
            let tokens = std::mem::replace(&mut domain.tokens, u32::MAX);
            out.extend(std::iter::from_fn(|| domain.next(pool)));
            domain.tokens = tokens;
        }
    }

    fn completed(&mut self, now: Nanos, pool: &Pool, rq: u32) {
        let entry = &pool[rq];
        let domain = &mut self.domains[domain(entry.what.op)];
        domain.used -= 1;
        domain.in_device.add(now.since(entry.started), domain.target);
        domain.whole.add(now.since(entry.allocated), domain.target);
        self.look_at = self.look_at.min(now + PERIOD);
    }

    fn next_event(&self) -> Option<Nanos> {
        (self.look_at != Nanos::MAX).then_some(self.look_at)
    }

    fn timer(&mut self, now: Nanos, _pool: &Pool) {
        if now < self.look_at {
            return;
        }
        self.look_at = Nanos::MAX;
        let late = |domain: &mut Domain| {
            let bucket = domain.in_device.percentile(&mut domain.ready, now, 90);
            bucket.is_some_and(|bucket| bucket >= GOOD_BUCKETS)
        };
        let bad = self.domains.iter_mut().filter_map(|domain| late(domain).then_some(())).count();
        for domain in &mut self.domains {
            let mut bucket = domain.whole.percentile(&mut domain.ready, now, 99);
            if bad > 0 {
                // Once it was used, another one is waited for.
                bucket = bucket.or(domain.before.take());
                domain.before = None;
            } else if bucket.is_some() {
                domain.before = bucket;
            }
            let Some(bucket) = bucket else { continue };
            if bad > 0 || bucket >= GOOD_BUCKETS {
                let tokens = domain.tokens * (bucket as u32 + 1) / GOOD_BUCKETS as u32;
                domain.tokens = tokens.clamp(1, domain.tokens_max);
            }
        }
    }

    fn latter(&self, _pool: &Pool, _rq: u32) -> Option<u32> {
        None
    }

    fn former(&self, _pool: &Pool, _rq: u32) -> Option<u32> {
        None
    }

    fn joined(&mut self, _pool: &mut Pool, _first: u32, _second: u32) {
        unreachable!("kyber names no neighbours, so no two of its requests become one");
    }

    fn software_queue(&self, what: &Request) -> Option<&Fifo> {
        Some(&self.domains[domain(what.op)].software)
    }

    fn depth(&self, what: &Request) -> u32 {
        // Where a word has one request, three quarters are none, and that is no limit.
        if what.is_sync() || self.async_depth == 0 { u32::MAX } else { self.async_depth }
    }

    fn depth_min(&self) -> u32 {
        self.async_depth
    }

    fn counters(&self, out: &mut Counters) {
        out.add("throttled", self.domains.iter().map(|domain| domain.throttled).sum());
        for (name, domain) in ["read", "write", "discard"].iter().zip(&self.domains) {
            out.level(format!("{name}_tokens"), u64::from(domain.tokens));
        }
    }

    fn clear(&mut self) {
        for domain in &mut self.domains {
            let throttled = domain.throttled;
            *domain = Domain { throttled, ..Domain::new(domain.target, domain.tokens_max) };
        }
        (self.current, self.batching, self.look_at) = (0, 0, Nanos::MAX);
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::ElevatorPolicy;
    use crate::elevator::linux::tests::clients::{Client, run};
    use crate::elevator::linux::tests::harness::{Medium, Rig};

    fn policy(params: Params) -> ElevatorPolicy {
        ElevatorPolicy::Kyber(params)
    }

    /// By hand: one read is out. Writes come next in the round, eight of them, then sixteen reads.
    #[test]
    fn domains_take_turns_in_batches() {
        let mut rig = Rig::new(&policy(Params::default()), Medium::fixed(1000));
        rig.read(9, 900_000, 8);
        rig.until_us(0);
        for n in 0..40 {
            rig.read(1, 1000 * n, 8);
            rig.write(2, 500_000 + 1000 * n, 8);
        }
        let order = rig.drain();
        let runs: Vec<usize> = order[1..]
            .chunk_by(|a, b| (*a < 500_000) == (*b < 500_000))
            .map(<[u64]>::len)
            .collect();
        // The read that is out began the first batch of reads.
        assert_eq!(runs, [15, 8, 16, 8, 9, 24]);
        assert!(order[1] < 500_000, "{order:?}");
    }

    #[test]
    fn no_domain_has_more_in_the_device_than_tokens() {
        let params = Params { tokens: [2, 3, 1], ..Params::default() };
        let mut rig = Rig::new(&policy(params), Medium::fixed(1000).deep(32));
        for n in 0..10 {
            rig.read(1, 1000 * n, 8);
            rig.write_sync(2, 500_000 + 1000 * n, 8);
        }
        rig.until_us(0);
        let writes = rig.order().iter().filter(|&&lba| lba >= 500_000).count();
        assert_eq!((rig.order().len() - writes, writes), (2, 3));
    }

    /// One token: of three reads two find none, where all three find one of three.
    #[test]
    fn a_request_without_a_token_is_throttled() {
        let throttled = |reads: u32| {
            let params = Params { tokens: [reads, 1, 1], ..Params::default() };
            let mut rig = Rig::new(&policy(params), Medium::fixed(1000).deep(4));
            (0..3).for_each(|n| rig.read(1, 1000 * n, 8));
            rig.until_us(0);
            let at_once = rig.count("throttled");
            rig.drain();
            (at_once >= 1, rig.count("throttled") >= 2)
        };
        assert_eq!((throttled(1), throttled(3)), ((true, true), (false, false)));
    }

    #[test]
    fn a_percentile_is_a_quarter_of_the_target() {
        let (mut times, target) = (Times::default(), Nanos(4000));
        (0..90).for_each(|_| times.add(Nanos(1000), target));
        (0..10).for_each(|_| times.add(Nanos(1001), target));
        let (mut ready, later) = (None, SAMPLES_AGE);
        assert_eq!(times.percentile(&mut ready, Nanos(0), 90), None);
        assert_eq!(times.clone().percentile(&mut ready.clone(), later, 90), Some(0));
        assert_eq!(times.percentile(&mut ready, later, 99), Some(1));
        assert_eq!(times.percentile(&mut ready, later, 99), None, "it began anew");
        (0..500).for_each(|_| times.add(Nanos(1 << 40), target));
        assert_eq!(times.percentile(&mut ready, later, 90), Some(BUCKETS - 1));
    }

    /// By hand: a hundred late reads and a hundred writes a second. What those took in the device
    /// is read after each second, so what they took in all is not before 500 are known: then, and
    /// no sooner, writes lose tokens.
    #[test]
    fn few_requests_cost_tokens_when_they_are_five_hundred() {
        let mut rig = Rig::new(&policy(Params::default()), Medium::fixed(4000));
        let all = rig.level("write_tokens");
        let lost = (1..1000).find(|n| {
            rig.read(1, 1000 * n, 8);
            rig.until_us(10_000 * n + 5_000);
            rig.write(2, 500_000 + 1000 * n, 8);
            rig.until_us(10_000 * (n + 1));
            rig.level("write_tokens") < all
        });
        assert!(lost.is_some_and(|n| (500..=650).contains(&n)), "after {lost:?} writes");
    }

    /// Writes 64 deep before a device that takes 100 us for each: reads behind them take 6 ms,
    /// until the writes have few tokens. Without the policy it stays so: the negative control.
    #[test]
    fn writes_lose_tokens_until_reads_are_in_time() {
        let reader = Client { random: true, ..Client::reader(0).thinking_ms(1) };
        let writer = Client { random: true, ..Client::writer(3) };
        let medium = || Medium::fixed(100).deep(64);
        let p90 = |policy: &ElevatorPolicy| {
            let out = run(policy, medium(), &[reader, writer], 20);
            (out.late_p90(0), out.level("write_tokens"))
        };
        let (kyber, tokens) = p90(&policy(Params::default()));
        let (none, _) = p90(&ElevatorPolicy::from_name("none").unwrap());
        // The target is for the time in the device; some wait before it is added.
        assert!(kyber <= Nanos::from_micros(2500), "{kyber}");
        assert!((1..=20).contains(&tokens), "{tokens}");
        assert!(none > Nanos::from_millis(5), "{none}");
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let context = Context { nr_requests: 256, rotational: false };
        let error = |params: Params| params.build(&context).unwrap_err().to_string();
        let target = Params { read_lat_nsec: Duration(Nanos(0)), ..Params::default() };
        assert_eq!(error(target), "read_lat_nsec: expected more than 0, got \"0ns\"");
        let tokens = Params { tokens: [1, 0, 1], ..Params::default() };
        assert_eq!(error(tokens), "tokens: expected 1 to 65536, got 0");
    }
}

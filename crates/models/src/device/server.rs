//! A server of queueing theory: one queue, drawn service times, and freezes.
//!
//! # What it models
//! Requests are served one at a time in the order of arrival. Each costs a fixed time, spread
//! evenly between two factors, and a time by its size; with some probability a write freezes the
//! server for an exponentially distributed time more. A flush waits for its turn and costs
//! nothing. It stands for a device of which no more is known than such numbers, as in papers with
//! queueing models.
//!
//! # Equation
//! `service = base U(low, high) + bytes / rate + [U(0, 1) < probability] Exp(mean)`
//!
//! # Parameters
//! `capacity`, `base`, `spread` (`[low, high]`), `rate`, `freeze` (`probability`, `mean`,
//! `common`), `serial`, `queue_depth_max`.
//!
//! # What it leaves out
//! Everything that makes real devices freeze when they do: state, addresses, parallelism. Two
//! servers with different `serial` draw for themselves; with probability `freeze.common` a write
//! has the freeze, or none, that the same write has on every other server of the mirror.
//!
//! # Validated against
//! Its own tests: the exact time of a server without chance, the mean service time, the share of
//! freezes that two servers have in common; and Pollaczek and Khinchine's waiting time.
//!
//! # References
//! Kleinrock, "Queueing Systems", volume 1, 1975. The numbers of studies/hetero-mirror are a fit to
//! Byun, J. KAIS 11(12), 2010.

use std::collections::VecDeque;

use config::device::Context;
use config::{ConfigError, Duration, Rate, Size, check_share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::metric::{Counted, Counter, Metric};
use sim::{
    Busy, Bytes, Completions, Counters, Device, Limits, Nanos, Op, Request, RequestId, Rng,
    Survivors, Unit, UnitKind, snapshot_fields,
};

use crate::device::check_depth;

/// When and how long a server stands still.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Freeze {
    /// Share of the writes that freeze it.
    pub probability: f64,
    /// Mean length.
    pub mean: Duration,
    /// Share of the writes whose freeze is drawn for all servers of the mirror together.
    pub common: f64,
}

impl Default for Freeze {
    fn default() -> Freeze {
        Freeze { probability: 0.0, mean: Duration(Nanos::from_millis(100)), common: 0.0 }
    }
}

/// What a server counts.
static SERVED: Counted = Counted {
    counters: &[
        Counter::new("served", "requests", "requests that a server finished"),
        Counter::new("server_freezes", "services", "services that a freeze lengthened"),
    ],
    metrics: &[Metric::count(
        "server_freezes",
        "services",
        "services of a `server` that a freeze lengthened while measuring",
        "server_freezes",
    )],
};

/// Parameters of a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Usable size.
    pub capacity: Size,
    /// Time of every request, whatever its size.
    pub base: Duration,
    /// Least and greatest factor on `base`.
    pub spread: [f64; 2],
    /// Bytes per second beyond that.
    pub rate: Rate,
    /// Freezes.
    pub freeze: Freeze,
    /// Tells servers with the same random stream apart.
    pub serial: u32,
    /// Requests accepted at once.
    pub queue_depth_max: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            capacity: Size(Bytes::from_gib(32)),
            base: Duration(Nanos::from_millis(1)),
            spread: [1.0, 1.0],
            rate: Rate(100_000_000),
            freeze: Freeze::default(),
            serial: 1,
            queue_depth_max: 1024,
        }
    }
}

impl Params {
    /// What a server counts.
    pub const COUNTED: sim::metric::Declarations = &[&SERVED];

    /// Build the server.
    ///
    /// # Errors
    /// Names the key whose value is out of range, the value and the range.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        check_depth(self.queue_depth_max)?;
        check_share("freeze.probability", self.freeze.probability)?;
        check_share("freeze.common", self.freeze.common)?;
        let [low, high] = self.spread;
        if !(0.0 <= low && low <= high && high <= 1000.0) {
            let message = format!("expected 0 <= low <= high <= 1000, got [{low}, {high}]");
            return Err(ConfigError::new("spread", message));
        }
        if self.rate.0 == 0 {
            return Err(ConfigError::new("rate", "expected more than 0B/s"));
        }
        if self.capacity.0.sectors() == 0 {
            return Err(ConfigError::new("capacity", "expected at least a sector of 512 bytes"));
        }
        let own = context.rng.split(&format!("serial {}", self.serial));
        Ok(Box::new(Server {
            params: self.clone(),
            own,
            common: context.rng.split("common"),
            queue: VecDeque::new(),
            free_at: Nanos::ZERO,
            counts: Counts::default(),
        }))
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    served: u64,
    freezes: u64,
    frozen_ns: u64,
    busy_ns: u64,
}

snapshot_fields!(Counts { served, freezes, frozen_ns, busy_ns });

#[derive(Clone)]
struct Server {
    params: Params,
    own: Rng,
    common: Rng,
    /// (when it is done, request): one server, so in order.
    queue: VecDeque<(Nanos, RequestId)>,
    free_at: Nanos,
    counts: Counts,
}

snapshot_fields!(Server { own, common, queue, free_at, counts });

/// The freeze of one write in nanoseconds, by two draws.
fn drawn(freeze: &Freeze, rng: &mut Rng) -> u64 {
    let (chance, length) = (rng.unit(), rng.unit());
    if chance < freeze.probability {
        (-libm::log(1.0 - length) * freeze.mean.0.0 as f64) as u64
    } else {
        0
    }
}

impl Server {
    fn service(&mut self, request: &Request) -> Nanos {
        if request.op == Op::Flush {
            return Nanos::ZERO;
        }
        let Params { base, spread: [low, high], rate, freeze, .. } = self.params;
        let factor = low + (high - low) * self.own.unit();
        let bytes = if request.op == Op::Discard { 0 } else { request.bytes().0 };
        let transfer = u128::from(bytes) * 1_000_000_000 / u128::from(rate.0);
        let mut frozen = 0;
        if request.op == Op::Write {
            // Every stream moves on with every write, so that servers stay in step.
            let (own, common) = (drawn(&freeze, &mut self.own), drawn(&freeze, &mut self.common));
            frozen = if self.common.chance(freeze.common) { common } else { own };
        }
        self.counts.freezes += u64::from(frozen > 0);
        self.counts.frozen_ns += frozen;
        Nanos((base.0.0 as f64 * factor) as u64 + transfer as u64 + frozen)
    }
}

impl Device for Server {
    fn limits(&self) -> Limits {
        Limits {
            capacity: self.params.capacity.0,
            block_bytes: 4096,
            queue_depth_max: self.params.queue_depth_max,
            rotational: false,
            write_cache: false,
            discard: true,
        }
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.queue.len() >= self.params.queue_depth_max as usize {
            return Err(Busy);
        }
        let service = self.service(&request);
        self.counts.served += 1;
        self.counts.busy_ns += service.0;
        self.free_at = self.free_at.max(now) + service;
        self.queue.push_back((self.free_at, request.id));
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
        self.free_at = now;
        Survivors::default()
    }

    fn counters(&self, out: &mut Counters) {
        out.add("served", self.counts.served);
        out.add("server_freezes", self.counts.freezes);
        let frozen = Nanos(self.counts.frozen_ns);
        let busy = vec![("serve", Nanos(self.counts.busy_ns - frozen.0)), ("freeze", frozen)];
        out.units.push(Unit { name: "server".into(), kind: UnitKind::Server, busy });
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use sim::{Lba, NoProbe, Stepper, Stop, simulate};
    use workload::customers::{self, Think};

    use super::*;

    fn server(params: Params) -> Box<dyn Device> {
        params.build(&Context { rng: Rng::new(1, "server") }).unwrap()
    }

    fn freezing(serial: u32, common: f64) -> Box<dyn Device> {
        let freeze = Freeze { probability: 0.02, common, ..Freeze::default() };
        server(Params { freeze, serial, ..Params::default() })
    }

    /// What each of `n` writes one after the other takes, in ns.
    fn times(device: Box<dyn Device>, n: u64) -> Vec<u64> {
        let mut host = Stepper::new(device);
        let one = |_| {
            let start = host.now();
            host.submit(Request::write(Lba(0), 8)).unwrap();
            host.drain();
            host.now().since(start).0
        };
        (0..n).map(one).collect()
    }

    #[test]
    fn without_chance_every_time_is_exact() {
        let mut host = Stepper::new(server(Params::default()));
        host.submit(Request::write(Lba(0), 200)).unwrap();
        host.submit(Request::flush()).unwrap();
        // 1 ms and 102,400 bytes at 100 MB/s.
        assert!(host.run_until(Nanos(2_023_999)).is_empty());
        assert_eq!(host.run_until(Nanos(2_024_000)).len(), 2);
    }

    #[test]
    fn the_mean_service_time_is_that_of_the_equation() {
        let n = 40_000;
        let mean = times(freezing(1, 0.0), n).iter().sum::<u64>() as f64 / n as f64;
        // 1 ms + 4096 B / 100 MB/s + 2 % of 100 ms; sigma of the mean is 0.1 ms.
        assert!((mean / 1e6 - 3.04).abs() < 0.35, "{mean}");
    }

    #[test]
    fn two_servers_freeze_together_as_often_as_said() {
        for (common, low, high) in [(0.0, 0.0, 0.08), (0.85, 0.76, 0.93), (1.0, 1.0, 1.0)] {
            let (a, b) = (times(freezing(1, common), 20_000), times(freezing(2, common), 20_000));
            let froze = |time: &u64| *time > 1_050_000;
            let first = a.iter().filter(|time| froze(time)).count();
            let both = a.iter().zip(&b).filter(|(a, b)| froze(a) && a == b).count();
            let share = both as f64 / first as f64;
            assert!((low..=high).contains(&share), "{common}: {share} of {first}");
        }
    }

    /// Waiting time of M/G/1: lambda E[S^2] / (2 (1 - rho)).
    #[test]
    fn the_queue_is_that_of_pollaczek_and_khinchine() {
        let params = Params {
            base: Duration(Nanos::from_millis(10)),
            spread: [0.0, 2.0],
            rate: Rate(u64::MAX),
            queue_depth_max: 1 << 20,
            ..Params::default()
        };
        let (mut device, mut rng) = (server(params), Rng::new(2, "poisson"));
        let (mut now, mut waited, n) = (Nanos::ZERO, 0, 200_000u64);
        let mut out = Completions::new();
        for id in 0..n {
            now += Nanos((-libm::log(1.0 - rng.unit()) * 20e6) as u64);
            let request = Request { id: RequestId(id), ..Request::write(Lba(0), 8) };
            waited -= i64::try_from(now.0).unwrap();
            device.submit(now, request).unwrap();
        }
        while let Some(at) = device.next_event() {
            device.advance(at, &mut out);
        }
        waited += out.done.iter().map(|done| done.at.0 as i64).sum::<i64>();
        // E[S] = 10 ms, E[S^2] = 4/3 (10 ms)^2, rho = 0.5: 10 + 6.667 ms.
        let mean = waited as f64 / n as f64 / 1e6;
        assert!((mean / 16.667 - 1.0).abs() < 0.02, "{mean}");
    }

    /// N = X (R + Z): nothing else can be, so only the ends of the run are off.
    #[test]
    fn the_law_of_interactive_systems_holds() {
        for (offered, think) in [(80.0, Think::Exponential), (1000.0, Think::Constant)] {
            let params = customers::Params { offered, think, ..customers::Params::default() };
            let mut device = server(Params::default());
            let open: workload::Opener = &|_| Err(std::io::ErrorKind::NotFound.into());
            let rng = Rng::new(1, "workload");
            let context = workload::Context { rng, limits: device.limits(), open };
            let mut demand = params.build(&context).unwrap();
            let outcome =
                simulate(&mut *device, &mut *demand, Nanos::ZERO, Stop::default(), &mut NoProbe);
            let outcome = outcome.unwrap();
            let x = outcome.requests as f64 / 180.0;
            let r = outcome.response_ns as f64 / 1e9 / outcome.requests as f64;
            let customers = x * (r + 6.0 / offered);
            assert!((customers / 6.0 - 1.0).abs() < 0.01, "{customers}");
        }
    }

    #[test]
    fn values_out_of_range_name_their_key() {
        let error = |params: Params| {
            params.build(&Context { rng: Rng::new(1, "server") }).map(drop).unwrap_err().key
        };
        let freeze = Freeze { probability: 1.5, ..Freeze::default() };
        assert_eq!(error(Params { freeze, ..Params::default() }), "freeze.probability");
        assert_eq!(error(Params { spread: [2.0, 1.0], ..Params::default() }), "spread");
        assert_eq!(error(Params { rate: Rate(0), ..Params::default() }), "rate");
        assert_eq!(error(Params { queue_depth_max: 0, ..Params::default() }), "queue_depth_max");
    }
}

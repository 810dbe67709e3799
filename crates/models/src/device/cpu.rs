//! The processor's time: cores that carry requests to a device, and its answers back.
//!
//! # What it models
//! Each request takes time of a core twice: on its way to the device below (system call, block
//! layer, driver), and when the device has answered (interrupt, wake-up). A process has one core,
//! and a core does one thing at a time: what a process submits first, then answers as they came.
//! A process that was not the last one on its core, or that slept, has to be put on it first. Some
//! elevators hold a lock of the whole queue for a part of each request: cores wait for it in turn,
//! and busy meanwhile.
//!
//! # Equation
//! `IOPS <= cores / (submit + complete + lock.alone + switches x (switch + switch_more x
//! log2(1 + n)))`, `n` answers waiting for the core; `IOPS <= 1 / lock.passed` with several cores
//!
//! # Parameters
//! `device` (by name, or a table: an elevator, or a drive), `cores` (process `p` runs on core
//! `p mod cores`), `submit`, `complete`, `switch`, `switch_more`, `lock` (`alone`: held by the core
//! that had it last; `passed`: taken over from another core), `queue_depth_max`. The unit `core N`
//! says what each was busy with.
//!
//! # What it leaves out
//! Everything else that cores do: the program's own work, and what other programs take. Interrupts
//! that come in the middle of something, or several answers in one; time slices: a process of
//! depth 2 or more gives up its core after each request if others wait. The cost of data by size.
//! A process stays on its core. Cores whose answers pass each other list the writes that a power
//! cut took in the drive's order.
//!
//! # Validated against
//! Closed forms in its own tests: one core's bound, a lock's bound, a process that slept. Linux
//! 6.3.8 with four elevators on a Samsung 980 PRO: studies/real/linux-on-980-pro.toml.
//!
//! # References
//! Ren, Doekemeijer, Tehrany, Trivedi, "BFQ, Multiqueue-Deadline, or Kyber? Performance
//! Characterization of Linux Storage Schedulers in the NVMe Era", ICPE 2024.

use std::collections::{BTreeMap, VecDeque};

use config::device::Context;
use config::{ConfigError, Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::metric::{Counted, Counter, Metric};
use sim::{
    Busy, Completions, Counters, Device, Limits, Nanos, Request, RequestId, Survivors, Unit,
    UnitKind, Wear, snapshot_fields,
};

use crate::device::{DeviceModel, check_depth};
use crate::elevator::within;
use crate::raid::legs::Legs;

/// The one device below, as [`Legs`] counts.
const BELOW: usize = 0;

/// What cores count.
static SWITCHED: Counted = Counted {
    counters: &[Counter::new(
        "context_switches",
        "switches",
        "times that a process was put on a core",
    )],
    metrics: &[Metric::count(
        "context_switches",
        "switches",
        "times that a process was put on a core of a `cpu` while measuring",
        "context_switches",
    )],
};

/// A lock that every request takes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// How long a core holds it that had it last.
    pub alone: Duration,
    /// How long a core holds it that takes it over from another.
    pub passed: Duration,
}

/// Parameters of the processor's time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The device below.
    pub device: Box<DeviceModel>,
    /// Cores that processes run on.
    pub cores: u32,
    /// A core's time for a request on its way to the device.
    pub submit: Duration,
    /// A core's time for its answer.
    pub complete: Duration,
    /// A core's time to put another process on it.
    pub switch: Duration,
    /// More of that for each doubling of the answers that wait for the core.
    pub switch_more: Duration,
    /// A lock of all cores; absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
    /// Requests accepted at once.
    pub queue_depth_max: u32,
}

impl Default for Params {
    /// An NVMe drive without elevator on Linux 6.3.8 and one core of 2 GHz.
    fn default() -> Params {
        Params {
            device: Box::new(DeviceModel::Ssd(Default::default())),
            cores: 1,
            submit: Duration(Nanos(1_700)),
            complete: Duration(Nanos(1_120)),
            switch: Duration(Nanos(3_350)),
            switch_more: Duration(Nanos::ZERO),
            lock: None,
            queue_depth_max: 4096,
        }
    }
}

impl Params {
    /// What cores count.
    pub const COUNTED: sim::metric::Declarations = &[&SWITCHED];

    /// Build the cores and what is below them.
    ///
    /// # Errors
    /// What is wrong with the device, named after it, or a value out of range.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        check_depth(self.queue_depth_max)?;
        within("cores", self.cores, 1..=1024)?;
        let below = Legs::new(vec![("device", self.device.build_leg("device", context)?)]);
        Ok(Box::new(Cpu {
            limits: Limits { queue_depth_max: self.queue_depth_max, ..below.limits(BELOW) },
            below,
            params: self.clone(),
            cores: vec![Core::default(); self.cores as usize],
            inside: BTreeMap::new(),
            lock_free_at: Nanos::ZERO,
            lock_core: 0,
            switches: 0,
            done: Vec::new(),
        }))
    }
}

/// What a core does.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Doing {
    #[default]
    Nothing,
    Submit,
    /// Waiting for the lock, or holding it.
    Locked,
    Complete,
    /// The nanosecond in which a process that got its answer may submit: that goes before other
    /// answers.
    Returning,
}

sim::snapshot_enum!(Doing { Nothing, Submit, Locked, Complete, Returning });

#[derive(Clone, Default, Debug)]
struct Core {
    doing: Doing,
    request: Request,
    /// When that is done, or when it last did anything.
    until: Nanos,
    /// The process that was on it last.
    process: u32,
    submits: VecDeque<Request>,
    answers: VecDeque<Request>,
    /// Time by [`BUSY`].
    busy: [Nanos; 4],
}

snapshot_fields!(Core { doing, request, until, process, submits, answers, busy });

/// What a core can be busy with.
const BUSY: [&str; 4] = ["submit", "lock", "complete", "switch"];

#[derive(Clone)]
struct Cpu {
    params: Params,
    limits: Limits,
    below: Legs,
    cores: Vec<Core>,
    /// Requests that are not acknowledged.
    inside: BTreeMap<RequestId, Request>,
    lock_free_at: Nanos,
    /// Who had the lock last.
    lock_core: u32,
    switches: u64,
    done: Vec<(usize, RequestId)>,
}

snapshot_fields!(Cpu { below, cores, inside, lock_free_at, lock_core, switches });

impl Cpu {
    fn core_of(&self, request: &Request) -> usize {
        (request.process % self.params.cores) as usize
    }

    /// An idle core takes what comes next.
    fn start(&mut self, now: Nanos, index: usize) {
        let params = &self.params;
        let core = &mut self.cores[index];
        if core.doing != Doing::Nothing {
            return;
        }
        let (doing, request, work) = match core.submits.pop_front() {
            Some(request) => (Doing::Submit, request, params.submit.0),
            None => match core.answers.pop_front() {
                Some(request) => (Doing::Complete, request, params.complete.0),
                None => return,
            },
        };
        let mut time = work;
        // A core that stopped before now let its process sleep.
        if core.until < now || core.process != request.process {
            let waiting = libm::log2(1.0 + core.answers.len() as f64);
            let more = (params.switch_more.0.0 as f64 * waiting) as u64;
            let switch = params.switch.0 + Nanos(more);
            core.busy[3] += switch;
            time += switch;
            self.switches += 1;
        }
        core.busy[if doing == Doing::Submit { 0 } else { 2 }] += work;
        (core.doing, core.request, core.process) = (doing, request, request.process);
        core.until = now + time;
    }

    /// A core is done with what it did.
    fn finish(&mut self, now: Nanos, index: usize, out: &mut Completions) {
        let core = &mut self.cores[index];
        let request = core.request;
        match (core.doing, self.params.lock) {
            (Doing::Submit, Some(lock)) => {
                let same = self.lock_core == index as u32;
                let hold = if same { lock.alone.0 } else { lock.passed.0 };
                self.lock_free_at = self.lock_free_at.max(now) + hold;
                self.lock_core = index as u32;
                core.busy[1] += self.lock_free_at.since(now);
                (core.doing, core.until) = (Doing::Locked, self.lock_free_at);
                return;
            }
            (Doing::Complete, _) => {
                self.inside.remove(&request.id);
                out.complete(request.id, now);
                (core.doing, core.until) = (Doing::Returning, now + Nanos(1));
                return;
            }
            (Doing::Returning, _) => {}
            _ => self.below.submit(now, BELOW, request),
        }
        core.doing = Doing::Nothing;
        self.start(now, index);
    }

    fn next_core(&self) -> Option<Nanos> {
        let busy = self.cores.iter().filter(|core| core.doing != Doing::Nothing);
        busy.map(|core| core.until).min()
    }
}

impl Device for Cpu {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.inside.len() >= self.limits.queue_depth_max as usize {
            return Err(Busy);
        }
        self.inside.insert(request.id, request);
        let core = self.core_of(&request);
        self.cores[core].submits.push_back(request);
        self.start(now, core);
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        let next = [self.next_core(), self.below.next_event()];
        next.into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        while self.next_event().is_some_and(|at| at <= now) {
            let mut done = std::mem::take(&mut self.done);
            self.below.advance(now, out, &mut done);
            for (_, id) in done.drain(..) {
                let request = *self.inside.get(&id).expect("the device answers what it was given");
                let core = self.core_of(&request);
                self.cores[core].answers.push_back(request);
                self.start(now, core);
            }
            self.done = done;
            for core in 0..self.cores.len() {
                let Core { doing, until, .. } = self.cores[core];
                if doing != Doing::Nothing && until <= now {
                    self.finish(now, core, out);
                }
            }
        }
    }

    fn power_fail(&mut self, now: Nanos) -> Survivors {
        let below = self.below.power_fail(now).into_iter().flat_map(|survivors| survivors.lost);
        let lost = below.filter(|write| !self.inside.contains_key(&write.id)).collect();
        self.inside.clear();
        for core in &mut self.cores {
            *core = Core { busy: core.busy, until: now, ..Core::default() };
        }
        self.lock_free_at = now;
        Survivors { lost }
    }

    fn apply(&mut self, request: &Request) {
        self.below.apply(BELOW, request);
    }

    fn prefetch(&mut self, request: &Request) {
        self.below.prefetch(BELOW, request);
    }

    fn counters(&self, out: &mut Counters) {
        out.add("context_switches", self.switches);
        self.below.counters(out);
        for (index, core) in self.cores.iter().enumerate() {
            let busy = BUSY.into_iter().zip(core.busy).collect();
            let name = format!("core {index}");
            out.units.push(Unit { name, kind: UnitKind::Core, busy });
        }
    }

    fn wear(&self) -> Vec<Wear> {
        self.below.wear()
    }

    fn freeze(&mut self) {
        self.below.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use sim::{Lba, Rng, Stepper};

    use super::*;
    use crate::device::null;

    fn ns(n: u64) -> Duration {
        Duration(Nanos(n))
    }

    /// A device that takes 10 us for anything, whatever else it does.
    fn params() -> Params {
        let null = null::Params { latency: ns(10_000), ..Default::default() };
        Params {
            device: Box::new(DeviceModel::Null(null)),
            submit: ns(2_000),
            complete: ns(1_000),
            switch: ns(500),
            ..Params::default()
        }
    }

    fn host(params: &Params) -> Stepper<Box<dyn Device>> {
        Stepper::new(params.build(&Context { rng: Rng::new(1, "cpu") }).unwrap())
    }

    fn read(process: u32) -> Request {
        Request { process, ..Request::read(Lba(0), 8) }
    }

    /// Requests a second when `processes` of depth one go on for `n` requests.
    fn rate(params: &Params, processes: u32, n: u64) -> f64 {
        let mut device = params.build(&Context { rng: Rng::new(1, "cpu") }).unwrap();
        let (mut now, mut out, mut done) = (Nanos::ZERO, Completions::new(), 0);
        // The id says the process: id mod processes.
        for id in 0..u64::from(processes) {
            device.submit(now, Request { id: RequestId(id), ..read(id as u32) }).unwrap();
        }
        while done < n {
            now = device.next_event().unwrap();
            device.advance(now, &mut out);
            for completion in out.done.drain(..) {
                let id = completion.id.0 + u64::from(processes);
                let process = (id % u64::from(processes)) as u32;
                device.submit(now, Request { id: RequestId(id), ..read(process) }).unwrap();
                done += 1;
            }
        }
        done as f64 / now.as_secs_f64()
    }

    #[test]
    fn a_process_that_slept_pays_for_waking() {
        let mut host = host(&params());
        host.submit(read(0)).unwrap();
        // At time 0 nobody has slept: 2 us, 10 us in the device; then 0.5 us and 1 us.
        assert!(host.run_until(Nanos(13_499)).is_empty());
        assert_eq!(host.run_until(Nanos(13_500)).len(), 1);
    }

    #[test]
    fn a_core_is_the_bound_of_its_requests() {
        // 100 processes on one core: 2 us, 1 us, and 0.5 us for each change of process.
        let params = params();
        let got = rate(&params, 100, 10_000);
        assert!((got / (1e9 / 3_500.0) - 1.0).abs() < 0.01, "{got}");
        // Four cores carry four times as many.
        let got = rate(&Params { cores: 4, ..params.clone() }, 100, 10_000);
        assert!((got / (4e9 / 3_500.0) - 1.0).abs() < 0.02, "{got}");
        // About three are in the device and one on the core: 46 of 50 wait, and 96 of 100.
        let more = Params { switch_more: ns(100), ..params };
        let (few, many) = (rate(&more, 50, 100_000), rate(&more, 100, 100_000));
        let doubled = 1e9 / many - 1e9 / few;
        let expected = 100.0 * (97f64 / 47.0).log2();
        assert!((doubled / expected - 1.0).abs() < 0.05, "{doubled}, not {expected}");
    }

    #[test]
    fn a_lock_is_the_bound_of_all_cores() {
        let lock = Some(Lock { alone: ns(500), passed: ns(2_500) });
        let params = Params { lock, ..params() };
        let one = rate(&params, 100, 10_000);
        assert!((one / (1e9 / 4_000.0) - 1.0).abs() < 0.01, "one core has it alone: {one}");
        let ten = rate(&Params { cores: 10, ..params }, 100, 10_000);
        assert!((ten / (1e9 / 2_500.0) - 1.0).abs() < 0.03, "it is passed on: {ten}");
    }

    #[test]
    fn values_out_of_range_name_their_key() {
        let error = |params: Params| {
            params.build(&Context { rng: Rng::new(1, "cpu") }).map(drop).unwrap_err().to_string()
        };
        let message = error(Params { cores: 0, ..params() });
        assert_eq!(message, "cores: expected 1 to 1024, got 0");
        let null = null::Params { queue_depth_max: 0, ..Default::default() };
        let message = error(Params { device: Box::new(DeviceModel::Null(null)), ..params() });
        assert_eq!(message, "device.null.queue_depth_max: expected at least 1, got 0");
    }
}

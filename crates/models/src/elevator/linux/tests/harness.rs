//! A queue over a medium that writes down what it is given.

use std::sync::{Arc, Mutex};

use sim::{
    Busy, Bytes, Completion, Completions, Counters, Device, Lba, Limits, Nanos, Request, Stepper,
    Survivors, snapshot_fields,
};

use crate::elevator::ElevatorPolicy;
use crate::elevator::linux::queue::{Queue, Settings, extent};
use crate::elevator::{Context, Kind};
use crate::raid::legs::Legs;

/// One server with an arm: what begins where the last request ended costs no seek.
#[derive(Clone)]
pub(crate) struct Medium {
    seek: Nanos,
    per_sector: Nanos,
    depth: u32,
    log: Log,
    inside: std::collections::VecDeque<(Nanos, u64)>,
    free_at: Nanos,
    end: u64,
    /// Work of its own that nobody above can see, at every multiple of this time while it is busy.
    every: Nanos,
    ticked: Nanos,
}

snapshot_fields!(Medium { inside, free_at, end, ticked });

/// What a medium was given, in order.
type Log = Arc<Mutex<Vec<(Nanos, Request)>>>;

impl Medium {
    /// One request at a time, all of them in the same time.
    pub(crate) fn fixed(us: u64) -> Medium {
        Medium {
            seek: Nanos::from_micros(us),
            per_sector: Nanos(0),
            depth: 1,
            log: Log::default(),
            inside: std::collections::VecDeque::new(),
            free_at: Nanos::ZERO,
            end: u64::MAX,
            every: Nanos::MAX,
            ticked: Nanos::ZERO,
        }
    }

    /// The same with work of its own.
    pub(crate) fn ticking(self, us: u64) -> Medium {
        Medium { every: Nanos::from_micros(us), ..self }
    }

    /// The same with room for so many.
    pub(crate) fn deep(self, depth: u32) -> Medium {
        Medium { depth, ..self }
    }

    fn tick(&mut self, now: Nanos) {
        self.ticked = Nanos(now.0 / self.every.0 * self.every.0);
    }

    /// A disk: 8 ms for a seek, 50 MB a second.
    pub(crate) fn disk() -> Medium {
        let (seek, per_sector) = (Nanos::from_millis(8), Nanos(10_240));
        Medium { seek, per_sector, ..Medium::fixed(0) }
    }
}

impl Device for Medium {
    fn limits(&self) -> Limits {
        Limits {
            capacity: Bytes::from_gib(64),
            block_bytes: 512,
            queue_depth_max: self.depth,
            rotational: true,
            write_cache: false,
            discard: true,
        }
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.inside.len() >= self.depth as usize {
            return Err(Busy);
        }
        self.tick(now);
        self.log.lock().unwrap().push((now, request));
        let fixed = self.per_sector == Nanos::ZERO;
        let seek = if self.end == request.lba.0 && !fixed { Nanos::ZERO } else { self.seek };
        let transfer = Nanos(self.per_sector.0 * u64::from(request.sectors));
        self.end = request.end().0;
        self.free_at = self.free_at.max(now) + seek + transfer;
        self.inside.push_back((self.free_at, request.id.0));
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.inside.front().map(|&(at, _)| at.min(self.ticked.saturating_add(self.every)))
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        self.tick(now);
        while let Some(&(at, id)) = self.inside.front()
            && at <= now
        {
            self.inside.pop_front();
            out.complete(sim::RequestId(id), at);
        }
    }

    fn power_fail(&mut self, _now: Nanos) -> Survivors {
        self.inside.clear();
        Survivors::default()
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}

/// The settings of a queue that takes much and merges as the kernel does.
pub(crate) fn settings(kind: Kind, depth: u32) -> Settings {
    Settings {
        budget: true,
        bios_max: 4096,
        depth,
        // A pool that is no limit, however few the medium takes.
        nr_requests: kind.requests(None, 128),
        extent: extent(512, 128, true),
        unplug_thresh: 4,
        unplug_delay: Nanos::from_millis(3),
        processes: 8,
    }
}

/// A queue, stepped by hand.
pub(crate) struct Rig {
    pub(crate) host: Stepper<Queue>,
    log: Log,
}

impl Rig {
    /// This policy over this medium; `change` may alter the settings.
    pub(crate) fn with(
        policy: &ElevatorPolicy,
        medium: Medium,
        change: impl Fn(&mut Settings),
    ) -> Rig {
        let context = Context { nr_requests: 256, rotational: true };
        let built = policy.build(&context).unwrap();
        let mut settings = settings(built.kind, medium.depth);
        change(&mut settings);
        let log = Arc::clone(&medium.log);
        let below = Legs::new(vec![("device", Box::new(medium) as Box<dyn Device>)]);
        let queue = Queue::new(below, built.policy, built.kind, settings);
        Rig { host: Stepper::new(queue), log }
    }

    pub(crate) fn new(policy: &ElevatorPolicy, medium: Medium) -> Rig {
        Rig::with(policy, medium, |_| {})
    }

    /// Every request of the device in 1 ms, one at a time.
    pub(crate) fn named(name: &str) -> Rig {
        Rig::new(&ElevatorPolicy::from_name(name).unwrap(), Medium::fixed(1000))
    }

    pub(crate) fn submit(&mut self, request: Request) {
        self.host.submit(request).expect("the queue has room");
    }

    /// A read by a process.
    pub(crate) fn read(&mut self, process: u32, lba: u64, sectors: u32) {
        self.submit(Request { process, ..Request::read(Lba(lba), sectors) });
    }

    /// A write that nobody waits for.
    pub(crate) fn write(&mut self, process: u32, lba: u64, sectors: u32) {
        self.submit(Request { process, ..Request::write(Lba(lba), sectors) });
    }

    /// A write that a process waits for.
    pub(crate) fn write_sync(&mut self, process: u32, lba: u64, sectors: u32) {
        self.submit(Request { process, sync: true, ..Request::write(Lba(lba), sectors) });
    }

    pub(crate) fn until_us(&mut self, us: u64) -> Vec<Completion> {
        self.host.run_until(Nanos::from_micros(us))
    }

    /// (first sector, sectors) of what the device got so far.
    pub(crate) fn got(&self) -> Vec<(u64, u32)> {
        self.log.lock().unwrap().iter().map(|(_, r)| (r.lba.0, r.sectors)).collect()
    }

    /// First sectors of what the device got so far.
    pub(crate) fn order(&self) -> Vec<u64> {
        self.got().into_iter().map(|(lba, _)| lba).collect()
    }

    /// When the device got it, in microseconds, and from which sector on.
    pub(crate) fn times(&self) -> Vec<(u64, u64)> {
        self.log.lock().unwrap().iter().map(|(at, r)| (at.0 / 1000, r.lba.0)).collect()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().iter().map(|(_, r)| *r).collect()
    }

    /// Run until nothing is left, and say what the device got.
    pub(crate) fn drain(&mut self) -> Vec<u64> {
        self.host.drain();
        self.order()
    }

    pub(crate) fn level(&self, name: &str) -> u64 {
        let mut counters = Counters::default();
        self.host.device.counters(&mut counters);
        let level = counters.levels.iter().find(|(known, _)| known == name);
        level.map_or(0, |(_, level)| *level)
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        let mut counters = Counters::default();
        self.host.device.counters(&mut counters);
        counters.get(name)
    }
}
